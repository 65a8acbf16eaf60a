//! Figures that the classic report does not have, printed after it. Each line starts with `prony:
//! `.

use std::fmt::Write as _;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_report::words;
use prony_stats::summary::{Figures, QUANTILES, Reason, Summary};
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use super::options::Opts;

/// The lines, with their newlines; an empty one comes first.
pub(super) fn extras(o: &Opts, summary: &Summary) -> String {
    let t = &summary.main;
    let mut out = String::from("\n");
    let mut line = |text: String| {
        out.push_str("prony: ");
        out.push_str(&text);
        out.push('\n');
    };
    for (what, hist) in [
        ("from the schedule to the last byte", &t.times.response),
        ("from the send to the last byte", &t.times.service),
        ("behind the schedule when sent", &t.times.lag),
    ] {
        if hist.count() > 0 {
            line(format!("{what} [ms]:{}", quantiles(hist)));
        }
    }
    let hidden = hidden(o, t);
    if !hidden.is_empty() {
        line(format!("not listed above: {}", hidden.join(", ")));
    }
    line(verdict(summary));
    out
}

/// Every quantile for which the sample is large enough, and the maximum.
fn quantiles(h: &Hist) -> String {
    let ms = |t: Span| t.as_secs_f64() * 1e3;
    let figures = Figures::of(h);
    let mut text = String::new();
    for ((name, _), value) in QUANTILES.iter().zip(figures.quantiles) {
        if let Some(value) = value {
            let _ = write!(text, " {name} {:.3}", ms(value));
        }
    }
    if let Some(largest) = figures.max {
        let _ = write!(text, " largest {:.3}", ms(largest));
    }
    text
}

/// Errors without a name in the classic report.
fn hidden(o: &Opts, t: &Tally) -> Vec<String> {
    let link = |f: Fault| t.connections.fault(f).max(t.fault(f));
    let mut all = Vec::new();
    let mut add = |n: u64, what: &str| {
        if n > 0 {
            all.push(format!("{what} {n}"));
        }
    };
    let short = if o.more.truncated_as_reset { "connreset" } else { "neither replies nor errors" };
    add(link(Fault::ShortBody), &format!("bodies cut off ({short})"));
    add(link(Fault::Truncated), "heads and chunks cut off (connreset)");
    for (fault, what) in [
        (Fault::ConnectUnreachable, "unreachable"),
        (Fault::TlsHandshake, "TLS handshakes failed"),
        (Fault::TlsRecord, "TLS records broken"),
        (Fault::HeaderTooLarge, "headers too long"),
        (Fault::BadStatusLine, "no status line"),
        (Fault::BadStatus, "status outside 100 to 599"),
        (Fault::BadHeader, "bad header lines"),
        (Fault::BadLength, "bad lengths"),
        (Fault::BadChunk, "bad chunks"),
        (Fault::BadCoding, "unknown transfer codings"),
        (Fault::Surplus, "surplus bytes"),
        (Fault::NoBuffers, "no memory"),
        (Fault::Dropped, "dropped unsent"),
        (Fault::Internal, "refused by the kernel"),
    ] {
        add(link(fault), &format!("{what} (other)"));
    }
    add(t.interim, "interim replies");
    add(t.retries, "calls sent again");
    add(t.unfinished, "calls not finished");
    all
}

fn verdict(summary: &Summary) -> String {
    let judgment = summary.verdict();
    if summary.has_what_was_asked(&judgment) {
        let failures = words::failures(summary).map(|failures| format!(" ({failures})"));
        let failures = failures.unwrap_or_default();
        return format!("verdict VALID{failures}: this client was not the limit");
    }
    let reasons = judgment.reasons.iter().map(|reason| match reason {
        Reason::CpuSaturated { share, .. } => {
            format!("a thread was busy for {:.0} % of the time", share * 100.0)
        }
        Reason::RateMissed { target, sent } => {
            format!("the target rate was {target:.1} starts/s, the sent rate {sent:.1}/s")
        }
        Reason::SendLag { percentile: Some(percentile), lag, .. } => {
            let (share, ms) = (100.0 - percentile, lag.as_secs_f64() * 1e3);
            format!("{share:.0} % of the calls were sent {ms:.3} ms late or later")
        }
        Reason::ResourceExhausted { fault, requests } => {
            let what = match fault {
                Fault::NoDescriptors => "file descriptors",
                Fault::NoPorts => "local ports",
                Fault::NoAddress => "local addresses",
                _ => "memory",
            };
            format!("it ran out of {what} for {requests} calls")
        }
        other => words::reason(other, summary),
    });
    let reasons: Vec<_> = reasons.collect();
    format!("verdict {}: {}", judgment.verdict.word(), reasons.join("; "))
}
