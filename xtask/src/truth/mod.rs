//! `cargo xtask truth`: prony measures known delays, stalls and losses, and its own send times,
//! also while the wall clock steps. All this is in a virtual machine with a clock that counts
//! executed instructions, so that other load on this machine has no influence.

mod delays;
mod losses;
mod sends;
mod stalls;
mod steps;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sctp::{self, GUEST};
use crate::shell::{cargo, run, strict, target_dir};

const USAGE: &str = "\
usage: cargo xtask truth [--profile NAME] [SCENE...]
  --profile NAME  how to build (fast)
  SCENE           delays, stalls, losses, sends, steps; all if none is named
";
/// The timeout of the virtual machine in seconds; it takes about a minute on an idle machine.
const TIMEOUT: &str = "900";

/// A test with a known result.
struct Scene {
    name: &'static str,
    /// The shell commands to run in the virtual machine; reports go to `/out`.
    lines: fn() -> String,
    /// Check the reports.
    check: fn(&Reports, &mut Board) -> Result<()>,
}

const SCENES: [Scene; 5] = [
    Scene { name: "delays", lines: delays::lines, check: delays::check },
    Scene { name: "stalls", lines: stalls::lines, check: stalls::check },
    Scene { name: "losses", lines: losses::lines, check: losses::check },
    Scene { name: "sends", lines: sends::lines, check: sends::check },
    Scene { name: "steps", lines: steps::lines, check: steps::check },
];

/// `cargo xtask truth`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (profile, named) = match args {
        [flag, name, rest @ ..] if flag == "--profile" => (name.as_str(), rest),
        rest => ("fast", rest),
    };
    if let Some(unknown) = named.iter().find(|a| !SCENES.iter().any(|s| s.name == **a)) {
        bail!("unknown scene `{unknown}`\n{USAGE}");
    }
    run(cargo(&["build", "--locked", "--quiet"]).arg(format!("--profile={profile}")))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let wanted = |s: &&Scene| named.is_empty() || named.iter().any(|a| a == s.name);
    let scenes: Vec<_> = SCENES.iter().filter(wanted).collect();
    play(&target_dir()?.join(folder).join("prony"), &scenes)
}

/// The step of `ci`, with the program that was built for the tests.
pub(crate) fn step(build: &[&str]) -> Result<()> {
    if sctp::has_virtual_time() {
        let prony = sctp::built(build)?.path("prony", "bin")?;
        return play(&prony, &SCENES.iter().collect::<Vec<_>>());
    }
    if strict() {
        bail!("cannot run a virtual machine with a virtual clock: qemu-system-x86 is missing");
    }
    report_skipped();
    Ok(())
}

/// Report if the figures were not checked.
pub(crate) fn report_skipped() {
    if !sctp::has_virtual_time() {
        println!(
            "not covered: known delays in virtual time; `{GUEST} --check` lists what is missing"
        );
    }
}

fn play(prony: &Path, scenes: &[&Scene]) -> Result<()> {
    let out = target_dir()?.join("xtask-truth");
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot clear the results of an earlier run")?;
    }
    let mut script = format!("set -e; PRONY='{}'\n", prony.display());
    script += "plain() { tc qdisc del dev lo root 2>/dev/null || true; }\n";
    for scene in scenes {
        script += &format!("plain\n{}", (scene.lines)());
    }
    let mut guest = Command::new(GUEST);
    guest.args(["--virtual-time", "--timeout", TIMEOUT, "--times", "--add"]).arg(prony);
    guest.arg("--out").arg(&out).args(["--sh", &script]);
    run(&mut guest)
        .context("the virtual machine needs `apt-get install busybox-static qemu-system-x86`")?;
    let mut board = Board::default();
    for scene in scenes {
        (scene.check)(&Reports(out.clone()), &mut board)?;
    }
    if board.wrong > 0 {
        bail!("{} of {} figures are wrong", board.wrong, board.figures);
    }
    Ok(())
}

/// The folder with the reports from the virtual machine.
struct Reports(PathBuf);

impl Reports {
    fn text(&self, name: &str) -> Result<String> {
        let path = self.0.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// A report of prony. It must have no errors, except with `losses`.
    fn json(&self, name: &str, losses: bool) -> Result<Value> {
        let report: Value =
            serde_json::from_str(&self.text(name)?).with_context(|| format!("{name}: not JSON"))?;
        if !losses && report["errors"] != 0 {
            bail!("{name}: {} errors", report["errors"]);
        }
        Ok(report)
    }
}

/// A figure of a report's times, in microseconds.
fn time_us(report: &Value, from: &str, figure: &str) -> Result<f64> {
    let ns = report["measurement"]["times"][from][figure].as_f64();
    ns.map(|ns| ns / 1e3).with_context(|| format!("no {figure} of {from}"))
}

/// Prints every figure with its expected range, and counts the wrong ones.
#[derive(Default)]
struct Board {
    figures: usize,
    wrong: usize,
}

impl Board {
    /// Check that `figure` is in `least..=most`.
    fn check(&mut self, what: &str, figure: f64, least: f64, most: f64) {
        let is_true = (least..=most).contains(&figure);
        self.figures += 1;
        self.wrong += usize::from(!is_true);
        let verdict = if is_true { "" } else { "  WRONG" };
        println!("{what:44} {figure:12.1}  of {least:.1} to {most:.1}{verdict}");
    }
}
