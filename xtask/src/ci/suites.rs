//! The test programs, and which of their tests run. Other steps compile beside them, and cargo lets
//! nobody into a folder in which it compiles: so the programs are compiled first, and run without
//! cargo. A test that fails has failed: nothing runs twice.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::readers;
use super::tier::{Listed, Tier};
use crate::built::{Built, Program};
use crate::shell::{TEST_PROFILE, cargo, output, program};

/// The name of the end-to-end tests in each crate. They form three queues, in each of which one
/// test runs at a time: those of measured times, those that mostly wait, and all others.
const WHOLE: &str = "it";
/// Enough threads that none of the queues is empty while another one is long.
const WHOLE_THREADS: &str = "32";
/// The integration tests of prony-sim.
const SIMULATION: &str = "simulation";

/// Kinds of test programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Unit and property tests.
    Unit,
    /// In virtual time.
    Simulation,
    /// End-to-end tests.
    Whole,
    /// All other integration tests: golden ones, and those of single crates.
    Suite,
}

impl Kind {
    pub(super) fn of(program: &Program) -> Self {
        match (program.kind.as_str(), program.name.as_str()) {
            ("test", WHOLE) => Self::Whole,
            ("test", SIMULATION) => Self::Simulation,
            ("test", _) => Self::Suite,
            _ => Self::Unit,
        }
    }
}

/// Compile the end-to-end tests, and the programs that they run.
pub(super) fn compile_whole() -> Result<()> {
    whole().map(drop)
}

/// Compile all test programs.
pub(super) fn compile() -> Result<()> {
    let labels: Vec<String> = all()?.iter().map(Program::label).collect();
    Listed::read()?.check(&labels)
}

/// Run the test programs of one kind.
pub(super) fn run(kind: Kind, tier: Tier) -> Result<()> {
    let failed = failures(kind, tier)?;
    if failed.is_empty() {
        return Ok(());
    }
    let names: String = failed.iter().map(|name| format!("\n  {name}")).collect();
    bail!("{} tests failed:{names}", failed.len())
}

/// Run the test programs of one kind, and return the names of the tests that have failed, after
/// their programs.
pub(crate) fn failures(kind: Kind, tier: Tier) -> Result<Vec<String>> {
    let programs = if kind == Kind::Whole { whole()? } else { all()? };
    let listed = Listed::read()?;
    let mut failed = Vec::new();
    for program in programs.iter().filter(|program| Kind::of(program) == kind) {
        let names = names(program)?;
        let left_out = match tier {
            Tier::Gate => listed.of(&program.label(), &names)?,
            Tier::Full => Vec::new(),
        };
        let all = names.len() - left_out.len();
        println!("{}: {all} tests, {} left to --full", program.label(), left_out.len());
        let mut command = command(program, kind, tier)?;
        command.arg("--quiet");
        if !left_out.is_empty() {
            command.arg("--exact");
        }
        for name in &left_out {
            command.args(["--skip", name]);
        }
        failed.extend(
            watch(&mut command)?.into_iter().map(|name| format!("{} {name}", program.label())),
        );
    }
    Ok(failed)
}

/// Run a test program, print what it prints, and return the names of the tests that have failed.
fn watch(command: &mut Command) -> Result<Vec<String>> {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = BufReader::new(process.stdout.take().context("no output")?);
    let mut failed = Failed::default();
    for line in output.split(b'\n') {
        let line = line.context("cannot read what the tests print")?;
        let mut out = std::io::stdout();
        out.write_all(&line).and_then(|()| out.write_all(b"\n")).context("cannot print")?;
        failed.read(&String::from_utf8_lossy(&line));
    }
    let status = process.wait().context("cannot wait for the tests")?;
    if !status.success() && failed.names.is_empty() {
        bail!("the tests: {status}");
    }
    Ok(failed.names)
}

/// A test program with its environment.
pub(crate) fn command(program: &Program, kind: Kind, tier: Tier) -> Result<Command> {
    let mut command = Command::new(&program.path);
    // As cargo does: tests look for files of theirs from there.
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    // With `CI=1`, a test fails if a program that it needs is missing; without, it is skipped.
    command.env("CI", "1").env("RUST_BACKTRACE", "1");
    match kind {
        Kind::Whole => drop(command.env("RUST_TEST_THREADS", WHOLE_THREADS)),
        Kind::Suite => drop(command.env("RUST_TEST_THREADS", "3")),
        Kind::Unit | Kind::Simulation => {}
    }
    match tier.seeds()? {
        Some(seeds) => drop(command.env("PRONY_SEEDS", seeds)),
        None => readers::set_variables(&mut command)?,
    }
    Ok(command)
}

/// The names of the tests of a program.
pub(crate) fn names(tests: &Program) -> Result<Vec<String>> {
    let list =
        output(program(&tests.path, &["--list", "--format=terse"]).current_dir(&tests.folder));
    let list = list?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// All test programs.
pub(crate) fn all() -> Result<Vec<Program>> {
    static ALL: OnceLock<Built> = OnceLock::new();
    tests(once(&ALL, &[])?)
}

/// The program that the tests run.
pub(super) fn prony() -> Result<PathBuf> {
    built_whole()?.path("prony", "bin")
}

fn whole() -> Result<Vec<Program>> {
    tests(built_whole()?)
}

fn built_whole() -> Result<&'static Built> {
    static WHOLES: OnceLock<Built> = OnceLock::new();
    once(&WHOLES, &["--test", WHOLE])
}

fn tests(built: &Built) -> Result<Vec<Program>> {
    let tests = built.tests();
    if tests.is_empty() { bail!("cargo has compiled no tests") } else { Ok(tests) }
}

/// Compiled at the first call.
fn once(built: &'static OnceLock<Built>, chosen: &[&str]) -> Result<&'static Built> {
    if let Some(built) = built.get() {
        return Ok(built);
    }
    let mut test = cargo(&["test", "--locked", "--workspace", "--quiet"]);
    let new = Built::new(test.args(TEST_PROFILE).args(chosen))?;
    Ok(built.get_or_init(|| new))
}

/// The names of failed tests, from the lists at the end of each program's output.
#[derive(Debug, Default)]
struct Failed {
    names: Vec<String>,
    in_list: bool,
}

impl Failed {
    fn read(&mut self, line: &str) {
        if line == "failures:" {
            self.in_list = true;
        } else if let Some(name) = line.strip_prefix("    ") {
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
            if self.in_list && is_name && !self.names.iter().any(|n| n == name) {
                self.names.push(name.to_owned());
            }
        } else if !line.is_empty() {
            self.in_list = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_lists_of_failures() {
        let mut failed = Failed::default();
        let output = "running 2 tests\n.F\nfailures:\n\n---- a::b stdout ----\n    note\n\
                      \x20   4: core::panicking\n\nfailures:\n    a::b\n    c_d::e\n\n\
                      test result: FAILED\n    other\nfailures:\n    a::b\n";
        output.lines().for_each(|line| failed.read(line));
        assert_eq!(failed.names, ["a::b", "c_d::e"]);
    }
}
