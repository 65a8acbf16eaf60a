//! The lines between driver and worker: JSON objects, each with its `type`. They are
//! described in docs/worker.md.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

use prony_base::fault::Fault;
use prony_plan::plan::{Plan, Secret, Shard};
use prony_stats::summary::CommandLine;
use prony_tally::record::series::{Block, Cell};
use serde::{Deserialize, Serialize};

/// The version of the protocol. It increases if a message changes its meaning or is removed.
pub const PROTOCOL: u32 = 1;

/// The longest line: a plan may carry many requests with their bodies.
const LINE_MAX: u64 = 256 << 20;

/// A message from a driver to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Order {
    /// The first line. Both sides must have the same version.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// prony's version.
        version: String,
    },
    /// The whole plan, and the worker's share of it.
    Plan(Box<PlanOrder>),
    /// Reply at once with the time of the wall clock.
    Ping {
        /// Returned in the reply.
        id: u64,
    },
    /// Start at this instant.
    Start {
        /// By the worker's wall clock, in nanoseconds since 1970.
        at_unix_ns: u64,
        /// The same instant by the driver's clock, for the report.
        run_unix_ns: u64,
    },
    /// Change the rate to a multiple of the plan's.
    Rate {
        /// The multiple; 0 is a pause.
        factor: f64,
        /// When the change takes effect, in nanoseconds since the start.
        from_ns: u64,
    },
    /// Start no more requests.
    Stop {
        /// Whether to give up those in flight as well.
        now: bool,
    },
}

/// The plan of a run, and facts about the run that a plan does not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanOrder {
    /// The whole plan.
    pub plan: Plan,
    /// The worker's share.
    pub shard: Shard,
    /// The environment variables that its templates name, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, Secret)>,
    /// The command line, for the report.
    #[serde(default)]
    pub command: CommandLine,
    /// Facts about the plan for the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the rate may be changed during the run.
    #[serde(default)]
    pub adjustable_rate: bool,
    /// Whether ticks must have the blocks of response times.
    #[serde(default)]
    pub blocks: bool,
    /// Whether they must have those of service times as well.
    #[serde(default)]
    pub service_blocks: bool,
}

/// A message from a worker to its driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// The reply to `hello`.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// prony's version.
        version: String,
        /// The host's name.
        host: String,
        /// The worker's process.
        pid: u32,
    },
    /// The reply to `ping`.
    Pong {
        /// The `id` of the ping.
        id: u64,
        /// The wall clock, in nanoseconds since 1970.
        unix_ns: u64,
    },
    /// The plan can run on this host.
    Ready,
    /// The last order was refused.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
    /// The reply to `start`: when the load starts.
    Armed {
        /// By the worker's wall clock.
        at_unix_ns: u64,
    },
    /// The reply to a `start` that arrived too late; nothing is sent.
    Late {
        /// How late it was.
        by_ns: u64,
    },
    /// The progress of the load: once a second, and whenever an interval is complete.
    Tick(Box<Tick>),
    /// The load has ended: its JSON report, as with `-o FILE.json`.
    Final {
        /// The report.
        report: serde_json::Value,
    },
}

/// The progress of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// The time since the start.
    pub now_ns: u64,
    /// Requests that started so far, warm-up included.
    pub started: u64,
    /// Successful replies so far.
    pub replies: u64,
    /// Failed requests so far.
    pub failed: u64,
    /// Failed requests so far by their error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<Fault, u64>,
    /// Replies so far by status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<(u16, u64)>,
    /// The last complete interval, if it was not reported before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<TickInterval>,
    /// The blocks of response times that were completed since the last tick, if the plan asked for
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<TickBlock>,
    /// The same of service times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_blocks: Vec<TickBlock>,
}

/// The response times of a short part of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TickBlock {
    /// Its begin since the start of the measurement.
    pub begin_ns: u64,
    /// The times.
    #[serde(flatten)]
    pub block: Block,
}

/// One interval of the series over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TickInterval {
    /// Its start, relative to that of the run.
    pub begin_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Its counts and response times.
    pub cell: Cell,
}

/// A message as a line, with its newline.
pub fn line(message: &impl Serialize) -> String {
    let mut text = serde_json::to_string(message).expect("a message can be written");
    text.push('\n');
    text
}

/// Parse a line.
///
/// # Errors
/// The reason, in a sentence.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text.trim_end()).map_err(|e| {
        let shown: String = text.chars().take(60).flat_map(char::escape_default).collect();
        let why = e.to_string().replace('\n', " ");
        format!("not a line of protocol {PROTOCOL} ({why}): {shown}")
    })
}

/// Read the next line; `None` at the end of the input.
///
/// # Errors
/// It cannot be read, is not text, or is too long.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    match input.take(LINE_MAX).read_line(&mut text)? {
        0 => Ok(None),
        n if n as u64 == LINE_MAX => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"))
        }
        _ => Ok(Some(text)),
    }
}

/// Fuzz target: lines from either side. A parsed message can be written and parsed again; an error
/// message has one line.
///
/// # Panics
/// If not.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for text in text.lines() {
        match parse::<Order>(text) {
            Ok(order) => assert_eq!(parse(&line(&order)), Ok(order)),
            Err(why) => assert!(!why.contains('\n'), "{why}"),
        }
        if let Ok(reply) = parse::<Reply>(text) {
            assert_eq!(parse(&line(&reply)), Ok(reply));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn corpus_of_worker_lines() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/worker_lines");
        let files = fs::read_dir(&folder).expect("a corpus");
        let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        assert!(files.len() >= 4, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            fuzz(&fs::read(&file).expect("a readable file"));
        }
    }

    #[test]
    fn lines_are_objects_with_a_type() {
        let order = Order::Start { at_unix_ns: 7, run_unix_ns: 5 };
        assert_eq!(line(&order), "{\"type\":\"start\",\"at_unix_ns\":7,\"run_unix_ns\":5}\n");
        assert_eq!(parse(&line(&order)), Ok(order));
        assert_eq!(line(&Reply::Ready), "{\"type\":\"ready\"}\n");
        for wrong in ["", "x", "{}", "{\"type\":\"go\"}", "{\"type\":\"ping\"}", "[]"] {
            let why = parse::<Order>(wrong).unwrap_err();
            assert!(why.starts_with("not a line of protocol 1 ("), "{wrong}: {why}");
        }
    }

    #[test]
    fn lines_end_with_the_input() {
        let mut input = io::Cursor::new("a\nb");
        let mut next = || read_line(&mut input).expect("text");
        assert_eq!(next().as_deref(), Some("a\n"));
        assert_eq!(next().as_deref(), Some("b"));
        assert_eq!(next(), None);
    }
}
