//! The command line options. [`plan`] turns parsed options into a plan.

pub mod auth;
pub mod capacity;
pub mod checks;
pub mod closed;
pub mod compare;
pub mod exec_options;
pub mod follow;
pub mod form;
pub mod grpc;
pub(crate) mod help;
pub mod http2;
pub mod import;
pub(crate) mod keyed;
pub mod llm;
pub mod merge;
pub(crate) mod names;
pub mod output;
pub mod plan;
pub mod proxy;
pub mod raw;
pub mod ray_job;
pub mod record;
pub(crate) mod refusal;
pub mod replay;
pub mod rtt;
pub mod sctp;
pub mod selftest;
pub mod serve;
pub mod shard;
pub mod shown;
pub mod spectrum;
mod stream;
mod text;
pub mod tls;
pub mod trace;
pub mod transport;
pub(crate) mod typed;
pub mod values;
pub mod varied;
pub mod websocket;
mod words;
pub mod worker;

#[cfg(test)]
mod docs;
#[cfg(test)]
mod python;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use prony_base::units::Span;
use prony_plan::plan::{HttpVersion, Pick, StreamPlan};
use prony_plan::schedule::{ArrivalsArg, RatePlan};

use auth::AuthArgs;
use capacity::CapacityArgs;
use checks::CheckArgs;
use closed::ClosedArgs;
use compare::CompareArgs;
pub use exec_options::Driver;
use exec_options::{ExecArgs, RunArgs, UntilArgs};
use follow::FollowArgs;
use form::FormArgs;
use grpc::GrpcArgs;
use http2::Http2Args;
use import::ImportArgs;
use keyed::Given;
use llm::LlmArgs;
use merge::MergeArgs;
pub(crate) use names::command_meant;
use names::is_command;
use output::{OutputArgs, ReportArgs};
use proxy::ProxyArgs;
use raw::RawArgs;
use ray_job::RayJobArgs;
use record::RecordArgs;
use replay::ReplayArgs;
use rtt::{EchoArgs, RttArgs};
use selftest::SelftestArgs;
use serve::ServeArgs;
use shard::ShardArgs;
use spectrum::SpectrumArgs;
use text::{
    CAPACITY_END, COMPARE_END, ECHO_END, IMPORT_END, LLM_END, LONG_END, MERGE_END, RAY_JOB_END,
    RECORD_END, REPLAY_END, REPORT_END, RTT_END, RUN_END, SELFTEST_END, SERVE_END, SHORT_END,
    SPECTRUM_END,
};
use tls::TlsArgs;
use trace::TraceArgs;
use typed::TypedOptions;
use varied::VariedArgs;
use websocket::WebSocketArgs;
use words::{is_bare_word, of_load, without_help};
use worker::WorkerArgs;

const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const CONNECTION: &str = "Connection";
const HTTP2: &str = "HTTP/2";
const GRPC: &str = "gRPC";
const MESSAGES: &str = "Messages of gRPC and WebSocket";
const WEBSOCKET: &str = "WebSocket";
const STREAMS: &str = "Streams";
const LLM: &str = "Language models";
const MEASUREMENT: &str = "Measurement";
const SIMULATION: &str = "Simulation";
const HOSTS: &str = "Several hosts";

/// A load generator and latency meter for network services.
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
    /// The command; none means `load`.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// `prony URL...` is `prony load URL...`.
    #[command(flatten)]
    pub load: LoadArgs,
}

impl Cli {
    /// Parses a command line. The first word is the name of the program.
    ///
    /// # Errors
    /// The command line is invalid, or asks for help or the version.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words = without_help(words.into_iter().collect());
        if let Some(load) = Self::read_load(&words) {
            return Ok(Self { command: None, load });
        }
        let mut command = Self::lenient();
        let is_short = words.iter().any(|word| word == "-h") && of_load(&words).is_some();
        let matches = match command.try_get_matches_from_mut(words) {
            Err(e) if is_short && e.kind() == ErrorKind::DisplayHelp => {
                command.try_get_matches_from_mut(["prony", "help"])?
            }
            matches => matches?,
        };
        Self::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
    }

    /// Parses a command line of `prony URL...` or `prony load URL...` with the options of a load
    /// alone: to create those of all commands would take a large part of the start. `None` if that
    /// is not enough: for another command, for help, and for the message of an error.
    fn read_load(words: &[OsString]) -> Option<LoadArgs> {
        let words = of_load(words)?;
        let matches = load_alone().try_get_matches_from(words).ok()?;
        LoadArgs::from_arg_matches(&matches).ok()
    }

    /// The options. A negative number is parsed as a value, so that the parser of its option can
    /// explain the error.
    fn lenient() -> clap::Command {
        let lenient = |command: clap::Command| {
            command.mut_args(|arg| {
                let has_value = arg.get_action().takes_values() && !arg.is_positional();
                if has_value { arg.allow_negative_numbers(true) } else { arg }
            })
        };
        let shared = help::shared_ids();
        lenient(Self::command()).mut_subcommands(|command| {
            let command = lenient(command);
            if command.get_name() == "load" {
                command
            } else {
                help::without_shared(command, &shared)
            }
        })
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a server (the same as `prony URL...`)
    #[command(
        override_usage = "prony load [OPTIONS] URL...",
        after_help = SHORT_END,
        after_long_help = LONG_END,
    )]
    Load(Box<LoadArgs>),
    /// Load a language model, and measure the tokens of its replies
    ///
    /// For servers with the interface of OpenAI or Anthropic. docs/llm.md has a walk-through and
    /// defines the figures.
    #[command(
        override_usage = "prony llm [OPTIONS] --model NAME URL...",
        after_help = LLM_END,
        after_long_help = LLM_END,
        mut_args = llm::adapt,
    )]
    Llm(Box<LoadArgs>),
    /// Find the highest rate at which a target keeps its thresholds
    ///
    #[command(after_long_help = CAPACITY_END, mut_args = |arg| capacity::REFUSED.hide(arg))]
    Capacity(Box<CapacityArgs>),
    /// Run a plan file
    #[command(after_long_help = RUN_END)]
    Run(Box<RunArgs>),
    /// Check a plan file and report every error with its line and column
    Check {
        /// The plan file, or a session file; `-` is standard input
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    /// Make a plan file of a recording or a collection of another tool
    ///
    /// Prints the plan, and reports on standard error what is not in it and why. docs/import.md
    /// describes the formats.
    #[command(after_long_help = IMPORT_END)]
    Import(ImportArgs),
    /// Record what clients do, as a plan file and as an HTTP archive
    ///
    /// Runs a reverse proxy that passes requests on to the target, changed in nothing but `Host`.
    /// docs/record.md shows it with a browser.
    #[command(
        override_usage = "prony record [OPTIONS] [LISTEN] --to URL",
        after_long_help = RECORD_END,
    )]
    Record(Box<RecordArgs>),
    /// Compare two or more targets, or groups of saved results
    ///
    /// Runs blocks of load against A and B in turn, in random order, until it is known which
    /// figures differ and which are the same within a margin. docs/compare.md explains the
    /// statistics.
    #[command(
        override_usage = "prony compare [OPTIONS] TARGET TARGET...\n       \
                          prony compare [OPTIONS] FILE... -- FILE...",
        after_long_help = COMPARE_END,
        mut_args = |arg| compare::REFUSED.hide(arg),
    )]
    Compare(Box<CompareArgs>),
    /// Send the requests of an access log at the times of the log
    ///
    /// Reads the log while the load runs, and reports response times by pattern of paths, beside
    /// those of the log. docs/replay.md describes formats and options.
    #[command(
        override_usage = "prony replay [OPTIONS] LOG... --to URL",
        after_long_help = REPLAY_END,
        mut_args = replay::adapt,
    )]
    Replay(Box<ReplayArgs>),
    /// Show saved results again in any format, or compare several
    #[command(after_long_help = REPORT_END)]
    Report(ReportArgs),
    /// Merge the reports of the shards of one run into the report of the whole run
    ///
    #[command(after_long_help = MERGE_END)]
    Merge(MergeArgs),
    /// Run one share of a load, on the orders of a driver on standard input
    ///
    /// The driver of a run on several hosts starts it. Orders and replies are lines of JSON
    /// (docs/worker.md). It ends when its input ends.
    Worker(WorkerArgs),
    /// Print the manifest of a job on Kubernetes (KubeRay) that runs a plan on several nodes
    ///
    /// The manifest has the plan, and a RayJob whose cluster has one worker on each of N nodes.
    /// Check and change it as you need, and apply it by `kubectl apply -f`.
    #[command(after_long_help = RAY_JOB_END)]
    RayJob(RayJobArgs),
    /// Run a target server with configurable latency and faults
    #[command(after_long_help = SERVE_END)]
    Serve(Box<ServeArgs>),
    /// Measure round-trip times over TCP, UDP, SCTP or Unix domain sockets
    #[command(after_long_help = RTT_END)]
    Rtt(Box<RttArgs>),
    /// Compare round-trip times over many message lengths and several transports
    #[command(after_long_help = SPECTRUM_END)]
    Spectrum(Box<SpectrumArgs>),
    /// Run the responder for `prony rtt` and `prony spectrum`
    #[command(after_long_help = ECHO_END)]
    Echo(EchoArgs),
    /// Check the accuracy of measurements on this host, and find its limits
    ///
    /// Compares measurements with known values: a server's fixed latency, the times of a freeze,
    /// the counters of both sides, reply bodies, the distribution of arrivals, an overload. Then
    /// measures the shortest latency that prony can measure here, how late it sends requests, and
    /// the highest rates with the verdict VALID. Suggests system settings that would improve these,
    /// with the commands. Saves the result; reports of later loads refer to it.
    #[command(after_long_help = SELFTEST_END)]
    Selftest(SelftestArgs),
    /// Load a target server on this machine for a few seconds, and print the report
    ///
    /// Runs an open loop. Queueing theory gives the server's mean response time, so you can compare
    /// the report with it. Exits with 0 whatever the verdict.
    Demo(DemoArgs),
    /// Show the options of a topic, or a command with all of its options
    #[command(
        override_usage = "prony help [TOPIC...]\n       prony help COMMAND\n       prony help all"
    )]
    Help {
        /// The topics, or one command; `prony help` lists them
        #[arg(value_name = "TOPIC")]
        topics: Vec<String>,
    },
    /// Define a word of the report
    ///
    /// From docs/terms.md, without a network.
    Terms {
        /// The word, or several; none lists all
        #[arg(value_name = "NAME")]
        name: Vec<String>,
    },
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff)
    Man {
        /// Print the page of this command [default: the page of prony itself]
        #[arg(value_name = "COMMAND")]
        page: Option<String>,
    },
}

/// The options of a load.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Which options the command line has. It comes first: the others take theirs away.
    #[command(flatten)]
    pub typed: TypedOptions,
    /// The URLs to request, in turn: http://HOST:PORT/PATH
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,

    /// Number of connections; with --rate, the maximum [default: 50; with --rate, the system limit]
    ///
    /// With --rate, the default is as many as the limit of open files allows; the report shows the
    /// number. In a closed loop over several servers, each of the N users has one connection to
    /// each server.
    #[arg(short, long, value_name = "N", help_heading = LOAD, value_parser = values::connections)]
    pub connections: Option<u32>,
    /// Stop after N requests (10k, 2m)
    #[arg(
        short = 'n', long, value_name = "N", help_heading = LOAD,
        value_parser = values::positive,
    )]
    pub requests: Option<u64>,
    /// Stop after this time (1m30s) [default: 10s if no other option ends the run]
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", help_heading = LOAD,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// Requests per second, independent of replies (open loop): 20k, 1k..20k@60s
    ///
    /// A constant rate (500, 20k/s), or a list of steps and ramps, which then also sets the
    /// duration: 1k@10s,1k..20k@60s,20k@30s.
    #[arg(
        short, long, visible_short_alias = 'R', value_name = "PLAN", help_heading = LOAD,
        value_parser = values::rate_plan,
    )]
    pub rate: Option<RatePlan>,
    /// Arrival process: fixed, poisson, gamma:SHAPE, uniform:LOW:HIGH, trace:FILE [default: fixed]
    ///
    /// How an open loop spaces its requests. fixed: at equal intervals. poisson: a Poisson process
    /// at the rate of --rate. gamma: more bursty below a SHAPE of 1, which is poisson, more regular
    /// above (the burstiness of vLLM's benchmark). uniform: intervals drawn between LOW and HIGH.
    /// trace: at the times in FILE, one per line, in seconds. The last two exclude --rate.
    #[arg(long, value_name = "DIST", help_heading = LOAD, value_parser = values::arrivals)]
    pub arrivals: Option<ArrivalsArg>,
    /// Requests in flight per connection
    #[arg(
        short, long, value_name = "D", help_heading = LOAD, default_value = "1",
        value_parser = values::pipeline,
    )]
    pub pipeline: u32,
    /// The options of closed loops.
    #[command(flatten)]
    pub closed: ClosedArgs,
    /// Read URLs from a file, one per line; `-` is standard input
    ///
    /// The format of vegeta works too: METHOD URL, then header lines and a line @BODYFILE.
    #[arg(long = "urls", value_name = "FILE", help_heading = LOAD)]
    pub urls_file: Vec<PathBuf>,
    /// Run the sessions of this file (TOML or wsesslog) instead of single requests
    ///
    /// The paths in the file are relative to the server of the URL. --connections is then the
    /// number of users, each of which runs one session after another; --rate is in sessions per
    /// second; --think is the pause between two sessions of a user. docs/plan-files.md describes
    /// both formats.
    #[arg(
        long = "session", value_name = "FILE", help_heading = LOAD,
        conflicts_with_all = ["urls_file", "method", "body", "content_type"],
    )]
    pub session_file: Option<PathBuf>,
    /// Stop after N sessions (10k, 2m)
    #[arg(long, value_name = "N", help_heading = LOAD, value_parser = values::positive)]
    pub sessions: Option<u64>,
    /// Maximum number of connections per session and server [default: 1]
    #[arg(
        long, value_name = "N", help_heading = LOAD, requires = "session_file",
        value_parser = values::connections,
    )]
    pub session_connections: Option<u32>,
    /// How to choose the next URL: in-turn or random
    ///
    /// In a closed loop, each thread goes through the URLs on its own.
    #[arg(
        long, value_name = "HOW", help_heading = LOAD, default_value = "in-turn",
        value_parser = values::pick,
    )]
    pub pick: Pick,

    /// HTTP method [default: GET, or POST with a body]
    #[arg(
        short, long, visible_short_alias = 'X', value_name = "NAME", help_heading = REQUEST,
        value_parser = values::method,
    )]
    pub method: Option<String>,
    /// Add a header: "Name: value", or @FILE with one per line; may be repeated
    ///
    /// @- reads standard input. Other users of this machine can see the command line; use a file
    /// for secrets.
    #[arg(
        short = 'H', long, value_name = "LINE", help_heading = REQUEST,
        value_parser = values::header_arg,
    )]
    pub header: Vec<values::HeaderArg>,
    /// Request body, or @FILE [default: none]
    ///
    /// @- reads standard input. A file over 64 MiB is sent from disk, in pieces.
    #[arg(short, long, value_name = "TEXT", help_heading = REQUEST, allow_hyphen_values = true)]
    pub body: Option<String>,
    /// Content-Type header [default: none]
    #[arg(
        short = 'T', long, value_name = "TYPE", help_heading = REQUEST,
        value_parser = values::header_value,
    )]
    pub content_type: Option<String>,
    /// The options of forms.
    #[command(flatten)]
    pub form: FormArgs,
    /// The options of requests that vary.
    #[command(flatten)]
    pub varied: VariedArgs,
    /// The options of credentials.
    #[command(flatten)]
    pub auth: AuthArgs,
    /// Host header [default: host and port of the URL]
    #[arg(long, value_name = "NAME", help_heading = REQUEST, value_parser = values::host)]
    pub host: Option<String>,
    /// HTTP version: 1.0, 1.1, 2 or 2-only
    ///
    /// 2: HTTP/2 if the server offers it in the TLS handshake (ALPN), otherwise HTTP/1.1. 2-only:
    /// HTTP/2 alone; for http:// URLs without negotiation (prior knowledge).
    #[arg(
        long, value_name = "VERSION", help_heading = REQUEST, default_value = "1.1",
        value_parser = values::http,
    )]
    pub http: HttpVersion,
    /// The options of redirects.
    #[command(flatten)]
    pub follow: FollowArgs,
    /// Status codes that count as success: 200, 2xx, 200-299,404
    #[arg(
        long, value_name = "STATUSES", help_heading = REQUEST, default_value = "2xx,3xx",
        value_parser = values::statuses,
    )]
    pub expect: values::Statuses,
    /// Text that every reply body must contain [default: none]
    #[arg(long, value_name = "TEXT", help_heading = REQUEST)]
    pub expect_body: Option<String>,
    /// Required length of every reply body, in bytes [default: any]
    #[arg(long, value_name = "N", help_heading = REQUEST, value_parser = values::count)]
    pub expect_length: Option<u64>,
    /// The options of checks.
    #[command(flatten)]
    pub checks: CheckArgs,

    /// Keep connections open between requests (the default)
    #[arg(long, help_heading = CONNECTION, overrides_with = "no_reuse")]
    pub reuse: bool,
    /// Open a new connection for every request
    #[arg(long, help_heading = CONNECTION, overrides_with = "reuse")]
    pub no_reuse: bool,
    /// Close a connection after N requests [default: never]
    #[arg(long, value_name = "N", help_heading = CONNECTION, value_parser = values::per_connection)]
    pub requests_per_connection: Option<u32>,
    /// Connect to this HOST:PORT instead of the host of the URL
    #[arg(long, value_name = "ADDR", help_heading = CONNECTION, conflicts_with = "unix_socket")]
    pub connect_to: Option<String>,
    /// Connect to this Unix domain socket instead of the host of the URL
    #[arg(
        long, value_name = "PATH", help_heading = CONNECTION,
        conflicts_with_all = ["source", "ipv4", "ipv6"],
    )]
    pub unix_socket: Option<String>,
    /// The options of a proxy.
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// Maximum time for a request
    ///
    /// Measured from the intended start. A request that times out counts as an error, and enters
    /// the latencies with at least this time.
    #[arg(
        long, value_name = "T", help_heading = CONNECTION, default_value = "30s",
        value_parser = values::positive_span,
    )]
    pub timeout: Span,
    /// Maximum time to establish a connection
    #[arg(
        long, value_name = "T", help_heading = CONNECTION, default_value = "5s",
        value_parser = values::positive_span,
    )]
    pub connect_timeout: Span,

    /// The options of HTTP/2.
    #[command(flatten)]
    pub http2: Http2Args,
    /// The options of gRPC.
    #[command(flatten)]
    pub grpc: GrpcArgs,
    /// The options of WebSocket.
    #[command(flatten)]
    pub(crate) websocket: WebSocketArgs,
    /// The options of streams.
    #[command(flatten)]
    pub(crate) stream: Given<StreamPlan>,
    /// The options of language models.
    #[command(flatten)]
    pub llm: LlmArgs,
    /// The options of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Run the load this long before measuring; reported separately
    #[arg(
        long, value_name = "T", help_heading = MEASUREMENT, default_value = "0s",
        value_parser = values::span,
    )]
    pub warmup: Span,
    /// Options of execution.
    #[command(flatten)]
    pub exec: ExecArgs,
    /// Stopping early.
    #[command(flatten)]
    pub until: UntilArgs,
    /// Which share of it, and when.
    #[command(flatten)]
    pub shard: ShardArgs,
    /// Print the plan file of this run instead of running it
    #[arg(long, help_heading = MEASUREMENT)]
    pub explain: bool,

    /// Traces.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Raw results.
    #[command(flatten)]
    pub raw: RawArgs,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The options of the demonstration.
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
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The option table of a load, without help and version.
fn load_alone() -> clap::Command {
    let command = clap::Command::new("prony").disable_help_flag(true).disable_version_flag(true);
    LoadArgs::augment_args(command)
}
