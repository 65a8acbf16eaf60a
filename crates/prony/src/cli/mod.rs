//! The option table: what may be typed. [`plan`] turns what was typed into a plan.

pub mod means;
pub mod output;
pub mod plan;
pub(crate) mod refusal;
pub mod rtt;
pub mod sctp;
pub mod selftest;
pub mod serve;
pub mod shown;
pub mod spectrum;
mod text;
pub mod tls;
pub mod values;

#[cfg(test)]
mod docs;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use prony_core::plan::{HttpVersion, Pick, Secret, Think};
use prony_core::schedule::{ArrivalsArg, RatePlan};
use prony_core::units::Span;

pub use means::Driver;
use means::{MeansArgs, RunArgs, UntilArgs};
use output::{OutputArgs, ReportArgs};
use rtt::{EchoArgs, RttArgs};
use selftest::SelftestArgs;
use serve::ServeArgs;
use spectrum::SpectrumArgs;
use text::{
    ECHO_END, LONG_END, REPORT_END, RTT_END, RUN_END, SELFTEST_END, SERVE_END, SHORT_END,
    SPECTRUM_END,
};
use tls::TlsArgs;

const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const CONNECTION: &str = "Connection";
const MEASUREMENT: &str = "Measurement";

/// A dynamometer for network services: load a server, measure its latency, tell the truth.
#[derive(Debug, Parser)]
#[command(
    name = "prony",
    version,
    propagate_version = true,
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Commands",
    override_usage = "prony [OPTIONS] URL...\n       prony COMMAND [OPTIONS]",
    after_help = SHORT_END,
    after_long_help = LONG_END,
    disable_help_subcommand = true,
)]
pub struct Cli {
    /// What to do, where it is not to load a server.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// `prony URL...` is `prony load URL...`.
    #[command(flatten)]
    pub load: LoadArgs,
}

impl Cli {
    /// Read a command line, the program's name first.
    ///
    /// # Errors
    /// It is none, or asks for help or the version.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::lenient();
        let matches = command.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
    }

    /// The option table. A number below zero is a value, of which its option says what is wrong
    /// with it.
    fn lenient() -> clap::Command {
        let lenient = |command: clap::Command| {
            command.mut_args(|arg| {
                let has_value = arg.get_action().takes_values() && !arg.is_positional();
                if has_value { arg.allow_negative_numbers(true) } else { arg }
            })
        };
        lenient(Self::command()).mut_subcommands(lenient)
    }
}

/// The commands beside the load itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a server (the same as `prony URL...`)
    #[command(
        override_usage = "prony load [OPTIONS] URL...",
        after_help = SHORT_END,
        after_long_help = LONG_END,
    )]
    Load(Box<LoadArgs>),
    /// Carry out a plan file
    #[command(after_long_help = RUN_END)]
    Run(Box<RunArgs>),
    /// Say what is wrong with a plan file, all of it with line and column
    Check {
        /// The plan file, or a session file; `-` is standard input
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    /// Tell saved results again, in any format; several side by side and over each other
    ///
    #[command(after_long_help = REPORT_END)]
    Report(ReportArgs),
    /// Run a target server with a programmable behaviour, to try loads and tools on
    #[command(after_long_help = SERVE_END)]
    Serve(Box<ServeArgs>),
    /// Measure round trips: one message there, one back, over any transport
    #[command(after_long_help = RTT_END)]
    Rtt(Box<RttArgs>),
    /// Measure round trips over many lengths and several transports, side by side
    #[command(after_long_help = SPECTRUM_END)]
    Spectrum(Box<SpectrumArgs>),
    /// Run the responder that `prony rtt` exchanges messages with
    #[command(after_long_help = ECHO_END)]
    Echo(EchoArgs),
    /// Prove the meter on this host, and say how far it goes here
    ///
    /// What is known beforehand (a server's fixed latency, the times of a freeze, both sides'
    /// counters, bodies, the law of arrivals, an overload) is held against what the meter says of
    /// it. Then: the smallest times that can be measured, how late requests are sent, the highest
    /// rates at which the verdict is VALID, and what would help, with its command. The result is
    /// saved, and reports of later loads cite it.
    #[command(after_long_help = SELFTEST_END)]
    Selftest(SelftestArgs),
    /// Start a target server on this machine, load it for a few seconds, print the report
    ///
    /// The load is an open one, and the server's mean response time is known from queueing theory,
    /// so that the report can be held against it. Exits with 0 whatever the verdict.
    Demo(DemoArgs),
    /// Print the completion script of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff)
    Man {
        /// The page of that command instead of prony's own
        #[arg(value_name = "COMMAND")]
        page: Option<String>,
    },
}

/// Everything that can be said about a load.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// What to load: http://HOST:PORT/PATH; several are requested in turn
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,

    /// Connections; with --rate, at most so many [default: 50; all that fit]
    ///
    /// In an open loop the default is what the descriptor limit allows; the report says how many.
    /// Where the URLs of a closed loop name several servers, each is one connection to each server.
    #[arg(short, long, value_name = "N", help_heading = LOAD, value_parser = values::connections)]
    pub connections: Option<u32>,
    /// Stop after that many requests (10k, 2m)
    #[arg(
        short = 'n', long, value_name = "N", help_heading = LOAD,
        value_parser = values::positive,
    )]
    pub requests: Option<u64>,
    /// Stop after that time (1m30s) [default: 10s if nothing ends it]
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", help_heading = LOAD,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// Requests per second, whatever replies do: 20k, 1k..20k@60s
    ///
    /// This makes the load an open loop. 500, 20k/s, or a plan of steps and ramps, which then also
    /// gives the duration: 1k@10s,1k..20k@60s,20k@30s.
    #[arg(
        short, long, visible_short_alias = 'R', value_name = "PLAN", help_heading = LOAD,
        value_parser = values::rate_plan,
    )]
    pub rate: Option<RatePlan>,
    /// fixed, poisson, uniform:LO..HI or trace:FILE [default: fixed]
    ///
    /// How the arrivals of an open loop fall: evenly; at random with the asked rate; with gaps
    /// between the two; at the times of a file, one a line, in seconds. The last two need no
    /// --rate.
    #[arg(long, value_name = "LAW", help_heading = LOAD, value_parser = values::arrivals)]
    pub arrivals: Option<ArrivalsArg>,
    /// Requests in flight per connection
    #[arg(
        short, long, value_name = "D", help_heading = LOAD, default_value = "1",
        value_parser = values::pipeline,
    )]
    pub pipeline: u32,
    /// Pause after a reply: 50ms, exp:50ms, uniform:1ms..9ms [default: none]
    ///
    /// Only in a closed loop.
    #[arg(long, value_name = "T", help_heading = LOAD, value_parser = values::think)]
    pub think: Option<Think>,
    /// Read URLs from a file, one a line; `-` is standard input
    ///
    /// Also in vegeta's form: METHOD URL, then lines with headers and a line @BODYFILE.
    #[arg(long = "urls", value_name = "FILE", help_heading = LOAD)]
    pub urls_file: Vec<PathBuf>,
    /// Sessions instead of single requests: the file that tells them (TOML or wsesslog)
    ///
    /// Paths in the file are those of the URL's server. --connections is then the number of users
    /// that run one session after another, --rate sessions per second, and --think the pause
    /// between two sessions of a user. docs/plan-files.md tells of both formats.
    #[arg(
        long = "session", value_name = "FILE", help_heading = LOAD,
        conflicts_with_all = ["urls_file", "method", "body", "content_type"],
    )]
    pub session_file: Option<PathBuf>,
    /// Stop after that many sessions (10k, 2m)
    #[arg(
        long, value_name = "N", help_heading = LOAD, requires = "session_file",
        value_parser = values::positive,
    )]
    pub sessions: Option<u64>,
    /// Connections that one session may have open to a server [default: 1]
    #[arg(
        long, value_name = "N", help_heading = LOAD, requires = "session_file",
        value_parser = values::connections,
    )]
    pub session_connections: Option<u32>,
    /// How the next URL is picked: in-turn or random
    ///
    /// In turn means one after the other; in a closed loop each thread goes round on its own.
    #[arg(
        long, value_name = "HOW", help_heading = LOAD, default_value = "in-turn",
        value_parser = values::pick,
    )]
    pub pick: Pick,

    /// The method [default: GET; POST where there is a body]
    #[arg(
        short, long, visible_short_alias = 'X', value_name = "NAME", help_heading = REQUEST,
        value_parser = values::method,
    )]
    pub method: Option<String>,
    /// A header line, "Name: value", or @FILE with one on each line; may be repeated
    ///
    /// Other users of the machine can see the options of a process. A file keeps secrets from them;
    /// @- is standard input.
    #[arg(
        short = 'H', long, value_name = "LINE", help_heading = REQUEST,
        value_parser = values::header_arg,
    )]
    pub header: Vec<values::HeaderArg>,
    /// The body, or @FILE [default: none]
    ///
    /// @- is standard input.
    #[arg(short, long, value_name = "TEXT", help_heading = REQUEST, allow_hyphen_values = true)]
    pub body: Option<String>,
    /// The Content-Type header [default: none]
    #[arg(
        short = 'T', long, value_name = "TYPE", help_heading = REQUEST,
        value_parser = values::header_value,
    )]
    pub content_type: Option<String>,
    /// User and password for basic authentication [default: those of the URL]
    #[arg(
        short, long, value_name = "NAME:PASS", help_heading = REQUEST,
        value_parser = values::user,
    )]
    pub user: Option<Secret>,
    /// The Host header [default: host and port of the URL]
    #[arg(long, value_name = "NAME", help_heading = REQUEST, value_parser = values::host)]
    pub host: Option<String>,
    /// The version of HTTP: 1.0 or 1.1
    #[arg(
        long, value_name = "VERSION", help_heading = REQUEST, default_value = "1.1",
        value_parser = values::http,
    )]
    pub http: HttpVersion,
    /// Successful statuses: 200, 2xx, 200-299,404
    #[arg(
        long, value_name = "STATUSES", help_heading = REQUEST, default_value = "2xx,3xx",
        value_parser = values::statuses,
    )]
    pub expect: values::Statuses,
    /// Text that every body must contain [default: none]
    #[arg(long, value_name = "TEXT", help_heading = REQUEST)]
    pub expect_body: Option<String>,
    /// Length that every body must have, in bytes [default: any]
    #[arg(long, value_name = "N", help_heading = REQUEST, value_parser = values::count)]
    pub expect_length: Option<u64>,

    /// Keep connections open between requests (the default)
    #[arg(long, help_heading = CONNECTION, overrides_with = "no_reuse")]
    pub reuse: bool,
    /// Open a new connection for every request
    #[arg(long, help_heading = CONNECTION, overrides_with = "reuse")]
    pub no_reuse: bool,
    /// Close a connection after that many requests [default: never]
    #[arg(long, value_name = "N", help_heading = CONNECTION, value_parser = values::per_connection)]
    pub requests_per_connection: Option<u32>,
    /// Connect to this HOST:PORT, whatever the URL says
    #[arg(long, value_name = "ADDR", help_heading = CONNECTION, conflicts_with = "unix_socket")]
    pub connect_to: Option<String>,
    /// Connect to this Unix domain socket, whatever the URL says
    #[arg(
        long, value_name = "PATH", help_heading = CONNECTION,
        conflicts_with_all = ["source", "ipv4", "ipv6"],
    )]
    pub unix_socket: Option<String>,
    /// A request fails after that time
    ///
    /// It counts from the intended start. A timed-out request is an error, and also a latency of
    /// at least that long.
    #[arg(
        long, value_name = "T", help_heading = CONNECTION, default_value = "30s",
        value_parser = values::positive_span,
    )]
    pub timeout: Span,
    /// A connect fails after that time
    #[arg(
        long, value_name = "T", help_heading = CONNECTION, default_value = "5s",
        value_parser = values::positive_span,
    )]
    pub connect_timeout: Span,

    /// How connections are secured.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Load for that time before measuring; reported apart
    #[arg(
        long, value_name = "T", help_heading = MEASUREMENT, default_value = "0s",
        value_parser = values::span,
    )]
    pub warmup: Span,
    /// How the run is carried out.
    #[command(flatten)]
    pub means: MeansArgs,
    /// When it may end before its time.
    #[command(flatten)]
    pub until: UntilArgs,
    /// Print the plan file of this run, and do not make the run
    #[arg(long, help_heading = MEASUREMENT)]
    pub explain: bool,

    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be said about the demonstration.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long to load the server
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", default_value = "8s",
        value_parser = values::positive_span,
    )]
    pub duration: Span,
    /// Requests per second
    #[arg(
        short, long, visible_short_alias = 'R', value_name = "PLAN", default_value = "1500",
        value_parser = values::rate_plan,
    )]
    pub rate: RatePlan,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The command that was meant by a word which is none: a bare word that differs from it in two
/// letters at most.
pub(crate) fn command_meant(word: &str) -> Option<String> {
    let is_bare = word.len() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase());
    let command = Cli::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    let distance = |name: &&str| strsim::damerau_levenshtein(name, word);
    let nearest = names.filter(|_| is_bare).min_by_key(distance)?;
    let near = strsim::jaro_winkler(nearest, word) > 0.8;
    (near && (1..=2).contains(&distance(&nearest))).then(|| nearest.to_owned())
}

/// Whether the word is the name of a command.
fn is_command(word: &str) -> bool {
    Cli::command().get_subcommands().any(|c| c.get_name() == word)
}
