//! The text report: the answer, or everything; without lines that would show only zeros.

mod answer;
mod checks;
mod exchange;
mod histogram;
mod hosts;
mod http2;
mod in_streams;
mod judged;
mod named;
mod page;
mod phased;
mod phases;
mod replay;
mod session_kinds;
mod stages;
pub(crate) mod table;
mod tokens;
mod websocket;
mod what;

use prony_base::fault::Fault;
use prony_base::meter::{Sctp, SctpStack};
use prony_base::units::Span;
use prony_plan::plan::{Plan, status_text};
use prony_stats::summary::{Outcome, Summary};
use prony_tally::record::Tally;

use super::{Detail, Style, redact, units, words};
pub(crate) use checks::{CHECKS, share as share_of_check};
pub(super) use page::shortened;
use page::{Ink, Page};
pub(crate) use phased::render_phases;
pub(crate) use session_kinds::session_kinds;
pub(super) use table::kinds;
pub(crate) use tokens::goodput_of;

/// TLS versions and cipher suites that are listed one by one.
const KINDS_MAX: usize = 2;
/// Up to this many threads the busy share is listed for each.
const THREADS_MAX: usize = 8;

/// A label and the parts of its line; without parts there is no line.
pub(super) type Fact = (&'static str, Vec<String>);

/// The target of a run, for a headline.
pub(crate) fn target(summary: &Summary) -> String {
    what::target(&summary.plan, &size(summary), 70)
}

/// The target of a plan, for a headline; without secrets.
pub fn target_of(plan: &Plan) -> String {
    what::target(&redact::plan(plan), &plan.size(), 70)
}

pub(crate) use what::size;

/// The load of a plan, in one line.
pub fn load(plan: &Plan) -> String {
    what::load(plan, usize::MAX).join(", ")
}

/// The plan and the meter that ran it.
pub(super) fn asked(summary: &Summary) -> Vec<Fact> {
    what::facts(summary)
}

/// The totals of the measurement.
pub(super) fn counted(summary: &Summary) -> Vec<Fact> {
    totals(summary)
}

pub(super) fn render(summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    if style.detail == Detail::Answer {
        answer::write(&mut page, summary);
        return page.finish();
    }
    what::write(&mut page, summary);
    page.blank();
    for (label, parts) in totals(summary) {
        page.list(label, &parts);
    }
    page.blank();
    ending(&mut page, summary);
    page.finish()
}

pub(super) fn appendix(summary: &Summary, style: Style, remarks: &[String]) -> String {
    let mut page = Page::new(style);
    let version = if summary.run.version.is_empty() { "" } else { summary.run.version.as_str() };
    page.title(format!("prony {version}").trim_end());
    for remark in remarks {
        page.line("note", remark);
    }
    ending(&mut page, summary);
    page.finish()
}

/// The second half of the report: times, errors, meter and verdict.
fn ending(page: &mut Page, summary: &Summary) {
    table::times(page, &summary.main);
    if page.style().histogram {
        histogram::write(page, &summary.main.times.response);
    }
    stages::write(page, summary, usize::MAX);
    phases::write(page, summary);
    session_kinds::write(page, summary);
    named::write(page, summary);
    checks::write_groups(page, summary);
    checks::write_checks(page, summary);
    replay::write(page, summary);
    errors(page, summary);
    if let Some(hint) = exchange::hint(summary) {
        page.line("", &hint);
    }
    page.blank();
    page.list("meter", &meter(summary));
    hosts::write(page, summary);
    if let Some(tested) = &summary.run.self_test {
        let began = summary.run.started_unix.unwrap_or(tested.started_unix);
        page.line("self-test", &words::self_test(tested, began));
    }
    if let Some(warmup) = &summary.warmup {
        page.line("warm-up", &warmed(warmup));
    }
    if summary.run.interrupted {
        page.inked(
            "interrupted",
            "by the user: the figures cover the run until then",
            Ink::Warning,
        );
    }
    page.list("until", &goals(summary));
    judged::verdict(page, summary);
    thresholds(page, summary);
}

/// Each threshold: what it came to, and by which figure.
fn thresholds(page: &mut Page, summary: &Summary) {
    for (i, checked) in summary.thresholds().iter().enumerate() {
        let ink = match checked.outcome {
            Outcome::Met => Ink::Good,
            Outcome::Missed => Ink::Bad,
            Outcome::Undecided => Ink::Warning,
        };
        page.inked(if i == 0 { "thresholds" } else { "" }, &words::decided(checked), ink);
    }
}

/// The goals of `--until`, the precision of their figures, and whether reaching them ended the run.
pub(super) fn goals(summary: &Summary) -> Vec<String> {
    let (Some(until), t) = (&summary.run.until, &summary.main) else { return Vec::new() };
    let known = until.goals.iter().map(|goal| match goal.reach(t) {
        Ok(reach) => format!("{goal}: known to {}", units::bar(reach)),
        Err(why) => format!("{goal}: {}", words::no_interval(why)),
    });
    let end = if until.reached { "reached after" } else { "not reached in" };
    known.chain([format!("{end} {}", units::span(t.window()))]).collect()
}

fn totals(summary: &Summary) -> Vec<Fact> {
    let t = &summary.main;
    let is_exchange = summary.plan.exchange.is_some();
    let facts = [
        (if is_exchange { "exchanges" } else { "requests" }, vec![requests(t)]),
        ("network", exchange::network(t)),
        ("sessions", sessions(t)),
        ("steps", session_kinds::steps(t)),
        ("rate", rates(summary)),
        ("data", data(t)),
        ("statuses", if is_exchange { Vec::new() } else { statuses(t, usize::MAX) }),
        ("connections", connections(summary)),
        ("HTTP/2", http2::streams(t)),
        ("gRPC", http2::grpc_messages(t)),
        ("messages", if t.tokens.is_some() { Vec::new() } else { in_streams::messages(t) }),
        ("streams", in_streams::streams(t)),
        ("per stream", in_streams::sizes(t)),
        ("reconnects", in_streams::reconnects(t)),
        ("broadcast", websocket::broadcast(t)),
        ("pings", websocket::answers(t)),
        ("proxy", proxy(summary)),
        ("handshakes", handshakes(t)),
    ];
    facts.into_iter().chain(tokens::facts(summary)).collect()
}

/// The sessions: how many started, completed, failed, and their connections.
fn sessions(t: &Tally) -> Vec<String> {
    let Some(s) = &t.sessions else { return Vec::new() };
    let mut first = format!("{}: {} completed", units::count(s.started), units::count(s.completed));
    if let Some(rate) = t.session_rate().filter(|&rate| rate > 0.0) {
        first += &format!(" ({})", units::rate(rate));
    }
    let mut parts = vec![first];
    for (n, what) in [(s.failed, "failed"), (s.unfinished, "unfinished")] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    if s.completed > 0 {
        let each = s.connections as f64 / s.completed as f64;
        let each = (each * 100.0).round() / 100.0;
        let what = if each == 1.0 { "connection" } else { "connections" };
        parts.push(format!("{} {what} each", units::round(each)));
    }
    parts
}

fn data(t: &Tally) -> Vec<String> {
    let mut parts = Vec::new();
    if t.bytes_received() > 0 {
        let (all, rate) = (t.bytes_received() as f64, t.bytes_per_second());
        let rate = if rate > 0.0 { format!(" ({}/s)", units::bytes(rate)) } else { String::new() };
        parts.push(format!("{} received{rate}", units::bytes(all)));
    }
    if t.bytes_sent > 0 {
        parts.push(format!("{} sent", units::bytes(t.bytes_sent as f64)));
    }
    parts
}

/// The proxy, and the tunnels that it opened. Those that it did not are listed with the errors.
fn proxy(summary: &Summary) -> Vec<String> {
    let Some(proxy) = summary.plan.proxy.as_deref() else { return Vec::new() };
    let opened = summary.main.proxy.as_deref().map_or(0, |tunnels| tunnels.opened);
    let tunnels = (opened > 0).then(|| units::counted(opened, "tunnel", "tunnels"));
    [proxy.address()].into_iter().chain(tunnels).collect()
}

/// The completed TLS handshakes. Failed ones are listed with the errors.
fn handshakes(t: &Tally) -> Vec<String> {
    let Some(tls) = t.tls.as_deref().filter(|tls| tls.done() > 0) else { return Vec::new() };
    let mut parts = Vec::new();
    for (n, kind) in [(tls.full, "full"), (tls.resumed, "resumed")] {
        if n > 0 {
            parts.push(format!("{} {kind}", units::count(n)));
        }
    }
    let mut kinds: Vec<_> = tls.kinds.iter().collect();
    kinds.sort_by_key(|&(kind, &n)| (std::cmp::Reverse(n), kind));
    let more = kinds.len().saturating_sub(KINDS_MAX);
    for (kind, n) in kinds.iter().take(KINDS_MAX) {
        parts.push(match kinds.len() {
            1 => (*kind).clone(),
            _ => format!("{kind}: {}", units::count(**n)),
        });
    }
    if more > 0 {
        parts.push(units::counted(more as u64, "other kind", "other kinds"));
    }
    parts
}

fn rates(summary: &Summary) -> Vec<String> {
    let t = &summary.main;
    let mut parts = Vec::new();
    if t.started == 0 {
        return parts;
    }
    let asked = summary.target_rate();
    let bar = |rate: f64| match summary.rate_interval() {
        Ok(interval) => format!(" +- {}", units::bar(interval.reach(rate))),
        _ => String::new(),
    };
    parts.push(match (t.rate(), t.replies, asked) {
        (0.0, 0, _) => "none completed".to_owned(),
        (0.0, ..) => "none completed before the drain".to_owned(),
        // The window of a single request is its response time.
        (_, 1, _) if summary.plan.stop.requests.is_some() => {
            "1 completed, too few for a rate".to_owned()
        }
        (rate, _, None) => units::rate(rate) + &bar(rate),
        (rate, _, Some(_)) => format!("{}{} completed", units::rate(rate), bar(rate)),
    });
    parts.extend(asked.map(|asked| format!("target {}", units::rate(asked))));
    let late = t.sent_late + t.overdue;
    if late > 0 {
        parts.push(format!("{} not sent in time", units::count(late)));
    }
    let in_flight = t.concurrency();
    if in_flight >= 0.005 {
        parts.push(format!("{} in flight on average", units::three(in_flight)));
    }
    parts
}

fn requests(t: &Tally) -> String {
    if t.started == 0 {
        return match t.window() {
            Span::ZERO => "none".to_owned(),
            window => format!("none in {}", units::span(window)),
        };
    }
    let mut replies = units::counted(t.replies, "reply", "replies");
    if t.replies_in_drain > 0 {
        replies += &format!(" ({} in the drain)", units::count(t.replies_in_drain));
    }
    let mut parts = vec![replies];
    if let Some(share) = t.error_share().filter(|_| t.failed > 0) {
        parts.push(format!("{} failed ({})", units::count(t.failed), units::percent(share)));
    }
    if t.unfinished > 0 {
        parts.push(format!("{} unfinished", units::count(t.unfinished)));
    }
    if t.retries > 0 {
        parts.push(format!("{} retried", units::count(t.retries)));
    }
    format!("{} in {}: {}", units::count(t.started), units::span(t.window()), parts.join(", "))
}

fn statuses(t: &Tally, most: usize) -> Vec<String> {
    let mut by_count: Vec<(u16, u64)> = t.statuses.iter().map(|(&s, &n)| (s, n)).collect();
    by_count.sort_by_key(|&(status, n)| (std::cmp::Reverse(n), status));
    let rest = by_count.split_off(by_count.len().min(most));
    let mut parts: Vec<String> = by_count
        .iter()
        .map(|(s, n)| format!("{}: {}", status_text(*s), units::count(*n)))
        .collect();
    if !rest.is_empty() {
        let replies = rest.iter().map(|&(_, n)| n).sum();
        parts.push(format!("{} others: {}", rest.len(), units::count(replies)));
    }
    if t.interim > 0 {
        parts.push(format!("{} interim (1xx)", units::count(t.interim)));
    }
    parts
}

fn connections(summary: &Summary) -> Vec<String> {
    let t = &summary.main;
    let mut parts = Vec::new();
    if t.connected > 0 {
        parts.push(format!("{} opened", units::count(t.connected)));
    }
    if let Some(n) = summary.warmup.as_ref().map(|w| w.connected).filter(|&n| n > 0) {
        parts.push(format!("{} opened in the warm-up", units::count(n)));
    }
    if t.connects > t.connected {
        parts.push(format!("{} not opened", units::count(t.connects - t.connected)));
    }
    if t.connections.held > 0 {
        let held = units::count(t.connections.held);
        parts.push(format!("{held} held back, as those before brought no reply"));
    }
    if t.in_flight_max > 0 {
        let most = units::counted(t.in_flight_max, "request", "requests");
        parts.push(format!("at most {most} in flight"));
    }
    parts
}

fn errors(page: &mut Page, summary: &Summary) {
    let t = &summary.main;
    let faults = errors_of(t);
    if faults.is_empty() {
        return;
    }
    page.blank();
    let rows: Vec<(&str, u64, String)> = faults
        .iter()
        .map(|&(f, n)| {
            (words::name(f), n, words::meaning(f, &summary.plan).to_owned() + &stray(t, f))
        })
        .collect();
    let names = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let numbers = rows.iter().map(|r| units::count(r.1).len()).max().unwrap_or(0);
    for (i, (name, n, sentence)) in rows.iter().enumerate() {
        let label = if i == 0 { "errors" } else { "" };
        let line = format!("{name:<names$} {:>numbers$}  {sentence}", units::count(*n));
        page.inked(label, &line, Ink::Warning);
    }
    for (fault, _) in faults {
        if let Some(first) = words::first_failure(fault, summary) {
            page.inked("", &format!("first {}: {first}", words::name(fault)), Ink::Warning);
        }
    }
    reasons(page, t, usize::MAX);
}

/// The errors with their counts, the most frequent first: those of requests, and of connections
/// without any.
fn errors_of(t: &Tally) -> Vec<(Fault, u64)> {
    let count = |f: Fault| (f, t.fault(f) + t.stray[f as usize]);
    let mut faults: Vec<_> = Fault::ALL.into_iter().map(count).filter(|&(_, n)| n > 0).collect();
    faults.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    faults
}

/// Why tunnels did not open, and why TLS handshakes failed: the most frequent reasons.
fn reasons(page: &mut Page, t: &Tally, most: usize) {
    let of_proxy = t.proxy.as_deref().map(|proxy| ("proxy", &proxy.reasons));
    let of_tls = t.tls.as_deref().map(|tls| ("TLS", &tls.reasons));
    for (what, reasons) in of_proxy.into_iter().chain(of_tls) {
        let mut reasons: Vec<_> = reasons.iter().collect();
        reasons.sort_by_key(|&(reason, &n)| (std::cmp::Reverse(n), reason));
        for (reason, &n) in reasons.into_iter().take(most) {
            page.inked("", &format!("{what}: {reason} ({})", units::count(n)), Ink::Warning);
        }
    }
}

/// Errors of connections without a request in flight, which do not count as failed requests.
fn stray(t: &Tally, f: Fault) -> String {
    match t.stray[f as usize] {
        0 => String::new(),
        n => format!(" ({} stray)", units::count(n)),
    }
}

/// The resources that the meter used, and its own delays.
pub(super) fn meter(summary: &Summary) -> Vec<String> {
    let mut parts = Vec::new();
    let is_known = summary.workers.iter().any(|m| m.cpu() > Span::ZERO);
    if let Some((_, share)) = summary.busiest().filter(|_| is_known) {
        let shares: Vec<String> =
            summary.workers.iter().map(|m| units::percent(m.busy())).collect();
        parts.push(match shares.len() {
            1 => format!("busy {}", shares[0]),
            n if n <= THREADS_MAX => format!("busy by thread {}", shares.join(" ")),
            n => format!("busiest of {n} threads {}", units::percent(share)),
        });
        parts.push(cpu(summary));
    }
    if let Some(lag) = summary.main.times.lag.quantile(0.99).filter(|lag| lag.0 > 0) {
        parts.push(format!("send lag p99 {}", units::span(lag)));
    }
    if let (Some(sent), Some(asked)) = (summary.sent_rate(), due_rate(summary)) {
        parts.push(format!("sent {} of the due requests", units::percent(sent / asked)));
    }
    parts.extend(delays(summary));
    parts
        .extend(summary.run.director.as_ref().filter(|d| d.steps > 0).map(session_kinds::director));
    let tcp = summary.transport();
    if let Some(mean) = tcp.rtt_mean() {
        let max = units::span(tcp.rtt_max);
        parts.push(format!("TCP round trip mean {} max {max}", units::span(mean)));
    }
    if tcp.retransmits > 0 {
        parts.push(units::counted(tcp.retransmits, "retransmission", "retransmissions"));
    }
    parts.extend(tcp.sctp.map(|sctp| associations(&sctp)));
    parts
}

/// What delayed the meter: run-queue delay, event-loop stalls, throttled and stolen time.
fn delays(summary: &Summary) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some((_, share)) = summary.most_waiting().filter(|&(_, share)| share >= 0.01) {
        parts.push(format!("run-queue delay {}", units::percent(share)));
    }
    parts.extend(
        summary.longest_stall().map(|t| format!("longest event-loop stall {}", units::span(t))),
    );
    let cpu_pressure = &summary.run.cpu_pressure;
    for (time, what) in [(cpu_pressure.throttled, "throttled"), (cpu_pressure.stolen, "stolen")] {
        if let Some(time) = time.filter(|&t| t * 100 >= summary.wall() && t > Span::ZERO) {
            parts.push(format!("{what} {}", units::span(time)));
        }
    }
    parts
}

/// The SCTP stack, with the settings that affect its times.
fn associations(sctp: &Sctp) -> String {
    let Sctp { rto_initial_ms, rto_min_ms, rto_max_ms, sack_delay_ms, sack_packets, .. } = sctp;
    let mut parts = vec![
        format!("RTO {rto_initial_ms} ms at first, {rto_min_ms} to {rto_max_ms} ms"),
        format!("SACK after {sack_delay_ms} ms or {sack_packets} packets"),
        if sctp.nodelay { "NODELAY" } else { "Nagle" }.to_owned(),
    ];
    if sctp.paths > 0 {
        parts.push(units::counted(sctp.paths.into(), "path", "paths"));
    }
    if sctp.paths_failed > 0 {
        parts.push(format!("{} failed", units::count(sctp.paths_failed)));
    }
    if sctp.paths_potentially_failed > 0 {
        let some = units::count(sctp.paths_potentially_failed);
        parts.push(format!("{some} potentially failed"));
    }
    if sctp.ended_by_peer > 0 {
        parts.push(format!("{} ended by the peer first", units::count(sctp.ended_by_peer)));
    }
    if sctp.retransmits > 0 {
        parts.push(units::counted(sctp.retransmits, "chunk retransmitted", "chunks retransmitted"));
    }
    let stack = match sctp.stack {
        SctpStack::Kernel => "the kernel's SCTP",
        SctpStack::Udp => "SCTP over UDP",
        SctpStack::Raw => "SCTP over IP in user space",
    };
    format!("{stack} ({})", parts.join("; "))
}

fn due_rate(summary: &Summary) -> Option<f64> {
    let t = &summary.main;
    let seconds = t.window().as_secs_f64();
    (t.started > 0 && seconds > 0.0).then(|| t.started as f64 / seconds)
}

fn cpu(summary: &Summary) -> String {
    let (user, system) =
        summary.workers.iter().fold((0, 0), |a, m| (a.0 + m.cpu_user.0, a.1 + m.cpu_system.0));
    let (user, system) = (user as f64, system as f64);
    let kinds = [(user, "user"), (system, "system")];
    let kinds = kinds.iter().filter(|(time, _)| *time > 0.0);
    let kinds: Vec<_> =
        kinds.map(|(time, kind)| format!("{} {kind}", units::nanos(*time))).collect();
    let mut cpu = format!("CPU {}", kinds.join(", "));
    if summary.ended() > 0 {
        let each = units::nanos((user + system) / summary.ended() as f64);
        cpu += &format!(", {each} per request");
    }
    cpu
}

/// The warm-up in one sentence.
pub(super) fn warmed(t: &Tally) -> String {
    let mut parts = requests(t);
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(time) = t.times.response.quantile(q) {
            parts += &format!(", {name} {}", units::span(time));
        }
    }
    parts
}
