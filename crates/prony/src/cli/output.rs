//! Options for results and progress.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use prony_report::Format;
use prony_run::error::Error;
use prony_run::exit::Accepted;
use prony_run::output::Outputs;

use crate::embedding::Embedding;

pub(super) const OUTPUT: &str = "Output";

/// Files and formats of results.
#[derive(Clone, Debug, Default, Args)]
pub struct ToArgs {
    /// Also write a file: .html .svg .png .json .csv .xml .md .hgrm .hlog; may be repeated
    ///
    /// The file name extension selects the format. HTML is a complete report with plots; SVG and
    /// PNG are a plot of latency by percentile; XML is a JUnit report of the verdict and the
    /// thresholds; Markdown is a summary for a pull request.
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,
    /// Print JSON (the same as --format json)
    #[arg(long, help_heading = OUTPUT, conflicts_with = "format")]
    pub json: bool,
    /// Print text, html, svg, json, csv, junit, markdown, hgrm or hlog [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = format)]
    pub format: Option<Format>,
    /// Print the whole report with all figures; -vv with notes on them
    ///
    /// Without it, the text report of a load has the verdict, the main figures, and a line for each
    /// thing that is wrong. -vv also says how many samples each missing percentile needs. The other
    /// formats and the reports of other commands always have everything.
    #[arg(short, long, help_heading = OUTPUT, action = ArgAction::Count)]
    pub verbose: u8,
    /// Add a histogram of response times to the text report
    ///
    /// One line for each range of times, with the number of responses in it and a bar. The counts
    /// add up to the number of responses.
    #[arg(long, help_heading = OUTPUT, conflicts_with = "json")]
    pub histogram: bool,
    /// Print annotations for GitHub Actions, and add a summary to the job
    ///
    /// Prints workflow commands after the report (to standard error if --json or --format is
    /// given): an error for each missed threshold, and for a run that is not valid. Appends the
    /// Markdown report to the file that the variable GITHUB_STEP_SUMMARY names.
    #[arg(long, help_heading = OUTPUT)]
    pub github: bool,
    /// Show passwords, header values, bodies and query values in reports
    ///
    /// Without it, reports show (hidden) instead. SECURITY.md lists what is hidden.
    #[arg(long, help_heading = OUTPUT)]
    pub show_secrets: bool,
}

/// Options for results and progress.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Files and formats of results.
    #[command(flatten)]
    pub to: ToArgs,
    /// Save this label, such as a commit, in the JSON report; `prony report --trend` shows it
    #[arg(long, value_name = "TEXT", help_heading = OUTPUT)]
    pub label: Option<String>,
    /// Print only errors to standard error; the report is still printed
    #[arg(long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Show no progress on standard error
    #[arg(long, help_heading = OUTPUT)]
    pub no_progress: bool,
    /// Show the load on a full screen (the default if stdout and stderr are terminals)
    ///
    /// Shows rates, response times, statuses, errors and the load of the client while the load
    /// runs. Keys: q stops the load, p pauses an open loop, + and - change its rate, ? shows help.
    /// The report is printed afterwards as usual. Standard error must be a terminal.
    #[arg(
        long, help_heading = OUTPUT, overrides_with = "no_tui",
        conflicts_with_all = ["quiet", "no_progress"],
    )]
    pub tui: bool,
    /// Show progress on one line instead of a full screen
    #[arg(long, help_heading = OUTPUT, overrides_with = "tui")]
    pub no_tui: bool,
    /// The program that runs prony in its own process, in place of a terminal.
    #[arg(skip)]
    pub embedding: Option<Embedding>,
}

/// The options of `prony report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Results saved with `--json` or `-o FILE.json`; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Show each figure over the runs, in the given order, and mark its steps
    ///
    /// Runs have the labels that --label has given them. A step is a change of the level between
    /// runs that chance explains in at most 1 % of the cases; ten runs or more are needed to find
    /// one. Formats: text, html, json.
    #[arg(long)]
    pub trend: bool,
    /// Files and formats of results.
    #[command(flatten)]
    pub to: ToArgs,
    /// What is accepted.
    #[command(flatten)]
    pub accept: AcceptArgs,
}

/// The effect of undecided thresholds on the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Undecided {
    /// Exit with 97
    #[default]
    Fail,
    /// Count them as met
    Pass,
}

/// What is accepted of saved results. What was accepted when they were saved still is.
#[derive(Clone, Copy, Debug, Args)]
pub struct AcceptArgs {
    /// Exit with 0 instead of 98 if the run is invalid
    ///
    /// `prony report` of a run that had this option needs it no more. Of several runs, it marks
    /// invalid ones, and always exits with 0.
    #[arg(long, help_heading = OUTPUT)]
    pub accept_invalid: bool,
    /// Effect of undecided thresholds on the exit code
    ///
    /// Without it, `prony report` does as the run did, and `prony merge` fails.
    #[arg(long, value_name = "WHAT", help_heading = OUTPUT)]
    pub undecided: Option<Undecided>,
}

impl AcceptArgs {
    /// Accept it of a saved run.
    pub fn apply(self, accepted: &mut Accepted) {
        accepted.invalid |= self.accept_invalid;
        accepted.undecided =
            self.undecided.map_or(accepted.undecided, |what| what == Undecided::Pass);
    }
}

impl ToArgs {
    /// Check the options against each other, and open what is needed to write the files.
    ///
    /// # Errors
    /// A file cannot be written, or the report on standard output can have no histogram.
    pub fn prepare(&self) -> Result<Outputs, Error> {
        self.check_histogram()?;
        Outputs::prepare(&self.output)
    }

    /// The same for a report that has only some formats; `why` says which.
    ///
    /// # Errors
    /// A file has another format, or cannot be written.
    pub fn prepare_only(&self, formats: &[Format], why: &str) -> Result<Outputs, Error> {
        self.check_histogram()?;
        Outputs::prepare_only(&self.output, formats, why)
    }

    fn check_histogram(&self) -> Result<(), Error> {
        if self.histogram && self.stdout_format() != Format::Text {
            let why = "only the text report has a histogram; HTML has a plot of the distribution";
            return Err(Error::Conflict("--histogram", "--format", why));
        }
        Ok(())
    }

    /// Format of the report on standard output.
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
        "junit" => Ok(Format::Junit),
        "markdown" => Ok(Format::Markdown),
        "html" => Ok(Format::Html),
        "svg" => Ok(Format::Svg),
        "png" => Err("PNG is written only to a file: -o plot.png".into()),
        _ => Err("write text, html, svg, json, csv, junit, markdown, hgrm or hlog".into()),
    }
}
