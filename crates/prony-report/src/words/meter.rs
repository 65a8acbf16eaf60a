//! Sentences about the meter itself: what it added to the times, and what it sent late.

use prony_base::units::Span;
use prony_stats::summary::{LateSend, METER_ADDED, Reason, Summary};
use prony_tally::record::StreamTime;

use super::more_threads;
use crate::units;

/// Upper bounds of what the meter itself added to the response times; `None` where unknown.
pub fn meter_added(summary: &Summary) -> Option<String> {
    at_most(|q| summary.main.meter_added(q))
}

/// The same for each time in streams, and for the duration of each group, with its name.
pub fn meter_added_to_parts(summary: &Summary) -> Vec<(String, String)> {
    let main = &summary.main;
    let of_time = |time| {
        let added = at_most(|q| main.meter_added_in_streams(time, q))?;
        Some((time.timed().label().to_owned(), added))
    };
    let groups = summary.plan.groups.iter().zip(&main.groups);
    let of_groups = groups.filter_map(|(group, tally)| {
        Some((format!("group {}", group.name), at_most(|q| tally.meter_added(q))?))
    });
    StreamTime::ALL.into_iter().filter_map(of_time).chain(of_groups).collect()
}

fn at_most(added: impl Fn(f64) -> Option<Span>) -> Option<String> {
    let figure = |(name, q)| Some(format!("{} of {name}", units::span(added(q)?)));
    let figures: Vec<String> = METER_ADDED.into_iter().filter_map(figure).collect();
    (!figures.is_empty()).then(|| format!("at most {}", figures.join(", ")))
}

/// Requests or messages were sent late.
pub(super) fn lag(reason: &Reason, summary: &Summary) -> String {
    let &Reason::SendLag { sent, percentile, lag, time, typical } = reason else {
        unreachable!("another reason has another sentence");
    };
    let advice = match summary.run.precision {
        Some(precision) if lag <= precision + precision / 4 => format!(
            "--precision {precision} delays requests by up to that time: choose a finer one, or auto"
        ),
        _ => format!("use {}a lower rate, or a quieter machine", more_threads(summary, ", ")),
    };
    let (statistic, of_times) = match percentile {
        Some(percentile) => (format!("the p{percentile}"), "median"),
        None => ("the mean".to_owned(), "mean"),
    };
    let (what, of_what) = match sent {
        LateSend::Requests => ("the meter sent late", "send lag"),
        LateSend::Messages => ("the meter sent messages late", "message lag"),
    };
    let beside = match (sent, time) {
        (_, Some(time)) => format!("the {of_times} {} time", time.timed().label()),
        (LateSend::Requests, None) => format!("the {of_times} response time"),
        (LateSend::Messages, None) => "the mean time between two messages".to_owned(),
    };
    let (lag, typical) = (units::span(lag), units::span(typical));
    format!("{what}: {statistic} of the {of_what} is {lag}, {beside} {typical}: {advice}")
}
