//! The parts of a line of a log, and what each of them means.

use std::fmt;

use crate::times::{self, SECOND, Stamp, Times};

/// What a part of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ignored,
    /// `10/Oct/2000:13:55:36 -0700`
    ClfTime,
    /// ISO 8601.
    IsoTime,
    /// A number since 1970, in units of this many nanoseconds.
    Epoch(i64),
    /// A fraction of the second, in units of this many nanoseconds, that belongs to another part.
    Fraction(i64),
    /// A time in any of these forms.
    AnyTime,
    /// A date, of which `TimeOfDay` is the time.
    Date,
    TimeOfDay,
    Client,
    /// Address and port of the client.
    ClientPort,
    /// Method, target and version.
    Request,
    Method,
    /// Path with query, or a URL.
    Target,
    Query,
    Status,
    /// How long the request took, in units of this many nanoseconds.
    Took(i64),
    /// A part of that time, in such units; the parts are added.
    TookPart(i64),
    /// Times separated by `/`, of which the last is how long the request took.
    Timers(i64),
    Cookie,
    /// The key of the body, in JSON.
    BodyKey,
}

impl Role {
    /// Whether a time can be made of it.
    pub(crate) fn is_time(self) -> bool {
        use Role::{AnyTime, ClfTime, Epoch, IsoTime, TimeOfDay};
        matches!(self, ClfTime | IsoTime | Epoch(_) | AnyTime | TimeOfDay)
    }
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The format has a part that the line has not.
    Form,
    /// There is no time in it.
    NoTime,
    /// Its time is none.
    BadTime,
    /// There is no request in it.
    NoTarget,
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
            Self::NoTime => "it has no time",
            Self::BadTime => "its time cannot be read",
            Self::NoTarget => "it has no path",
            Self::NotJson => "it is not a JSON object",
            Self::NoNames => "no line with #Fields: is before it",
            Self::TooLong => "it is longer than 1 MiB",
            Self::Late => "it is older than earlier lines by more than the window",
        })
    }
}

/// The parts of a line. What the line does not have is empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) time: Option<Stamp>,
    pub(crate) client: &'a [u8],
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) query: &'a [u8],
    pub(crate) cookie: &'a [u8],
    /// With its escapes.
    pub(crate) body_key: &'a [u8],
    pub(crate) status: Option<u16>,
    /// In nanoseconds.
    pub(crate) took: Option<u64>,
    /// Its resolution, in nanoseconds.
    pub(crate) took_step: u64,
    /// The line has no request: the connection was closed, or had other bytes.
    pub(crate) is_no_request: bool,
    day: Option<i64>,
    fraction: Option<Stamp>,
    /// A part of the time that the request took is unknown.
    took_unknown: bool,
}

impl<'a> Fields<'a> {
    /// A part of the line is `text`.
    #[inline]
    pub(crate) fn set(&mut self, role: Role, text: &'a [u8], times: &mut Times) -> Result<(), Why> {
        match role {
            Role::Ignored => {}
            Role::ClfTime => self.set_time(times.read(text, times::clf))?,
            Role::IsoTime => self.set_time(times.read(text, times::iso))?,
            Role::AnyTime => self.set_time(times::any(text))?,
            Role::Epoch(unit) => self.set_time(times::epoch(text, unit))?,
            Role::Fraction(unit) => {
                let (at, step) = times::decimal(text, unit).ok_or(Why::BadTime)?;
                self.fraction = Some(Stamp { at, step });
            }
            Role::Date => self.day = Some(times::date(text).ok_or(Why::BadTime)?),
            Role::TimeOfDay => {
                let day = self.day.ok_or(Why::NoTime)?;
                self.set_time(times::time_of_day(day, text))?;
            }
            Role::Client => self.client = text,
            Role::ClientPort => {
                let end = memchr::memrchr(b':', text).unwrap_or(text.len());
                self.client = &text[..end];
            }
            Role::Request => self.set_request(text),
            Role::Method => self.method = text,
            Role::Target => self.target = text,
            Role::Query => self.query = text,
            Role::Status => self.status = status(text),
            Role::Took(unit) => self.set_took(span(text, unit)),
            Role::TookPart(unit) => match span(text, unit) {
                Some((part, step)) => {
                    self.took = Some(self.took.unwrap_or(0).saturating_add(part));
                    // Each part may have been rounded.
                    self.took_step = self.took_step.saturating_add(step);
                }
                None => self.took_unknown = true,
            },
            Role::Timers(unit) => {
                let last = memchr::memrchr(b'/', text).map_or(text, |i| &text[i + 1..]);
                self.set_took(span(last, unit));
            }
            Role::BodyKey => self.body_key = text,
            Role::Cookie => self.cookie = if text == b"-" { b"" } else { text },
        }
        Ok(())
    }

    /// How long the request took, and the resolution of that.
    fn set_took(&mut self, took: Option<(u64, u64)>) {
        (self.took, self.took_step) = took.map_or((None, 0), |(took, step)| (Some(took), step));
    }

    fn set_time(&mut self, stamp: Option<Stamp>) -> Result<(), Why> {
        self.time = Some(stamp.ok_or(Why::BadTime)?);
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
        (self.method, self.target) = (method, target);
    }

    /// All parts are set.
    pub(crate) fn finish(&mut self) -> Result<(), Why> {
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
            || self.method == b"NULL";
        Ok(())
    }
}

fn status(text: &[u8]) -> Option<u16> {
    let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = text else { return None };
    Some([a, b, c].iter().fold(0, |n, digit| n * 10 + u16::from(**digit - b'0')))
}

/// A length of time and its resolution, in nanoseconds. One that is unknown (`-`, `-1`) is none;
/// `+` stands before one that had not ended.
fn span(text: &[u8], unit: i64) -> Option<(u64, u64)> {
    if text.iter().any(|b| matches!(b, b'e' | b'E')) {
        let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
        let nanos = value * unit as f64;
        return (nanos >= 0.0 && nanos < (1000 * 86_400 * SECOND) as f64)
            .then_some((nanos as u64, 1));
    }
    let (nanos, step) = times::decimal(text, unit)?;
    Some((u64::try_from(nanos).ok()?, step as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> (String, String, bool) {
        let mut fields = Fields { time: Some(Stamp { at: 0, step: 1 }), ..Fields::default() };
        fields.set(Role::Request, text.as_bytes(), &mut Times::default()).expect("a request");
        fields.finish().expect("a time");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(fields.method), text(fields.target), fields.is_no_request)
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
        assert_eq!(span(b"0.005", SECOND), Some((5_000_000, 1_000_000)));
        assert_eq!(span(b"12", 1_000_000), Some((12_000_000, 1_000_000)));
        assert_eq!(span(b"1.5e-05", SECOND), Some((15_000, 1)));
        assert_eq!(
            (span(b"-", 1), span(b"-1", 1), span(b"+5", 1), span(b"", 1)),
            (None, None, None, None)
        );
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

    #[test]
    fn statuses_have_three_digits() {
        assert_eq!(
            (status(b"200"), status(b"099"), status(b"2000"), status(b"-")),
            (Some(200), None, None, None)
        );
    }
}
