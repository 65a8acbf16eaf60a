//! What the tests need from outside, and how to get it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::shell::{is_root, program, run, target_dir, which};

/// A program and the Debian package that brings it.
const TOOLS: [(&str, &str); 6] = [
    ("nginx", "nginx"),
    ("haproxy", "haproxy"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("valgrind", "valgrind"),
    ("python3", "python3-venv"),
];

/// The histogram reader of another implementation, as pip knows it.
const READER: &str = "hdrhistogram==0.10.8";

/// Install by apt-get and pip what is missing, or say what is.
pub(super) fn install() -> Result<()> {
    programs()?;
    if reader()?.is_none()
        && let Err(e) = install_reader()
    {
        // Nothing else comes from PyPI, so a machine without it shall not fail; ci says so at its
        // end.
        println!("{READER} could not be installed: {e:#}");
    }
    Ok(())
}

/// A Python that has the foreign histogram reader.
pub(super) fn reader() -> Result<Option<PathBuf>> {
    let python = venv()?.join("bin/python");
    let has = Command::new(&python).args(["-c", "import hdrh.log"]).stderr(Stdio::null()).status();
    Ok(has.is_ok_and(|status| status.success()).then_some(python))
}

fn venv() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-venv"))
}

fn install_reader() -> Result<()> {
    let venv = venv()?;
    run(program("python3", &["-m", "venv", "--clear"]).arg(&venv))?;
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", READER];
    run(&mut program(venv.join("bin/python"), &quiet))
}

fn programs() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if which("apt-get").is_none() || !is_root() {
        bail!(
            "missing, and only root on a Debian can install it here: {packages}\n\
             Run `apt-get install {packages}` as root, or name the steps that you want to run"
        );
    }
    let quiet = ["-q", "-y", "--no-install-recommends"];
    // The tests start their own servers, so the packages' are not to be started: in run level 1
    // they are not.
    let apt = |args: &[&str]| {
        let mut command = program("apt-get", args);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command
    };
    run(&mut apt(&["update", "-q"]))?;
    run(apt(&["install"]).args(quiet).args(&missing))?;
    match self::missing()[..] {
        [] => Ok(()),
        ref still => bail!("apt-get has run, but still missing: {}", still.join(" ")),
    }
}

fn missing() -> Vec<&'static str> {
    TOOLS.iter().filter(|(tool, _)| which(tool).is_none()).map(|&(_, package)| package).collect()
}
