//! Names and sentences for what the core counts: each error, each reason of a verdict with what to
//! do about it, and the bottleneck.

pub(crate) mod changes;
mod first_failure;
mod meter;
mod self_test;
mod thresholds;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{Plan, status_text};
use prony_plan::target::Endpoint;
use prony_stats::summary::confidence::{Goal, NoInterval};
use prony_stats::summary::{
    Bottleneck, Change, Figure, Judgment, Queued, Reason, Summary, Verdict, Waiting,
};

use super::{hosts, units};
pub(crate) use first_failure::{first_failure, other_protocol};
pub use meter::{meter_added, meter_added_to_parts};
pub use self_test::self_test;
pub use thresholds::{decided, outcome, threshold, weight};

/// The name of an error in every format.
pub fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectRefused => "connect-refused",
        Fault::ConnectTimeout => "connect-timeout",
        Fault::ConnectUnreachable => "connect-unreachable",
        Fault::ConnectReset => "connect-reset",
        Fault::NoTunnel => "no-tunnel",
        Fault::TlsHandshake => "tls-handshake",
        Fault::RequestTimeout => "request-timeout",
        Fault::WaitTimeout => "wait-timeout",
        Fault::FlowTimeout => "flow-timeout",
        Fault::Reset => "reset",
        Fault::ClosedEarly => "closed-early",
        Fault::Truncated => "truncated",
        Fault::ShortBody => "short-body",
        Fault::Refused => "refused",
        Fault::StreamReset => "stream-reset",
        Fault::NoPong => "no-pong",
        Fault::TlsRecord => "tls-record",
        Fault::HeaderTooLarge => "header-too-large",
        Fault::BadStatusLine => "bad-status-line",
        Fault::BadStatus => "bad-status",
        Fault::BadHeader => "bad-header",
        Fault::BadLength => "bad-length",
        Fault::BadChunk => "bad-chunk",
        Fault::BadCoding => "bad-coding",
        Fault::BadFrame => "bad-frame",
        Fault::BadHttp2 => "bad-http2",
        Fault::BadHpack => "bad-hpack",
        Fault::FlowControl => "flow-control",
        Fault::NotHttp2 => "not-http2",
        Fault::NoExtendedConnect => "no-extended-connect",
        Fault::BadUpgrade => "bad-upgrade",
        Fault::BadWebSocket => "bad-websocket",
        Fault::BadText => "bad-text",
        Fault::Surplus => "surplus",
        Fault::NoGrpcStatus => "no-grpc-status",
        Fault::BadMessage => "bad-message",
        Fault::GrpcStatus => "grpc-status",
        Fault::UnexpectedStatus => "unexpected-status",
        Fault::BodyMismatch => "body-mismatch",
        Fault::TooManyRedirects => "too-many-redirects",
        Fault::ExtractMissing => "extract-missing",
        Fault::NotAStream => "not-a-stream",
        Fault::MessageTooLong => "message-too-long",
        Fault::ErrorMessage => "error-message",
        Fault::TruncatedStream => "truncated-stream",
        Fault::ExtractTooLong => "extract-too-long",
        Fault::NoValue => "no-value",
        Fault::UnfitValue => "unfit-value",
        Fault::NoSocket => "no-socket",
        Fault::GivenUp => "given-up",
        Fault::NoDescriptors => "no-descriptors",
        Fault::NoPorts => "no-ports",
        Fault::NoAddress => "no-address",
        Fault::NoBuffers => "no-buffers",
        Fault::Dropped => "dropped",
        Fault::BodyFile => "body-file",
        Fault::Internal => "internal",
    }
}

/// What an error means, short enough for one line of the report.
pub fn sentence(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectRefused => "no server listens at the address",
        Fault::ConnectTimeout => "no connection within the connect timeout",
        Fault::ConnectUnreachable => "the network or the host could not be reached",
        Fault::ConnectReset => "the connection was reset while it was being opened",
        Fault::NoTunnel => "the proxy opened no tunnel to the server",
        Fault::TlsHandshake => "the TLS handshake failed",
        Fault::RequestTimeout => "no complete reply within the timeout",
        Fault::WaitTimeout => "the awaited message of WebSocket did not come",
        Fault::FlowTimeout => "no window for the rest of the body within the timeout",
        Fault::Reset => "the peer reset the connection",
        Fault::ClosedEarly => "the peer closed before the reply's first byte",
        Fault::Truncated => "the peer closed within the reply",
        Fault::ShortBody => "the peer closed before the end of the body",
        Fault::Refused => "the peer refused the stream, unprocessed",
        Fault::StreamReset => "the peer reset the stream",
        Fault::NoPong => "the peer did not answer a ping",
        Fault::TlsRecord => "the peer violated the TLS protocol",
        Fault::HeaderTooLarge => "status line and headers longer than 64 KiB",
        Fault::BadStatusLine => "the reply does not start with a status line",
        Fault::BadStatus => "a status code outside 100 to 599",
        Fault::BadHeader => "a malformed header line",
        Fault::BadLength => "conflicting or malformed Content-Length headers",
        Fault::BadChunk => "malformed chunked encoding",
        Fault::BadCoding => "an unsupported Transfer-Encoding",
        Fault::BadFrame => "not a reply of the echo protocol, or a wrong length",
        Fault::BadHttp2 => "the peer violated HTTP/2",
        Fault::BadHpack => "a header block that cannot be decoded",
        Fault::FlowControl => "the peer violated the flow control of HTTP/2",
        Fault::NotHttp2 => "the peer does not speak HTTP/2",
        Fault::NoExtendedConnect => "the server allows no WebSocket over HTTP/2",
        Fault::BadUpgrade => "a reply with the status 101 that opens no WebSocket",
        Fault::BadWebSocket => "the peer violated WebSocket",
        Fault::BadText => "a text message of WebSocket that is not UTF-8",
        Fault::Surplus => "extra bytes after the reply",
        Fault::NoGrpcStatus => "a reply without a status of gRPC in its trailers",
        Fault::BadMessage => "malformed, missing or surplus messages of gRPC",
        Fault::GrpcStatus => "a status of gRPC that does not count as success",
        Fault::UnexpectedStatus => "a status code that does not count as success",
        Fault::BodyMismatch => "the body is not the expected one",
        Fault::TooManyRedirects => "one more redirect than are followed",
        Fault::ExtractMissing => "the reply lacks the value to extract",
        Fault::NotAStream => "the content type is not text/event-stream",
        Fault::ErrorMessage => "a message in the reply reports an error",
        Fault::TruncatedStream => "the server ended the stream without its last message",
        Fault::MessageTooLong => "a message over the limit (1 MiB; of WebSocket 16 MiB)",
        Fault::ExtractTooLong => "a body over 1 MiB is too long to extract from",
        Fault::NoValue => "not sent: a variable of the request had no value",
        Fault::UnfitValue => "not sent: a filled-in value would break the request",
        Fault::NoSocket => "not sent: the session had no open WebSocket",
        Fault::GivenUp => "not sent: the session had already failed",
        Fault::NoDescriptors => "the meter ran out of file descriptors",
        Fault::NoPorts => "the meter ran out of local ports",
        Fault::NoAddress => "the meter's host has no address to connect from",
        Fault::NoBuffers => "the meter's kernel ran out of buffers or memory",
        Fault::Dropped => "not sent: the meter could not keep up with arrivals",
        Fault::BodyFile => "the file with the body ended early or was unreadable",
        Fault::Internal => "the meter's kernel refused the operation",
    }
}

/// What an error means for the targets of this plan.
pub fn meaning(fault: Fault, plan: &Plan) -> &'static str {
    let is_file = |e: &Endpoint| matches!(e.transport(), Endpoint::Unix { .. });
    match fault {
        Fault::ConnectRefused if plan.endpoints.first().is_some_and(is_file) => {
            "no server listens on the socket, or its file does not exist"
        }
        _ => sentence(fault),
    }
}

/// Why the meter was the bottleneck, and what to do about it.
pub fn reason(reason: &Reason, summary: &Summary) -> String {
    match reason {
        Reason::CpuSaturated { worker, share } => format!(
            "thread {worker} was busy for {} of its time: use {}a lower load",
            units::percent(*share),
            more_threads(summary, " or ")
        ),
        Reason::RateMissed { target, sent } => format!(
            "the sent rate was {}, the target rate {}: use {}a lower rate, or a quieter machine",
            units::rate(*sent),
            units::rate(*target),
            more_threads(summary, ", ")
        ),
        Reason::SendLag { .. } => meter::lag(reason, summary),
        Reason::CpuThrottled { time, share } => format!(
            "the CPU quota of its control group throttled the meter for {}, {} of the run: raise the \
             quota (cpu.max, --cpus), or lower the load",
            units::span(*time),
            units::percent(*share)
        ),
        Reason::CpuStolen { time, share } => format!(
            "the hypervisor stole {} of the CPU time that this machine needed, {} in total: use a \
             quieter host, or dedicated CPUs",
            units::percent(*share),
            units::span(*time)
        ),
        Reason::RunQueueDelay { worker, share, wait } => format!(
            "thread {worker} was ready to run but waited for a CPU {} of the time, {} on average: use \
             a quieter machine, or fewer threads (--threads)",
            units::percent(*share),
            units::span(*wait)
        ),
        Reason::EventLoopStall { worker, share, late, longest } => format!(
            "thread {worker} woke late {} of the time, by {} on average, {} at most: use {}a quieter \
             machine, or a lower load",
            units::percent(*share),
            units::span(*late),
            units::span(*longest),
            more_threads(summary, ", ")
        ),
        Reason::LittlesLawMismatch { counted, timed } => format!(
            "{counted:.3} requests were in flight on average, but by Little's law their times give \
             {timed:.3}: prony lost time or has a defect; please report it"
        ),
        Reason::ResourceExhausted { fault, requests } => exhausted(*fault, *requests, summary),
        Reason::Failures { share, sessions, fault } => failed(*share, *sessions, *fault, summary),
        Reason::TargetUnavailable { share, fault } => unavailable(*share, *fault, &summary.plan),
        Reason::Interrupted => "the user stopped the run early".into(),
        Reason::OnHost { host, reason } => on_host(host, reason, summary),
        Reason::Partial { offered, missing, shards, lost } => {
            hosts::partial(*offered, missing, *shards, lost)
        }
        Reason::UnreadLines { unread, lines } => unread_lines(*unread, *lines),
        Reason::LevelShift(change) => level_shift(change),
        Reason::Autocorrelated { redness } => format!(
            "response times are autocorrelated over a large part of the run (slow fluctuations are {} \
             times as strong as fast ones), so the run is too short to average over them: run much \
             longer (-d)",
            units::three(*redness)
        ),
        Reason::TooFewSamples { percentile, needs, samples } => {
            too_few(*percentile, *needs, *samples, summary)
        }
        Reason::IntervalTooWide { goal, reach } => too_wide(goal, *reach, summary),
    }
}

/// Too few samples for the percentile that was asked for, or for any.
fn too_few(percentile: f64, needs: u64, samples: u64, summary: &Summary) -> String {
    if summary.run.percentile.is_none() {
        let replies = units::counted(samples, "reply is", "replies are");
        let needs = units::count(needs);
        return format!(
            "{replies} too few for any percentile (p50 needs {needs}): run longer (-d), or send more \
             (-n)"
        );
    }
    format!(
        "p{percentile} needs {}, and there are {}: run longer, or choose a lower percentile",
        units::counted(needs, "sample", "samples"),
        units::count(samples)
    )
}

/// The lines of a log whose requests were not sent.
fn unread_lines(unread: u64, lines: u64) -> String {
    format!(
        "{} of the log's lines ({} of {}) could not be read, so their requests were not sent: give \
         the format of the log (--log-format); the report has the first of these lines",
        units::percent(unread as f64 / lines.max(1) as f64),
        units::count(unread),
        units::count(lines)
    )
}

/// The reason of one host.
fn on_host(host: &str, why: &Reason, summary: &Summary) -> String {
    format!("host {host}: {}", reason(why, summary))
}

/// The share of requests and sessions that failed, and the most frequent cause.
fn failed(share: f64, sessions: Option<f64>, fault: Fault, summary: &Summary) -> String {
    let sessions = sessions.map_or_else(String::new, |sessions| {
        format!(" and {} of the sessions", units::percent(sessions))
    });
    let status = unexpected_status(summary)
        .filter(|_| matches!(fault, Fault::UnexpectedStatus | Fault::GrpcStatus));
    let status = status.map_or_else(String::new, |status| format!(" ({})", status_text(status)));
    let (share, name, why) = (units::percent(share), name(fault), meaning(fault, &summary.plan));
    let what = noun(summary);
    let hint = other_protocol(fault, summary).map_or_else(String::new, |said| format!("; {said}"));
    format!("{share} of the {what}{sessions} failed, mostly with {name}{status}: {why}{hint}")
}

/// The most frequent status that does not count as success.
fn unexpected_status(summary: &Summary) -> Option<u16> {
    let success = &summary.plan.expect.statuses;
    let expected = |status| success.iter().any(|&(low, high)| low <= status && status <= high);
    let statuses = summary.main.statuses.iter().filter(|&(&status, _)| !expected(status));
    statuses.max_by_key(|&(_, &n)| n).map(|(&status, _)| status)
}

/// Kinds of failures that are named beside a verdict.
const FAILURES_MAX: usize = 3;

/// The share of requests that failed and the most frequent causes, for the verdict line; `None`
/// if none failed.
pub fn failures(summary: &Summary) -> Option<String> {
    let t = &summary.main;
    let share = t.error_share().filter(|_| t.failed > 0)?;
    let mut faults: Vec<Fault> = Fault::ALL.into_iter().filter(|&f| t.fault(f) > 0).collect();
    faults.sort_by_key(|&f| std::cmp::Reverse(t.fault(f)));
    let rest = faults.split_off(faults.len().min(FAILURES_MAX));
    let kind = |&f: &Fault| format!("{} {}", units::count(t.fault(f)), name(f).replace('-', " "));
    let mut kinds: Vec<String> = faults.iter().map(kind).collect();
    if !rest.is_empty() {
        let others = rest.iter().map(|&f| t.fault(f)).sum();
        kinds.push(format!("{} others", units::count(others)));
    }
    let (share, what) = (units::percent(share), noun(summary));
    Some(format!("{share} of the {what} failed: {}", kinds.join(", ")))
}

/// What the run makes.
pub(crate) fn noun(summary: &Summary) -> &'static str {
    if summary.plan.exchange.is_some() { "exchanges" } else { "requests" }
}

/// Whether the meter lacked processor time.
pub(crate) fn lacked_time(why: &Reason) -> bool {
    match why {
        Reason::OnHost { reason, .. } => lacked_time(reason),
        Reason::ResourceExhausted { .. } | Reason::LittlesLawMismatch { .. } => false,
        why => why.verdict() == Verdict::ClientLimited,
    }
}

/// Advice for a `CLIENT-LIMITED` run against a target on the same machine: the two share its cores,
/// which no other figure of the report shows.
pub fn shared_host(judgment: &Judgment, summary: &Summary) -> Option<String> {
    let here = summary.run.local_target.as_ref()?;
    let by_target = |why: &Reason| lacked_time(why) && !matches!(why, Reason::CpuStolen { .. });
    judgment.reasons.iter().any(by_target).then(|| {
        let cores = units::counted(here.cores.into(), "core", "cores");
        format!(
            "the target runs on this machine ({}) and shares its {cores}: run it on another \
             machine, or give each its own cores (taskset)",
            here.address
        )
    })
}

/// The advice to use more threads, and what separates it from more advice; nothing where threads
/// waited for a processor, or each core that the target leaves has one: there, more of them make it
/// worse.
pub(crate) fn more_threads(summary: &Summary, then: &str) -> String {
    let waits = |reason: &Reason| matches!(reason, Reason::RunQueueDelay { .. });
    let here = summary.run.local_target.as_ref();
    let is_full = here.is_some_and(|here| summary.workers.len() >= here.cores as usize);
    if is_full || summary.verdict().reasons.iter().any(waits) {
        return String::new();
    }
    format!("more threads (--threads){then}")
}

fn too_wide(goal: &Goal, reach: Option<f64>, summary: &Summary) -> String {
    let known = match reach {
        Some(reach) => format!("is known only to {}", units::bar(reach)),
        None => "has no confidence interval".into(),
    };
    let advice = match &summary.run.until {
        Some(until) if until.ended => "samples after the last check widened it: run again",
        _ => "run longer (-d)",
    };
    format!("the goal was {goal}, but the figure {known}: {advice}")
}

fn level_shift(change: &Change) -> String {
    let (what, show): (_, fn(f64) -> String) = match change.figure {
        Figure::Rate => ("the rate", units::rate),
        Figure::P50 => ("the median response time", |ns| units::span(Span(ns as u64))),
        Figure::P90 => ("the p90 of the response time", |ns| units::span(Span(ns as u64))),
    };
    let (from, to) = (show(change.from), show(change.to));
    match change.at {
        Some(at) => format!(
            "{what} shifted from {from} to {to} after {}: find out what changed, and measure \
             before or after it",
            units::span(at)
        ),
        None => format!(
            "{what} drifted from {from} to {to}: warm up longer (--warmup), or find out what \
             grows"
        ),
    }
}

/// What a verdict means for the figures of the report.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "the meter was not the bottleneck",
        Verdict::ClientLimited => "these figures measure this machine as well as the target",
        Verdict::Partial => "a part of the planned load was never offered",
        Verdict::TargetFailed => {
            "half of the requests or more failed, or the target was unavailable"
        }
        Verdict::Interrupted => "the figures cover the run until it was stopped",
        Verdict::NotStationary => "the target changed during the run",
        Verdict::TooShort => "the run has too few samples",
    }
}

/// Why a figure has no confidence interval.
pub fn no_interval(why: NoInterval) -> String {
    match why {
        NoInterval::Empty => "no samples".into(),
        NoInterval::TooFewSamples { needs } => {
            format!("too few samples: it needs {}", units::count(needs))
        }
        NoInterval::TooShort => "the run is shorter than a second".into(),
        NoInterval::Autocorrelated { effective } => format!(
            "latencies close in time are correlated: the effective sample size is {}",
            units::three(effective)
        ),
        NoInterval::Dominated => "a short part of the run decides it alone".into(),
        NoInterval::RateChanges => "the load changes during the run".into(),
        NoInterval::NotRecorded => "not recorded by the version that measured it".into(),
    }
}

/// The bottleneck of the run, in one line.
pub fn bottleneck(bottleneck: &Bottleneck) -> String {
    let in_flight = |n: f64| format!("{n:.1} requests were in flight on average");
    match *bottleneck {
        Bottleneck::Client => "the meter itself (see the verdict)".into(),
        Bottleneck::Network { share } => {
            let each = units::three(100.0 * share);
            format!("the network: {each} retransmissions per 100 requests")
        }
        Bottleneck::Failures => "failures (see the verdict)".into(),
        Bottleneck::TargetRate { failed, waiting } => target_rate(failed, waiting),
        Bottleneck::ConnectionLimit { connections } => format!(
            "the limit of {}: requests waited for one (-c raises it)",
            units::counted(connections.into(), "connection", "connections")
        ),
        Bottleneck::Server { queued: None } => "the target: it fell behind the target rate".into(),
        Bottleneck::Server { queued: Some(Queued { fastest, median }) } => format!(
            "the target: requests queued in it (service time: fastest {}, median {})",
            units::span(fastest),
            units::span(median)
        ),
        Bottleneck::Connections { connections, concurrency } => format!(
            "the {}: {}",
            units::counted(connections.into(), "connection", "connections"),
            in_flight(concurrency)
        ),
        Bottleneck::Pipeline { requests, concurrency } => {
            format!(
                "the pipelines of {} requests in total: {}",
                units::count(requests),
                in_flight(concurrency)
            )
        }
        Bottleneck::StreamLimit { limit, waited } => format!(
            "the target's limit of {} per connection: {} of the requests waited for one (-c opens \
             more connections)",
            units::counted(limit.into(), "stream", "streams"),
            units::percent(waited)
        ),
        Bottleneck::Streams { streams, concurrency } => format!(
            "the {}: {}",
            units::counted(streams, "stream", "streams"),
            in_flight(concurrency)
        ),
        Bottleneck::Window { share } => format!(
            "the target's flow-control windows: bodies waited for them, {} of the service time",
            units::percent(share)
        ),
        Bottleneck::Users { users, concurrency } => format!(
            "the think times of {}: {}",
            units::counted(users.into(), "user", "users"),
            in_flight(concurrency)
        ),
        Bottleneck::BusyUsers { users, concurrency } => format!(
            "the {}: {}",
            units::counted(users.into(), "user", "users"),
            in_flight(concurrency)
        ),
    }
}

/// The longest response time of a run in which requests waited long, for the verdict line.
pub fn longest_wait(bottleneck: &Bottleneck) -> Option<String> {
    let Bottleneck::TargetRate { waiting: Some(waiting), .. } = bottleneck else { return None };
    Some(format!("the longest response took {}", units::span(waiting.longest)))
}

/// The line claims that the target kept up only if no request failed or waited long.
fn target_rate(failed: Option<f64>, waiting: Option<Waiting>) -> String {
    if failed.is_none() && waiting.is_none() {
        return "none: the target kept up with the target rate".to_owned();
    }
    let mut line = "the target rate".to_owned();
    if let Some(Waiting { concurrency, longest }) = waiting {
        let (n, longest) = (units::three(concurrency), units::span(longest));
        line += &format!("; {n} requests were in flight on average, the longest for {longest}");
    }
    if let Some(share) = failed {
        line += &format!("; {} of the requests failed", units::percent(share));
    }
    line
}

fn unavailable(share: f64, fault: Fault, plan: &Plan) -> String {
    let share = units::percent(share);
    let why = meaning(fault, plan);
    format!("no connection could be opened for {share} of the time: {why}")
}

fn exhausted(fault: Fault, requests: u64, summary: &Summary) -> String {
    let requests = units::counted(requests, "request", "requests");
    let descriptors = match summary.run.descriptor_limit {
        0 => String::new(),
        n => format!(" (limit {})", units::count(n)),
    };
    match fault {
        Fault::NoDescriptors => format!(
            "the meter ran out of file descriptors{descriptors} for {requests}: \
             raise `ulimit -n` or lower -c"
        ),
        Fault::NoPorts => format!(
            "the meter ran out of local ports for {requests}: keep connections alive, lower -c, \
             or add addresses with --source"
        ),
        Fault::NoAddress => format!(
            "this host has no address to connect from for {requests}: pass --source only addresses \
             that `ip address` lists; without IPv6, use the target's IPv4 address"
        ),
        Fault::NoBuffers => format!(
            "the meter's kernel ran out of buffers for {requests}: lower -c, \
             or give the machine more memory"
        ),
        Fault::Dropped => format!(
            "the meter could not keep up with the arrivals and dropped {requests} unsent: \
             lower the rate, or use more threads or machines"
        ),
        Fault::BodyFile => format!(
            "a file with a body could not be read to its end for {requests}: do not change it \
             while the load runs"
        ),
        _ => format!(
            "the meter's kernel refused {requests}; the target is not the cause: see the kernel's log"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_those_in_saved_reports() {
        for fault in Fault::ALL {
            let saved = serde_json::to_value(fault).expect("a fault has a name");
            assert_eq!(saved, name(fault));
        }
    }

    #[test]
    fn fault_sentences_are_distinct_and_fit_on_a_line() {
        let sentences: std::collections::BTreeSet<_> = Fault::ALL.map(sentence).into();
        assert_eq!(sentences.len(), Fault::COUNT);
        assert!(sentences.iter().all(|s| s.len() <= 53));
    }
}
