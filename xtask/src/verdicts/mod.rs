//! `cargo xtask verdicts`: runs with known faults, on a real kernel. None may be called VALID, and
//! nearly all runs without a fault must be.

mod cases;
mod faults;
mod streams;
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
use faults::{Environment, Fault};
use table::Row;

/// How many cases that need little processor time run at the same time.
const CONCURRENT: usize = 5;
/// No case starts after this time.
const TIME_MAX: Duration = Duration::from_secs(45 * 60);
/// The rate of a throttled open loop must take at least this share of a processor.
const BUSY_MIN: f64 = 0.55;
/// How often to try other rates.
const TRIES: usize = 8;

/// `cargo xtask verdicts`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (program, args) = match args[..] {
        ["--program", program, ref rest @ ..] => (Some(program), rest),
        ref all => (None, all),
    };
    let (is_quick, only) = match *args {
        [] => (false, ""),
        ["--quick"] => (true, ""),
        ["--only", only] => (false, only),
        _ => bail!("usage: cargo xtask verdicts [--program FILE] [--quick | --only WORD]"),
    };
    let prony = if let Some(program) = program {
        program.into()
    } else {
        run(&mut cargo(&["build", "--locked", "--quiet", "--profile=fast"]))?;
        target_dir()?.join("fast/prony")
    };
    if is_quick { quick(&prony) } else { whole(&prony, only) }
}

/// The step of `ci`: faulty runs that other load on the machine cannot distort, in less than 20 s,
/// with the program of the step `release`. None may be called VALID.
pub(crate) fn step() -> Result<()> {
    quick(&target_dir()?.join("release/prony"))
}

/// Report the faults that cannot be tested on this machine.
pub(crate) fn report_skipped() {
    for lack in lacks(&Environment::new()) {
        println!("not covered: {lack}");
    }
}

fn lacks(environment: &Environment) -> impl Iterator<Item = &'static str> {
    [environment.lacks(), faults::lacks_networks()].into_iter().flatten()
}

fn quick(prony: &Path) -> Result<()> {
    judge(cases::quick(), prony)
}

fn whole(prony: &Path, only: &str) -> Result<()> {
    let begin = Instant::now();
    // Do not search for rates if no case needs one.
    let is_open = |c: &Case| cases::open_loops().any(|(model, ..)| model == c.model);
    let is_throttled = |c: &Case| matches!(c.fault, Fault::Throttled(..) | Fault::SecondLoad);
    let wants_rates = |c: &Case| is_open(c) && is_throttled(c);
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
    let result = judge(cases, prony);
    println!("total: {} s", begin.elapsed().as_secs());
    result
}

/// Run the cases and report their verdicts.
fn judge(cases: Vec<Case>, prony: &Path) -> Result<()> {
    let begin = Instant::now();
    let environment = Environment::new();
    lacks(&environment).for_each(|lack| println!("NOTE: {lack}"));
    let has_networks = faults::lacks_networks().is_none();
    let can_run = |c: &Case| c.fault != Fault::Ports || has_networks;
    let (concurrent, alone): (Vec<Case>, Vec<Case>) =
        cases.into_iter().filter(can_run).partition(|case| case.can_run_concurrently);
    let mut reported = run_concurrently(&concurrent, prony, &environment)?;
    for case in &alone {
        if begin.elapsed() > TIME_MAX {
            bail!(
                "out of time after {} cases of {}",
                reported.len(),
                concurrent.len() + alone.len()
            );
        }
        reported.push(run_case(case, prony, &environment)?);
    }
    let cases: Vec<Case> = concurrent.into_iter().chain(alone).collect();
    table::print(&cases, &reported);
    table::save(&cases, &reported)?;
    println!("{} cases in {} s", cases.len(), begin.elapsed().as_secs());
    table::check(&cases, &reported)
}

fn run_concurrently(cases: &[Case], prony: &Path, environment: &Environment) -> Result<Vec<Row>> {
    let next = AtomicUsize::new(0);
    let reported = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..CONCURRENT {
            scope.spawn(|| {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(case) = cases.get(i)
                {
                    let verdict = run_case(case, prony, environment);
                    reported.lock().expect("nobody panics with it").insert(i, verdict);
                }
            });
        }
    });
    reported.into_inner().expect("nobody panics with it").into_values().collect()
}

/// Run a case with its own server.
fn run_case(case: &Case, prony: &Path, environment: &Environment) -> Result<Row> {
    let name = case.name();
    // To run out of ports, client and server run in a separate network namespace.
    if case.fault == Fault::Ports {
        return reported(&name, &faults::without_ports(prony, case)?);
    }
    let mut client = environment.command(case.fault, prony);
    let server = case.target.start(&mut case.fault.server(prony), case, &mut client)?;
    client.stdin(Stdio::null());
    client.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let child = client.spawn().with_context(|| format!("{name}: cannot be started"))?;
    let text = faults::inject(case.fault, environment, child)?;
    server.stop()?;
    reported(&name, &text)
}

fn reported(name: &str, text: &str) -> Result<Row> {
    let report = report(text).with_context(|| name.to_owned())?;
    let verdict = &report["verdict"];
    let of = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let reported = Row {
        word: of(&verdict["verdict"]),
        limit: of(&verdict["reasons"][0]["kind"]),
        bound: of(&verdict["bottleneck"]["kind"]),
    };
    println!("{name:58} {:15} {}", reported.word, reported.limit);
    Ok(reported)
}

fn report(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("no report: {text}"))
}

/// Find for each open loop a rate that takes most of a processor, and at which the run is valid.
fn rates(prony: &Path) -> Result<Rates> {
    let mut rates = Rates::new();
    for (model, driver, load) in cases::open_loops() {
        let most = clean(prony, &cases::closed_loop(driver))?["rps"].as_f64().unwrap_or_default();
        let mut rate = 0.6 * most;
        for _ in 0..TRIES {
            let options = format!("{load} --driver {driver}").replace("RATE", &whole_of(rate));
            let report = clean(prony, &options)?;
            let is_valid = report["verdict"]["verdict"] == "VALID";
            let busy = busy(&report["workers"][0]);
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
            println!("NOTE: {model}, {driver}: found no such rate; cases with throttling skipped");
        }
    }
    Ok(rates)
}

fn whole_of(rate: f64) -> String {
    format!("{rate:.0}")
}

/// Run this load for a second without a fault.
fn clean(prony: &Path, load: &str) -> Result<Value> {
    let server = Server::start(&mut Command::new(prony))?;
    let end = ["-t", "1", "-d", "1s", "--json", "--quiet", "--accept-invalid", server.url()];
    let load: Vec<&str> = load.split(' ').chain(end).collect();
    let text = output(&mut program(prony, &load))?;
    server.stop()?;
    report(&text)
}

/// The share of the time in which a worker was busy.
fn busy(meter: &Value) -> f64 {
    let of = |field: &str| meter[field].as_f64().unwrap_or_default();
    (of("cpu_user") + of("cpu_system") - of("spin")) / of("wall").max(1.0)
}
