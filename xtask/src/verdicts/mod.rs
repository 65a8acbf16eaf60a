//! `cargo xtask verdicts`: runs that are spoilt in known ways, for real. None may be called valid,
//! and hardly any of the clean ones between them something else.

mod cases;
mod spoil;
mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::server::Server;
use crate::shell::{cargo, output, program, run, target_dir};
use cases::{Case, Rates};
use spoil::{Holder, Spoil};
use table::Told;

/// Cases that leave the processors alone run so many at a time.
const SIDE_BY_SIDE: usize = 5;
/// No case is begun any more after that time.
const TIME_MAX: Duration = Duration::from_secs(14 * 60);
/// A rate at which an open loop is to be held back must take this share of a processor ...
const BUSY_MIN: f64 = 0.55;
/// ... and be looked for so often at most.
const TRIES: usize = 8;

/// `cargo xtask verdicts`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (is_quick, only) = match args[..] {
        [] => (false, ""),
        ["--quick"] => (true, ""),
        ["--only", only] => (false, only),
        _ => bail!("usage: cargo xtask verdicts [--quick | --only WORD]"),
    };
    run(&mut cargo(&["build", "--locked", "--quiet", "--profile=fast"]))?;
    let prony = target_dir()?.join("fast/prony");
    if is_quick { quick(&prony) } else { whole(&prony, only) }
}

/// The part that no busy machine can mislead, in less than 20 s: spoilt runs, of which none may be
/// called valid. The program is that of `release`.
pub(crate) fn step() -> Result<()> {
    quick(&target_dir()?.join("release/prony"))
}

/// Say what this machine does not allow.
pub(crate) fn confess() {
    for lack in lacks(&Holder::new()) {
        println!("not covered: {lack}");
    }
}

fn lacks(holder: &Holder) -> impl Iterator<Item = &'static str> {
    [holder.lacks(), spoil::lacks_networks()].into_iter().flatten()
}

fn quick(prony: &Path) -> Result<()> {
    judge(cases::quick(), prony)
}

fn whole(prony: &Path, only: &str) -> Result<()> {
    let begin = Instant::now();
    // What can be asked of it without a rate shall not wait for one.
    let wants_rates = |c: &Case| matches!(c.spoil, Spoil::Held(..) | Spoil::SecondLoad);
    let stand_ins: Rates = cases::open_loops().map(|(m, driver, _)| ((m, driver), 1)).collect();
    let wanted = |c: &Case| c.name().contains(only);
    let rates = if cases::all(&stand_ins).iter().any(|c| wanted(c) && wants_rates(c)) {
        rates(prony)?
    } else {
        Rates::new()
    };
    let cases: Vec<Case> = cases::all(&rates).into_iter().filter(wanted).collect();
    if cases.is_empty() {
        bail!("no case has `{only}` in its name");
    }
    let judged = judge(cases, prony);
    println!("{} s in all", begin.elapsed().as_secs());
    judged
}

/// Run them and say what they were called.
fn judge(cases: Vec<Case>, prony: &Path) -> Result<()> {
    let begin = Instant::now();
    let holder = Holder::new();
    lacks(&holder).for_each(|lack| println!("NOTE: {lack}"));
    let has_networks = spoil::lacks_networks().is_none();
    let can = |c: &Case| c.spoil != Spoil::Ports || has_networks;
    let (calm, alone): (Vec<Case>, Vec<Case>) =
        cases.into_iter().filter(can).partition(Case::is_calm);
    let mut told = side_by_side(&calm, prony, &holder)?;
    for case in &alone {
        if begin.elapsed() > TIME_MAX {
            bail!("out of time after {} cases of {}", told.len(), calm.len() + alone.len());
        }
        told.push(judged(case, prony, &holder)?);
    }
    let cases: Vec<Case> = calm.into_iter().chain(alone).collect();
    table::print(&cases, &told);
    table::save(&cases, &told)?;
    println!("{} cases in {} s", cases.len(), begin.elapsed().as_secs());
    table::weigh(&cases, &told)
}

fn side_by_side(cases: &[Case], prony: &Path, holder: &Holder) -> Result<Vec<Told>> {
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
fn judged(case: &Case, prony: &Path, holder: &Holder) -> Result<Told> {
    let name = case.name();
    // What shall run out of ports runs in a network of its own, with its server.
    if case.spoil == Spoil::Ports {
        return told(&name, &spoil::without_ports(prony, case)?);
    }
    let server = Server::start_with(&mut Command::new(prony), &case.serve())?;
    let mut client = holder.command(case.spoil, prony);
    client.args(case.load()).args(["--json", "--quiet"]).arg(server.url()).stdin(Stdio::null());
    client.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let child = client.spawn().with_context(|| format!("{name}: cannot be started"))?;
    let text = spoil::meanwhile(case.spoil, holder, child)?;
    server.stop()?;
    told(&name, &text)
}

fn told(name: &str, text: &str) -> Result<Told> {
    let report = report(text).with_context(|| name.to_owned())?;
    let verdict = &report["verdict"];
    let of = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let told = Told {
        word: of(&verdict["verdict"]),
        limit: of(&verdict["reasons"][0]["limit"]),
        bound: of(&verdict["limited_by"]["bound"]),
    };
    println!("{name:58} {:15} {}", told.word, told.limit);
    Ok(told)
}

fn report(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("no report: {text}"))
}

/// For each open loop a rate that takes most of a processor, and at which nothing holds it back.
fn rates(prony: &Path) -> Result<Rates> {
    let mut rates = Rates::new();
    for (model, driver, load) in cases::open_loops() {
        let most = clean(prony, &cases::closed_loop(driver))?["rps"].as_f64().unwrap_or_default();
        let mut rate = 0.6 * most;
        for _ in 0..TRIES {
            let options = format!("{load} --driver {driver}").replace("RATE", &whole_of(rate));
            let report = clean(prony, &options)?;
            let is_valid = report["verdict"]["verdict"] == "VALID";
            let busy = busy(&report["meters"][0]);
            println!("{model}, {driver}, {rate:.0}/s: valid {is_valid}, busy {:.0} %", busy * 1e2);
            match (is_valid, busy >= BUSY_MIN) {
                (true, true) => {
                    rates.insert((model, driver), rate as u64);
                    break;
                }
                (true, false) => rate *= 1.2,
                (false, _) => rate *= 0.85,
            }
        }
        if !rates.contains_key(&(model, driver)) {
            println!("NOTE: {model}, {driver}: no rate keeps it busy and is kept; not held back");
        }
    }
    Ok(rates)
}

fn whole_of(rate: f64) -> String {
    format!("{rate:.0}")
}

/// A second of that load with nothing in its way.
fn clean(prony: &Path, load: &str) -> Result<Value> {
    let server = Server::start(&mut Command::new(prony))?;
    let end = ["-t", "1", "-d", "1s", "--json", "--quiet", "--accept-invalid", server.url()];
    let load: Vec<&str> = load.split(' ').chain(end).collect();
    let text = output(&mut program(prony, &load))?;
    server.stop()?;
    report(&text)
}

/// The share of its time in which a worker was at work.
fn busy(meter: &Value) -> f64 {
    let of = |field: &str| meter[field].as_f64().unwrap_or_default();
    (of("cpu_user") + of("cpu_system") - of("spin")) / of("wall").max(1.0)
}
