//! `cargo xtask ci`: all checks, the quickest first.
//!
//! Most steps use all processors. Those that mostly wait, or use only one, run beside others in a
//! process of their own (`beside.rs`): see [`GATE`] and [`FULL`].

mod alone;
mod beside;
mod readers;
mod suites;
mod tier;
mod times;
mod tools;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::shell::{self, TEST_PROFILE, cargo, run};
use crate::{
    instructions, licenses, options, pictures, python, recipes, sctp, spelling, tidy, truth,
    verdicts,
};
use beside::Beside;
use times::{StepTime, cpu_time};

pub(crate) use alone::main as test_times;
pub(crate) use suites::{Kind, failures};
pub(crate) use tier::Tier;

struct Step {
    name: &'static str,
    what: &'static str,
    act: fn(Tier) -> Result<()>,
}

/// Steps that run one after another, and series of steps that run beside them.
struct Stage {
    front: &'static [&'static str],
    beside: &'static [&'static [&'static str]],
    /// Series that get only processor time that nobody else wants.
    idle: &'static [&'static [&'static str]],
}

impl Stage {
    fn steps(&self) -> Vec<&'static str> {
        [&[self.front], self.beside, self.idle].concat().concat()
    }
}

/// The option of a run of everything.
const FULL_OPTION: &str = "--full";

/// The gate: what catches nearly all mistakes, within 15 min and 1,500 s of processor time, from an
/// empty folder. The end-to-end tests mostly wait: they start as soon as they are compiled, and the
/// compiler has the time that they leave.
const GATE: [Stage; 2] = [
    // Downloads, beside the compiler.
    Stage {
        front: &["format", "tidy", "licenses", "programs"],
        beside: &[&["tools", "spelling"]],
        idle: &[],
    },
    Stage {
        front: &["whole"],
        beside: &[],
        idle: &[&["compile", "unit", "suites", "simulation"], &["lints", "options"]],
    },
];

/// Everything but what takes hours.
const FULL: [Stage; 3] = [
    Stage {
        front: &["format", "tidy", "licenses", "programs"],
        beside: &[&["tools", "readers", "spelling", "packages"]],
        idle: &[],
    },
    Stage {
        front: &["whole"],
        beside: &[],
        idle: &[
            &["compile", "unit"],
            &["release", "wheel", "options", "recipes", "instructions"],
            &["lints", "variants", "docs"],
        ],
    },
    // The nodes of a cluster mostly wait. Virtual machines have clocks of their own.
    Stage {
        front: &["ray"],
        beside: &[&["demo", "python", "verdicts", "suites"]],
        idle: &[&["simulation"], &["sctp"], &["truth"]],
    },
];

const STEPS: [Step; 27] = [
    Step { name: "tools", what: "install the programs that the tests need", act: tools::install },
    Step { name: "readers", what: "install readers of our formats", act: |_| readers::install() },
    Step {
        name: "packages",
        what: "install what the Python package needs",
        act: |_| python::packages(),
    },
    Step { name: "format", what: "rustfmt", act: |_| format() },
    Step { name: "tidy", what: "the rules of the tree", act: |_| tidy::main(&[]) },
    Step { name: "spelling", what: "the spelling of every file", act: |_| spelling::step() },
    Step { name: "licenses", what: "licenses of all dependencies", act: |_| licenses::main(&[]) },
    Step {
        name: "programs",
        what: "the end-to-end tests, and the programs that they run",
        act: |_| suites::compile_whole(),
    },
    Step { name: "lints", what: "clippy, warnings are errors", act: |_| lints("--all-targets") },
    Step {
        name: "variants",
        what: "clippy without features, as in the first build from source",
        act: |_| lints("--no-default-features"),
    },
    Step { name: "docs", what: "rustdoc, warnings are errors", act: |_| docs() },
    Step { name: "compile", what: "all other tests", act: |_| suites::compile() },
    Step {
        name: "unit",
        what: "unit and property tests, corpora of the fuzzers",
        act: |tier| suites::run(Kind::Unit, tier),
    },
    Step {
        name: "simulation",
        what: "properties in virtual time",
        act: |tier| suites::run(Kind::Simulation, tier),
    },
    Step {
        name: "suites",
        what: "golden tests, and those of single crates",
        act: |tier| suites::run(Kind::Suite, tier),
    },
    Step { name: "whole", what: "end-to-end tests", act: |tier| suites::run(Kind::Whole, tier) },
    Step { name: "release", what: "build the release", act: |_| release() },
    Step { name: "wheel", what: "build the Python package", act: |_| python::wheel() },
    Step {
        name: "sctp",
        what: "SCTP in a virtual machine, with the kernel's own",
        act: |_| sctp::step(&TEST_PROFILE),
    },
    Step {
        name: "truth",
        what: "known delays, stalls and losses in a virtual machine",
        act: |_| truth::step(&TEST_PROFILE),
    },
    Step {
        name: "options",
        what: "docs/options.md against --help",
        act: |_| options::check(&suites::prony()?),
    },
    Step {
        name: "recipes",
        what: "the recipes of CONTRIBUTING.md, applied to a copy of the tree",
        act: |_| recipes::main(&[]),
    },
    Step { name: "demo", what: "the README's first command and its pictures", act: |_| demo() },
    Step {
        name: "python",
        what: "the Python package: its wheel, built, installed and tested",
        act: |_| python::step(),
    },
    Step {
        name: "verdicts",
        what: "runs with a known fault: none may be called VALID",
        act: |_| faulty(),
    },
    Step {
        name: "instructions",
        what: "instructions per request, compared with the recorded ones",
        act: |_| instructions::main(&[]),
    },
    Step { name: "ray", what: "runs on many hosts, on a Ray cluster", act: |_| python::ray() },
];

/// `cargo xtask ci`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    let is_full = args.first() == Some(&FULL_OPTION);
    if is_full {
        args.remove(0);
    }
    let tier = if is_full { Tier::Full } else { Tier::Gate };
    match args[..] {
        ["--list"] => {
            for step in &STEPS {
                let place = if in_gate(step.name) { "" } else { " (--full)" };
                println!("{:13} {}{place}", step.name, step.what);
            }
            return Ok(());
        }
        // The process of a stage's other steps.
        [beside::OPTION, times, ref steps @ ..] => {
            return beside::main(steps, tier, Path::new(times));
        }
        _ => {}
    }
    if let Some(unknown) = args.iter().find(|a| find(a).is_none()) {
        bail!("unknown step `{unknown}`: see `cargo xtask ci --list`");
    }
    let started = Instant::now();
    let cpu_before = cpu_time();
    let mut times = Vec::new();
    if args.is_empty() {
        let stages: &[Stage] = if is_full { &FULL } else { &GATE };
        for stage in stages {
            play(stage, tier, &mut times)?;
        }
    }
    // In our order.
    for step in STEPS.iter().filter(|s| args.contains(&s.name)) {
        times.push(perform(step, tier)?);
    }
    println!("==> all steps done");
    println!("{:13} {:>7}  {:>7}", "", "time", "CPU");
    times.iter().for_each(|time| println!("{time}"));
    println!("{}", StepTime::since("total", started, cpu_before));
    spelling::report_skipped();
    if !is_full {
        let steps: Vec<&str> = STEPS.iter().map(|s| s.name).filter(|name| !in_gate(name)).collect();
        println!(
            "left to `cargo xtask ci --full`: {}, the tests in {}",
            steps.join(", "),
            tier::LIST
        );
        return Ok(());
    }
    sctp::report_skipped();
    truth::report_skipped();
    verdicts::report_skipped();
    python::report_skipped()?;
    readers::report_skipped()
}

fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|s| s.name == name)
}

fn in_gate(name: &str) -> bool {
    GATE.iter().any(|stage| stage.steps().contains(&name))
}

fn play(stage: &Stage, tier: Tier, times: &mut Vec<StepTime>) -> Result<()> {
    let beside = stage.beside.iter().map(|steps| Beside::start(steps, tier, false));
    let idle = stage.idle.iter().map(|steps| Beside::start(steps, tier, true));
    let mut beside: Vec<Beside> = beside.chain(idle).collect::<Result<_>>()?;
    let mut front = || {
        for step in stage.front.iter().filter_map(|name| find(name)) {
            if beside.iter_mut().any(Beside::has_failed) {
                break;
            }
            times.push(perform(step, tier)?);
        }
        Ok(())
    };
    let result: Result<()> = front();
    if let Err(e) = &result {
        let others = [stage.beside, stage.idle].concat().concat();
        eprintln!("{e:#}\nThe steps beside it are ending: {}", others.join(", "));
    }
    // Wait for all of them, whether or not one has failed.
    let others: Vec<_> = beside.into_iter().map(Beside::wait).collect();
    result?;
    for other in others {
        times.extend(other?);
    }
    Ok(())
}

/// Perform a step, and return how long it took.
fn perform(step: &Step, tier: Tier) -> Result<StepTime> {
    println!("==> {}: {}", step.name, step.what);
    let (start, cpu_before) = (Instant::now(), cpu_time());
    if let Err(e) = (step.act)(tier) {
        let secs = start.elapsed().as_secs();
        let option = if tier == Tier::Full { " --full" } else { "" };
        bail!(
            "step `{0}` failed after {secs} s: {e:#}\n\
             To run only this step: cargo xtask ci{option} {0}",
            step.name
        );
    }
    Ok(StepTime::since(step.name, start, cpu_before))
}

fn format() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

/// In the profile of the tests, which needs the same build scripts and procedural macros.
fn lints(of: &str) -> Result<()> {
    let all = ["clippy", "--locked", "--workspace", "--quiet"];
    run(cargo(&all).args(TEST_PROFILE).args([of, "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let all = ["doc", "--locked", "--workspace", "--no-deps", "--quiet"];
    run(cargo(&all).args(TEST_PROFILE).env("RUSTDOCFLAGS", "-D warnings"))
}

fn release() -> Result<()> {
    shell::prony("release").map(drop)
}

fn faulty() -> Result<()> {
    release()?;
    verdicts::step()
}

fn demo() -> Result<()> {
    let prony = shell::prony("release")?;
    run(Command::new(&prony).arg("demo"))?;
    pictures::check(&prony)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_run_performs_every_step_once_and_the_gate_some() {
        let mut all: Vec<&str> = FULL.iter().flat_map(Stage::steps).collect();
        let mut steps: Vec<&str> = STEPS.iter().map(|s| s.name).collect();
        all.sort_unstable();
        steps.sort_unstable();
        assert_eq!(all, steps);
        let mut gate: Vec<&str> = GATE.iter().flat_map(Stage::steps).collect();
        let length = gate.len();
        gate.sort_unstable();
        gate.dedup();
        assert!(gate.len() == length && gate.iter().all(|name| find(name).is_some()), "{gate:?}");
    }
}
