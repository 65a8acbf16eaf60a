//! Output files: checked before the load, and written completely or not at all.

mod place;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use prony_base::plain::{self, Sink, plain};
use prony_report::{self as report, Format, Saved, Style};
use prony_stats::summary::Summary;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
pub use place::{Place, abandon, place};

/// How long a pipe or a device may take nothing after the load, before the rest is left out: its
/// reader may be stuck.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a line for the user waits for room in standard error.
const LINE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How many outputs are being written.
static WRITING: AtomicU32 = AtomicU32::new(0);

/// While it lives, an output is being written, and may be stuck.
#[derive(Debug)]
pub(crate) struct Writing(());

/// An output is being written from now on.
pub(crate) fn writing() -> Writing {
    WRITING.fetch_add(1, Ordering::Relaxed);
    Writing(())
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether an output is being written.
pub(crate) fn is_writing() -> bool {
    WRITING.load(Ordering::Relaxed) > 0
}

/// The output files of a run.
#[derive(Debug)]
pub struct Outputs {
    files: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    /// The name as given.
    name: PathBuf,
    format: Format,
    place: Place,
}

impl Outputs {
    /// Prepares the files for writing. Does not change existing files.
    pub fn prepare(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut files: Vec<Output> = Vec::with_capacity(paths.len());
        for path in paths {
            if path.as_os_str() == "-" {
                return Err(Error::OutputStdout);
            }
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let format = Format::from_extension(extension)
                .ok_or_else(|| Error::OutputEnding(path.clone()))?;
            let place =
                place(path).map_err(|why| Error::OutputPlace { path: path.clone(), why })?;
            let is_same = |f: &Output| f.place.path() == place.path();
            if place.path().is_some() && files.iter().any(is_same) {
                return Err(Error::OutputTwice(path.clone()));
            }
            files.push(Output { name: path.clone(), format, place });
        }
        Ok(Self { files })
    }

    /// Prepares files that can have only some formats; `why` says which.
    pub fn prepare_only(paths: &[PathBuf], formats: &[Format], why: &str) -> Result<Self, Error> {
        let has_format = |path: &&PathBuf| {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let format = Format::from_extension(extension);
            path.as_os_str() == "-" || format.is_some_and(|format| formats.contains(&format))
        };
        match paths.iter().find(|path| !has_format(path)) {
            None => Self::prepare(paths),
            Some(path) => Err(Error::Value {
                what: "--output",
                value: path.display().to_string(),
                why: why.into(),
            }),
        }
    }

    /// Refuses formats that cannot show this number of runs.
    pub fn check_runs(&self, runs: usize) -> Result<(), Error> {
        let refused = self.files.iter().find(|f| runs > 1 && !f.format.compares());
        refused
            .map_or(Ok(()), |f| Err(Error::OneOnly(format!("--output {}", f.name.display()), runs)))
    }

    /// Writes all files. Tries each one, and returns all errors.
    pub fn write(self, summary: &Summary) -> Result<(), Error> {
        let plain = Style::default();
        self.write_with(|format| report::render(format, summary, &plain))
    }

    /// Writes several results, if the formats can show several.
    pub fn write_all(self, results: &[Saved<'_>]) -> Result<(), Error> {
        self.check_runs(results.len())?;
        let plain = Style::default();
        self.write_with(|format| report::render_all(format, results, &plain).unwrap_or_default())
    }

    /// Writes all files with the contents from `render`.
    pub fn write_with(self, render: impl Fn(Format) -> Vec<u8>) -> Result<(), Error> {
        let one = |file: Output| {
            let what = file.name.display().to_string();
            let written = file.place.write(&render(file.format));
            written.map_err(|why| Error::Report { what, why })
        };
        Error::all(self.files.into_iter().map(one).collect::<Vec<_>>())
    }
}

/// Prints the report of a run to standard output. A closed pipe (`| head`) is not an error.
pub fn print(format: Format, summary: &Summary, style: &Style) -> Result<(), Error> {
    to_stdout(&report::render(format, summary, style)).map_err(|e| match e {
        Error::Stdout(why) => Error::Report { what: "the report".into(), why },
        e => e,
    })
}

/// Writes a line to standard error: whatever is in it, it is one, and plain. Ignores errors, which
/// must not end a run or prevent its report, and so must not a pipe whose reader is stuck: without
/// room, the line is left out.
pub fn to_stderr(line: &str) {
    say(&plain::line(line));
}

/// The same, of a text of several lines.
pub fn lines_to_stderr(lines: &str) {
    say(&plain(lines, Sink::Lines));
}

/// Writes prony's own annotations for a build server to standard error.
pub fn annotations_to_stderr(annotations: &str) {
    say(annotations);
}

/// Writes to standard error, if there is room.
fn say(text: &str) {
    let stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut fds, Some(&LINE)) != Ok(0) {
        let _ = writeln!(stderr.lock(), "{text}");
    }
}

/// Writes bytes to standard output. A closed pipe is not an error, but an output that was closed
/// from the start is.
pub fn to_stdout(bytes: &[u8]) -> Result<(), Error> {
    if bytes.is_empty() {
        return Ok(());
    }
    with_stdout(|| io::stdout().lock().write_all(bytes))
}

/// Runs `write`, which writes to standard output itself.
pub fn with_stdout(write: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
    if prony_io::stdio::stdout_was_closed() {
        return Err(Error::Stdout(io::Error::other("standard output is closed")));
    }
    let _writing = writing();
    match write().and_then(|()| io::stdout().lock().flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(why) => Err(Error::Stdout(why)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use expect_test::expect;
    use prony_base::meter::WorkerStats;
    use prony_stats::summary::RunInfo;
    use prony_tally::record::Tally;

    use super::*;
    use crate::plan_file;

    fn summary() -> Summary {
        let parts = vec![(None, Tally::default(), WorkerStats::default())];
        Summary::from_parts(plan_file::tests::plan("url = 'http://h/'"), RunInfo::default(), parts)
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The error message, split into lines.
    fn refused(dir: &Path, files: &[&str]) -> String {
        let paths: Vec<_> = files.iter().map(|f| dir.join(f)).collect();
        let error = Outputs::prepare(&paths).unwrap_err().to_string();
        error.replace(dir.to_str().unwrap(), "DIR").replace(": ", ":\n  ") + "\n"
    }

    #[test]
    fn writes_complete_files_and_leaves_no_temporary_files() {
        let dir = tempfile::tempdir().unwrap();
        let files =
            ["a.json", "b.csv", "c.hgrm", "d.hlog", "e.html", "f.svg", "g.png", "h.xml", "i.md"];
        let paths = files.map(|f| dir.path().join(f));
        fs::write(&paths[0], "older").unwrap();
        let outputs = Outputs::prepare(&paths).unwrap();
        assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "older", "untouched before the run");
        outputs.write(&summary()).unwrap();
        assert_eq!(names(dir.path()), files);
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(&paths[0]).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
    }

    #[test]
    fn leaves_no_file_without_a_run() {
        let dir = tempfile::tempdir().unwrap();
        drop(Outputs::prepare(&[dir.path().join("a.json")]).unwrap());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn replaces_the_target_of_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link.json"));
        fs::write(&file, "older").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Outputs::prepare(std::slice::from_ref(&link)).unwrap().write(&summary()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().starts_with('{'));
    }

    #[test]
    fn writes_to_devices_without_replacing_them() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("null.json");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        Outputs::prepare(&[link]).unwrap().write(&summary()).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn reports_a_failed_file_and_writes_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, kept) = (dir.path().join("gone"), dir.path().join("kept.json"));
        fs::create_dir(&gone).unwrap();
        let outputs = Outputs::prepare(&[gone.join("a.json"), kept.clone()]).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let error = outputs.write(&summary()).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Output);
        expect![
            "the run finished, but DIR/gone/a.json could not be written: no such file or directory"
        ]
        .assert_eq(&error.to_string().replace(dir.path().to_str().unwrap(), "DIR"));
        assert!(kept.exists());
    }

    /// Each file that cannot be written is named.
    #[test]
    fn reports_every_failed_file() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let paths = ["a.json", "b.csv", "c.html"].map(|name| gone.join(name));
        let outputs = Outputs::prepare(&paths).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let error = outputs.write(&summary()).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Output);
        let text = error.printed();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        for (line, name) in lines.iter().zip(["a.json", "b.csv", "c.html"]) {
            assert!(line.contains(&format!("{name} could not be written")), "{text}");
        }
        assert!(error.without_run().printed().lines().all(|line| !line.contains("finished")));
    }

    #[test]
    fn rejects_invalid_output_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder.json")).unwrap();
        let cases: [&[&str]; 5] = [
            &["a.txt"],
            &["a"],
            &["nowhere/a.json"],
            &["folder.json"],
            &["a.json", "b.csv", "./a.json"],
        ];
        expect![[r#"
            --output DIR/a.txt:
              unknown file name extension; use .html, .svg, .png, .json, .csv, .xml, .md, .hgrm or .hlog
            --output DIR/a:
              unknown file name extension; use .html, .svg, .png, .json, .csv, .xml, .md, .hgrm or .hlog
            --output DIR/nowhere/a.json:
              cannot be written:
              no such file or directory; choose an existing, writable directory
            --output DIR/folder.json:
              cannot be written:
              is a directory; choose an existing, writable directory
            --output DIR/./a.json:
              given twice; give each file once
        "#]]
        .assert_eq(&cases.map(|files| refused(dir.path(), files)).concat());
    }
}
