//! httperf's session files (`--wsesslog`), with prony's additions.
//!
//! A line is a request: a URI, then words `key=value`. A request that starts in the first column
//! starts a burst; an indented one joins the burst before it. A blank line ends a session; `#` in
//! the first column starts a comment. The keys are `method=`, `think=` (the pause after the burst),
//! `contents=` (the body), and prony's `headers=` and `name=`. Lengths and numbers are not limited.

mod value;

use std::borrow::Cow;
use std::fmt;

use prony_base::secret::quoted_url;
use prony_base::units::{ParseError, Span};
use prony_plan::plan::{Burst, CallSpec, Calls, SessionKind, Think};
use prony_plan::target::{check_method, parse_header};

/// The rules to use where those of httperf and prony differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Exactly httperf's rules: only the start of a method counts (`POSTED` is POST), text after
    /// the number of a think time is ignored, a carriage return at the end of a value belongs to
    /// it.
    Httperf,
    /// prony's rules: any method, think times with units and distributions (`500ms`, `exp:2s`),
    /// lines that may end in CR LF.
    Prony,
}

/// One request of a session file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest<'a> {
    /// The line on which it starts, from 1.
    pub line: usize,
    /// The column in which its URI starts, in characters, from 1.
    pub column: usize,
    /// The URI as written; not checked.
    pub uri: &'a str,
    /// The method; GET by default.
    pub method: &'a str,
    /// Additional headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Cow<'a, [u8]>,
    /// Its name in reports.
    pub name: Option<String>,
}

/// Requests that are sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBurst<'a> {
    /// The requests in order; at least one.
    pub requests: Vec<LoggedRequest<'a>>,
    /// The pause after the burst, if the file has one.
    pub think: Option<Think>,
}

/// One session of the file; at least one burst.
pub type LoggedSession<'a> = Vec<LoggedBurst<'a>>;

/// An error in a session file, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The error.
    pub kind: LogErrorKind,
}

/// An error in a session file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogErrorKind {
    /// An invalid method.
    Method(String),
    /// A word that is not `key=value` with a known key, or has no value.
    Word(String),
    /// The file ends inside a value.
    Ends,
    /// The file has no request.
    Empty,
    /// An invalid value, or text that is not UTF-8; with a complete error message.
    Refused(ParseError),
}

/// One sentence, without the position.
impl fmt::Display for LogErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => {
                write!(
                    f,
                    "'{}' is not a method; write GET, POST or the like",
                    method.escape_debug()
                )
            }
            // A word without a key may be the rest of a value, which may be a secret.
            Self::Word(word) => write!(
                f,
                "{} is not understood; a URI can be followed by method=NAME, think=TIME, \
                 contents=TEXT, headers=LINES and name=TEXT",
                match word.split_once('=') {
                    Some((key, _)) => format!("'{}='", key.escape_debug()),
                    None => "this word".to_owned(),
                }
            ),
            Self::Ends => f.write_str("the file ends inside this value"),
            Self::Empty => f.write_str(
                "the file has no requests; write one per line, for example /index.html think=2",
            ),
            Self::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.kind)
    }
}

/// Read a session file.
///
/// # Errors
/// All errors in the file, in order, at most one per request.
pub fn parse(text: &[u8], dialect: Dialect) -> Result<Vec<LoggedSession<'_>>, Vec<LogError>> {
    let (sessions, errors) = collect(text, dialect, false);
    if errors.is_empty() { Ok(sessions) } else { Err(errors) }
}

/// Read what can be read of a session file: its sessions without the requests that have errors, and
/// these errors in order.
pub fn read(text: &[u8], dialect: Dialect) -> (Vec<LoggedSession<'_>>, Vec<LogError>) {
    collect(text, dialect, true)
}

/// Add the calls of a session file to `calls`, and return its sessions. `call` makes the call of a
/// request; `think` is the think time of bursts without their own. The first request of each burst
/// leads.
///
/// # Errors
/// All errors in the file, in order.
pub fn add_to(
    calls: &mut Calls,
    (text, dialect): (&[u8], Dialect),
    think: Think,
    mut call: impl FnMut(&LoggedRequest<'_>) -> CallSpec,
) -> Result<Vec<SessionKind>, Vec<LogError>> {
    // A line has at most one request, and most requests differ. Reserved memory that is not used
    // costs nothing, but moving the calls would.
    calls.reserve(memchr::memchr_iter(b'\n', text).count() + 1);
    let mut kinds = Vec::new();
    let errors = each_session(text, dialect, false, |session| {
        let bursts = session.iter().map(|burst| {
            let calls: Vec<_> =
                burst.requests.iter().map(|request| calls.intern(call(request))).collect();
            // A single request has none to lead.
            let lead = calls.len() > 1;
            Burst { calls, lead, think: burst.think.unwrap_or(think), repeat: 1, control: None }
        });
        let bursts = bursts.collect();
        kinds.push(SessionKind { name: String::new(), weight: 1, bursts });
    });
    if errors.is_empty() { Ok(kinds) } else { Err(errors) }
}

fn collect(text: &[u8], dialect: Dialect, keeps: bool) -> (Vec<LoggedSession<'_>>, Vec<LogError>) {
    let mut sessions = Vec::new();
    let errors =
        each_session(text, dialect, keeps, |session| sessions.push(std::mem::take(session)));
    (sessions, errors)
}

/// Read a session file and pass its sessions to `each`, with memory for only one of them. After an
/// error, no more sessions are passed, unless the others are kept. Returns the errors.
fn each_session<'a>(
    text: &'a [u8],
    dialect: Dialect,
    keeps: bool,
    mut each: impl FnMut(&mut LoggedSession<'a>),
) -> Vec<LogError> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut reader = Reader { text, at: 0, line: 1, line_start: 0, dialect };
    let mut session: LoggedSession<'_> = Vec::new();
    let (mut empty, mut errors) = (true, Vec::new());
    while let Some(line) = reader.next_line() {
        match line {
            Line::Comment => {}
            Line::Blank => {
                end(&mut session, keeps || errors.is_empty(), &mut each);
            }
            Line::Request { joins } => match reader.request() {
                Ok((request, think)) => {
                    empty = false;
                    add(&mut session, joins, request, think);
                }
                Err(error) => errors.push(error),
            },
        }
        reader.skip_line();
    }
    end(&mut session, keeps || errors.is_empty(), &mut each);
    if empty && errors.is_empty() {
        errors.push(LogError { line: 1, column: 1, kind: LogErrorKind::Empty });
    }
    errors
}

/// Pass a complete session to `each`, unless it is empty or there were errors. Clears it.
fn end<'a>(
    session: &mut LoggedSession<'a>,
    is_valid: bool,
    each: &mut impl FnMut(&mut LoggedSession<'a>),
) {
    if is_valid && !session.is_empty() {
        each(session);
    }
    session.clear();
}

/// Add a request to its burst. The last think time in a burst applies.
fn add<'a>(
    session: &mut LoggedSession<'a>,
    joins: bool,
    request: LoggedRequest<'a>,
    think: Option<Think>,
) {
    match session.last_mut() {
        Some(burst) if joins => {
            burst.requests.push(request);
            burst.think = think.or(burst.think);
        }
        _ => session.push(LoggedBurst { requests: vec![request], think }),
    }
}

/// The kind of a line.
enum Line {
    Comment,
    Blank,
    /// The reader is at the URI.
    Request {
        joins: bool,
    },
}

/// A position in the text.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    line: usize,
    line_start: usize,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The line of `at`, from 1.
    line: usize,
    /// The position at which this line starts.
    line_start: usize,
    dialect: Dialect,
}

impl<'a> Reader<'a> {
    fn next_line(&mut self) -> Option<Line> {
        let start = self.at;
        if self.peek()? == b'#' {
            return Some(Line::Comment);
        }
        self.skip_blanks();
        Some(match self.peek() {
            None | Some(b'\n') => Line::Blank,
            Some(_) => Line::Request { joins: self.at > start },
        })
    }

    /// Read a request from its URI up to, but not including, the end of its last line.
    fn request(&mut self) -> Result<(LoggedRequest<'a>, Option<Think>), LogError> {
        let place = self.place();
        let uri = self.word()?;
        let mut request = LoggedRequest {
            line: place.line,
            column: self.column(place),
            uri,
            method: "GET",
            headers: Vec::new(),
            body: Cow::Borrowed(&[]),
            name: None,
        };
        let mut think = None;
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b'\n') => return Ok((request, think)),
                Some(_) => self.pair(&mut request, &mut think)?,
            }
        }
    }

    /// Read one `key=value`.
    fn pair(
        &mut self,
        request: &mut LoggedRequest<'a>,
        think: &mut Option<Think>,
    ) -> Result<(), LogError> {
        let place = self.place();
        let rest = &self.text[self.at..];
        let keys: [&[u8]; 5] = [b"method=", b"think=", b"contents=", b"headers=", b"name="];
        let key = keys.into_iter().find(|key| rest.starts_with(key)).unwrap_or_default();
        let value_begins = |b: &u8| !is_blank(*b) && *b != b'\n';
        if key.is_empty() || !rest.get(key.len()).is_some_and(value_begins) {
            let word = self.word()?.to_owned();
            return Err(self.error(place, LogErrorKind::Word(word)));
        }
        match key {
            b"method=" => {
                let word = self.word_after(key)?;
                let method = self.method(word);
                let wrong = || self.error(place, LogErrorKind::Method(word.to_owned()));
                request.method = method.ok_or_else(wrong)?;
            }
            b"think=" => {
                let word = self.word_after(key)?;
                let wrong = |kind| self.error(place, kind);
                *think = Some(self.think(word).map_err(wrong)?);
            }
            _ => {
                self.at += key.len();
                let value = self.value(place, key == b"headers=")?;
                match key {
                    b"contents=" => request.body = value,
                    b"headers=" => {
                        let wrong = |why| self.error(place, LogErrorKind::Refused(why));
                        request.headers = headers(&value).map_err(wrong)?;
                    }
                    _ => request.name = Some(self.utf8(&value, place)?.to_owned()),
                }
            }
        }
        Ok(())
    }

    fn method(&self, word: &'a str) -> Option<&'a str> {
        const KNOWN: [&str; 9] =
            ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "PROPFIND", "REPORT", "TRACE"];
        let is_method = check_method(word).is_ok();
        match self.dialect {
            Dialect::Prony => is_method.then_some(word),
            Dialect::Httperf => {
                // Methods that are unknown to httperf are used unchanged.
                let is_other = is_method && word.bytes().all(|b| b.is_ascii_uppercase());
                let known = KNOWN.into_iter().find(|known| word.starts_with(known));
                known.or_else(|| is_other.then_some(word))
            }
        }
    }

    fn think(&self, word: &str) -> Result<Think, LogErrorKind> {
        let seconds = match self.dialect {
            Dialect::Prony => word.parse::<f64>().ok().filter(|s| s.is_finite()),
            Dialect::Httperf => {
                let number = value::leading_number(word);
                Some(number.ok_or_else(|| LogErrorKind::Word(format!("think={word}")))?)
            }
        };
        match seconds {
            // Negative numbers and NaN mean no pause.
            Some(seconds) if seconds > 0.0 => Ok(Think::Fixed(Span::from_secs_f64(seconds))),
            Some(_) => Ok(Think::None),
            None => word.parse().map_err(LogErrorKind::Refused),
        }
    }

    fn word_after(&mut self, key: &[u8]) -> Result<&'a str, LogError> {
        self.at += key.len();
        self.word()
    }

    /// Read the text up to the next blank or the end of the line.
    fn word(&mut self) -> Result<&'a str, LogError> {
        let place = self.place();
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|&b| is_blank(b) || b == b'\n').unwrap_or(rest.len());
        self.at += length;
        self.utf8(&rest[..length], place)
    }

    fn utf8<'t>(&self, bytes: &'t [u8], place: Place) -> Result<&'t str, LogError> {
        std::str::from_utf8(bytes).map_err(|_| {
            let text = String::from_utf8_lossy(bytes);
            let text = quoted_url(&text);
            let why = ParseError::new(format!("'{text}' is not UTF-8 text; write it as %XX"));
            self.error(place, LogErrorKind::Refused(why))
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Skip the rest of the line and its end.
    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        match memchr::memchr(b'\n', rest) {
            Some(length) => {
                self.at += length;
                self.pass_line_end();
            }
            None => self.at = self.text.len(),
        }
    }

    /// Skip the line feed at the current position.
    fn pass_line_end(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn place(&self) -> Place {
        Place { at: self.at, line: self.line, line_start: self.line_start }
    }

    fn column(&self, place: Place) -> usize {
        let before = &self.text[place.line_start..place.at];
        // Continuation bytes of UTF-8 are not counted.
        before.iter().filter(|&&b| b & 0xC0 != 0x80).count() + 1
    }

    fn error(&self, place: Place, kind: LogErrorKind) -> LogError {
        LogError { line: place.line, column: self.column(place), kind }
    }
}

/// Whether a byte separates words. This includes the carriage return, for lines that end in CR LF.
fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | 0x0B | 0x0C)
}

/// Header lines, separated by line feeds.
fn headers(value: &[u8]) -> Result<Vec<(String, String)>, ParseError> {
    let text = std::str::from_utf8(value)
        .map_err(|_| ParseError::new("the headers are not UTF-8 text"))?;
    let lines = text.split('\n').map(|line| line.trim_matches(is_space));
    lines.filter(|line| !line.is_empty()).map(parse_header).collect()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

#[cfg(test)]
mod tests;
