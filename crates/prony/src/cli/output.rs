//! Options that say where results go and who is told what.

use std::path::PathBuf;

use clap::Args;

use crate::report::Format;

const OUTPUT: &str = "Output";

/// The files and formats in which results are told.
#[derive(Clone, Debug, Default, Args)]
pub struct ToArgs {
    /// Also write a file: .html .svg .png .json .csv .hgrm .hlog; may be repeated
    ///
    /// The ending says the format. HTML is a whole report with plots for a browser; SVG and PNG are
    /// the plot of latency by percentile.
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,
    /// Print JSON (the same as --format json)
    #[arg(long, help_heading = OUTPUT, conflicts_with = "format")]
    pub json: bool,
    /// Print text, html, svg, json, csv, hgrm or hlog [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = format)]
    pub format: Option<Format>,
}

/// Where the results go, and who is told how the load goes.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Where the results go.
    #[command(flatten)]
    pub to: ToArgs,
    /// Nothing on standard error but refusals; the report is still printed
    #[arg(long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// No progress on standard error
    #[arg(long, help_heading = OUTPUT)]
    pub no_progress: bool,
    /// No full-screen display (there is none yet)
    #[arg(long, help_heading = OUTPUT)]
    pub no_tui: bool,
}

/// Which saved results are told again, and how.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Results that `--json` or `-o FILE.json` has written; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where they go.
    #[command(flatten)]
    pub to: ToArgs,
}

impl ToArgs {
    /// The format of the report on standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
    }
}

impl OutputArgs {
    /// Whether progress is wanted.
    pub fn progress(&self) -> bool {
        !self.quiet && !self.no_progress
    }
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "csv" => Ok(Format::Csv),
        "hgrm" => Ok(Format::Hgrm),
        "hlog" => Ok(Format::Hlog),
        "html" => Ok(Format::Html),
        "svg" => Ok(Format::Svg),
        "png" => Err("pixels go to a file: -o plot.png".into()),
        _ => Err("write text, html, svg, json, csv, hgrm or hlog".into()),
    }
}
