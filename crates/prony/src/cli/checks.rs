//! Options of checks of replies.

use clap::Args;
use prony_plan::plan::Check;

use super::REQUEST;

/// Options of checks.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct CheckArgs {
    /// Check every reply, apart from failures: 'json /ok = true', 'time < 200ms'
    ///
    /// A failed check does not fail its request; the report counts the replies that pass. Checks
    /// are of the status, a header, a JSON value, the length, the body or the response time
    /// (docs/checks.md). 'NAME: ' in front names a check, for thresholds: --check 'fast: time <
    /// 200ms' --threshold 'check.fast > 99%'. This option can be repeated.
    #[arg(long, value_name = "EXPR", help_heading = REQUEST, value_parser = check)]
    pub check: Vec<Check>,
}

fn check(text: &str) -> Result<Check, String> {
    text.parse()
}
