//! Tables of figures. The text of each figure is for people; the `value` of its element is the
//! number of the JSON report, for programs.

use maud::{Markup, html};
use prony_base::units::Span;
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_stats::summary::{Figures, QUANTILES, Stage, Summary, interval_of_name};
use prony_tally::record::Row;
use prony_tally::record::hist::Hist;
use prony_tally::record::{KindTally, NameTally, Tally};

use super::super::{units, words};
use super::scrolling;
use super::terms::linked;

/// A time; the element's value is in nanoseconds.
pub(super) fn time(t: Option<Span>) -> Markup {
    html! { @match t { Some(t) => { data value=(t.0) { (units::span(t)) } }, None => "-" } }
}

/// A mean or standard deviation of times.
pub(super) fn mean(ns: Option<f64>) -> Markup {
    html! { @match ns { Some(ns) => { data value=(ns) { (units::nanos(ns)) } }, None => "-" } }
}

/// A count.
pub(super) fn count(n: u64) -> Markup {
    html! { data value=(n) { (units::count(n)) } }
}

/// A rate.
pub(super) fn rate(per_second: f64) -> Markup {
    html! { data value=(per_second) { (units::rate(per_second)) } }
}

/// The header of a table with row labels.
pub(super) fn head<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name.as_ref()) } } } } }
}

/// One row per histogram that is not empty.
pub(super) fn times(name: &str, hists: &[(&str, &Hist)]) -> Markup {
    let rows: Vec<(&str, Figures)> = hists
        .iter()
        .filter(|(_, hist)| hist.count() > 0)
        .map(|(name, hist)| (*name, Figures::of(hist)))
        .collect();
    let before = ["time", "count", "mean", "stdev", "min"].into_iter();
    let table = html! {
        table {
            thead {
                tr {
                    @for name in before.chain(QUANTILES.map(|(name, _)| name)).chain(["max"]) {
                        th scope="col" { (linked(name)) }
                    }
                }
            }
            tbody {
                @for (name, f) in &rows {
                    tr {
                        th scope="row" { (linked(name)) }
                        td { (count(f.count)) }
                        td { (mean(f.mean_ns)) }
                        td { (mean(f.stdev_ns)) }
                        td { (time(f.min)) }
                        @for quantile in f.quantiles { td { (time(quantile)) } }
                        td { (time(f.max)) }
                    }
                }
            }
        }
    };
    html! {
        @if rows.is_empty() {
            p.hint { "No times were measured." }
        } @else {
            (scrolling(name, &table))
        }
        @if let Some(needs) = needs(&rows) { p.hint { (needs) } }
    }
}

/// The 95 % confidence intervals of the response times and the rate.
pub(super) fn intervals(summary: &Summary) -> Markup {
    let tally = &summary.main;
    let confidence = Confidence::of(tally);
    let response = Figures::of(&tally.times.response);
    let quantiles = QUANTILES
        .iter()
        .zip(response.quantiles)
        .map(|(&(name, q), figure)| (name, figure.map(|t| t.0 as f64), confidence.quantile(q)));
    let times = [("mean", response.mean_ns, confidence.mean())].into_iter().chain(quantiles);
    let line = |name: &str, cells: [Markup; 3], lack: Option<NoInterval>| {
        html! {
            tr {
                th scope="row" { (name) }
                @for cell in cells { td { (cell) } }
                td { @if let Some(lack) = lack { (words::no_interval(lack)) } }
            }
        }
    };
    let rows: Vec<Markup> = times
        .filter(|(_, figure, _)| figure.is_some())
        .map(|(name, figure, interval)| {
            let end = |of: fn(Interval) -> f64| mean(interval.ok().map(of));
            line(name, [mean(figure), end(|i| i.lo), end(|i| i.hi)], interval.err())
        })
        .collect();
    let interval = summary.rate_interval();
    let end = |of: fn(Interval) -> f64| {
        html! { @match interval.ok().map(of) { Some(r) => { (rate(r)) }, None => "-" } }
    };
    let rates = [rate(tally.rate()), end(|i| i.lo), end(|i| i.hi)];
    let table = html! {
        table {
            (head(["response", "measured", "from", "to", "why none"]))
            tbody {
                @for row in &rows { (row) }
                (line("rate", rates, interval.err()))
            }
        }
    };
    scrolling("95 % confidence intervals", &table)
}

/// The sample sizes required for percentiles that the table shows as dashes.
fn needs(rows: &[(&str, Figures)]) -> Option<String> {
    let missing = |i: usize| rows.iter().any(|(_, f)| f.quantiles[i].is_none());
    let needs = QUANTILES.iter().enumerate().filter(|&(i, _)| missing(i));
    let needs = needs
        .map(|(_, (name, q))| format!("{name} needs {}", units::count(Hist::samples_needed(*q))));
    let needs: Vec<String> = needs.collect();
    (!needs.is_empty())
        .then(|| format!("-: too few samples for that percentile ({}).", needs.join(", ")))
}

/// The run over time, one row per interval.
pub(super) fn rows(rows: impl Iterator<Item = Row>) -> Markup {
    let heads =
        ["start", "length", "started", "replies", "failed", "received", "p50", "p99", "max"];
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { (units::exact(row.at)) }
                        td { (units::exact(row.length)) }
                        td { (count(row.started)) }
                        td { (count(row.replies)) }
                        td { (count(row.failed)) }
                        td { data value=(row.bytes) { (units::bytes(row.bytes as f64)) } }
                        td { (time(row.p50)) }
                        td { (time(row.p99)) }
                        td { (time(row.max)) }
                    }
                }
            }
        }
    };
    scrolling("the run over time", &table)
}

/// One line for each stage of the rate plan.
pub(super) fn stages(stages: &[Stage], are_sessions: bool) -> Markup {
    let target = if are_sessions { "target (sessions)" } else { "target rate" };
    let end = |of: Option<Interval>, show: fn(f64) -> Markup| {
        html! { @if let Some(i) = of { (show(i.lo)) " to " (show(i.hi)) } @else { "-" } }
    };
    let ns: fn(f64) -> Markup = |ns| mean(Some(ns));
    let heads = [
        "start",
        "length",
        target,
        "completed rate",
        "95 %",
        "started",
        "failed",
        "p50",
        "95 %",
        "p99",
        "95 %",
    ];
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for stage in stages {
                    tr {
                        th scope="row" { (time(Some(stage.at))) }
                        td { (units::brief(stage.length)) }
                        @if let Some(f) = &stage.figures {
                            td { (rate(f.target_rate)) }
                            td { (rate(f.rate)) }
                            td { (end(f.rate_interval.ok(), rate)) }
                            td { (count(f.started)) }
                            td { (count(f.failed)) }
                            td { (time(f.p50)) }
                            td { (end(f.p50_interval.ok(), ns)) }
                            td { (time(f.p99)) }
                            td { (end(f.p99_interval.ok(), ns)) }
                        } @else {
                            @for _ in 2..heads.len() { td { "-" } }
                        }
                    }
                }
            }
        }
    };
    scrolling("stages of the rate", &table)
}

/// Quantiles of several histograms, one row per quantile that any of them supports.
pub(super) fn quantiles(hists: &[(&str, &Hist)]) -> Markup {
    const LINES: [(&str, f64); 12] = [
        ("0 (min)", 0.0),
        ("10", 0.1),
        ("25", 0.25),
        ("50", 0.5),
        ("75", 0.75),
        ("90", 0.9),
        ("95", 0.95),
        ("99", 0.99),
        ("99.9", 0.999),
        ("99.99", 0.9999),
        ("99.999", 0.99999),
        ("100 (max)", 1.0),
    ];
    let carried = |q: f64| hists.iter().any(|(_, hist)| hist.quantile(q).is_some());
    let table = html! {
        table {
            (head(["percentile"].into_iter().chain(hists.iter().map(|(name, _)| *name))))
            tbody {
                @for (label, q) in LINES.into_iter().filter(|(_, q)| carried(*q)) {
                    tr {
                        th scope="row" { (label) }
                        @for (_, hist) in hists { td { (time(hist.quantile(q))) } }
                    }
                }
            }
        }
    };
    scrolling("percentiles", &table)
}

/// One line for each kind of sessions.
pub(super) fn session_kinds(kinds: &[(String, &KindTally)]) -> Markup {
    let heads = [
        "session",
        "started",
        "completed",
        "failed",
        "unfinished",
        "lifetime mean",
        "p50",
        "p90",
        "p99",
        "max",
    ];
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for (name, kind) in kinds {
                    tr {
                        th scope="row" { (name) }
                        @for n in [kind.started, kind.completed, kind.failed, kind.unfinished] {
                            td { (count(n)) }
                        }
                        td { (mean(kind.lifetime.mean_ns())) }
                        @for q in [0.5, 0.9, 0.99, 1.0] { td { (time(kind.lifetime.quantile(q))) } }
                    }
                }
            }
        }
    };
    scrolling("sessions by kind", &table)
}

/// Replies by status.
fn statuses(t: &NameTally) -> String {
    let each = t.statuses.iter().map(|(status, n)| format!("{status}: {}", units::count(*n)));
    each.collect::<Vec<_>>().join(", ")
}

/// One row per request name.
pub(super) fn names(names: &[String], tally: &Tally) -> Markup {
    let heads = [
        "name",
        "started",
        "per second",
        "replies",
        "failed",
        "statuses",
        "response p50",
        "95 % +-",
        "p90",
        "95 % +-",
        "p99",
        "95 % +-",
        "max",
        "service p50",
        "p99",
    ];
    let half_width = |t: &NameTally, q: f64| {
        let interval = interval_of_name(tally, t, q).ok();
        let value = t.response.quantile(q).filter(|value| value.0 > 0);
        let (Some(i), Some(value)) = (interval, value) else { return "-".to_owned() };
        units::percent((i.hi - i.lo) / 2.0 / value.0 as f64)
    };
    let table = html! {
        table {
            (head(heads))
            tbody {
                @for (name, t) in names.iter().zip(&tally.names) {
                    tr {
                        th scope="row" { (name) }
                        td { (count(t.started)) }
                        td { (rate(tally.per_second(t.started))) }
                        td { (count(t.replies)) }
                        td { (count(t.failed)) }
                        td { (statuses(t)) }
                        @for q in [0.5, 0.9, 0.99] {
                            td { (time(t.response.quantile(q))) }
                            td { (half_width(t, q)) }
                        }
                        td { (time(t.response.max())) }
                        @for q in [0.5, 0.99] { td { (time(t.service.quantile(q))) } }
                    }
                }
            }
        }
    };
    scrolling("requests by name", &table)
}
