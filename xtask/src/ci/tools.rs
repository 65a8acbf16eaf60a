//! What the tests need from outside, and how to get it.

use anyhow::{Result, bail};

use crate::shell::{is_root, program, run, which};

/// A program and the Debian package that brings it.
const TOOLS: [(&str, &str); 6] = [
    ("nginx", "nginx"),
    ("haproxy", "haproxy"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("valgrind", "valgrind"),
    ("python3", "python3-venv"),
];

/// Install by apt-get what is missing, or say what is.
pub(super) fn install() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("all there");
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
