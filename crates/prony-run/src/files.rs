//! Reads complete files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::Error;

/// The maximum size of a file: 64 MiB.
const FILE_MAX: u64 = 64 << 20;

/// Reads a text file, or standard input for `-`. `what` names it in error messages.
///
/// # Errors
/// It cannot be read, is longer than 64 MiB, or is not UTF-8.
pub fn read_text(what: &'static str, path: &Path) -> Result<String, Error> {
    String::from_utf8(read(what, path)?).map_err(|_| Error::Unreadable {
        what,
        path: path.to_owned(),
        why: io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"),
    })
}

/// Reads a file, or standard input for `-`. `what` names it in error messages.
///
/// # Errors
/// It cannot be read, or is longer than 64 MiB.
pub fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let read = || {
        let source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path)?)
        };
        let mut bytes = Vec::new();
        source.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 64 MiB"));
        }
        Ok(bytes)
    };
    read().map_err(|why| Error::Unreadable { what, path: path.to_owned(), why })
}
