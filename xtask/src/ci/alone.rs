//! `cargo xtask times`: how long each test takes, alone, and how much processor time: what the rule
//! in docs/reliability.md for the tests of the gate needs.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Tier;
use super::suites::{self, Kind};
use super::tier::Listed;
use super::times::cpu_time;

const USAGE: &str = "\
usage: cargo xtask times PROGRAM [WORD]
  PROGRAM  a test program, such as prony/it or prony-core/lib
  WORD     only tests with this in their names
Seconds of processor time, seconds, and the name of each test, the longest first. Those that only
`ci --full` runs are marked with *.
";

/// A test that has run alone.
struct Row {
    cpu: Duration,
    wall: Duration,
    name: String,
    is_listed: bool,
}

/// `cargo xtask times`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (label, word) = match args {
        [label] => (label, ""),
        [label, word] => (label, word.as_str()),
        _ => bail!("{USAGE}"),
    };
    // Before everything is compiled.
    let package = label.split('/').next().unwrap_or_default();
    let is_package = package == "xtask" || Path::new("crates").join(package).is_dir();
    if !label.contains('/') || !is_package {
        bail!("`{label}` is no test program: write CRATE/NAME, such as prony-core/lib\n{USAGE}");
    }
    let programs = suites::all()?;
    let labels = || programs.iter().map(|p| p.label()).collect::<Vec<_>>().join(", ");
    let found = programs.iter().find(|program| program.label() == *label);
    let program = found.with_context(|| format!("no test program {label}: {}", labels()))?;
    let names = suites::names(program)?;
    let listed = Listed::read()?.of(label, &names)?;
    let mut rows = Vec::new();
    for name in names.into_iter().filter(|name| name.contains(word)) {
        let (begun, before) = (Instant::now(), cpu_time());
        let mut test = suites::command(program, Kind::of(program), Tier::Full)?;
        test.args(["--exact", &name]).stdin(Stdio::null()).stdout(Stdio::null());
        let status = test.stderr(Stdio::null()).status().context("cannot start the test")?;
        let (cpu, wall) = (cpu_time().saturating_sub(before), begun.elapsed());
        if !status.success() {
            println!("{name} has failed");
        }
        rows.push(Row { cpu, wall, is_listed: listed.contains(&name), name });
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.cpu));
    for Row { cpu, wall, name, is_listed } in &rows {
        let mark = if *is_listed { "*" } else { " " };
        println!("{:7.2} {:7.2} {mark} {name}", cpu.as_secs_f64(), wall.as_secs_f64());
    }
    let sum = |of: &dyn Fn(&&Row) -> bool| -> f64 {
        rows.iter().filter(of).map(|row| row.cpu.as_secs_f64()).sum()
    };
    let (all, gate) = (sum(&|_| true), sum(&|row| !row.is_listed));
    println!("{} tests: {all:.1} s of processor time, {gate:.1} s in the gate", rows.len());
    Ok(())
}
