//! Measures the time to parse a pipelined reply: `cargo bench -p prony-core --bench decode --
//! [MILLIONS] [NAME]`. Without `--bench`, as a test, it parses only a few.

use std::hint::black_box;
use std::time::Instant;

use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;
use prony_proto::proto::h1::{Conn, H1};
use prony_proto::proto::{Carrier, Reply, Sink};

/// Replies in one buffer, as from one read of 16 KiB.
const BATCH: usize = 120;

/// Counts replies and discards them.
#[derive(Default)]
struct Null {
    outstanding: u32,
    checksum: u64,
}

impl Sink for Null {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        (self.outstanding > 0).then_some((RequestId { slot: 0, generation: 0 }, 0))
    }
    fn outstanding(&self) -> u32 {
        self.outstanding
    }
    fn began(&mut self, _: RequestId) {}
    fn wants_body(&self, _: RequestId) -> bool {
        false
    }
    fn body(&mut self, _: RequestId, _: &[u8]) {}
    fn done(&mut self, _: RequestId, reply: &Reply) {
        self.outstanding -= 1;
        let sum = reply.head_bytes + reply.body_bytes + u64::from(reply.status);
        self.checksum = self.checksum.wrapping_mul(31).wrapping_add(sum);
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench times what the core must not")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let millions = args.iter().find_map(|a| a.parse::<f64>().ok()).unwrap_or(20.0);
    let bench = args.iter().any(|a| a == "--bench");
    let rounds = if bench { (millions * 1e6) as usize / BATCH } else { 2 };
    let wanted = |name: &str| {
        let mut names = args.iter().filter(|a| a.parse::<f64>().is_err() && *a != "--bench");
        names.all(|wanted| name.contains(wanted.as_str()))
    };
    for (name, digits, rest) in [
        ("same head, length", 1, LENGTH),
        ("new head each time", 7, LENGTH),
        ("same head, one chunk", 1, CHUNKED),
    ] {
        if !wanted(name) {
            continue;
        }
        let batch = replies(digits, rest);
        let (mut h1, mut conn, mut sink) = (H1::new(&plan()), Conn::default(), Null::default());
        let began = Instant::now();
        for _ in 0..rounds {
            // There is one more outstanding call than replies, as in a full pipeline.
            sink.outstanding = BATCH as u32 + 1;
            let used = h1
                .receive(&mut conn, black_box(&batch), Nanos::ZERO, &mut sink)
                .expect("valid replies");
            assert_eq!((used, sink.outstanding), (batch.len(), 1));
        }
        let n = (rounds * BATCH) as f64;
        let ns = began.elapsed().as_nanos() as f64 / n;
        let bytes = batch.len() / BATCH;
        println!(
            "{name}, {bytes} bytes: {ns:.1} ns/reply, {n} replies, checksum {:016x}",
            sink.checksum
        );
    }
}

/// A plan with one GET.
fn plan() -> Plan {
    let call = CallSpec {
        method: "GET".into(),
        path: "/".to_owned(),
        authority: "h".into(),
        ..CallSpec::default()
    };
    let load = Load::Closed { connections: 1, think: Think::None };
    let stop = Stop { requests: Some(1), ..Stop::default() };
    Plan {
        requests_per_connection: Some(u32::MAX),
        ..Plan::new(vec![Endpoint::Tcp { host: "h".to_owned(), port: 80 }], vec![call], load, stop)
    }
}

const LENGTH: &str = "Content-Length: 13\r\nConnection: keep-alive\r\n\r\nhello, world\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n\
                       d\r\nhello, world\n\r\n0\r\n\r\n";

/// A batch of replies that alternate between this number of dates.
fn replies(digits: usize, rest: &str) -> Vec<u8> {
    let start = "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 01 Jan 2026 00:00:0";
    let reply = |i| format!("{start}{} GMT\r\n{rest}", i % digits);
    (0..BATCH).map(reply).collect::<String>().into_bytes()
}
