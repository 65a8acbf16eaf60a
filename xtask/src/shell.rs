//! Running other programs: say what is run, and what it meant when it failed.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// `cargo` as the caller's, so that a toolchain chosen with `cargo +x` stays chosen.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// A program with arguments.
pub(crate) fn program(name: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args);
    command
}

/// Run with our own output; an exit status other than 0 is an error that repeats the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Run and return its standard output; its standard error is ours.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !out.status.success() {
        bail!("{}: {}", shown(command), out.status);
    }
    String::from_utf8(out.stdout).with_context(|| format!("{}: not UTF-8", shown(command)))
}

/// The path of a program, if it is installed. `/usr/sbin` is where Debian keeps servers, and not on
/// everybody's PATH.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Build prony in that profile, and say where it is.
pub(crate) fn prony(profile: &str) -> Result<PathBuf> {
    run(&mut cargo(&["build", "--locked", "--quiet", "--profile", profile]))?;
    Ok(target_dir()?.join(profile).join("prony"))
}

/// Whether we may install packages.
pub(crate) fn is_root() -> bool {
    output(&mut program("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

/// Whether an environment variable says yes.
pub(crate) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|v| !v.is_empty() && v != *"0")
}

/// Whether what a machine may lack is a failure there.
pub(crate) fn strict() -> bool {
    is_set("PRONY_CI_STRICT")
}

/// Where cargo builds.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let dir =
        metadata["target_directory"].as_str().context("cargo metadata: no target directory")?;
    Ok(PathBuf::from(dir))
}

/// What cargo knows of the workspace and of all that it depends on, on this platform.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let host = output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let args = ["metadata", "--format-version=1", "--locked", "--filter-platform", host.trim()];
    let text = output(&mut cargo(&args))?;
    serde_json::from_str(&text).context("cargo metadata: not JSON")
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
