//! `cargo xtask verdicts`: runs that are spoilt in known ways, for real. None may be called valid.
//!
//! The clean ones among them say how often the meter cries wolf; where other programs want the
//! processors, too, what it says of them may well be true, so such alarms are counted apart.

mod cases;
mod spoil;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::server::Server;
use crate::shell::{cargo, run, target_dir};
use cases::Case;
use spoil::{Holder, Spoil};

/// Cases that leave the processors alone run so many at a time.
const SIDE_BY_SIDE: usize = 5;
/// Clean runs that may be called anything but valid for another reason than the machine's.
const ALARMS_MAX: f64 = 0.02;
/// What other programs on the machine may do to the meter.
const OF_THE_MACHINE: [&str; 7] =
    ["busy", "rate", "lag", "waited", "stalled", "stolen", "throttled"];

/// What has become of a case.
struct Verdict {
    word: String,
    /// The first reason.
    limit: String,
}

/// `cargo xtask verdicts`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let filter = match args {
        [] => "",
        [filter] => filter,
        _ => bail!("usage: cargo xtask verdicts [FILTER]"),
    };
    run(&mut cargo(&["build", "--locked", "--quiet", "--profile=fast"]))?;
    let prony = target_dir()?.join("fast/prony");
    let begin = Instant::now();
    let holder = Holder::new();
    println!("held back by {}", holder.means());
    let all: Vec<Case> = cases::all().into_iter().filter(|c| c.name().contains(filter)).collect();
    let (calm, alone): (Vec<Case>, Vec<Case>) = all.into_iter().partition(Case::is_calm);
    let mut told = side_by_side(&calm, &prony, &holder)?;
    for case in &alone {
        told.push(judged(case, &prony, &holder)?);
    }
    let cases: Vec<&Case> = calm.iter().chain(&alone).collect();
    table(&cases, &told);
    println!("{} cases in {} s", cases.len(), begin.elapsed().as_secs());
    weigh(&cases, &told)
}

fn side_by_side(cases: &[Case], prony: &Path, holder: &Holder) -> Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let told = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(case) = cases.get(i)
                {
                    let verdict = judged(case, prony, holder);
                    told.lock().expect("nobody panics with it").insert(i, verdict);
                }
            });
        }
    });
    told.into_inner().expect("nobody panics with it").into_values().collect()
}

/// Run a case against a server of its own.
fn judged(case: &Case, prony: &Path, holder: &Holder) -> Result<Verdict> {
    let name = case.name();
    // What shall run out of ports runs in a network of its own, with its server.
    if case.spoil == Spoil::Ports {
        return told(&name, &spoil::without_ports(prony, case)?);
    }
    let mut command = Command::new(prony);
    let server = Server::start_with(&mut command, &case.serve())?;
    let mut client = holder.command(case.spoil, prony);
    client.args(case.load()).arg(server.url()).stdin(Stdio::null());
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = client.spawn().with_context(|| format!("{name}: cannot be started"))?;
    let text = spoil::meanwhile(case.spoil, holder, child)?;
    server.stop()?;
    told(&name, &text)
}

fn told(name: &str, text: &str) -> Result<Verdict> {
    let report: Value =
        serde_json::from_str(text).with_context(|| format!("{name}: no report: {text}"))?;
    let verdict = &report["verdict"];
    let of = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let told =
        Verdict { word: of(&verdict["verdict"]), limit: of(&verdict["reasons"][0]["limit"]) };
    println!("{name:58} {:15} {}", told.word, told.limit);
    Ok(told)
}

/// How often each kind was called what.
fn table(cases: &[&Case], told: &[Verdict]) {
    let mut kinds: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (case, verdict) in cases.iter().zip(told) {
        *kinds.entry(case.kind()).or_default().entry(&verdict.word).or_default() += 1;
    }
    println!();
    for (kind, words) in kinds {
        let words: Vec<String> = words.iter().map(|(word, n)| format!("{n} {word}")).collect();
        println!("{kind:34} {}", words.join(", "));
    }
}

fn weigh(cases: &[&Case], told: &[Verdict]) -> Result<()> {
    let (mut wrong, mut clean, mut alarms, mut machine) = (0, 0, 0, 0);
    for (case, verdict) in cases.iter().zip(told) {
        let is_valid = verdict.word == "VALID";
        if case.spoil != Spoil::None || case.expects_trouble() {
            wrong += usize::from(is_valid);
            continue;
        }
        clean += 1;
        if OF_THE_MACHINE.contains(&verdict.limit.as_str()) {
            machine += 1;
        } else {
            alarms += usize::from(!is_valid);
        }
    }
    let spoilt = cases.len() - clean;
    println!("{spoilt} spoilt: {wrong} called VALID");
    println!("{clean} clean: {alarms} false alarms, {machine} held back by this machine");
    if wrong > 0 {
        bail!("{wrong} spoilt runs were called VALID");
    }
    if alarms as f64 > ALARMS_MAX * clean as f64 {
        bail!("{alarms} of {clean} clean runs were called something else than VALID");
    }
    Ok(())
}
