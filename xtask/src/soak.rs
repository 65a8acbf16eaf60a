//! `cargo xtask soak`: the checks that take hours.
//!
//! `mutants` changes one operator, constant or function body at a time, and runs the tests. A
//! mutant
//! that no test detects shows code without tests. The fast tests run first, the slow ones only for
//! the mutants that the fast ones miss.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{self, TEST_PROFILE, cargo, run, target_dir, which};
use crate::{bars, decisions, verdicts};

const USAGE: &str = "usage: cargo xtask soak [--list] [--shard K/N] [STEP...]";

/// The name of a step, its description, and its function with the argument of `--shard`.
type Step = (&'static str, &'static str, fn(Option<&str>) -> Result<()>);

const STEPS: [Step; 8] = [
    ("seeds", "all tests with SLOW=1: more seeds, longer loads", |_| seeds()),
    ("bars", "how often confidence intervals cover the true value", |_| bars::main(&[])),
    ("capacity", "300 searches for a capacity at each target", |_| capacity()),
    ("comparisons", "false alarms and power of comparisons: PRONY_COMPARISONS per row", |_| {
        comparisons()
    }),
    ("same-server", "100 comparisons of a real server with itself, 10 with a slower one", |_| {
        decisions::same_server()
    }),
    ("servers", "the capacity of nginx and haproxy, or what limits it", |_| decisions::servers()),
    ("verdicts", "every run with a known fault", |_| verdicts::main(&[])),
    ("mutants", "changes to the code that no test detects; --shard runs one part in N", mutants),
];

/// Comparisons of equal servers per row.
const COMPARISONS: &str = "1000";
/// The version of cargo-mutants.
const CARGO_MUTANTS: &str = "27.1.0";
/// The modules to mutate: those that compute the figures, and the schedule.
const MUTATED: [&str; 3] = ["record", "schedule", "summary"];
/// The largest share of the mutants that may survive.
const SURVIVORS_MAX: f64 = 0.05;
/// The timeout of a mutant, for endless loops.
const TIMEOUT: &str = "120";

/// `cargo xtask soak`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut shard = None;
    let mut chosen = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--list" => {
                for (name, what, _) in STEPS {
                    println!("{name:11} {what}");
                }
                return Ok(());
            }
            "--shard" => shard = Some(args.next().context(USAGE)?),
            step if STEPS.iter().any(|(name, ..)| *name == step) => chosen.push(step),
            other => bail!("soak has no step `{other}`\n{USAGE}"),
        }
    }
    let mut failed = Vec::new();
    for (name, what, act) in STEPS {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        println!("==> {name}: {what}");
        let start = Instant::now();
        // Hours have been spent: the steps that follow say what they can.
        if let Err(e) = act(shard) {
            println!("step `{name}` failed: {e:#}");
            failed.push(name);
        }
        println!("{name}: {} min", start.elapsed().as_secs() / 60);
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

fn seeds() -> Result<()> {
    let tests = ["test", "--locked", "--workspace", "--no-fail-fast"];
    run(cargo(&tests).args(TEST_PROFILE).env("SLOW", "1"))
}

fn capacity() -> Result<()> {
    let test = ["test", "--locked", "--profile=fast", "-p", "prony-core", "--lib"];
    let mut bars = cargo(&test);
    let bars = bars.args(["capacity::tests", "--", "--nocapture", "--test-threads", "1"]);
    run(bars.env("PRONY_CAPACITY", "300 900000"))
}

/// The tables of docs/compare.md.
fn comparisons() -> Result<()> {
    let number = env::var("PRONY_COMPARISONS").unwrap_or_else(|_| COMPARISONS.to_owned());
    let mut study = shell::simulations();
    let tests = ["comparisons::study", "comparisons::cost", "--nocapture", "--test-threads", "1"];
    run(study.arg("--").args(tests).env("PRONY_COMPARISONS", number))
}

fn mutants(shard: Option<&str>) -> Result<()> {
    if which("cargo-mutants").is_none() {
        run(&mut cargo(&["install", "--locked", "cargo-mutants", "--version", CARGO_MUTANTS]))?;
    }
    let dir = target_dir()?.join("mutants");
    // Fast: the unit tests of the crate itself.
    let mut files = Vec::new();
    for place in MUTATED {
        files.push("--file".to_owned());
        files.push(format!("crates/prony-core/src/{place}/**"));
    }
    if let Some(shard) = shard {
        files.extend(["--shard".to_owned(), shard.to_owned()]);
    }
    let quick = pass(&dir.join("unit"), &files, &["prony-core"], &["--lib"])?;
    if quick.missed.is_empty() {
        return quick.judge(&quick.missed);
    }
    // Slow: the tests in the virtual world, and those of reports.
    let names: Vec<String> = quick
        .missed
        .iter()
        .flat_map(|name| ["--re".to_owned(), format!("^{}$", escaped(name))])
        .collect();
    let slow = pass(&dir.join("whole"), &names, &["prony-sim", "prony-report", "prony-run"], &[])?;
    quick.judge(&slow.missed)
}

/// What one pass over some mutants has found.
struct Found {
    /// Mutants that could be built.
    viable: usize,
    missed: BTreeSet<String>,
}

impl Found {
    /// Print the survivors; too many of them are an error.
    fn judge(&self, survivors: &BTreeSet<String>) -> Result<()> {
        for name in survivors {
            println!("survived: {name}");
        }
        let share = survivors.len() as f64 / self.viable.max(1) as f64;
        println!("{} of {} mutants survived: {:.1} %", survivors.len(), self.viable, share * 100.0);
        if share > SURVIVORS_MAX {
            bail!("more than {:.0} % of the mutants survived", SURVIVORS_MAX * 100.0);
        }
        Ok(())
    }
}

fn pass(dir: &Path, which: &[String], packages: &[&str], tests: &[&str]) -> Result<Found> {
    fs::create_dir_all(dir)?;
    let mut command = cargo(&["mutants", "--package", "prony-core", "--timeout", TIMEOUT]);
    command.args(["--baseline", "skip", "--output"]).arg(dir).args(which);
    command.args(["--test-package", &packages.join(",")]).arg("--").args(tests);
    // Its exit status says that mutants were missed, which is what we want to read.
    command.status().context("cannot run cargo mutants")?;
    let list = |name: &str| lines(&dir.join("mutants.out").join(name));
    let missed = list("missed.txt")?;
    let viable = missed.len() + list("caught.txt")?.len() + list("timeout.txt")?.len();
    if viable == 0 {
        bail!("no mutant could be built: see {}", dir.display());
    }
    Ok(Found { viable, missed })
}

fn lines(file: &PathBuf) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("no {}", file.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A regular expression that matches that text alone.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && c != ' ' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn escapes_what_a_regular_expression_reads() {
        assert_eq!(escaped("a.rs:1: replace + with *"), r"a\.rs\:1\: replace \+ with \*");
    }
}
