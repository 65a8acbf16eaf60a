//! Runs other programs, prints their command lines, and reports their failures.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The caller's `cargo`, so that `cargo +TOOLCHAIN` has an effect.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// The profile of the tests, and the folder of the programs under test: see there. Simulations are
/// too slow without optimization, and worth little without assertions.
pub(crate) const TEST_PROFILE: [&str; 3] = ["--release", "--config", ".cargo/ci.toml"];

/// The tests of prony-sim, for studies that take long.
pub(crate) fn simulations() -> Command {
    let package = ["--package=prony-sim", "--test=simulation"];
    let mut command = cargo(&["test", "--locked", "--quiet", "--profile=fast"]);
    command.args(package);
    command
}

/// A program with arguments.
pub(crate) fn program(name: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args);
    command
}

/// Run a command with our standard output. An exit status other than 0 is an error with the
/// command.
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

/// Run a command and return its standard output. It shares our standard error.
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

/// The path of a program, if it is installed. Also looks in `/usr/sbin`, where Debian installs
/// servers.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Build prony in this profile, and return its path. It has the features of the packages, and its
/// dependencies those of the native module for Python, so that they are compiled once.
pub(crate) fn prony(profile: &str) -> Result<PathBuf> {
    let of_packages = ["--package=prony", "--package=prony-py", "--bin=prony"];
    run(cargo(&["build", "--locked", "--quiet", "--profile", profile]).args(of_packages))?;
    Ok(target_dir()?.join(profile).join("prony"))
}

/// Whether we may install packages.
pub(crate) fn is_root() -> bool {
    output(&mut program("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

/// Whether an environment variable is set to yes.
pub(crate) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|v| !v.is_empty() && v != *"0")
}

/// Whether skipped tests are a failure.
pub(crate) fn strict() -> bool {
    is_set("PRONY_CI_STRICT")
}

/// cargo's target directory.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let dir =
        metadata["target_directory"].as_str().context("cargo metadata: no target directory")?;
    Ok(PathBuf::from(dir))
}

/// The Python of our virtual environment, which is created if needed.
pub(crate) fn venv() -> Result<PathBuf> {
    let folder = target_dir()?.join("xtask-venv");
    let python = folder.join("bin/python");
    let works = Command::new(&python).arg("--version").stdout(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        run(program("python3", &["-m", "venv", "--clear"]).arg(folder))?;
    }
    Ok(python)
}

/// cargo's metadata of the workspace and all its dependencies on this platform.
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
