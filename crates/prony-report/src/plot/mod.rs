//! Plots: their data ([`curves`]), their layout ([`chart`], [`axis`]), and two renderers ([`svg`]
//! and [`png`]).
//!
//! No plotting library fits: a page with a light and a dark theme needs shapes with classes rather
//! than colors, plots need descriptions for screen readers, and a PNG must be the same on a machine
//! without fonts.

mod axis;
mod capacity;
mod capacity_fit;
mod chart;
mod colors;
mod comparison;
mod curves;
mod heat;
mod png;
mod sizes;
mod spectrum;
mod svg;
mod trend;

use maud::Markup;
use prony_stats::summary::Verdict;

pub(super) use capacity::{latency as latency_chart, throughput as throughput_chart};
pub(super) use chart::Chart;
pub(super) use comparison::{over_blocks, shift};
pub(super) use curves::{Distribution, failures, latencies, percentiles, rates};
pub(super) use heat::heat;
pub use sizes::{OverSize, over_size};
pub(super) use spectrum::chart as spectrum_chart;
pub(super) use svg::style;
pub(super) use trend::trend;

use super::capacity::Capacity;
use super::comparison::Comparison;
use super::spectrum::Spectrum;
use super::{Saved, words};

/// Width and height of a standalone plot, in CSS pixels.
const ALONE: (f64, f64) = (800.0, 460.0);
/// On a wide page ...
const WIDE: (f64, f64) = (760.0, 320.0);
/// ... and on a phone, where the same image would be too small to read.
const NARROW: (f64, f64) = (340.0, 280.0);

/// The percentile plot as a standalone file.
pub(super) fn svg(results: &[Saved<'_>]) -> String {
    let chart = alone(results);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The same as a bitmap, at twice the resolution.
pub(super) fn png(results: &[Saved<'_>]) -> Vec<u8> {
    png::file(&alone(results).draw(ALONE))
}

/// The plot of a spectrum as a standalone file.
pub(super) fn spectrum_svg(s: &Spectrum) -> String {
    let chart = spectrum_chart(s);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The same as a bitmap.
pub(super) fn spectrum_png(s: &Spectrum) -> Vec<u8> {
    png::file(&spectrum_chart(s).draw(ALONE))
}

/// The fitted curve of a capacity, or without an estimate the response times.
pub(super) fn capacity_chart(report: &Capacity) -> Chart {
    capacity_fit::chart(report).unwrap_or_else(|| latency_chart(report))
}

/// The plot of a capacity as a standalone file.
pub(super) fn capacity_svg(report: &Capacity) -> String {
    let chart = capacity_chart(report);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The shift function of a comparison as a standalone file.
pub(super) fn shift_svg(c: &Comparison) -> String {
    let chart = shift(c);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The same as a bitmap.
pub(super) fn capacity_png(report: &Capacity) -> Vec<u8> {
    png::file(&capacity_chart(report).draw(ALONE))
}

/// The same as a bitmap.
pub(super) fn shift_png(c: &Comparison) -> Vec<u8> {
    png::file(&shift(c).draw(ALONE))
}

/// A chart inside a page, in two widths, of which the style sheet shows one. `id` is unique on the
/// page.
pub(super) fn inside(chart: &Chart, id: &str) -> Markup {
    maud::html! {
        (svg::element(chart, &chart.draw(WIDE), Some((&format!("{id}-wide"), "wide"))))
        (svg::element(chart, &chart.draw(NARROW), Some((&format!("{id}-narrow"), "narrow"))))
    }
}

fn alone<'a>(results: &[Saved<'a>]) -> Chart {
    let mut chart = if let [one] = results {
        let tally = &one.summary.main;
        let both =
            [Distribution::response("response", tally), Distribution::service("service", tally)];
        percentiles("Latency by percentile", &both)
    } else {
        let of = |r: &Saved<'a>| Distribution::response(r.name, &r.summary.main);
        let all: Vec<_> = results.iter().map(of).collect();
        percentiles("Response time by percentile", &all)
    };
    chart.headline = Some(match results {
        [one] => format!("{}: {}", chart.title, super::text::target(one.summary)),
        _ => chart.title.clone(),
    });
    let doubts = results.iter().map(|r| (r.name, r.summary.verdict().verdict));
    let doubts: Vec<(&str, Verdict)> = doubts.filter(|(_, v)| *v != Verdict::Valid).collect();
    chart.warning = match (doubts.as_slice(), results.len()) {
        ([], _) => None,
        (&[(_, verdict)], 1) => Some(format!("{}: {}", verdict.word(), words::verdict(verdict))),
        (all, _) => {
            let all: Vec<_> = all.iter().map(|(name, v)| format!("{name}: {}", v.word())).collect();
            Some(all.join(", "))
        }
    };
    chart
}
