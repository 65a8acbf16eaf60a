//! What is wrong with a run, for readers who do not know the terms of the whole report: a sentence
//! each.

use prony_base::units::Span;
use prony_stats::summary::{Judgment, Reason, Summary};

use super::words::{lacked_time, more_threads, noun, other_protocol, reason};
use super::{main_times, units};

/// What is wrong, the most important first; empty if the run is valid. All that a busy machine did
/// to the meter is one sentence.
pub(crate) fn wrong(judgment: &Judgment, summary: &Summary) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut late: Vec<Option<&str>> = Vec::new();
    for why in &judgment.reasons {
        let host = match why {
            Reason::OnHost { host, .. } => Some(host.as_str()),
            _ => None,
        };
        if !lacked_time(why) {
            sentences.push(other(why, summary));
        } else if !late.contains(&host) {
            late.push(host);
            sentences.push(match why {
                Reason::OnHost { host, reason } => {
                    format!("host {host}: {}", cause(&[reason], summary).0)
                }
                _ => crowded(&judgment.reasons, summary),
            });
        }
    }
    sentences
}

/// A reason that is not the meter's lack of time.
fn other(why: &Reason, summary: &Summary) -> String {
    match why {
        Reason::Failures { share, sessions, fault } => {
            let of_sessions = sessions.map_or_else(String::new, |sessions| {
                format!(" and {} of the sessions", units::percent(sessions))
            });
            let said = other_protocol(*fault, summary);
            let said = said.map_or_else(String::new, |said| format!(": {said}"));
            format!("{} of the {}{of_sessions} failed{said}", units::percent(*share), noun(summary))
        }
        Reason::Autocorrelated { .. } => {
            "response times rise and fall slowly during the run: run much longer (-d)".into()
        }
        why => reason(why, summary),
    }
}

/// Why the meter lacked processor time, what follows for the figures, and what to do.
fn crowded(reasons: &[Reason], summary: &Summary) -> String {
    let all: Vec<&Reason> = reasons.iter().filter(|why| lacked_time(why)).collect();
    let (cause, advice) = cause(&all, summary);
    let range = range(summary).map_or_else(String::new, |range| format!("; {range}"));
    format!("{cause}{range}: {advice}")
}

/// The most likely cause of these reasons, and what to do about it.
fn cause(reasons: &[&Reason], summary: &Summary) -> (String, String) {
    let any = |is: fn(&Reason) -> bool| reasons.iter().any(|why| is(why));
    let sent = reasons.iter().find_map(|why| match why {
        &&Reason::RateMissed { target, sent } => Some(format!(
            ", and sent {} of the {} asked for",
            units::rate(sent),
            units::rate(target)
        )),
        _ => None,
    });
    let (cause, advice) = if any(|why| matches!(why, Reason::CpuThrottled { .. })) {
        (
            "the CPU quota of its container slowed prony down".to_owned(),
            "raise the quota".to_owned(),
        )
    } else if any(|why| matches!(why, Reason::CpuStolen { .. })) {
        let cause = "the hypervisor gave CPU time of this machine to others";
        (cause.to_owned(), "use a quieter host".to_owned())
    } else if let Some(here) = &summary.run.local_target {
        let cores = units::counted(here.cores.into(), "busy core", "busy cores");
        let advice = "use another machine, or a lower load".to_owned();
        (format!("server and prony share {cores}"), advice)
    } else {
        let cause = if any(|why| matches!(why, Reason::RunQueueDelay { .. })) {
            "other programs kept prony from the CPU"
        } else if any(|why| matches!(why, Reason::CpuSaturated { .. })) {
            "prony used its CPU time up"
        } else if any(|why| matches!(why, Reason::EventLoopStall { .. })) {
            "this machine woke prony late"
        } else {
            "prony was late"
        };
        let advice =
            format!("use {}a lower load", more_threads(summary, ", a quieter machine, or "));
        (cause.to_owned(), advice)
    };
    (cause + &sent.unwrap_or_default(), advice)
}

/// Between which times the highest known percentile is, as the meter made times longer only.
fn range(summary: &Summary) -> Option<String> {
    let time = *main_times::of(summary).first()?;
    let of = |&(name, q): &(&str, f64)| {
        let (measured, added) = (time.times.quantile(q)?, time.added(q)?);
        let least = Span(measured.0.saturating_sub(added.0));
        let what = if time.name == "response" { String::new() } else { format!("{} ", time.name) };
        let (low, high) = (units::span(least), units::span(measured));
        // The unit is said once if it is the same.
        let low = match (low.split_once(' '), high.split_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
            _ => low,
        };
        Some(format!("{what}{name} is between {low} and {high}"))
    };
    main_times::SHOWN.iter().rev().find_map(of)
}
