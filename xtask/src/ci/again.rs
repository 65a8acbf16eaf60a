//! Tests that fail are run a second time, alone, but for simulations: many measure times, and
//! another program on the machine can disturb them. Those that pass then are named at the end of
//! the run, so that nobody takes them for sound.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{run, target_dir};

/// More failures than this in a run are no disturbance.
const MOST: usize = 3;

/// Run the tests of a command; those that fail run again. The options of test programs follow
/// `before`.
pub(super) fn tests(before: &[&str], command: impl Fn() -> Result<Command>) -> Result<()> {
    let mut first = command()?;
    let mut process = first
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
    if status.success() {
        return Ok(());
    }
    let names = failed.names;
    let earlier = fs::read_to_string(log()?).unwrap_or_default().lines().count();
    if names.is_empty() || earlier + names.len() > MOST {
        bail!("the tests: {status}");
    }
    println!("==> again, alone: {}", names.join(", "));
    run(command()?.args(before).args(["--exact", "--test-threads=1"]).args(&names))?;
    // Steps that run beside each other add theirs.
    let mut log = File::options().create(true).append(true).open(log()?)?;
    log.write_all((names.join("\n") + "\n").as_bytes()).context("the list of flaky tests")
}

/// Forget those of the last run.
pub(super) fn begin() -> Result<()> {
    let log = log()?;
    if log.exists() { fs::remove_file(log).context("the list of flaky tests") } else { Ok(()) }
}

/// Name the tests that passed only the second time.
pub(super) fn report() -> Result<()> {
    let names = fs::read_to_string(log()?).unwrap_or_default();
    for name in names.lines() {
        println!("FLAKY: {name} failed, and passed when it ran again");
    }
    Ok(())
}

fn log() -> Result<PathBuf> {
    let folder = target_dir()?.join("xtask-ci");
    fs::create_dir_all(&folder).context("cannot create the folder of logs")?;
    Ok(folder.join("flaky"))
}

/// The names of failed tests, from the lists at the end of each binary's output.
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
