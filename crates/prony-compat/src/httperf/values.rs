//! The arguments of httperf's options, and the error messages for invalid ones.

use std::path::PathBuf;

use crate::strto::{float, float_prefix, whole_prefix};

/// A page's URIs, by level: the page, then the URIs that its reply refers to, and so on.
pub(super) type Levels = Vec<Vec<String>>;

/// The kind of the load.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Workload {
    /// `--num-conns` times `--num-calls`.
    Requests,
    /// `--wsess`: sessions, calls of each, think time in seconds.
    Sess(u64, u64, f64),
    /// `--wsesspage`: sessions, pages of each, think time in seconds.
    Sesspage(u64, u64, f64),
    /// `--wsesslog`: sessions, default think time in seconds, file.
    Sesslog(u64, f64, PathBuf),
}

/// The source of the URIs, if there is no session file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Uris {
    /// `--uri`.
    One,
    /// `--wset`: files, miss rate.
    Set(u64, f64),
    /// `--wlog`: whether the list starts again at its end, and the file.
    Log(bool, PathBuf),
}

/// The reason why a run cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The message; [`Refusal::of`] prepends the program's name.
    pub(super) message: String,
    /// The exit code.
    pub(super) code: u8,
}

/// When connections or sessions start.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Period {
    /// Each when the previous one has ended.
    Sequential,
    /// A fixed inter-arrival time, in seconds.
    Fixed(f64),
    /// Inter-arrival times distributed uniformly between these two, in seconds.
    Uniform(f64, f64),
    /// Exponentially distributed inter-arrival times with this mean, in seconds.
    Exponential(f64),
    /// Steps of (inter-arrival time, duration), both in seconds. The first follows the last.
    Steps(Vec<(f64, f64)>),
}

/// Which parts of requests or replies are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Print {
    Both,
    Header,
    Body,
}

/// The largest number of pairs in a `v` period.
const STEPS_MAX: usize = 16;

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// Prepend the program's name to the message.
    pub(super) fn of(self, program: &str) -> Self {
        Self { message: format!("{program}: {}", self.message), ..self }
    }
}

impl Print {
    pub(super) fn of(value: Option<&str>) -> Self {
        match value.and_then(|v| v.bytes().next()) {
            Some(b'h' | b'H') => Self::Header,
            Some(b'b' | b'B') => Self::Body,
            _ => Self::Both,
        }
    }

    pub(super) fn header(self) -> bool {
        self != Self::Body
    }

    pub(super) fn body(self) -> bool {
        self != Self::Header
    }
}

impl Period {
    /// Replace a period with a mean that is not positive and finite by [`Period::Sequential`].
    fn or_sequential(self) -> Self {
        let mean = match &self {
            Self::Sequential => 0.0,
            Self::Fixed(mean) | Self::Exponential(mean) => *mean,
            Self::Uniform(low, high) => f64::midpoint(*low, *high),
            Self::Steps(steps) => steps.iter().map(|s| s.0).sum::<f64>() / steps.len() as f64,
        };
        if mean > 0.0 && mean.is_finite() { self } else { Self::Sequential }
    }
}

/// `--rate`: per second.
pub(super) fn rate(text: &str) -> Result<Period, Refusal> {
    let rate = float(text).ok_or_else(|| Refusal::new(format!("illegal request rate {text}")))?;
    Ok(if rate > 0.0 { Period::Fixed(1.0 / rate).or_sequential() } else { Period::Sequential })
}

/// `--period`: `T`, `dT`, `eT`, `uT1,T2`, `vT1,D1[,T2,D2...]`, in seconds.
pub(super) fn period(text: &str) -> Result<Period, Refusal> {
    let first = text.chars().next().unwrap_or('\0');
    if first.is_ascii_digit() {
        return mean(text).map(|mean| Period::Fixed(mean).or_sequential());
    }
    let rest = text.get(first.len_utf8()..).unwrap_or_default();
    let period = match first.to_ascii_lowercase() {
        'd' => Period::Fixed(mean(rest)?),
        'e' => Period::Exponential(mean(rest)?),
        'u' => uniform(rest)?,
        'v' => steps(rest)?,
        _ => {
            let letter = if first == '\0' { String::new() } else { first.into() };
            let message = format!("illegal interarrival distribution '{letter}' in {text}");
            return Err(Refusal::new(message));
        }
    };
    Ok(period.or_sequential())
}

fn mean(text: &str) -> Result<f64, Refusal> {
    let illegal = || Refusal::new(format!("illegal mean interarrival time {text}"));
    float(text).ok_or_else(illegal)
}

fn uniform(text: &str) -> Result<Period, Refusal> {
    let (low, rest) = float_prefix(text)
        .ok_or_else(|| Refusal::new(format!("illegal minimum interarrival time {text}")))?;
    let Some(high) = rest.strip_prefix(',') else {
        return Err(Refusal::new(format!(
            "minimum interarrival time not followed by `,MAX_IAT' (rest: `{rest}')"
        )));
    };
    let illegal = || Refusal::new(format!("illegal request period {high}"));
    Ok(Period::Uniform(low, float(high).ok_or_else(illegal)?))
}

fn steps(text: &str) -> Result<Period, Refusal> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        if all.len() == STEPS_MAX {
            return Err(Refusal::new("too many rates"));
        }
        let illegal = || Refusal::new(format!("illegal mean interarrival time {rest}"));
        let (gap, after) = float_prefix(rest).filter(|(t, _)| *t >= 0.0).ok_or_else(illegal)?;
        let Some(after) = after.strip_prefix(',') else {
            return Err(Refusal::new(format!(
                "interarrival time not followed by `,duration' (rest: `{after}')"
            )));
        };
        let illegal = || Refusal::new(format!("illegal duration {after}"));
        let (length, after) = float_prefix(after).filter(|(t, _)| *t > 0.0).ok_or_else(illegal)?;
        all.push((gap, length));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            // Text after the last pair is ignored.
            None => return Ok(Period::Steps(all)),
        }
    }
}

/// `--client=I/N`.
pub(super) fn client(text: &str) -> Result<(u64, u64), Refusal> {
    let bad = |what: &str, rest: &str| Refusal::new(format!("{what} (rest: `{rest}')"));
    let (id, rest) = whole_prefix(text).ok_or_else(|| bad("bad client id", text))?;
    let of = rest.strip_prefix('/').ok_or_else(|| bad("client id not followed by `/'", rest))?;
    match whole_prefix(of) {
        Some((n, _)) if id < n => Ok((id, n)),
        _ => Err(bad("bad number of clients", of)),
    }
}

/// `--http-version=M.m`.
pub(super) fn http_version(text: &str) -> Result<(u64, u64), Refusal> {
    let parse = || {
        let (major, rest) = decimal_prefix(text)?;
        let (minor, _) = decimal_prefix(rest.strip_prefix('.')?)?;
        Some((major, minor))
    };
    parse().ok_or_else(|| Refusal::new(format!("illegal version number {text}")))
}

fn decimal_prefix(text: &str) -> Option<(u64, &str)> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..length].parse().ok()?, &text[length..]))
}

/// `--wsess=N1,N2,X`.
pub(super) fn wsess(text: &str) -> Result<Workload, Refusal> {
    let mut p = Params::new("wsess", text);
    let sessions = p.whole("bad number of sessions (1st param)")?;
    let calls = p.whole("bad number of calls per session (2nd param)")?;
    let think = p.time("bad user think time (3rd param)")?;
    p.end()?;
    Ok(Workload::Sess(sessions, calls, think))
}

/// `--wsesspage=N1,N2,X`.
pub(super) fn wsesspage(text: &str) -> Result<Workload, Refusal> {
    let mut p = Params::new("wsesspage", text);
    let sessions = p.whole("bad number of sessions (1st param)")?;
    let pages = p.whole("bad number of user requests per session (2nd param)")?;
    let think = p.time("bad user think time (3rd param)")?;
    p.end()?;
    Ok(Workload::Sesspage(sessions, pages, think))
}

/// `--wsesslog=N,X,F`.
pub(super) fn wsesslog(text: &str) -> Result<Workload, Refusal> {
    let mut p = Params::new("wsesslog", text);
    let sessions = p.whole("bad number of sessions (1st param)")?;
    let think = p.time("bad user think time (2nd param)")?;
    p.step(p.rest);
    let file = p.word("bad session filename (3rd param)")?;
    p.end()?;
    if sessions == 0 {
        return Err(Refusal::new("there must be at least 1 session in --wsesslog arg"));
    }
    Ok(Workload::Sesslog(sessions, think, file.into()))
}

/// `--wset=N,X`.
pub(super) fn wset(text: &str) -> Result<Uris, Refusal> {
    let mut p = Params::new("wset", text);
    let files = p.whole("bad working set size (1st parameter)")?;
    let what = "bad target miss rate (2nd parameter)";
    let start = p.rest;
    let rate = p.time(what)?;
    let end = p.end();
    p.rest = start;
    if rate > 1.0 {
        return Err(p.refuse(what));
    }
    end.map_err(|_| p.refuse(EXTRANEOUS))?;
    Ok(Uris::Set(files, rate))
}

/// `--wlog=y|n,F`.
pub(super) fn wlog(text: &str) -> Result<Uris, Refusal> {
    let repeats = text.starts_with(['y', 'Y']);
    let file = text.char_indices().nth(2).map_or("", |(at, _)| &text[at..]);
    if file.is_empty() {
        return Err(Refusal::new(format!(
            "no file in --wlog arg `{text}'; write y,FILE to repeat the list, or n,FILE to stop \
             at its end"
        )));
    }
    Ok(Uris::Log(repeats, file.into()))
}

/// The value of `--ssl-protocol` as written in the echo line.
pub(super) fn ssl_protocol(text: &str) -> Result<&'static str, Refusal> {
    Ok(match text.to_ascii_lowercase().replace('_', ".").as_str() {
        "auto" => "auto",
        "sslv2" => "SSLv2",
        "sslv3" => "SSLv3",
        "tlsv1" | "tlsv1.0" => "TLSv1.0",
        "tlsv1.1" => "TLSv1.1",
        "tlsv1.2" => "TLSv1.2",
        "tlsv1.3" => "TLSv1.3",
        _ => return Err(Refusal::new(format!("illegal SSL protocol {text}"))),
    })
}

const EXTRANEOUS: &str = "extraneous parameter";

/// The parts of an argument between commas.
struct Params<'a> {
    option: &'static str,
    rest: &'a str,
}

impl<'a> Params<'a> {
    fn new(option: &'static str, text: &'a str) -> Self {
        Self { option, rest: text }
    }

    fn refuse(&self, what: &str) -> Refusal {
        Refusal::new(format!("{what} in --{} arg (rest: `{}')", self.option, self.rest))
    }

    /// Continue with `rest`, after its leading comma if it has one.
    fn step(&mut self, rest: &'a str) {
        self.rest = rest.strip_prefix(',').unwrap_or(rest);
    }

    fn whole(&mut self, what: &str) -> Result<u64, Refusal> {
        let (n, rest) = whole_prefix(self.rest).ok_or_else(|| self.refuse(what))?;
        self.step(rest);
        Ok(n)
    }

    /// Parse seconds (or a share); negative values are refused. A comma after it is left.
    fn time(&mut self, what: &str) -> Result<f64, Refusal> {
        let (x, rest) = float_prefix(self.rest).ok_or_else(|| self.refuse(what))?;
        self.rest = rest;
        if x >= 0.0 && x.is_finite() { Ok(x) } else { Err(self.refuse(what)) }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, Refusal> {
        let word = self.rest.split(',').next().unwrap_or_default();
        if word.is_empty() {
            return Err(self.refuse(what));
        }
        self.step(&self.rest[word.len()..]);
        Ok(word)
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.refuse(EXTRANEOUS)) }
    }
}
