//! Plots with captions, and the tables of their data.

use maud::{Markup, html};
use prony_plan::threshold::Timed;
use prony_stats::summary::Summary;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::super::plot::{self, Chart, Distribution};
use super::super::units;
use super::{figures, text};

/// How to read a plot by percentile.
pub(super) const CAPTION: &str =
    "90, 99, 99.9 ... are equally far apart. Dotted: fewer than ten samples lie beyond.";

/// The distribution of response and service time.
pub(super) fn distribution(t: &Tally, id: &str) -> Markup {
    let all = [Distribution::response("response", t), Distribution::service("service", t)];
    let same = t.times.response == t.times.service;
    let shown = if same { &all[..1] } else { &all[..] };
    html! {
        (percentiles(&format!("{id}-latency"), "Latency by percentile", shown, CAPTION))
        @if same && t.times.response.count() > 0 {
            p.hint { "The service time is the same: no request waited before it was sent." }
        }
    }
}

/// The distributions of the parts of request times.
pub(super) fn phases(t: &Tally, id: &str) -> Markup {
    let whole = [Timed::Response, Timed::Service, Timed::Failed, Timed::Session];
    let phases: Vec<Distribution<'_>> = text::kinds(t)
        .filter(|(timed, hist)| !whole.contains(timed) && hist.max().is_some_and(|m| m.0 > 0))
        .map(|(timed, hist)| Distribution::of(timed.label(), hist))
        .collect();
    html! {
        @if !phases.is_empty() {
            (percentiles(
                &format!("{id}-phases"), "Phases by percentile", &phases,
                "Times of zero are drawn at the lower edge.",
            ))
        }
    }
}

/// A percentile plot and its table, or a sentence if nothing was measured.
pub(super) fn percentiles(
    id: &str,
    title: &str,
    all: &[Distribution<'_>],
    caption: &str,
) -> Markup {
    if all.iter().all(|d| d.hist.count() == 0) {
        return html! { p.hint { "No times were measured." } };
    }
    let hists: Vec<(&str, &Hist)> = all.iter().map(|d| (d.name, d.hist)).collect();
    let bars = all.iter().any(|d| !d.intervals.is_empty());
    let bars = if bars { " Bars: 95 % confidence intervals." } else { "" };
    html! {
        (figure(&plot::percentiles(title, all), id, &format!("{caption}{bars}")))
        details { summary { (title) ", in figures" } (figures::quantiles(&hists)) }
    }
}

/// Rate, response time and errors over time, with one table of their data.
pub(super) fn over_time(summary: &Summary, id: &str) -> Markup {
    let t = &summary.main;
    let charts = charts(&[("", summary)]);
    let drain = t.rows().any(|r| r.at >= t.window() && r.replies + r.failed > 0);
    html! {
        @if charts.is_empty() { p.hint { "The run is too short for a plot over time." } }
        (drawn(&charts, id))
        @if let Some((chart, column)) = plot::heat(summary) {
            h3 { (chart.title) }
            (figure(&chart, &format!("{id}-heat"), &format!(
                "How many response times fall into each cell; a column is {}. Made from the \
                 histograms of the intervals, whose bins are 1.6 % to 3.1 % wide.",
                units::exact(column)
            )))
        }
        @if drain && !charts.is_empty() {
            p.hint {
                "Replies that came after the end of the load (in the drain) count as response times, "
                "but not in the rates. The dot after \"load ends\" is their maximum."
            }
        }
        @if !charts.is_empty() && t.rows().any(|r| r.max.is_some() && r.p99.is_none()) {
            p.hint { "A curve has no point where an interval has too few replies for that percentile." }
        }
        @if t.rows().next().is_some() {
            details { summary { "The run over time, in figures" } (figures::rows(t.rows())) }
        }
    }
}

/// The charts over time that have enough points, each with a name for its id.
pub(super) fn charts(runs: &[(&str, &Summary)]) -> Vec<(&'static str, Chart)> {
    let rates = plot::rates(runs).map(|c| ("rates", c));
    let latencies = plot::latencies(runs).map(|c| ("latencies", c));
    let failures = plot::failures(runs).map(|c| ("failures", c));
    rates.into_iter().chain(latencies).chain(failures).collect()
}

/// The charts, one below the other.
pub(super) fn drawn(charts: &[(&'static str, Chart)], id: &str) -> Markup {
    html! {
        @for (name, chart) in charts {
            h3 { (chart.title) }
            (figure(chart, &format!("{id}-{name}"), ""))
        }
    }
}

/// A chart with a caption, unless that is empty.
pub(super) fn figure(chart: &Chart, id: &str, caption: &str) -> Markup {
    html! {
        figure {
            (plot::inside(chart, id))
            @if !caption.is_empty() { figcaption { (caption) } }
        }
    }
}
