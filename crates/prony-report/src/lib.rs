//! The reports of a finished run. Each format is one file here and one golden file in the tests.
//! All of them show the figures of `prony_stats::summary` and compute none.

mod abreast;
pub mod capacity;
pub mod comparison;
mod csv;
mod decisions;
pub mod github;
mod hgrm;
mod hlog;
mod hosts;
mod html;
pub mod json;
mod junit;
pub mod layout;
mod lines;
mod logged;
mod main_times;
mod markdown;
pub mod phased;
mod phases;
mod plainly;
mod plot;
pub mod redact;
mod shell;
pub mod spectrum;
mod sweep;
pub mod terms;
pub mod text;
pub mod trend;
pub mod units;
pub mod words;

pub use plot::{OverSize, over_size};
use prony_stats::summary::Summary;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: the answer, or everything.
    Text,
    /// Everything, documented in `docs/json.md`.
    Json,
    /// The run over time.
    Csv,
    /// The percentile distribution of the response time, for HdrHistogram plotters.
    Hgrm,
    /// The histograms, for HdrHistogram log tools.
    Hlog,
    /// For people: a page for a browser, with plots.
    Html,
    /// The percentile plot as a vector image.
    Svg,
    /// The percentile plot as a bitmap.
    Png,
    /// The verdict and the thresholds as test cases, for build servers.
    Junit,
    /// The main figures, for pull requests.
    Markdown,
}

/// A finished run with a name that distinguishes it from others.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Its name, such as that of its file.
    pub name: &'a str,
    /// The run.
    pub summary: &'a Summary,
}

/// How much the text report of a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The verdict, the main figures, and what is wrong: about a dozen lines.
    Answer,
    /// Everything that was recorded.
    Whole,
    /// The same, with how many samples each missing percentile needs.
    #[default]
    Notes,
}

/// How the text report looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether it may use colors (ANSI escapes).
    pub color: bool,
    /// Whether it has a histogram of the response times.
    pub histogram: bool,
    /// The width of the screen, in columns.
    pub width: usize,
    /// How much it has.
    pub detail: Detail,
}

impl Default for Style {
    /// Without colors, with everything.
    fn default() -> Self {
        Self { color: false, histogram: false, width: Self::WIDTH, detail: Detail::default() }
    }
}

impl Style {
    /// The width of the text report where it is not limited by a screen.
    pub const WIDTH: usize = 100;
}

impl Format {
    /// The format for a file extension (without the dot).
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "hgrm" => Some(Self::Hgrm),
            "hlog" => Some(Self::Hlog),
            "html" => Some(Self::Html),
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            "xml" => Some(Self::Junit),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// Whether it can show several runs at once.
    pub fn compares(self) -> bool {
        !matches!(self, Self::Hgrm | Self::Hlog | Self::Junit)
    }
}

/// The parts of the text report about times, errors, the meter and the verdict, after a separator:
/// an appendix to another tool's report. `remarks` are complete sentences about that report.
pub fn appendix(summary: &Summary, style: Style, remarks: &[String]) -> String {
    text::appendix(summary, style, remarks)
}

/// The complete report. Text formats end with a line feed. Only the text report uses the style.
/// Secrets are hidden unless [`RunInfo::secrets_shown`] is set.
///
/// [`RunInfo::secrets_shown`]: prony_stats::summary::RunInfo::secrets_shown
pub fn render(format: Format, summary: &Summary, style: &Style) -> Vec<u8> {
    let summary = &redact::shown(summary);
    match format {
        Format::Text => text::render(summary, *style).into_bytes(),
        Format::Json => json::render(summary).into_bytes(),
        Format::Csv => csv::render(summary).into_bytes(),
        Format::Hgrm => hgrm::render(summary).into_bytes(),
        Format::Hlog => hlog::render(summary),
        Format::Junit => junit::render(summary).into_bytes(),
        Format::Markdown => markdown::render(summary).into_bytes(),
        Format::Html | Format::Svg | Format::Png => {
            pictured(format, &[Saved { name: "", summary }])
        }
    }
}

/// The report of several runs, side by side and in shared plots; of one run, its ordinary report.
/// `None` if the format cannot show several.
pub fn render_all(format: Format, results: &[Saved<'_>], style: &Style) -> Option<Vec<u8>> {
    if let [one] = results {
        return Some(render(format, one.summary, style));
    }
    let shown: Vec<Summary> = results.iter().map(|r| redact::shown(r.summary)).collect();
    let shown = results.iter().zip(&shown).map(|(r, summary)| Saved { name: r.name, summary });
    let results = &shown.collect::<Vec<_>>();
    match format {
        Format::Text => Some(abreast::render(results, style.detail).into_bytes()),
        Format::Json => Some(abreast::json(results).into_bytes()),
        Format::Csv => Some(abreast::csv(results).into_bytes()),
        Format::Markdown => Some(abreast::markdown(results).into_bytes()),
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
