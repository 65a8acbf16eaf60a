//! From the options to the plan: independent clients, each with its requests, streams and times.

use std::path::Path;

use prony_base::units::Span;
use prony_plan::plan::{
    CallSpec, Clients, Expect, Http2Spec, HttpVersion, Load, Pace, Plan, Stop, Think, TlsSpec,
};
use prony_plan::target::Endpoint;
use prony_run::error::Error;
use prony_run::files::{self, BODY_MAX};

use super::options::Options;
use super::uris::{self, Uris};
use crate::plan::{suites, unverified};

/// h2load waits for ever. This is longer than any run, and does not overflow.
const ENDLESS: Span = Span::from_secs(100 * 365 * 86_400);

/// The plan of these options; reads their files.
pub(super) fn of(options: &Options) -> Result<Plan, Error> {
    let uris = uris::of(options)?;
    let (tls, http) = versions(options, uris.tls)?;
    let body = match &options.data {
        None => None,
        Some(path) => {
            let refused = |_| Error::Argument(format!("-d: Could not mmap file {path}"));
            Some(files::bounded(Path::new(path), BODY_MAX).map_err(refused)?)
        }
    };
    let h1 = http == HttpVersion::Http11;
    let clients = u64::from(options.clients);
    let requests = match (options.duration, uris.times.len() as u64) {
        (Some(_), _) => None,
        (None, 0) => Some(options.requests.unwrap_or(1)),
        (None, lines) => Some(options.requests.unwrap_or(lines).min(lines).max(1) * clients),
    };
    let plan = Plan {
        clients: Some(Box::new(independent(options, &uris))),
        warmup: options.warmup,
        // A body of HTTP/1.1 is sent after the reply to the one before it.
        pipeline: if h1 && body.is_some() { 1 } else { options.streams },
        timeout: options.inactivity_timeout.unwrap_or(ENDLESS),
        timeout_from_send: true,
        connect_timeout: options.inactivity_timeout.unwrap_or(ENDLESS),
        expect: Expect { statuses: vec![(100, 599)], body: None, length: None },
        http,
        http2: http.is_http2().then(|| Box::new(http2(options))),
        tls,
        seed: 0,
        ..Plan::new(
            vec![uris.endpoint.clone()],
            calls(options, &uris, body.as_deref())?,
            Load::Closed { connections: options.clients, think: Think::None },
            Stop { requests, duration: options.duration, ..Stop::default() },
        )
    };
    plan.check().map_err(Error::Plan)?;
    Ok(plan)
}

fn independent(options: &Options, uris: &Uris) -> Clients {
    let pace = match options.rps {
        Some(rate) => Pace::Rate(rate),
        None if uris.times.is_empty() => Pace::Free,
        None => Pace::Times(uris.times.clone().into()),
    };
    Clients {
        starts: options.rate.map(|n| (n, options.rate_period)),
        pace,
        lifetime: options.active_timeout,
        ends_on_timeout: true,
    }
}

fn http2(options: &Options) -> Http2Spec {
    let bits = options.window_bits.min(options.connection_window_bits);
    Http2Spec {
        window: (1 << bits) - 1,
        table_size: options.header_table_size,
        frame_size: options.frame_size,
        wait_settings: false,
        is_static: options.encoder_table_size < prony_base::http2::TABLE_SIZE,
        ..Http2Spec::default()
    }
}

/// The TLS settings, and the version of HTTP.
fn versions(options: &Options, tls: bool) -> Result<(Option<Box<TlsSpec>>, HttpVersion), Error> {
    if !tls {
        let h1 = options.plain_is_h1;
        return Ok((None, if h1 { HttpVersion::Http11 } else { HttpVersion::Http2Only }));
    }
    let has = |name: &str| options.alpn.iter().any(|p| p == name);
    let http = match (has("h2"), has("http/1.1")) {
        (true, true) => HttpVersion::Http2,
        (true, false) => HttpVersion::Http2Only,
        (false, _) => HttpVersion::Http11,
    };
    let mut spec = unverified();
    spec.alpn.clone_from(&options.alpn);
    let listed = |what, list: &Option<String>| {
        let Some(list) = list else { return Ok(None) };
        let wrong = |why| Error::Value { what, value: list.clone(), why };
        suites(list).map(Some).map_err(wrong)
    };
    let tls13 = listed("--tls13-ciphers", &options.tls13_ciphers)?;
    let tls12 = listed("--ciphers", &options.ciphers)?;
    let is_tls13 = |name: &String| prony_plan::plan::openssl_name(name) == name.as_str();
    let (mut first, mut second): (Vec<String>, Vec<String>) =
        spec.suites.iter().cloned().partition(is_tls13);
    if let Some(list) = tls13.filter(|list| !list.is_empty()) {
        first = list;
    }
    if let Some(list) = tls12.filter(|list| !list.is_empty()) {
        second = list;
    }
    spec.suites = [first, second].concat();
    if let Some(list) = &options.groups {
        spec.groups = groups(list)?;
    }
    Ok((Some(spec), http))
}

/// The groups of a list of OpenSSL names. As with suites, unsupported names are ignored.
fn groups(list: &str) -> Result<Vec<String>, Error> {
    let names = list.split([':', ',']).filter(|name| !name.is_empty());
    let known: Vec<String> =
        names.filter_map(|name| TlsSpec::parse_groups(name).ok()).flatten().collect();
    if known.is_empty() {
        let why = TlsSpec::parse_groups(list).err().map_or_else(String::new, |e| e.to_string());
        return Err(Error::Value { what: "--groups", value: list.to_owned(), why });
    }
    Ok(known)
}

fn calls(options: &Options, uris: &Uris, body: Option<&[u8]>) -> Result<Vec<CallSpec>, Error> {
    let find = |name: &str| {
        options.headers.iter().rev().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    };
    let host = find(":authority").or_else(|| find("host")).unwrap_or(&uris.authority);
    let user_agent = format!("h2load nghttp2/{}", options.edition.name());
    let mut headers = vec![
        ("Host".to_owned(), host.clone()),
        ("user-agent".to_owned(), find("user-agent").cloned().unwrap_or(user_agent)),
    ];
    for (name, value) in &options.headers {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            ":authority" | "host" | "user-agent" | ":method" | ":path" => {}
            name if name.starts_with(':') => {
                return Err(Error::Argument(format!(
                    "-H: {name} cannot be replaced; :method, :path and :authority can"
                )));
            }
            _ => headers.push((name, value.clone())),
        }
    }
    if let Some(body) = body
        && find("content-length").is_none()
    {
        headers.push(("Content-Length".into(), body.len().to_string()));
    }
    let given = if body.is_some() { "POST" } else { "GET" };
    let method = CallSpec::method_of(find(":method").map_or(given, String::as_str));
    let shared = prony_plan::plan::Shared::from(headers);
    let call = |path: &String| CallSpec {
        method: method.clone(),
        path: find(":path").unwrap_or(path).clone(),
        authority: host.as_str().into(),
        headers: shared.clone(),
        body: body.unwrap_or_default().to_vec(),
        bare: true,
        ..CallSpec::default()
    };
    Ok(uris.paths.iter().map(call).collect())
}

/// Whether the plan's connections are encrypted.
pub(super) fn is_tls(plan: &Plan) -> bool {
    plan.endpoints.iter().any(|endpoint| matches!(endpoint, Endpoint::Tls { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Options)) -> Plan {
        let mut options = Options { uris: vec!["http://h/".into()], ..Options::default() };
        change(&mut options);
        of(&options).expect("a valid plan")
    }

    #[test]
    fn plans_are_independent_clients() {
        let plan = check(|o| (o.requests, o.clients, o.streams) = (Some(10), 3, 7));
        assert_eq!(plan.load, Load::Closed { connections: 3, think: Think::None });
        assert_eq!((plan.stop.requests, plan.pipeline), (Some(10), 7));
        assert_eq!(plan.http, HttpVersion::Http2Only);
        let clients = plan.clients.unwrap();
        assert_eq!((clients.pace, clients.starts), (Pace::Free, None));
        let plan =
            check(|o| (o.rps, o.rate, o.requests, o.clients) = (Some(5.0), Some(1), None, 1));
        let clients = plan.clients.unwrap();
        assert_eq!(clients.pace, Pace::Rate(5.0));
        assert_eq!(clients.starts, Some((1, Span::from_secs(1))));
    }

    #[test]
    fn versions_follow_the_scheme_and_the_lists() {
        let check = |uri: &str, change: fn(&mut Options)| {
            let plan = check(|o| {
                o.uris = vec![uri.into()];
                change(o);
            });
            (plan.http, plan.tls.map(|tls| tls.alpn.join(",")))
        };
        let both = Some("h2,http/1.1".to_owned());
        assert_eq!(check("http://h/", |_| ()), (HttpVersion::Http2Only, None));
        assert_eq!(check("http://h/", |o| o.plain_is_h1 = true), (HttpVersion::Http11, None));
        assert_eq!(check("https://h/", |_| ()), (HttpVersion::Http2, both));
        let only = |o: &mut Options| o.alpn = vec!["h2".into()];
        assert_eq!(check("https://h/", only), (HttpVersion::Http2Only, Some("h2".into())));
        let h1 = |o: &mut Options| o.alpn = vec!["http/1.1".into()];
        assert_eq!(check("https://h/", h1), (HttpVersion::Http11, Some("http/1.1".into())));
    }

    #[test]
    fn headers_replace_those_of_h2load() {
        let plan = check(|o| {
            o.headers =
                [(":authority", "a"), ("User-Agent", "me"), ("X-A", "b"), (":method", "HEAD")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .to_vec();
        });
        let call = &plan.calls[0];
        assert_eq!((&*call.method, &*call.authority), ("HEAD", "a"));
        let headers: Vec<String> = call.headers.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(headers, ["Host=a", "user-agent=me", "x-a=b"]);
    }

    #[test]
    fn one_window_for_streams_and_connection() {
        let plan = check(|o| (o.window_bits, o.connection_window_bits) = (20, 18));
        assert_eq!(plan.http2.unwrap().window, (1 << 18) - 1);
        let plan = check(|o| o.encoder_table_size = 0);
        assert!(plan.http2.unwrap().is_static);
    }
}
