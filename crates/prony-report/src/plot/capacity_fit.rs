//! The fitted curve of a search for a capacity: how far requests are beyond the limit, by the level
//! of the load, with its band, the limit, and the trials as points.

use prony_stats::capacity::{By, Fitted, Point, Purpose};

use super::super::capacity::Capacity;
use super::super::units;
use super::axis::Axis;
use super::capacity::place_of_rate;
use super::chart::{Chart, Curve, Piece, Tone};

/// The lowest and the highest excess on the axis, as powers of ten. What lies beyond is at its end.
const LOWEST: f64 = -2.0;
const HIGHEST: f64 = 2.0;
/// Labels of the horizontal axis, but for one.
const TICKS: u32 = 6;

/// The chart, if there is an estimate.
pub(super) fn chart(report: &Capacity) -> Option<Chart> {
    let (binding, threshold) = report.binding()?;
    let fitted = &report.answer.curve;
    let (first, last) = (fitted.first()?, fitted.last()?);
    let x = levels(report.answer.by, first.rate, last.rate);
    let line = |of: &dyn Fn(&Fitted) -> f64, sure| {
        let points = fitted.iter().map(|at| (place_of_rate(at.rate), place_of_excess(of(at))));
        Piece { points: points.collect(), sure }
    };
    let dot = |p: &Point| {
        let is_shown = p.counts && p.trial.purpose == Purpose::Estimate;
        let missed = p.holds.get(binding) == Some(&Some(false));
        // One that fell behind, or failed, has no end.
        let endless = missed.then_some(f64::INFINITY);
        let excess = p.excess.get(binding).copied().flatten().or(endless)?;
        let place = place_of_rate(p.trial.rate);
        let inside = (x.from..=x.to).contains(&place);
        let points = vec![(place, place_of_excess(excess))];
        (is_shown && inside).then_some(Piece { points, sure: true })
    };
    let curve = |name: &str, color, dashes, pieces| Curve {
        name: name.to_owned(),
        tone: Some(Tone { color, dashes }),
        pieces,
        bars: Vec::new(),
    };
    let limit = vec![Piece { points: vec![(x.from, 0.0), (x.to, 0.0)], sure: true }];
    let band = vec![line(&|at| at.interval.lo, true), line(&|at| at.interval.hi, true)];
    Some(Chart {
        about: format!(
            "How far {threshold} is missed over the load, both on logarithmic axes: 1 is the \
             limit. The fitted curve with its 95 % band, and a point for each trial. {}",
            report.sentence
        ),
        headline: Some(format!("Capacity of {}", report.target)),
        title: format!("Excess beyond {threshold}"),
        warning: None,
        y: excesses(),
        curves: vec![
            curve("fitted", 0, 0, vec![line(&|at| at.excess, true)]),
            curve("95 % band", 0, 1, band),
            curve(threshold, 1, 0, limit),
            curve("trials", 2, 0, report.answer.points.iter().filter_map(dot).collect()),
        ],
        marks: super::capacity::marks(report),
        x,
        heat: None,
    })
}

fn place_of_excess(excess: f64) -> f64 {
    excess.max(1e-9).log10().clamp(LOWEST, HIGHEST)
}

fn excesses() -> Axis {
    let name = |power: i32| match power {
        -2 => "0.01 or less".to_owned(),
        0 => "1 (limit)".to_owned(),
        2 => "100 or more".to_owned(),
        _ => format!("{}", 10_f64.powi(power)),
    };
    let ticks = (LOWEST as i32..=HIGHEST as i32).map(|p| (f64::from(p), name(p)));
    Axis { label: "excess", from: LOWEST, to: HIGHEST, ticks: ticks.collect() }
}

/// Even steps between two levels, on a logarithmic scale.
fn levels(by: By, low: f64, high: f64) -> Axis {
    let (from, to) = (place_of_rate(low), place_of_rate(high).max(place_of_rate(low) + 1e-3));
    let (label, name): (_, &dyn Fn(f64) -> String) = match by {
        By::Rate => ("arrivals per second", &units::rate),
        By::Connections => ("connections", &|n| units::count(n.round() as u64)),
    };
    let tick = |i: u32| {
        let at = from + (to - from) * f64::from(i) / f64::from(TICKS);
        (at, name(2_f64.powf(at)))
    };
    Axis { label, from, to, ticks: (0..=TICKS).map(tick).collect() }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;
    use prony_stats::capacity::{Answer, Estimate, Finding, Stop, Trial};
    use prony_stats::summary::Verdict;
    use prony_stats::summary::confidence::Interval;

    use super::*;

    fn point(rate: f64, excess: Option<f64>) -> Point {
        let (warmup, length) = (Span::ZERO, Span::from_secs(1));
        let none = Estimate::default();
        Point {
            trial: Trial { rate, warmup, length, purpose: Purpose::Estimate, number: 1 },
            seconds: 1.0,
            requests: 100,
            p50: none,
            p99: none,
            errors: none,
            goodput: none,
            excess: vec![excess],
            holds: vec![excess.map_or(Some(false), |e| Some(e <= 1.0))],
            kept_up: excess.is_some(),
            verdict: Verdict::Valid,
            counts: true,
            remark: None,
        }
    }

    #[test]
    fn trials_are_points_beside_the_curve_and_the_limit_is_a_line() {
        let at = |rate: f64| Fitted {
            rate,
            excess: rate / 100.0,
            interval: Interval { lo: rate / 110.0, hi: rate / 90.0 },
        };
        let interval = Interval { lo: 90.0, hi: 110.0 };
        let answer = Answer {
            by: By::Rate,
            finding: Finding::Capacity {
                rate: 100.0,
                interval,
                threshold: 0,
                stop: Stop::Queueing,
                more_seconds: None,
            },
            points: vec![point(90.0, Some(0.0)), point(100.0, Some(1.0)), point(110.0, None)],
            curve: vec![at(80.0), at(100.0), at(120.0)],
            recoveries: Vec::new(),
            throughput: None,
            scalability: None,
            seconds: 3.0,
        };
        let report = Capacity::new(answer, vec!["p99 < 50ms".into()], 0.02);
        let chart = chart(&report).expect("a chart");
        let names: Vec<&str> = chart.curves.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["fitted", "95 % band", "p99 < 50ms", "trials"]);
        let heights = |k: usize| -> Vec<Vec<f64>> {
            let of = |piece: &Piece| piece.points.iter().map(|(_, y)| *y).collect();
            chart.curves[k].pieces.iter().map(of).collect()
        };
        assert_eq!(heights(2), [[0.0, 0.0]], "the limit");
        assert_eq!(heights(3), [[-2.0], [0.0], [2.0]], "no line joins the trials");
        let (curve, band) = (&heights(0)[0], heights(1));
        assert!(curve[1] == 0.0 && band[0][1] < 0.0 && 0.0 < band[1][1], "{band:?}");
    }
}
