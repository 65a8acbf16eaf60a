//! With a packet loss of 1 %, prony must report as many lost exchanges as the kernel dropped
//! packets, and the number must be in a plausible range. For a closed loop over TCP, which
//! retransmits, it must report the network as the bottleneck.

use anyhow::{Context, Result, bail};

use super::{Board, Reports};

const EXCHANGES: u32 = 5_000;
/// The share of packets that are lost, in each direction.
const LOSS: f64 = 0.01;
/// The number of requests over TCP.
const REQUESTS: u32 = 2_000;
const LOSS_TCP: f64 = 0.03;
/// The width of the range in standard deviations: one count in 16,000 is outside.
const DEVIATIONS: f64 = 4.0;

pub(super) fn lines() -> String {
    format!(
        "$PRONY echo 127.0.0.1:8020 --transport udp >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n\
         tc qdisc replace dev lo root netem loss {}%\n\
         $PRONY rtt 127.0.0.1:8020 --transport udp -n {EXCHANGES} --warmup 0 --timeout 20ms --json \
         --accept-invalid >/out/loss.json\n\
         tc -s qdisc show dev lo >/out/loss.txt\n\
         kill $S; wait $S || true\n\
         $PRONY serve 127.0.0.1:8021 --latency 5ms >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n\
         tc qdisc replace dev lo root netem loss {}%\n\
         $PRONY http://127.0.0.1:8021/ -c 4 -n {REQUESTS} --json --accept-invalid \
         >/out/loss-tcp.json\n\
         kill $S; wait $S || true\n",
        LOSS * 100.0,
        LOSS_TCP * 100.0,
    )
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    let report = reports.json("loss.json", true)?;
    let tally = &report["measurement"]["tally"];
    let count = |of: &serde_json::Value| of.as_f64().context("no such count");
    let lost = count(&tally["faults"]["request-timeout"])?;
    let dropped = dropped(&reports.text("loss.txt")?).context("tc reports no dropped packets")?;
    board.check("udp, lost, of dropped packets", lost, dropped, dropped);
    board.check("udp, failed in all", count(&tally["failed"])?, dropped, dropped);
    let n = f64::from(EXCHANGES);
    let share = 1.0 - (1.0 - LOSS).powi(2);
    let room = DEVIATIONS * (n * share * (1.0 - share)).sqrt();
    board.check("udp, lost, by chance", lost, n * share - room, n * share + room);
    network(reports, board)
}

/// Lost requests are retransmitted. If a reply is lost, its acknowledgement is late, and the
/// request may be retransmitted too.
fn network(reports: &Reports, board: &mut Board) -> Result<()> {
    let report = reports.json("loss-tcp.json", false)?;
    let verdict = &report["verdict"];
    let bound = verdict["bottleneck"]["kind"].as_str();
    if bound != Some("network") {
        bail!("limited by the network, but reported as {bound:?}: {verdict}");
    }
    let share = verdict["bottleneck"]["share"].as_f64().context("no share")?;
    let n = f64::from(REQUESTS);
    let room = DEVIATIONS * (n * LOSS_TCP * (1.0 - LOSS_TCP)).sqrt();
    let (least, most) = (n * LOSS_TCP - room, 3.0 * n * LOSS_TCP + room);
    board.check("tcp, segments sent again", share * n, least, most);
    Ok(())
}

/// `... (dropped 103, overlimits 0 requeues 0)`.
fn dropped(text: &str) -> Option<f64> {
    text.split_once("dropped ")?.1.split(',').next()?.parse().ok()
}
