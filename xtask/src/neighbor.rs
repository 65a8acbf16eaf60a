//! `cargo xtask neighbor`: another program on the machine, and the tests beside it.
//!
//! It takes three quarters of each processor, at random: for some milliseconds, or for a second. So
//! whatever a test assumes about the time that something takes is wrong sooner or later. A test
//! that fails beside it has a defect, or the program has.

use std::fs;
use std::hint;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::ci::{Kind, Tier, failures};
use crate::shell::{output, program};

const USAGE: &str = "\
usage: cargo xtask neighbor [RUNS [SEED]]
  RUNS  how often the end-to-end tests and those of single crates run beside it; without, it is
        there until it is stopped
  SEED  of its times, from 1 (the time of day)
Each run is recorded in docs/reliability/neighbor.json, and in the table of docs/reliability.md, so
that runs can be collected over several days.
";

/// The runs so far, and the page with their table.
const RECORD: &str = "docs/reliability/neighbor.json";
const PAGE: &str = "docs/reliability.md";
/// What surrounds the table.
const BEGIN: &str = "<!-- neighbor: begin -->\n";
const END: &str = "<!-- neighbor: end -->\n";

/// The mean lengths of its work: one of them each time. The pause after it is a third, on average.
const LENGTHS: [Duration; 3] =
    [Duration::from_millis(3), Duration::from_millis(40), Duration::from_millis(500)];

/// `cargo xtask neighbor`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let parse = |n: &String| match n.parse::<u64>() {
        Ok(number) => Ok(number),
        Err(_) => bail!("`{n}` is not a number\n{USAGE}"),
    };
    let number = |i: usize| args.get(i).map(parse).transpose();
    let (runs, seed) = (number(0)?, number(1)?);
    if args.len() > 2 || runs == Some(0) || seed == Some(0) {
        bail!("{USAGE}");
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = seed.unwrap_or(now.context("the clock is before 1970")?.as_secs());
    println!("the neighbor's seed: {seed}");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from) as u64;
        for processor in 1..=processors {
            let (mut random, is_over) = (Random(seed.wrapping_mul(processor)), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    turn(&mut random);
                }
            });
        }
        let result = runs.map(|n| series(n, seed));
        is_over.store(runs.is_some(), Ordering::Relaxed);
        result.unwrap_or(Ok(()))
    })
}

/// This many runs. Each is recorded, whether or not tests fail.
fn series(runs: u64, seed: u64) -> Result<()> {
    let mut failed = 0;
    for n in 1..=runs {
        println!("==> beside the neighbor, run {n}");
        let begun = Instant::now();
        let names = [Kind::Whole, Kind::Suite].map(|kind| failures(kind, Tier::Full));
        let names = names.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let secs = begun.elapsed().as_secs();
        println!("run {n}: {} tests failed, {secs} s", names.len());
        names.iter().for_each(|name| println!("  {name}"));
        failed += u64::from(!names.is_empty());
        record(json!({
            "date": output(&mut program("date", &["--utc", "+%F %R"]))?.trim(),
            "commit": commit()?,
            "seed": seed,
            "seconds": secs,
            "failed": names,
        }))?;
    }
    if failed > 0 { bail!("tests failed in {failed} of {runs} runs") } else { Ok(()) }
}

/// The commit of the tree, with a mark if it was changed since.
fn commit() -> Result<String> {
    let changed = ["--", ".", &format!(":!{RECORD}"), &format!(":!{PAGE}")].map(str::to_owned);
    let hash = output(Command::new("git").args(["rev-parse", "--short=8", "HEAD"]))?;
    let status = output(Command::new("git").args(["status", "--porcelain"]).args(changed))?;
    Ok(format!("{}{}", hash.trim(), if status.is_empty() { "" } else { "+" }))
}

/// Add a run to the record, and write the table anew.
fn record(run: Value) -> Result<()> {
    let text = fs::read_to_string(RECORD).with_context(|| format!("cannot read {RECORD}"))?;
    let mut runs: Vec<Value> = serde_json::from_str(&text).context(RECORD)?;
    runs.push(run);
    let lines: Vec<String> = runs.iter().map(|run| format!("  {run}")).collect();
    fs::write(RECORD, format!("[\n{}\n]\n", lines.join(",\n"))).context(RECORD)?;
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    fs::write(PAGE, with_table(&page, &table(&runs))?).context(PAGE)
}

/// The page with this table in place of its own.
fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE}: no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE}: no {END}"))?;
    Ok([before, BEGIN, table, END, after].concat())
}

/// A row for each run, and how many there were since a test has failed.
fn table(runs: &[Value]) -> String {
    let mut table = "| date (UTC) | commit | minutes | failed |\n|---|---|---|---|\n".to_owned();
    for run in runs {
        let text = |name: &str| run[name].as_str().unwrap_or("?").to_owned();
        let failed = run["failed"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<String> =
            failed.iter().map(|name| format!("`{}`", name.as_str().unwrap_or("?"))).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let minutes = run["seconds"].as_f64().unwrap_or(f64::NAN) / 60.0;
        let row = format!("| {} | {} | {minutes:.1} | {names} |\n", text("date"), text("commit"));
        table.push_str(&row);
    }
    let passed =
        runs.iter().rev().take_while(|run| run["failed"].as_array().is_some_and(Vec::is_empty));
    table
        .push_str(&format!("\nRuns in a row without a failure, at the end: {}.\n", passed.count()));
    table
}

/// Some work, and a pause.
fn turn(random: &mut Random) {
    let length = LENGTHS[random.next() as usize % LENGTHS.len()];
    let end = Instant::now() + length.mul_f64(random.exponential());
    while Instant::now() < end {
        hint::spin_loop();
    }
    thread::sleep(length.mul_f64(random.exponential() / 3.0));
}

/// Knuth's generator: its upper half.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 >> 32
    }

    /// With a mean of 1.
    fn exponential(&mut self) -> f64 {
        -((self.next() as f64 + 0.5) / 2_f64.powi(32)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean() {
        let mut random = Random(7);
        let n = 100_000;
        let mean = (0..n).map(|_| random.exponential()).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn table_counts_the_runs_since_the_last_failure() {
        let run =
            |failed: &[&str]| json!({"date": "d", "commit": "c", "seconds": 90, "failed": failed});
        let table = table(&[run(&[]), run(&["prony/it a::b"]), run(&[]), run(&[])]);
        assert!(table.contains("| d | c | 1.5 | `prony/it a::b` |"), "{table}");
        assert!(table.ends_with("at the end: 2.\n"), "{table}");
        let page = with_table(&["a", BEGIN, "old", END, "b"].concat(), &table).expect("marks");
        assert_eq!(page, ["a", BEGIN, &table, END, "b"].concat());
        assert!(with_table("a", &table).is_err());
    }

    #[test]
    fn page_has_the_table_of_the_record() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |file: &str| fs::read_to_string(root.join(file)).expect("a file");
        let runs: Vec<Value> = serde_json::from_str(&read(RECORD)).expect("JSON");
        let page = read(PAGE);
        assert_eq!(page, with_table(&page, &table(&runs)).expect("marks"));
    }
}
