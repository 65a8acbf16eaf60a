//! `cargo xtask bars`: how often confidence intervals hold the truth, in many runs at stations
//! whose law is known. The table of `docs/confidence.md`.

use anyhow::{Result, bail};

use crate::shell::{cargo, run};

/// Runs of each line, and the first one's seed, where nothing is said.
const RUNS: &str = "1000";
const SEED: &str = "0";

/// `cargo xtask bars [RUNS [SEED]]`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let runs = args.first().map_or(RUNS, |runs| runs);
    let seed = args.get(1).map_or(SEED, |seed| seed);
    let known = runs.parse().is_ok_and(|n: u32| n > 0) && seed.parse::<u32>().is_ok();
    if !known || args.len() > 2 {
        bail!("usage: cargo xtask bars [RUNS [SEED]]");
    }
    let test = ["test", "--locked", "--quiet", "--profile=fast", "-p", "prony-sim", "--test", "it"];
    let mut study = cargo(&test);
    run(study
        .args(["confidence::study", "--", "--nocapture"])
        .env("PRONY_BARS", format!("{runs} {seed}")))
}
