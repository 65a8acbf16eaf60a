//! What is certain of the figures of a run that its meter disturbed, for comparisons of runs.

use prony_base::fault::Fault;
use prony_plan::threshold::Counted;
use prony_tally::record::hist::Hist;

use super::super::Summary;
use super::super::verdict::Reason;
use super::meter::{Error, Faults};
use super::shares::of_meter;

/// The ends between which the true figure lies; `None`: it has no such end.
#[derive(Clone, Copy, Debug)]
pub struct Between<T> {
    /// It is at least this.
    pub least: Option<T>,
    /// It is at most this.
    pub most: Option<T>,
}

/// What is certain of the figures of a run that its meter disturbed.
#[derive(Clone, Copy, Debug)]
pub struct Certain<'a> {
    /// The response times, by their quantiles and their mean.
    pub times: Between<&'a Hist>,
    /// The completed rate, per second.
    pub rate: Between<f64>,
    /// The number of failed requests.
    pub failed: Between<u64>,
}

impl Summary {
    /// What is certain of the figures if the meter disturbed the run. `None` if it did not, or if
    /// the user accepts the figures as they are.
    pub fn certain(&self) -> Option<Certain<'_>> {
        let faults = self.faults_of_response();
        if faults == Faults::default() || self.run.accepted.invalid {
            return None;
        }
        let t = &self.main;
        let response = &t.times.response;
        let bound = t.without_meter.as_deref().map(|bound| &bound.times);
        let bound = bound.filter(|bound| bound.count() == response.count());
        let least = bound.or_else(|| (!faults.late).then_some(response));
        let least = least.filter(|_| faults.leaves_lower(Error::Larger));
        let most = faults.leaves_upper(Error::Larger);
        let failed = t.failed.saturating_sub(of_meter(t, Counted::Errors));
        let rate = faults.leaves_lower(Error::Smaller).then(|| t.rate());
        Some(Certain {
            times: Between { least, most: most.then_some(response) },
            rate: Between {
                least: rate,
                most: rate.filter(|_| !faults.short).and_then(|rate| self.rate_most(rate, least)),
            },
            failed: Between {
                least: faults.leaves_lower(Error::Larger).then_some(failed),
                most: most.then_some(t.failed),
            },
        })
    }

    /// What is wrong with the meter, for response times. These count from when a request is due. A
    /// request that is sent late leaves no queue earlier, so a load of which all requests were
    /// sent, if late, was offered.
    fn faults_of_response(&self) -> Faults {
        let t = &self.main;
        let all_sent = t.overdue == 0 && t.unfinished == 0 && t.fault(Fault::Dropped) == 0;
        let mut faults = Faults::default();
        for reason in self.reasons_of_load() {
            match reason {
                Reason::RateMissed { .. } if all_sent => faults.late = true,
                reason => faults.add(&reason),
            }
        }
        faults
    }

    /// The most that a late meter can have kept the completed rate from: that of the schedule, or
    /// in a closed loop (Little's law) as much higher as its times can be shorter.
    fn rate_most(&self, rate: f64, shortest: Option<&Hist>) -> Option<f64> {
        let t = &self.main;
        let most = if self.sent_rate().is_some() {
            Some(t.per_second(t.started))
        } else {
            let (mean, least) = (t.times.response.mean_ns()?, shortest?.mean_ns()?);
            (least > 0.0).then(|| rate * mean / least)
        };
        most.map(|most| most.max(rate))
    }
}
