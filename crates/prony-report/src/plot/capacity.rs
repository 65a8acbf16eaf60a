//! The load-latency curve: response times by rate, both logarithmic.

use prony_core::capacity::{Estimate, Finding, Point};
use prony_core::units::Span;

use super::super::capacity::Capacity;
use super::super::units;
use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece};

/// A curve: its name, and its figure of a trial.
type Kind = (&'static str, fn(&Point) -> Estimate);

const KINDS: [Kind; 2] = [("p50", |p| p.p50), ("p99", |p| p.p99)];

/// The chart.
pub(crate) fn chart(report: &Capacity) -> Chart {
    let points = report.curve();
    let figures = points.iter().flat_map(|p| KINDS.iter().map(|(_, figure)| figure(p)));
    let ends = figures.flat_map(|e| {
        let interval = e.interval.map(|i| [i.lo, i.hi]);
        e.value.into_iter().chain(interval.into_iter().flatten())
    });
    let times: Vec<Span> = ends.map(|ns| Span(ns as u64)).collect();
    let curve = |(name, figure): Kind| {
        let place = |p: &&Point| Some((place_of_rate(p.trial.rate), time(figure(p).value?)));
        let bar = |p: &&Point| {
            let interval = figure(p).interval?;
            Some((place_of_rate(p.trial.rate), [time(interval.lo), time(interval.hi)]))
        };
        let line: Vec<(f64, f64)> = points.iter().filter_map(place).collect();
        let pieces =
            if line.is_empty() { Vec::new() } else { vec![Piece { points: line, sure: true }] };
        Curve {
            name: name.to_owned(),
            tone: None,
            pieces,
            bars: points.iter().filter_map(bar).collect(),
        }
    };
    let marks = match report.answer.finding {
        Finding::Capacity { rate, .. } => vec![(place_of_rate(rate), "capacity")],
        _ => Vec::new(),
    };
    Chart {
        about: format!(
            "Response time over the arrival rate, both on logarithmic axes: median and 99th \
             percentile of each trial. Bars are 95 % confidence intervals. {}",
            report.sentence
        ),
        headline: Some(format!("Load and latency of {}", report.target)),
        title: "Response time by rate".into(),
        warning: None,
        x: rates(points.iter().map(|p| p.trial.rate)),
        y: Axis::times("response time", times.into_iter()),
        curves: KINDS.into_iter().map(curve).collect(),
        marks,
        heat: None,
    }
}

fn time(ns: f64) -> f64 {
    place_of(Span(ns as u64))
}

fn place_of_rate(rate: f64) -> f64 {
    rate.max(1e-3).log2()
}

/// Powers of two, as many as fit.
fn rates(all: impl Iterator<Item = f64>) -> Axis {
    let places: Vec<f64> = all.map(place_of_rate).collect();
    let from = places.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let to = places.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
    let (from, to) = if from.is_finite() { (from, to.max(from + 1.0)) } else { (0.0, 10.0) };
    let every = if to - from > 6.0 { 2 } else { 1 };
    let ticks = (from as i32..=to as i32).step_by(every);
    let tick = |p: i32| (f64::from(p), units::rate(2_f64.powi(p)));
    Axis { label: "arrivals per second", from, to, ticks: ticks.map(tick).collect() }
}
