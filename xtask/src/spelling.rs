//! `cargo xtask spelling`: the spell checker `typos` over every file of the tree. Its settings and
//! exceptions are in `typos.toml`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{output, program, run, strict, target_dir, venv};

/// The version is fixed, because a newer one knows more words. PyPI has it as a binary, which
/// installs in seconds; building it takes minutes.
const VERSION: &str = "1.52.0";

/// `cargo xtask spelling`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut typos = match args {
        [] => program(typos()?, &[]),
        [write] if write == "--write" => program(typos()?, &["--write-changes"]),
        _ => bail!("usage: cargo xtask spelling [--write]"),
    };
    if !is_installed() {
        install()?;
    }
    run(typos.args(["--color", "never"]))
}

/// The step of `ci`: it is skipped if the checker cannot be installed.
pub(crate) fn step() -> Result<()> {
    if !is_installed()
        && let Err(e) = install()
    {
        println!("cannot be installed: the spell checker: {e:#}");
        return if strict() { Err(e) } else { Ok(()) };
    }
    main(&[])
}

/// Report at the end of `ci` if the spelling was not checked.
pub(crate) fn report_skipped() {
    if !is_installed() {
        println!("not covered: spelling (the Python package `typos`)");
    }
}

fn typos() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-venv/bin/typos"))
}

fn is_installed() -> bool {
    typos().is_ok_and(|typos| {
        typos.exists()
            && output(Command::new(typos).arg("--version")).is_ok_and(|v| v.contains(VERSION))
    })
}

fn install() -> Result<()> {
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(program(venv()?, &quiet).arg(format!("typos=={VERSION}")))
}
