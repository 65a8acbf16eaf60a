//! The options of `prony merge`.

use std::path::PathBuf;

use clap::Args;

use super::output::{AcceptArgs, ToArgs};

/// The reports to merge, and the files for the result.
#[derive(Clone, Debug, Args)]
pub struct MergeArgs {
    /// The reports of the shards, as `-o FILE.json` has written them; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Merge although shards are missing
    ///
    /// The report then says which share of the load was never offered, and the run is PARTIAL.
    #[arg(long)]
    pub partial: bool,
    /// The files for the result.
    #[command(flatten)]
    pub to: ToArgs,
    /// What is accepted.
    #[command(flatten)]
    pub accept: AcceptArgs,
}
