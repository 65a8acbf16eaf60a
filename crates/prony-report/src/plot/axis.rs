//! Axes: a range of numbers, with labeled ticks.

use prony_base::units::Span;

use super::super::units;

/// A linear scale. For a logarithmic axis, its numbers are the logarithms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(super) label: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    /// Position and label of each tick, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

/// The maximum number of labels on an axis.
const TICKS_MAX: usize = 9;
/// The labeled percentiles, as far as the samples extend.
const PERCENTILES: [(f64, &str); 9] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.9, "90"),
    (0.99, "99"),
    (0.999, "99.9"),
    (0.9999, "99.99"),
    (0.99999, "99.999"),
    (0.999999, "99.9999"),
    (0.9999999, "99.99999"),
];

/// The position of a time on an axis of times. A time of zero is at the lower end.
pub(super) fn place_of(t: Span) -> f64 {
    (t.0.max(1) as f64).log10()
}

/// The position of a quantile on an axis of percentiles: each additional nine has the same width.
pub(super) fn place_of_quantile(q: f64) -> f64 {
    -(1.0 - q).log10()
}

impl Axis {
    /// A logarithmic axis that spans the given times.
    pub(super) fn times(label: &'static str, times: impl Iterator<Item = Span>) -> Self {
        let (mut min, mut max) = (u64::MAX, 0);
        for t in times.filter(|t| t.0 > 0) {
            (min, max) = (min.min(t.0), max.max(t.0));
        }
        if max == 0 {
            (min, max) = (1_000, 1_000_000);
        }
        let steps = steps();
        let first = steps.iter().rposition(|&s| s <= min).unwrap_or(0);
        let last = steps.iter().position(|&s| s >= max).unwrap_or(steps.len() - 1);
        let last = last.max(first + 1).min(steps.len() - 1);
        let ends = (steps[first], steps[last]);
        let all = &steps[first..=last];
        let decades = |n: u32| move |s: &&u64| s.ilog10().is_multiple_of(n) && is_power(**s);
        let mut ticks: Vec<u64> = all.to_vec();
        let mut every = 1;
        while ticks.len() > TICKS_MAX {
            ticks = all.iter().filter(decades(every)).copied().collect();
            every += 1;
        }
        let tick = |t: u64| (place_of(Span(t)), units::exact(Span(t)));
        Self {
            label,
            from: place_of(Span(ends.0)),
            to: place_of(Span(ends.1)),
            ticks: ticks.into_iter().map(tick).collect(),
        }
    }

    /// A linear axis from 0 to at least `max`, with labels by `show`.
    pub(super) fn linear(label: &'static str, max: f64, show: impl Fn(f64) -> String) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let size = 10_f64.powf((max / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * size);
        let step = step.into_iter().find(|s| max / s <= 5.0 + 1e-9).unwrap_or(10.0 * size);
        let count = (max / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|i| f64::from(i) * step).map(|v| (v, show(v)));
        Self { label, from: 0.0, to: count * step, ticks: ticks.collect() }
    }

    /// The axis, ending exactly at `end`: for time, which has nothing after its end.
    pub(super) fn ending(self, end: f64) -> Self {
        let ticks = self.ticks.into_iter().filter(|(v, _)| *v <= end * (1.0 + 1e-9)).collect();
        Self { to: end, ticks, ..self }
    }

    /// An axis of percentiles for this number of samples.
    pub(super) fn percentiles(label: &'static str, samples: u64) -> Self {
        let to = (samples.max(10) as f64).log10();
        let ticks = PERCENTILES.map(|(q, name)| (place_of_quantile(q), name.to_owned()));
        let ticks = ticks.into_iter().filter(|(place, _)| *place <= to + 1e-9).collect();
        Self { label, from: 0.0, to, ticks }
    }

    /// The position of a number, as a share of the axis.
    pub(super) fn share(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// 1, 2 and 5 ns, 10, 20 and 50 ns, and so on to hours.
fn steps() -> Vec<u64> {
    (0..14).flat_map(|power| [1, 2, 5].map(|n| n * 10_u64.pow(power))).collect()
}

fn is_power(n: u64) -> bool {
    n == 10_u64.pow(n.ilog10())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn time_axis_spans_its_times() {
        let axis = |times: &[u64]| Axis::times("", times.iter().copied().map(Span));
        let near = axis(&[1_100_000, 0, 4_000_000]);
        assert_eq!(labels(&near), ["1 ms", "2 ms", "5 ms"]);
        assert_eq!((near.from, near.to), (6.0, 5e6_f64.log10()));
        assert_eq!(labels(&axis(&[3, 2_000_000_000])).len(), 9);
        assert_eq!(labels(&axis(&[1, 3_600_000_000_000])).len(), 7);
        assert_eq!(labels(&axis(&[1_000])), ["1 us", "2 us"]);
        assert_eq!(labels(&axis(&[]))[0], "1 us");
        assert!(near.share(place_of(Span(2_000_000))) > 0.4);
        assert_eq!(near.share(place_of(Span::ZERO)), 0.0);
    }

    #[test]
    fn linear_axis_has_round_steps() {
        let axis = |max| Axis::linear("", max, units::round);
        assert_eq!(labels(&axis(1_000.0)), ["0", "200", "400", "600", "800", "1k"]);
        assert_eq!(labels(&axis(1_001.0)), ["0", "500", "1k", "1.5k"]);
        assert_eq!(labels(&axis(0.3)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(&axis(0.0)).len(), 6);
        assert_eq!(labels(&axis(1_001.0).ending(1_001.0)), ["0", "500", "1k"]);
    }

    #[test]
    fn percentile_axis_extends_as_far_as_the_samples() {
        let axis = |n| Axis::percentiles("", n);
        assert_eq!(labels(&axis(0)), ["0", "50", "90"]);
        assert_eq!(labels(&axis(9_984)), ["0", "50", "90", "99", "99.9"]);
        assert_eq!(labels(&axis(10_000)), ["0", "50", "90", "99", "99.9", "99.99"]);
        assert!((axis(1_000).share(place_of_quantile(0.9)) - 1.0 / 3.0).abs() < 1e-9);
    }
}
