//! The plan that the closed loops of the old tools have in common.

use prony_core::plan::{
    CallSpec, Data, Expect, HttpVersion, Load, Pick, Plan, Shard, Stop, Think, TlsSpec,
};
use prony_core::target::Endpoint;
use prony_core::units::Span;

/// How long a connect may take.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);
/// How long a reply may take.
const TIMEOUT: Span = Span::from_secs(30);

/// One request, sent again and again over so many connections that are kept open; nothing ends it
/// yet, and every whole reply counts as a success.
pub(super) fn closed(endpoint: Endpoint, call: CallSpec, connections: u32) -> Plan {
    Plan {
        endpoints: vec![endpoint],
        calls: vec![call].into(),
        pick: Pick::InTurn,
        sessions: None,
        data: Data::default(),
        names: Vec::new(),
        load: Load::Closed { connections, think: Think::None },
        stop: Stop::default(),
        warmup: Span::ZERO,
        pipeline: 1,
        requests_per_connection: None,
        timeout: TIMEOUT,
        timeout_from_send: false,
        replace_lost: false,
        connect_timeout: CONNECT_TIMEOUT,
        expect: Expect { statuses: vec![(100, 599)], body: None, length: None },
        http: HttpVersion::Http11,
        tls: None,
        seed: 0,
        shard: Shard::WHOLE,
    }
}

/// TLS with whoever answers: ab and wrk look at no certificate.
pub(super) fn unverified() -> Box<TlsSpec> {
    Box::new(TlsSpec { verify: false, ..TlsSpec::default() })
}
