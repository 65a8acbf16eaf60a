//! `cargo xtask soak`: the checks that take hours.
//!
//! `mutants` changes one operator, constant or function body at a time, and runs the tests. A
//! mutant that no test detects shows code without tests. The fast tests run first, the slow ones
//! only for the mutants that the fast ones miss. All of them take days: `--shard` runs one part,
//! `--sample` a number chosen at random.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{self, TEST_PROFILE, cargo, run, target_dir, which};
use crate::{bars, decisions, night, verdicts};

const USAGE: &str = "usage: cargo xtask soak [--list] [--shard K/N | --sample N [--in MODULE]] [STEP...]\n\
     or: cargo xtask soak night [MINUTES]";

/// Which mutants to test.
#[derive(Default)]
struct Chosen<'a> {
    /// One part of N, as cargo-mutants reads it.
    shard: Option<&'a str>,
    /// This many of them, at random; from 1.
    sample: Option<usize>,
    /// Of this module alone, one of [`MUTATED`].
    module: Option<&'a str>,
}

/// The name of a step, its description, and its function.
type Step = (&'static str, &'static str, fn(&Chosen<'_>) -> Result<()>);

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
    (
        "mutants",
        "changes to the code that no test detects; --shard: a part, --sample: some",
        mutants,
    ),
];

/// Comparisons of equal servers per row.
const COMPARISONS: &str = "1000";
/// The version of cargo-mutants.
const CARGO_MUTANTS: &str = "27.1.0";
/// The modules to mutate: those that compute the figures, the schedule, and the engine.
const MUTATED: [&str; 4] = ["record", "schedule", "summary", "engine"];
/// The crates that they belong to.
const MUTATED_CRATES: [&str; 4] = [
    "--package=prony-core",
    "--package=prony-plan",
    "--package=prony-stats",
    "--package=prony-tally",
];
/// Which sample `--sample` takes.
const SEED: u64 = 1;
/// The largest share of the mutants that may survive.
const SURVIVORS_MAX: f64 = 0.05;
/// The timeout of a mutant in seconds, for endless loops. Far more than the tests need: a test that
/// is slow would count as one that has detected the mutant.
const TIMEOUT: &str = "900";

/// `cargo xtask soak`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if let [first, minutes @ ..] = args
        && first == "night"
    {
        return night::main(minutes);
    }
    let mut mutants = Chosen::default();
    let mut chosen = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--list" => {
                for (name, what, _) in STEPS {
                    println!("{name:11} {what}");
                }
                println!(
                    "night       fuzzing, virtual runs, damaged files: in turns, for some hours"
                );
                return Ok(());
            }
            "--shard" => mutants.shard = Some(args.next().context(USAGE)?),
            "--sample" => {
                let number = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
                mutants.sample = Some(number.context("--sample takes a number of mutants from 1")?);
            }
            "--in" => {
                let module = args.next().context(USAGE)?;
                if !MUTATED.contains(&module) {
                    bail!("--in takes one of: {}", MUTATED.join(", "));
                }
                mutants.module = Some(module);
            }
            step if STEPS.iter().any(|(name, ..)| *name == step) => chosen.push(step),
            other => bail!("soak has no step `{other}`\n{USAGE}"),
        }
    }
    if mutants.shard.is_some() && mutants.sample.is_some() {
        bail!("give --shard or --sample, not both");
    }
    let mut failed = Vec::new();
    for (name, what, act) in STEPS {
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        println!("==> {name}: {what}");
        let start = Instant::now();
        // Hours have been spent: the steps that follow say what they can.
        if let Err(e) = act(&mutants) {
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
    let test = ["test", "--locked", "--profile=fast", "-p", "prony-stats", "--lib"];
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

fn mutants(chosen: &Chosen<'_>) -> Result<()> {
    if which("cargo-mutants").is_none() {
        run(&mut cargo(&["install", "--locked", "cargo-mutants", "--version", CARGO_MUTANTS]))?;
    }
    let dir = target_dir()?.join("mutants");
    // Fast: the unit tests of the crate itself.
    let mut some = Vec::new();
    for place in MUTATED.iter().filter(|p| chosen.module.is_none_or(|m| m == **p)) {
        some.push("--file".to_owned());
        some.push(format!("crates/prony-{}/src/{place}/**", home(place)));
    }
    if let Some(shard) = chosen.shard {
        some.extend(["--shard".to_owned(), shard.to_owned()]);
    }
    if let Some(number) = chosen.sample {
        let list = shell::output(cargo(&["mutants", "--list"]).args(MUTATED_CRATES).args(&some))?;
        let all = list.lines().count();
        let names = sample(list.lines(), number, SEED);
        println!("{} of {all} mutants, at random, with seed {SEED}", names.len());
        some.extend(only(names));
    }
    let quick = pass(
        &dir.join("unit"),
        &some,
        &["prony-core", "prony-plan", "prony-stats", "prony-tally"],
        &["--lib"],
    )?;
    if quick.missed.is_empty() {
        return quick.judge(&quick.missed);
    }
    // Slow: the tests in the virtual world, and those of reports.
    let names = only(quick.missed.iter().map(String::as_str));
    let slow = pass(&dir.join("whole"), &names, &["prony-sim", "prony-report", "prony-run"], &[])?;
    quick.judge(&slow.missed)
}

/// The crate of a module, without `prony-`.
fn home(module: &str) -> &'static str {
    match module {
        "summary" => "stats",
        "schedule" => "plan",
        "record" => "tally",
        _ => "core",
    }
}

/// Arguments that choose these mutants.
fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().flat_map(|name| ["--re".to_owned(), format!("^{}$", escaped(name))]).collect()
}

/// This many of the names, at random, but the same ones each time. A smaller sample is part of a
/// larger one.
fn sample<'a>(names: impl Iterator<Item = &'a str>, number: usize, seed: u64) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|name| hash(&format!("{seed} {name}")));
    names.truncate(number);
    names
}

/// FNV-1a, with the last steps of `SplitMix64`: names that differ in their last letters are far
/// apart.
fn hash(text: &str) -> u64 {
    let fnv = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut h = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
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
    let mut command = cargo(&["mutants", "--timeout", TIMEOUT]);
    command.args(MUTATED_CRATES).args(["--baseline", "skip", "--output"]).arg(dir).args(which);
    // As in `TEST_PROFILE`. Without optimization the tests take minutes.
    command.args(["--profile", "release", "--cargo-arg=--config=.cargo/ci.toml"]);
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
    use super::{escaped, hash, sample};

    #[test]
    fn escapes_what_a_regular_expression_reads() {
        assert_eq!(escaped("a.rs:1: replace + with *"), r"a\.rs\:1\: replace \+ with \*");
    }

    #[test]
    fn a_sample_is_the_same_each_time_and_part_of_a_larger_one() {
        let names: Vec<String> = (0..1000).map(|i| format!("a.rs:{i}: replace + with *")).collect();
        let of = |number, seed| sample(names.iter().map(String::as_str), number, seed);
        assert_eq!(of(50, 1), of(100, 1)[..50]);
        assert_ne!(of(50, 1), of(50, 2));
        assert_eq!(of(2000, 1).len(), 1000);
        // Computed by another program.
        assert_eq!(hash("1 a"), 0x61aa_14c4_31ea_d1e9);
    }
}
