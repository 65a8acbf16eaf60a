//! The options of `prony selftest`.

use std::path::PathBuf;

use clap::Args;

/// What can be said about the self-test.
#[derive(Clone, Debug, Default, Args)]
pub struct SelftestArgs {
    /// Take a few seconds only: shorter proofs, rougher limits, one driver
    #[arg(long)]
    pub quick: bool,
    /// Where to save the result (JSON) [default: where later reports look for it]
    ///
    /// That is $XDG_STATE_HOME/prony/selftest.json, by default ~/.local/state/prony/selftest.json.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print JSON, the same that is saved
    #[arg(long)]
    pub json: bool,
    /// Nothing on standard error but refusals
    #[arg(long)]
    pub quiet: bool,
}
