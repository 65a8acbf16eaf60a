//! A replay of a log: what was read, how it was changed, and how long its requests took when they
//! were logged.

use prony_base::units::Span;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::Blocks;
use serde::{Deserialize, Serialize};

/// The log of a replay, and what was made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// What was read of each file; of a log that is sent repeatedly, the first time.
    pub logs: Vec<LogRead>,
    /// How much faster than in the log time passed.
    pub speed: f64,
    /// How many copies of the log were sent at once.
    pub copies: u32,
    /// How far each copy was behind the one before, in the time of the log.
    pub shift: Span,
    /// Which share of the log was sent, as the user has it; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Whether the log was sent again after its end.
    pub repeats: bool,
    /// How bursty the arrivals were.
    pub burstiness: Vec<Burstiness>,
    /// How long the requests took when they were logged, for each name of the plan; empty if the
    /// log does not say. Each request of the log counts once, if its status is expected.
    pub took: Vec<Hist>,
    /// The same times, of all names together, in blocks of the replay's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_blocks: Option<Blocks>,
    /// The resolution of these times; 0 if it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took_step: Span,
    /// Whose requests were kept in order: those of a `client`, or of a `cookie`; `None`: nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether they waited only until the last one had been sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_until_sent: bool,
    /// How long requests waited after they were due, as the last one of their client had not ended
    /// (or had not been sent); of those that had to.
    #[serde(default, skip_serializing_if = "Hist::is_empty")]
    pub held: Hist,
    /// The bodies that requests had; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bodies: Option<LogBodies>,
    /// Requests that were read after they were due.
    pub read_late: u64,
    /// How late at most.
    pub read_late_most: Span,
    /// Why the log was not read to its end, if it could not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The bodies of a file, and the requests for which there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBodies {
    /// The name of the file.
    pub file: String,
    /// Bodies in the file.
    pub bodies: u64,
    /// Keys in the file.
    pub keys: u64,
    /// POST, PUT and PATCH requests without a body in the file; they were sent with an empty one.
    pub missing: u64,
    /// Of these, requests that had no key.
    pub no_key: u64,
    /// The first keys that were not in the file, each once.
    pub missing_keys: Vec<String>,
}

/// What was read of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRead {
    /// Its name; `-` is standard input.
    pub file: String,
    /// The format of its lines.
    pub format: String,
    /// Which time of a line a request was sent at, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub times: String,
    /// Bytes, after they were decompressed.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Lines with a request that may be sent.
    pub requests: u64,
    /// Lines of connections without a request.
    pub no_request: u64,
    /// Requests that were left out because of their method.
    pub other_method: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Vec<BadLine>,
    /// Requests with a time to the second only, which was spread over the second.
    pub spread: u64,
    /// Requests that were moved to a later time to be in order.
    pub moved: u64,
    /// By how much at most.
    pub moved_most: Span,
}

/// A line that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong.
    pub why: String,
    /// Its beginning, up to what may be secret.
    pub text: String,
}

/// The index of dispersion of arrivals: the variance of their number in windows of one length,
/// divided by its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burstiness {
    /// The length of the windows.
    pub window: Span,
    /// Of the log.
    pub logged: Option<f64>,
    /// Of the replay.
    pub replayed: Option<f64>,
}

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

impl LogRead {
    /// Lines that are neither empty nor comments.
    fn entries(&self) -> u64 {
        self.requests + self.no_request + self.other_method + self.bad
    }
}

impl Replayed {
    /// Lines that could not be read, and all that could have had a request.
    pub fn unread(&self) -> (u64, u64) {
        let sum = |of: fn(&LogRead) -> u64| self.logs.iter().map(of).sum();
        (sum(|log| log.bad), sum(LogRead::entries))
    }

    /// Cuts what may be secret: queries in lines that could not be read, and in keys.
    pub fn hide(&mut self) {
        let lines = self.logs.iter_mut().flat_map(|log| &mut log.first_bad);
        let keys = self.bodies.iter_mut().flat_map(|bodies| &mut bodies.missing_keys);
        for text in lines.map(|bad| &mut bad.text).chain(keys) {
            if let Some(query) = text.find('?') {
                text.truncate(query + 1);
                *text += "...";
            }
        }
    }
}
