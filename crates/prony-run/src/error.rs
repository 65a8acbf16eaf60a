//! The error messages of all front ends: the problem, its place, and how to fix it.

use std::io;
use std::path::PathBuf;

use prony_base::plain;
use prony_base::units::ParseError;
use prony_io::SetupError;
use prony_proto::layer::ContextError;
use thiserror::Error;

use crate::exit::Exit;

/// Why a run could not start, or its report could not be written.
#[derive(Debug, Error)]
pub enum Error {
    /// An error of a front end, with its complete message.
    #[error("{0}")]
    Argument(String),
    /// The user stopped a run before its start.
    #[error("interrupted before the start; nothing was sent")]
    Stopped,
    /// An invalid URL.
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
    /// An invalid plan file: its errors, each with its position.
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
        /// The value as given.
        value: String,
        /// The problem, and what to write instead.
        why: String,
    },
    /// A combination of valid values that cannot be run.
    #[error("this plan cannot be run: {0}")]
    Plan(String),
    /// An output file with an unknown format.
    #[error(
        "--output {}: unknown file name extension; use .html, .svg, .png, .json, .csv, .xml, .md, .hgrm or .hlog",
        .0.display()
    )]
    OutputEnding(PathBuf),
    /// Standard output as an output file.
    #[error(
        "--output -: the report is always printed to standard output; set its format with --format"
    )]
    OutputStdout,
    /// The same output file twice.
    #[error("--output {}: given twice; give each file once", .0.display())]
    OutputTwice(PathBuf),
    /// An output file that cannot be written, detected before the load.
    #[error(
        "--output {}: cannot be written: {}; choose an existing, writable directory",
        .path.display(), sentence(.why)
    )]
    OutputPlace {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The default file of the self-test cannot be written.
    #[error(
        "the self-test will not be saved, and later reports cannot refer to it: {}: {}; choose \
         another file with --output",
        .path.display(), sentence(.why)
    )]
    SelftestPlace {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file that is not a saved result.
    #[error("{}: {why}", .path.display())]
    Result {
        /// Which file.
        path: PathBuf,
        /// The problem, and the expected content.
        why: String,
    },
    /// A format that can show only one run.
    #[error(
        "{0}: this format can show one run, not {1}; give one FILE, or use text, html, json, csv, \
         md, svg or png"
    )]
    OneOnly(String, usize),
    /// A load or a server could not be started: names, addresses, limits, kernel.
    #[error("{}", plain(&.0.to_string()))]
    Setup(#[from] SetupError),
    /// The TLS part of a plan cannot be used.
    #[error("{}", of_tls(.0))]
    Tls(#[from] ContextError),
    /// A certificate for a server could not be created.
    #[error("cannot create a certificate for {host}: {why}")]
    Certificate {
        /// The server's host.
        host: String,
        /// Why.
        why: String,
    },
    /// A server that prony starts did not start, or ended, or the target cannot be reached, with
    /// its complete message.
    #[error("{0}")]
    Server(String),
    /// Another error of the system, with its complete message.
    #[error("{0}")]
    Machine(String),
    /// Standard output could not be written.
    #[error("standard output could not be written: {}", sentence(.0))]
    Stdout(io::Error),
    /// A file of a command without a run could not be written.
    #[error("{what} could not be written: {}", sentence(.why))]
    Written {
        /// Which file.
        what: String,
        /// Why.
        why: io::Error,
    },
    /// A report could not be written after the run.
    #[error("the run finished, but {what} could not be written: {}", sentence(.why))]
    Report {
        /// `the report` or the file.
        what: String,
        /// Why.
        why: io::Error,
    },
    /// Several outputs could not be written, each with its line.
    #[error("{}", .0.iter().map(Error::printed).collect::<Vec<_>>().join("\nprony: "))]
    Several(Vec<Self>),
}

impl Error {
    /// One result of several attempts, of which each was made: all their errors.
    ///
    /// # Errors
    /// At least one has failed.
    pub fn all(results: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let mut errors: Vec<Self> = results.into_iter().filter_map(Result::err).collect();
        match errors.len() {
            0 => Ok(()),
            1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(Self::Several(errors)),
        }
    }

    /// The same error of a command without a run.
    #[must_use]
    pub fn without_run(self) -> Self {
        match self {
            Self::Report { what, why } => Self::Written { what, why },
            Self::Several(all) => Self::Several(all.into_iter().map(Self::without_run).collect()),
            e => e,
        }
    }

    /// The printed message: one plain line. A plan file has one line for each of its errors, and so
    /// have several outputs.
    pub fn printed(&self) -> String {
        match self {
            Self::PlanFile(all) => {
                all.iter().map(|e| plain::line(e)).collect::<Vec<_>>().join("\nprony: ")
            }
            Self::Several(all) => {
                all.iter().map(Self::printed).collect::<Vec<_>>().join("\nprony: ")
            }
            e => plain::line(&e.to_string()).into_owned(),
        }
    }

    /// The exit code of this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Several(all) => all.first().map_or(Exit::Usage, Self::exit),
            Self::Report { .. } | Self::Stdout(_) | Self::Written { .. } => Exit::Output,
            Self::Server(_) => Exit::NoAnswer,
            _ => Exit::Usage,
        }
    }
}

/// The message without the numbers of system errors, which do not help users.
pub fn plain(sentence: &str) -> String {
    let mut parts = sentence.split(" (os error ");
    let head = parts.next().unwrap_or_default().to_owned();
    parts.fold(head, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// A system error as part of a sentence: in lower case, without its number.
fn sentence(e: &io::Error) -> String {
    let text = plain(&e.to_string());
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// The message for a TLS error.
fn of_tls(e: &ContextError) -> String {
    match e {
        ContextError::Roots(why) => format!("CA certificates: {why}"),
        ContextError::Client(why) => format!("client certificate: {why}"),
        ContextError::Suites(why) => format!("{why}; choose others, or another TLS version"),
        ContextError::Name(_) => format!("{e}; set the server name with --sni"),
    }
}
