//! The charts of a search for a capacity: response times by rate or connections, both logarithmic,
//! and the throughput of closed loops.

use prony_base::units::Span;
use prony_plan::threshold::{Threshold, Unit};
use prony_stats::capacity::{By, Estimate, Finding, Point};

use super::super::capacity::Capacity;
use super::super::units;
use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece};

/// A curve: its name, and its figure of a trial.
type Kind = (&'static str, fn(&Point) -> Estimate);

const KINDS: [Kind; 2] = [("p50", |p| p.p50), ("p99", |p| p.p99)];

/// The response times of the trials, as points, and the limit of a time.
pub(crate) fn latency(report: &Capacity) -> Chart {
    let points = report.curve();
    let figures = points.iter().flat_map(|p| KINDS.iter().map(|(_, figure)| figure(p)));
    let ends = figures.flat_map(|e| {
        let interval = e.interval.map(|i| [i.lo, i.hi]);
        e.value.into_iter().chain(interval.into_iter().flatten())
    });
    let ends = ends.chain(limit(report).map(|(_, ns)| ns));
    let times: Vec<Span> = ends.map(|ns| Span(ns as u64)).collect();
    let curve = |(name, figure): Kind| {
        let place = |p: &&Point| Some((place_of_rate(p.trial.rate), time(figure(p).value?)));
        let bar = |p: &&Point| {
            let interval = figure(p).interval?;
            Some((place_of_rate(p.trial.rate), [time(interval.lo), time(interval.hi)]))
        };
        let dot = |place| Piece { points: vec![place], sure: true };
        Curve {
            name: name.to_owned(),
            tone: None,
            pieces: points.iter().filter_map(place).map(dot).collect(),
            bars: points.iter().filter_map(bar).collect(),
        }
    };
    let x = levels(report);
    let mut curves: Vec<Curve> = KINDS.into_iter().map(curve).collect();
    curves.extend(limit(report).map(|(name, ns)| Curve {
        name: name.to_owned(),
        tone: None,
        pieces: vec![Piece { points: vec![(x.from, time(ns)), (x.to, time(ns))], sure: true }],
        bars: Vec::new(),
    }));
    Chart {
        about: format!(
            "Response time over {}, both on logarithmic axes: median and 99th percentile of each \
             trial. Bars are 95 % confidence intervals. {}",
            of(report.answer.by).0,
            report.sentence
        ),
        headline: Some(format!("Load and latency of {}", report.target)),
        title: of(report.answer.by).1.into(),
        warning: None,
        x,
        y: Axis::times("response time", times.into_iter()),
        curves,
        marks: marks(report),
        heat: None,
    }
}

fn time(ns: f64) -> f64 {
    place_of(Span(ns as u64))
}

/// The threshold of a time that is missed first, or else the first one, and its limit.
fn limit(report: &Capacity) -> Option<(&str, f64)> {
    let binding = report.binding().map(|(_, threshold)| threshold);
    let all = binding.into_iter().chain(report.thresholds.iter().map(String::as_str));
    all.filter_map(|name| {
        let threshold: Threshold = name.parse().ok()?;
        (threshold.unit == Unit::Time).then_some((name, threshold.limit))
    })
    .next()
}

/// The capacity, if it was found.
pub(super) fn marks(report: &Capacity) -> Vec<(f64, &'static str)> {
    match report.answer.finding {
        Finding::Capacity { rate, .. } => vec![(place_of_rate(rate), "capacity")],
        _ => Vec::new(),
    }
}

pub(super) fn place_of_rate(rate: f64) -> f64 {
    rate.max(1e-3).log2()
}

/// The levels in words, the title of the chart, and the name of its axis.
fn of(by: By) -> (&'static str, &'static str, &'static str) {
    match by {
        By::Rate => ("the arrival rate", "Response time by rate", "arrivals per second"),
        By::Connections => {
            ("the number of connections", "Response time by connections", "connections")
        }
    }
}

/// The throughput of a closed loop by its connections, with the Universal Scalability Law.
pub(crate) fn throughput(report: &Capacity) -> Chart {
    let points = report.curve();
    let place = |p: &&Point| Some((place_of_rate(p.trial.rate), p.goodput.value?));
    let measured: Vec<(f64, f64)> = points.iter().filter_map(place).collect();
    let x = levels(report);
    let model = report.answer.scalability.as_ref();
    let fitted = (0..=60).filter_map(|i| {
        let at = x.from + (x.to - x.from) * f64::from(i) / 60.0;
        Some((at, model?.throughput(2_f64.powf(at))?))
    });
    let fitted: Vec<(f64, f64)> = fitted.collect();
    let most = measured.iter().chain(&fitted).map(|(_, y)| *y).fold(0.0, f64::max);
    let curves = [("measured", measured), ("Universal Scalability Law", fitted)];
    let curve = |(name, points): (&str, Vec<(f64, f64)>)| Curve {
        name: name.to_owned(),
        tone: None,
        pieces: vec![Piece { points, sure: true }],
        bars: Vec::new(),
    };
    let about = "Completed requests per second over the number of connections, the latter on a \
                 logarithmic axis.";
    Chart {
        about: report.notes.first().map_or_else(|| about.into(), |note| format!("{about} {note}")),
        headline: None,
        title: "Throughput by connections".into(),
        warning: None,
        x,
        y: Axis::linear("completed per second", most, units::rate),
        curves: curves.into_iter().filter(|(_, p)| !p.is_empty()).map(curve).collect(),
        marks: Vec::new(),
        heat: None,
    }
}

/// Powers of two, as many as fit.
fn levels(report: &Capacity) -> Axis {
    let by = report.answer.by;
    let points = report.curve();
    let places: Vec<f64> = points.iter().map(|p| place_of_rate(p.trial.rate)).collect();
    let from = places.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let to = places.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
    let (from, to) = if from.is_finite() { (from, to.max(from + 1.0)) } else { (0.0, 10.0) };
    let every = if to - from > 6.0 { 2 } else { 1 };
    let ticks = (from as i32..=to as i32).step_by(every);
    let name = |level: f64| match by {
        By::Rate => units::rate(level),
        By::Connections => units::count(level as u64),
    };
    let tick = |p: i32| (f64::from(p), name(2_f64.powi(p)));
    Axis { label: of(by).2, from, to, ticks: ticks.map(tick).collect() }
}
