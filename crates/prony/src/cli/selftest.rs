//! The options of `prony selftest`.

use std::path::PathBuf;

use clap::Args;

/// The options of the self-test.
#[derive(Clone, Debug, Default, Args)]
pub struct SelftestArgs {
    /// Take only a few seconds: shorter checks, coarser limits, one driver
    #[arg(long)]
    pub quick: bool,
    /// Save the result (JSON) to this file [default: where later reports look for it]
    ///
    /// The default is $XDG_STATE_HOME/prony/selftest.json; if XDG_STATE_HOME is not set,
    /// ~/.local/state/prony/selftest.json.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only errors to standard error
    #[arg(long)]
    pub quiet: bool,
}
