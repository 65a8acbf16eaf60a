//! The lines of the text report for round trips.

use prony_base::fault::Fault;
use prony_plan::plan::{Exchange, Framing};
use prony_plan::target::{Carrier, Endpoint};
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

use super::units;

/// The transport and the address.
pub(super) fn target(endpoint: &Endpoint) -> String {
    let at = |host: &str, port: &u16| {
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    };
    match endpoint {
        Endpoint::Tcp { host, port } => format!("tcp {}", at(host, port)),
        Endpoint::Inet { over: Carrier::Udp, host, port } => format!("udp {}", at(host, port)),
        Endpoint::Inet { over: Carrier::Mptcp, host, port } => format!("mptcp {}", at(host, port)),
        Endpoint::Inet { over: Carrier::Sctp, host, port } => format!("sctp {}", at(host, port)),
        Endpoint::Inet { over: Carrier::SctpSeqpacket, host, port } => {
            format!("sctp-seqpacket {}", at(host, port))
        }
        Endpoint::Unix { path } => format!("unix:{path}"),
        Endpoint::UnixSeqpacket { path } => format!("unix-seqpacket unix:{path}"),
        Endpoint::Tls { over, .. } => target(over).replacen("tcp", "tls", 1),
    }
}

/// The messages in both directions.
pub(super) fn messages(exchange: &Exchange, pipeline: u32) -> Vec<String> {
    let bytes = |n: u32| units::counted(u64::from(n), "byte", "bytes");
    let mut parts = match exchange.messages.as_slice() {
        [] => Vec::new(),
        [one] => vec![format!("{} sent, {} received", bytes(one.request), bytes(one.reply))],
        [first, .., last] => vec![
            format!("{} lengths, one after the other", exchange.messages.len()),
            format!(
                "{} to {} sent, {} received",
                first.request,
                bytes(last.request),
                bytes(last.reply)
            ),
        ],
    };
    parts.push(match exchange.framing {
        Framing::Short => "framed as in the ACE tests".to_owned(),
        Framing::Long => "framed with numbers".to_owned(),
    });
    if pipeline > 1 {
        parts.push(format!("{} in flight", units::count(u64::from(pipeline))));
    }
    if exchange.warmup_exchanges > 0 {
        let warmup_exchanges = u64::from(exchange.warmup_exchanges);
        parts.push(format!(
            "after {}",
            units::counted(warmup_exchanges, "warm-up exchange", "warm-up exchanges")
        ));
    }
    parts
}

/// Advice if no message had a reply.
pub(super) fn hint(summary: &Summary) -> Option<String> {
    summary.plan.exchange.as_ref()?;
    let t = &summary.main;
    let over = target(summary.plan.endpoints.first()?);
    let over = over.split([' ', ':']).next()?;
    (t.failed > 0 && t.replies == 0)
        .then(|| format!("is there a responder (prony echo --transport {over}) at that address?"))
}

/// The shortest round trip, the jitter, and lost, late, duplicate, reordered and unexpected
/// datagrams.
pub(super) fn network(t: &Tally) -> Vec<String> {
    let Some(m) = &t.messages else { return Vec::new() };
    let mut parts = Vec::new();
    if let Some(shortest) = t.times.service.min() {
        parts.push(format!("shortest {}", units::span(shortest)));
    }
    if let Some(jitter) = m.jitter() {
        parts.push(format!("jitter {}", units::span(jitter)));
    }
    let lost = t.fault(Fault::RequestTimeout).saturating_sub(m.late);
    for (n, what) in [
        (lost, "lost"),
        (m.late, "late"),
        (m.duplicates, "duplicate"),
        (m.reordered, "reordered"),
        (m.unexpected, "unexpected"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", units::count(n)));
        }
    }
    parts
}
