//! `cargo xtask ci`: all checks, the quickest first.
//!
//! Most steps use all processors. Those that mostly wait, or use only one, run beside others in a
//! process of their own (`beside.rs`): see [`STAGES`].

mod again;
mod beside;
mod readers;
mod times;
mod tools;
mod whole;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::shell::{self, TEST_PROFILE, cargo, run};
use crate::{
    instructions, licenses, options, pictures, python, sctp, spelling, tidy, truth, verdicts,
};
use beside::Beside;
use times::{StepTime, cpu_time};

struct Step {
    name: &'static str,
    what: &'static str,
    act: fn() -> Result<()>,
}

/// Steps that run one after another, and series of steps that run beside them.
struct Stage {
    front: &'static [&'static str],
    beside: &'static [&'static [&'static str]],
    /// Series that get only processor time that nobody else wants.
    idle: &'static [&'static [&'static str]],
}

/// The order of a whole run. The checks that take seconds come first. The end-to-end tests need
/// more time than all others, and wait for half of it: they start as soon as they are compiled,
/// and the compiler has the time that they leave.
const STAGES: [Stage; 3] = [
    // Downloads, beside the compiler.
    Stage {
        front: &["format", "tidy", "licenses", "programs"],
        beside: &[&["tools", "spelling", "packages"]],
        idle: &[],
    },
    Stage {
        front: &["whole"],
        beside: &[],
        idle: &[
            &["compile", "unit"],
            &["release", "wheel", "options", "instructions"],
            &["lints", "docs"],
        ],
    },
    // The nodes of a cluster mostly wait. Virtual machines have clocks of their own.
    Stage {
        front: &["ray"],
        beside: &[&["demo", "python", "verdicts", "suites"]],
        idle: &[&["simulation"], &["sctp"], &["truth"]],
    },
];

const STEPS: [Step; 24] = [
    Step { name: "tools", what: "install the programs that the tests need", act: tools::install },
    Step { name: "packages", what: "install what the Python package needs", act: python::packages },
    Step { name: "format", what: "rustfmt", act: format },
    Step { name: "tidy", what: "the rules of the tree", act: || tidy::main(&[]) },
    Step { name: "spelling", what: "the spelling of every file", act: spelling::step },
    Step { name: "licenses", what: "licenses of all dependencies", act: || licenses::main(&[]) },
    Step {
        name: "programs",
        what: "the end-to-end tests, and the programs that they run",
        act: whole::compile,
    },
    Step { name: "lints", what: "clippy, warnings are errors", act: lints },
    Step { name: "docs", what: "rustdoc, warnings are errors", act: docs },
    Step { name: "compile", what: "all other tests", act: compile },
    Step { name: "unit", what: "unit and property tests, corpora of the fuzzers", act: unit },
    Step { name: "simulation", what: "properties in virtual time", act: simulation },
    Step { name: "suites", what: "golden tests, and those of single crates", act: suites },
    Step { name: "whole", what: "end-to-end tests", act: whole::run },
    Step { name: "release", what: "build the release", act: release },
    Step { name: "wheel", what: "build the Python package", act: python::wheel },
    Step {
        name: "sctp",
        what: "SCTP in a virtual machine, with the kernel's own",
        act: || sctp::step(&TEST_PROFILE),
    },
    Step {
        name: "truth",
        what: "known delays, stalls and losses in a virtual machine",
        act: || truth::step(&TEST_PROFILE),
    },
    Step { name: "options", what: "docs/options.md against --help", act: || options::main(&[]) },
    Step { name: "demo", what: "the README's first command and its pictures", act: demo },
    Step {
        name: "python",
        what: "the Python package: its wheel, built, installed and tested",
        act: python::step,
    },
    Step {
        name: "verdicts",
        what: "runs with a known fault: none may be called VALID",
        act: faulty,
    },
    Step {
        name: "instructions",
        what: "instructions per request, compared with the recorded ones",
        act: || instructions::main(&[]),
    },
    Step { name: "ray", what: "runs on many hosts, on a Ray cluster", act: python::ray },
];

/// `cargo xtask ci`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--list"] => {
            for step in &STEPS {
                println!("{:13} {}", step.name, step.what);
            }
            return Ok(());
        }
        // The process of a stage's other steps.
        [beside::OPTION, times, ref steps @ ..] => return beside::main(steps, Path::new(times)),
        _ => {}
    }
    if let Some(unknown) = args.iter().find(|a| find(a).is_none()) {
        bail!("unknown step `{unknown}`: see `cargo xtask ci --list`");
    }
    let started = Instant::now();
    let cpu_before = cpu_time();
    let mut times = Vec::new();
    again::begin()?;
    if args.is_empty() {
        for stage in &STAGES {
            play(stage, &mut times)?;
        }
    }
    // In our order.
    for step in STEPS.iter().filter(|s| args.contains(&s.name)) {
        times.push(perform(step)?);
    }
    println!("==> all steps done");
    println!("{:13} {:>7}  {:>7}", "", "time", "CPU");
    times.iter().for_each(|time| println!("{time}"));
    println!("{}", StepTime::since("total", started, cpu_before));
    again::report()?;
    spelling::report_skipped();
    sctp::report_skipped();
    truth::report_skipped();
    verdicts::report_skipped();
    python::report_skipped()?;
    readers::report_skipped()
}

fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|s| s.name == name)
}

fn play(stage: &Stage, times: &mut Vec<StepTime>) -> Result<()> {
    let beside = stage.beside.iter().map(|steps| Beside::start(steps, false));
    let idle = stage.idle.iter().map(|steps| Beside::start(steps, true));
    let mut beside: Vec<Beside> = beside.chain(idle).collect::<Result<_>>()?;
    let mut front = || {
        for step in stage.front.iter().filter_map(|name| find(name)) {
            if beside.iter_mut().any(Beside::has_failed) {
                break;
            }
            times.push(perform(step)?);
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
fn perform(step: &Step) -> Result<StepTime> {
    println!("==> {}: {}", step.name, step.what);
    let (start, cpu_before) = (Instant::now(), cpu_time());
    if let Err(e) = (step.act)() {
        let secs = start.elapsed().as_secs();
        bail!(
            "step `{0}` failed after {secs} s: {e:#}\nTo run only this step: cargo xtask ci {0}",
            step.name
        );
    }
    Ok(StepTime::since(step.name, start, cpu_before))
}

fn format() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

/// In the profile of the tests, which needs the same build scripts and procedural macros. Also
/// without gRPC, as in the first build from source.
fn lints() -> Result<()> {
    let all = ["clippy", "--locked", "--workspace", "--quiet"];
    let strict = ["--", "-D", "warnings"];
    run(cargo(&all).args(TEST_PROFILE).arg("--all-targets").args(strict))?;
    run(cargo(&all).args(TEST_PROFILE).arg("--no-default-features").args(strict))
}

fn docs() -> Result<()> {
    let all = ["doc", "--locked", "--workspace", "--no-deps", "--quiet"];
    run(cargo(&all).args(TEST_PROFILE).env("RUSTDOCFLAGS", "-D warnings"))
}

fn compile() -> Result<()> {
    run(tests()?.arg("--no-run"))
}

/// The documentation has no examples in Rust (see `tidy`), so there are none to test. A few of
/// these tests measure times, those of the self-test.
fn unit() -> Result<()> {
    again::tests(&["--"], || {
        let mut command = tests()?;
        command.args(["--lib", "--bins"]);
        Ok(command)
    })
}

/// The integration tests of prony-sim.
const SIMULATION: &str = "simulation";

fn simulation() -> Result<()> {
    run(tests()?.args(["--test", SIMULATION]))
}

/// All other integration tests: golden ones, and those of single crates.
fn suites() -> Result<()> {
    let names = shell::integration_tests()?;
    again::tests(&["--"], || {
        let mut command = tests()?;
        for name in names.iter().filter(|name| ![SIMULATION, whole::NAME].contains(&name.as_str()))
        {
            command.args(["--test", name]);
        }
        command.env("RUST_TEST_THREADS", "3");
        Ok(command)
    })
}

/// The tests of measured times and of real programs: `whole` and `suites`.
pub(crate) fn end_to_end() -> Result<()> {
    whole::run()?;
    suites()
}

/// With `CI=1`, a test fails if a program that it needs is missing; without, it is skipped.
fn tests() -> Result<Command> {
    let mut command = cargo(&["test", "--locked", "--workspace", "--quiet", "--no-fail-fast"]);
    command.args(TEST_PROFILE).env("CI", "1").env("RUST_BACKTRACE", "1");
    readers::set_variables(&mut command)?;
    Ok(command)
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
    fn whole_run_performs_every_step_once() {
        let mut all: Vec<&str> =
            STAGES.iter().flat_map(|s| [&[s.front], s.beside, s.idle].concat().concat()).collect();
        let mut steps: Vec<&str> = STEPS.iter().map(|s| s.name).collect();
        all.sort_unstable();
        steps.sort_unstable();
        assert_eq!(all, steps);
    }
}
