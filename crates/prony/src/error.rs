//! Every sentence with which prony refuses something: what, where, what to do.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use prony_core::units::ParseError;
use thiserror::Error;

use crate::exit::Exit;

/// Options whose values a message about them must not repeat, as the parser names them.
const SECRETS: [&str; 3] = ["--user", "--header", "--body"];

/// Why there is no run, or no report of it.
#[derive(Debug, Error)]
pub enum Error {
    /// The command line is not one; the sentence is complete. Then the command, with a blank.
    #[error("{0}; `prony {1}--help` lists all options")]
    Usage(String, String),
    /// A value that its option refuses; the sentence is complete.
    #[error("{0}")]
    Argument(String),
    /// Nothing to load.
    #[error("no URL to load; give one, as in `prony http://127.0.0.1:8080/`, or `--urls FILE`")]
    NoUrl,
    /// A command where a URL must stand.
    #[error(
        "`{0}` is a command and must come before all options; a host of that name is written \
         `http://{0}/`"
    )]
    CommandAsUrl(String),
    /// A word that is no command, and which command was meant.
    #[error(
        "there is no command '{0}'; did you mean '{1}'? (a host of that name is written \
         `http://{0}/`)"
    )]
    NoCommand(String, String),
    /// A unix socket in the place of a URL: as typed, and its path.
    #[error(
        "'{0}' is not a URL; a unix socket is an option, and the URL says the rest: \
         `--unix-socket {1} http://localhost/`"
    )]
    UnixAsUrl(String, String),
    /// A URL that is none.
    #[error("{0}")]
    Url(ParseError),
    /// A file of URLs that is none.
    #[error("--urls {}: {why}", .path.display())]
    UrlFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with the line.
        why: String,
    },
    /// A file without any URL.
    #[error("--urls {}: there is no URL in it; write one a line", .0.display())]
    UrlFileEmpty(PathBuf),
    /// A file that cannot be read.
    #[error("{what} {}: cannot be read: {}", .path.display(), sentence(.why))]
    Unreadable {
        /// The option that named it.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A trace file that is none.
    #[error("--arrivals trace:{}: {why}", .path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with the line.
        why: String,
    },
    /// A plan file that is none: each sentence with its place.
    #[error("{}", .0.join("\nprony: "))]
    PlanFile(Vec<String>),
    /// Options that exclude each other.
    #[error("{0} and {1} exclude each other: {2}")]
    Conflict(&'static str, &'static str, &'static str),
    /// An option that needs another.
    #[error("{0} needs {1}: {2}")]
    Needs(&'static str, &'static str, &'static str),
    /// A value that cannot be used.
    #[error("{what} `{value}`: {why}")]
    Value {
        /// The option.
        what: &'static str,
        /// As typed.
        value: String,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// The pieces are right, the whole is not.
    #[error("this run cannot be made: {0}")]
    Plan(String),
    /// An output file whose format is not known.
    #[error(
        "--output {}: the ending says the format: .html, .svg, .png, .json, .csv, .hgrm or .hlog",
        .0.display()
    )]
    OutputEnding(PathBuf),
    /// Standard output in the place of an output file.
    #[error(
        "--output -: standard output has the report already; --format FORMAT says how it looks, \
         and --json is --format json"
    )]
    OutputStdout,
    /// Two outputs, one file.
    #[error("--output {}: named twice; give each file once", .0.display())]
    OutputTwice(PathBuf),
    /// An output file that cannot be written, found before the load.
    #[error(
        "--output {}: cannot be written: {}; give a file in a folder that exists and is writable",
        .path.display(), sentence(.why)
    )]
    OutputPlace {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The place where self-tests are kept cannot be written.
    #[error(
        "the self-test will not be saved, and later reports will not cite it: {}: {}; to save it, \
         name a file by --output",
        .path.display(), sentence(.why)
    )]
    SelftestPlace {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file that is no saved result.
    #[error("{}: {why}", .path.display())]
    Result {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// A format that tells of one run only.
    #[error(
        "{0}: that format tells of one run, not of {1}: give one FILE, or take text, html, svg or png"
    )]
    OneOnly(String, usize),
    /// The load could not be started: names, addresses, limits, kernel.
    #[error("{0}")]
    Setup(String),
    /// The target server could not be started.
    #[error("{0}")]
    Serve(String),
    /// A saved result that is not valid was to be compared; which, and why not.
    #[error(
        "{0}; what is not valid is no ground for a comparison: measure again, or add \
             --accept-invalid"
    )]
    Doubtful(String),
    /// Standard output that could not be written, whatever it was to have.
    #[error("standard output could not be written: {}", sentence(.0))]
    Stdout(io::Error),
    /// A file that could not be written, of a command that makes no run.
    #[error("{what} could not be written: {}", sentence(.why))]
    Written {
        /// Which file.
        what: String,
        /// Why.
        why: io::Error,
    },
    /// A report that could not be written after the run.
    #[error("the run was made, but {what} could not be written: {}", sentence(.why))]
    Report {
        /// `the report` or the file.
        what: String,
        /// Why.
        why: io::Error,
    },
}

impl Error {
    /// The sentence as it is printed: in one line whatever stands in names and values, but one line
    /// for each problem of a plan file.
    pub fn printed(&self) -> String {
        match self {
            Self::PlanFile(_) => self.to_string(),
            e => e.to_string().chars().map(visible).collect(),
        }
    }

    /// The exit code that says so.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Report { .. } | Self::Stdout(_) | Self::Written { .. } => Exit::Output,
            Self::Doubtful(_) => Exit::NotValid,
            _ => Exit::Usage,
        }
    }
}

/// A sentence without the numbers of the system's errors in it, which help nobody.
pub fn plain(sentence: &str) -> String {
    let mut parts = sentence.split(" (os error ");
    let head = parts.next().unwrap_or_default().to_owned();
    parts.fold(head, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// An error of the system as part of a sentence: in small letters, without its number.
fn sentence(e: &io::Error) -> String {
    let text = plain(&e.to_string());
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// A refusal of the command line parser as one sentence.
pub fn of_clap(e: &clap::Error) -> Error {
    if let Some(sentence) = of_value(e) {
        return Error::Argument(sentence);
    }
    let text = e.to_string();
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let lines = lines.map(|l| l.trim_start_matches("error: ").trim_start_matches("tip: "));
    // That any word can be a value after `--` helps nobody who has mistyped an option.
    let lines = lines.filter(|l| !l.is_empty() && !l.contains("as a value, use '--"));
    let parts: Vec<_> = lines.chain(foreign(e)).collect();
    let usage = text.lines().find_map(|l| l.trim().strip_prefix("Usage: prony "));
    Error::Usage(parts.join("; ").replace(":; ", ": "), command(usage.unwrap_or_default()))
}

/// The command that a usage is of, and a blank; nothing where it is that of no command.
fn command(usage: &str) -> String {
    let word = usage.split(' ').next().filter(|w| w.bytes().all(|b| b.is_ascii_lowercase()));
    word.filter(|w| !w.is_empty()).map(|w| format!("{w} ")).unwrap_or_default()
}

/// A value that its option refuses, in the words of whoever refuses it.
fn of_value(e: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = e.get(ContextKind::InvalidValue) else { return None };
    let name = arg.split(" <").next().unwrap_or(arg).trim_matches(['<', '>']);
    match (e.kind(), e.get(ContextKind::ValidValue)) {
        (ErrorKind::ValueValidation, _) => {
            let why = e.source()?.to_string();
            // Most sentences name the value themselves.
            let named = why.contains(&format!("'{value}'"));
            if SECRETS.contains(&name) {
                return Some(format!("{name}: {why}"));
            }
            let is_body = name == "--duration" && value.starts_with(['@', '{']);
            let hint = if is_body { "; the body of a request is -b (--body)" } else { "" };
            let value: String = value.chars().map(visible).collect();
            Some(match named {
                true => format!("{name}: {why}{hint}"),
                false => format!("{name} {value}: {why}{hint}"),
            })
        }
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) if !value.is_empty() => {
            Some(format!("{name}: '{value}' is unknown; write one of {}", valid.join(", ")))
        }
        _ => None,
    }
}

/// A character that cannot break a line or paint a terminal.
fn visible(c: char) -> String {
    if c.is_control() { c.escape_default().to_string() } else { c.into() }
}

/// Options of other load generators that people type, and what they are called here.
fn foreign(e: &clap::Error) -> Option<&'static str> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(arg)) = e.get(ContextKind::InvalidArg) else { return None };
    Some(match arg.as_str() {
        "-q" => "the rate over all connections is `--rate`",
        "-k" => "keep-alive is the default here, and `--no-reuse` ends it",
        "-s" => "scripts are not supported, and a timeout is `--timeout`",
        "-L" | "--latency" => "latencies are always reported in full",
        "-i" => "a HEAD request is `-m HEAD`",
        _ => return None,
    })
}
