//! A delay of so and so many microseconds in each direction is told as twice that, and what an
//! exchange takes without one.
//!
//! The latter depends on whether it begins from rest, as all do that have a delay to wait for: the
//! kernel then wakes the processor, which now and then costs more. So it is measured both ways,
//! back to back and at a thousand exchanges a second, and the truth lies between the two. That the
//! fastest of them all is the least of any figure leaves the kernel free to do better at waiting.

use anyhow::Result;

use super::{Board, Reports, time_us};

/// Delays of loopback in each direction, in microseconds.
const DELAYS_US: [u64; 2] = [200, 5_000];
/// Exchanges of a measurement: p99 is told from a thousand on.
const EXCHANGES: u32 = 1_000;
/// The figures that are held against the truth, from the least on.
const FIGURES: [&str; 3] = ["min_ns", "p50_ns", "p99_ns"];
/// How far from the truth a figure may lie, as a share of the delay.
const TOLERANCE: f64 = 0.01;

/// A way to measure: its name, how its server is started, and the client.
struct Way {
    name: &'static str,
    server: &'static str,
    client: &'static str,
}

const WAYS: [Way; 4] = [
    Way {
        name: "load, HTTP",
        server: "serve 127.0.0.1:8001",
        client: "http://127.0.0.1:8001/ -c 1",
    },
    Way {
        name: "rtt, TCP",
        server: "echo 127.0.0.1:8002 --transport tcp",
        client: "rtt 127.0.0.1:8002",
    },
    Way {
        name: "rtt, UDP",
        server: "echo 127.0.0.1:8003 --transport udp",
        client: "rtt 127.0.0.1:8003 --transport udp",
    },
    Way {
        name: "rtt, SCTP",
        server: "echo 127.0.0.1:8004 --transport sctp",
        client: "rtt 127.0.0.1:8004 --transport sctp",
    },
];

/// One server at a time: others that only wait would disturb it twenty times a second.
pub(super) fn lines() -> String {
    let mut all = String::new();
    for (i, Way { server, client, .. }) in WAYS.iter().enumerate() {
        let measure = |name: &str, more: &str| {
            let how = format!("-n {EXCHANGES} {more} --json --accept-invalid");
            format!("$PRONY {client} {how} >/out/delay-{i}-{name}.json\n")
        };
        all += &format!("plain\n$PRONY {server} >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n");
        all += &measure("none", "");
        all += &measure("rest", "--rate 1k --precision sleep");
        for delay in DELAYS_US {
            all += &format!("tc qdisc replace dev lo root netem delay {delay}us\n");
            all += &measure(&delay.to_string(), "");
        }
        all += "kill $S; wait $S || true\n";
    }
    all
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    for (i, way) in WAYS.iter().enumerate() {
        let mut fastest = f64::INFINITY;
        for figure in FIGURES {
            let told = |name: &str| {
                let report = reports.json(&format!("delay-{i}-{name}.json"), false)?;
                time_us(&report, "service", figure)
            };
            let (none, rest) = (told("none")?, told("rest")?);
            fastest = fastest.min(none).min(rest);
            let shown = figure.trim_end_matches("_ns");
            println!("{:44} {none:12.1}  back to back, {rest:.1} from rest", way.name);
            for delay in DELAYS_US {
                let truth = 2.0 * delay as f64;
                let room = truth * TOLERANCE;
                let (least, most) = (truth + fastest - room, truth + none.max(rest) + room);
                let what = format!("{} {truth:.0} us injected, {shown}", way.name);
                board.hold(&what, told(&delay.to_string())?, least, most);
            }
        }
    }
    Ok(())
}
