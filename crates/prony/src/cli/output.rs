//! Options that say where results go and who is told what.

use std::path::PathBuf;

use clap::Args;

use prony_report::Format;

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
    /// Show passwords, header values, bodies and query values in all reports
    ///
    /// Without it, reports show (hidden) in their place; SECURITY.md has the list.
    #[arg(long, help_heading = OUTPUT)]
    pub show_secrets: bool,
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
    /// Watch the load on a full screen (the default where stdout and stderr are terminals)
    ///
    /// Rates, response times, statuses, errors and the meter itself, while the load runs; q ends
    /// it, p pauses and + and - change the rate of an open loop, ? explains. The report comes
    /// afterwards, as ever. Needs a terminal on standard error.
    #[arg(
        long, help_heading = OUTPUT, overrides_with = "no_tui",
        conflicts_with_all = ["quiet", "no_progress"],
    )]
    pub tui: bool,
    /// No full screen: one line tells how the load goes
    #[arg(long, help_heading = OUTPUT, overrides_with = "tui")]
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
    /// Compare results that are not valid, too, and exit with 0 instead of 98
    ///
    /// Without it a single result that is not valid is told with its verdict and exit code 98; for
    /// a comparison it is refused.
    #[arg(long, help_heading = OUTPUT)]
    pub accept_invalid: bool,
}

impl ToArgs {
    /// The format of the report on standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
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
