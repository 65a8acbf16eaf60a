//! A run on several hosts: which share each had, how its own meter did, and which share of the load
//! was never offered.

use prony_base::meter::CpuPressure;
use prony_base::units::Span;
use prony_plan::plan::{Plan, Shard};
use serde::{Deserialize, Serialize};

use super::{Reason, Summary, Verdict};

/// The version of [`Part`].
pub const PART_FORMAT: u32 = 2;

/// What the report of one share says of the run that it is a part of, so that it is merged with
/// the other shares of that run only. Which share it is stands in [`Plan::shard`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// [`PART_FORMAT`].
    pub format: u32,
    /// A digest of the whole plan without what reports hide, in hexadecimal digits.
    pub plan_digest: String,
    /// The host's name.
    pub host: String,
    /// The agreed start of all shares, in seconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_unix: Option<f64>,
    /// How long after that instant, by this host's clock, its last thread started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_late: Option<Span>,
}

/// The hosts of a merged run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// Into how many shares the plan was split.
    pub shards: u32,
    /// The shares that were reported, in their order.
    pub hosts: Vec<Host>,
    /// The shares (from 0) of which nothing was reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
    /// The agreed start of all shares, in seconds since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_unix: Option<f64>,
}

/// One host of a merged run: what its meter says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, unique within the run.
    pub name: String,
    /// Its share, from 0.
    pub shard: u32,
    /// How many of the run's workers are its own; they stand in the order of the hosts.
    pub workers: usize,
    /// Measured requests that started.
    pub started: u64,
    /// Those among them that were sent.
    pub sent: u64,
    /// Successful replies.
    pub replies: u64,
    /// Failed requests.
    pub failed: u64,
    /// The share of its time in which its busiest thread worked, 0 to 1.
    pub busy: f64,
    /// p99 of its send lag; `None` where the sample cannot carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_lag_p99: Option<Span>,
    /// Processor time that its machine kept from it.
    #[serde(default)]
    pub cpu_pressure: CpuPressure,
    /// How long after the agreed instant its last thread started, by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_late: Option<Span>,
    /// Its clock against that of the driver, where one measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
    /// How it was lost, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Loss>,
    /// Why its own figures cannot be defended: reasons of the verdict [`Verdict::ClientLimited`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Reason>,
}

/// A host's clock against the driver's (Cristian's method: the fastest of several round trips).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The host's clock less the driver's, in nanoseconds, before the start.
    pub offset_ns: i64,
    /// The largest error of that: half of the round trip.
    pub bound: Span,
    /// How far the offset had moved by the end of the run, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ns: Option<i64>,
}

/// The loss of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// When it was noticed, counted from the start of the run.
    pub after: Span,
    /// Why, as the end of a sentence.
    pub cause: String,
    /// Which share of its load it had offered until then, 0 to 1.
    pub offered: f64,
}

impl Hosts {
    /// The share of the planned load that was offered, 0 to 1: every host has its part of the plan,
    /// and one that was lost had offered a share of that.
    pub fn offered(&self, plan: &Plan) -> f64 {
        let of = self.shards.max(1);
        let of_host = |host: &Host| {
            let part = plan.deal_of(Shard { index: host.shard, of }).part();
            part * host.lost.as_ref().map_or(1.0, |loss| loss.offered)
        };
        self.hosts.iter().map(of_host).sum::<f64>().min(1.0)
    }

    /// Hosts that were lost.
    pub fn lost(&self) -> impl Iterator<Item = (&Host, &Loss)> {
        self.hosts.iter().filter_map(|host| Some((host, host.lost.as_ref()?)))
    }

    /// Whether a part of the load is missing.
    pub fn is_partial(&self) -> bool {
        !self.missing.is_empty() || self.lost().next().is_some()
    }

    /// The time between the first and the last start, by the hosts' own clocks; `None` where there
    /// was no agreed instant.
    pub fn start_skew(&self) -> Option<Span> {
        let late = || self.hosts.iter().filter_map(|host| host.start_late);
        Some(late().max()? - late().min()?)
    }
}

impl Host {
    /// What a host's own report says of it.
    pub fn of(name: String, part: &Summary) -> Self {
        let t = &part.main;
        let limits = part.verdict().reasons;
        let is_own =
            |reason: &Reason| reason.verdict() == Verdict::ClientLimited && !reason.is_counted();
        Self {
            name,
            shard: part.plan.shard.index,
            workers: part.workers.len(),
            started: t.started,
            sent: t.sent,
            replies: t.replies,
            failed: t.failed,
            busy: part.busiest().map_or(0.0, |(_, share)| share),
            send_lag_p99: t.times.lag.quantile(0.99),
            cpu_pressure: part.run.cpu_pressure,
            start_late: part.run.part.as_ref().and_then(|p| p.start_late),
            clock: None,
            lost: None,
            limits: limits.into_iter().filter(is_own).collect(),
        }
    }
}

impl Reason {
    /// Whether the merged counts of all hosts say it as well.
    fn is_counted(&self) -> bool {
        matches!(self, Self::ResourceExhausted { .. } | Self::LittlesLawMismatch { .. })
    }
}

impl Summary {
    /// What limited single hosts: one that could not keep up distorts the figures of all.
    pub(super) fn host_limits(&self) -> impl Iterator<Item = Reason> {
        let hosts = self.run.hosts.iter().flat_map(|hosts| &hosts.hosts);
        hosts.flat_map(|host| {
            host.limits.iter().map(|limit| Reason::OnHost {
                host: host.name.clone(),
                reason: Box::new(limit.clone()),
            })
        })
    }

    /// The load that was never offered.
    pub(super) fn partial_limit(&self) -> Option<Reason> {
        let hosts = self.run.hosts.as_ref().filter(|hosts| hosts.is_partial())?;
        Some(Reason::Partial {
            offered: hosts.offered(&self.plan),
            missing: hosts.missing.clone(),
            shards: hosts.shards,
            lost: hosts.lost().map(|(host, _)| host.name.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{closed, meter, summary, tally};

    fn host(name: &str, shard: u32, lost: Option<f64>) -> Host {
        let part = summary(closed(), tally(), meter(0));
        let lost = lost.map(|offered| Loss { offered, ..Loss::default() });
        Host { shard, lost, ..Host::of(name.into(), &part) }
    }

    #[test]
    fn offered_load_counts_missing_shards_and_lost_hosts() {
        let mut hosts = Hosts {
            shards: 4,
            hosts: (0..4).map(|i| host(&format!("h{i}"), i, None)).collect(),
            ..Hosts::default()
        };
        let offered = |hosts: &Hosts| (hosts.offered(&closed()) * 1e6).round() / 1e6;
        assert_eq!((offered(&hosts), hosts.is_partial()), (1.0, false));
        hosts.hosts[1].lost = Some(Loss { offered: 0.5, ..Loss::default() });
        // Of ten users, the first two hosts have three each.
        assert_eq!((offered(&hosts), hosts.is_partial()), (0.85, true));
        hosts.hosts.pop();
        hosts.missing = vec![3];
        assert_eq!((offered(&hosts), hosts.lost().count()), (0.65, 1));
    }

    #[test]
    fn start_skew_is_the_spread_of_the_starts() {
        let late = |us: u64| Some(Span::from_micros(us));
        let mut hosts = Hosts { shards: 2, ..Hosts::default() };
        assert_eq!(hosts.start_skew(), None);
        hosts.hosts = vec![host("a", 0, None), host("b", 1, None)];
        assert_eq!(hosts.start_skew(), None);
        (hosts.hosts[0].start_late, hosts.hosts[1].start_late) = (late(40), late(310));
        assert_eq!(hosts.start_skew(), late(270));
    }
}
