//! From the options to the plan. ab's request is kept byte for byte, except for a space after a
//! colon.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_base::units::Span;
use prony_io::ConnectTo;
use prony_plan::plan::{CallSpec, HttpVersion, Plan, Stop, TlsSpec, TlsVersion, openssl_name};
use prony_plan::target::{Endpoint, Url, parse_header};
use prony_run::error::Error;
use prony_run::files::{self, BODY_MAX};

use super::options::{Options, Ssl};
use crate::plan::{closed, suites, unverified};

/// A plan, and what the report shows of its target.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) url: Url,
    /// The proxy, `HOST:PORT`.
    pub(super) through: Option<String>,
}

/// The plan of these options; reads the file of the body.
pub(super) fn of(options: &Options) -> Result<Planned, Error> {
    let url = Url::parse_http(&options.url).map_err(Error::Url)?;
    let (endpoint, through) = match &options.proxy {
        None => (url.endpoint(), None),
        Some(proxy) if url.tls => {
            let why = "TLS through a proxy is not supported; omit -X, or use http://".into();
            return Err(Error::Value { what: "-X", value: proxy.clone(), why });
        }
        Some(proxy) => {
            let (host, port) = self::proxy(proxy)?;
            let through = format!("{host}:{port}");
            (Endpoint::Tcp { host, port }, Some(through))
        }
    };
    let call = call(options, &url)?;
    let mut plan = Plan {
        stop: Stop {
            requests: Some(options.requests),
            duration: options.time_limit.map(Span::from_secs),
            ..Stop::default()
        },
        requests_per_connection: (!options.keep_alive).then_some(1),
        timeout: Span::from_secs(options.timeout),
        http: HttpVersion::Http10,
        tls: url.tls.then(|| tls(&options.ssl)).transpose()?,
        ..closed(endpoint, call, options.concurrency)
    };
    plan.connect_timeout = plan.timeout;
    plan.check().map_err(Error::Plan)?;
    Ok(Planned { plan, url, through })
}

/// The TLS settings of these options.
fn tls(ssl: &Ssl) -> Result<Box<TlsSpec>, Error> {
    let mut spec = unverified();
    spec.version = ssl.version;
    if let Some(list) = &ssl.suites {
        let wrong = |why| Error::Value { what: "-Z", value: list.clone(), why };
        let listed = suites(list).map_err(wrong)?;
        // The list is for TLS 1.2. The suites of TLS 1.3 are always enabled too, unless TLS 1.2 is
        // the only version.
        if ssl.version == Some(TlsVersion::Tls13) && !listed.is_empty() {
            spec.suites = listed;
        } else if !listed.is_empty() {
            spec.suites.retain(|name| openssl_name(name) == name.as_str());
            spec.suites.retain(|name| !listed.contains(name));
            spec.suites.extend(listed);
        }
    }
    if let Some(path) = &ssl.certificate {
        let pem = files::bounded_text(Path::new(path)).map_err(|why| {
            let why = prony_run::error::plain(&why.to_string());
            Error::Argument(format!("unable to get certificate from '{path}': {why}"))
        })?;
        (spec.cert, spec.key) = (Some(pem.clone()), Some(pem.into()));
    }
    Ok(spec)
}

fn proxy(text: &str) -> Result<(String, u16), Error> {
    let wrong = |why: String| Error::Value { what: "-X", value: text.to_owned(), why };
    let to: ConnectTo = text.parse().map_err(wrong)?;
    Ok((to.host, to.port.unwrap_or(80)))
}

fn call(options: &Options, url: &Url) -> Result<CallSpec, Error> {
    let body = match &options.body {
        None => Vec::new(),
        Some(path) => files::bounded(Path::new(path), BODY_MAX).map_err(|why| {
            let why = prony_run::error::plain(&why.to_string());
            Error::Argument(format!("Could not open POST data file ({path}): {why}"))
        })?,
    };
    let authority = url.authority();
    let path = match options.proxy {
        None => url.path.clone(),
        Some(_) => format!("http://{authority}{}", url.path),
    };
    Ok(CallSpec {
        method: options.method.clone().into(),
        path,
        headers: headers(options, &authority, body.len())?.into(),
        authority: authority.into(),
        body,
        bare: true,
        ..CallSpec::default()
    })
}

/// ab's headers in ab's order. The user's headers replace the last three.
fn headers(
    options: &Options,
    authority: &str,
    length: usize,
) -> Result<Vec<(String, String)>, Error> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if options.keep_alive {
        add("Connection", "Keep-Alive".into());
    }
    if !options.cookies.is_empty() {
        add("Cookie", options.cookies.join("; "));
    }
    let basic = |user: &String| format!("Basic {}", BASE64.encode(user));
    options.auth.iter().for_each(|user| add("Authorization", basic(user)));
    options.proxy_auth.iter().for_each(|user| add("Proxy-Authorization", basic(user)));
    if options.body.is_some() {
        add("Content-length", length.to_string());
        add("Content-type", options.content_type.clone().unwrap_or_else(|| "text/plain".into()));
    }
    let mut given = Vec::new();
    for line in &options.headers {
        let (name, value) = parse_header(line).map_err(|e| Error::Value {
            what: "-H",
            value: line.clone(),
            why: e.to_string(),
        })?;
        given.push(name.to_ascii_lowercase());
        add(&name, value);
    }
    for (name, value) in [("Host", authority), ("User-Agent", "ApacheBench/2.3"), ("Accept", "*/*")]
    {
        if !given.contains(&name.to_ascii_lowercase()) {
            add(name, value.into());
        }
    }
    Ok(headers)
}
