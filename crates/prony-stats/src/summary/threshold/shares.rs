//! Shares of what was counted: failures, checks, replies in time.

use prony_base::fault::{Fault, FaultClass};
use prony_plan::threshold::Counted;
use prony_tally::record::Tally;

use super::super::confidence::{Interval, t_quantile, wilson};
use super::super::student::t_critical;
use super::binomial::{LEVEL, Sample};
use super::known::{Evidence, Known};

/// The fewest intervals of the series from which a variance is estimated.
const CELLS_LEAST: usize = 8;
/// Into how many batches they are joined at most.
const BATCHES_MAX: usize = 32;
/// Degrees of freedom where the variance is that of independent events.
pub(super) const KNOWN: f64 = 1e9;

/// How many of them there are, and of how many; `None` where the run has no such thing.
pub(super) fn counts(t: &Tally, counted: Counted) -> Option<(u64, u64)> {
    let ended = t.replies + t.failed;
    let replied = || t.statuses.values().sum();
    let class = |class: u8| t.statuses.iter().filter(move |(s, _)| **s / 100 == u16::from(class));
    Some(match counted {
        Counted::Errors => (t.failed, ended),
        Counted::Timeouts => {
            let timeouts = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Timeout);
            (timeouts.map(|f| t.fault(f)).sum(), ended)
        }
        Counted::Error(fault) => (t.fault(fault), ended),
        Counted::Status(status) => (t.statuses.get(&status).copied().unwrap_or(0), replied()),
        Counted::StatusClass(c) => (class(c).map(|(_, n)| n).sum(), replied()),
        Counted::Unfinished => (t.unfinished, t.started),
        Counted::Retries => (t.retries, t.started),
        Counted::MessagesUnsent => {
            let messages = t.stream_messages.as_ref()?;
            (messages.unsent, messages.sent + messages.unsent)
        }
        Counted::Good => (t.tokens.as_ref()?.good, ended),
        Counted::Check | Counted::Checks | Counted::GroupsCompleted | Counted::GroupsFailed => {
            return None;
        }
        Counted::SessionsCompleted | Counted::SessionsFailed => {
            let s = t.sessions.as_ref()?;
            let n = if counted == Counted::SessionsFailed { s.failed } else { s.completed };
            (n, s.completed + s.failed)
        }
    })
}

/// How many of these a late or exhausted meter can have caused itself.
pub(super) fn of_meter(t: &Tally, counted: Counted) -> u64 {
    let all = |is_meant: &dyn Fn(Fault) -> bool| -> u64 {
        let own = |f: &Fault| {
            matches!(f.class(), FaultClass::Meter | FaultClass::Timeout) || *f == Fault::GivenUp
        };
        Fault::ALL.into_iter().filter(own).filter(|f| is_meant(*f)).map(|f| t.fault(f)).sum()
    };
    match counted {
        Counted::Errors | Counted::Timeouts | Counted::SessionsFailed | Counted::GroupsFailed => {
            all(&|_| true)
        }
        Counted::Error(fault) => all(&|f| f == fault),
        Counted::Unfinished => t.unfinished,
        _ => 0,
    }
}

/// A share of what was counted, with as many independent events as the failures over time are
/// worth.
pub(super) fn share<'a>(t: &Tally, n: u64, of: u64) -> Known<'a> {
    clustered_share(n, of, || clustering(t))
}

/// The same, with a design effect and its degrees of freedom.
pub(super) fn clustered_share<'a>(
    n: u64,
    of: u64,
    clustering: impl Fn() -> (f64, f64),
) -> Known<'a> {
    if of == 0 {
        return Known::NOTHING;
    }
    let (k, all) = (n as f64, of as f64);
    let (effect, freedom) = clustering();
    // Wilson's interval.
    let (lo, hi) = wilson(k / all, all / effect, t_quantile(freedom));
    // A count of all or nothing is one end of its interval, whatever rounding makes of it.
    let (lo, hi) = (if n == 0 { 0.0 } else { lo }, if n == of { 1.0 } else { hi });
    // An effect that is estimated from few bursts is worth less.
    let sure = (t_critical(2.0 * LEVEL, KNOWN) / t_critical(2.0 * LEVEL, freedom)).powi(2);
    let sample = Sample { k, n: all, independent: all / effect * sure };
    Known {
        value: Some(k / all),
        interval: Ok(Some(Interval { lo, hi })),
        evidence: Evidence::Share(sample),
    }
}

/// How much larger the variance of the share of failures is than that of independent ones, from
/// batches of the series (the ratio estimator of Cochran 1977), and its degrees of freedom. 1 where
/// the run is too short to say, or nothing failed.
pub(super) fn clustering(t: &Tally) -> (f64, f64) {
    let cells = t.series.cells().iter();
    clustering_of(&cells.map(|c| (c.failed, c.failed + c.replies)).collect::<Vec<_>>())
}

/// The same for equal intervals of time, each with the numbers of failures and of all.
pub(super) fn clustering_of(cells: &[(u64, u64)]) -> (f64, f64) {
    if cells.len() < CELLS_LEAST {
        return (1.0, KNOWN);
    }
    let k = cells.len().min(BATCHES_MAX);
    let batches = (0..k).map(|i| {
        let batch = &cells[i * cells.len() / k..(i + 1) * cells.len() / k];
        let failed: u64 = batch.iter().map(|c| c.0).sum();
        let all: u64 = batch.iter().map(|c| c.1).sum();
        (failed as f64, all as f64)
    });
    let batches: Vec<(f64, f64)> = batches.collect();
    let (failed, ended) = batches.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let share = failed / ended;
    let independent = ended * share * (1.0 - share);
    if independent.is_nan() || independent <= 0.0 {
        return (1.0, KNOWN);
    }
    let squares: f64 = batches.iter().map(|(f, n)| (f - share * n).powi(2)).sum();
    let k = k as f64;
    let effect = squares * k / (k - 1.0) / independent;
    // Where the failures come in a few bursts, the batches without any say nothing of how the
    // bursts vary.
    let failing = batches.iter().filter(|(failed, _)| *failed > 0.0).count() as f64;
    if effect > 1.0 { (effect, (failing - 1.0).max(1.0)) } else { (1.0, KNOWN) }
}
