//! The names of the parts of response times from kernel timestamps, for all formats.

use prony_base::units::Span;
use prony_stats::summary::Summary;
use prony_tally::record::Phases;
use prony_tally::record::hist::Hist;

use super::units;

/// The names of the parts in chronological order: the JSON key and the label.
const NAMES: [(&str, &str); Phases::PARTS] = [
    ("waiting", "waiting"),
    ("to_scheduler", "to scheduler"),
    ("to_device", "to device"),
    ("wire_and_peer", "wire + peer"),
    ("to_user", "to user"),
    ("transfer", "transfer"),
];

/// One part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Its JSON key.
    pub(super) field: &'static str,
    /// Its label.
    pub(super) label: &'static str,
    /// Its times.
    pub(super) times: &'a Hist,
    /// Its share of the whole, 0 to 1.
    pub(super) share: Option<f64>,
}

/// The parts in chronological order.
pub(super) fn parts(phases: &Phases) -> impl Iterator<Item = Part<'_>> {
    NAMES.into_iter().zip(phases.parts()).map(|((field, label), times)| Part {
        field,
        label,
        times,
        share: phases.share(times),
    })
}

/// The other times, each with JSON key and label.
pub(super) fn others(phases: &Phases) -> impl Iterator<Item = (&'static str, &'static str, &Hist)> {
    let by_card = ("by_card", "by the card", &phases.by_card);
    [("whole", "whole", &phases.whole), ("acknowledged", "acknowledged", &phases.acknowledged)]
        .into_iter()
        .chain((!phases.by_card.is_empty()).then_some(by_card))
}

/// The maximum error of the clock offset and the number of clock steps, over all workers.
pub(super) fn clock(summary: &Summary) -> (Span, u64) {
    let stamps = summary.workers.iter().filter_map(|m| m.timestamps);
    stamps.fold((Span::ZERO, 0), |(error, steps), s| (error.max(s.error), steps + s.steps))
}

/// The numbers of requests with and without all timestamps, and the error of the clock offset.
pub(super) fn remarks(summary: &Summary, phases: &Phases) -> Vec<String> {
    let (count, without) = (phases.whole.count(), phases.without());
    let all = count + without;
    let mut remarks = vec![match without {
        0 => format!("all {} with the kernel's timestamps", successes(all)),
        _ => format!("{} of {} with the kernel's timestamps", units::count(count), successes(all)),
    }];
    for (n, what) in [
        (phases.no_sent, "without those of the request"),
        (phases.no_received, "without that of the reply"),
        (phases.contradicting, "with stamps that contradict each other"),
    ] {
        if n > 0 {
            remarks.push(format!("{} {what}", units::count(n)));
        }
    }
    if !phases.by_card.is_empty() {
        remarks
            .push(format!("{} with the network card's too", units::count(phases.by_card.count())));
    }
    let (error, steps) = clock(summary);
    if error > Span::ZERO {
        remarks.push(format!("clock known to {}", units::span(error)));
    }
    if steps > 0 {
        remarks.push(units::counted(steps, "step of the clock", "steps of the clock"));
    }
    remarks
}

fn successes(n: u64) -> String {
    units::counted(n, "success", "successes")
}
