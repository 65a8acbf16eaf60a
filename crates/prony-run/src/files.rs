//! Reads complete files, and opens those with bodies that are too long for memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use prony_plan::plan::{BodyFile, CallSpec, ReadAt};
use rustix::fs::OFlags;

use crate::error::Error;

/// The maximum size of a file that is read, unless its reader has another: 64 MiB.
pub const FILE_MAX: u64 = 64 << 20;

/// The longest body that is read for requests of the older tools: 1 GiB.
pub const BODY_MAX: u64 = 1 << 30;

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
/// It cannot be read, or is no file.
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
/// It cannot be read, is no file, is longer than 64 MiB, or is not UTF-8.
pub fn read_text(what: &'static str, path: &Path) -> Result<String, Error> {
    bounded_text(path).map_err(|why| Error::Unreadable { what, path: path.to_owned(), why })
}

/// The same, for callers with a message of their own.
///
/// # Errors
/// It cannot be read, is no file, is longer than 64 MiB, or is not UTF-8.
pub fn bounded_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text");
    String::from_utf8(bounded(path, FILE_MAX)?).map_err(not_text)
}

/// Reads a file, or standard input for `-`. `what` names it in error messages.
///
/// # Errors
/// It cannot be read, is no file, or is longer than 64 MiB.
pub fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    read_bounded(what, path, FILE_MAX)
}

/// Reads a file of at most `limit` bytes, or standard input for `-`. `what` names it in error
/// messages.
///
/// # Errors
/// It cannot be read, is no file, or is longer.
pub fn read_bounded(what: &'static str, path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    bounded(path, limit).map_err(|why| Error::Unreadable { what, path: path.to_owned(), why })
}

/// The same, for callers with a message of their own.
///
/// # Errors
/// It cannot be read, is no file, or is longer.
pub fn bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(open_file(path)?)
    };
    let mut bytes = Vec::new();
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let why = format!("it is longer than {}, the most that is read", size(limit));
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

/// Opens a file to read it. Never waits: a named pipe, a socket or a device is refused.
///
/// # Errors
/// It cannot be opened, or is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    if path.metadata()?.file_type().is_socket() {
        return Err(no_file("a socket"));
    }
    // What the shell passes with `<(COMMAND)` is open already, and its end comes.
    let passed = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];
    if passed.iter().any(|place| path.starts_with(place)) {
        return File::open(path);
    }
    // Opening a pipe waits for its writer without these flags, which change nothing for a file.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_fifo() => Err(no_file("a named pipe")),
        () if kind.is_block_device() => Err(no_file("a device")),
        // The empty file.
        () if kind.is_char_device() && path != Path::new("/dev/null") => Err(no_file("a device")),
        () => Ok(file),
    }
}

fn no_file(what: &str) -> io::Error {
    let why = format!("it is {what}, not a file; save its content in a file, or pipe it to `-`");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// A size in a sentence, in whole units where there are any.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
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

    #[test]
    fn only_files_are_read_and_no_more_than_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 2048]).expect("a file");
        let of = |path: &Path, limit| bounded(path, limit).map_err(|why| why.to_string());
        assert_eq!(of(&path, 2048), Ok(vec![7; 2048]));
        let longer = "it is longer than 1 KiB, the most that is read";
        assert_eq!(of(&path, 1024), Err(longer.to_owned()));
        assert_eq!(of(Path::new("/dev/null"), 0), Ok(Vec::new()));
        // Nothing writes to this pipe: a reader that opens it waits for ever.
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a named pipe");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for (path, what) in [
            (pipe.as_path(), "a named pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let why = of(path, 1024).expect_err("no file");
            assert!(why.starts_with(&format!("it is {what}, not a file; ")), "{why}");
        }
        assert!(of(folder.path(), 1024).is_err(), "a folder");
    }
}
