//! From what was typed to a plan: the second step, in which the options meet.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_core::plan::{
    CallSpec, Data, Expect, HttpVersion, Load, Plan, Secret, Sessions, Shard, Stop, Think,
};
use prony_core::schedule::{self, Arrivals};
use prony_core::target::{self, Endpoint, Url};
use prony_core::units::Span;
use prony_io::ConnectTo;

use super::means::MeansArgs;
use super::values::{self, ArrivalsArg, HeaderArg};
use super::{LoadArgs, Precision, tls};
use crate::error::Error;
use crate::plan_file;

/// Connections of a closed loop where nothing is said (as hey and oha have it).
pub(crate) const CONNECTIONS: u32 = 50;
/// How long a run lasts that nothing else ends.
pub(crate) const DURATION: Span = Span::from_secs(10);
/// The largest file or body that is read into memory: 64 MiB.
const FILE_MAX: u64 = 64 << 20;

/// What of the surroundings goes into a plan.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The most connections that an open loop may open where nothing is said.
    pub connections_max: u32,
    /// Why so many, as the end of a sentence.
    pub connections_why: String,
    /// The seed where none is given.
    pub seed: u64,
}

/// A plan and what the reader should know about how it came to be.
#[derive(Debug)]
pub struct Planned {
    /// The run.
    pub plan: Plan,
    /// What the report must say of how the run was set up, in whole sentences.
    pub notes: Vec<String>,
    /// Why an open loop may open so many connections and no more, as the end of a sentence; `None`
    /// where the user said how many.
    pub cap: Option<String>,
}

/// The plan that the options ask for; reads the files that they name.
pub fn plan(args: &LoadArgs, around: &Surroundings) -> Result<Planned, Error> {
    let headers = headers(&args.header)?;
    check_conflicts(args, &headers)?;
    let mut cap = None;
    let mut targets = targets(args, &headers)?;
    redirect(args, &mut targets)?;
    tls::rename(&args.tls, &mut targets.endpoints, "an https:// URL")?;
    let load = load(args, around, &mut cap)?;
    let mut notes = means(&args.means);
    if let (Load::Closed { .. }, servers @ 2..) = (&load, targets.endpoints.len()) {
        notes.push(format!(
            "Each connection of the closed loop is one to each of the {servers} servers, one of \
             them in use at a time."
        ));
    }
    let given = Stop { requests: args.requests, sessions: args.sessions, duration: args.duration };
    let stop = ended(given, &load, args.until.time());
    let plan = Plan {
        endpoints: targets.endpoints,
        calls: targets.calls.into(),
        pick: args.pick,
        sessions: targets.sessions,
        names: targets.names,
        data: targets.data,
        timeout_from_send: false,
        replace_lost: false,
        exchange: None,
        tls: tls::spec(&args.tls)?,
        load,
        stop,
        warmup: args.warmup,
        pipeline: args.pipeline,
        requests_per_connection: if args.no_reuse { Some(1) } else { args.requests_per_connection },
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        expect: Expect {
            statuses: args.expect.0.clone(),
            body: args.expect_body.clone().map(String::into_bytes),
            length: args.expect_length,
        },
        http: args.http,
        seed: args.means.seed.or(args.means.simulate).unwrap_or(around.seed),
        shard: Shard::WHOLE,
    };
    plan.check().map_err(Error::Plan)?;
    Ok(Planned { plan, notes, cap })
}

/// What is not in the plan, because it changes nothing of what is sent, but must be known to run it
/// again.
pub(crate) fn means(args: &MeansArgs) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((first, more)) = args.source.split_first() {
        let more: String = more.iter().map(|a| format!(", {a}")).collect();
        notes.push(format!("Connections go out from {first}{more}."));
    }
    if args.pin {
        notes.push("Each thread is fixed to a core.".into());
    }
    if args.timestamps {
        notes.push("The kernel noted times of what went out and came in (--timestamps).".into());
    }
    match args.precision {
        Precision::Auto => {}
        Precision::Sleep => notes.push("Waits were slept, never spun (--precision sleep).".into()),
        Precision::Spin => notes.push("Waits were spun, never slept (--precision spin).".into()),
        Precision::Grain(span) => notes.push(format!(
            "What became due within {span} went out together, up to so late (--precision)."
        )),
    }
    notes
}

/// A seed that nobody has chosen; short enough to be typed again.
pub fn drawn_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

fn check_conflicts(args: &LoadArgs, headers: &[(String, String)]) -> Result<(), Error> {
    check_arrivals(args)?;
    if args.no_reuse && args.pipeline > 1 {
        return Err(Error::Conflict(
            "--pipeline",
            "--no-reuse",
            "a connection for one request cannot have several in flight",
        ));
    }
    if args.no_reuse && args.requests_per_connection.is_some_and(|n| n > 1) {
        return Err(Error::Conflict(
            "--requests-per-connection",
            "--no-reuse",
            "--no-reuse means one request per connection",
        ));
    }
    if args.pipeline > 1 && args.http == HttpVersion::Http10 {
        return Err(Error::Needs("--pipeline", "--http 1.1", "HTTP/1.0 has no pipelining"));
    }
    check_header_conflicts(args, headers)?;
    check_sources(&args.means)
}

/// Which of `--rate`, `--arrivals` and `--think` go together.
fn check_arrivals(args: &LoadArgs) -> Result<(), Error> {
    let own_rate = match &args.arrivals {
        Some(ArrivalsArg::Law(Arrivals::Uniform(..))) => Some("--arrivals uniform"),
        Some(ArrivalsArg::Law(Arrivals::Trace(_)) | ArrivalsArg::TraceFile(_)) => {
            Some("--arrivals trace")
        }
        Some(ArrivalsArg::Law(_)) | None => None,
    };
    match (own_rate, &args.rate) {
        (Some(law), Some(_)) => {
            let why = "the law is the rate as well; leave --rate out";
            return Err(Error::Conflict("--rate", law, why));
        }
        (None, None) if args.arrivals.is_some() => {
            let why = "the law says how arrivals fall, the rate how many there are";
            return Err(Error::Needs("--arrivals", "--rate", why));
        }
        _ => {}
    }
    if args.think.is_some() && (own_rate.is_some() || args.rate.is_some()) {
        let open = own_rate.unwrap_or("--rate");
        let why = "arrivals of an open loop never wait for replies; leave one out";
        return Err(Error::Conflict("--think", open, why));
    }
    Ok(())
}

fn check_header_conflicts(args: &LoadArgs, headers: &[(String, String)]) -> Result<(), Error> {
    for (given, option, name) in [
        (args.user.is_some(), "--user", "Authorization"),
        (args.content_type.is_some(), "--content-type", "Content-Type"),
        (args.host.is_some(), "--host", "Host"),
    ] {
        if given && has_header(headers, name) {
            let line = match name {
                "Authorization" => "--header Authorization",
                "Content-Type" => "--header Content-Type",
                _ => "--header Host",
            };
            return Err(Error::Conflict(option, line, "both set the same header; leave one out"));
        }
    }
    Ok(())
}

pub(crate) fn check_sources(args: &MeansArgs) -> Result<(), Error> {
    for source in &args.source {
        let wrong = (args.ipv4 && source.is_ipv6()) || (args.ipv6 && source.is_ipv4());
        if wrong {
            return Err(Error::Value {
                what: "--source",
                value: source.to_string(),
                why: format!(
                    "is not of the family that {} asks for",
                    if args.ipv4 { "-4" } else { "-6" }
                ),
            });
        }
    }
    Ok(())
}

/// `--connect-to` and `--unix-socket`: where the bytes go instead.
fn redirect(args: &LoadArgs, targets: &mut Targets) -> Result<(), Error> {
    let to = args.connect_to.as_ref().map(|text| {
        let to = text.parse::<ConnectTo>();
        to.map_err(|why| Error::Value { what: "--connect-to", value: text.clone(), why })
    });
    let to = to.transpose()?;
    if args.unix_socket.is_none() && to.is_none() {
        return Ok(());
    }
    let endpoints = std::mem::take(&mut targets.endpoints);
    let (moved, indices) = moved(endpoints, args.unix_socket.as_deref(), to.as_ref());
    targets.endpoints = moved;
    for call in &mut targets.calls {
        call.endpoint = indices[call.endpoint as usize];
    }
    Ok(())
}

/// Where connections go that a Unix socket or another server stands in for, and which of these each
/// of the endpoints has become: some may have become one, and then share their connections.
pub(crate) fn moved(
    endpoints: Vec<Endpoint>,
    unix: Option<&str>,
    to: Option<&ConnectTo>,
) -> (Vec<Endpoint>, Vec<u32>) {
    let port_of = |endpoint: &Endpoint| match endpoint.transport() {
        Endpoint::Tcp { port, .. } => *port,
        _ => 0,
    };
    let mut targets = Targets::default();
    let indices = endpoints.into_iter().map(|old| {
        let new = match (unix, to) {
            (Some(path), _) => Endpoint::Unix { path: path.to_owned() },
            (None, Some(to)) => {
                let port = to.port.unwrap_or_else(|| port_of(&old));
                Endpoint::Tcp { host: to.host.clone(), port }
            }
            (None, None) => old.transport().clone(),
        };
        // Where TLS was spoken it still is, for the same name.
        targets.endpoint(match old.tls_name() {
            Some(name) => new.secured(name),
            None => new,
        })
    });
    let indices = indices.collect();
    (targets.endpoints, indices)
}

fn load(args: &LoadArgs, around: &Surroundings, cap: &mut Option<String>) -> Result<Load, Error> {
    let arrivals = match &args.arrivals {
        None => Arrivals::Fixed,
        Some(ArrivalsArg::Law(law)) => law.clone(),
        Some(ArrivalsArg::TraceFile(file)) => trace(Path::new(file))?,
    };
    let gaps = matches!(arrivals, Arrivals::Uniform(..) | Arrivals::Trace(_));
    if args.rate.is_none() && !gaps {
        let connections = args.connections.unwrap_or(CONNECTIONS);
        return Ok(Load::Closed { connections, think: args.think.unwrap_or(Think::None) });
    }
    let connections = args.connections.unwrap_or_else(|| most_connections(around, cap));
    Ok(Load::Open { rate: args.rate.clone().unwrap_or_default(), arrivals, connections })
}

/// The connections of an open loop that nobody has limited, and in `cap` why no more.
pub(crate) fn most_connections(around: &Surroundings, cap: &mut Option<String>) -> u32 {
    *cap = Some(around.connections_why.clone());
    around.connections_max
}

fn trace(path: &Path) -> Result<Arrivals, Error> {
    let text = read_text("--arrivals trace", path)?;
    schedule::parse_trace(&text)
        .map_err(|e| Error::Trace { path: path.to_owned(), why: e.to_string() })
}

/// The stop rules; that time where neither they nor the load itself end the run.
pub(crate) fn ended(given: Stop, load: &Load, otherwise: Span) -> Stop {
    let ends = match load {
        Load::Closed { .. } => false,
        Load::Open { arrivals: Arrivals::Trace(_), .. } => true,
        Load::Open { arrivals: Arrivals::Uniform(..), .. } => false,
        Load::Open { rate, .. } => rate.length().is_some(),
    };
    if ends || given != Stop::default() {
        return given;
    }
    Stop { duration: Some(otherwise), ..given }
}

/// Where requests go and what they are.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) calls: Vec<CallSpec>,
    pub(crate) names: Vec<String>,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) data: Data,
}

impl Targets {
    /// The index of the endpoint, which is added where it is new.
    fn endpoint(&mut self, endpoint: Endpoint) -> u32 {
        let index = self.endpoints.iter().position(|e| *e == endpoint).unwrap_or_else(|| {
            self.endpoints.push(endpoint);
            self.endpoints.len() - 1
        });
        index as u32
    }
}

/// One URL with what its file says about it.
struct Item {
    url: Url,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

fn targets(args: &LoadArgs, headers: &[(String, String)]) -> Result<Targets, Error> {
    if let Some(file) = &args.session_file {
        return sessions(args, headers, file);
    }
    let mut items = Vec::new();
    for text in &args.urls {
        if super::is_command(text) {
            return Err(Error::CommandAsUrl(text.clone()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Err(Error::UnixAsUrl(text.clone(), path.to_owned()));
        }
        // On its own it may be a host; that one which does not resolve is none is seen later.
        let first = args.urls.len() > 1 && text == &args.urls[0];
        if let Some(meant) = super::command_meant(text).filter(|_| first) {
            return Err(Error::NoCommand(text.clone(), meant));
        }
        let url = Url::parse(text).map_err(Error::Url)?;
        items.push(Item { url, method: None, headers: Vec::new(), body: None });
    }
    for path in &args.urls_file {
        items.extend(url_file(path)?);
    }
    if items.is_empty() {
        return Err(Error::NoUrl);
    }
    let body = args.body.as_deref().map(body).transpose()?;
    let mut targets = Targets::default();
    for item in items {
        let endpoint = targets.endpoint(item.url.endpoint());
        targets.calls.push(call(args, headers, item, endpoint, body.as_deref()));
    }
    Ok(targets)
}

/// The sessions of a file, on the server of the one URL.
fn sessions(args: &LoadArgs, headers: &[(String, String)], file: &Path) -> Result<Targets, Error> {
    let [url] = &args.urls[..] else {
        let why = "its paths are those of one server; give its URL";
        return Err(Error::Needs("--session", "exactly one URL", why));
    };
    let mut url = Url::parse(url).map_err(Error::Url)?;
    if let Some(user) = &args.user {
        let parts = user.expose().split_once(':');
        url.user = parts.map(|(name, password)| (name.to_owned(), password.into()));
    }
    let common = plan_file::Common {
        url: Some(url),
        host: args.host.as_deref().map(Into::into),
        headers: headers.to_vec().into(),
        bare: false,
    };
    plan_file::session_file(file, common, args.session_connections)
}

fn url_file(path: &Path) -> Result<Vec<Item>, Error> {
    let text = read_text("--urls", path)?;
    let entries = target::parse_url_file(&text)
        .map_err(|e| Error::UrlFile { path: path.to_owned(), why: e.to_string() })?;
    if entries.is_empty() {
        return Err(Error::UrlFileEmpty(path.to_owned()));
    }
    entries
        .into_iter()
        .map(|entry| {
            let body = match &entry.body_file {
                Some(file) => Some(read("--urls body file", Path::new(file))?),
                None => None,
            };
            Ok(Item { url: entry.url, method: entry.method, headers: entry.headers, body })
        })
        .collect()
}

/// The request for one URL. What stands in a file of URLs goes before what the options say.
fn call(
    args: &LoadArgs,
    common: &[(String, String)],
    item: Item,
    endpoint: u32,
    body: Option<&[u8]>,
) -> CallSpec {
    let body = item.body.or_else(|| body.map(<[u8]>::to_vec)).unwrap_or_default();
    let method = item
        .method
        .or_else(|| args.method.clone())
        .unwrap_or_else(|| if body.is_empty() { "GET".into() } else { "POST".into() });
    let mut headers = item.headers;
    let options = common.iter().filter(|(name, _)| !has_header(&headers, name));
    let options: Vec<_> = options.cloned().collect();
    headers.extend(options);
    let of_url = |(name, password): &(String, Secret)| format!("{name}:{}", password.expose());
    let user = args.user.as_ref().map(|user| user.expose().to_owned());
    let user = user.or_else(|| item.url.user.as_ref().map(of_url));
    if let Some(user) = user
        && !has_header(&headers, "Authorization")
    {
        headers.push(("Authorization".into(), format!("Basic {}", BASE64.encode(user))));
    }
    if let Some(kind) = &args.content_type
        && !has_header(&headers, "Content-Type")
    {
        headers.push(("Content-Type".into(), kind.clone()));
    }
    let authority = args.host.clone().unwrap_or_else(|| item.url.authority());
    CallSpec {
        endpoint,
        method: method.into(),
        path: item.url.path,
        authority: authority.into(),
        headers: headers.into(),
        body,
        ..CallSpec::default()
    }
}

/// The headers of the options, those in files too.
fn headers(args: &[HeaderArg]) -> Result<Vec<(String, String)>, Error> {
    let mut headers = Vec::new();
    for arg in args {
        match arg {
            HeaderArg::Line(name, value) => {
                headers.push((name.clone(), value.expose().to_owned()));
            }
            HeaderArg::File(path) => headers.extend(header_file(path)?),
        }
    }
    Ok(headers)
}

/// A file with a header on each line; blank lines are skipped.
fn header_file(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let text = read_text("--header", path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = |(i, line): (usize, &str)| {
        values::header(line).map_err(|why| Error::Value {
            what: "--header",
            value: format!("@{}", path.display()),
            why: format!("line {}: {why}", i + 1),
        })
    };
    lines.map(header).collect()
}

fn has_header(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

/// The body as given: the text, or a file's bytes after `@`.
fn body(text: &str) -> Result<Vec<u8>, Error> {
    match text.strip_prefix('@') {
        Some(file) => read("--body", Path::new(file)),
        None => Ok(text.as_bytes().to_vec()),
    }
}

pub(crate) fn read_text(what: &'static str, path: &Path) -> Result<String, Error> {
    String::from_utf8(read(what, path)?).map_err(|_| Error::Unreadable {
        what,
        path: path.to_owned(),
        why: io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"),
    })
}

/// A whole file, or standard input for `-`.
pub(crate) fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let read = || {
        let source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path)?)
        };
        let mut bytes = Vec::new();
        source.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 64 MiB"));
        }
        Ok(bytes)
    };
    read().map_err(|why| Error::Unreadable { what, path: path.to_owned(), why })
}
