//! The options of httperf's last release, of its development version, and some of prony.

use std::path::PathBuf;

use super::table::{Key, TABLE};
use super::values::{self, Period, Print, Refusal, Uris, Workload};
use crate::getopt::Item;
use crate::strto::{float, whole};

/// The options of a command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Opts {
    /// The program's name in messages and in the echo line.
    pub(super) program: String,
    pub(super) verbose: u32,
    pub(super) print_reply: Option<Print>,
    pub(super) print_request: Option<Print>,
    pub(super) hog: bool,
    pub(super) close_with_reset: bool,
    /// In seconds.
    pub(super) think_timeout: f64,
    /// In seconds; 0 or less = none.
    pub(super) timeout: f64,
    /// In seconds; 0 = none.
    pub(super) runtime: f64,
    /// The number of this client, and the number of clients.
    pub(super) client: (u64, u64),
    pub(super) server: String,
    pub(super) server_name: Option<String>,
    pub(super) servers: Option<PathBuf>,
    pub(super) port: Option<u16>,
    pub(super) uri: String,
    pub(super) failure_status: Option<u64>,
    pub(super) http_version: (u64, u64),
    pub(super) max_connections: u64,
    pub(super) max_piped_calls: u64,
    pub(super) period: Period,
    /// As given.
    pub(super) send_buffer: Option<u64>,
    /// As given.
    pub(super) recv_buffer: Option<u64>,
    pub(super) retry_on_failure: bool,
    pub(super) session_cookies: bool,
    pub(super) ssl: Ssl,
    pub(super) no_host_hdr: bool,
    /// As typed, with its escapes.
    pub(super) add_header: Option<String>,
    pub(super) add_header_file: Option<PathBuf>,
    pub(super) method: Option<String>,
    pub(super) timer_cache: bool,
    pub(super) num_conns: u64,
    pub(super) num_calls: u64,
    pub(super) burst_length: u64,
    pub(super) workload: Workload,
    pub(super) uris: Uris,
    pub(super) periodic_stats: bool,
    pub(super) myaddr: Vec<String>,
    pub(super) more: More,
}

/// The options of TLS.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ssl {
    pub(super) on: bool,
    pub(super) ciphers: Option<String>,
    pub(super) no_reuse: bool,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) verify: bool,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) ca_path: Option<PathBuf>,
    /// By its name in the echo line.
    pub(super) protocol: Option<&'static str>,
    pub(super) server_name: Option<String>,
}

/// The options of prony.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct More {
    pub(super) no_extras: bool,
    pub(super) compact: bool,
    pub(super) explain: bool,
    pub(super) show_secrets: bool,
    pub(super) threads: Option<u64>,
    /// The number of concurrent connections or sessions if no rate is given.
    pub(super) users: Option<u64>,
    pub(super) user_agent: Option<String>,
    pub(super) retry_limit: Option<u64>,
    pub(super) fail_on_errors: bool,
    /// Count truncated bodies as connreset in the report, and not only in the lines after it.
    pub(super) truncated_as_reset: bool,
    pub(super) output: Vec<PathBuf>,
}

/// What a command line requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    /// A run.
    Run(Box<Opts>),
    /// The list of options.
    Help,
    /// The version.
    Version,
}

impl Opts {
    /// The defaults.
    pub(super) fn new(program: &str) -> Self {
        Self {
            program: program.into(),
            verbose: 0,
            print_reply: None,
            print_request: None,
            hog: false,
            close_with_reset: false,
            think_timeout: 0.0,
            timeout: 0.0,
            runtime: 0.0,
            client: (0, 1),
            server: "localhost".into(),
            server_name: None,
            servers: None,
            port: None,
            uri: "/".into(),
            failure_status: None,
            http_version: (1, 1),
            max_connections: 0,
            max_piped_calls: 0,
            period: Period::Sequential,
            send_buffer: None,
            recv_buffer: None,
            retry_on_failure: false,
            session_cookies: false,
            ssl: Ssl::default(),
            no_host_hdr: false,
            add_header: None,
            add_header_file: None,
            method: None,
            timer_cache: false,
            num_conns: 1,
            num_calls: 1,
            burst_length: 1,
            workload: Workload::Requests,
            uris: Uris::One,
            periodic_stats: false,
            myaddr: Vec::new(),
            more: More::default(),
        }
    }

    /// Whether the requests come in sessions.
    pub(super) fn has_sessions(&self) -> bool {
        self.workload != Workload::Requests
    }

    /// The port that connections go to.
    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(if self.ssl.on { 443 } else { 80 })
    }
}

/// Read a command line. `warn` receives lines for standard error.
pub(super) fn read(
    program: &str,
    words: &[String],
    warn: &mut dyn FnMut(&str),
) -> Result<Wish, Refusal> {
    let mut reader = Reader { opts: Opts::new(program), server_given: false };
    for item in TABLE.read(program, words) {
        let (key, value) = match item {
            Item::Option(key, value) => (key, value),
            Item::Operand(_) => continue,
            Item::Refused(message) => return Err(Refusal { message, code: 1 }),
        };
        match key {
            Key::Help => return Ok(Wish::Help),
            Key::Version => return Ok(Wish::Version),
            Key::Debug => {
                warn(&format!("{program}: sorry, need to recompile with -DDEBUG on..."));
            }
            _ => reader.set(key, value).map_err(|r| r.of(program))?,
        }
    }
    reader.finish().map(|opts| Wish::Run(Box::new(opts))).map_err(|r| r.of(program))
}

struct Reader {
    opts: Opts,
    server_given: bool,
}

impl Reader {
    fn set(&mut self, key: Key, value: Option<String>) -> Result<(), Refusal> {
        if self.set_flag(key, value.as_deref()) {
            return Ok(());
        }
        let v = value.unwrap_or_default();
        let o = &mut self.opts;
        match key {
            Key::Rate => o.period = values::rate(&v)?,
            Key::Period => o.period = values::period(&v)?,
            Key::Client => o.client = values::client(&v)?,
            Key::HttpVersion => o.http_version = values::http_version(&v)?,
            Key::Wlog => o.uris = values::wlog(&v)?,
            Key::Wset => o.uris = values::wset(&v)?,
            Key::Wsess => self.workload(values::wsess(&v)?)?,
            Key::Wsesslog => self.workload(values::wsesslog(&v)?)?,
            Key::Wsesspage => self.workload(values::wsesspage(&v)?)?,
            Key::SslProtocol => {
                o.ssl.protocol = Some(values::ssl_protocol(&v)?);
                o.ssl.on = true;
            }
            Key::Port => {
                let port = whole(&v).and_then(|n| u16::try_from(n).ok());
                let port = port.ok_or_else(|| Refusal::new(format!("illegal port number {v}")))?;
                o.port = Some(port);
            }
            Key::ThinkTimeout | Key::Timeout | Key::Runtime => self.set_time(key, &v)?,
            _ if self.set_text(key, &v) => {}
            _ => self.set_count(key, &v)?,
        }
        Ok(())
    }

    /// Options without an argument, or with one that is always valid.
    fn set_flag(&mut self, key: Key, value: Option<&str>) -> bool {
        let o = &mut self.opts;
        match key {
            Key::Verbose => o.verbose += 1,
            Key::Hog => o.hog = true,
            Key::CloseWithReset => o.close_with_reset = true,
            Key::NoHostHdr => o.no_host_hdr = true,
            Key::RetryOnFailure => o.retry_on_failure = true,
            Key::SessionCookies => o.session_cookies = true,
            Key::Ssl => o.ssl.on = true,
            Key::SslNoReuse => o.ssl.no_reuse = true,
            Key::SslVerify => {
                o.ssl.verify = value.is_none_or(|v| v.starts_with(['y', 'Y']));
            }
            Key::UseTimerCache => o.timer_cache = true,
            Key::PeriodicStats => o.periodic_stats = true,
            Key::PrintReply => o.print_reply = Some(Print::of(value)),
            Key::PrintRequest => o.print_request = Some(Print::of(value)),
            Key::Compact => o.more.compact = true,
            Key::Explain => o.more.explain = true,
            Key::FailOnErrors => o.more.fail_on_errors = true,
            Key::TruncatedAsReset => o.more.truncated_as_reset = true,
            Key::NoExtras => o.more.no_extras = true,
            Key::ShowSecrets => o.more.show_secrets = true,
            _ => return false,
        }
        true
    }

    /// Options with an arbitrary text as their argument.
    fn set_text(&mut self, key: Key, v: &str) -> bool {
        let o = &mut self.opts;
        match key {
            Key::AddHeader => o.add_header = Some(v.into()),
            Key::AddHeaderFile => o.add_header_file = Some(v.into()),
            Key::Method => o.method = Some(v.into()),
            Key::Myaddr => o.myaddr.push(v.into()),
            Key::Server => {
                o.server = v.into();
                self.server_given = true;
            }
            Key::ServerName => o.server_name = Some(v.into()),
            Key::Servers => o.servers = Some(v.into()),
            Key::SslCiphers => o.ssl.ciphers = Some(v.into()),
            Key::SslCertificate => o.ssl.certificate = Some(v.into()),
            Key::SslSecret => o.ssl.key = Some(v.into()),
            Key::SslCaFile => o.ssl.ca_file = Some(v.into()),
            Key::SslCaPath => o.ssl.ca_path = Some(v.into()),
            Key::TlsServerName => o.ssl.server_name = Some(v.into()),
            Key::Uri => o.uri = v.into(),
            Key::Output => o.more.output.push(v.into()),
            Key::UserAgent => o.more.user_agent = Some(v.into()),
            _ => return false,
        }
        true
    }

    fn set_time(&mut self, key: Key, v: &str) -> Result<(), Refusal> {
        let o = &mut self.opts;
        let (slot, what, least) = match key {
            Key::ThinkTimeout => (&mut o.think_timeout, "think timeout value", f64::MIN),
            Key::Timeout => (&mut o.timeout, "connect timeout", f64::MIN),
            _ => (&mut o.runtime, "runtime value", f64::MIN_POSITIVE),
        };
        let value = float(v).filter(|&x| x >= least);
        *slot = value.ok_or_else(|| Refusal::new(format!("illegal {what} {v}")))?;
        Ok(())
    }

    fn set_count(&mut self, key: Key, v: &str) -> Result<(), Refusal> {
        let (what, least) = match key {
            Key::BurstLength => ("burst-length", 1),
            Key::FailureStatus => ("failure status", 1),
            Key::MaxConnections => ("max. # of connection", 0),
            Key::MaxPipedCalls => ("max. # of piped calls", 0),
            Key::NumCalls => ("number of calls", 0),
            Key::NumConns => ("number of connections", 0),
            Key::RecvBuffer => ("receive buffer size", 0),
            Key::SendBuffer => ("send buffer size", 0),
            Key::RetryLimit => ("retry limit", 0),
            Key::Threads => ("number of threads", 1),
            _ => ("number of users", 1),
        };
        let n = whole(v).filter(|&n| n >= least);
        let n = n.ok_or_else(|| Refusal::new(format!("illegal {what} {v}")))?;
        let o = &mut self.opts;
        match key {
            Key::BurstLength => o.burst_length = n,
            Key::FailureStatus => o.failure_status = Some(n),
            Key::MaxConnections => o.max_connections = n,
            Key::MaxPipedCalls => o.max_piped_calls = n,
            Key::NumCalls => o.num_calls = n,
            Key::NumConns => o.num_conns = n,
            Key::RecvBuffer => o.recv_buffer = Some(n),
            Key::SendBuffer => o.send_buffer = Some(n),
            Key::RetryLimit => o.more.retry_limit = Some(n),
            Key::Threads => o.more.threads = Some(n),
            _ => o.more.users = Some(n),
        }
        Ok(())
    }

    fn workload(&mut self, workload: Workload) -> Result<(), Refusal> {
        if self.opts.has_sessions() {
            return Err(Refusal::new(
                "only one of --wsess, --wsesspage and --wsesslog can be given, and only once",
            ));
        }
        self.opts.workload = workload;
        Ok(())
    }

    fn finish(self) -> Result<Opts, Refusal> {
        let o = self.opts;
        if o.servers.is_some() && self.server_given {
            let message = "--server S or --servers file".into();
            return Err(Refusal { message, code: 255 });
        }
        if o.session_cookies && !o.has_sessions() {
            let message = "--session-cookie requires session-oriented workload (e.g., --wsess)";
            return Err(Refusal { message: message.into(), code: 255 });
        }
        Ok(o)
    }
}

#[cfg(test)]
mod tests;
