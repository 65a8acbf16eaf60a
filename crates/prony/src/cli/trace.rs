//! The option for traces.

use std::num::NonZeroU64;

use clap::Args;
use prony_run::trace::MOST;

use super::MEASUREMENT;

/// Traces.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct TraceArgs {
    /// Print the first session or request with its replies, or the first N, instead of a load
    ///
    /// One after the other, on one connection, each with its request line, status, times, extracted
    /// values, failed checks, and the start of its body. There is no report. Possible secrets are
    /// hidden unless --show-secrets is given.
    #[arg(
        long, value_name = "N", help_heading = MEASUREMENT, num_args = 0..=1,
        default_missing_value = "1", value_parser = count,
    )]
    pub trace: Option<NonZeroU64>,
}

fn count(text: &str) -> Result<NonZeroU64, String> {
    let number = text.parse::<NonZeroU64>().ok().filter(|n| n.get() <= MOST);
    let place = if text.contains(['/', '.']) { "; write --trace after it" } else { "" };
    number.ok_or_else(|| format!("it is no number from 1 to {MOST}{place}"))
}
