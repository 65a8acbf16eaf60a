//! Output files: proved writable before the load, written whole or not at all.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use prony_core::summary::Summary;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::report::{self, Format, Style};

/// The files to which a run's results go.
#[derive(Debug)]
pub struct Outputs {
    files: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    /// As typed.
    name: PathBuf,
    format: Format,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// An ordinary file: written beside its place, then moved there.
    Beside { temporary: NamedTempFile, path: PathBuf },
    /// A pipe or a device, which must not be replaced.
    Special(fs::File),
}

impl Outputs {
    /// Open what is needed to write the files later. Nothing that exists is touched.
    pub fn prepare(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut files: Vec<Output> = Vec::with_capacity(paths.len());
        for path in paths {
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let format =
                Format::from_extension(ending).ok_or_else(|| Error::OutputEnding(path.clone()))?;
            let place =
                place(path).map_err(|why| Error::OutputPlace { path: path.clone(), why })?;
            if let Place::Beside { path: new, .. } = &place
                && files
                    .iter()
                    .any(|f| matches!(&f.place, Place::Beside { path, .. } if path == new))
            {
                return Err(Error::OutputTwice(path.clone()));
            }
            files.push(Output { name: path.clone(), format, place });
        }
        Ok(Self { files })
    }

    /// Write all files. Every one is tried; the first failure is returned.
    pub fn write(self, summary: &Summary) -> Result<(), Error> {
        let mut result = Ok(());
        for file in self.files {
            let bytes = report::render(file.format, summary, &Style { colour: false });
            let written = match file.place {
                Place::Beside { temporary, path } => write_beside(temporary, &path, &bytes),
                Place::Special(mut target) => target.write_all(&bytes),
            };
            if let Err(why) = written {
                let error = Error::Report { what: file.name.display().to_string(), why };
                result = result.and(Err(error));
            }
        }
        result
    }
}

fn place(path: &Path) -> io::Result<Place> {
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
            return fs::OpenOptions::new().write(true).open(&path).map(Place::Special);
        }
        // The file's own permission counts, not only its folder's.
        Ok(_) => drop(fs::OpenOptions::new().append(true).open(&path)?),
        Err(_) => {}
    }
    let temporary = tempfile::Builder::new()
        .prefix(".prony-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder(&path))?;
    Ok(Place::Beside { temporary, path })
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn write_beside(mut temporary: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|e| e.error)
}

/// Print the report on standard output. A reader that has gone away (`| head`) is no error.
pub fn print(format: Format, summary: &Summary, style: &Style) -> Result<(), Error> {
    to_stdout(&report::render(format, summary, style))
}

/// Write bytes to standard output. A reader that has gone away is no error.
pub fn to_stdout(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(why) => Err(Error::Report { what: "the report".into(), why }),
        Ok(()) => Ok(()),
    }
}
