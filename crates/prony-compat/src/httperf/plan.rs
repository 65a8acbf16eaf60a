//! From the options to the plan.

use std::path::Path;

use prony_base::units::Span;
use prony_import::session_log::{self, Dialect, LogError, LogErrorKind, LoggedRequest};
use prony_plan::plan::{
    Burst, Calls, Cookies, Expect, HttpVersion, Load, Lost, OnFailure, Pick, Plan, SessionKind,
    Sessions, Stop, Think,
};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_plan::target::Endpoint;
use prony_run::files::{self, FILE_MAX};

use super::options::Opts;
use super::random;
use super::request::{self, Template};
use super::uris::{self, Sequence};
use super::values::{Levels, Period, Refusal, Workload};

/// Connections per session, by default.
const CONNECTIONS: u64 = 4;
/// Calls in flight on each connection of a session, by default.
const PIPED_CALLS: u64 = 32;
/// How often a call of a session is sent again if its reply has the failure status.
const RETRIES: u64 = 100;
/// The largest number of starts whose times are computed before the run.
const STARTS_MAX: u64 = 50_000_000;
/// The largest number of calls that are listed one by one in all kinds of sessions.
const LISTED_MAX: u64 = 1 << 22;

/// Reads the page of `--uri` from this server before the run, for `--wsesspage`.
pub(super) type ReadPage = fn(&Opts, &str, &mut dyn FnMut(&str)) -> Result<Levels, Refusal>;

/// Compile the options to a plan. `read_page` is used for `--wsesspage` only. The flag is false if
/// there is nothing to send (no sessions or no calls); httperf then makes a run that does nothing.
pub(super) fn plan(
    o: &Opts,
    read_page: ReadPage,
    warn: &mut dyn FnMut(&str),
) -> Result<(Plan, bool), Refusal> {
    let http = match o.http_version {
        (1, 0) => HttpVersion::Http10,
        (1, 1) => HttpVersion::Http11,
        (major, minor) => {
            let code = major << 16 | minor;
            return Err(Refusal::new(format!("unexpected version code {code:x}")));
        }
    };
    let servers = servers(o)?;
    let added = request::added(o, warn)?;
    let templates: Vec<Template> = servers
        .iter()
        .enumerate()
        .map(|(i, server)| Template::new(o, i as u32, server, &added))
        .collect();
    let mut calls = Calls::default();
    let (kinds, sessions) = match &o.workload {
        Workload::Sesslog(n, think, file) => (logged(&templates, &mut calls, *think, file)?, *n),
        Workload::Sesspage(n, per_session, think) => {
            let page = read_page(o, &servers[0], warn)?;
            (paged(o, &templates, &mut calls, &page, *per_session, seconds(*think))?, *n)
        }
        Workload::Sess(n, per_session, think) => {
            counted(o, &templates, &mut calls, *n, *per_session, seconds(*think))?
        }
        Workload::Requests => {
            counted(o, &templates, &mut calls, o.num_conns, o.num_calls, Think::None)?
        }
    };
    let anything = sessions > 0 && (o.has_sessions() || o.num_calls > 0);
    let sessions = sessions.max(1);
    let plan = Plan {
        sessions: Some(session_rules(o, kinds)),
        pipeline: pipeline(o),
        // HTTP/1.0 sessions had a connection for each call.
        requests_per_connection: (http == HttpVersion::Http10 && o.has_sessions()).then_some(1),
        timeout: limit(o.timeout.max(0.0) + o.think_timeout.max(0.0)),
        timeout_from_send: true,
        connect_timeout: limit(o.timeout),
        expect: expect(o),
        http,
        tls: super::tls::spec(o)?,
        seed: o.client.0,
        ..Plan::new(
            servers.iter().map(|server| endpoint(o, server)).collect(),
            calls.into_vec(),
            load(o, sessions)?,
            Stop {
                requests: None,
                sessions: Some(sessions),
                duration: (o.runtime > 0.0).then(|| Span::from_secs_f64(o.runtime)),
            },
        )
    };
    plan.check().map_err(Refusal::new)?;
    Ok((plan, anything))
}

/// The hosts to connect to.
fn servers(o: &Opts) -> Result<Vec<String>, Refusal> {
    let Some(file) = &o.servers else { return Ok(vec![o.server.clone()]) };
    let name = file.display();
    let text = files::bounded_text(file).map_err(|_| Refusal::new(format!("can't open {name}")))?;
    let list: Vec<String> = text
        .split(if text.contains('\0') { '\0' } else { '\n' })
        .filter(|server| !server.trim().is_empty())
        .map(Into::into)
        .collect();
    if list.is_empty() {
        return Err(Refusal::new(format!("file {name} is empty")));
    }
    Ok(list)
}

fn endpoint(o: &Opts, server: &str) -> Endpoint {
    let host = server.trim();
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let tcp = Endpoint::Tcp { host: host.to_owned(), port: o.port() };
    if o.ssl.on { tcp.secured(o.ssl.server_name.as_deref().unwrap_or(host)) } else { tcp }
}

/// Sessions with `per_session` calls each, and how many of them to run.
fn counted(
    o: &Opts,
    templates: &[Template],
    calls: &mut Calls,
    sessions: u64,
    per_session: u64,
    think: Think,
) -> Result<(Vec<SessionKind>, u64), Refusal> {
    // The calls of a burst are listed one by one.
    let burst = o.burst_length.min(per_session);
    if burst > LISTED_MAX {
        return Err(Refusal::new(format!(
            "a burst of {burst} calls is too long; --burst-length takes at most {LISTED_MAX}"
        )));
    }
    // httperf makes one call in a session of none.
    let per_session = per_session.max(1);
    let total = sessions.saturating_mul(per_session).max(1);
    let order = uris::sequence(o, total)?;
    let sessions = if order.repeats {
        sessions
    } else {
        sessions.min((order.order.len() as u64).div_ceil(per_session))
    };
    let n = kinds_needed(&order, per_session, templates.len() as u64).min(sessions.max(1));
    let method = o.method.as_deref().filter(|m| !m.is_empty()).unwrap_or("GET");
    let mut kinds = Vec::new();
    for k in 0..n {
        let template = &templates[k as usize % templates.len()];
        let bursts = if order.uris.len() == 1 {
            let call = calls.intern(template.call(method, &order.uris[0], Vec::new(), &[]));
            same_call(o, call, per_session, think)
        } else {
            let numbers = (k * per_session..(k + 1) * per_session).map_while(|i| {
                let at = i % order.order.len() as u64;
                (order.repeats || at == i).then(|| order.order[at as usize])
            });
            let list = numbers.map(|i| {
                calls.intern(template.call(method, &order.uris[i as usize], Vec::new(), &[]))
            });
            in_bursts(o, &list.collect::<Vec<_>>(), think)
        };
        kinds.push(SessionKind { name: String::new(), weight: 1, bursts });
    }
    Ok((kinds, sessions))
}

/// The number of sessions after which both the URIs and the servers repeat.
fn kinds_needed(order: &Sequence, per_session: u64, servers: u64) -> u64 {
    let length = order.order.len() as u64;
    let of_uris = if order.uris.len() == 1 {
        1
    } else if order.repeats {
        length / gcd(length, per_session)
    } else {
        length.div_ceil(per_session)
    };
    let both = (of_uris / gcd(of_uris, servers)).saturating_mul(servers);
    let most = if order.uris.len() == 1 { u64::MAX } else { LISTED_MAX / per_session };
    both.min(most.max(servers).max(1))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The same call `n` times, in bursts.
fn same_call(o: &Opts, call: u32, n: u64, think: Think) -> Vec<Burst> {
    let size = o.burst_length.min(n);
    let burst = |size: u64, repeat: u64| Burst {
        calls: vec![call; size as usize],
        lead: o.has_sessions() && size > 1,
        think,
        repeat: u32::try_from(repeat).unwrap_or(u32::MAX),
        control: None,
    };
    let mut bursts = vec![burst(size, n / size)];
    if !n.is_multiple_of(size) {
        bursts.push(burst(n % size, 1));
    }
    bursts
}

/// The calls of a list, in bursts.
fn in_bursts(o: &Opts, list: &[u32], think: Think) -> Vec<Burst> {
    let size = usize::try_from(o.burst_length).unwrap_or(usize::MAX);
    let burst = |calls: &[u32]| Burst {
        calls: calls.to_vec(),
        lead: o.has_sessions() && calls.len() > 1,
        think,
        repeat: 1,
        control: None,
    };
    list.chunks(size).map(burst).collect()
}

/// Sessions that fetch a page `times` times, one kind for each server. A page is fetched level by
/// level: the page itself, then all that it embeds at once, then what those embed.
fn paged(
    o: &Opts,
    templates: &[Template],
    calls: &mut Calls,
    page: &Levels,
    times: u64,
    think: Think,
) -> Result<Vec<SessionKind>, Refusal> {
    let times = times.max(1);
    let size = page.iter().map(Vec::len).sum::<usize>() as u64;
    if page.len() > 1 && times.saturating_mul(size) > LISTED_MAX {
        return Err(Refusal::new(format!(
            "a session of {times} pages of {size} calls is too long; --wsesspage takes at most \
             {LISTED_MAX} calls for each session"
        )));
    }
    let method = o.method.as_deref().filter(|m| !m.is_empty()).unwrap_or("GET");
    let mut kinds = Vec::new();
    for template in templates {
        let mut bursts: Vec<Burst> = page
            .iter()
            .map(|level| {
                let call = |uri: &String| {
                    // --method applies to the page only; what it embeds is fetched with GET.
                    let method = if *uri == o.uri { method } else { "GET" };
                    calls.intern(template.call(method, uri, Vec::new(), &[]))
                };
                let calls = level.iter().map(call).collect();
                Burst::of(calls, Think::None)
            })
            .collect();
        if let [.., last] = &mut bursts[..] {
            last.think = think;
        }
        if let [page] = &mut bursts[..] {
            page.repeat = u32::try_from(times).unwrap_or(u32::MAX);
        } else {
            bursts = (0..times).flat_map(|_| bursts.clone()).collect();
        }
        kinds.push(SessionKind { name: String::new(), weight: 1, bursts });
    }
    Ok(kinds)
}

/// The sessions of a session file, one kind for each server.
fn logged(
    templates: &[Template],
    calls: &mut Calls,
    think: f64,
    file: &Path,
) -> Result<Vec<SessionKind>, Refusal> {
    let name = file.display();
    let text =
        files::bounded(file, FILE_MAX).map_err(|_| Refusal::new(format!("can't open {name}")))?;
    let refused = |errors: Vec<LogError>| {
        // An error has at least one entry.
        let Some(e) = errors.first() else { return Refusal::new("") };
        let what = match &e.kind {
            LogErrorKind::Method(method) => {
                format!("did not recognize method '{method}' in {name}")
            }
            LogErrorKind::Word(word) => format!("did not recognize arg '{word}' in {name}"),
            LogErrorKind::Ends => format!("premature EOF seen in '{name}'"),
            other => format!("{name}: {other}"),
        };
        Refusal::new(format!("{what} (line {}, column {})", e.line, e.column))
    };
    let mut of_server = Vec::new();
    for template in templates {
        let call =
            |r: &LoggedRequest<'_>| template.call(r.method, r.uri, r.body.to_vec(), &r.headers);
        let kinds = session_log::add_to(calls, (&text, Dialect::Httperf), seconds(think), call);
        of_server.push(kinds.map_err(refused)?);
    }
    if let [_] = templates {
        return Ok(of_server.swap_remove(0));
    }
    let (m, s) = (of_server[0].len(), templates.len());
    let n = m / gcd(m as u64, s as u64) as usize * s;
    Ok((0..n).map(|k| of_server[k % s][k % m].clone()).collect())
}

fn session_rules(o: &Opts, kinds: Vec<SessionKind>) -> Sessions {
    let some = |n: u64, otherwise| if n > 0 { n } else { otherwise };
    let connections = some(o.max_connections, CONNECTIONS);
    let limit = o.more.retry_limit.unwrap_or(RETRIES);
    let retries = if o.retry_on_failure { u32::try_from(limit).unwrap_or(u32::MAX) } else { 0 };
    Sessions {
        kinds: kinds.into(),
        pick: Pick::InTurn,
        connections: if o.has_sessions() { small(connections) } else { 1 },
        cookies: if o.session_cookies { Cookies::Always } else { Cookies::Off },
        lost: if o.has_sessions() { Lost::Resend } else { Lost::Fail },
        on_failure: OnFailure::End,
        retries,
        directed: false,
    }
}

fn pipeline(o: &Opts) -> u32 {
    if o.http_version == (1, 0) {
        1
    } else if !o.has_sessions() {
        small(o.burst_length)
    } else if o.max_piped_calls > 0 {
        small(o.max_piped_calls)
    } else {
        small(PIPED_CALLS)
    }
}

fn load(o: &Opts, sessions: u64) -> Result<Load, Refusal> {
    let arrivals = match &o.period {
        Period::Sequential => {
            let users = small(o.more.users.unwrap_or(1));
            return Ok(Load::Closed { connections: users, think: Think::None });
        }
        Period::Fixed(_) => Arrivals::Fixed,
        period => {
            let until = if o.runtime > 0.0 { o.runtime } else { f64::INFINITY };
            if sessions > STARTS_MAX && until.is_infinite() {
                return Err(Refusal::new(format!(
                    "a random or stepped period is drawn beforehand, for at most {STARTS_MAX} \
                     starts; ask for fewer or give --runtime"
                )));
            }
            Arrivals::Trace(random::times(period, o.client.0, sessions, until))
        }
    };
    let rate = match o.period {
        Period::Fixed(gap) => RatePlan::constant(1.0 / gap),
        _ => RatePlan::default(),
    };
    // In runs without sessions, --max-connections limits the open connections of the whole run.
    let is_limited = !o.has_sessions() && o.max_connections > 0;
    let connections = if is_limited {
        small(o.max_connections)
    } else if o.has_sessions() {
        small(sessions.saturating_mul(o.max_connections.max(CONNECTIONS)))
    } else {
        small(sessions)
    };
    Ok(Load::Open { rate, arrivals, connections })
}

/// Every status is a success, except the failure status in a run with sessions.
fn expect(o: &Opts) -> Expect {
    let status = o.failure_status.and_then(|s| u16::try_from(s).ok());
    let statuses = match status.filter(|s| o.has_sessions() && (100..=599).contains(s)) {
        None => vec![(100, 599)],
        Some(100) => vec![(101, 599)],
        Some(599) => vec![(100, 598)],
        Some(s) => vec![(100, s - 1), (s + 1, 599)],
    };
    Expect { statuses, ..Expect::default() }
}

/// A time limit in seconds. Zero or less means no limit.
fn limit(t: f64) -> Span {
    if t > 0.0 { Span::from_secs_f64(t).max(Span(1)) } else { Span::MAX }
}

fn seconds(t: f64) -> Think {
    if t > 0.0 { Think::Fixed(Span::from_secs_f64(t)) } else { Think::None }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
pub(super) mod tests;
