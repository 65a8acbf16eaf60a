//! Reads complete files, and opens those with bodies that are too long for memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use prony_core::plan::{BodyFile, CallSpec, ReadAt};

use crate::error::Error;

/// The maximum size of a file that is read: 64 MiB.
const FILE_MAX: u64 = 64 << 20;

/// The body of a request, from a text or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// An open file over 64 MiB, of which each request sends piece after piece.
    File(Box<BodyFile>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Body {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }

    /// Give it to a request.
    pub fn put_into(self, call: &mut CallSpec) {
        match self {
            Self::Bytes(bytes) => call.body = bytes,
            Self::File(file) => call.file = Some(file),
        }
    }
}

/// An open file.
struct Open(File);

impl ReadAt for Open {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        loop {
            match self.0.read_at(into, at) {
                Ok(n) => return Some(n),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// Reads a file with a body, or standard input for `-`. A file over 64 MiB is only opened. `what`
/// names it in error messages.
///
/// # Errors
/// It cannot be read, or is longer than 64 MiB and not a file that can be read again.
pub fn body(what: &'static str, path: &Path) -> Result<Body, Error> {
    let open = || {
        if path.as_os_str() == "-" || !path.metadata()?.is_file() {
            return Ok(None);
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length <= FILE_MAX {
            return Ok(None);
        }
        // Plans that are written name it from anywhere.
        let name = std::path::absolute(path)?.display().to_string();
        // What cannot be read is reported now, not by the requests.
        let file = Open(file);
        match file.read_at(0, &mut [0]) {
            Some(1) => Ok(Some(Box::new(BodyFile::new(name, length, file)))),
            _ => Err(io::Error::other("it cannot be read at any position")),
        }
    };
    let opened = open().map_err(|why| Error::Unreadable { what, path: path.to_owned(), why })?;
    Ok(match opened {
        Some(file) => Body::File(file),
        None => Body::Bytes(read(what, path)?),
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_opened_and_short_ones_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("long");
        let file = File::create(&path).expect("a file");
        let long = |length| {
            file.set_len(length).expect("a length");
            body("--body", &path).expect("a body")
        };
        assert_eq!(long(FILE_MAX), Body::Bytes(vec![0; FILE_MAX as usize]));
        let Body::File(opened) = long(FILE_MAX + 1) else { panic!("it is not read") };
        assert_eq!((opened.length, &*opened.name), (FILE_MAX + 1, path.to_str().expect("text")));
        let refused = body("--body", &folder.path().join("none")).expect_err("there is none");
        assert!(matches!(refused, Error::Unreadable { what: "--body", .. }), "{refused}");
    }
}
