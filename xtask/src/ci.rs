//! `cargo xtask ci`: every check there is, in the order in which failures are cheapest.

mod foreign;
mod tools;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::shell::{self, cargo, run};
use crate::{instructions, licences, options, sctp, tidy, truth, verdicts};

struct Step {
    name: &'static str,
    what: &'static str,
    act: fn() -> Result<()>,
}

const STEPS: [Step; 14] = [
    Step { name: "tools", what: "what the tests need is installed", act: tools::install },
    Step { name: "format", what: "rustfmt", act: format },
    Step { name: "tidy", what: "the rules of the tree", act: || tidy::main(&[]) },
    Step { name: "licences", what: "licences of all dependencies", act: || licences::main(&[]) },
    Step { name: "lints", what: "clippy, warnings are errors", act: lints },
    Step { name: "docs", what: "rustdoc, warnings are errors", act: docs },
    Step { name: "compile", what: "the tests", act: compile },
    Step { name: "unit", what: "unit and property tests, corpora of the fuzzers", act: unit },
    Step { name: "whole", what: "simulation, golden and end-to-end tests", act: whole },
    Step {
        name: "release",
        what: "the program as it is installed; SCTP, and known delays, in guests",
        act: apart,
    },
    Step { name: "options", what: "docs/options.md against --help", act: || options::main(&[]) },
    Step { name: "demo", what: "the README's first command", act: demo },
    Step {
        name: "verdicts",
        what: "runs that are spoilt in known ways: none may be called VALID",
        act: spoilt,
    },
    Step {
        name: "instructions",
        what: "instructions per request against the recorded ones",
        act: || instructions::main(&[]),
    },
];

/// Tests are built near release speed, since they run millions of virtual requests, but with all
/// assertions on.
const PROFILE: &str = "--profile=ci";

/// `cargo xtask ci`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if args == ["--list"] {
        for step in &STEPS {
            println!("{:13} {}", step.name, step.what);
        }
        return Ok(());
    }
    if let Some(unknown) = args.iter().find(|a| !STEPS.iter().any(|s| s.name == **a)) {
        bail!("ci has no step `{unknown}`: `cargo xtask ci --list` names them");
    }
    let begin = Instant::now();
    let mut times = Vec::new();
    for step in STEPS.iter().filter(|s| args.is_empty() || args.iter().any(|a| a == s.name)) {
        println!("==> {}: {}", step.name, step.what);
        let start = Instant::now();
        if let Err(e) = (step.act)() {
            let secs = start.elapsed().as_secs();
            bail!("step `{0}` failed after {secs} s: {e:#}\nAlone: cargo xtask ci {0}", step.name);
        }
        times.push((step.name, start.elapsed()));
    }
    println!("==> all steps done");
    for (name, time) in times {
        println!("{name:13} {}", shown(time));
    }
    println!("{:13} {}", "in all", shown(begin.elapsed()));
    sctp::confess();
    truth::confess();
    verdicts::confess();
    foreign::confess()
}

fn shown(time: Duration) -> String {
    format!("{:4}:{:04.1}", time.as_secs() / 60, time.as_secs_f64() % 60.0)
}

fn format() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

/// In the profile of the tests, for which build scripts and procedural macros are built anyway.
fn lints() -> Result<()> {
    let all = ["clippy", "--locked", "--workspace", "--all-targets", "--quiet", PROFILE];
    run(cargo(&all).args(["--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let all = ["doc", "--locked", "--workspace", "--no-deps", "--quiet", PROFILE];
    run(cargo(&all).env("RUSTDOCFLAGS", "-D warnings"))
}

fn compile() -> Result<()> {
    run(tests()?.arg("--no-run"))
}

fn unit() -> Result<()> {
    run(tests()?.args(["--lib", "--bins"]))?;
    run(tests()?.arg("--doc"))
}

fn whole() -> Result<()> {
    run(tests()?.args(["--test", "*"]))
}

/// `CI=1` tells the tests that a missing program is a failure and no reason to leave something out.
fn tests() -> Result<Command> {
    let mut command =
        cargo(&["test", "--locked", "--workspace", "--quiet", "--no-fail-fast", PROFILE]);
    command.env("CI", "1").env("RUST_BACKTRACE", "1");
    foreign::tell(&mut command)?;
    Ok(command)
}

/// The guests have one processor: the release build has the others meanwhile.
fn apart() -> Result<()> {
    std::thread::scope(|s| {
        let build = s.spawn(release);
        let tests = sctp::step(PROFILE).and_then(|()| truth::step(PROFILE));
        build.join().expect("a build's end")?;
        tests
    })
}

fn release() -> Result<()> {
    shell::prony("release").map(drop)
}

fn spoilt() -> Result<()> {
    release()?;
    verdicts::step()
}

fn demo() -> Result<()> {
    run(Command::new(shell::prony("release")?).arg("demo"))
}
