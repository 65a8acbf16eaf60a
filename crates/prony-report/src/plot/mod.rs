//! Plots: what is drawn ([`curves`]), where on the picture it goes ([`chart`], [`axis`]), and two
//! ways to draw it: [`svg`] and [`png`].
//!
//! They are not a plotting library's: a page that is light or dark as its reader wishes needs
//! shapes with classes and not with colours, its plots must be told to those who cannot see them,
//! and a PNG must come out the same on a machine without any font.

mod axis;
mod chart;
mod curves;
mod png;
mod sizes;
mod spectrum;
mod svg;

use maud::Markup;
use prony_core::summary::{Summary, Verdict};

pub(super) use chart::Chart;
pub(super) use curves::{failures, latencies, percentiles, rates};
pub use sizes::{OverSize, over_size};
pub(super) use svg::style;

use super::spectrum::Spectrum;
use super::{Saved, words};

/// Width and height of a plot that stands alone, in pixels of the style sheet.
const ALONE: (f64, f64) = (800.0, 460.0);
/// On a page that has room ...
const WIDE: (f64, f64) = (760.0, 320.0);
/// ... and on a telephone, where the same picture would be too small to read.
const NARROW: (f64, f64) = (340.0, 280.0);

/// The percentile plot as a file of its own.
pub(super) fn svg(results: &[Saved<'_>]) -> String {
    let chart = alone(results);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The same as pixels, twice as many as the SVG has.
pub(super) fn png(results: &[Saved<'_>]) -> Vec<u8> {
    png::file(&alone(results).draw(ALONE))
}

/// The plot of a spectrum as a file of its own.
pub(super) fn spectrum_svg(s: &Spectrum) -> String {
    let chart = spectrum::chart(s);
    svg::file(&chart, &chart.draw(ALONE))
}

/// The same as pixels.
pub(super) fn spectrum_png(s: &Spectrum) -> Vec<u8> {
    png::file(&spectrum::chart(s).draw(ALONE))
}

/// A chart inside a page, once for each of two widths, of which the style sheet shows one. `id` is
/// unique on the page.
pub(super) fn inside(chart: &Chart, id: &str) -> Markup {
    maud::html! {
        (svg::element(chart, &chart.draw(WIDE), Some((&format!("{id}-wide"), "wide"))))
        (svg::element(chart, &chart.draw(NARROW), Some((&format!("{id}-narrow"), "narrow"))))
    }
}

fn alone(results: &[Saved<'_>]) -> Chart {
    let response = |s: &Summary| s.main.times.response.clone();
    let mut chart = if let [one] = results {
        let times = &one.summary.main.times;
        percentiles(
            "Latency by percentile",
            &[("response", &times.response), ("service", &times.service)],
        )
    } else {
        let hists: Vec<_> = results.iter().map(|r| (r.name, response(r.summary))).collect();
        let hists: Vec<_> = hists.iter().map(|(name, hist)| (*name, hist)).collect();
        percentiles("Response time by percentile", &hists)
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
