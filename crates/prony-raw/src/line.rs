//! One line of the raw results, as CSV (RFC 4180) or JSON.

use std::path::Path;

use prony_base::fault::Fault;
use prony_base::plain::{self, Sink, plain};
use prony_base::units::Nanos;
use prony_core::engine::EndedStream;
use prony_plan::plan::{CallSpec, Plan};
use prony_tally::record::TokenReply;

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// The columns of CSV, and the keys of JSON. Those from `SHORT` on are in the files of plans that
/// read bodies as streams of messages.
const COLUMNS: [&str; SHORT + STREAM] = [
    "intended_ns",
    "sent_ns",
    "first_byte_ns",
    "done_ns",
    "request",
    "status",
    "error",
    "head_bytes",
    "body_bytes",
    "worker",
    "connection",
    "warmup",
    "messages",
    "first_message_ns",
    "last_message_ns",
    "first_content_ns",
    "ttft_ns",
    "itl_ns",
    "input_tokens",
    "output_tokens",
];

/// How many columns every file has, and how many more those of streams have.
const SHORT: usize = 12;
pub(crate) const STREAM: usize = 8;

/// The formats of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line of text with commas, below a line of names (RFC 4180).
    Csv,
    /// A JSON object in each line.
    JsonLines,
    /// A file of columns; with the feature `parquet`.
    Parquet,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) worker: u32,
    /// The number of the connection at this worker, or `NONE`.
    pub(crate) connection: u32,
    pub(crate) call: u32,
    pub(crate) intended: Nanos,
    /// `Nanos::MAX`: it was not sent.
    pub(crate) sent: Nanos,
    /// `Nanos::MAX`: no byte arrived.
    pub(crate) first: Nanos,
    pub(crate) done: Nanos,
    /// 0: no complete reply.
    pub(crate) status: u16,
    pub(crate) fault: Option<Fault>,
    pub(crate) head: u64,
    pub(crate) body: u64,
    /// In a box, as most plans have none, and the queue has room for many lines.
    pub(crate) stream: Option<Box<EndedStream>>,
}

impl Line {
    /// The numbers of its stream, in the order of the columns.
    pub(crate) fn stream(&self) -> [Option<u64>; STREAM] {
        let Some(stream) = self.stream.as_deref() else { return [None; STREAM] };
        let reply = stream.reply.as_ref();
        let ttft = stream.first_token.map(|at| at.since(self.intended).0);
        [
            Some(stream.messages),
            stream.times.map(|[first, _]| first.0),
            stream.times.map(|[_, last]| last.0),
            stream.first_content.map(|at| at.0),
            ttft,
            reply.and_then(TokenReply::itl).map(|itl| itl.0),
            reply.and_then(|reply| reply.input).map(u64::from),
            reply.and_then(|reply| reply.output).map(u64::from),
        ]
    }
}

/// Lines that are not yet in the file.
#[derive(Debug)]
pub(crate) struct Lines {
    format: Format,
    /// The name of each call, and of each fault, as they are written.
    calls: Vec<String>,
    faults: Vec<String>,
    /// The end of the warm-up.
    start: Nanos,
    has_streams: bool,
    text: Vec<u8>,
}

impl Format {
    /// The format that the ending of a file's name says: `.csv`, `.jsonl` or `.parquet`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("csv") => Some(Self::Csv),
            Some("jsonl") => Some(Self::JsonLines),
            Some("parquet") => Some(Self::Parquet),
            _ => None,
        }
    }

    /// Whether this build writes it.
    pub fn is_available(self) -> bool {
        cfg!(feature = "parquet") || self != Self::Parquet
    }

    /// A text as it is written.
    fn quoted(self, text: &str) -> String {
        match self {
            Self::JsonLines => {
                plain(&serde_json::Value::from(text).to_string(), Sink::Json).into_owned()
            }
            Self::Csv => {
                let text = plain::line(text);
                // Spreadsheets take it for a formula.
                let is_formula = text.starts_with(['=', '+', '-', '@']);
                let text = if is_formula { format!("'{text}") } else { text.into_owned() };
                match text.contains(['"', ',']) {
                    true => format!("\"{}\"", text.replace('"', "\"\"")),
                    false => text,
                }
            }
            Self::Parquet => text.to_owned(),
        }
    }
}

/// The name of each call, and of each fault.
pub(crate) struct Names {
    pub(crate) calls: Vec<String>,
    pub(crate) faults: Vec<String>,
}

impl Names {
    pub(crate) fn of(plan: &Plan) -> Self {
        let name = |call: &CallSpec| {
            let name = call.name.and_then(|name| plan.names.get(name as usize)).cloned();
            // A query may contain a secret.
            let path = call.path.split('?').next().unwrap_or_default();
            name.unwrap_or_else(|| format!("{} {path}", call.method))
        };
        let fault = |fault: &Fault| {
            let name = serde_json::to_value(fault).unwrap_or_default();
            name.as_str().unwrap_or_default().to_owned()
        };
        Self {
            calls: plan.calls.iter().map(name).collect(),
            faults: Fault::ALL.iter().map(fault).collect(),
        }
    }
}

impl Lines {
    pub(crate) fn new(format: Format, plan: &Plan) -> Self {
        let Names { calls, faults } = Names::of(plan);
        let quoted =
            |names: Vec<String>| names.iter().map(|name| format.quoted(name)).collect::<Vec<_>>();
        let (has_streams, mut text) = (plan.stream.is_some(), Vec::new());
        if format == Format::Csv {
            let columns = if has_streams { &COLUMNS[..] } else { &COLUMNS[..SHORT] };
            text.extend_from_slice(columns.join(",").as_bytes());
            text.push(b'\n');
        }
        Self {
            format,
            calls: quoted(calls),
            faults: quoted(faults),
            start: Nanos::ZERO + plan.warmup,
            has_streams,
            text,
        }
    }

    /// The lines that are not yet in the file.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// They are in the file.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    pub(crate) fn add(&mut self, line: &Line) {
        let time = |at: Nanos| (at < Nanos::MAX).then_some(at.0);
        let status = Some(u64::from(line.status)).filter(|&status| status > 0);
        let connection = Some(line.connection).filter(|&n| n < NONE);
        let fault = line.fault.map(|fault| self.faults[fault as usize].as_str());
        let is_warm = line.intended < self.start;
        let mut digits = itoa::Buffer::new();
        let mut cells = Cells { format: self.format, text: &mut self.text, column: 0 };
        for time in [Some(line.intended.0), time(line.sent), time(line.first), time(line.done)] {
            cells.number(&mut digits, time);
        }
        cells.text(self.calls.get(line.call as usize).map(String::as_str));
        cells.number(&mut digits, status);
        cells.text(fault);
        let numbers = [line.head, line.body, u64::from(line.worker)].map(Some);
        for number in numbers.into_iter().chain([connection.map(u64::from)]) {
            cells.number(&mut digits, number);
        }
        cells.text(Some(if is_warm { "true" } else { "false" }));
        if self.has_streams {
            line.stream().into_iter().for_each(|number| cells.number(&mut digits, number));
        }
        cells.end();
    }
}

/// The cells of one line, in order.
struct Cells<'a> {
    format: Format,
    text: &'a mut Vec<u8>,
    /// How many there are.
    column: usize,
}

impl Cells<'_> {
    fn number(&mut self, digits: &mut itoa::Buffer, number: Option<u64>) {
        self.text(number.map(|number| digits.format(number)));
    }

    /// A cell, as it is written.
    fn text(&mut self, text: Option<&str>) {
        if self.format == Format::JsonLines {
            self.text.extend_from_slice(if self.column == 0 { b"{\"" } else { b",\"" });
            self.text.extend_from_slice(COLUMNS[self.column].as_bytes());
            self.text.extend_from_slice(b"\":");
        } else if self.column > 0 {
            self.text.push(b',');
        }
        let nothing = if self.format == Format::JsonLines { "null" } else { "" };
        self.text.extend_from_slice(text.unwrap_or(nothing).as_bytes());
        self.column += 1;
    }

    fn end(self) {
        self.text.extend_from_slice(if self.format == Format::Csv { b"\n" } else { b"}\n" });
    }
}
