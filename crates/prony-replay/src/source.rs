//! Several logs as one: the parts of a log, or the logs of several servers.

use std::fmt;
use std::mem;
use std::path::PathBuf;

use crate::input::{self, Bytes};
use crate::log::{Error, Facts, Log, Options};
use crate::record::Record;

/// Which logs, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Their files; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// How to read them.
    pub options: Options,
    /// Requests before this time are left out; in nanoseconds since 1970.
    pub from: Option<i64>,
    /// Requests from this time on are left out.
    pub to: Option<i64>,
}

/// What has been read of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// The file.
    pub path: PathBuf,
    /// The name of its format.
    pub format: &'static str,
    /// Which time of a line requests are sent at, as a sentence.
    pub times: String,
    /// What is in it.
    pub facts: Facts,
}

/// Why a log cannot be read.
#[derive(Debug)]
pub struct SourceError {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong.
    pub why: Error,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for SourceError {}

impl Source {
    /// Whether it can be read once only.
    pub fn is_pipe(&self) -> bool {
        self.paths.iter().any(|path| input::is_pipe(path))
    }

    pub(crate) fn open(&self) -> Result<Merged, SourceError> {
        let error = |path: &PathBuf| {
            let path = path.clone();
            |why| SourceError { path, why }
        };
        let mut parts = Vec::new();
        for path in &self.paths {
            let bytes = input::open(path).map_err(|e| error(path)(Error::Io(e)))?;
            let log = Log::open(bytes, self.options.clone()).map_err(error(path))?;
            parts.push(Part { path: path.clone(), log, head: None });
        }
        let (from, to) = (self.from.unwrap_or(i64::MIN), self.to.unwrap_or(i64::MAX));
        Ok(Merged { parts, from, to, begun: false })
    }
}

/// The requests of several logs in the order of their times.
pub(crate) struct Merged {
    parts: Vec<Part>,
    from: i64,
    to: i64,
    begun: bool,
}

struct Part {
    path: PathBuf,
    log: Log<Bytes>,
    head: Option<Record>,
}

impl Part {
    /// Reads the next request into `head`.
    fn advance(&mut self, spare: Record) -> Result<(), SourceError> {
        let mut spare = spare;
        self.head = None;
        match self.log.next_record() {
            Ok(Some(record)) => {
                mem::swap(record, &mut spare);
                self.head = Some(spare);
            }
            Ok(None) | Err(Error::Empty(_)) => {}
            Err(why) => return Err(SourceError { path: self.path.clone(), why }),
        }
        Ok(())
    }
}

impl Merged {
    /// Exchanges `record` for the next request. Returns the index of its log; `None`: there are no
    /// more.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<Option<usize>, SourceError> {
        if !mem::replace(&mut self.begun, true) {
            for part in &mut self.parts {
                part.advance(Record::default())?;
            }
        }
        loop {
            let heads = self.parts.iter().enumerate();
            let first = heads.filter_map(|(i, part)| Some((part.head.as_ref()?.at, i))).min();
            let Some((at, i)) = first.filter(|(at, _)| *at < self.to) else { return Ok(None) };
            let part = &mut self.parts[i];
            let head = part.head.take().expect("it was chosen");
            let spare = mem::replace(record, head);
            part.advance(spare)?;
            if at >= self.from {
                return Ok(Some(i));
            }
        }
    }

    /// What has been read of each of them so far.
    pub(crate) fn facts(&self) -> Vec<FileFacts> {
        let facts = |part: &Part| FileFacts {
            path: part.path.clone(),
            format: part.log.format().name(),
            times: part.log.format().times(),
            facts: part.log.facts(),
        };
        self.parts.iter().map(facts).collect()
    }
}
