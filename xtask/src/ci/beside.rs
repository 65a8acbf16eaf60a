//! Steps that run beside others: in a process of their own, one after another. Their output is
//! printed when they have ended, so that it does not mix with that of the others.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::times::StepTime;
use super::{FULL_OPTION, Tier, find, perform};
use crate::shell::{program, target_dir, which};

/// The option of `ci` that marks such a process. A file for the times of the steps and the names of
/// the steps follow.
pub(super) const OPTION: &str = "--beside";

/// A process that performs steps.
pub(super) struct Beside {
    steps: &'static [&'static str],
    process: Child,
    log: PathBuf,
    times: PathBuf,
}

impl Beside {
    /// Start these steps. `is_idle`: they get only processor time that nobody else wants, so that
    /// they do not change what the others measure.
    pub(super) fn start(steps: &'static [&'static str], tier: Tier, is_idle: bool) -> Result<Self> {
        println!("==> beside the next steps: {}", steps.join(", "));
        let folder = target_dir()?.join("xtask-ci");
        fs::create_dir_all(&folder).context("cannot create the folder of logs")?;
        let file = |ending: &str| folder.join(steps.concat()).with_extension(ending);
        let (log, times) = (file("log"), file("times"));
        fs::write(&times, "").with_context(|| times.display().to_string())?;
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let own = std::env::current_exe().context("cannot find xtask itself")?;
        let mut command = match is_idle && which("chrt").is_some() {
            true => program("chrt", &["--idle", "0"]),
            false => Command::new("env"),
        };
        command.arg(own).arg("ci");
        if tier == Tier::Full {
            command.arg(FULL_OPTION);
        }
        command.arg(OPTION).arg(&times).args(steps).stdin(Stdio::null());
        command.stdout(output.try_clone().context("the log")?).stderr(output);
        let process = command.spawn().context("cannot start the steps beside the others")?;
        Ok(Self { steps, process, log, times })
    }

    /// Whether one of the steps has failed.
    pub(super) fn has_failed(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Wait for the end of the steps, print what they have printed, and return their times.
    pub(super) fn wait(mut self) -> Result<Vec<StepTime>> {
        let status = self.process.wait().context("cannot wait for the steps beside the others")?;
        let log = fs::read(&self.log).with_context(|| self.log.display().to_string())?;
        std::io::stdout().write_all(&log).context("cannot print")?;
        if !status.success() {
            bail!("one of these steps failed (see above): {}", self.steps.join(", "));
        }
        let times = fs::read_to_string(&self.times)?;
        times.lines().map(StepTime::of_line).collect()
    }
}

/// The other process.
pub(super) fn main(steps: &[&str], tier: Tier, times: &Path) -> Result<()> {
    let mut times = File::options().append(true).open(times).context("the file of times")?;
    for name in steps {
        let time = perform(find(name).with_context(|| format!("no step `{name}`"))?, tier)?;
        times.write_all(time.to_line().as_bytes()).context("cannot write the times")?;
    }
    Ok(())
}
