//! Where the driver's figures come from during a run: each worker, or each aggregator with its
//! group of workers.

use std::mem;
use std::ops::Range;
use std::time::Instant;

use prony_base::units::Span;

use super::{Driver, OnLoss, Worker};
use crate::engine::Event;
use crate::lost::Reported;
use crate::protocol::Tick;
use crate::relay::{Share, Tally};
use crate::view::Recent;

/// One worker, or a group of workers.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) workers: Range<usize>,
    pub(super) heard: Option<Instant>,
    pub(super) reported: Reported,
    pub(super) recent: Recent,
}

/// The sources of this number of workers in groups.
pub(super) fn all(workers: usize, group: usize) -> Vec<Source> {
    let starts = (0..workers).step_by(group.max(1));
    let source = |start: usize| Source {
        workers: start..workers.min(start + group.max(1)),
        ..Source::default()
    };
    starts.map(source).collect()
}

impl Driver<'_> {
    /// The source that has this worker.
    pub(super) fn source_of(&self, worker: usize) -> usize {
        worker / self.sources[0].workers.len()
    }

    /// Whether all of its workers are done or lost.
    pub(super) fn is_over(&self, source: &Source) -> bool {
        self.workers[source.workers.clone()].iter().all(Worker::is_over)
    }

    /// Whether all of its workers are lost.
    pub(super) fn is_lost_whole(&self, source: &Source) -> bool {
        self.workers[source.workers.clone()].iter().all(|worker| worker.lost.is_some())
    }

    /// The name of a group in sentences.
    pub(super) fn group_name(&self, group: usize) -> String {
        let Range { start, end } = self.sources[group].workers;
        format!("workers {} to {end} of {}", start + 1, self.workers.len())
    }

    /// Process an event of an aggregator, during the run or after it.
    pub(super) fn take_of_group(&mut self, event: Event) {
        match event {
            Event::Tally(group, tally) => {
                self.sources[group].heard = Some(Instant::now());
                let Tally { tick, warm_up } = *tally;
                self.add(group, tick, warm_up.map(|tick| *tick));
            }
            Event::Over(group, shares) => {
                let workers = self.sources[group].workers.clone();
                for (index, share) in workers.zip(shares) {
                    match share {
                        Share::Report(report) if self.workers[index].lost.is_none() => {
                            self.complete(index, &report);
                        }
                        Share::Lost(kept) => self.workers[index].kept = Some(kept),
                        Share::Report(_) => {}
                    }
                }
            }
            Event::GroupGone(group, cause) => self.lose_source(group, cause),
            Event::Line(..) | Event::Gone(..) => {}
        }
    }

    /// Add a tick of a worker, or the sums of a group.
    pub(super) fn add(&mut self, source: usize, mut tick: Tick, warm_up: Option<Tick>) {
        let new = [mem::take(&mut tick.blocks), mem::take(&mut tick.service_blocks)];
        for (blocks, new) in self.blocks.iter_mut().zip(new) {
            blocks.extend(new.into_iter().map(|new| (Span(new.begin_ns), new.block)));
        }
        let source = &mut self.sources[source];
        source.recent.add(tick.interval.as_ref());
        source.reported.add_sums(tick, warm_up, self.job.plan.warmup);
        self.shown.is_old = true;
    }

    /// A worker is lost, or an aggregator, and with it all of its group that was running.
    pub(super) fn lose_source(&mut self, source: usize, cause: String) {
        let workers = self.sources[source].workers.clone();
        if workers.len() == 1 && self.engine.group() == 1 {
            return self.lose(workers.start, cause);
        }
        if self.is_over(&self.sources[source]) {
            return;
        }
        let after = Span(self.elapsed().as_nanos() as u64);
        let (name, seconds) = (self.group_name(source), after.as_secs_f64());
        let sentence = format!("the aggregator of {name} was lost after {seconds:.1} s: {cause}");
        (self.watchers.say)(&sentence);
        for index in workers {
            if !self.workers[index].is_over() {
                self.is_lost(index, after, format!("its aggregator was lost: {cause}"));
            }
        }
        if self.job.on_loss == OnLoss::Stop {
            self.stop_all(false);
        }
    }
}
