//! `cargo xtask ci`: all checks, the quickest first.

mod readers;
mod tools;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::shell::{self, cargo, run};
use crate::{instructions, licenses, options, python, sctp, spelling, tidy, truth, verdicts};

struct Step {
    name: &'static str,
    what: &'static str,
    act: fn() -> Result<()>,
}

const STEPS: [Step; 16] = [
    Step { name: "tools", what: "install the programs that the tests need", act: tools::install },
    Step { name: "format", what: "rustfmt", act: format },
    Step { name: "tidy", what: "the rules of the tree", act: || tidy::main(&[]) },
    Step { name: "spelling", what: "the spelling of every file", act: spelling::step },
    Step { name: "licenses", what: "licenses of all dependencies", act: || licenses::main(&[]) },
    Step { name: "lints", what: "clippy, warnings are errors", act: lints },
    Step { name: "docs", what: "rustdoc, warnings are errors", act: docs },
    Step { name: "compile", what: "the tests", act: compile },
    Step { name: "unit", what: "unit and property tests, corpora of the fuzzers", act: unit },
    Step { name: "whole", what: "simulation, golden and end-to-end tests", act: whole },
    Step {
        name: "release",
        what: "build the release; test SCTP and known delays in virtual machines",
        act: release_and_guests,
    },
    Step { name: "options", what: "docs/options.md against --help", act: || options::main(&[]) },
    Step { name: "demo", what: "the README's first command", act: demo },
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
];

/// Tests run millions of virtual requests, so this profile optimizes, and keeps assertions.
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
        bail!("unknown step `{unknown}`: see `cargo xtask ci --list`");
    }
    let started = Instant::now();
    let mut times = Vec::new();
    for step in STEPS.iter().filter(|s| args.is_empty() || args.iter().any(|a| a == s.name)) {
        println!("==> {}: {}", step.name, step.what);
        let start = Instant::now();
        if let Err(e) = (step.act)() {
            let secs = start.elapsed().as_secs();
            bail!(
                "step `{0}` failed after {secs} s: {e:#}\nTo run only this step: cargo xtask ci {0}",
                step.name
            );
        }
        times.push((step.name, start.elapsed()));
    }
    println!("==> all steps done");
    for (name, time) in times {
        println!("{name:13} {}", shown(time));
    }
    println!("{:13} {}", "total", shown(started.elapsed()));
    spelling::report_skipped();
    sctp::report_skipped();
    truth::report_skipped();
    verdicts::report_skipped();
    python::report_skipped()?;
    readers::report_skipped()
}

fn shown(time: Duration) -> String {
    format!("{:4}:{:04.1}", time.as_secs() / 60, time.as_secs_f64() % 60.0)
}

fn format() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

/// In the profile of the tests, which needs the same build scripts and procedural macros.
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

/// With `CI=1`, a test fails if a program that it needs is missing; without, it is skipped.
fn tests() -> Result<Command> {
    let mut command =
        cargo(&["test", "--locked", "--workspace", "--quiet", "--no-fail-fast", PROFILE]);
    command.env("CI", "1").env("RUST_BACKTRACE", "1");
    readers::set_variables(&mut command)?;
    Ok(command)
}

/// Build the release while the virtual machines run: each uses only one processor.
fn release_and_guests() -> Result<()> {
    std::thread::scope(|s| {
        let build = s.spawn(release);
        let tests = sctp::step(PROFILE).and_then(|()| truth::step(PROFILE));
        build.join().expect("the build thread does not panic")?;
        tests
    })
}

fn release() -> Result<()> {
    shell::prony("release").map(drop)
}

fn faulty() -> Result<()> {
    release()?;
    verdicts::step()
}

fn demo() -> Result<()> {
    run(Command::new(shell::prony("release")?).arg("demo"))
}
