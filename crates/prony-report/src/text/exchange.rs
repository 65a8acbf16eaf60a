//! What the report tells of round trips alone.

use prony_core::fault::Fault;
use prony_core::plan::{Exchange, Framing};
use prony_core::record::Tally;
use prony_core::summary::Summary;
use prony_core::target::{Carrier, Endpoint};

use super::units;

/// Over what, and to where.
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

/// What is sent there and back.
pub(super) fn messages(exchange: &Exchange, pipeline: u32) -> Vec<String> {
    let bytes = |n: u32| units::counted(u64::from(n), "byte", "bytes");
    let mut told = match exchange.messages.as_slice() {
        [] => Vec::new(),
        [one] => vec![format!("{} there, {} back", bytes(one.request), bytes(one.reply))],
        [first, .., last] => vec![
            format!("{} lengths in turn", exchange.messages.len()),
            format!(
                "{} to {} there, {} back",
                first.request,
                bytes(last.request),
                bytes(last.reply)
            ),
        ],
    };
    told.push(match exchange.framing {
        Framing::Short => "framed as in the ACE tests".to_owned(),
        Framing::Long => "framed with numbers".to_owned(),
    });
    if pipeline > 1 {
        told.push(format!("{} under way at a time", units::count(u64::from(pipeline))));
    }
    if exchange.primers > 0 {
        let primers = u64::from(exchange.primers);
        told.push(format!(
            "{} first",
            units::counted(primers, "unmeasured one", "unmeasured ones")
        ));
    }
    told
}

/// What to look at first where nobody has answered.
pub(super) fn hint(summary: &Summary) -> Option<String> {
    summary.plan.exchange.as_ref()?;
    let t = &summary.main;
    let over = target(summary.plan.endpoints.first()?);
    let over = over.split([' ', ':']).next()?;
    (t.failed > 0 && t.replies == 0)
        .then(|| format!("is there a responder (prony echo --transport {over}), and just there?"))
}

/// What the network did besides carrying messages, and how much round trips differ.
pub(super) fn network(t: &Tally) -> Vec<String> {
    let Some(m) = &t.messages else { return Vec::new() };
    let mut told = Vec::new();
    if let Some(shortest) = t.times.service.min() {
        told.push(format!("shortest {}", units::span(shortest)));
    }
    if let Some(jitter) = m.jitter() {
        told.push(format!("jitter {}", units::span(jitter)));
    }
    let lost = t.fault(Fault::RequestTimeout).saturating_sub(m.late);
    for (n, what) in [
        (lost, "lost"),
        (m.late, "too late"),
        (m.duplicates, "doubled"),
        (m.reordered, "overtaken"),
        (m.foreign, "foreign"),
    ] {
        if n > 0 {
            told.push(format!("{} {what}", units::count(n)));
        }
    }
    told
}
