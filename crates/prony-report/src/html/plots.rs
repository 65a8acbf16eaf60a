//! Plots with their captions, and the tables behind them.

use maud::{Markup, html};
use prony_core::record::Tally;
use prony_core::record::hist::Hist;
use prony_core::summary::Summary;

use super::super::plot::{self, Chart};
use super::{figures, text};

/// The distribution of response and service time.
pub(super) fn distribution(t: &Tally, id: &str) -> Markup {
    let hists = [("response", &t.times.response), ("service", &t.times.service)];
    let same = t.times.response == t.times.service;
    let told = if same { &hists[..1] } else { &hists[..] };
    let caption = "Each further nine has the same room. Dashed: fewer than ten samples lie beyond.";
    html! {
        (percentiles(&format!("{id}-latency"), "Latency by percentile", told, caption))
        @if same && t.times.response.count() > 0 {
            p.hint { "The service time is the same: no request waited before it was sent." }
        }
    }
}

/// The distributions of what a request's time is made of.
pub(super) fn phases(t: &Tally, id: &str) -> Markup {
    let whole = ["response", "service", "failed"];
    let hists: Vec<(&str, &Hist)> = text::kinds(&t.times)
        .into_iter()
        .filter(|(name, hist)| !whole.contains(name) && hist.max().is_some_and(|m| m.0 > 0))
        .collect();
    html! {
        @if !hists.is_empty() {
            (percentiles(
                &format!("{id}-phases"), "Phases by percentile", &hists,
                "Times of zero stand at the lower edge.",
            ))
        }
    }
}

/// A percentile plot and its table; a sentence where nothing was measured.
pub(super) fn percentiles(id: &str, title: &str, hists: &[(&str, &Hist)], caption: &str) -> Markup {
    if hists.iter().all(|(_, hist)| hist.count() == 0) {
        return html! { p.hint { "No time was measured." } };
    }
    html! {
        (figure(&plot::percentiles(title, hists), id, caption))
        details { summary { (title) ", in figures" } (figures::quantiles(hists)) }
    }
}

/// Rate, response time and errors over time, with one table behind them.
pub(super) fn over_time(summary: &Summary, id: &str) -> Markup {
    let t = &summary.main;
    let charts = charts(&[("", summary)]);
    let drain = t.rows().any(|r| r.at >= t.window() && r.replies + r.failed > 0);
    html! {
        @if charts.is_empty() { p.hint { "The run was too short for a plot over time." } }
        (drawn(&charts, id))
        @if drain && !charts.is_empty() {
            p.hint {
                "What came after the end of the load (in the drain) is in the response times, but "
                "not in the rates."
            }
        }
        @if !charts.is_empty() && t.rows().any(|r| r.max.is_some() && r.p99.is_none()) {
            p.hint { "An interval without a point on a curve had too few replies for it." }
        }
        @if t.rows().next().is_some() {
            details { summary { "The run over time, in figures" } (figures::rows(t.rows())) }
        }
    }
}

/// Those charts over time for which there is enough, with a word for the id of each.
pub(super) fn charts(runs: &[(&str, &Summary)]) -> Vec<(&'static str, Chart)> {
    let rates = plot::rates(runs).map(|c| ("rates", c));
    let latencies = plot::latencies(runs).map(|c| ("latencies", c));
    let failures = plot::failures(runs).map(|c| ("failures", c));
    rates.into_iter().chain(latencies).chain(failures).collect()
}

/// The charts one below the other.
pub(super) fn drawn(charts: &[(&'static str, Chart)], id: &str) -> Markup {
    html! {
        @for (name, chart) in charts {
            h3 { (chart.title) }
            (figure(chart, &format!("{id}-{name}"), ""))
        }
    }
}

/// A chart with a caption; without one where that is empty.
fn figure(chart: &Chart, id: &str, caption: &str) -> Markup {
    html! {
        figure {
            (plot::inside(chart, id))
            @if !caption.is_empty() { figcaption { (caption) } }
        }
    }
}
