//! The live view of a run, and the changes of its rate that the view asks for.

use std::mem;

use prony_base::units::Nanos;
use prony_io::Live;

use super::{Driver, Status};
use crate::protocol::{self, Order};
use crate::view::{self, HostView, Shown};

impl Driver<'_> {
    /// Pass new rate changes on to all workers.
    pub(super) fn pass_rate_on(&mut self) {
        if !self.job.adjustable_rate {
            return;
        }
        let changes = self.control.rate_changes();
        for change in changes.iter().skip(self.rate_changes) {
            let order = Order::Rate { factor: change.factor, from_ns: change.from.0 };
            let line = protocol::line(&order);
            for index in 0..self.workers.len() {
                if !self.workers[index].is_over() {
                    self.engine.send(index, &line);
                }
            }
        }
        self.rate_changes = changes.len();
    }

    /// Show the run in the live view.
    pub(super) fn show(&mut self) {
        if self.watchers.view.is_none() {
            return;
        }
        if mem::take(&mut self.shown.is_old) {
            self.refresh();
        }
        self.shown.live.now = Nanos(self.elapsed().as_nanos() as u64);
        if let Some(view) = &mut self.watchers.view {
            view(&self.shown.live, &self.shown.hosts);
        }
    }

    /// Add up what the workers have reported.
    fn refresh(&mut self) {
        let Status { started, replies, failed, .. } = self.status();
        let mut detail = view::detail();
        for source in &self.sources {
            view::add(&mut detail, &source.reported.last);
        }
        let running = || self.sources.iter().filter(|source| !self.is_lost_whole(source));
        let last = view::common(running().map(|source| &source.recent));
        let hosts = (0..self.sources.len()).map(|index| self.host_view(index)).collect();
        let in_flight = started.saturating_sub(replies + failed);
        let detail = Some(detail);
        let live = Live { started, replies, failed, in_flight, last, detail, ..Live::default() };
        self.shown = Shown { live, hosts, is_old: false };
    }

    /// The line of a host, or of a group of hosts.
    fn host_view(&self, index: usize) -> HostView {
        let source = &self.sources[index];
        let workers = &self.workers[source.workers.clone()];
        let is_lost_whole = self.is_lost_whole(source);
        HostView {
            name: match workers.len() {
                1 => self.label(source.workers.start),
                _ => format!("#{}-{}", source.workers.start + 1, source.workers.end),
            },
            hosts: workers.len(),
            lost_hosts: workers.iter().filter(|worker| worker.lost.is_some()).count(),
            failed: source.reported.last.failed,
            second: source.recent.newest().map(|interval| interval.cell.clone()),
            is_done: !is_lost_whole && self.is_over(source),
            lost: workers[0].lost.as_ref().filter(|_| is_lost_whole).map(|loss| loss.cause.clone()),
        }
    }

    /// The name of a worker's host, unique in the run.
    fn label(&self, index: usize) -> String {
        match self.workers[index].host.as_str() {
            "" => format!("#{}", index + 1),
            host if self.workers.iter().filter(|other| other.host == host).count() > 1 => {
                format!("{host}#{}", index + 1)
            }
            host => host.to_owned(),
        }
    }
}
