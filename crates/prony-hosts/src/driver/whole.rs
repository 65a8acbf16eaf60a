//! The report of the whole run.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Load, Plan};
use prony_run::error::Error;
use prony_run::merge;
use prony_stats::summary::{ClockOffset, Loss, Part, Summary};

use super::Driver;
use crate::lost::{self, Reported};

impl Driver<'_> {
    /// The plan, with the connection limit that the hosts had. Reports have an excerpt of it.
    fn carried_out(&self, reported: &Plan) -> Plan {
        let mut plan = self.job.plan.clone();
        if let (Load::Open { connections, .. }, Load::Open { connections: lowered, .. }) =
            (&mut plan.load, &reported.load)
        {
            *connections = *lowered;
        }
        let changes = self.control.rate_changes();
        let begin = Nanos::ZERO + plan.warmup;
        if let Some(rate) = plan.load.adjustable_rate().filter(|_| !changes.is_empty()) {
            *rate = rate.with_changes(begin, &changes);
        }
        plan
    }

    /// The report of the whole.
    pub(super) fn merged(&mut self) -> Result<Summary, Error> {
        let mut parts = Vec::new();
        for index in 0..self.workers.len() {
            let report = self.workers[index].report.clone();
            parts.push((self.name(index), report.unwrap_or_else(|| self.of_lost(index))));
        }
        let mut whole = merge::merge(parts, false)?;
        whole.plan = self.carried_out(&whole.plan);
        whole.run.plan_size = None;
        whole.run.command = self.job.command.clone();
        whole.run.interrupted = self.control.is_interrupted();
        let window = whole.main.window().0.max(1);
        let warmup = whole.plan.warmup;
        for host in whole.run.hosts.iter_mut().flat_map(|hosts| &mut hosts.hosts) {
            let index = host.shard as usize;
            let worker = &self.workers[index];
            host.clock = worker.clock.offset().map(|clock| ClockOffset {
                drift_ns: worker.after.offset().map(|after| after.offset_ns - clock.offset_ns),
                ..clock
            });
            // A worker that was silent at the end may have sent more requests than are known.
            let until = Span(self.reported(index).last.now_ns) - warmup;
            host.lost = worker
                .lost
                .clone()
                .map(|loss| Loss { offered: (until.0 as f64 / window as f64).min(1.0), ..loss });
        }
        Ok(whole)
    }

    /// What a worker had reported, alone or with its group.
    fn reported(&self, index: usize) -> &Reported {
        let of_group = &self.sources[self.source_of(index)].reported;
        self.workers[index].kept.as_deref().unwrap_or(of_group)
    }

    /// The report of a worker that was lost.
    fn of_lost(&self, index: usize) -> Summary {
        let at_unix = self.start.map(|start| start.unix_ns as f64 / 1e9);
        let share = self.job.plan.shard(index as u32, self.job.hosts);
        let host = self.workers[index].host.clone();
        let part = Part { host, ..merge::part_of(&self.job.plan, at_unix) };
        let workers = &self.sources[self.source_of(index)].workers;
        let is_alone = workers.len() == 1 || self.workers[index].kept.is_some();
        match is_alone {
            true => self.reported(index).summary(share, part, Some(lost::note(&self.name(index)))),
            // Nobody knows which of the group sent what.
            false if index == workers.start => {
                let note = lost::note_of_group(&self.group_name(self.source_of(index)));
                self.reported(index).summary(share, part, Some(note))
            }
            false => Reported::default().summary(share, part, None),
        }
    }
}
