//! `cargo xtask soak night`: what needs days, in turns that fit into a night.
//!
//! Each kind of work has an aim, and goes on where it stopped: a turn takes the kind that is
//! farthest from its aim. The results are kept in docs/reliability/night.json, and in the table
//! of docs/reliability.md.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::shell::{TEST_PROFILE, cargo, output, program, target_dir, which};

const USAGE: &str = "\
usage: cargo xtask soak night [MINUTES]
  MINUTES  for how long turns begin (150); the last one ends some minutes later
";

/// The results so far, and the page with their table.
const RECORD: &str = "docs/reliability/night.json";
const PAGE: &str = "docs/reliability.md";
/// What surrounds the table.
const BEGIN: &str = "<!-- night: begin -->\n";
const END: &str = "<!-- night: end -->\n";

/// After how many seconds a turn is stopped, and has failed.
const TURN_MAX: &str = "3600";
/// How long one turn fuzzes, in seconds.
const FUZZING: u64 = 300;
/// How many damaged files of each kind one turn tries.
const DAMAGED: u64 = 10_000;

/// A kind of work.
enum Work {
    /// A fuzz target, in seconds.
    Fuzz(String),
    /// Virtual runs with faults, all with seeds of their own.
    Seeds,
    /// Damaged files of each kind.
    Damages,
}

impl Work {
    fn all() -> Result<Vec<Self>> {
        let targets = fs::read_dir("fuzz/fuzz_targets").context("fuzz/fuzz_targets")?;
        let names = targets.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect::<Result<_>>()?;
        names.sort_unstable();
        let fuzz = names.iter().filter_map(|name| name.strip_suffix(".rs"));
        let fuzz = fuzz.map(|name| Self::Fuzz(name.to_owned()));
        Ok([Self::Seeds, Self::Damages].into_iter().chain(fuzz).collect())
    }

    fn name(&self) -> String {
        match self {
            Self::Fuzz(target) => format!("fuzz {target}"),
            Self::Seeds => "virtual runs".to_owned(),
            Self::Damages => "damaged files of each kind".to_owned(),
        }
    }

    /// What is counted, and how much of it is wanted.
    fn aim(&self) -> (&'static str, u64) {
        match self {
            Self::Fuzz(_) => ("s", 1_800),
            Self::Seeds => ("runs", 1_000_000),
            Self::Damages => ("files", DAMAGED),
        }
    }

    /// One turn, after this many. How much was done, and what failed.
    fn turn(&self, turns: u64) -> Result<(u64, Option<String>)> {
        match self {
            Self::Fuzz(target) => fuzz(target),
            Self::Seeds => seeds(turns),
            Self::Damages => {
                let tests = ["test", "--locked", "-p", "prony", "--test", "it", "damaged::"];
                let mut test = cargo(&tests);
                test.args(TEST_PROFILE).env("PRONY_DAMAGES", DAMAGED.to_string());
                Ok((DAMAGED, failure(&test)?))
            }
        }
    }
}

/// `cargo xtask soak night`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let minutes = match args {
        [] => 150,
        [minutes] => match minutes.parse() {
            Ok(0) | Err(_) => bail!("`{minutes}` is no number of minutes from 1\n{USAGE}"),
            Ok(minutes) => minutes,
        },
        _ => bail!("{USAGE}"),
    };
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let works = Work::all()?;
    let mut failed = Vec::new();
    while Instant::now() < end {
        let record = read()?;
        let share = |work: &Work| {
            let done = record.get(&work.name()).map_or(0, |row| row["done"].as_u64().unwrap_or(0));
            done as f64 / work.aim().1 as f64
        };
        let open = works.iter().filter(|work| share(work) < 1.0);
        let Some(work) = open.min_by(|a, b| share(a).total_cmp(&share(b))) else {
            println!("all aims are reached: remove rows of {RECORD} to begin again");
            break;
        };
        println!("==> {}", work.name());
        let turns = record.get(&work.name()).map_or(0, |row| row["turns"].as_u64().unwrap_or(0));
        let begun = Instant::now();
        let (done, failure) = work.turn(turns)?;
        println!("{}: {done} {}, {} s", work.name(), work.aim().0, begun.elapsed().as_secs());
        failed.extend(failure.iter().map(|_| work.name()));
        add(record, work, done, failure)?;
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Fuzz a target. New inputs stay in the target folder, from which the next turn begins.
fn fuzz(target: &str) -> Result<(u64, Option<String>)> {
    if which("cargo-fuzz").is_none() {
        crate::shell::run(&mut cargo(&["install", "--locked", "cargo-fuzz"]))?;
    }
    let found = target_dir()?.join("night").join(target);
    fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
    let mut fuzz = program("cargo", &["+nightly", "fuzz", "run", target]);
    fuzz.arg(&found).arg(Path::new("fuzz/corpus").join(target));
    fuzz.args(["--", "-print_final_stats=1"]).arg(format!("-max_total_time={FUZZING}"));
    // Fuzzing needs another toolchain than this tree.
    fuzz.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    Ok((FUZZING, failure(&fuzz)?))
}

/// All simulations once, with seeds that no turn has had.
fn seeds(turns: u64) -> Result<(u64, Option<String>)> {
    let count = target_dir()?.join("night/seeds");
    fs::create_dir_all(count.parent().context("it has a folder")?)?;
    fs::write(&count, "").with_context(|| count.display().to_string())?;
    let tests = ["test", "--locked", "--package=prony-sim", "--test=simulation"];
    let mut test = cargo(&tests);
    test.args(TEST_PROFILE)
        .env("PRONY_SEEDS_FROM", (turns + 1).to_string())
        .env("PRONY_SEEDS_COUNT", &count);
    let failure = failure(&test)?;
    let text = fs::read_to_string(&count).with_context(|| count.display().to_string())?;
    Ok((text.lines().filter_map(|line| line.parse::<u64>().ok()).sum(), failure))
}

/// The end of what a command says if it fails, or that it does not end.
fn failure(command: &Command) -> Result<Option<String>> {
    // It stops the command with all that this has started.
    let mut bounded = program("timeout", &[TURN_MAX]);
    bounded.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    let ended = bounded.output().with_context(|| format!("cannot run {command:?}"))?;
    if ended.status.success() {
        return Ok(None);
    }
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    let is_telling = |line: &&str| {
        ["FAILED", "panicked", "SUMMARY", "Test unit written", "the seed was"]
            .iter()
            .any(|word| line.contains(word))
    };
    let telling: Vec<&str> = said.lines().filter(is_telling).take(8).collect();
    let is_late = ended.status.code() == Some(124);
    let otherwise = if is_late { format!("not over after {TURN_MAX} s") } else { "failed".into() };
    Ok(Some(if telling.is_empty() { otherwise } else { telling.join("; ") }))
}

fn read() -> Result<Map<String, Value>> {
    let text = fs::read_to_string(RECORD).with_context(|| format!("cannot read {RECORD}"))?;
    serde_json::from_str(&text).context(RECORD)
}

/// Add a turn to the record, and write the table anew.
fn add(
    mut record: Map<String, Value>,
    work: &Work,
    done: u64,
    failure: Option<String>,
) -> Result<()> {
    let mut row = record.remove(&work.name()).unwrap_or_else(|| json!({"failures": []}));
    let more = |row: &Value, name: &str, n: u64| json!(row[name].as_u64().unwrap_or(0) + n);
    row["done"] = more(&row, "done", done);
    row["turns"] = more(&row, "turns", 1);
    row["aim"] = json!(work.aim().1);
    row["unit"] = json!(work.aim().0);
    row["last"] = json!(output(&mut program("date", &["--utc", "+%F"]))?.trim());
    if let (Some(failure), Some(failures)) = (failure, row["failures"].as_array_mut()) {
        // Without the place of this tree.
        let here = env::current_dir()?.display().to_string();
        failures.push(json!(failure.replace(&here, ".")));
    }
    record.insert(work.name(), row);
    let mut names: Vec<&String> = record.keys().collect();
    names.sort_unstable();
    let lines: Vec<String> =
        names.iter().map(|name| format!("  {}: {}", json!(name), record[*name])).collect();
    fs::write(RECORD, format!("{{\n{}\n}}\n", lines.join(",\n"))).context(RECORD)?;
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    fs::write(PAGE, with_table(&page, &table(&record))?).context(PAGE)
}

/// The page with this table in place of its own.
fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE}: no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE}: no {END}"))?;
    Ok([before, BEGIN, table, END, after].concat())
}

/// A row for each kind of work.
fn table(record: &Map<String, Value>) -> String {
    let mut table =
        "| work | done | aim | failed turns | last (UTC) |\n|---|---|---|---|---|\n".to_owned();
    let mut names: Vec<&String> = record.keys().collect();
    names.sort_unstable();
    for name in names {
        let row = &record[name];
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        let unit = row["unit"].as_str().unwrap_or("");
        let failed = row["failures"].as_array().map_or(0, Vec::len);
        let last = row["last"].as_str().unwrap_or("?");
        table.push_str(&format!(
            "| {name} | {} {unit} | {} | {failed} of {} | {last} |\n",
            number("done"),
            number("aim"),
            number("turns")
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_table_of_the_record() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |file: &str| fs::read_to_string(root.join(file)).expect("a file");
        let record: Map<String, Value> = serde_json::from_str(&read(RECORD)).expect("JSON");
        let page = read(PAGE);
        assert_eq!(page, with_table(&page, &table(&record)).expect("marks"));
    }

    #[test]
    fn table_has_a_row_for_each_kind_of_work() {
        let row = json!({
            "done": 600, "aim": 1_800, "unit": "s", "turns": 2, "failures": ["x"], "last": "d",
        });
        let record = Map::from_iter([("fuzz url".to_owned(), row)]);
        let table = table(&record);
        assert!(table.ends_with("| fuzz url | 600 s | 1800 | 1 of 2 | d |\n"), "{table}");
    }
}
