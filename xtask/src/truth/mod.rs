//! `cargo xtask truth`: prony measures delays, stalls and losses that are known, and keeps its own
//! schedule, in a guest whose clock counts executed instructions, so that the machine may be as
//! busy as it likes.

mod delays;
mod losses;
mod sends;
mod stalls;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sctp::{Built, GUEST};
use crate::shell::{cargo, output, program, run, strict, target_dir};

const USAGE: &str = "\
usage: cargo xtask truth [--profile NAME] [SCENE...]
  --profile NAME  how to build (fast)
  SCENE           delays, stalls, losses, sends; all if none is named
";
/// After so many seconds of the wall the guest is given up; it takes about one minute alone.
const TIMEOUT: &str = "900";

/// Something whose outcome is known beforehand.
struct Scene {
    name: &'static str,
    /// The guest's shell commands; reports go to `/out`.
    lines: fn() -> String,
    /// Hold the reports in that folder against the truth.
    check: fn(&Reports, &mut Board) -> Result<()>,
}

const SCENES: [Scene; 4] = [
    Scene { name: "delays", lines: delays::lines, check: delays::check },
    Scene { name: "stalls", lines: stalls::lines, check: stalls::check },
    Scene { name: "losses", lines: losses::lines, check: losses::check },
    Scene { name: "sends", lines: sends::lines, check: sends::check },
];

/// `cargo xtask truth`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let (profile, named) = match args {
        [flag, name, rest @ ..] if flag == "--profile" => (name.as_str(), rest),
        rest => ("fast", rest),
    };
    if let Some(unknown) = named.iter().find(|a| !SCENES.iter().any(|s| s.name == **a)) {
        bail!("no scene `{unknown}`\n{USAGE}");
    }
    run(cargo(&["build", "--locked", "--quiet"]).arg(format!("--profile={profile}")))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let wanted = |s: &&Scene| named.is_empty() || named.iter().any(|a| a == s.name);
    let scenes: Vec<_> = SCENES.iter().filter(wanted).collect();
    play(&target_dir()?.join(folder).join("prony"), &scenes)
}

/// The same as a step of `ci`, with the program that its tests have built.
pub(crate) fn step(profile: &str) -> Result<()> {
    if can_run() {
        let prony = Built::new(&[profile])?.path("prony", "bin")?;
        return play(&prony, &SCENES.iter().collect::<Vec<_>>());
    }
    if strict() {
        bail!("no guest with a clock of its own can be run here: qemu-system-x86 is missing");
    }
    confess();
    Ok(())
}

/// Say, where it is so, that nothing was held against the truth.
pub(crate) fn confess() {
    if !can_run() {
        println!(
            "not covered: known delays in virtual time; `{GUEST} --check` says what is missing"
        );
    }
}

fn can_run() -> bool {
    output(&mut program(GUEST, &["--virtual-time", "--check"])).is_ok()
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
    run(&mut guest).context("the guest needs `apt-get install busybox-static qemu-system-x86`")?;
    let mut board = Board::default();
    for scene in scenes {
        (scene.check)(&Reports(out.clone()), &mut board)?;
    }
    if board.wrong > 0 {
        bail!("{} of {} figures are not the truth", board.wrong, board.figures);
    }
    Ok(())
}

/// What the guest has brought.
struct Reports(PathBuf);

impl Reports {
    fn text(&self, name: &str) -> Result<String> {
        let path = self.0.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// A report of prony's; every request in it that failed must be one that `losses` explains.
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

/// Every figure is told beside the truth.
#[derive(Default)]
struct Board {
    figures: usize,
    wrong: usize,
}

impl Board {
    /// `figure` has to lie in `least..=most`.
    fn hold(&mut self, what: &str, figure: f64, least: f64, most: f64) {
        let is_true = (least..=most).contains(&figure);
        self.figures += 1;
        self.wrong += usize::from(!is_true);
        let verdict = if is_true { "" } else { "  WRONG" };
        println!("{what:44} {figure:12.1}  of {least:.1} to {most:.1}{verdict}");
    }
}
