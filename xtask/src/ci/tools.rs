//! What the tests need from outside, and how to get it.

use anyhow::{Result, bail};

use super::foreign;
use crate::shell::{is_root, program, run, which};

/// A program and the Debian package that brings it.
type Tool = (&'static str, &'static str);

const TOOLS: [Tool; 10] = [
    ("nginx", "nginx"),
    ("haproxy", "haproxy"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("httperf", "httperf"),
    ("openssl", "openssl"),
    ("valgrind", "valgrind"),
    ("strace", "strace"),
    ("python3", "python3-venv"),
    ("tmux", "tmux"),
];

/// What not every machine can have: what needs it is left out there, which is said.
const WELCOME: [Tool; 6] = [
    ("node", "nodejs"),
    ("npm", "npm"),
    ("pip3", "python3-pip"),
    ("busybox", "busybox-static"),
    ("linux.uml", "user-mode-linux"),
    ("qemu-system-x86_64", "qemu-system-x86"),
];

/// Install by apt-get, npm and pip what is missing, or say what is.
pub(super) fn install() -> Result<()> {
    let missing = missing(&TOOLS);
    if !missing.is_empty() {
        let packages = missing.join(" ");
        if !can_install() {
            bail!(
                "missing, and only root on a Debian can install it here: {packages}\n\
                 Run `apt-get install {packages}` as root, or name the steps that you want to run"
            );
        }
        apt(&missing)?;
        if let still @ [_, ..] = &self::missing(&TOOLS)[..] {
            bail!("apt-get has run, but still missing: {}", still.join(" "));
        }
    }
    let welcome = self::missing(&WELCOME);
    if !welcome.is_empty()
        && can_install()
        && let Err(e) = apt(&welcome)
    {
        println!("{e:#}");
    }
    foreign::install()
}

pub(super) fn can_install() -> bool {
    which("apt-get").is_some() && is_root()
}

pub(super) fn apt(packages: &[&str]) -> Result<()> {
    let quiet = ["-q", "-y", "--no-install-recommends"];
    // The tests start their own servers, so the packages' are not to be started: in run level 1
    // they are not.
    let apt = |args: &[&str]| {
        let mut command = program("apt-get", args);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command
    };
    run(&mut apt(&["update", "-q"]))?;
    run(apt(&["install"]).args(quiet).args(packages))
}

fn missing(tools: &[Tool]) -> Vec<&'static str> {
    tools.iter().filter(|(tool, _)| which(tool).is_none()).map(|&(_, package)| package).collect()
}
