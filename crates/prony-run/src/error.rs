//! Every sentence with which something is refused, whatever the front end: what, where, what to do.

use std::io;
use std::path::PathBuf;

use prony_core::layer::ContextError;
use prony_core::units::ParseError;
use prony_io::SetupError;
use thiserror::Error;

use crate::exit::Exit;

/// Why there is no run, or no report of it.
#[derive(Debug, Error)]
pub enum Error {
    /// What a front end refuses in words of its own; the sentence is complete.
    #[error("{0}")]
    Argument(String),
    /// A URL that is none.
    #[error("{0}")]
    Url(ParseError),
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
    /// A load or a server could not be started: names, addresses, limits, kernel.
    #[error("{}", plain(&.0.to_string()))]
    Setup(#[from] SetupError),
    /// What a plan's secured connections need cannot be had.
    #[error("{}", of_tls(.0))]
    Tls(#[from] ContextError),
    /// No certificate can be made for a server.
    #[error("no certificate can be made for {host}: {why}")]
    Certificate {
        /// The server's host.
        host: String,
        /// Why.
        why: String,
    },
    /// Something else that the machine refuses; the sentence is complete.
    #[error("{0}")]
    Machine(String),
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

/// Why connections cannot be secured, and what to do.
fn of_tls(e: &ContextError) -> String {
    match e {
        ContextError::Roots(why) => format!("certificates to trust: {why}"),
        ContextError::Client(why) => format!("client certificate: {why}"),
        ContextError::Suites(why) => format!("{why}; name others, or another version"),
        ContextError::Name(_) => format!("{e}; give the right one with --sni"),
    }
}

/// A character that cannot break a line or paint a terminal.
pub fn visible(c: char) -> String {
    if c.is_control() { c.escape_default().to_string() } else { c.into() }
}
