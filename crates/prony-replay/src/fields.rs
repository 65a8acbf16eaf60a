//! The parts of a line of a log, and what each of them means.

use std::fmt;

use crate::escapes::Escapes;
use crate::times::{self, SECOND, Stamp, Times};

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `10/Oct/2000:13:55:36 -0700`
    Clf,
    /// ISO 8601.
    Iso,
    /// A number since 1970, in units of this many nanoseconds.
    Epoch(i64),
    /// In any of these forms.
    Any,
}

/// What happened at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The request began.
    Start,
    /// It ended.
    #[default]
    End,
}

/// What a part of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ignored,
    Time(Form, Edge),
    /// A fraction of the second, in units of this many nanoseconds, that belongs to another part.
    Fraction(i64),
    /// A date, of which `TimeOfDay` is the time.
    Date,
    /// The time of a day, at which a request ended.
    TimeOfDay,
    Client,
    /// Address and port of the client.
    ClientPort,
    /// Method, target and version.
    Request,
    Method,
    /// Path with query, or a URL.
    Target,
    /// A path without its query.
    RawPath,
    /// A path that the server has decoded, without its query.
    Path,
    /// The same with its query, which is not decoded.
    PathQuery,
    Query,
    Status,
    /// How long the request took, in units of this many nanoseconds.
    Took(i64),
    /// The same in a unit that the log does not say.
    TookUnclear,
    /// A part of that time, in such units; the parts are added.
    TookPart(i64),
    /// The times of several attempts, in such units, as nginx has those of upstreams:
    /// `0.100, 0.500 : 0.2`. Their sum is taken.
    TookList(i64),
    /// Times separated by `/`, of which the last is how long the request took.
    Timers(i64),
    Cookie,
    /// The key of the body, in JSON.
    BodyKey,
}

impl Role {
    /// Whether a time can be made of it.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Self::Time(..) | Self::TimeOfDay)
    }

    /// Whether it is how long a request took.
    pub(crate) fn is_took(self) -> bool {
        use Role::{Timers, Took, TookList, TookPart, TookUnclear};
        matches!(self, Took(_) | TookUnclear | TookPart(_) | TookList(_) | Timers(_))
    }

    /// Whether a path can be made of it.
    pub(crate) fn is_path(self) -> bool {
        use Role::{Path, PathQuery, RawPath, Request, Target};
        matches!(self, Request | Target | RawPath | Path | PathQuery)
    }

    /// Whether it has the method.
    pub(crate) fn is_method(self) -> bool {
        matches!(self, Self::Request | Self::Method)
    }
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The format has a part that the line has not.
    Form,
    /// It can be read in more than one way.
    Ambiguous,
    /// There is no time in it.
    NoTime,
    /// Its time is none.
    BadTime,
    /// How long it took is no such time.
    BadTook,
    /// The unit of how long it took is not known.
    NoUnit,
    /// Its status is none.
    BadStatus,
    /// There is no method in it.
    NoMethod,
    /// There is no request in it.
    NoTarget,
    /// It has an escape that the format does not have.
    Escape,
    /// The server has replaced bytes of its path.
    Replaced,
    /// It is not JSON.
    NotJson,
    /// No line with the names of the fields is before it.
    NoNames,
    /// It is longer than 1 MiB.
    TooLong,
    /// It is older than lines before it by more than the window.
    Late,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "it does not have the parts of the format",
            Self::Ambiguous => {
                "it can be read in more than one way (put what may have blanks between quotation \
                 marks in the server's log format)"
            }
            Self::NoTime => "it has no time",
            Self::BadTime => "its time cannot be read",
            Self::BadTook => "how long it took cannot be read",
            Self::NoUnit => {
                "how long it took may be in seconds or milliseconds (say which: --time-unit s, ms \
                 or us)"
            }
            Self::BadStatus => "its status is not a number of three digits",
            Self::NoMethod => "it has no method",
            Self::NoTarget => "it has no path",
            Self::Escape => {
                "it has an escape that the format does not write (of nginx with escape=none, put \
                 escape=none before the format)"
            }
            Self::Replaced => "the server has not logged all bytes of its path",
            Self::NotJson => "it is not a JSON object",
            Self::NoNames => "no line with #Fields: is before it",
            Self::TooLong => "it is longer than 1 MiB",
            Self::Late => "it is older than earlier lines by more than --order-window",
        })
    }
}

/// What a request aims at, with the escapes of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim<'a> {
    /// A path or a URL.
    pub(crate) target: &'a [u8],
    /// A query that stands elsewhere; `-` is none.
    pub(crate) query: &'a [u8],
    /// The server has decoded the path.
    pub(crate) is_decoded: bool,
    /// The target may have a query.
    pub(crate) has_query: bool,
}

/// The parts of a line. What the line does not have is empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) time: Option<Stamp>,
    /// What happened at that time.
    pub(crate) edge: Edge,
    pub(crate) client: &'a [u8],
    pub(crate) method: &'a [u8],
    pub(crate) aim: Aim<'a>,
    pub(crate) cookie: &'a [u8],
    /// With its escapes.
    pub(crate) body_key: &'a [u8],
    pub(crate) status: Option<u16>,
    /// In nanoseconds.
    pub(crate) took: Option<u64>,
    /// Its resolution, in nanoseconds.
    pub(crate) took_step: u64,
    pub(crate) escapes: Escapes,
    /// The line has no request: the connection was closed, or had other bytes.
    pub(crate) is_no_request: bool,
    pub(crate) day: Option<i64>,
    clock: Option<&'a [u8]>,
    fraction: Option<Stamp>,
    /// A part of the time that the request took is unknown.
    took_unknown: bool,
}

impl<'a> Fields<'a> {
    /// A line with these escapes.
    #[inline]
    pub(crate) fn new(escapes: Escapes) -> Self {
        Self { escapes, ..Self::default() }
    }

    /// A part of the line is `text`.
    #[inline]
    pub(crate) fn set(&mut self, role: Role, text: &'a [u8], times: &mut Times) -> Result<(), Why> {
        match role {
            Role::Ignored => {}
            Role::Time(form, edge) => self.set_time(form.read(text, times), edge)?,
            Role::Fraction(unit) => {
                let (at, step) = times::decimal(text, unit).ok_or(Why::BadTime)?;
                self.fraction = Some(Stamp { at, step });
            }
            Role::Date => self.day = Some(times::date(text).ok_or(Why::BadTime)?),
            Role::TimeOfDay => self.clock = Some(text),
            Role::Client => self.client = text,
            Role::ClientPort => {
                let end = memchr::memrchr(b':', text).unwrap_or(text.len());
                self.client = &text[..end];
            }
            Role::Request => self.set_request(text),
            Role::Method => self.method = text,
            Role::Target | Role::RawPath => self.aim.target = text,
            Role::Path => (self.aim.target, self.aim.is_decoded) = (text, true),
            Role::PathQuery => {
                (self.aim.target, self.aim.is_decoded, self.aim.has_query) = (text, true, true);
            }
            Role::Query => self.aim.query = text,
            Role::Status => self.status = status(text)?,
            Role::Took(unit) => self.set_took(span(text, unit)?),
            Role::TookUnclear if span(text, 1)?.is_some() => return Err(Why::NoUnit),
            Role::TookUnclear => {}
            Role::TookPart(unit) => match span(text, unit)? {
                Some(part) => self.add_took(part),
                None => self.took_unknown = true,
            },
            Role::TookList(unit) => self.set_attempts(text, unit)?,
            Role::Timers(unit) => {
                let last = memchr::memrchr(b'/', text).ok_or(Why::BadTook)?;
                self.set_took(span(&text[last + 1..], unit)?);
            }
            Role::BodyKey => self.body_key = text,
            Role::Cookie => self.cookie = if text == b"-" { b"" } else { text },
        }
        Ok(())
    }

    /// How long the request took, and the resolution of that. The finer one of two is kept.
    fn set_took(&mut self, took: Option<(u64, u64)>) {
        let Some((took, step)) = took else { return };
        if self.took.is_none() || step <= self.took_step {
            (self.took, self.took_step) = (Some(took), step);
        }
    }

    fn add_took(&mut self, (part, step): (u64, u64)) {
        self.took = Some(self.took.unwrap_or(0).saturating_add(part));
        // Each part may have been rounded.
        self.took_step = self.took_step.saturating_add(step);
    }

    /// The times of several attempts. One that was not made has none.
    fn set_attempts(&mut self, text: &[u8], unit: i64) -> Result<(), Why> {
        for attempt in text.split(|b| *b == b',').flat_map(|group| group.split(|b| *b == b':')) {
            if let Some(part) = span(attempt.trim_ascii(), unit)? {
                self.add_took(part);
            }
        }
        Ok(())
    }

    /// The time at which a request began is preferred, then the one that is finer.
    fn set_time(&mut self, stamp: Option<Stamp>, edge: Edge) -> Result<(), Why> {
        let stamp = stamp.ok_or(Why::BadTime)?;
        let is_better = self.time.is_none_or(|time| match (self.edge, edge) {
            (Edge::Start, Edge::End) => false,
            (Edge::End, Edge::Start) => true,
            _ => stamp.step <= time.step,
        });
        if is_better {
            (self.time, self.edge) = (Some(stamp), edge);
        }
        Ok(())
    }

    /// `GET /path HTTP/1.1`. A path may have spaces that nobody has encoded.
    fn set_request(&mut self, text: &'a [u8]) {
        let Some(space) = memchr::memchr(b' ', text) else {
            self.is_no_request = true;
            return;
        };
        let (method, rest) = (&text[..space], &text[space + 1..]);
        let target = match memchr::memrchr(b' ', rest) {
            Some(last) if rest[last + 1..].starts_with(b"HTTP/") => &rest[..last],
            _ => rest,
        };
        (self.method, self.aim.target) = (method, target);
    }

    /// All parts are set.
    pub(crate) fn finish(&mut self) -> Result<(), Why> {
        if let Some(clock) = self.clock {
            let day = self.day.ok_or(Why::NoTime)?;
            self.set_time(times::time_of_day(day, clock), Edge::End)?;
        }
        let Some(time) = &mut self.time else { return Err(Why::NoTime) };
        if let Some(fraction) = self.fraction {
            time.at = time.at.checked_add(fraction.at).ok_or(Why::BadTime)?;
            time.step = time.step.min(fraction.step);
        }
        if self.took_unknown {
            self.took = None;
        }
        // A method is a token, mostly of capital letters; the first bytes of TLS are none.
        let is_method = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_');
        self.is_no_request |= self.method.is_empty()
            || self.method == b"-"
            || !self.method.iter().all(is_method)
            || self.method == b"NULL"
            // The server could not read it.
            || self.aim.target == b"-";
        Ok(())
    }
}

impl Form {
    #[inline]
    fn read(self, text: &[u8], times: &mut Times) -> Option<Stamp> {
        match self {
            Self::Clf => times.read(text, times::clf),
            Self::Iso => times.read(text, times::iso),
            Self::Epoch(unit) => times::epoch(text, unit),
            Self::Any => times::any(text),
        }
    }
}

/// A status of three digits, or none: `-`, `-1`, `0`, `000`, and `009` of nginx for HTTP/0.9.
fn status(text: &[u8]) -> Result<Option<u16>, Why> {
    match text {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Ok(Some([a, b, c].iter().fold(0, |n, digit| n * 10 + u16::from(**digit - b'0'))))
        }
        b"" | b"-" | b"-1" | b"0" | b"000" | b"009" => Ok(None),
        _ => Err(Why::BadStatus),
    }
}

/// A length of time and its resolution, in nanoseconds. One that is unknown (`-`, `-1`) is none;
/// `+` stands before one that had not ended.
fn span(text: &[u8], unit: i64) -> Result<Option<(u64, u64)>, Why> {
    let known = match text {
        b"" | b"-" | b"-1" => return Ok(None),
        [b'+', rest @ ..] => return span(rest, unit).map(|_| None),
        text => text,
    };
    if known.iter().any(|b| matches!(b, b'e' | b'E')) {
        let value: Option<f64> = str::from_utf8(known).ok().and_then(|text| text.parse().ok());
        let nanos = value.ok_or(Why::BadTook)? * unit as f64;
        let is_span = nanos >= 0.0 && nanos < (1000 * 86_400 * SECOND) as f64;
        return if is_span { Ok(Some((nanos as u64, 1))) } else { Err(Why::BadTook) };
    }
    let (nanos, step) = times::decimal(known, unit).ok_or(Why::BadTook)?;
    Ok(Some((nanos as u64, step as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> (String, String, bool) {
        let mut fields = Fields { time: Some(Stamp { at: 0, step: 1 }), ..Fields::default() };
        fields.set(Role::Request, text.as_bytes(), &mut Times::default()).expect("a request");
        fields.finish().expect("a time");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(fields.method), text(fields.aim.target), fields.is_no_request)
    }

    #[test]
    fn request_lines_have_a_method_and_a_target() {
        for (line, method, target, is_no_request) in [
            ("GET /a HTTP/1.1", "GET", "/a", false),
            ("GET /a", "GET", "/a", false),
            ("HEAD /a b HTTP/2.0", "HEAD", "/a b", false),
            ("M-SEARCH * HTTP/1.1", "M-SEARCH", "*", false),
            ("-", "", "", true),
            ("", "", "", true),
            ("\\x16\\x03\\x01 \\x00", "\\x16\\x03\\x01", "\\x00", true),
        ] {
            let expected = (method.to_owned(), target.to_owned(), is_no_request);
            assert_eq!(request(line), expected, "{line:?}");
        }
    }

    #[test]
    fn lengths_of_time_have_their_unit() {
        assert_eq!(span(b"0.005", SECOND), Ok(Some((5_000_000, 1_000_000))));
        assert_eq!(span(b"12", 1_000_000), Ok(Some((12_000_000, 1_000_000))));
        assert_eq!(span(b"1.5e-05", SECOND), Ok(Some((15_000, 1))));
        for unknown in ["-", "-1", "+5", ""] {
            assert_eq!(span(unknown.as_bytes(), 1), Ok(None), "{unknown}");
        }
        for wrong in ["0.1,", "0.100, 0.500", "GET", "-2", "1.5ms", "+x", "e"] {
            assert_eq!(span(wrong.as_bytes(), 1), Err(Why::BadTook), "{wrong}");
        }
        let mut fields = Fields::default();
        let times = &mut Times::default();
        for (role, text) in [(Role::TookPart(SECOND), "0.001"), (Role::TookPart(SECOND), "0.5")] {
            fields.set(role, text.as_bytes(), times).expect("a part");
        }
        assert_eq!((fields.took, fields.took_step), (Some(501_000_000), 101_000_000));
        fields.set(Role::Timers(1_000_000), b"1/2/3/4/10", times).expect("timers");
        assert_eq!((fields.took, fields.took_step), (Some(10_000_000), 1_000_000));
        fields.set(Role::TookPart(SECOND), b"-1", times).expect("a part");
        fields.time = Some(Stamp { at: 0, step: 1 });
        fields.finish().expect("a time");
        assert_eq!(fields.took, None);
    }

    /// What nginx writes of the attempts at its upstreams.
    #[test]
    fn times_of_attempts_are_added() {
        for (text, took) in [
            ("0.100", Some(100)),
            ("0.100, 0.500 : 0.2", Some(800)),
            ("-, 0.004", Some(4)),
            ("-", None),
            ("", None),
        ] {
            let mut fields = Fields::default();
            let role = Role::TookList(SECOND);
            fields.set(role, text.as_bytes(), &mut Times::default()).expect("a list");
            assert_eq!(fields.took, took.map(|ms| ms * 1_000_000), "{text}");
        }
        let (mut fields, times) = (Fields::default(), &mut Times::default());
        let wrong = fields.set(Role::TookList(SECOND), b"0.1 0.2", times);
        assert_eq!(wrong, Err(Why::BadTook));
    }

    #[test]
    fn of_two_times_the_start_and_the_finer_one_are_kept() {
        let times = &mut Times::default();
        let (clf, msec) = (Role::Time(Form::Clf, Edge::End), Role::Time(Form::Any, Edge::End));
        let start = Role::Time(Form::Iso, Edge::Start);
        let (at, finer) = (&b"10/Oct/2000:13:55:36 +0000"[..], &b"971186136.250"[..]);
        let began = &b"2000-10-10T13:55:35Z"[..];
        for (parts, at, edge) in [
            (&[(clf, at), (msec, finer)][..], 971_186_136_250_000_000, Edge::End),
            (&[(msec, finer), (clf, at)], 971_186_136_250_000_000, Edge::End),
            (&[(msec, finer), (start, began)], 971_186_135_000_000_000, Edge::Start),
            (&[(start, began), (msec, finer)], 971_186_135_000_000_000, Edge::Start),
        ] {
            let mut fields = Fields::default();
            for (role, text) in parts {
                fields.set(*role, text, times).expect("a time");
            }
            assert_eq!((fields.time.map(|time| time.at), fields.edge), (Some(at), edge));
        }
    }

    #[test]
    fn statuses_have_three_digits() {
        assert_eq!((status(b"200"), status(b"-")), (Ok(Some(200)), Ok(None)));
        for wrong in ["099", "2000", "20x", "GET"] {
            assert_eq!(status(wrong.as_bytes()), Err(Why::BadStatus), "{wrong}");
        }
    }
}
