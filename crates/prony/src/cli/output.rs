//! Options that say where results go and who is told what.

use std::path::PathBuf;

use clap::Args;

use crate::report::Format;

const OUTPUT: &str = "Output";

/// Where the results go.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Also write a file: .json .csv .hgrm .hlog; may be repeated
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,
    /// Print JSON (the same as --format json)
    #[arg(long, help_heading = OUTPUT, conflicts_with = "format")]
    pub json: bool,
    /// Print text, json, csv, hgrm or hlog [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = format)]
    pub format: Option<Format>,
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

impl OutputArgs {
    /// The format of the report on standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
    }

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
        _ => Err("write text, json, csv, hgrm or hlog".into()),
    }
}
