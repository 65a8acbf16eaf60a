//! A log as a stream of requests in the order of time.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use prony_base::director::METHODS;

use crate::fields::{Edge, Fields, Why};
use crate::format::{DETECT_LINES, Format};
use crate::lines::{Line, Lines};
use crate::order::Order;
use crate::path;
use crate::record::Record;
use crate::times::{Stamp, Times};

/// How many bad lines are shown.
const SHOWN: usize = 5;
/// The share of bad lines is not judged before this many lines, except at the end.
const JUDGED: u64 = 1000;

/// How to read a log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format; without one, the first lines decide.
    pub format: Option<Format>,
    /// The methods that are sent, each a bit of the index into [`METHODS`].
    pub methods: u8,
    /// Lines are put in order as long as none is older than a line before it by more than this, in
    /// nanoseconds.
    pub window: u64,
    /// The seed of the times within a second.
    pub seed: u64,
    /// The share of bad lines from which on the log is refused.
    pub bad_lines: f64,
    /// The unit of how long requests took, in nanoseconds, if the format does not say it.
    pub time_unit: Option<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            methods: SAFE,
            window: 5_000_000_000,
            seed: 0,
            bad_lines: 0.01,
            time_unit: None,
        }
    }
}

/// GET, HEAD and OPTIONS.
const SAFE: u8 = 0b110_0001;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong.
    pub why: Why,
    /// Its beginning.
    pub text: String,
}

/// What has been read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the log.
    pub bytes: u64,
    /// Lines, empty ones and comments included.
    pub lines: u64,
    /// Empty lines and comments.
    pub comments: u64,
    /// Requests.
    pub requests: u64,
    /// Lines of connections without a request.
    pub no_request: u64,
    /// Requests whose method is not sent.
    pub other_method: u64,
    /// Lines that cannot be read.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Vec<BadLine>,
    /// Requests whose time was spread, as the log has it to the second only.
    pub spread: u64,
    /// Requests that began before others that had left already, because they took longer than the
    /// window. They are moved to the time of the last of these.
    pub moved: u64,
    /// By how much at most, in nanoseconds.
    pub moved_most: u64,
    /// Requests with the time that they took.
    pub with_took: u64,
    /// The finest resolution of these times, in nanoseconds; 0 if there are none.
    pub took_step: u64,
    /// The most requests that were held at once.
    pub held_most: usize,
}

/// Why a log cannot be read on.
#[derive(Debug)]
pub enum Error {
    /// It cannot be read.
    Io(io::Error),
    /// Its format is not known. The first line that is not empty.
    NoFormat(String),
    /// Too many lines are bad; the first of them.
    BadLines(u64, u64, BadLine),
    /// No line has a request that is sent; what the lines have instead.
    Empty(Box<Facts>),
    /// A unit was given, and the format says in which one its times are.
    Unit,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::NoFormat(line) if line.is_empty() => write!(f, "the log is empty"),
            Self::NoFormat(line) => write!(
                f,
                "its first lines have none of the known formats; give one with --log-format: {line}"
            ),
            Self::BadLines(bad, lines, first) => {
                write!(
                    f,
                    "{bad} of {lines} lines cannot be read, which is more than --bad-lines allows; \
                     the first is line {}, as {}: {}",
                    first.line, first.why, first.text
                )?;
                match first.why {
                    Why::Late => write!(f, "; a longer --order-window puts it in order"),
                    _ => Ok(()),
                }
            }
            Self::Empty(facts) => {
                write!(f, "no line has a request that is sent")?;
                match **facts {
                    Facts { other_method: n @ 1.., .. } => {
                        write!(f, "; {n} with other methods, see --methods")
                    }
                    Facts { no_request: n @ 1.., .. } => write!(f, "; {n} without a request"),
                    _ => write!(f, "; see --from-time and --to-time"),
                }
            }
            Self::Unit => {
                write!(f, "--time-unit is for W3C logs and %D of Tomcat; its format has a unit")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// A log that is read. Its memory does not depend on its length.
#[derive(Debug)]
pub struct Log<R> {
    lines: Lines<R>,
    format: Format,
    options: Options,
    times: Times,
    order: Order,
    facts: Facts,
    ended: bool,
}

impl<R: Read> Log<R> {
    /// A log, whose format is recognized by its first lines if none is given.
    ///
    /// # Errors
    /// It cannot be read, or its format is not known.
    pub fn open(from: R, options: Options) -> Result<Self, Error> {
        let mut lines = Lines::new(from);
        let mut format = match &options.format {
            Some(format) => format.clone(),
            None => {
                let beginning = lines.beginning(DETECT_LINES)?;
                let first = || beginning.split(|b| *b == b'\n').find(|line| !line.is_empty());
                Format::detect(beginning)
                    .ok_or_else(|| Error::NoFormat(shown(first().unwrap_or_default())))?
            }
        };
        if options.time_unit.is_some_and(|unit| !format.set_unit(unit)) {
            return Err(Error::Unit);
        }
        let window = i64::try_from(options.window).unwrap_or(i64::MAX);
        let order = Order::new(window, options.seed);
        let (times, facts) = (Times::default(), Facts::default());
        Ok(Self { lines, format, options, times, order, facts, ended: false })
    }

    /// The format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// What has been read so far.
    pub fn facts(&self) -> Facts {
        let order = &self.order;
        Facts {
            bytes: self.lines.bytes,
            spread: order.spread,
            moved: order.moved,
            moved_most: order.moved_most,
            held_most: order.held_most(),
            ..self.facts.clone()
        }
    }

    /// The next request, or `None` after the last. Their times do not decrease. Its memory is used
    /// again for a later one.
    ///
    /// # Errors
    /// The log cannot be read on; too many of its lines are bad.
    pub fn next_record(&mut self) -> Result<Option<&mut Record>, Error> {
        loop {
            if let Some(place) = self.order.pop(self.ended) {
                return Ok(Some(self.order.record(place)));
            }
            if self.ended {
                return if self.facts.requests == 0 {
                    Err(Error::Empty(Box::new(self.facts())))
                } else {
                    Ok(None)
                };
            }
            match self.lines.next()? {
                Some(line) => self.line(line)?,
                None => {
                    self.order.end_run();
                    self.ended = true;
                    self.judge()?;
                }
            }
        }
    }

    fn line(&mut self, line: Line) -> Result<(), Error> {
        self.facts.lines += 1;
        let Line::Whole(range) = line else { return self.bad(Why::TooLong, 0..0) };
        let text = self.lines.text(range.clone());
        if text.is_empty() {
            self.facts.comments += 1;
            return Ok(());
        }
        match self.format.read(text, &mut self.times) {
            Ok(Some(fields)) => {
                let (facts, methods) = (&mut self.facts, self.options.methods);
                match accept(&fields, methods, facts, &mut self.order) {
                    Ok(()) => Ok(()),
                    Err(why) => self.bad(why, range),
                }
            }
            Ok(None) => {
                self.facts.comments += 1;
                Ok(())
            }
            Err(why) => self.bad(why, range),
        }
    }

    #[cold]
    fn bad(&mut self, why: Why, text: Range<usize>) -> Result<(), Error> {
        self.facts.bad += 1;
        if self.facts.first_bad.len() < SHOWN {
            let text = shown(self.lines.text(text));
            self.facts.first_bad.push(BadLine { line: self.facts.lines, why, text });
        }
        if self.facts.lines >= JUDGED { self.judge() } else { Ok(()) }
    }

    fn judge(&self) -> Result<(), Error> {
        let (bad, lines) = (self.facts.bad, self.facts.lines);
        match self.facts.first_bad.first() {
            Some(first) if bad as f64 > self.options.bad_lines * lines as f64 => {
                Err(Error::BadLines(bad, lines, first.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a record of the parts of a line, if it has a request that is sent.
fn accept(
    fields: &Fields<'_>,
    methods: u8,
    facts: &mut Facts,
    order: &mut Order,
) -> Result<(), Why> {
    if fields.is_no_request {
        facts.no_request += 1;
        return Ok(());
    }
    let is_sent = |i: &usize| methods >> i & 1 == 1;
    let method = METHODS.iter().position(|name| name.as_bytes() == fields.method).filter(is_sent);
    let Some(method) = method else {
        facts.other_method += 1;
        return Ok(());
    };
    let stamp = fields.time.ok_or(Why::NoTime)?;
    let took = fields.took.map_or(0, |took| i64::try_from(took).unwrap_or(i64::MAX));
    // Lines are written when requests have ended. If a line has both times, only its end says
    // whether it is where it belongs.
    let (before, end) = match fields.edge {
        Edge::Start => (0, Stamp { at: stamp.at.saturating_add(took), ..stamp }),
        Edge::End => (took, stamp),
    };
    if order.is_late(end) {
        return Err(Why::Late);
    }
    let place = order.place();
    let record = order.record(place);
    record.path.clear();
    if let Err(why) = path::append(&fields.aim, fields.escapes, &mut record.path) {
        order.give_back(place);
        return Err(why);
    }
    record.at = before;
    facts.requests += 1;
    if fields.took.is_some() {
        // A fraction may be written without its zeros at the end.
        let is_finer = facts.with_took == 0 || fields.took_step < facts.took_step;
        facts.took_step = if is_finer { fields.took_step } else { facts.took_step };
        facts.with_took += 1;
    }
    (record.line, record.method) = (facts.lines, method as u8);
    (record.status, record.took) = (fields.status, fields.took);
    (record.client, record.cookie) = (hash(fields.client), hash(fields.cookie));
    set_key(fields.body_key, &mut record.key);
    order.push(place, stamp, end.at);
    Ok(())
}

/// Sets the key of a body, of which the log has the text in JSON.
fn set_key(text: &[u8], key: &mut Vec<u8>) {
    key.clear();
    if !text.contains(&b'\\') {
        return key.extend_from_slice(text);
    }
    let quoted = [b"\"", text, b"\""].concat();
    if let Ok(text) = serde_json::from_slice::<String>(&quoted) {
        key.extend_from_slice(text.as_bytes());
    }
}

/// FNV-1a; 0 only for the empty text.
fn hash(text: &[u8]) -> u64 {
    if text.is_empty() || text == b"-" {
        return 0;
    }
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    text.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

/// The beginning of a line, on one line, up to what may be secret: a query, a cookie.
fn shown(line: &[u8]) -> String {
    let secret = line.iter().position(|byte| b"?;=".contains(byte)).map_or(line.len(), |at| at + 1);
    let cut = &line[..secret.min(120)];
    let text: String = String::from_utf8_lossy(cut)
        .chars()
        .flat_map(|c| match c {
            '"' | '\'' | '\\' => c.to_string().chars().collect::<Vec<_>>(),
            _ => c.escape_debug().collect(),
        })
        .collect();
    if cut.len() < line.len() { format!("{text}...") } else { text }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;
