//! Where one file goes: proved writable before the run, written whole or not at all after it.
//!
//! Until it is whole a file has no name (`O_TMPFILE`), so that no end of the process leaves
//! anything behind. Only where the file system cannot do that it has one beside its place.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use tempfile::{NamedTempFile, TempPath};

/// The beginning of the names that files have beside their place.
const PREFIX: &str = ".prony-";
/// What a new file may be, less the umask.
const MODE: u32 = 0o666;

/// The files beside their places, which must go when the process is ended.
static BESIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Where one file goes: proved writable, not yet touched.
#[derive(Debug)]
pub struct Place(Kind);

#[derive(Debug)]
enum Kind {
    /// An ordinary file that has no name until it is whole.
    Nameless { file: File, path: PathBuf },
    /// An ordinary file: written beside its place, then moved there.
    Beside { temporary: NamedTempFile, path: PathBuf },
    /// A pipe or a device, which must not be replaced.
    Special(File),
}

impl Place {
    /// The file that is to be replaced or made, where it is an ordinary one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Nameless { path, .. } | Kind::Beside { path, .. } => Some(path),
            Kind::Special(_) => None,
        }
    }

    /// Write the file, whole or not at all.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self.0 {
            Kind::Nameless { file, path } => write_nameless(file, &path, bytes),
            Kind::Beside { temporary, path } => write_beside(temporary, &path, bytes),
            Kind::Special(mut target) => target.write_all(bytes),
        }
    }
}

/// Prove that a file can be written.
///
/// # Errors
/// Why it cannot.
pub fn place(path: &Path) -> io::Result<Place> {
    place_with(path, nameless)
}

fn place_with(path: &Path, nameless: fn(&Path) -> Option<io::Result<File>>) -> io::Result<Place> {
    // A link is followed, so that the file that it names is replaced and not the link.
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
        // The file's own permission counts, not only its folder's.
        Ok(_) => drop(fs::OpenOptions::new().append(true).open(&path)?),
        Err(_) => {}
    }
    match nameless(folder(&path)) {
        Some(file) => Ok(Place(Kind::Nameless { file: file?, path })),
        None => Ok(Place(Kind::Beside { temporary: beside(folder(&path))?, path })),
    }
}

/// Remove what stands beside its place: the process ends before it is whole.
pub fn abandon() {
    for path in beside_now().drain(..) {
        // It may have been moved to its place.
        let _ = fs::remove_file(path);
    }
}

fn beside_now() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    BESIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in that folder without a name; `None` where there can be none.
fn nameless(folder: &Path) -> Option<io::Result<File>> {
    use rustix::io::Errno;
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    match open(folder, flags, Mode::from_raw_mode(MODE)) {
        Ok(file) => Some(Ok(file.into())),
        // The file system or the kernel does not know it, each with its own word for that.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => None,
        Err(e) => Some(Err(e.into())),
    }
}

fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let file =
        builder.prefix(PREFIX).permissions(Permissions::from_mode(MODE)).tempfile_in(folder)?;
    beside_now().push(file.path().to_owned());
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
        // A folder that is gone has no place for it in any other way either.
        Err(_) if folder(path).is_dir() => write_beside(beside(folder(path))?, path, bytes),
        Err(e) => Err(e),
    }
}

/// Give a file without a name that one, in place of the file that has it.
fn name(file: &File, path: &Path) -> io::Result<()> {
    match link(file, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    // No link replaces a file, but a renamed one does. Between the two lies no wait.
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(PREFIX).make_in(folder(path), |name| link(file, name))?;
    let name: TempPath = made.into_temp_path();
    name.persist(path).map_err(|e| e.error)
}

fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
}

fn write_beside(mut temporary: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
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
    fn nothing_stands_in_the_folder_until_the_file_is_whole() {
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
        assert_ne!(after.ino(), before, "replaced, not written over");
        assert_eq!(after.mode(), fs::metadata(&new).unwrap().mode());
    }

    #[test]
    fn without_nameless_files_one_stands_beside_until_the_process_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&old, "older").unwrap();
        place_with(&old, none).unwrap().write(b"newer").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "newer");
        let waits = place_with(&new, none).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        let Kind::Beside { temporary, .. } = &waits.0 else { panic!("{waits:?}") };
        assert!(beside_now().iter().any(|p| p == temporary.path()));
        abandon();
        assert_eq!(names(dir.path()), ["old"]);
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let place = place(&gone.join("file")).unwrap();
        fs::remove_dir(&gone).unwrap();
        assert_eq!(place.write(b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
