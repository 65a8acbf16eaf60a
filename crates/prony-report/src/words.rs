//! What the core counts, in words: one name and one sentence for each error, and what limited the
//! meter with what to do about it.

use prony_core::fault::Fault;
use prony_core::summary::confidence::{Goal, Lack};
use prony_core::summary::{
    Bound, Change, Figure, Judgement, Limit, Queued, SelfTested, Summary, Verdict, Waiting,
};
use prony_core::units::Span;

use super::units;

/// The name under which a fault is counted in every format.
pub fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectRefused => "connect-refused",
        Fault::ConnectTimeout => "connect-timeout",
        Fault::ConnectUnreachable => "connect-unreachable",
        Fault::ConnectReset => "connect-reset",
        Fault::TlsHandshake => "tls-handshake",
        Fault::RequestTimeout => "request-timeout",
        Fault::Reset => "reset",
        Fault::ClosedEarly => "closed-early",
        Fault::Truncated => "truncated",
        Fault::ShortBody => "short-body",
        Fault::TlsRecord => "tls-record",
        Fault::HeaderTooLarge => "header-too-large",
        Fault::BadStatusLine => "bad-status-line",
        Fault::BadStatus => "bad-status",
        Fault::BadHeader => "bad-header",
        Fault::BadLength => "bad-length",
        Fault::BadChunk => "bad-chunk",
        Fault::BadCoding => "bad-coding",
        Fault::BadFrame => "bad-frame",
        Fault::Surplus => "surplus",
        Fault::UnexpectedStatus => "unexpected-status",
        Fault::BodyMismatch => "body-mismatch",
        Fault::ExtractMissing => "extract-missing",
        Fault::ExtractTooLong => "extract-too-long",
        Fault::NoValue => "no-value",
        Fault::UnfitValue => "unfit-value",
        Fault::GivenUp => "given-up",
        Fault::NoDescriptors => "no-descriptors",
        Fault::NoPorts => "no-ports",
        Fault::NoAddress => "no-address",
        Fault::NoBuffers => "no-buffers",
        Fault::Dropped => "dropped",
        Fault::Internal => "internal",
    }
}

/// What a fault means, short enough for one line of the report.
pub fn sentence(fault: Fault) -> &'static str {
    match fault {
        Fault::ConnectRefused => "nobody listens at the address",
        Fault::ConnectTimeout => "no connection within the connect timeout",
        Fault::ConnectUnreachable => "the network or the host could not be reached",
        Fault::ConnectReset => "the connection was reset while it was being opened",
        Fault::TlsHandshake => "the TLS handshake failed",
        Fault::RequestTimeout => "no whole reply within the timeout",
        Fault::Reset => "the peer reset the connection",
        Fault::ClosedEarly => "the peer closed before the first byte of the reply",
        Fault::Truncated => "the peer closed inside the reply",
        Fault::ShortBody => "the peer closed before the whole body was there",
        Fault::TlsRecord => "what came is not what TLS allows",
        Fault::HeaderTooLarge => "status line and headers over 64 KiB",
        Fault::BadStatusLine => "bytes where a status line should be",
        Fault::BadStatus => "a status outside 100 to 599",
        Fault::BadHeader => "a header line that is none",
        Fault::BadLength => "content lengths that differ or are no number",
        Fault::BadChunk => "a chunk of the body was not framed as it must be",
        Fault::BadCoding => "a transfer coding that was not asked for",
        Fault::BadFrame => "no reply of the echo protocol, or of another length",
        Fault::Surplus => "more bytes than the reply was to have",
        Fault::UnexpectedStatus => "a status that does not count as success",
        Fault::BodyMismatch => "a body that is not as expected",
        Fault::ExtractMissing => "a reply without the value that was to be extracted",
        Fault::ExtractTooLong => "a body over 1 MiB, too long to extract from",
        Fault::NoValue => "not sent: a variable of the request had no value",
        Fault::UnfitValue => "not sent: a filled-in value would break the request",
        Fault::GivenUp => "given up, its session having failed",
        Fault::NoDescriptors => "the meter had no file descriptor left",
        Fault::NoPorts => "the meter had no local port left",
        Fault::NoAddress => "the meter's host has no address to connect from",
        Fault::NoBuffers => "the meter's kernel had no buffer or memory left",
        Fault::Dropped => "not sent: the meter could not keep up with arrivals",
        Fault::Internal => "the meter's kernel refused for a reason of its own",
    }
}

/// Why the meter was the bottleneck, and what to do about it.
pub fn limit(limit: &Limit, summary: &Summary) -> String {
    match limit {
        Limit::Busy { worker, share } => format!(
            "thread {worker} was busy for {} of its time: use more threads (--threads) \
             or a lower load",
            units::percent(*share)
        ),
        Limit::Rate { asked, achieved } => format!(
            "only {} of {} were sent in time: use more threads (--threads), a lower rate, \
             or a quieter machine",
            units::rate(*achieved),
            units::rate(*asked)
        ),
        Limit::Lag { p99, response_p50 } => lag(*p99, *response_p50, summary),
        Limit::Throttled { time, share } => format!(
            "a quota of its control group stopped the meter for {}, {} of the run: raise the quota \
             (cpu.max, --cpus), or lower the load",
            units::span(*time),
            units::percent(*share)
        ),
        Limit::Stolen { time, share } => format!(
            "the host took {} of the processor time that there was work for, {} in all: use a \
             quieter host, or dedicated processors",
            units::percent(*share),
            units::span(*time)
        ),
        Limit::Waited { worker, share, wait } => format!(
            "thread {worker} was ready to run but waited for a processor for {} of its time, {} on \
             average: use a quieter machine, or fewer threads (--threads)",
            units::percent(*share),
            units::span(*wait)
        ),
        Limit::Stalled { worker, share, late, longest } => format!(
            "thread {worker} woke late {} of the time, by {} on average, {} at most: use a quieter \
             machine, more threads (--threads), or a lower load",
            units::percent(*share),
            units::span(*late),
            units::span(*longest)
        ),
        Limit::Audit { counted, timed } => format!(
            "{counted:.3} requests were under way on average, but their times add up to \
             {timed:.3}: time was lost, or prony has a defect; please report it"
        ),
        Limit::RanOut { fault, requests } => {
            let requests = units::counted(*requests, "request", "requests");
            ran_out(*fault, &requests, summary)
        }
        Limit::Failed { share, sessions, fault } => failed(*share, *sessions, *fault, summary),
        Limit::Gone { share, fault } => gone(*share, *fault),
        Limit::Stopped => "the user ended the run before its time".into(),
        Limit::Changed(change) => changed(change),
        Limit::Correlated { redness } => format!(
            "response times hang together over a good part of the run (the slowest waves in them \
             are {} times as strong as faster ones), so that it is like a single one of them: run \
             much longer (-d)",
            units::three(*redness)
        ),
        Limit::Short { percentile, needs, samples } => format!(
            "p{percentile} needs {} and there are {}: run longer, or ask for a lower percentile",
            units::counted(*needs, "sample", "samples"),
            units::count(*samples)
        ),
        Limit::Loose { goal, reach } => loose(goal, *reach, summary),
    }
}

/// That most requests failed, or sessions, and of what.
fn failed(share: f64, sessions: Option<f64>, fault: Fault, summary: &Summary) -> String {
    let sessions = sessions.map_or_else(String::new, |sessions| {
        format!(" and {} of the sessions", units::percent(sessions))
    });
    let status = unexpected_status(summary).filter(|_| fault == Fault::UnexpectedStatus);
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    let (share, name, why) = (units::percent(share), name(fault), sentence(fault));
    format!("{share} of the requests{sessions} failed, mostly with {name}{status}: {why}")
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

/// How many requests failed and of what, for the line of a verdict that other words leave at
/// `VALID`.
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
    Some(format!("{} of the requests failed: {}", units::percent(share), kinds.join(", ")))
}

/// The likely cause of a meter without time, which none of its own figures shows.
pub fn shared_host(judgement: &Judgement, summary: &Summary) -> Option<String> {
    let here = summary.run.target_here.as_ref()?;
    let of_time = |limit: &Limit| {
        limit.verdict() == Verdict::ClientLimited
            && !matches!(limit, Limit::RanOut { .. } | Limit::Audit { .. } | Limit::Stolen { .. })
    };
    judgement.reasons.iter().any(of_time).then(|| {
        let cores = units::counted(here.cores.into(), "core", "cores");
        format!(
            "the target runs on this machine ({}) and shares its {cores}: run it on another \
             machine, or give each its own cores (taskset)",
            here.address
        )
    })
}

/// What goes out together waits for as long as was chosen; what is not much later than that is owed
/// to nothing else.
fn lag(p99: Span, response_p50: Span, summary: &Summary) -> String {
    let advice = match summary.run.grain {
        Some(grain) if p99 <= grain + grain / 4 => format!(
            "--precision {grain} lets what is due wait for so long: choose a finer one, or auto"
        ),
        _ => "use more threads (--threads), a lower rate, or a quieter machine".into(),
    };
    format!(
        "the meter sent late: send lag p99 {} against a median response of {}: {advice}",
        units::span(p99),
        units::span(response_p50)
    )
}

fn loose(goal: &Goal, reach: Option<f64>, summary: &Summary) -> String {
    let known = match reach {
        Some(reach) => format!("is known to {} only", units::bar(reach)),
        None => "has no interval".into(),
    };
    let advice = match &summary.run.until {
        Some(until) if until.ended => "what came after the last look widened it: run it again",
        _ => "run longer (-d)",
    };
    format!("{goal} was asked for, and it {known}: {advice}")
}

fn changed(change: &Change) -> String {
    let (what, tell): (_, fn(f64) -> String) = match change.figure {
        Figure::Rate => ("the rate", units::rate),
        Figure::P50 => ("the median response time", |ns| units::span(Span(ns as u64))),
        Figure::P90 => ("the p90 of the response time", |ns| units::span(Span(ns as u64))),
    };
    let (from, to) = (tell(change.from), tell(change.to));
    match change.at {
        Some(at) => format!(
            "{what} stepped from {from} to {to} after {}: find out what changed, and measure \
             before it or after it",
            units::span(at)
        ),
        None => format!(
            "{what} drifted from {from} to {to}: warm up for longer (--warmup), or find out what \
             grows"
        ),
    }
}

/// What a verdict means for the figures; of a valid run, for the meter.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "the meter had time and means to spare",
        Verdict::ClientLimited => "these figures measure this machine as well as the target",
        Verdict::TargetFailed => {
            "the target failed for half of the run or more, or was unavailable"
        }
        Verdict::Interrupted => "the figures are those until then",
        Verdict::NotStationary => "the target was not the same all along",
        Verdict::TooShort => "the sample is too small for what was asked of it",
    }
}

/// Why a figure has no confidence interval.
pub fn lack(lack: Lack) -> String {
    match lack {
        Lack::Empty => "nothing was measured".into(),
        Lack::Samples { needs } => format!("too few times, it needs {}", units::count(needs)),
        Lack::Short => "the run is shorter than a second".into(),
        Lack::Dependent { independent } => format!(
            "the times hang together: they count for {} independent ones",
            units::three(independent)
        ),
        Lack::NotKept => "not kept by the version that measured it".into(),
    }
}

/// What the last self-test on the run's host came to, in one line.
pub fn self_test(tested: &SelfTested) -> String {
    let SelfTested { started_unix, host, kernel, proofs, held, passed, changed } = tested;
    let date = units::date(*started_unix);
    let day = date.split(' ').next().unwrap_or_default();
    if !changed.is_empty() {
        return format!(
            "of {day} is stale ({changed} changed since): `prony selftest` makes it anew"
        );
    }
    let word = if *passed { "passed" } else { "failed" };
    format!("{word} on {day} on this host ({host}, Linux {kernel}): {held} of {proofs} proofs held")
}

/// What limited the run, in one line.
pub fn bound(bound: &Bound) -> String {
    let under_way = |n: f64| format!("{n:.1} requests were under way on average");
    match *bound {
        Bound::Client => "the meter itself, as the verdict says".into(),
        Bound::Network { share } => {
            let share = units::percent(share);
            format!("the network: a segment was sent again for {share} of the requests")
        }
        Bound::Failures => "failures: half of the requests or more did not succeed".into(),
        Bound::AskedRate { failed, waiting } => asked_rate(failed, waiting),
        Bound::Cap { connections } => format!(
            "the cap of {}: requests waited for one (-c raises it)",
            units::counted(connections.into(), "connection", "connections")
        ),
        Bound::Server { queued: None } => "the target: it fell behind the asked rate".into(),
        Bound::Server { queued: Some(Queued { fastest, median }) } => format!(
            "the target: requests waited in it for others (the fastest took {}, the median {})",
            units::span(fastest),
            units::span(median)
        ),
        Bound::Connections { connections, concurrency } => format!(
            "the {}: {}",
            units::counted(connections.into(), "connection", "connections"),
            under_way(concurrency)
        ),
        Bound::Window { requests, concurrency } => {
            format!(
                "the pipelines, which hold {}: {}",
                units::count(requests),
                under_way(concurrency)
            )
        }
        Bound::Users { users, concurrency } => format!(
            "the pauses and replies of {}: {}",
            units::counted(users.into(), "user", "users"),
            under_way(concurrency)
        ),
    }
}

/// That the target kept up is said only where it did: nothing failed, and nobody waited long.
fn asked_rate(failed: Option<f64>, waiting: Option<Waiting>) -> String {
    let mut line = "the asked rate".to_owned();
    if failed.is_none() && waiting.is_none() {
        line += ": the target kept up with it";
    }
    if let Some(Waiting { concurrency, longest }) = waiting {
        let (n, longest) = (units::three(concurrency), units::span(longest));
        line += &format!("; {n} requests were waiting on average, the longest {longest}");
    }
    if let Some(share) = failed {
        line += &format!("; {} of the requests failed", units::percent(share));
    }
    line
}

fn gone(share: f64, fault: Fault) -> String {
    let share = units::percent(share);
    let why = sentence(fault);
    format!("for {share} of the time there was no connection to ask by, because of this: {why}")
}

fn ran_out(fault: Fault, requests: &str, summary: &Summary) -> String {
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
            "this host has no address to connect from for {requests}: give --source only \
             addresses that `ip address` lists here, and where there is no IPv6, use the target's \
             IPv4 address"
        ),
        Fault::NoBuffers => format!(
            "the meter's kernel ran out of buffers for {requests}: lower -c, \
             or give the machine more memory"
        ),
        Fault::Dropped => format!(
            "the meter could not keep up with the arrivals and dropped {requests} unsent: \
             lower the rate, or use more threads or machines"
        ),
        _ => format!(
            "the meter's kernel refused {requests} for a reason that is not the target's: \
             see its log"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_saved_results() {
        for fault in Fault::ALL {
            let saved = serde_json::to_value(fault).expect("a fault has a name");
            assert_eq!(saved, name(fault));
        }
    }

    #[test]
    fn every_fault_has_a_sentence_of_its_own_that_fits_on_a_line() {
        let sentences: std::collections::BTreeSet<_> = Fault::ALL.map(sentence).into();
        assert_eq!(sentences.len(), Fault::COUNT);
        assert!(sentences.iter().all(|s| s.len() <= 53));
    }
}
