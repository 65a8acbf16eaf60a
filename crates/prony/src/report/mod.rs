//! A finished run in the formats that people and tools read. Each format is one file here and one
//! golden file in the tests; all of them tell the figures of `prony_core::summary` and compute
//! none.

mod csv;
mod hgrm;
mod hlog;
pub mod json;
mod layout;
mod redact;
mod text;
pub mod units;
pub mod words;

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
            _ => None,
        }
    }
}

/// What the text report tells of times, errors, the meter and the verdict, under a line of its own:
/// for the end of a report that was laid out by somebody else. `remarks` are whole sentences on
/// that report.
pub fn appendix(summary: &Summary, style: Style, remarks: &[String]) -> String {
    text::appendix(summary, style, remarks)
}

/// The report, ready to be written; every format ends with a line feed. Only the text report looks
/// at the style.
pub fn render(format: Format, summary: &Summary, style: &Style) -> Vec<u8> {
    match format {
        Format::Text => text::render(summary, *style).into_bytes(),
        Format::Json => json::render(summary).into_bytes(),
        Format::Csv => csv::render(summary).into_bytes(),
        Format::Hgrm => hgrm::render(summary).into_bytes(),
        Format::Hlog => hlog::render(summary),
    }
}
