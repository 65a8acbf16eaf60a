//! Several results side by side: one line per figure, one column per result. For two results, also
//! columns for their difference.

use prony_core::record::hist::Hist;
use prony_core::record::{StreamTime, Tally};
use prony_core::summary::Summary;
use prony_core::summary::confidence::{Confidence, Interval};
use prony_core::units::Span;

use super::lines::Lines;
use super::{Saved, text, units, words};

/// Widths of the text report: labels, results, and the two columns of the differences.
const LABEL: usize = 16;
const CELL: usize = 16;
const DIFFERENCE: usize = 25;
const OUTSIDE: usize = 24;
/// Number of results side by side in one block of 100 columns.
const ABREAST: usize = 5;
/// A ratio from which a difference is shown as a multiple, not in percent.
const MULTIPLE: f64 = 10.0;
/// The names of the two columns.
pub(super) const DIFFERENCES: [&str; 2] = ["difference", "outside both intervals"];
/// The explanation of the second column, in lines.
pub(super) const OUTSIDE_MEANS: [&str; 2] = [
    "Outside both intervals: each run's figure lies outside the other's 95 % confidence interval.",
    "\"-\": a run has no interval for that figure.",
];

/// A line of the comparison.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) label: String,
    /// One cell for each result.
    pub(super) cells: Vec<String>,
    /// The difference of the second of two results from the first; see [`DIFFERENCES`].
    pub(super) differences: Option<[String; 2]>,
}

/// A figure of one result.
struct Figure {
    value: f64,
    interval: Option<Interval>,
}

impl Figure {
    fn exact(value: f64) -> Self {
        Self { value, interval: None }
    }

    fn is_outside(&self, interval: Interval) -> bool {
        self.value < interval.lo || self.value > interval.hi
    }
}

/// One result and its confidence intervals.
struct Run<'a> {
    summary: &'a Summary,
    response: Confidence<'a>,
    /// `None` if no intervals of the service time were recorded.
    service: Option<Confidence<'a>>,
}

impl<'a> Run<'a> {
    fn of(saved: &Saved<'a>) -> Self {
        let tally = &saved.summary.main;
        Self {
            summary: saved.summary,
            response: Confidence::of(tally),
            service: Confidence::of_service(tally),
        }
    }
}

/// A kind of times: its name, its histogram and its intervals.
type Kind =
    (&'static str, fn(&Tally) -> &Hist, for<'r, 'a> fn(&'r Run<'a>) -> Option<&'r Confidence<'a>>);

const KINDS: [Kind; 2] = [
    ("response", |t| &t.times.response, |r| Some(&r.response)),
    ("service", |t| &t.times.service, |r| r.service.as_ref()),
];

/// The times of messages in streams, and of the tokens of language models.
const IN_STREAMS: [(&str, StreamTime); 6] = [
    ("first message", StreamTime::FirstMessage),
    ("first content", StreamTime::FirstContent),
    ("message gap", StreamTime::MessageGap),
    ("TTFT", StreamTime::Ttft),
    ("ITL", StreamTime::Itl),
    ("chunk gap", StreamTime::ChunkGap),
];

/// The verdict of the result.
pub(super) fn verdict(summary: &Summary) -> &'static str {
    summary.verdict().verdict.word()
}

/// The lines of the comparison, without those for which no result has a figure.
pub(super) fn lines(results: &[Saved<'_>]) -> Vec<Line> {
    let runs: Vec<Run<'_>> = results.iter().map(Run::of).collect();
    let mut lines = vec![Line {
        label: "verdict".to_owned(),
        cells: results.iter().map(|r| verdict(r.summary).to_owned()).collect(),
        differences: (results.len() == 2).then(|| ["-", "-"].map(str::to_owned)),
    }];
    let mut line =
        |label: &str, show: fn(f64) -> String, of: &dyn Fn(&Run<'_>) -> Option<Figure>| {
            let figures: Vec<Option<Figure>> = runs.iter().map(of).collect();
            if figures.iter().all(Option::is_none) {
                return;
            }
            let cell =
                |f: &Option<Figure>| f.as_ref().map_or_else(|| "-".to_owned(), |f| show(f.value));
            lines.push(Line {
                label: label.to_owned(),
                cells: figures.iter().map(cell).collect(),
                differences: match figures.as_slice() {
                    [a, b] => {
                        Some([difference(a.as_ref(), b.as_ref(), show), outside(a, b).to_owned()])
                    }
                    _ => None,
                },
            });
        };
    let count: fn(f64) -> String = |n| units::count(n as u64);
    line("completed rate", units::rate, &|r| {
        let value = r.summary.main.rate();
        Some(Figure { value, interval: r.summary.rate_interval().ok() })
    });
    line("target rate", units::rate, &|r| r.summary.target_rate().map(Figure::exact));
    line("requests", count, &|r| Some(Figure::exact(r.summary.main.started as f64)));
    line("replies", count, &|r| Some(Figure::exact(r.summary.main.replies as f64)));
    line("failed", count, &|r| Some(Figure::exact(r.summary.main.failed as f64)));
    line("unfinished", count, &|r| {
        let n = r.summary.main.unfinished;
        (n > 0).then(|| Figure::exact(n as f64))
    });
    line("window", units::nanos, &|r| Some(Figure::exact(r.summary.main.window().0 as f64)));
    line("received", |n| format!("{}/s", units::bytes(n)), &|r| {
        Some(r.summary.main.bytes_per_second()).filter(|&n| n > 0.0).map(Figure::exact)
    });
    line("concurrency", units::three, &|r| Some(Figure::exact(r.summary.main.concurrency())));
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
    for (kind, hist, confidence) in KINDS {
        line(&format!("{kind} mean"), units::nanos, &|r| {
            let value = hist(&r.summary.main).mean_ns()?;
            Some(Figure { value, interval: confidence(r).and_then(|c| c.mean().ok()) })
        });
        for (name, q) in quantiles {
            line(&format!("{kind} {name}"), units::nanos, &|r| {
                let value = hist(&r.summary.main).quantile(q)?.0 as f64;
                // A maximum has no interval.
                let interval = confidence(r).filter(|_| q < 1.0).and_then(|c| c.quantile(q).ok());
                Some(Figure { value, interval })
            });
        }
    }
    in_streams(&mut line);
    let exact = |t: Option<Span>| t.map(|t| Figure::exact(t.0 as f64));
    line("send lag p99", units::nanos, &|r| exact(r.summary.main.times.lag.quantile(0.99)));
    line("connect p50", units::nanos, &|r| exact(r.summary.main.times.connect.quantile(0.5)));
    line("CPU/request", units::nanos, &|r| {
        let (cpu, ended) = (r.summary.cpu(), r.summary.ended());
        (cpu > Span::ZERO && ended > 0).then(|| Figure::exact(cpu.0 as f64 / ended as f64))
    });
    lines
}

/// Adds a line: its label, how a value is shown, and the figure of a result.
type AddLine<'l> = dyn FnMut(&str, fn(f64) -> String, &dyn Fn(&Run<'_>) -> Option<Figure>) + 'l;

/// The lines of messages in streams and of tokens.
fn in_streams(line: &mut AddLine<'_>) {
    for (kind, time) in IN_STREAMS {
        line(&format!("{kind} mean"), units::nanos, &|r| {
            let (hist, _) = r.summary.main.stream_times(time)?;
            let interval = Confidence::of_stream(&r.summary.main, time).and_then(|c| c.mean().ok());
            Some(Figure { value: hist.mean_ns()?, interval })
        });
        for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            line(&format!("{kind} {name}"), units::nanos, &|r| {
                let (hist, _) = r.summary.main.stream_times(time)?;
                let value = hist.quantile(q)?.0 as f64;
                let confidence = Confidence::of_stream(&r.summary.main, time);
                let interval = confidence.filter(|_| q < 1.0).and_then(|c| c.quantile(q).ok());
                Some(Figure { value, interval })
            });
        }
    }
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        line(&format!("message {name}"), units::nanos, &|r| {
            let value = r.summary.main.times.message.quantile(q)?;
            Some(Figure::exact(value.0 as f64))
        });
    }
    line("tokens", |n| units::count(n as u64), &|r| {
        r.summary.main.output_tokens().map(|n| Figure::exact(n as f64))
    });
    line("token rate", units::rate, &|r| r.summary.main.token_rate().map(Figure::exact));
    line("of one reply", units::rate, &|r| r.summary.main.token_rate_of_one().map(Figure::exact));
    line("goodput", units::rate, &|r| {
        let tokens = r.summary.plan.stream.as_deref()?.tokens.as_ref()?;
        let has_limits = !tokens.slo.is_empty();
        r.summary.main.goodput().filter(|_| has_limits).map(Figure::exact)
    });
}

/// The difference of the second figure from the first: `+1.20 ms (+8.31 %)`, `+24.0 ms (x25.0)`.
fn difference(a: Option<&Figure>, b: Option<&Figure>, show: fn(f64) -> String) -> String {
    let (Some(a), Some(b)) = (a, b) else { return "-".to_owned() };
    let more = b.value - a.value;
    let absolute = show(more.abs());
    // Includes differences that round to zero.
    if more == 0.0 || absolute == "0" {
        return "0".to_owned();
    }
    let sign = if more < 0.0 { '-' } else { '+' };
    if a.value == 0.0 {
        return format!("{sign}{absolute}");
    }
    let ratio = b.value / a.value;
    if ratio >= MULTIPLE {
        return format!("{sign}{absolute} (x{})", units::three(ratio));
    }
    format!("{sign}{absolute} ({sign}{} %)", units::three((ratio - 1.0).abs() * 100.0))
}

fn outside(a: &Option<Figure>, b: &Option<Figure>) -> &'static str {
    let (Some(a), Some(b)) = (a, b) else { return "-" };
    match (a.interval, b.interval) {
        (Some(of_a), Some(of_b)) if a.is_outside(of_b) && b.is_outside(of_a) => "yes",
        (Some(_), Some(_)) => "no",
        _ => "-",
    }
}

/// The text report of several results.
pub(super) fn render(results: &[Saved<'_>]) -> String {
    let mut out = Lines::default();
    out.line(format!("prony  {} runs", results.len()));
    for (i, result) in results.iter().enumerate() {
        let target = text::target(result.summary);
        let head = format!("  {:<LABEL$}{}  {target}", i + 1, result.name);
        out.line(text::shortened(&head, 100));
    }
    let lines = lines(results);
    let label_width = lines.iter().map(|line| line.label.len() + 1).max().unwrap_or(0).max(LABEL);
    for first in (0..results.len()).step_by(ABREAST) {
        let columns = first..results.len().min(first + ABREAST);
        let head = |i: usize| {
            let mark = if results[i].summary.verdict().is_valid() { "" } else { "not valid: " };
            format!("{:>CELL$}", format!("{mark}{}", i + 1))
        };
        let mut heads: String = columns.clone().map(head).collect();
        if results.len() == 2 {
            heads += &format!("{:>DIFFERENCE$}{:>OUTSIDE$}", DIFFERENCES[0], DIFFERENCES[1]);
        }
        out.blank();
        out.line(format!("  {:label_width$}{heads}", ""));
        for Line { label, cells, differences } in &lines {
            let cells = cells[columns.clone()].iter();
            let mut cells: String = cells.map(|cell| format!("{cell:>CELL$}")).collect();
            if let Some([difference, outside]) = differences {
                cells += &format!("{difference:>DIFFERENCE$}{outside:>OUTSIDE$}");
            }
            out.line(format!("  {label:label_width$}{cells}"));
        }
    }
    if results.len() == 2 {
        out.blank();
        OUTSIDE_MEANS.iter().for_each(|sentence| out.line(format!("  {sentence}")));
    }
    for result in results.iter().filter(|r| !r.summary.verdict().is_valid()) {
        out.blank();
        out.line(format!(
            "  {}: {}: {}",
            text::shortened(result.name, 40),
            verdict(result.summary),
            words::verdict(result.summary.verdict().verdict)
        ));
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, lo: f64, hi: f64) -> Option<Figure> {
        Some(Figure { value, interval: Some(Interval { lo, hi }) })
    }

    #[test]
    fn shows_differences_with_sign_and_share_of_the_first_figure() {
        let of = |a: f64, b: f64| {
            difference(Some(&Figure::exact(a)), Some(&Figure::exact(b)), units::nanos)
        };
        assert_eq!(of(10e6, 12.5e6), "+2.50 ms (+25.0 %)");
        assert_eq!(of(12.5e6, 10e6), "-2.50 ms (-20.0 %)");
        assert_eq!(of(1e6, 25e6), "+24.0 ms (x25.0)");
        assert_eq!(of(5.0, 5.0), "0");
        assert_eq!(of(0.0, 5e3), "+5.00 us");
        assert_eq!(difference(None, Some(&Figure::exact(1.0)), units::nanos), "-");
    }

    #[test]
    fn outside_both_intervals_requires_both_figures_outside() {
        let a = figure(10.0, 9.0, 11.0);
        assert_eq!(outside(&a, &figure(13.0, 12.0, 14.0)), "yes");
        assert_eq!(outside(&figure(13.0, 12.0, 14.0), &a), "yes");
        // The second figure is outside the first interval, but not the other way round.
        assert_eq!(outside(&a, &figure(13.0, 9.5, 17.0)), "no");
        assert_eq!(outside(&a, &figure(10.5, 10.0, 11.0)), "no");
        assert_eq!(outside(&a, &Some(Figure::exact(99.0))), "-");
        assert_eq!(outside(&a, &None), "-");
    }
}
