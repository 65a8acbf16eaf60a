//! Raw results: the file that `--raw` names, which is written while the load runs.

use std::io;
use std::path::{Path, PathBuf};

use prony_core::engine::Taps;
use prony_core::plan::Plan;
use prony_raw::{BeginError, Counts, Destination, Format, Writer};

use crate::error::Error;
use crate::output::{Place, place};

/// The endings of the names of files that this build writes.
const ENDINGS: &str =
    if cfg!(feature = "parquet") { ".csv, .jsonl or .parquet" } else { ".csv or .jsonl" };

/// A file of raw results that is being written. Without an end, there is no file.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    writer: Writer,
}

impl RawFile {
    /// Begins the raw results of a run of this plan: CSV, JSON lines or Parquet, as the ending
    /// says.
    /// `waits`: workers wait for the writer, instead of leaving requests out.
    ///
    /// # Errors
    /// The ending is unknown, this build does not have the format, or the file cannot be written.
    pub fn begin(path: &Path, plan: &Plan, waits: bool) -> Result<(Self, Taps), Error> {
        let refused = |why: String| {
            let value = path.display().to_string();
            Error::Value { what: "--raw", value, why }
        };
        let format = Format::of(path)
            .ok_or_else(|| refused(format!("unknown file name extension; use {ENDINGS}")))?;
        if !format.is_available() {
            let why = "this build has no Parquet; use .csv or .jsonl, or build prony with \
                       --features parquet";
            return Err(refused(why.into()));
        }
        let place = place(path).map_err(|why| {
            refused(format!("cannot be written: {why}; choose an existing, writable directory"))
        })?;
        let begun = Writer::begin(format, Box::new(place), plan, waits);
        let (writer, taps) = begun.map_err(|why| match why {
            BeginError::File(why) => refused(why.to_string()),
            BeginError::Thread(why) => Error::Machine(format!("cannot start a thread: {why}")),
        })?;
        Ok((Self { path: path.to_owned(), writer }, taps))
    }

    /// Ends the file after the load. Returns a note for the report if requests are missing.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn end(self) -> Result<Option<String>, Error> {
        let what = format!("--raw {}", self.path.display());
        self.writer.end().map(note).map_err(|why| Error::Report { what, why })
    }
}

/// A note for the report if requests are missing.
fn note(Counts { written, left_out }: Counts) -> Option<String> {
    (left_out > 0).then(|| {
        format!(
            "The raw results have {written} requests; {left_out} are missing, because they \
             could not be written in time."
        )
    })
}

impl Destination for Place {
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes)
    }

    fn complete(self: Box<Self>) -> io::Result<()> {
        (*self).complete()
    }
}

#[cfg(test)]
mod tests;
