//! `cargo xtask sctp`: runs the tests that need a kernel with SCTP in a temporary virtual machine
//! (`tools/sctp-guest`), so that this machine needs neither the kernel module nor root.

use std::process::Command;

use anyhow::{Result, bail};

use crate::built::Built;
use crate::shell::{cargo, is_set, output, program, run, strict};

/// The program that runs a virtual machine.
pub(crate) const GUEST: &str = "tools/sctp-guest";

const USAGE: &str = "\
usage: cargo xtask sctp [--profile NAME] [FILTER]
  --profile NAME  how to build (dev)
  FILTER          only tests with that in their name
";

/// `cargo xtask sctp`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (profile, filter) = match args {
        [flag, name, rest @ ..] if flag == "--profile" => (name.as_str(), rest),
        rest => ("dev", rest),
    };
    let filter = match filter {
        [] => "",
        [one] if !one.starts_with('-') => one,
        _ => bail!("{USAGE}"),
    };
    if !can_run() {
        bail!("cannot run a virtual machine: `{GUEST} --check` lists what is missing");
    }
    in_guest(&[&format!("--profile={profile}")], filter)
}

/// The step of `ci`: if no virtual machine can be run, `ci` reports that at its end.
pub(crate) fn step(build: &[&str]) -> Result<()> {
    if can_run() {
        return in_guest(build, "");
    }
    if is_set("CI") || strict() {
        bail!("cannot run a virtual machine with SCTP: `{GUEST} --check` lists what is missing");
    }
    report_skipped();
    Ok(())
}

/// Report if SCTP was not tested.
pub(crate) fn report_skipped() {
    if !can_run() {
        println!("not covered: SCTP on a real kernel; `{GUEST} --check` lists what is missing");
    }
}

/// Download the kernels of the virtual machines, if they are needed and can be had: the steps that
/// run these machines run at the same time.
pub(crate) fn prepare() {
    can_run();
    has_virtual_time();
}

fn can_run() -> bool {
    output(&mut program(GUEST, &["--check"])).is_ok()
}

/// Whether a virtual machine can have a clock that counts instructions.
pub(crate) fn has_virtual_time() -> bool {
    output(&mut program(GUEST, &["--virtual-time", "--check"])).is_ok()
}

fn in_guest(build: &[&str], filter: &str) -> Result<()> {
    let built = built(build)?;
    let prony = built.path("prony", "bin")?;
    let sockets = built.path("prony_io", "lib")?;
    let tests = built.path("ace", "test")?;
    let mut guest = Command::new(GUEST);
    // The timeouts of these tests then do not depend on how busy this machine is, and waits cost
    // nothing.
    if has_virtual_time() {
        guest.arg("--virtual-time");
    }
    guest.args([
        "--times",
        "--timeout",
        "900",
        "--mem",
        "768",
        "--env",
        "PRONY_TEST_SCTP=1",
        "--env",
        "RUST_BACKTRACE=1",
    ]);
    for file in [&prony, &sockets, &tests] {
        guest.arg("--add").arg(file);
    }
    // One thread: the virtual machine has one CPU, and concurrent tests would time out.
    let line = [(&sockets, "sctp::tests"), (&tests, "sctp::")]
        .map(|(tests, all)| {
            let only = if filter.is_empty() { all } else { filter };
            format!("'{}' --test-threads=1 --quiet {only}", tests.display())
        })
        .join(" && ");
    run(guest.args(["--sh", &line]))
}

/// The programs for virtual machines, built by cargo with these options.
pub(crate) fn built(options: &[&str]) -> Result<Built> {
    // The whole workspace, so that no crate is built again with other features.
    let test = ["test", "--locked", "--workspace", "--quiet", "--lib", "--test", "ace"];
    Built::new(cargo(&test).args(options))
}
