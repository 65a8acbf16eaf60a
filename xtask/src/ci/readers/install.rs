//! How the readers are installed. All packages of one registry are installed together, which takes
//! two thirds of the time of installing them one by one. If that fails, each is tried alone, so
//! that one that cannot be had keeps no other away.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Reader, folder};
use crate::ci::tools;
use crate::shell::{program, run, venv, which};

/// Where a reader comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Packages of a registry, with their versions.
    From(Registry, &'static [&'static str]),
    Other(fn() -> Result<()>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Registry {
    /// Packages for our virtual environment.
    Pip,
    /// Packages for Node.js. Their scripts do not run.
    Npm,
    /// Programs in Go.
    Go,
}

/// Install these readers, and report those that cannot be had: only the readers need the
/// registries, so that is not a failure.
pub(super) fn all(missing: &[&Reader]) {
    for registry in [Registry::Pip, Registry::Npm, Registry::Go] {
        let of_this: Vec<(&Reader, &[&str])> =
            missing.iter().filter_map(|&r| Some((r, r.source.packages(registry)?))).collect();
        let packages: Vec<&str> = of_this.iter().flat_map(|(_, all)| *all).copied().collect();
        if of_this.len() > 1 && registry.install(&packages).is_ok() {
            continue;
        }
        for (reader, packages) in of_this {
            report(reader, registry.install(packages));
        }
    }
    for reader in missing {
        if let Source::Other(install) = reader.source {
            report(reader, install());
        }
    }
}

fn report(reader: &Reader, result: Result<()>) {
    if let Err(e) = result {
        println!("cannot install: {}: {e:#}", reader.what);
    }
}

impl Source {
    fn packages(self, of: Registry) -> Option<&'static [&'static str]> {
        match self {
            Self::From(registry, packages) if registry == of => Some(packages),
            _ => None,
        }
    }
}

impl Registry {
    fn install(self, packages: &[&str]) -> Result<()> {
        match self {
            Self::Pip => pip(&venv()?, &["install"], packages),
            Self::Npm => npm(packages),
            Self::Go => go(packages),
        }
    }
}

/// Its server alone: all that it depends on would be some gigabytes.
pub(super) fn guidellm() -> Result<()> {
    let venv = venv()?;
    let needed = [
        "transformers==5.24.0",
        "sanic==25.12.1",
        "faker==40.63.0",
        "loguru==0.7.3",
        "pydantic-settings==2.16.3",
    ];
    pip(&venv, &["install"], &needed)?;
    pip(&venv, &["install", "--no-deps"], &["guidellm==0.8.1"])
}

/// In one module, so that what they share is compiled once, and without optimization, as no test
/// waits for them: the compiler then needs half the time.
///
/// Of h2spec, version 2.6.0 cannot be installed: its module has another name in itself.
fn go(packages: &[&str]) -> Result<()> {
    let go = which("go").context("go is not installed")?;
    let module = folder()?.join("module");
    fs::create_dir_all(&module).with_context(|| module.display().to_string())?;
    let file = module.join("go.mod");
    fs::write(&file, "module readers\n").with_context(|| file.display().to_string())?;
    let place = folder()?;
    let in_module = |words: &[&str]| {
        let mut command = program(&go, words);
        command
            .current_dir(&module)
            .env("GOBIN", &place)
            .env("GOPATH", place.join("go"))
            .env("GOFLAGS", "-modcacherw");
        command
    };
    run(in_module(&["get"]).args(packages))?;
    let names = packages.iter().filter_map(|package| package.split('@').next());
    run(in_module(&["install", "-gcflags=all=-N -l"]).args(names))
}

fn npm(packages: &[&str]) -> Result<()> {
    let npm = which("npm").context("npm is not installed")?;
    let quiet = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    run(program(npm, &quiet).arg("--prefix").arg(folder()?).args(packages))
}

/// Not among the required packages, because it is large.
pub(super) fn chromium() -> Result<()> {
    apt("chromium")
}

pub(super) fn nchan() -> Result<()> {
    apt("libnginx-mod-nchan")
}

fn apt(package: &str) -> Result<()> {
    if !tools::can_install() {
        bail!("only root on a Debian can install it: `apt-get install {package}`");
    }
    tools::apt(&[package])
}

/// Only the source: the package is in Python 2, and is not installed.
pub(super) fn httperfpy() -> Result<()> {
    source_of("httperfpy", "0.0.3")
}

/// Only the source: the tests of pytest hold its own reports against the schema.
pub(super) fn junit_schema() -> Result<()> {
    source_of("pytest", "9.0.2")
}

/// The unpacked source of a Python package, which is not installed.
fn source_of(package: &str, version: &str) -> Result<()> {
    let folder = folder()?;
    let python = which("python3").context("python3 is not installed")?;
    let download = ["download", "--no-deps", "--no-binary", ":all:", "--dest"];
    let dest = folder.to_str().context("a target folder in UTF-8")?;
    let wanted = format!("{package}=={version}");
    pip(&python, &[&download[..], &[dest]].concat(), &[&wanted])?;
    let archive = folder.join(format!("{package}-{version}.tar.gz"));
    run(program("tar", &["-x", "-z", "-f"]).arg(archive).arg("-C").arg(folder))
}

fn pip(python: &Path, words: &[&str], packages: &[&str]) -> Result<()> {
    let quiet = ["--quiet", "--disable-pip-version-check"];
    run(program(python, &["-m", "pip"]).args(words).args(quiet).args(packages))
}
