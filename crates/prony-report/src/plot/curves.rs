//! The curves of a run's charts, from the figures of its summary.

use prony_base::units::Span;
use prony_plan::plan::{Load, Plan};
use prony_plan::schedule::Arrivals;
use prony_stats::summary::confidence::{Confidence, Interval};
use prony_stats::summary::{QUANTILES, Summary};
use prony_tally::record::Row;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::super::units;
use super::axis::{Axis, place_of, place_of_quantile};
use super::chart::{Chart, Curve, Piece};

/// Number of points of a percentile curve.
const POINTS: u32 = 200;
/// The minimum number of intervals for a plot over time.
const INTERVALS_MIN: usize = 2;

/// The data of a percentile curve.
#[derive(Debug)]
pub(crate) struct Distribution<'a> {
    pub(crate) name: &'a str,
    pub(crate) hist: &'a Hist,
    /// Quantiles with 95 % confidence intervals; empty if there are none.
    pub(crate) intervals: Vec<(f64, Interval)>,
}

impl<'a> Distribution<'a> {
    /// A distribution without intervals.
    pub(crate) fn of(name: &'a str, hist: &'a Hist) -> Self {
        Self { name, hist, intervals: Vec::new() }
    }

    /// The response times.
    pub(crate) fn response(name: &'a str, tally: &'a Tally) -> Self {
        Self::of(name, &tally.times.response).with(Some(Confidence::of(tally)))
    }

    /// The service times.
    pub(crate) fn service(name: &'a str, tally: &'a Tally) -> Self {
        Self::of(name, &tally.times.service).with(Confidence::of_service(tally))
    }

    fn with(self, confidence: Option<Confidence<'_>>) -> Self {
        let interval = |c: &Confidence<'_>, q: f64| Some((q, c.quantile(q).ok()?));
        let all = |c: Confidence<'_>| {
            QUANTILES.iter().filter_map(|&(_, q)| interval(&c, q)).collect::<Vec<_>>()
        };
        Self { intervals: confidence.map(all).unwrap_or_default(), ..self }
    }
}

/// Percentile plots, with one curve per distribution that is not empty.
pub(crate) fn percentiles(title: &str, all: &[Distribution<'_>]) -> Chart {
    let shown = || all.iter().filter(|d| d.hist.count() > 0);
    let samples = shown().map(|d| d.hist.count()).max().unwrap_or(0);
    let end = |ns: f64| Span(ns.max(0.0) as u64);
    let ends = shown().flat_map(|d| [d.hist.estimate(0.0), d.hist.max()]).flatten();
    let ends =
        ends.chain(shown().flat_map(|d| &d.intervals).flat_map(|(_, i)| [i.lo, i.hi].map(end)));
    let bar = |&(q, i): &(f64, Interval)| {
        (place_of_quantile(q), [i.lo, i.hi].map(|ns| place_of(end(ns))))
    };
    let names: Vec<&str> = shown().map(|d| d.name).collect();
    Chart {
        title: title.to_owned(),
        about: format!(
            "Time on a logarithmic axis over the percentile; 90, 99, 99.9 ... are equally far apart: \
             {}. \
             A dotted part has fewer than ten samples beyond it and is in no table. Bars are 95 % \
             confidence intervals.",
            names.join(", ")
        ),
        headline: None,
        warning: None,
        x: Axis::percentiles("percentile", samples),
        y: Axis::times("time", ends),
        curves: shown()
            .map(|d| Curve {
                name: d.name.to_owned(),
                tone: None,
                pieces: distribution(d.hist),
                bars: d.intervals.iter().map(bar).collect(),
            })
            .collect(),
        marks: Vec::new(),
        heat: None,
    }
}

/// From the minimum to the maximum, in parts for which the sample is large enough or too small.
fn distribution(hist: &Hist) -> Vec<Piece> {
    let n = hist.count();
    let end = (n as f64).log10();
    let quantiles = (0..=POINTS).map(|i| {
        let place = end * f64::from(i) / f64::from(POINTS);
        (place, 1.0 - 10_f64.powf(-place))
    });
    let mut pieces: Vec<Piece> = Vec::new();
    let steps = Steps::of(hist);
    let second = 1.0 - 10_f64.powf(-end / f64::from(POINTS));
    // The maximum is at the end, above the last quantile.
    for (place, q) in quantiles.chain([(end, 1.0)]) {
        let Some(time) = steps.time_at(q) else { continue };
        let point = (place, place_of(time));
        // The minimum is exact in any sample, but says nothing about the quantiles after it.
        let carried = if q == 0.0 { second } else { q };
        let sure = q < 1.0 && n >= Hist::samples_needed(carried);
        let last = pieces.last().map(|p| (p.sure, p.points.last().copied()));
        match (last, pieces.last_mut()) {
            (Some((as_before, _)), Some(piece)) if as_before == sure => piece.points.push(point),
            (last, _) => {
                let joint = last.and_then(|(_, joint)| joint);
                pieces.push(Piece { points: joint.into_iter().chain([point]).collect(), sure });
            }
        }
    }
    pieces
}

/// The cumulative counts of a histogram, to find many quantiles without iterating over all bins for
/// each.
struct Steps {
    /// Times and the number of samples not above each, ascending.
    steps: Vec<(u64, u64)>,
    longest: u64,
}

impl Steps {
    fn of(hist: &Hist) -> Self {
        let mut total = 0;
        let step = |(time, count): (Span, u64)| {
            total += count;
            (time.0, total)
        };
        let steps = hist.recorded().map(step).collect();
        Self { steps, longest: hist.max().map_or(0, |t| t.0) }
    }

    /// The smallest time that this share does not exceed, as in `Hist::estimate`, except for shares
    /// between two samples by a floating-point rounding error.
    fn time_at(&self, q: f64) -> Option<Span> {
        let &(last, n) = self.steps.last()?;
        let rank = (q * n as f64 * (1.0 - 1e-12)).ceil().max(1.0) as u64;
        let at = self.steps.partition_point(|&(_, not_above)| not_above < rank);
        let time = self.steps.get(at).map_or(last, |step| step.0);
        Some(Span(time.min(self.longest)))
    }
}

/// Requests per second over time, target and completed; `None` if the run was too short.
pub(crate) fn rates(runs: &[(&str, &Summary)]) -> Option<Chart> {
    let mut curves = Vec::new();
    for &(name, summary) in runs {
        let named = |what: &str| if runs.len() > 1 { name.to_owned() } else { what.to_owned() };
        let rows = whole(summary);
        curves.push(over_time(named("completed"), &rows, |r| Some(per_second(r.replies, r))));
        if let [_] = runs
            && asked(&summary.plan, Span::ZERO, Span::from_secs(1)).is_some()
        {
            let rate = |r: &Row| asked(&summary.plan, r.at, r.length);
            curves.push(over_time("target".to_owned(), &rows, rate));
        }
        if !summary.offered().is_empty() && runs.len() == 1 {
            curves.push(over_time("offered".to_owned(), &rows, |r| Some(per_second(r.started, r))));
        }
    }
    let what = if runs.len() > 1 {
        "completed requests of each run"
    } else {
        "completed requests and, in an open loop, the target rate"
    };
    counts("Rate over time", &format!("Requests per second over time: {what}."), runs, curves)
}

/// Failed requests per second over time; `None` if there were none.
pub(crate) fn failures(runs: &[(&str, &Summary)]) -> Option<Chart> {
    if runs.iter().all(|(_, s)| s.main.failed == 0) {
        return None;
    }
    let curves = runs.iter().map(|(name, summary)| {
        let name = if runs.len() > 1 { *name } else { "failed" };
        over_time(name.to_owned(), &whole(summary), |r| Some(per_second(r.failed, r)))
    });
    counts("Errors over time", "Failed requests per second over time.", runs, curves.collect())
}

/// Quantiles and maximum of the response time over time; for several runs the p99 of each.
pub(crate) fn latencies(runs: &[(&str, &Summary)]) -> Option<Chart> {
    let place = |t: Option<Span>| t.map(place_of);
    let mut curves = Vec::new();
    let mut times = Vec::new();
    let mut marks = Vec::new();
    for &(name, summary) in runs {
        let (rows, drain) = in_load(summary);
        times.extend(rows.iter().flat_map(|r| [r.p50, r.p99, r.max]).flatten());
        if runs.len() > 1 {
            curves.push(over_time(name.to_owned(), &rows, |r| place(r.p99)));
            continue;
        }
        curves.push(over_time("p50".to_owned(), &rows, |r| place(r.p50)));
        curves.push(over_time("p99".to_owned(), &rows, |r| place(r.p99)));
        let mut max = over_time("max".to_owned(), &rows, |r| place(r.max));
        // The few replies in the drain do not continue the curve, but may include the maximum
        // response time of the run.
        for row in &drain {
            max.pieces.extend(over_time(String::new(), &[*row], |r| place(r.max)).pieces);
        }
        times.extend(drain.iter().filter_map(|r| r.max));
        if drain.iter().any(|r| r.max.is_some()) {
            marks.push((summary.main.window().as_secs_f64(), "load ends"));
        }
        curves.push(max);
    }
    let about = if runs.len() > 1 {
        "The 99th percentile of the response time in each interval, on a logarithmic axis."
    } else {
        "Median, 99th percentile and maximum of the response time in each interval, on a \
         logarithmic axis. A percentile is left out where an interval has too few replies for it. \
         A dot after the end of the load is the maximum of the replies that came in the drain."
    };
    let y = Axis::times("response time", times.into_iter());
    Some(Chart { marks, ..chart("Response time over time", about, runs, y, curves)? })
}

/// The intervals that lie mostly within the load, and those after it with replies.
fn in_load(summary: &Summary) -> (Vec<Row>, Vec<Row>) {
    let window = summary.main.window();
    let (load, drain): (Vec<Row>, Vec<Row>) =
        summary.main.rows().partition(|r| r.at + r.length / 2 <= window);
    (load, drain.into_iter().filter(|r| r.max.is_some()).collect())
}

fn counts(
    title: &str,
    about: &str,
    runs: &[(&str, &Summary)],
    curves: Vec<Curve>,
) -> Option<Chart> {
    let points = curves.iter().flat_map(|c| &c.pieces).flat_map(|p| &p.points);
    let max = points.map(|&(_, y)| y).fold(0.0, f64::max);
    let y = Axis::linear("requests per second", max, |v| format!("{}/s", units::round(v)));
    chart(title, about, runs, y, curves)
}

fn chart(
    title: &str,
    about: &str,
    runs: &[(&str, &Summary)],
    y: Axis,
    curves: Vec<Curve>,
) -> Option<Chart> {
    let points = |c: &Curve| c.pieces.iter().map(|p| p.points.len()).sum::<usize>();
    if curves.iter().map(points).max().unwrap_or(0) < INTERVALS_MIN {
        return None;
    }
    let length = |s: &Summary| s.main.rows().last().map_or(Span::ZERO, |r| r.at + r.length);
    let end = runs.iter().map(|(_, s)| length(s)).max().unwrap_or(Span::ZERO).as_secs_f64();
    Some(Chart {
        title: title.to_owned(),
        about: about.to_owned(),
        headline: None,
        warning: None,
        x: Axis::linear("time since the measurement began", end, seconds).ending(end),
        y,
        curves: curves.into_iter().filter(|c| !c.pieces.is_empty()).collect(),
        marks: Vec::new(),
        heat: None,
    })
}

/// The label of a position on an axis of seconds.
pub(super) fn seconds(v: f64) -> String {
    if v == 0.0 { "0".to_owned() } else { units::exact(Span((v * 1e9).round() as u64)) }
}

/// The intervals that lie completely within the load: the count of others gives no rate.
fn whole(summary: &Summary) -> Vec<Row> {
    let window = summary.main.window();
    summary.main.rows().filter(|r| r.at + r.length <= window).collect()
}

fn per_second(n: u64, row: &Row) -> f64 {
    n as f64 / row.length.as_secs_f64()
}

/// The mean target rate in an interval of the measurement; `None` if the plan has no target rate of
/// requests, and for a trace, which has no rate.
fn asked(plan: &Plan, at: Span, length: Span) -> Option<f64> {
    if matches!(&plan.load, Load::Open { arrivals: Arrivals::Trace(_) | Arrivals::Log, .. }) {
        return None;
    }
    plan.due(at, length).map(|due| due / length.as_secs_f64())
}

/// A figure of each interval, drawn at its middle. The curve has a gap at intervals without it.
fn over_time(name: String, rows: &[Row], figure: impl Fn(&Row) -> Option<f64>) -> Curve {
    let mut pieces = Vec::new();
    let mut points = Vec::new();
    for row in rows {
        match figure(row) {
            Some(y) => points.push(((row.at + row.length / 2).as_secs_f64(), y)),
            None if !points.is_empty() => pieces.push(std::mem::take(&mut points)),
            None => {}
        }
    }
    pieces.extend((!points.is_empty()).then_some(points));
    let pieces = pieces.into_iter().map(|points| Piece { points, sure: true }).collect();
    Curve { name, tone: None, pieces, bars: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_is_dashed_beyond_the_reportable_quantiles() {
        let mut hist = Hist::new();
        for ms in 1..=1_000 {
            hist.record(Span::from_millis(ms));
        }
        let pieces = distribution(&hist);
        let sure: Vec<bool> = pieces.iter().map(|p| p.sure).collect();
        assert_eq!(sure, [true, false]);
        // 1,000 samples are enough for the quantiles up to 99 %.
        let carried = pieces[0].points.last().unwrap().0;
        assert!((carried - place_of_quantile(0.99)).abs() < 0.02, "{carried}");
        for piece in &pieces {
            for &(place, time) in &piece.points {
                // Of the numbers 1 to 1,000, the share 1 - 10^-place is not above 1,000 of it.
                let expected = (1_000.0 * (1.0 - 10_f64.powf(-place))).max(1.0);
                let shown = 10_f64.powf(time) / 1e6;
                assert!((shown - expected).abs() <= 1.0 + shown * 0.001, "{shown}, not {expected}");
            }
            assert!(piece.points.is_sorted());
        }
        let last = pieces[1].points.last().unwrap();
        assert!((last.0 - 3.0).abs() < 1e-9 && (last.1 - 9.0).abs() < 1e-9, "{last:?}");
    }

    #[test]
    fn single_sample_is_a_dot() {
        let mut hist = Hist::new();
        hist.record(Span(5_000));
        let chart = percentiles(
            "",
            &[Distribution::of("one", &hist), Distribution::of("none", &Hist::new())],
        );
        assert_eq!(chart.curves.len(), 1);
        let points: Vec<_> = chart.curves[0].pieces.iter().flat_map(|p| &p.points).collect();
        assert!(points.iter().all(|p| p.0 == 0.0), "{points:?}");
    }
}
