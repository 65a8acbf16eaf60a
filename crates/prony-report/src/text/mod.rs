//! The report for people: one screen, nothing that is zero.

mod exchange;
mod named;
mod page;
mod phases;
mod table;
mod what;

use prony_core::fault::Fault;
use prony_core::plan::Plan;
use prony_core::record::Tally;
use prony_core::summary::confidence::Confidence;
use prony_core::summary::{Sctp, SctpStack, Summary, Verdict};
use prony_core::units::Span;

use super::{Style, redact, units, words};
pub(super) use page::shortened;
use page::{Ink, Page};
pub(super) use table::kinds;

/// The lines of a screen.
const LINES_MAX: usize = 40;
/// Versions and suites of TLS that are told one by one.
const KINDS_MAX: usize = 2;
/// Threads whose busy share is told one by one.
const THREADS_MAX: usize = 8;

/// How much is told of what can be long. The rest is counted, and is in the JSON report.
#[derive(Clone, Copy, Debug)]
struct Detail {
    /// Kinds of errors.
    errors: usize,
    /// Names of requests.
    names: usize,
    /// Statuses.
    statuses: usize,
    /// Pieces of the rate plan.
    pieces: usize,
    /// Notes, and lines of each.
    notes: (usize, usize),
    /// Reasons of the verdict.
    reasons: usize,
    /// Empty lines between the parts.
    airy: bool,
}

/// From much to little: the first that fits on the screen is taken.
const DETAILS: [Detail; 3] = [
    Detail {
        errors: 24,
        names: 12,
        statuses: 12,
        pieces: 6,
        notes: (9, 3),
        reasons: 9,
        airy: true,
    },
    Detail { errors: 6, names: 4, statuses: 8, pieces: 4, notes: (3, 2), reasons: 4, airy: true },
    Detail { errors: 1, names: 1, statuses: 5, pieces: 1, notes: (1, 1), reasons: 1, airy: false },
];

/// Everything, where there is no screen to fit on.
const ALL: Detail = Detail {
    errors: Fault::COUNT,
    names: usize::MAX,
    statuses: usize::MAX,
    pieces: usize::MAX,
    notes: (usize::MAX, 1),
    reasons: usize::MAX,
    airy: true,
};

/// A label and what is told under it, part by part; no part where there is nothing to tell.
pub(super) type Fact = (&'static str, Vec<String>);

/// What was loaded, for a headline.
pub(crate) fn target(summary: &Summary) -> String {
    what::target(&summary.plan, &size(summary), 70)
}

/// The same of a plan that is carried out; without secrets.
pub fn target_of(plan: &Plan) -> String {
    what::target(&redact::plan(plan), &plan.size(), 70)
}

pub(crate) use what::size;

/// How it is loaded, in one line.
pub fn load(plan: &Plan) -> String {
    what::load(plan, ALL).join(", ")
}

/// What was asked, and who did it.
pub(super) fn asked(summary: &Summary) -> Vec<Fact> {
    what::facts(summary, ALL)
}

/// What was counted.
pub(super) fn counted(summary: &Summary) -> Vec<Fact> {
    totals(summary, ALL)
}

pub(super) fn render(summary: &Summary, style: Style) -> String {
    let mut told = String::new();
    for detail in DETAILS {
        told = page(summary, style, detail);
        if told.lines().count() <= LINES_MAX {
            break;
        }
    }
    told
}

pub(super) fn appendix(summary: &Summary, style: Style, remarks: &[String]) -> String {
    let mut page = Page::new(style, true);
    let version = if summary.run.version.is_empty() { "" } else { summary.run.version.as_str() };
    page.title(format!("prony {version}").trim_end());
    for remark in remarks {
        page.line("note", remark);
    }
    ending(&mut page, summary, DETAILS[0]);
    page.finish()
}

fn page(summary: &Summary, style: Style, detail: Detail) -> String {
    let mut page = Page::new(style, detail.airy);
    what::tell(&mut page, summary, detail);
    page.blank();
    for (label, parts) in totals(summary, detail) {
        page.list(label, &parts);
    }
    page.blank();
    ending(&mut page, summary, detail);
    page.finish()
}

/// From the times to the verdict.
fn ending(page: &mut Page, summary: &Summary, detail: Detail) {
    table::times(page, &summary.main, detail.airy);
    phases::tell(page, summary);
    named::tell(page, summary, detail.names);
    errors(page, &summary.main, detail);
    if let Some(hint) = exchange::hint(summary) {
        page.line("", &hint);
    }
    page.blank();
    page.list("meter", &meter(summary));
    if let Some(tested) = summary.run.self_test.as_ref().filter(|_| detail.airy) {
        page.line("self-test", &words::self_test(tested));
    }
    if let Some(warmup) = &summary.warmup {
        page.line("warm-up", &warmed(warmup));
    }
    if summary.run.interrupted {
        page.inked("interrupted", "by the user: the figures are those until then", Ink::Warning);
    }
    if detail.airy {
        page.list("until", &goals(summary));
    }
    verdict(page, summary, detail);
}

/// The goals of the load, how closely their figures are known, and whether that ended it.
pub(super) fn goals(summary: &Summary) -> Vec<String> {
    let (Some(until), t) = (&summary.run.until, &summary.main) else { return Vec::new() };
    let known = until.goals.iter().map(|goal| match goal.reach(t) {
        Ok(reach) => format!("{goal}: known to {}", units::bar(reach)),
        Err(lack) => format!("{goal}: {}", words::lack(lack)),
    });
    let end = if until.reached { "reached after" } else { "not reached in" };
    known.chain([format!("{end} {}", units::span(t.window()))]).collect()
}

fn totals(summary: &Summary, detail: Detail) -> Vec<Fact> {
    let t = &summary.main;
    let is_exchange = summary.plan.exchange.is_some();
    // Where there is no room, their times and the errors say the most.
    let handshakes = if detail.airy { handshakes(t) } else { Vec::new() };
    vec![
        (if is_exchange { "exchanges" } else { "requests" }, vec![requests(t)]),
        ("network", exchange::network(t)),
        ("sessions", sessions(t)),
        ("rate", rates(summary, detail.airy)),
        ("data", data(t)),
        ("statuses", if is_exchange { Vec::new() } else { statuses(t, detail.statuses) }),
        ("connections", connections(summary)),
        ("handshakes", handshakes),
    ]
}

/// What became of the sessions.
fn sessions(t: &Tally) -> Vec<String> {
    let Some(s) = &t.sessions else { return Vec::new() };
    let mut first = format!("{}: {} completed", units::count(s.started), units::count(s.completed));
    if let Some(rate) = t.session_rate().filter(|&rate| rate > 0.0) {
        first += &format!(" ({})", units::rate(rate));
    }
    let mut told = vec![first];
    for (n, what) in [(s.failed, "failed"), (s.unfinished, "unfinished")] {
        if n > 0 {
            told.push(format!("{} {what}", units::count(n)));
        }
    }
    if s.completed > 0 {
        let each = s.connections as f64 / s.completed as f64;
        let each = (each * 100.0).round() / 100.0;
        let what = if each == 1.0 { "connection" } else { "connections" };
        told.push(format!("{} {what} each", units::round(each)));
    }
    told
}

fn data(t: &Tally) -> Vec<String> {
    let mut told = Vec::new();
    if t.bytes_received() > 0 {
        let (all, rate) = (t.bytes_received() as f64, t.bytes_per_second());
        let rate = if rate > 0.0 { format!(" ({}/s)", units::bytes(rate)) } else { String::new() };
        told.push(format!("{} received{rate}", units::bytes(all)));
    }
    if t.bytes_sent > 0 {
        told.push(format!("{} sent", units::bytes(t.bytes_sent as f64)));
    }
    told
}

/// The TLS handshakes that were done. What failed stands with the errors.
fn handshakes(t: &Tally) -> Vec<String> {
    let Some(tls) = t.tls.as_deref().filter(|tls| tls.done() > 0) else { return Vec::new() };
    let mut told = Vec::new();
    for (n, kind) in [(tls.full, "full"), (tls.resumed, "resumed")] {
        if n > 0 {
            told.push(format!("{} {kind}", units::count(n)));
        }
    }
    let mut kinds: Vec<_> = tls.kinds.iter().collect();
    kinds.sort_by_key(|&(kind, &n)| (std::cmp::Reverse(n), kind));
    let more = kinds.len().saturating_sub(KINDS_MAX);
    for (kind, n) in kinds.iter().take(KINDS_MAX) {
        told.push(match kinds.len() {
            1 => (*kind).clone(),
            _ => format!("{kind}: {}", units::count(**n)),
        });
    }
    if more > 0 {
        told.push(units::counted(more as u64, "other kind", "other kinds"));
    }
    told
}

fn rates(summary: &Summary, with_bar: bool) -> Vec<String> {
    let t = &summary.main;
    let mut told = Vec::new();
    if t.started == 0 {
        return told;
    }
    let asked = summary.asked_rate();
    let bar = |rate: f64| match Confidence::of(t).rate(rate) {
        Ok(interval) if with_bar => format!(" +- {}", units::bar(interval.reach(rate))),
        _ => String::new(),
    };
    told.push(match (t.rate(), t.replies, asked) {
        (0.0, 0, _) => "none answered".to_owned(),
        (0.0, ..) => "none answered before the drain".to_owned(),
        // The window of a single request is its response time.
        (_, 1, _) if summary.plan.stop.requests.is_some() => {
            "1 answered, too few for a rate".to_owned()
        }
        (rate, _, None) => units::rate(rate) + &bar(rate),
        (rate, _, Some(_)) => format!("{}{} answered", units::rate(rate), bar(rate)),
    });
    told.extend(asked.map(|asked| format!("{} asked", units::rate(asked))));
    let late = t.sent_late + t.overdue;
    if late > 0 {
        told.push(format!("{} not sent in time", units::count(late)));
    }
    let under_way = t.concurrency();
    if under_way >= 0.005 {
        told.push(format!("{} under way at a time", units::three(under_way)));
    }
    told
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
        parts.push(format!("{} sent again", units::count(t.retries)));
    }
    format!("{} in {}: {}", units::count(t.started), units::span(t.window()), parts.join(", "))
}

fn statuses(t: &Tally, most: usize) -> Vec<String> {
    let mut by_count: Vec<(u16, u64)> = t.statuses.iter().map(|(&s, &n)| (s, n)).collect();
    by_count.sort_by_key(|&(status, n)| (std::cmp::Reverse(n), status));
    let rest = by_count.split_off(by_count.len().min(most));
    let mut told: Vec<String> =
        by_count.iter().map(|(s, n)| format!("{s}: {}", units::count(*n))).collect();
    if !rest.is_empty() {
        let replies = rest.iter().map(|&(_, n)| n).sum();
        told.push(format!("{} others: {}", rest.len(), units::count(replies)));
    }
    if t.interim > 0 {
        told.push(format!("{} interim (1xx)", units::count(t.interim)));
    }
    told
}

fn connections(summary: &Summary) -> Vec<String> {
    let t = &summary.main;
    let mut told = Vec::new();
    if t.connected > 0 {
        told.push(format!("{} opened", units::count(t.connected)));
    }
    if let Some(n) = summary.warmup.as_ref().map(|w| w.connected).filter(|&n| n > 0) {
        told.push(format!("{} opened in the warm-up", units::count(n)));
    }
    if t.connects > t.connected {
        told.push(format!("{} not opened", units::count(t.connects - t.connected)));
    }
    if t.in_flight_max > 0 {
        let most = units::counted(t.in_flight_max, "request", "requests");
        told.push(format!("at most {most} in flight"));
    }
    told
}

fn errors(page: &mut Page, t: &Tally, detail: Detail) {
    let count = |f: Fault| t.fault(f) + t.stray[f as usize];
    let mut faults: Vec<Fault> = Fault::ALL.into_iter().filter(|&f| count(f) > 0).collect();
    if faults.is_empty() {
        return;
    }
    page.blank();
    faults.sort_by_key(|&f| std::cmp::Reverse(count(f)));
    let rest = faults.split_off(faults.len().min(detail.errors));
    let others = format!("{} other kinds", rest.len());
    let mut rows: Vec<(&str, u64, String)> = faults
        .iter()
        .map(|&f| (words::name(f), count(f), words::sentence(f).to_owned() + &stray(t, f)))
        .collect();
    if !rest.is_empty() {
        let requests = rest.iter().map(|&f| count(f)).sum();
        rows.push((&others, requests, "told one by one with --json".to_owned()));
    }
    let names = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let numbers = rows.iter().map(|r| units::count(r.1).len()).max().unwrap_or(0);
    for (i, (name, n, sentence)) in rows.iter().enumerate() {
        let label = if i == 0 { "errors" } else { "" };
        let line = format!("{name:<names$} {:>numbers$}  {sentence}", units::count(*n));
        page.inked(label, &line, Ink::Warning);
    }
    reasons(page, t, detail);
}

/// Why TLS handshakes failed.
fn reasons(page: &mut Page, t: &Tally, detail: Detail) {
    let Some(tls) = t.tls.as_deref().filter(|_| detail.airy) else { return };
    let mut reasons: Vec<_> = tls.reasons.iter().collect();
    reasons.sort_by_key(|&(reason, &n)| (std::cmp::Reverse(n), reason));
    let rest = reasons.split_off(reasons.len().min(detail.errors));
    for (reason, &n) in reasons {
        page.inked("", &format!("TLS: {reason} ({})", units::count(n)), Ink::Warning);
    }
    if !rest.is_empty() {
        let more = units::counted(rest.len() as u64, "more reason", "more reasons");
        page.inked("", &format!("TLS: {more}, told with --json"), Ink::Warning);
    }
}

/// What the counter of a fault has that is no failed request.
fn stray(t: &Tally, f: Fault) -> String {
    match t.stray[f as usize] {
        0 => String::new(),
        n => format!(" ({} stray)", units::count(n)),
    }
}

/// What the meter did to its machine.
pub(super) fn meter(summary: &Summary) -> Vec<String> {
    let mut told = Vec::new();
    let is_known = summary.meters.iter().any(|m| m.cpu() > Span::ZERO);
    if let Some((_, share)) = summary.busiest().filter(|_| is_known) {
        let shares: Vec<String> = summary.meters.iter().map(|m| units::percent(m.busy())).collect();
        told.push(match shares.len() {
            1 => format!("busy {}", shares[0]),
            n if n <= THREADS_MAX => format!("busy by thread {}", shares.join(" ")),
            n => format!("busiest of {n} threads {}", units::percent(share)),
        });
        told.push(cpu(summary));
    }
    if let Some(lag) = summary.main.times.lag.quantile(0.99).filter(|lag| lag.0 > 0) {
        told.push(format!("send lag p99 {}", units::span(lag)));
    }
    if let (Some(sent), Some(asked)) = (summary.sent_rate(), due_rate(summary)) {
        told.push(format!("sent {} of what was due", units::percent(sent / asked)));
    }
    told.extend(held(summary));
    let tcp = summary.transport();
    if let Some(mean) = tcp.rtt_mean() {
        let max = units::span(tcp.rtt_max);
        told.push(format!("TCP round trip mean {} max {max}", units::span(mean)));
    }
    if tcp.retransmits > 0 {
        told.push(units::counted(tcp.retransmits, "segment sent again", "segments sent again"));
    }
    told.extend(tcp.sctp.map(|sctp| associations(&sctp)));
    told
}

/// What kept the meter from running.
fn held(summary: &Summary) -> Vec<String> {
    let mut told = Vec::new();
    if let Some((_, share)) = summary.most_waiting().filter(|&(_, share)| share >= 0.01) {
        told.push(format!("waited {} for a processor", units::percent(share)));
    }
    told.extend(summary.longest_stall().map(|t| format!("longest stall {}", units::span(t))));
    let withheld = &summary.run.withheld;
    for (time, what) in [(withheld.throttled, "throttled"), (withheld.stolen, "stolen")] {
        if let Some(time) = time.filter(|&t| t * 100 >= summary.wall() && t > Span::ZERO) {
            told.push(format!("{what} {}", units::span(time)));
        }
    }
    told
}

/// Which SCTP it was, with all that its times depend on.
fn associations(sctp: &Sctp) -> String {
    let Sctp { rto_initial_ms, rto_min_ms, rto_max_ms, sack_delay_ms, sack_packets, .. } = sctp;
    let mut told = vec![
        format!("RTO {rto_initial_ms} ms at first, {rto_min_ms} to {rto_max_ms} ms"),
        format!("SACK after {sack_delay_ms} ms or {sack_packets} packets"),
        if sctp.nodelay { "NODELAY" } else { "Nagle" }.to_owned(),
    ];
    if sctp.paths > 0 {
        told.push(units::counted(sctp.paths.into(), "path", "paths"));
    }
    if sctp.paths_failed > 0 {
        told.push(format!("{} failed", units::count(sctp.paths_failed)));
    }
    if sctp.paths_potentially_failed > 0 {
        let some = units::count(sctp.paths_potentially_failed);
        told.push(format!("{some} potentially failed"));
    }
    if sctp.ended_by_peer > 0 {
        told.push(format!("{} ended by the peer first", units::count(sctp.ended_by_peer)));
    }
    if sctp.retransmits > 0 {
        told.push(units::counted(sctp.retransmits, "chunk sent again", "chunks sent again"));
    }
    let whose = match sctp.stack {
        SctpStack::Kernel => "the kernel's SCTP",
        SctpStack::Udp => "SCTP over UDP",
        SctpStack::Raw => "SCTP over IP without the kernel's",
    };
    format!("{whose} ({})", told.join("; "))
}

fn due_rate(summary: &Summary) -> Option<f64> {
    let t = &summary.main;
    let seconds = t.window().as_secs_f64();
    (t.started > 0 && seconds > 0.0).then(|| t.started as f64 / seconds)
}

fn cpu(summary: &Summary) -> String {
    let (user, system) =
        summary.meters.iter().fold((0, 0), |a, m| (a.0 + m.cpu_user.0, a.1 + m.cpu_system.0));
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
    let mut told = requests(t);
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(time) = t.times.response.quantile(q) {
            told += &format!(", {name} {}", units::span(time));
        }
    }
    told + "; apart"
}

fn verdict(page: &mut Page, summary: &Summary, detail: Detail) {
    let judgement = summary.verdict();
    let word = judgement.verdict.word();
    if judgement.is_valid() {
        match words::failures(summary) {
            Some(failures) => page.inked("verdict", &format!("{word} ({failures})"), Ink::Warning),
            None => page.inked("verdict", word, Ink::Good),
        }
    } else {
        let means = words::verdict(judgement.verdict);
        page.inked("verdict", &format!("{word}: {means}"), Ink::Bad);
        for reason in judgement.reasons.iter().take(detail.reasons) {
            page.line("", &words::limit(reason, summary));
        }
        let more = judgement.reasons.len().checked_sub(detail.reasons).filter(|&n| n > 0);
        if let Some(n) = more {
            let more = units::counted(n as u64, "more reason", "more reasons");
            page.line("", &format!("and {more}"));
        }
        if let Some(cause) = words::shared_host(&judgement, summary).filter(|_| detail.airy) {
            page.line("", &cause);
        }
    }
    // Of the meter and of failures the verdict has told.
    let told = [Verdict::ClientLimited, Verdict::TargetFailed].contains(&judgement.verdict);
    if let Some(bound) = summary.bound(&judgement).filter(|_| !told) {
        page.line("limited by", &words::bound(&bound));
    }
}
