//! `cargo xtask bars`: the coverage of confidence intervals, and how often thresholds are decided
//! and how often wrongly, in many runs at stations with known distributions. Prints the tables of
//! `docs/confidence.md`.

use anyhow::{Result, bail};

use crate::shell::{self, run};

/// The default number of runs for each row, and the default first seed.
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
    let mut study = shell::simulations();
    run(study
        .args(["--", "confidence::study", "decisions::study", "--nocapture", "--test-threads=1"])
        .env("PRONY_BARS", format!("{runs} {seed}")))
}
