//! The plan of a run, with its defaults: all that is needed to repeat it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use prony_base::units::Span;
use prony_plan::plan::{
    Clients, Expect, HttpVersion, Load, Pace, Pick, Plan, PlanSize, Redirects, Resume, Think,
    TlsSpec, status_text,
};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan};
use prony_plan::target::Endpoint;
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

use super::exchange;
use super::page::{Page, shortened};
use super::websocket;
use super::{Fact, hosts, units};

pub(super) fn write(page: &mut Page, summary: &Summary) {
    title(page, summary);
    for (label, parts) in facts(summary) {
        page.list(label, &parts);
    }
    page.list("shard", &hosts::part(summary));
    page.list("hosts", &hosts::facts(summary));
    for note in &summary.run.notes {
        page.line("note", note);
    }
}

/// The first line: the program and the target.
pub(super) fn title(page: &mut Page, summary: &Summary) {
    let (plan, run) = (&summary.plan, &summary.run);
    let version = if run.version.is_empty() { String::new() } else { format!(" {}", run.version) };
    let size = size(summary);
    page.title(&format!("prony{version}  {}", target(plan, &size, page.width() - 30)));
}

/// The plan and the meter, label by label.
pub(super) fn facts(summary: &Summary) -> Vec<Fact> {
    let plan = &summary.plan;
    vec![
        ("load", load(plan, usize::MAX)),
        (
            if plan.exchange.is_some() { "messages" } else { "request" },
            request(plan, &size(summary)),
        ),
        ("TLS", secured(summary)),
        ("limits", limits(plan)),
        ("run by", run_by(summary)),
    ]
}

/// The size of the whole plan; a report may keep only an excerpt of it.
pub(crate) fn size(summary: &Summary) -> Cow<'_, PlanSize> {
    let known = summary.run.plan_size.as_ref();
    known.map_or_else(|| Cow::Owned(summary.plan.size()), Cow::Borrowed)
}

/// The target, in about `width` characters at most.
pub(super) fn target(plan: &Plan, size: &PlanSize, width: usize) -> String {
    if let Some(endpoint) = plan.endpoints.first().filter(|_| plan.exchange.is_some()) {
        return shortened(&exchange::target(endpoint), width);
    }
    let Some(first) = plan.calls.first() else { return String::new() };
    let (plain, secured) = match plan.websocket {
        Some(_) => ("ws", "wss"),
        None => ("http", "https"),
    };
    let url = match plan.endpoints.get(first.endpoint as usize) {
        None => format!("{plain}://{}{}", first.authority, first.path),
        Some(endpoint) => {
            let tls = endpoint.tls_name().is_some();
            match endpoint.transport() {
                Endpoint::Unix { path } if tls => format!("unix:{path} over TLS {}", first.path),
                Endpoint::Unix { path } => format!("unix:{path} {}", first.path),
                _ if tls => format!("{secured}://{}{}", first.authority, first.path),
                _ => format!("{plain}://{}{}", first.authority, first.path),
            }
        }
    };
    let url = shortened(&url, width);
    match size.requests {
        1 => url,
        n => {
            let how = match plan.pick {
                _ if plan.sessions.is_some() => "in sessions",
                Pick::InTurn => "in turn",
                Pick::Random => "at random",
            };
            let is_model = plan.stream.as_deref().is_some_and(|stream| stream.tokens.is_some());
            if is_model && plan.endpoints.len() == 1 {
                return format!("{url} with {} prompts {how}", units::count(n));
            }
            format!("{url} and {} more {how}", units::count(n.saturating_sub(1)))
        }
    }
}

/// The load, part by part, with at most `pieces` stages of the rate.
pub(super) fn load(plan: &Plan, pieces: usize) -> Vec<String> {
    let mut parts = Vec::new();
    match &plan.load {
        Load::Closed { connections, think } => {
            let users = u64::from(*connections);
            parts.push(match plan.sessions {
                None => {
                    let connections = units::counted(users, "connection", "connections");
                    format!("closed loop: {connections}")
                }
                Some(_) => format!("closed loop: {} at a time", sessions(users)),
            });
            parts.extend(thinking(*think));
            parts.extend(plan.ramp_up.map(|ramp| {
                let of = if plan.sessions.is_some() { "users" } else { "connections" };
                format!("{of} start evenly over {}", units::exact(ramp))
            }));
            if let Some(clients) = &plan.clients {
                parts.extend(independent(clients));
            }
        }
        Load::Open { rate, arrivals, connections } => {
            let of = if plan.sessions.is_some() { " of sessions" } else { "" };
            parts.push(format!("open loop: {}", arrivals_of(rate, arrivals, of, pieces)));
            let limit = units::counted(u64::from(*connections), "connection", "connections");
            parts.push(format!("at most {limit}"));
        }
    }
    if let Some(n) = plan.stop.requests {
        let requests = match plan.exchange {
            None => units::counted(n, "request has", "requests have"),
            Some(_) => units::counted(n, "message has", "messages have"),
        };
        parts.push(format!("until {requests} started"));
    }
    if let Some(n) = plan.stop.sessions {
        let have = if n == 1 { "has" } else { "have" };
        parts.push(format!("until {} {have} started", sessions(n)));
    }
    if let Some(t) = plan.stop.duration.filter(|&t| rate_length(plan) != Some(t)) {
        let or = if plan.stop.requests.or(plan.stop.sessions).is_some() { "or for" } else { "for" };
        parts.push(format!("{or} {}", units::exact(t)));
    }
    if plan.warmup.0 > 0 {
        parts.push(format!("after {} of warm-up", units::exact(plan.warmup)));
    }
    parts
}

/// What each client of a closed loop does by itself.
fn independent(clients: &Clients) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some((n, period)) = clients.starts {
        let n = units::counted(n.into(), "connection starts", "connections start");
        parts.push(format!("{n} per {}", units::exact(period)));
    }
    match &clients.pace {
        Pace::Free => {}
        Pace::Rate(rate) => parts.push(format!("each at {rate} requests/s")),
        Pace::Times(times) => {
            let n = units::counted(times.len() as u64, "time", "times");
            parts.push(format!("each at the {n} of a script"));
        }
    }
    if let Some(lifetime) = clients.lifetime {
        parts.push(format!("each for at most {}", units::exact(lifetime)));
    }
    parts
}

fn sessions(n: u64) -> String {
    units::counted(n, "session", "sessions")
}

/// The length of the rate plan, where `pieces` shows it.
fn rate_length(plan: &Plan) -> Option<Span> {
    match &plan.load {
        Load::Open { rate, arrivals, .. } if arrivals.has_rate() => rate.length(),
        _ => None,
    }
}

/// What arrives, and when; `of` names what is not a request.
fn arrivals_of(rate: &RatePlan, arrivals: &Arrivals, of: &str, most: usize) -> String {
    match arrivals {
        Arrivals::Fixed => format!("fixed arrivals{of}, {}", pieces(rate, most)),
        Arrivals::Poisson => format!("Poisson arrivals{of}, {}", pieces(rate, most)),
        Arrivals::Gamma(shape) => {
            format!("gamma arrivals{of} of shape {shape}, {}", pieces(rate, most))
        }
        Arrivals::Uniform(low, high) => {
            format!(
                "inter-arrival times{of} uniform from {} to {}",
                units::exact(*low),
                units::exact(*high)
            )
        }
        Arrivals::Trace(times) => {
            format!(
                "{}{of} from a trace",
                units::counted(times.len() as u64, "arrival", "arrivals")
            )
        }
        Arrivals::Log => "the arrivals of a log".to_owned(),
    }
}

fn pieces(rate: &RatePlan, most: usize) -> String {
    let piece = |p: &RatePiece| {
        let rates = if p.from == p.to {
            format!("{}/s", units::round(p.from))
        } else {
            format!("{}..{}/s", units::round(p.from), units::round(p.to))
        };
        match p.length {
            Some(length) => format!("{rates} for {}", units::brief(length)),
            None => rates,
        }
    };
    let mut parts: Vec<String> = rate.pieces.iter().take(most).map(piece).collect();
    if let Some(more) = rate.pieces.len().checked_sub(most).filter(|&n| n > 0) {
        parts.push(units::counted(more as u64, "more stage", "more stages"));
    }
    parts.join(" then ")
}

fn thinking(think: Think) -> Option<String> {
    let distribution = match think {
        Think::None => return None,
        Think::Fixed(t) => units::exact(t),
        Think::Exponential(mean) => format!("exponential with mean {}", units::exact(mean)),
        Think::Uniform(low, high) => {
            format!("uniform from {} to {}", units::exact(low), units::exact(high))
        }
        Think::LogNormal(median, sigma) => format!(
            "log-normal with median {} and sigma {}",
            units::exact(median),
            f64::from(sigma) / 1000.0
        ),
    };
    Some(format!("think time {distribution}"))
}

fn request(plan: &Plan, size: &PlanSize) -> Vec<String> {
    if let Some(exchange) = &plan.exchange {
        return exchange::messages(exchange, plan.pipeline);
    }
    if let Some(spec) = plan.websocket.as_deref() {
        let mut parts = websocket::parts(plan, spec, size);
        parts.push(expected(&plan.expect));
        return parts;
    }
    let mut parts = Vec::new();
    if let Some(call) = plan.calls.first() {
        parts.push(if size.one_method {
            call.method.to_string()
        } else {
            "several methods".to_owned()
        });
        let headers = size.headers_max;
        let more = if size.requests > 1 { "up to " } else { "" };
        if headers > 0 {
            parts.push(format!("{more}{} added", units::counted(headers, "header", "headers")));
        }
        // Reports keep the lengths of bodies, not the bodies.
        let mut bodies = plan.calls.iter().zip(&size.body_bytes);
        if bodies.any(|(call, &bytes)| call.template && bytes > 0) {
            parts.push("body from a template".to_owned());
        } else if size.body_bytes_max > 0 {
            let longest = units::bytes(size.body_bytes_max as f64);
            parts.push(format!("body of {more}{longest}"));
        }
    }
    parts.push(match plan.http {
        HttpVersion::Http10 => "HTTP/1.0".to_owned(),
        HttpVersion::Http11 => "HTTP/1.1".to_owned(),
        HttpVersion::Http2 => "HTTP/2".to_owned(),
        HttpVersion::Http2Only => "HTTP/2 only".to_owned(),
    });
    parts.push(match plan.requests_per_connection {
        None => "keep-alive".to_owned(),
        Some(1) => "a new connection for each request".to_owned(),
        Some(n) => format!("{} per connection", units::count(u64::from(n))),
    });
    let in_flight = u64::from(plan.pipeline);
    if plan.http.is_http2() {
        parts.push(format!("up to {}", units::counted(in_flight, "stream", "streams")));
    } else if plan.pipeline > 1 {
        parts.push(format!("pipelined {} deep", units::count(in_flight)));
    }
    if let Some(follow) = plan.follow.as_deref() {
        parts.push(match follow.redirects {
            Redirects::Most(most) => {
                let most = units::counted(u64::from(most), "redirect", "redirects");
                format!("up to {most} followed")
            }
            Redirects::Off => "redirects of some requests followed".to_owned(),
        });
    }
    parts.push(expected(&plan.expect));
    parts
}

fn expected(expect: &Expect) -> String {
    let range = |&(low, high): &(u16, u16)| {
        if low == high { status_text(low) } else { format!("{low}-{high}") }
    };
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &(low, high) in &expect.statuses {
        match ranges.last_mut() {
            Some(last) if last.1.checked_add(1) == Some(low) => last.1 = high,
            _ => ranges.push((low, high)),
        }
    }
    let statuses: Vec<String> = ranges.iter().map(range).collect();
    let mut parts = format!("expecting {}", statuses.join(" or "));
    if let Some(n) = expect.length {
        parts += &format!(" with a body of {}", units::counted(n, "byte", "bytes"));
    }
    if let Some(text) = &expect.body {
        let text = String::from_utf8_lossy(text);
        parts += &format!(" that contains {:?}", shortened(&text, 24));
    }
    parts
}

/// The TLS settings; empty if no connection uses TLS.
fn secured(summary: &Summary) -> Vec<String> {
    let plan = &summary.plan;
    let names: Vec<&str> = plan.endpoints.iter().filter_map(Endpoint::tls_name).collect();
    let Some(first) = names.first() else { return Vec::new() };
    let default = TlsSpec::default();
    let spec = plan.tls.as_deref().unwrap_or(&default);
    let for_name = if names.iter().all(|n| n == first) {
        shortened(first, 40)
    } else {
        "each host".to_owned()
    };
    let mut parts = vec![match (spec.verify, &spec.ca) {
        (false, _) => "not verified".to_owned(),
        (true, _) if !handshake_completed(summary) => {
            format!("failed: no handshake with {for_name} completed")
        }
        (true, None) => format!("checked against {for_name}"),
        (true, Some(_)) => format!("checked against {for_name} with --cacert"),
    }];
    if spec.cert.is_some() {
        parts.push("with a client certificate".to_owned());
    }
    parts.extend(spec.version.map(|version| format!("only TLS {version}")));
    if !spec.suites.is_empty() {
        parts.push(format!("suites {}", spec.suites.join(" ")));
    }
    if !spec.groups.is_empty() {
        parts.push(format!("groups {}", spec.groups.join(" ")));
    }
    if spec.alpn != default.alpn {
        let offered = if spec.alpn.is_empty() { "none".into() } else { spec.alpn.join(" ") };
        parts.push(format!("ALPN {offered}"));
    }
    let resumption = match spec.resume {
        Resume::On => "on",
        Resume::Off => "off",
        Resume::Session => "within a session only",
    };
    parts.push(format!("session resumption {resumption}"));
    parts
}

/// Whether a certificate was checked at all: a completed handshake, or a request that was sent on
/// a connection of an earlier section.
fn handshake_completed(summary: &Summary) -> bool {
    let sections = summary.warmup.iter().chain([&summary.main]);
    let done = |t: &Tally| t.sent > 0 || t.tls.as_deref().is_some_and(|tls| tls.done() > 0);
    sections.into_iter().any(done)
}

fn limits(plan: &Plan) -> Vec<String> {
    let from = if plan.timeout_from_send { "send" } else { "intended start" };
    vec![
        match plan.timeout {
            Span::MAX => "no timeout".to_owned(),
            timeout => format!("timeout {} from the {from}", units::exact(timeout)),
        },
        match plan.connect_timeout {
            Span::MAX => "no connect timeout".to_owned(),
            timeout => format!("{} to connect", units::exact(timeout)),
        },
        format!("seed {}", plan.seed),
    ]
}

fn run_by(summary: &Summary) -> Vec<String> {
    let run = &summary.run;
    let mut parts = Vec::new();
    if !run.driver.is_empty() {
        parts.push(run.driver.clone());
    }
    parts.push(units::counted(summary.workers.len() as u64, "thread", "threads"));
    if !run.host.is_empty() {
        parts.push(run.host.clone());
    }
    if run.descriptor_limit > 0 {
        parts.push(format!("descriptor limit {}", units::count(run.descriptor_limit)));
    }
    let mut addresses: Vec<&str> = run.addresses.iter().flatten().map(String::as_str).collect();
    // Steps on a WebSocket have a copy of their endpoint.
    let mut seen = BTreeSet::new();
    addresses.retain(|address| seen.insert(*address));
    match addresses.as_slice() {
        [] => {}
        [one] => parts.push(format!("to {one}")),
        [first, ..] => parts.push(format!("to {first} and {} more", addresses.len() - 1)),
    }
    parts
}
