//! Raw results: the file that `--raw` names, which is written while the load runs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_core::engine::Taps;
use prony_plan::plan::Plan;
use prony_raw::{BeginError, Counts, Destination, EndError, Format, Writer};

use crate::error::Error;
use crate::output::{self, PATIENCE, Place, place};

/// The endings of the names of files that this build writes.
const ENDINGS: &str =
    if cfg!(feature = "parquet") { ".csv, .jsonl or .parquet" } else { ".csv or .jsonl" };

/// A file of raw results that is being written. Without an end, there is no file.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    /// Whether it is a pipe or a device, whose reader may be stuck.
    is_special: bool,
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
        let is_special = place.is_special();
        let begun = Writer::begin(format, Box::new(place), plan, waits);
        let (writer, taps) = begun.map_err(|why| match why {
            BeginError::File(why) => refused(why.to_string()),
            BeginError::Thread(why) => Error::Machine(format!("cannot start a thread: {why}")),
        })?;
        Ok((Self { path: path.to_owned(), is_special, writer }, taps))
    }

    /// A note for the report if requests are missing, after the load.
    pub fn note(&self) -> Option<String> {
        note(self.writer.counts())
    }

    /// Whether its end may have to wait for somebody who reads it: the report comes first.
    pub fn may_be_stuck(&self) -> bool {
        self.is_special
    }

    /// Ends the file after the load. A pipe whose reader is stuck does not get the rest.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn end(self) -> Result<(), Error> {
        let what = format!("--raw {}", self.path.display());
        let limit: Option<Duration> = self.is_special.then_some(PATIENCE);
        let _writing = output::writing();
        match self.writer.end(limit) {
            Ok(_) => Ok(()),
            Err(EndError::File(why)) => Err(Error::Report { what, why }),
            Err(EndError::Stuck(Counts { written, left_out })) => {
                let limit = PATIENCE.as_secs();
                let all = written + left_out;
                let why = format!(
                    "nobody has read it to its end within {limit} s; {left_out} of {all} requests \
                     are missing"
                );
                Err(Error::Report { what, why: io::Error::new(io::ErrorKind::TimedOut, why) })
            }
        }
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
