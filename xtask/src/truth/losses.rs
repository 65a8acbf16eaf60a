//! Packets are lost, one of a hundred: prony counts as lost what the kernel has dropped, and that
//! is as much as chance allows. Of a closed loop over TCP, where they are sent again, it says that
//! the network was the limit.

use anyhow::{Context, Result, bail};

use super::{Board, Reports};

const EXCHANGES: u32 = 5_000;
/// The share of packets that get lost, in either direction.
const LOSS: f64 = 0.01;
/// Requests over TCP, of which a larger share has to be sent again.
const REQUESTS: u32 = 2_000;
const LOSS_TCP: f64 = 0.03;
/// Standard deviations within which a count lies but once in sixteen thousand times.
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
    let dropped = dropped(&reports.text("loss.txt")?).context("tc tells of no dropped packets")?;
    board.hold("udp, lost, of dropped packets", lost, dropped, dropped);
    board.hold("udp, failed in all", count(&tally["failed"])?, dropped, dropped);
    let n = f64::from(EXCHANGES);
    let share = 1.0 - (1.0 - LOSS).powi(2);
    let room = DEVIATIONS * (n * share * (1.0 - share)).sqrt();
    board.hold("udp, lost, by chance", lost, n * share - room, n * share + room);
    network(reports, board)
}

/// Requests that get lost are sent again; replies that do bring the acknowledgement later, and some
/// requests are then sent again for nothing.
fn network(reports: &Reports, board: &mut Board) -> Result<()> {
    let report = reports.json("loss-tcp.json", false)?;
    let verdict = &report["verdict"];
    let bound = verdict["limited_by"]["bound"].as_str();
    if bound != Some("network") {
        bail!("limited by the network, but told as {bound:?}: {verdict}");
    }
    let share = verdict["limited_by"]["share"].as_f64().context("no share")?;
    let n = f64::from(REQUESTS);
    let room = DEVIATIONS * (n * LOSS_TCP * (1.0 - LOSS_TCP)).sqrt();
    let (least, most) = (n * LOSS_TCP - room, 3.0 * n * LOSS_TCP + room);
    board.hold("tcp, segments sent again", share * n, least, most);
    Ok(())
}

/// `... (dropped 103, overlimits 0 requeues 0)`.
fn dropped(text: &str) -> Option<f64> {
    text.split_once("dropped ")?.1.split(',').next()?.parse().ok()
}
