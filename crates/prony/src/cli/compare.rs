//! The options of `prony compare`.

use clap::{Args, ValueEnum};
use prony_base::units::Span;
use prony_run::values::at_most;
use prony_server::serve::Latency;
use prony_stats::comparison::{Figure, Limit, MARGIN, ROUNDS_MAX, ROUNDS_MIN};

use super::typed::Refused;
use super::{LoadArgs, SIMULATION, values};

const COMPARISON: &str = "Comparison";
const SERVERS: &str = "Servers";

/// The options of `prony compare`: those of a load, which describe a block, and its own.
#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("urls", |arg| {
        arg.value_name("TARGET").help("The targets: URLs, plan files, or saved results").long_help(
            "The targets, of which the first is A: URLs, plan files (.toml), or results saved with \
             -o FILE.json. With two groups of saved results, write `--` between the groups.",
        )
    }),
    // Changing an argument moves it to the end, and this one must be the last.
    mut_arg("against", |arg| arg),
    mut_arg("duration", |arg| {
        arg.help("Duration of a block of load [default: as the figures need, 1s to 2s]").long_help(
            "Duration of a block of load. Without it, and if no other option ends a block, it lasts \
             as long as its rate needs for the requests of the figures (1,000 for p99), at least 1s \
             and at most 2s. Percentiles for which that is too short are those of several rounds \
             together.",
        )
    }),
    mut_arg("requests", |arg| arg.help("Stop a block after N requests (10k, 2m)")),
    mut_arg("warmup", |arg| {
        arg.default_value("500ms").help("Run the load this long before each block; not compared")
    }),
    mut_arg("until", |arg| arg.long("until-goal")),
    mut_arg("hosts", |arg| {
        arg.help("Split each block over this number of workers")
    }),
    mut_arg("output", |arg| {
        arg.help("Also write a file: .html .svg .png .json .md; may be repeated").long_help(
            "Also write a file: .html .svg .png .json .md; may be repeated. The file name extension \
             selects the format. HTML is a complete report with plots; SVG and PNG are the shift \
             function.",
        )
    }),
    mut_arg("format", |arg| {
        arg.help("Print text, html, svg, json or markdown [default: text]")
    }),
    mut_arg("accept_invalid", |arg| {
        let arg = arg.help("Exit with 0 instead of 98 if blocks of load are invalid");
        arg.alias("accept").long_help(
            "Take blocks of load as they were measured, also those that the load generator \
             disturbed, and exit with 0 instead of 98 if they are invalid. Of saved results, \
             compare also those that are invalid, of different plans or of different hosts.",
        )
    }),
)]
pub struct CompareArgs {
    /// A block of load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// The second group of saved results, after `--`
    #[arg(value_name = "FILE", last = true)]
    pub against: Vec<String>,

    /// When to stop [default: decided]
    ///
    /// decided: when every figure is known to differ or to be the same within the margin (with
    /// --fail-if: when every limit is decided), or when more rounds could hardly decide anything.
    /// It is checked after 6, 10, 16, 24, 36, 54, 80, 120 and 180 rounds, as many of them as fit
    /// in 5 min, and at least until 54. A round has one block of load for each target.
    #[arg(
        long = "until", value_name = "WHEN", help_heading = COMPARISON, conflicts_with = "blocks",
    )]
    pub until_when: Option<UntilWhen>,
    /// Run exactly N blocks of load per target
    #[arg(long, value_name = "N", help_heading = COMPARISON, value_parser = rounds)]
    pub blocks: Option<u32>,
    /// Figures to compare, separated by commas [default: all; with --fail-if, those of the limits]
    ///
    /// mean, percentiles of the response time such as p99, rate, errors, cpu (with --start-a or
    /// --pid-a), distribution. All are mean, p50, p90, p99, p99.9, rate, errors, distribution, and
    /// cpu where it is known. Fewer figures need fewer blocks.
    #[arg(
        long, value_name = "LIST", help_heading = COMPARISON, value_delimiter = ',',
        value_parser = figure,
    )]
    pub figures: Vec<Figure>,
    /// Changes of times and rates up to this do not matter [default: 2%]
    #[arg(long, value_name = "PERCENT", help_heading = COMPARISON, value_parser = margin)]
    pub margin: Option<f64>,
    /// Exit with 99 if a figure changes this much from A, such as 'p99 > +5%'; may be repeated
    ///
    /// Exits with 0 if the interval of the change rules that out, with 99 if it confirms it, and
    /// with 125 if it cannot tell. `git bisect run` understands these exit codes. 'rate < -3%' is a
    /// decrease; the change of errors is in percentage points ('errors > +0.1%').
    #[arg(long, value_name = "EXPR", help_heading = COMPARISON, value_parser = limit)]
    pub fail_if: Vec<Limit>,

    /// Start target A with this command anew for each of its blocks
    ///
    /// {port} in the command and in the URL becomes a free port. The block starts when the server
    /// accepts connections; afterwards all its processes are ended. If both are started, the
    /// difference from start to start is part of the answer.
    #[arg(long, value_name = "CMD", help_heading = SERVERS)]
    pub start_a: Option<String>,
    /// Start target B with this command anew for each of its blocks
    #[arg(long, value_name = "CMD", help_heading = SERVERS)]
    pub start_b: Option<String>,
    /// How long a started server may take until it accepts connections
    #[arg(
        long, value_name = "T", help_heading = SERVERS, default_value = "30s",
        value_parser = values::positive_span,
    )]
    pub start_timeout: Span,
    /// Compare CPU time; target A is the process with this ID
    #[arg(
        long, value_name = "PID", help_heading = SERVERS, value_parser = pid,
        conflicts_with = "start_a",
    )]
    pub pid_a: Option<u32>,
    /// Compare CPU time; target B is the process with this ID
    #[arg(
        long, value_name = "PID", help_heading = SERVERS, value_parser = pid,
        conflicts_with = "start_b",
    )]
    pub pid_b: Option<u32>,
    /// Service time of the simulated targets other than A [default: that of A]
    #[arg(long, value_name = "DIST", help_heading = SIMULATION, requires = "simulate")]
    pub simulate_latency_b: Option<Latency>,
}

/// When a comparison stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UntilWhen {
    /// When every figure is decided
    #[default]
    Decided,
}

/// The options of a load that a comparison refuses.
pub(crate) const REFUSED: Refused = Refused {
    by: "prony compare",
    options: &[(
        &[
            "--explain",
            "--until-goal",
            "--threshold",
            "--percentile",
            "--shard",
            "--start-at",
            "--tui",
            "--histogram",
            "--raw",
            "--trace",
        ],
        "a comparison has many short loads; omit the option",
    )],
    hidden: &["--undecided", "--on-loss", "--no-tui", "--label"],
};

impl CompareArgs {
    /// The equivalence margin, as a share.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(MARGIN)
    }
}

fn figure(text: &str) -> Result<Figure, String> {
    text.trim().parse()
}

fn limit(text: &str) -> Result<Limit, String> {
    text.parse()
}

fn rounds(text: &str) -> Result<u32, String> {
    let n: u32 = at_most(text, ROUNDS_MAX.into())?;
    if n < ROUNDS_MIN { Err(format!("must be at least {ROUNDS_MIN}")) } else { Ok(n) }
}

fn margin(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    let percent = number.filter(|n| (0.01..=100.0).contains(n));
    percent.map(|n| n / 100.0).ok_or_else(|| "must be between 0.01% and 100%, such as 2%".into())
}

fn pid(text: &str) -> Result<u32, String> {
    at_most(text, i32::MAX as u64)
}
