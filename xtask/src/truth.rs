//! `cargo xtask truth`: prony measures delays that are known, in a guest whose clock counts
//! executed instructions, so that the machine may be as busy as it likes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sctp::GUEST;
use crate::shell::{cargo, run, target_dir};

/// Delays of loopback in each direction, in microseconds. The first shows what an exchange takes
/// without one.
const DELAYS_US: [u64; 3] = [0, 200, 5_000];
/// More than the delay itself that a time may have beside the base, as a share of it.
const TOLERANCE: f64 = 0.01;
/// The figures that are held against the truth.
const FIGURES: [&str; 3] = ["min_ns", "p50_ns", "p99_ns"];
/// Exchanges of a measurement: p99 is told from a thousand on.
const EXCHANGES: u32 = 1_000;

/// A way to measure: its name, how its server is started, and the client. Both get `PRONY`.
struct Way {
    name: &'static str,
    server: &'static str,
    client: &'static str,
}

const WAYS: [Way; 4] = [
    Way {
        name: "load, HTTP",
        server: "$PRONY serve 127.0.0.1:8001",
        client: "$PRONY http://127.0.0.1:8001/ -c 1",
    },
    Way {
        name: "rtt, TCP",
        server: "$PRONY echo 127.0.0.1:8002 --transport tcp",
        client: "$PRONY rtt 127.0.0.1:8002",
    },
    Way {
        name: "rtt, UDP",
        server: "$PRONY echo 127.0.0.1:8003 --transport udp",
        client: "$PRONY rtt 127.0.0.1:8003 --transport udp",
    },
    Way {
        name: "rtt, SCTP",
        server: "$PRONY echo 127.0.0.1:8004 --transport sctp",
        client: "$PRONY rtt 127.0.0.1:8004 --transport sctp",
    },
];

/// `cargo xtask truth`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask truth");
    }
    run(&mut cargo(&["build", "--locked", "--quiet", "--profile=fast"]))?;
    let prony = target_dir()?.join("fast/prony");
    let out = target_dir()?.join("xtask-truth");
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot clear the results of an earlier run")?;
    }
    let mut guest = Command::new(GUEST);
    guest.args(["--virtual-time", "--timeout", "900", "--times", "--add"]).arg(&prony);
    guest.arg("--out").arg(&out).args(["--sh", &lines(&prony)]);
    run(&mut guest).context("the guest needs `apt-get install busybox-static qemu-system-x86`")?;
    let mut wrong = 0;
    for (index, way) in WAYS.iter().enumerate() {
        wrong += check(index, way, &out)?;
    }
    if wrong > 0 {
        bail!("{wrong} figures are not the truth");
    }
    Ok(())
}

/// What the guest's shell does: every way under every delay, reports in `/out`.
fn lines(prony: &Path) -> String {
    let mut all = format!("set -e; PRONY='{}'\n", prony.display());
    for (i, way) in WAYS.iter().enumerate() {
        all += &format!("{} >/dev/null 2>&1 &\nS{i}=$!\n", way.server);
    }
    all += "sleep 1\n";
    for delay in DELAYS_US {
        if delay > 0 {
            all += &format!("tc qdisc replace dev lo root netem delay {delay}us\n");
        }
        for (i, way) in WAYS.iter().enumerate() {
            let client = way.client;
            let json = format!("/out/{i}-{delay}.json");
            all += &format!("{client} -n {EXCHANGES} --json --accept-invalid >{json}\n");
        }
    }
    for i in 0..WAYS.len() {
        all += &format!("kill $S{i}\n");
    }
    all
}

/// Hold a way's figures against the delays; how many are wrong.
fn check(index: usize, way: &Way, out: &Path) -> Result<usize> {
    let figures = |delay: u64| -> Result<Vec<f64>> {
        let path = out.join(format!("{index}-{delay}.json"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let report: Value = serde_json::from_str(&text).context("a report: not JSON")?;
        if report["errors"] != 0 {
            bail!("{}: {} errors", way.name, report["errors"]);
        }
        let service = &report["measurement"]["times"]["service"];
        FIGURES.iter().map(|f| service[f].as_f64().with_context(|| format!("no {f}"))).collect()
    };
    let base = figures(DELAYS_US[0])?;
    let mut wrong = 0;
    for delay in DELAYS_US {
        let truth = 2.0 * 1e3 * delay as f64;
        for (i, figure) in figures(delay)?.into_iter().enumerate() {
            let most = truth * (1.0 + TOLERANCE) + base[i];
            let is_true = (truth..=most).contains(&figure);
            wrong += usize::from(!is_true);
            println!(
                "{:10} {:7.1} us injected, {:3} {:9.1} us{}",
                way.name,
                truth / 1e3,
                FIGURES[i].trim_end_matches("_ns"),
                figure / 1e3,
                if is_true { "" } else { "  WRONG" },
            );
        }
    }
    Ok(wrong)
}
