//! Plots of a comparison: the shift function, and figures over the blocks.

use prony_base::units::Span;

use super::super::comparison::{Block, Comparison};
use super::super::units;
use super::axis::{Axis, place_of};
use super::chart::{Chart, Curve, Piece, Tone};

/// The least change at the ends of the vertical axis, in percent.
const SCALE_MIN: f64 = 2.0;
/// Steps of the vertical axis, in percent; larger ones are 1, 2 or 5 times a power of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Quantile by quantile, how the response times of each target differ from those of A.
pub(crate) fn shift(c: &Comparison) -> Chart {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let quantiles = c.distributions.iter().flat_map(|d| &d.quantiles);
    let ends = quantiles.flat_map(|q| [q.ratio_lo, q.ratio_hi]).map(percent);
    let curve = |(i, d): (usize, &super::super::comparison::Distribution)| {
        let points = d.quantiles.iter().map(|q| (q.quantile * 100.0, percent(q.ratio)));
        let bar = |q: &super::super::comparison::Quantile| {
            (q.quantile * 100.0, [percent(q.ratio_lo), percent(q.ratio_hi)])
        };
        Curve {
            name: format!("{} against A", d.target),
            tone: Some(Tone::of(i)),
            pieces: vec![Piece { points: points.collect(), sure: true }],
            bars: d.quantiles.iter().map(bar).collect(),
        }
    };
    let shown = c.distributions.iter().filter(|d| !d.quantiles.is_empty());
    let mut curves: Vec<Curve> = shown.enumerate().map(curve).collect();
    curves.push(Curve {
        name: "no difference".into(),
        tone: Some(Tone::of(curves.len() + 1)),
        pieces: vec![Piece { points: vec![(0.0, 0.0), (100.0, 0.0)], sure: true }],
        bars: Vec::new(),
    });
    let title = "Change of the response time by percentile".to_owned();
    Chart {
        about:
            "The shift function: how much longer each percentile of the response time is than in \
                A, in percent. Bars are the intervals, which hold together with a probability of \
                95 %."
                .into(),
        headline: Some(title.clone()),
        title,
        warning: c.doubts.first().cloned(),
        x: Axis::linear("percentile", 100.0, |v| format!("{v:.0}")),
        y: symmetric("change", ends.map(f64::abs).fold(SCALE_MIN, f64::max)),
        curves,
        marks: Vec::new(),
        heat: None,
    }
}

/// The median and p99 of each block, in the order in which they ran.
pub(crate) fn over_blocks(c: &Comparison) -> Option<Chart> {
    type Value = fn(&Block) -> Option<u64>;
    let kinds: [(&str, Value); 2] = [("p50", |b| b.p50_ns), ("p99", |b| b.p99_ns)];
    let mut curves = Vec::new();
    for (i, side) in c.targets.iter().enumerate() {
        for (dashes, (name, value)) in kinds.into_iter().enumerate() {
            let blocks = c.blocks.iter().enumerate().filter(|(_, b)| b.target == side.label);
            let point =
                |(at, b): (usize, &Block)| Some((at as f64 + 1.0, place_of(Span(value(b)?))));
            let points: Vec<_> = blocks.filter_map(point).collect();
            if points.is_empty() {
                continue;
            }
            let tone = Tone { color: Tone::of(i).color, dashes };
            curves.push(Curve {
                name: format!("{} {name}", side.label),
                tone: Some(tone),
                pieces: vec![Piece { points, sure: true }],
                bars: Vec::new(),
            });
        }
    }
    if curves.is_empty() || c.blocks.len() < 2 {
        return None;
    }
    let times = c.blocks.iter().flat_map(|b| [b.p50_ns, b.p99_ns]).flatten().map(Span);
    Some(Chart {
        title: "Response time by block".into(),
        about: "The median and the 99th percentile of the response times of each block, in the \
                order in which the blocks ran."
            .into(),
        headline: None,
        warning: None,
        x: Axis::linear("block", c.blocks.len() as f64, units::round),
        y: Axis::times("response time", times),
        curves,
        marks: Vec::new(),
        heat: None,
    })
}

/// An axis of percent with zero in its middle; nothing decreases by more than 100 %.
fn symmetric(label: &'static str, most: f64) -> Axis {
    let size = 10_f64.powf((most / 4.0).log10().floor());
    let steps = STEPS.map(|n| n * size).into_iter().chain([10.0 * size]);
    let step = steps.into_iter().find(|s| most / s <= 4.0 + 1e-9).unwrap_or(10.0 * size);
    let count = (most / step - 1e-9).ceil().max(1.0) as i32;
    let tick = |i: i32| {
        let at = f64::from(i) * step;
        if i == 0 {
            return (0.0, "0 %".to_owned());
        }
        let sign = if i > 0 { "+" } else { "" };
        let digits = if step < 1.0 { 1 } else { 0 };
        (at, format!("{sign}{at:.digits$} %"))
    };
    let to = f64::from(count) * step;
    let from = -to.min(100.0);
    let ticks = (-count..=count).map(tick).filter(|(at, _)| *at >= from);
    Axis { label, from, to, ticks: ticks.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_changes_is_symmetric_down_to_minus_100_percent() {
        for most in [2.0, 2.1, 7.9, 13.0, 400.0] {
            let axis = symmetric("", most);
            assert!(axis.to >= most && axis.from == -axis.to.min(100.0), "{axis:?}");
            assert!((3..=9).contains(&axis.ticks.len()), "{axis:?}");
            assert!(axis.ticks.iter().any(|(at, label)| *at == 0.0 && label == "0 %"), "{axis:?}");
        }
    }
}
