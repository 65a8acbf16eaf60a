//! The option for raw results.

use std::path::PathBuf;

use clap::Args;

/// Raw results.
#[derive(Clone, Debug, Default, Args)]
pub struct RawArgs {
    /// Write a line for each request: .csv, .jsonl or .parquet
    ///
    /// With its times in nanoseconds since the start of the load, its status and error, the bytes
    /// of its reply, and its connection. A thread writes the file. If it is late, requests are
    /// missing in the file, and the report says how many; the load does not wait.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub raw: Option<PathBuf>,
}
