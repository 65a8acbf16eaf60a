//! With a known network delay in each direction, an exchange must take twice the delay, plus the
//! time of an exchange without delay.
//!
//! The time without delay depends on whether the processor is idle before the exchange, because the
//! kernel then has to wake it. It is therefore measured back to back and at a thousand exchanges a
//! second, and the expected figure is between the two. The lower limit of every figure is the
//! fastest of all these exchanges.

use anyhow::Result;

use super::{Board, Reports, time_us};

/// The delays of the loopback device in each direction, in microseconds.
const DELAYS_US: [u64; 3] = [200, 1_000, 5_000];
/// Exchanges of a measurement: enough for a p99.
const EXCHANGES: u32 = 1_000;
/// The figures to check, in ascending order.
const FIGURES: [&str; 3] = ["min_ns", "p50_ns", "p99_ns"];
/// The tolerance, as a share of the delay.
const TOLERANCE: f64 = 0.01;

/// A measurement: its name, and the options of its server and client.
struct Measurement {
    name: &'static str,
    server: &'static str,
    client: &'static str,
}

const MEASUREMENTS: [Measurement; 4] = [
    Measurement {
        name: "load, HTTP",
        server: "serve 127.0.0.1:8001",
        client: "http://127.0.0.1:8001/ -c 1",
    },
    Measurement {
        name: "rtt, TCP",
        server: "echo 127.0.0.1:8002 --transport tcp",
        client: "rtt 127.0.0.1:8002",
    },
    Measurement {
        name: "rtt, UDP",
        server: "echo 127.0.0.1:8003 --transport udp",
        client: "rtt 127.0.0.1:8003 --transport udp",
    },
    Measurement {
        name: "rtt, SCTP",
        server: "echo 127.0.0.1:8004 --transport sctp",
        client: "rtt 127.0.0.1:8004 --transport sctp",
    },
];

/// One server at a time: even an idle one would disturb it twenty times a second.
pub(super) fn lines() -> String {
    let mut all = String::new();
    for (i, Measurement { server, client, .. }) in MEASUREMENTS.iter().enumerate() {
        let measure = |name: &str, more: &str| {
            let how = format!("-n {EXCHANGES} {more} --json --accept-invalid --no-progress");
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
    for (i, way) in MEASUREMENTS.iter().enumerate() {
        let mut fastest = f64::INFINITY;
        for figure in FIGURES {
            let reported = |name: &str| {
                let report = reports.json(&format!("delay-{i}-{name}.json"), false)?;
                time_us(&report, "service", figure)
            };
            let (none, rest) = (reported("none")?, reported("rest")?);
            fastest = fastest.min(none).min(rest);
            let shown = figure.trim_end_matches("_ns");
            println!("{:44} {none:12.1}  back to back, {rest:.1} from rest", way.name);
            // The meter updates its gauges 20 times a second, and ends 32 blocks of its series.
            // These turns take 10 us, and are 2 % of the shortest exchanges.
            let delays = if figure == "p99_ns" { &DELAYS_US[1..] } else { &DELAYS_US[..] };
            for &delay in delays {
                let truth = 2.0 * delay as f64;
                let room = truth * TOLERANCE;
                let (least, most) = (truth + fastest - room, truth + none.max(rest) + room);
                let what = format!("{} {truth:.0} us injected, {shown}", way.name);
                board.check(&what, reported(&delay.to_string())?, least, most);
            }
        }
    }
    Ok(())
}
