//! h2load's command line.

use std::path::PathBuf;

use prony_base::units::Span;
use prony_io::ConnectTo;

use super::keys::{Key, TABLE};
use super::values::{count, duration, size};
use crate::getopt::Item;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Help,
    Version,
    /// Print this message and exit.
    Refused(String),
    Run(Box<Options>),
}

/// The version of h2load that is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    V1_52,
    V1_70,
}

impl Edition {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1_52 => "1.52.0",
            Self::V1_70 => "1.70.0",
        }
    }
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) requests: Option<u64>,
    pub(super) clients: u32,
    pub(super) threads: u32,
    pub(super) input_file: Option<String>,
    pub(super) streams: u32,
    pub(super) frame_size: u32,
    /// Bits of the windows of streams and of connections.
    pub(super) window_bits: u8,
    pub(super) connection_window_bits: u8,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ciphers: Option<String>,
    pub(super) tls13_ciphers: Option<String>,
    pub(super) groups: Option<String>,
    /// Whether `http` URIs use HTTP/1.1.
    pub(super) plain_is_h1: bool,
    pub(super) alpn: Vec<String>,
    pub(super) data: Option<String>,
    /// Clients per period.
    pub(super) rate: Option<u32>,
    pub(super) rate_period: Span,
    pub(super) duration: Option<Span>,
    pub(super) warmup: Span,
    pub(super) active_timeout: Option<Span>,
    pub(super) inactivity_timeout: Option<Span>,
    pub(super) script: Option<String>,
    pub(super) base: Option<String>,
    pub(super) header_table_size: u32,
    pub(super) encoder_table_size: u32,
    pub(super) log_file: Option<String>,
    pub(super) connect_to: Option<ConnectTo>,
    /// Requests per second of each client.
    pub(super) rps: Option<f64>,
    pub(super) sni: Option<String>,
    pub(super) histogram: bool,
    /// h2load's own JSON.
    pub(super) json: Option<String>,
    pub(super) verbose: bool,
    pub(super) uris: Vec<String>,
    /// Results of prony.
    pub(super) outputs: Vec<PathBuf>,
    pub(super) edition: Edition,
    pub(super) extras: bool,
    /// Messages for standard error.
    pub(super) warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            requests: None,
            clients: 1,
            threads: 1,
            input_file: None,
            streams: 1,
            frame_size: 16_384,
            window_bits: 30,
            connection_window_bits: 30,
            headers: Vec::new(),
            ciphers: None,
            tls13_ciphers: None,
            groups: None,
            plain_is_h1: false,
            alpn: vec!["h2".into(), "http/1.1".into()],
            data: None,
            rate: None,
            rate_period: Span::from_secs(1),
            duration: None,
            warmup: Span::ZERO,
            active_timeout: None,
            inactivity_timeout: None,
            script: None,
            base: None,
            header_table_size: 4_096,
            encoder_table_size: 4_096,
            log_file: None,
            connect_to: None,
            rps: None,
            sni: None,
            histogram: false,
            json: None,
            verbose: false,
            uris: Vec::new(),
            outputs: Vec::new(),
            edition: Edition::V1_70,
            extras: true,
            warnings: Vec::new(),
        }
    }
}

/// Read a command line. `cores` are the processors of the machine.
pub(super) fn read(program: &str, args: &[String], cores: usize) -> Asked {
    let mut options = Options::default();
    for item in TABLE.read(program, args) {
        match item {
            Item::Operand(word) => options.uris.push(word),
            Item::Refused(why) => return Asked::Refused(why),
            Item::Option(Key::Help, _) => return Asked::Help,
            Item::Option(Key::Version, _) => return Asked::Version,
            Item::Option(key, value) => {
                if let Err(why) = options.set(key, &value.unwrap_or_default()) {
                    return Asked::Refused(why);
                }
            }
        }
    }
    match options.check(cores) {
        Ok(()) => Asked::Run(Box::new(options)),
        Err(why) => Asked::Refused(why),
    }
}

impl Options {
    fn set(&mut self, key: Key, value: &str) -> Result<(), String> {
        match key {
            Key::Requests => self.requests = Some(whole("-n", value)?),
            Key::Clients => self.clients = small("-c", value)?,
            Key::Threads => self.threads = small("-t", value)?,
            Key::InputFile => self.input_file = Some(value.into()),
            Key::Streams => self.streams = small("-m", value)?,
            Key::Window => self.window_bits = bits("-w", value)?,
            Key::ConnectionWindow => self.connection_window_bits = bits("-W", value)?,
            Key::FrameSize => self.frame_size = frame_size(value)?,
            Key::Header => self.headers.push(header(value)?),
            Key::Ciphers => self.ciphers = Some(value.into()),
            Key::Tls13Ciphers => self.tls13_ciphers = Some(value.into()),
            Key::Groups => self.groups = Some(value.into()),
            Key::NoTlsProto => self.plain_is_h1 = plain_protocol(value)?,
            Key::NpnList | Key::AlpnList => self.set_alpn(key, value)?,
            Key::H1 => (self.plain_is_h1, self.alpn) = (true, vec!["http/1.1".into()]),
            Key::H3 => return Err(format!("--h3: {NO_HTTP3}")),
            Key::Data => self.data = Some(value.into()),
            Key::Rate => self.rate = Some(rate(value)?),
            Key::RatePeriod => self.rate_period = time("--rate-period", value)?,
            Key::Duration => {
                self.duration = Some(time("-D", value)?).filter(|&d| d > Span::ZERO);
            }
            Key::Warmup => self.warmup = time("--warm-up-time", value)?,
            Key::ActiveTimeout => {
                self.active_timeout = Some(timeout("-T", "conn_active_timeout", value)?);
            }
            Key::InactivityTimeout => {
                self.inactivity_timeout = Some(timeout("-N", "conn_inactivity_timeout", value)?);
            }
            Key::Script => self.script = Some(value.into()),
            Key::Base => self.base = Some(value.into()),
            Key::HeaderTable => self.header_table_size = table("--header-table-size", value)?,
            Key::EncoderTable => {
                self.encoder_table_size = table("--encoder-header-table-size", value)?;
            }
            Key::LogFile => self.log_file = Some(value.into()),
            Key::ConnectTo => self.connect_to = Some(connect_to(value)?),
            Key::Rps => self.rps = rps(value)?,
            Key::Sni => self.sni = Some(value.into()).filter(|name: &String| !name.is_empty()),
            Key::Histogram => self.histogram = true,
            Key::SessionFile => return Err(NO_SESSION_FILE.into()),
            Key::OutputFile => self.json = Some(value.into()),
            Key::Verbose => self.verbose = true,
            Key::Qlog => self.warn("Warning: --qlog-file-base: only effective in quic, ignoring."),
            Key::Ktls => self.warn("Warning: --ktls: prony encrypts in user space, ignoring."),
            Key::UdpPayload => {
                whole("--max-udp-payload-size", value)?;
            }
            Key::Output => self.outputs.push(value.into()),
            Key::Report => self.edition = edition(value)?,
            Key::NoExtras => self.extras = false,
            Key::NoUdpGso | Key::Help | Key::Version => {}
        }
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.into());
    }

    fn set_alpn(&mut self, key: Key, value: &str) -> Result<(), String> {
        let name = if key == Key::NpnList { "--npn-list" } else { "--alpn-list" };
        let all: Vec<&str> = value.split(',').filter(|name| !name.is_empty()).collect();
        if all.iter().any(|name| *name == "h3" || name.starts_with("h3-")) {
            return Err(format!("{name}: {NO_HTTP3}"));
        }
        // Drafts of HTTP/2 are no longer spoken by any server.
        let known = |name: &&str| ["h2", "http/1.1"].contains(name);
        self.alpn = all.iter().copied().filter(known).map(str::to_owned).collect();
        if self.alpn.is_empty() && !all.is_empty() {
            return Err(format!(
                "{name}: no protocol of {} is supported; use h2, http/1.1 or both",
                value.escape_debug()
            ));
        }
        if key == Key::NpnList && self.edition == Edition::V1_70 {
            self.warn("--npn-list: deprecated.  Use --alpn-list instead.");
        }
        Ok(())
    }

    fn check(&mut self, cores: usize) -> Result<(), String> {
        let refuse = |why: &str| Err(why.to_owned());
        if self.uris.is_empty() && self.input_file.is_none() && self.script.is_none() {
            return refuse("no URI or input file given");
        }
        let timed = self.duration.is_some();
        if self.requests == Some(0) && !timed {
            return refuse(
                "-n: the number of requests must be strictly greater than 0 if timing-based test \
                 is not being run.",
            );
        }
        if self.streams == 0 {
            return refuse("-m: the max concurrent streams must be strictly greater than 0.");
        }
        if self.threads == 0 {
            return refuse("-t: the number of threads must be strictly greater than 0.");
        }
        if self.threads as usize > cores {
            self.warn("-t: warning: the number of threads is greater than hardware cores.");
        }
        if self.clients == 0 {
            return refuse("-c: the number of clients must be strictly greater than 0.");
        }
        if let Some(rate) = self.rate {
            if timed {
                return refuse("-r, -D: they are mutually exclusive.");
            }
            if rate > self.clients {
                return refuse(
                    "-r, -c: the connection rate must be smaller than or equal to the number of \
                     clients.",
                );
            }
            if self.rate_period == Span::ZERO {
                return refuse("--rate-period: the period must be longer than 0.");
            }
        }
        if self.rps.is_some() && self.script.is_some() {
            return refuse("--rps, --timing-script-file: they are mutually exclusive.");
        }
        if timed && self.script.is_some() {
            return refuse("-D, --timing-script-file: prony plays a script once; omit -D.");
        }
        let few = self.requests.unwrap_or(1) < u64::from(self.clients);
        if !timed && self.script.is_none() && few {
            return refuse(
                "-n, -c: the number of requests must be greater than or equal to the clients.",
            );
        }
        if self.clients < self.threads {
            return refuse(
                "-c, -t: the number of clients must be greater than or equal to the number of \
                 threads.",
            );
        }
        if !timed {
            self.warmup = Span::ZERO;
        }
        Ok(())
    }
}

const NO_HTTP3: &str =
    "HTTP/3 is not supported yet; omit it to use HTTP/2, or add --h1 for HTTP/1.1";
const NO_SESSION_FILE: &str = "--tls-session-file: sessions are not read from files; \
    `prony load` resumes sessions of the same run";

fn whole(option: &str, value: &str) -> Result<u64, String> {
    count(value).ok_or_else(|| format!("{option}: bad option value: {}", value.escape_debug()))
}

fn small(option: &str, value: &str) -> Result<u32, String> {
    let n = whole(option, value)?;
    u32::try_from(n).map_err(|_| format!("{option}: bad option value: {value}"))
}

fn bits(option: &str, value: &str) -> Result<u8, String> {
    let n = count(value).filter(|&n| n <= 30).and_then(|n| u8::try_from(n).ok());
    let n =
        n.ok_or_else(|| format!("{option}: specify the integer in the range [0, 30], inclusive"))?;
    if n == 0 {
        return Err(format!(
            "{option}: with a window of 0 bytes no server can send a body; use 1 to 30"
        ));
    }
    Ok(n)
}

fn frame_size(value: &str) -> Result<u32, String> {
    match size(value) {
        None => Err(format!("--max-frame-size: bad option value: {}", value.escape_debug())),
        Some(n) if n < 1 << 14 => Err("--max-frame-size: minimum 16384".into()),
        Some(n) => u32::try_from(n)
            .ok()
            .filter(|&n| n < 1 << 24)
            .ok_or_else(|| "--max-frame-size: maximum 16777215".into()),
    }
}

/// A header of h2load: its name may start with a colon, and neither part may be empty.
fn header(line: &str) -> Result<(String, String), String> {
    let bad = |why: &str| Err(format!("-H: {why}: {}", line.escape_debug()));
    let after = usize::from(line.starts_with(':'));
    let Some(colon) = line.get(after..).and_then(|rest| rest.find(':')).map(|at| at + after) else {
        return bad("invalid header");
    };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_start_matches([' ', '\t']));
    if value.is_empty() {
        return Err(format!("-H: invalid header - value missing: {}", name.escape_debug()));
    }
    if !name.starts_with(':') && prony_plan::target::parse_header(line).is_err() {
        return bad("invalid header");
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether `http` URIs use HTTP/1.1.
fn plain_protocol(value: &str) -> Result<bool, String> {
    match value {
        "h2c" => Ok(false),
        "http/1.1" => Ok(true),
        other => Err(format!("-p: unsupported protocol {}", other.escape_debug())),
    }
}

fn rate(value: &str) -> Result<u32, String> {
    match small("-r", value)? {
        0 => Err("-r: the rate at which connections are made must be positive.".into()),
        n => Ok(n),
    }
}

fn time(option: &str, value: &str) -> Result<Span, String> {
    duration(value).ok_or_else(|| format!("{option}: value error {}", value.escape_debug()))
}

fn timeout(option: &str, name: &str, value: &str) -> Result<Span, String> {
    duration(value).filter(|&t| t > Span::ZERO).ok_or_else(|| {
        format!("{option}: bad value for the {name} wait time: {}", value.escape_debug())
    })
}

fn table(option: &str, value: &str) -> Result<u32, String> {
    let n = size(value)
        .ok_or_else(|| format!("{option}: Bad option value: {}", value.escape_debug()))?;
    u32::try_from(n).map_err(|_| {
        format!("{option}: Value too large.  It should be less than or equal to {}", u32::MAX)
    })
}

fn connect_to(value: &str) -> Result<ConnectTo, String> {
    value.parse().map_err(|_| format!("--connect-to: Invalid value {}", value.escape_debug()))
}

fn rps(value: &str) -> Result<Option<f64>, String> {
    match crate::strto::float(value).filter(|rate| rate.is_finite() && *rate >= 0.0) {
        None => Err(format!("--rps: Invalid value {}", value.escape_debug())),
        Some(rate) => Ok((rate > 0.0).then_some(rate)),
    }
}

fn edition(value: &str) -> Result<Edition, String> {
    match value {
        "1.52" => Ok(Edition::V1_52),
        "1.70" => Ok(Edition::V1_70),
        other => Err(format!(
            "--report '{}': the report is that of h2load 1.52 or of 1.70",
            other.escape_debug()
        )),
    }
}

#[cfg(test)]
mod tests;
