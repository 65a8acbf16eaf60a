//! One output file: checked before the run, and written completely or not at all after it.
//!
//! A file has no name (`O_TMPFILE`) until it is complete, so that the process leaves nothing behind
//! however it ends. File systems without that feature get a temporary file in the same directory.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use tempfile::{NamedTempFile, TempPath};

use super::{PATIENCE, writing};

/// The prefix of the names of temporary files.
const PREFIX: &str = ".prony-";
/// The mode of new files, before the umask.
const MODE: u32 = 0o666;

/// The temporary files, which are removed when the process ends.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// An output file that is writable and not yet changed.
#[derive(Debug)]
pub struct Place(Kind);

#[derive(Debug)]
enum Kind {
    /// A regular file without a name until it is complete.
    Nameless { file: File, path: PathBuf },
    /// A regular file that is written to a temporary file, then renamed.
    Temporary { temporary: NamedTempFile, path: PathBuf },
    /// A pipe or a device, which must not be replaced.
    Special(File),
}

impl Place {
    /// The path of the file, if it is a regular file.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Nameless { path, .. } | Kind::Temporary { path, .. } => Some(path),
            Kind::Special(_) => None,
        }
    }

    /// Whether it is a pipe or a device.
    pub fn is_special(&self) -> bool {
        matches!(self.0, Kind::Special(_))
    }

    /// The same file, which only its owner may read and write.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn for_owner(self) -> io::Result<Self> {
        let only_owner = Permissions::from_mode(0o600);
        match &self.0 {
            Kind::Nameless { file, .. } => file.set_permissions(only_owner)?,
            Kind::Temporary { temporary, .. } => {
                temporary.as_file().set_permissions(only_owner)?;
            }
            Kind::Special(_) => {}
        }
        Ok(self)
    }

    /// Adds to the file, which has no name before it is [`complete`](Self::complete).
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Nameless { file, .. } | Kind::Special(file) => file.write_all(bytes),
            Kind::Temporary { temporary, .. } => temporary.write_all(bytes),
        }
    }

    /// Names the file, to which everything was added.
    ///
    /// # Errors
    /// It cannot be written, or named.
    pub(crate) fn complete(self) -> io::Result<()> {
        match self.0 {
            Kind::Nameless { file, path } => {
                file.sync_all()?;
                name(&file, &path)
            }
            Kind::Temporary { temporary, path } => write_temporary(temporary, &path, b""),
            Kind::Special(_) => Ok(()),
        }
    }

    /// Writes the file, completely or not at all.
    ///
    /// # Errors
    /// The file cannot be written, or is a pipe whose reader is stuck.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        let _writing = writing();
        match self.0 {
            Kind::Nameless { file, path } => write_nameless(file, &path, bytes),
            Kind::Temporary { temporary, path } => write_temporary(temporary, &path, bytes),
            Kind::Special(target) => write_special(&target, bytes),
        }
    }
}

/// Checks that a file can be written.
///
/// # Errors
/// It cannot be written.
pub fn place(path: &Path) -> io::Result<Place> {
    place_with(path, nameless)
}

fn place_with(path: &Path, nameless: fn(&Path) -> Option<io::Result<File>>) -> io::Result<Place> {
    // Follow a symbolic link, to replace its target and not the link.
    let path = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            folder(path).canonicalize()?.join(name)
        }
        Err(e) => return Err(e),
    };
    match fs::metadata(&path) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => {
            let file = fs::OpenOptions::new().write(true).open(&path)?;
            return Ok(Place(Kind::Special(file)));
        }
        // Check the permissions of the file, not only those of its directory.
        Ok(_) => drop(fs::OpenOptions::new().append(true).open(&path)?),
        Err(_) => {}
    }
    match nameless(folder(&path)) {
        Some(file) => Ok(Place(Kind::Nameless { file: file?, path })),
        None => Ok(Place(Kind::Temporary { temporary: beside(folder(&path))?, path })),
    }
}

/// Removes the temporary files, before the process ends early.
pub fn abandon() {
    for path in temporaries().drain(..) {
        // The file may already be renamed.
        let _ = fs::remove_file(path);
    }
}

fn temporaries() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file without a name in this directory; `None` if the system does not support it.
fn nameless(folder: &Path) -> Option<io::Result<File>> {
    use rustix::io::Errno;
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    match open(folder, flags, Mode::from_raw_mode(MODE)) {
        Ok(file) => Some(Ok(file.into())),
        // The errors of file systems and kernels without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => None,
        Err(e) => Some(Err(e.into())),
    }
}

fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let file =
        builder.prefix(PREFIX).permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
    temporaries().push(file.path().to_owned());
    Ok(file)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn write_nameless(mut file: File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()?;
    match name(&file, path) {
        Ok(()) => Ok(()),
        // If the directory still exists, try a temporary file.
        Err(_) if folder(path).is_dir() => write_temporary(beside(folder(path))?, path, bytes),
        Err(e) => Err(e),
    }
}

/// Writes to a pipe or a device, as long as it takes some of it now and then.
fn write_special(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    // Without it, the writes below wait, and only their waits are not limited.
    let _ = rustix::io::ioctl_fionbio(file, true);
    let seconds = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
    let patience = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = &rest[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&patience)) == Ok(0) {
                    let why = format!("nobody has read from it for {seconds} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Names a file without a name, and replaces an existing file.
fn name(file: &File, path: &Path) -> io::Result<()> {
    match link(file, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    // linkat() cannot replace a file, but rename() can.
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(PREFIX).make_in(folder(path), |name| link(file, name))?;
    let name: TempPath = made.into_temp_path();
    name.persist(path).map_err(|e| e.error)
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
}

fn write_temporary(mut temporary: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn none(_: &Path) -> Option<io::Result<File>> {
        None
    }

    #[test]
    fn creates_no_file_until_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&old, "older").unwrap();
        let before = fs::metadata(&old).unwrap().ino();
        let places = [place(&new).unwrap(), place(&old).unwrap()];
        assert!(places.iter().all(|p| matches!(p.0, Kind::Nameless { .. })), "{places:?}");
        assert_eq!(names(dir.path()), ["old"]);
        for place in places {
            place.write(b"newer").unwrap();
        }
        assert_eq!(names(dir.path()), ["new", "old"]);
        assert_eq!(fs::read_to_string(&new).unwrap(), "newer");
        assert_eq!(fs::read_to_string(&old).unwrap(), "newer");
        let after = fs::metadata(&old).unwrap();
        assert_ne!(after.ino(), before, "replaced, not overwritten");
        assert_eq!(after.mode(), fs::metadata(&new).unwrap().mode());
    }

    #[test]
    fn uses_temporary_files_without_support_for_nameless_files() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&old, "older").unwrap();
        place_with(&old, none).unwrap().write(b"newer").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "newer");
        let waits = place_with(&new, none).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        let Kind::Temporary { temporary, .. } = &waits.0 else { panic!("{waits:?}") };
        assert!(temporaries().iter().any(|p| p == temporary.path()));
        abandon();
        assert_eq!(names(dir.path()), ["old"]);
    }

    #[test]
    fn fails_in_a_removed_directory() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let place = place(&gone.join("file")).unwrap();
        fs::remove_dir(&gone).unwrap();
        assert_eq!(place.write(b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
