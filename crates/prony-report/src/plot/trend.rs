//! Plots of a trend: one figure over the runs.

use prony_base::units::Span;

use super::super::text::shortened;
use super::super::trend::{Course, Run, shown};
use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece};

/// Letters of a run's label on the axis.
const LABEL: usize = 12;

/// A figure over the runs; `None` if fewer than two have it.
pub(crate) fn trend(course: &Course, runs: &[Run]) -> Option<Chart> {
    let is_time = course.unit == "ns";
    let scale = if course.unit == "share" { 100.0 } else { 1.0 };
    let place = |v: f64| if is_time { place_of(Span(v.max(0.0) as u64)) } else { v * scale };
    let at = |i: usize| i as f64 + 1.0;
    let points = course.points.iter().enumerate();
    let points: Vec<(f64, f64)> =
        points.clone().filter_map(|(i, p)| Some((at(i), place(p.value?)))).collect();
    if points.len() < 2 {
        return None;
    }
    let bars = course.points.iter().enumerate();
    let bars = bars.filter_map(|(i, p)| Some((at(i), [place(p.lo?), place(p.hi?)])));
    let values = course.points.iter().flat_map(|p| [p.value, p.lo, p.hi]).flatten();
    let y = if is_time {
        Axis::times("time", values.map(|v| Span(v.max(0.0) as u64)))
    } else {
        let unit = course.unit;
        let max = values.map(|v| v * scale).fold(0.0, f64::max);
        Axis::linear("value", max, |v| shown(unit, Some(v / scale)))
    };
    let tick = |(i, run): (usize, &Run)| (at(i), shortened(&run.label, LABEL));
    Some(Chart {
        title: format!("{} over the runs", course.figure),
        about: format!(
            "{} of each run, in the given order. Bars are the 95 % confidence intervals within the \
             runs; vertical lines are significant changes of the level.",
            course.figure
        ),
        headline: None,
        warning: None,
        x: Axis {
            label: "run",
            from: 0.5,
            to: runs.len() as f64 + 0.5,
            ticks: runs.iter().enumerate().map(tick).collect(),
        },
        y,
        curves: vec![Curve {
            name: course.figure.clone(),
            tone: None,
            pieces: vec![Piece { points, sure: true }],
            bars: bars.collect(),
        }],
        marks: course.steps.iter().map(|s| (at(s.run) - 0.5, "step")).collect(),
        heat: None,
    })
}
