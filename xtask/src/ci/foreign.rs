//! Programs of others that read what prony writes. They come from package registries, which a
//! machine may not reach: then they are left out, and `ci` says so at its end. With
//! `PRONY_CI_STRICT=1` that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::tools;
use crate::shell::{program, run, strict, target_dir, which};

/// A reader, where it is kept, and the variable by which tests find it.
struct Reader {
    what: &'static str,
    variable: &'static str,
    place: fn() -> Result<PathBuf>,
    install: fn() -> Result<()>,
}

const READERS: [Reader; 4] = [
    Reader {
        what: "histogram files in a foreign reader (the Python package `hdrhistogram`)",
        variable: "PRONY_TEST_PYTHON",
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_histograms,
    },
    Reader {
        what: "httperf's report in a foreign parser (the npm package `httperfjs`)",
        variable: "PRONY_TEST_HTTPERFJS",
        place: || Ok(folder()?.join("node_modules/httperfjs/lib/parser.js")),
        install: install_httperfjs,
    },
    Reader {
        what: "httperf's report in a foreign parser (the Python package `httperfpy`)",
        variable: "PRONY_TEST_HTTPERFPY",
        place: || Ok(folder()?.join("httperfpy-0.0.3/httperfpy/httperfpy.py")),
        install: install_httperfpy,
    },
    Reader {
        what: "the HTML report in a browser (Debian's package `chromium`)",
        variable: "PRONY_TEST_CHROMIUM",
        place: || Ok(which("chromium").unwrap_or_else(|| "/usr/bin/chromium".into())),
        install: install_chromium,
    },
];

/// Install what is missing, as far as that can be done.
pub(super) fn install() -> Result<()> {
    for reader in &READERS {
        if !reader.is_there()?
            && let Err(e) = (reader.install)()
        {
            // Nothing else comes from there, so a machine without a registry shall not fail.
            println!("cannot be installed: {}: {e:#}", reader.what);
        }
    }
    Ok(())
}

/// Tell the tests where the readers are.
pub(super) fn tell(tests: &mut Command) -> Result<()> {
    for reader in &READERS {
        if reader.is_there()? {
            tests.env(reader.variable, (reader.place)()?);
        }
    }
    Ok(())
}

/// Say what is not there and so was not tested; an error if everything must be.
pub(super) fn confess() -> Result<()> {
    let mut missing = 0;
    for reader in &READERS {
        if !reader.is_there()? {
            println!("not covered: {}", reader.what);
            missing += 1;
        }
    }
    if missing > 0 && strict() {
        bail!("{missing} foreign readers are missing, and PRONY_CI_STRICT is set");
    }
    Ok(())
}

impl Reader {
    fn is_there(&self) -> Result<bool> {
        let place = (self.place)()?;
        if !place.exists() || self.variable != "PRONY_TEST_PYTHON" {
            return Ok(place.exists());
        }
        let import = ["-c", "import hdrh.log"];
        let status = Command::new(place).args(import).stderr(Stdio::null()).status();
        Ok(status.is_ok_and(|s| s.success()))
    }
}

fn folder() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-readers"))
}

/// In a virtual environment, since it has parts in C.
fn install_histograms() -> Result<()> {
    let venv = target_dir()?.join("xtask-venv");
    run(program("python3", &["-m", "venv", "--clear"]).arg(&venv))?;
    pip(&venv.join("bin/python"), &["install"], "hdrhistogram==0.10.8")
}

/// The package alone, and none of its scripts.
fn install_httperfjs() -> Result<()> {
    let npm = which("npm").context("npm is not installed")?;
    let quiet = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    run(program(npm, &quiet).arg("--prefix").arg(folder()?).arg("httperfjs@0.1.0"))
}

/// Large, and so no package without which nothing is tested.
fn install_chromium() -> Result<()> {
    if !tools::can_install() {
        bail!("only root on a Debian can install it: `apt-get install chromium`");
    }
    tools::apt(&["chromium"])
}

/// As source: it is in Python 2, and never installed.
fn install_httperfpy() -> Result<()> {
    let folder = folder()?;
    let python = which("python3").context("python3 is not installed")?;
    let download = ["download", "--no-deps", "--no-binary", ":all:", "--dest"];
    let dest = folder.to_str().context("a target folder in UTF-8")?;
    pip(&python, &[&download[..], &[dest]].concat(), "httperfpy==0.0.3")?;
    let archive = folder.join("httperfpy-0.0.3.tar.gz");
    run(program("tar", &["-x", "-z", "-f"]).arg(archive).arg("-C").arg(folder))
}

fn pip(python: &Path, words: &[&str], package: &str) -> Result<()> {
    let quiet = ["--quiet", "--disable-pip-version-check", package];
    run(program(python, &["-m", "pip"]).args(words).args(quiet))
}
