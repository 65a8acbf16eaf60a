//! A finished run in the formats that people and tools read. Each format is one file here and one
//! golden file in the tests; all of them tell the figures of `prony_core::summary` and compute
//! none.

mod compare;
mod csv;
mod hgrm;
mod hlog;
mod html;
pub mod json;
pub mod layout;
mod phases;
mod plot;
pub mod redact;
pub mod spectrum;
mod sweep;
pub mod text;
pub mod units;
pub mod words;

pub use plot::{OverSize, over_size};
use prony_core::summary::Summary;

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: one screen.
    Text,
    /// Everything, documented in `docs/json.md`.
    Json,
    /// The run over time.
    Csv,
    /// The response time's percentiles, as the HdrHistogram plotters read them.
    Hgrm,
    /// The histograms, as the HdrHistogram log tools read them.
    Hlog,
    /// For people: a page for a browser, with plots.
    Html,
    /// The percentile plot, for pages and papers.
    Svg,
    /// The percentile plot in pixels.
    Png,
}

/// A finished run under the name by which it is told from others.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Its name, such as that of its file.
    pub name: &'a str,
    /// The run.
    pub summary: &'a Summary,
}

/// How the text report looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether it may use colours (ANSI escapes).
    pub colour: bool,
}

impl Format {
    /// The format of a file whose name ends so (without the dot).
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "hgrm" => Some(Self::Hgrm),
            "hlog" => Some(Self::Hlog),
            "html" => Some(Self::Html),
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }

    /// Whether it can tell of several runs at once.
    pub fn compares(self) -> bool {
        matches!(self, Self::Text | Self::Html | Self::Svg | Self::Png)
    }
}

/// What the text report tells of times, errors, the meter and the verdict, under a line of its own:
/// for the end of a report that was laid out by somebody else. `remarks` are whole sentences on
/// that report.
pub fn appendix(summary: &Summary, style: Style, remarks: &[String]) -> String {
    text::appendix(summary, style, remarks)
}

/// The report, ready to be written; every format that is text ends with a line feed. Only the text
/// report looks at the style. Secrets are hidden, unless [`RunInfo::secrets_shown`] says otherwise.
///
/// [`RunInfo::secrets_shown`]: prony_core::summary::RunInfo::secrets_shown
pub fn render(format: Format, summary: &Summary, style: &Style) -> Vec<u8> {
    let summary = &redact::shown(summary);
    match format {
        Format::Text => text::render(summary, *style).into_bytes(),
        Format::Json => json::render(summary).into_bytes(),
        Format::Csv => csv::render(summary).into_bytes(),
        Format::Hgrm => hgrm::render(summary).into_bytes(),
        Format::Hlog => hlog::render(summary),
        Format::Html | Format::Svg | Format::Png => {
            pictured(format, &[Saved { name: "", summary }])
        }
    }
}

/// The same of several runs, side by side and over each other; of one, its ordinary report. `None`
/// where the format cannot tell of several.
pub fn render_all(format: Format, results: &[Saved<'_>], style: &Style) -> Option<Vec<u8>> {
    if let [one] = results {
        return Some(render(format, one.summary, style));
    }
    let shown: Vec<Summary> = results.iter().map(|r| redact::shown(r.summary)).collect();
    let shown = results.iter().zip(&shown).map(|(r, summary)| Saved { name: r.name, summary });
    let results = &shown.collect::<Vec<_>>();
    match format {
        Format::Text => Some(compare::render(results).into_bytes()),
        _ => format.compares().then(|| pictured(format, results)),
    }
}

fn pictured(format: Format, results: &[Saved<'_>]) -> Vec<u8> {
    match format {
        Format::Png => plot::png(results),
        Format::Svg => plot::svg(results).into_bytes(),
        _ => html::render(results).into_bytes(),
    }
}
