//! `cargo xtask bars`: how often confidence intervals hold the truth, in many runs at stations
//! whose law is known. The table of `docs/confidence.md`.

use anyhow::{Result, bail};

use crate::shell::{cargo, run};

/// Runs of each line where nothing is said.
const RUNS: &str = "1000";

/// `cargo xtask bars [RUNS]`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let runs = match args {
        [] => RUNS,
        [runs] if runs.parse().is_ok_and(|n: u32| n > 0) => runs,
        _ => bail!("usage: cargo xtask bars [RUNS]"),
    };
    let test = ["test", "--locked", "--quiet", "--profile=fast", "-p", "prony-sim", "--test", "it"];
    let mut study = cargo(&test);
    run(study.args(["confidence::study", "--", "--nocapture"]).env("PRONY_BARS", runs))
}
