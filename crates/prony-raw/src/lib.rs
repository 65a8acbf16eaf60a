//! Raw results: a line or row of a file for each request that has ended.
//!
//! Each worker passes its requests to a thread that writes the file, over a queue of limited
//! length (`queue`). On the network a worker never waits: what finds the queue full is left out,
//! and counted. A simulation waits, so that its file is always whole. `line` is the text of one
//! request, `columns` a file of columns. Where the file is, and what it is called until it is
//! complete, is the business of its [`Destination`].

#[cfg(feature = "parquet")]
mod columns;
mod line;
mod queue;

use std::io;

pub use line::Format;
pub use queue::{BeginError, Counts, EndError, Writer};

/// A file that is written piece by piece, and has its name only when it is complete.
pub trait Destination: Send {
    /// Adds to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Ends the file, to which everything was added.
    ///
    /// # Errors
    /// It cannot be written, or named.
    fn complete(self: Box<Self>) -> io::Result<()>;
}
