//! Hands the requests of a log to the engines of a load, while it runs.
//!
//! A thread reads the log, and deals its requests to the workers, in batches through queues of
//! limited length. So the log is read as far ahead as the queues hold, and memory does not depend
//! on its length. The memory of batches and paths goes back to the reader.

mod deal;
mod direct;

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prony_base::feed::{Entry, Feed, Feeds};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::Expect;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::{Blocks, Series};

use crate::bodies::{Bodies, Giver, Missing};
use crate::dispersion::{Dispersion, WINDOWS};
use crate::log::{Error, Facts};
use crate::names::Patterns;
use crate::record::Record;
use crate::shape::{Beginning, Shape, Shaped};
use crate::source::{FileFacts, Source, SourceError};

/// How many requests decide about the patterns of paths.
const BEGINNING: usize = 20_000;
/// How long the thread that reads the log may take to end after the load.
const PATIENCE: Duration = Duration::from_secs(2);

/// A replay of a log.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The log.
    pub source: Source,
    /// What is made of it.
    pub shape: Shape,
    /// The patterns of paths; if there are none, they are found.
    pub patterns: Vec<String>,
    /// Whose requests are kept in order.
    pub by: By,
    /// Whether each of them waits until the one before has ended, and not only until that has been
    /// sent.
    pub wait: bool,
    /// The bodies of requests.
    pub bodies: Option<Arc<Bodies>>,
    /// What counts as success: how long others took in the log is not counted.
    pub expect: Expect,
}

/// Whose requests are kept in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Nobody's.
    #[default]
    Nobody,
    /// Those of a client, by its address.
    Client,
    /// Those with the same cookie.
    Cookie,
}

impl By {
    /// The client of a request; 0: none.
    fn client(self, record: &Record) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Client => record.client,
            Self::Cookie => record.cookie,
        }
    }
}

/// What has been handed out.
#[derive(Clone, Debug, Default)]
pub struct Handed {
    /// What has been read of each file.
    pub files: Vec<FileFacts>,
    /// The index of dispersion of the arrivals in the log, for each length of
    /// [`WINDOWS`].
    pub logged: [Option<f64>; WINDOWS.len()],
    /// The same of the arrivals of the replay.
    pub replayed: [Option<f64>; WINDOWS.len()],
    /// Requests that were handed out.
    pub requests: u64,
    /// How long they took when they were logged, for each name; each request of the log once.
    pub took: Vec<Hist>,
    /// The same of all names, over the time of the replay; `None`: the log does not say.
    pub took_series: Option<Series>,
    /// Requests that were read after they were due.
    pub late: u64,
    /// How late at most.
    pub late_most: Span,
    /// How long requests waited for the last one of their client, of those that had to.
    pub held: Hist,
    /// Requests without a body in the file of bodies.
    pub missing: Missing,
    /// Why the log was not read to its end.
    pub failed: Option<String>,
}

impl Handed {
    /// How long they took when they were logged, in blocks of the time of the replay.
    pub fn took_blocks(&self) -> Option<Blocks> {
        self.took_series.as_ref().map(|series| series.blocks().clone())
    }

    /// The resolution of these times: that of the file with the coarsest. 0: it is not known.
    pub fn took_step(&self) -> Span {
        Span(self.files.iter().map(|file| file.facts.took_step).max().unwrap_or(0))
    }
}

/// A log that is open, and its patterns.
#[derive(Clone)]
pub struct Replay(Arc<Inner>);

struct Inner {
    source: Arc<Source>,
    shape: Shape,
    patterns: Patterns,
    by: By,
    wait: bool,
    bodies: Option<Arc<Bodies>>,
    expect: Expect,
    /// The time of the first request.
    base: i64,
    /// Read already; taken by the first load.
    beginning: Mutex<Option<Beginning>>,
    handed: Mutex<Handed>,
    /// Closed when the thread that reads the log has ended.
    reading: Mutex<Option<Receiver<()>>>,
}

impl Replay {
    /// Reads the beginning of a log.
    ///
    /// # Errors
    /// It cannot be read, or has no request that is sent.
    pub fn open(settings: Settings) -> Result<Self, SourceError> {
        let Settings { source, shape, patterns, by, wait, bodies, expect } = settings;
        let mut log = source.open()?;
        let mut records = VecDeque::new();
        while records.len() < BEGINNING {
            let mut record = Record::default();
            let Some(part) = log.next(&mut record)? else { break };
            records.push_back((record, part));
        }
        let Some((first, _)) = records.front() else {
            let path = source.paths.first().cloned().unwrap_or_default();
            let files = log.facts();
            let facts = Facts {
                other_method: files.iter().map(|file| file.facts.other_method).sum(),
                no_request: files.iter().map(|file| file.facts.no_request).sum(),
                ..Facts::default()
            };
            return Err(SourceError { path, why: Error::Empty(Box::new(facts)) });
        };
        let base = first.at;
        let methods = source.options.methods;
        let patterns = match &patterns[..] {
            [] => {
                let seen = records.iter().map(|(record, _)| (record.method, &record.path[..]));
                Patterns::find(seen, methods)
            }
            given => Patterns::given(given, methods),
        };
        let beginning = Mutex::new(Some(Beginning { log, records }));
        let (handed, reading) = (Mutex::default(), Mutex::default());
        let source = Arc::new(source);
        Ok(Self(Arc::new(Inner {
            source,
            shape,
            patterns,
            by,
            wait,
            bodies,
            expect,
            base,
            beginning,
            handed,
            reading,
        })))
    }

    /// The patterns by which its requests are reported.
    pub fn patterns(&self) -> &Patterns {
        &self.0.patterns
    }

    /// The bodies of its requests, if it has some.
    pub fn bodies(&self) -> Option<&Bodies> {
        self.0.bodies.as_deref()
    }

    /// Whether requests of the beginning of the log have a client, or a cookie.
    pub fn has(&self, by: By) -> bool {
        let beginning = self.0.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        beginning
            .as_ref()
            .is_none_or(|b| b.records.iter().any(|(record, _)| by.client(record) != 0))
    }

    /// Feeds for the workers of a load: a thread reads the log while they run.
    pub fn feeds(&self) -> Feeds {
        let replay = self.clone();
        Feeds::new(move |shares| deal::feeds(&replay, shares))
    }

    /// Feeds that read the log when they are asked: for virtual time, in which waiting is free.
    pub fn direct(&self) -> Feeds {
        let replay = self.clone();
        Feeds::new(move |shares| direct::feeds(&replay, shares))
    }

    /// What has been handed out; to be called after the load. If the load was stopped while the log
    /// was a pipe without data, the facts of the log are those of a moment before.
    pub fn handed(&self) -> Handed {
        let reading = self.0.reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An error is what is expected: the other end is dropped.
        let _ = reading.map(|reading| reading.recv_timeout(PATIENCE));
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Handed> {
        self.0.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arrivals, from the beginning of the log.
    fn shaped(&self) -> Result<Shaped, SourceError> {
        let inner = &*self.0;
        let beginning = inner.beginning.lock().unwrap_or_else(PoisonError::into_inner).take();
        Shaped::new(&inner.source, &inner.shape, inner.base, beginning)
    }

    /// A load begins: nothing has been handed out.
    fn begin(&self) {
        let took = vec![Hist::default(); self.0.patterns.names.len()];
        *self.lock() = Handed { took, ..Handed::default() };
    }

    /// Notes what has been read.
    fn note(&self, read: &Reader) {
        let (files, logged) = read.shaped.read();
        let replayed = read.replayed.indices(read.last);
        let mut handed = self.lock();
        (handed.files, handed.logged, handed.replayed) = (files, logged, replayed);
        handed.failed.clone_from(&read.failed);
        if let Some(giver) = &read.giver {
            handed.missing.clone_from(&giver.missing);
        }
    }
}

/// Reads the log, and makes entries of its requests.
struct Reader {
    replay: Replay,
    shaped: Shaped,
    record: Record,
    replayed: Dispersion,
    giver: Option<Giver>,
    /// The time of the last request.
    last: u64,
    failed: Option<String>,
}

impl Reader {
    fn new(replay: &Replay) -> Result<Self, SourceError> {
        Ok(Self {
            shaped: replay.shaped()?,
            replay: replay.clone(),
            record: Record::default(),
            replayed: Dispersion::default(),
            giver: replay.0.bodies.as_ref().map(Giver::new),
            last: 0,
            failed: None,
        })
    }

    /// The next request. Returns whether there was one; its owner is then in `record`.
    fn next(&mut self, entry: &mut Entry) -> bool {
        let at = match self.shaped.next(&mut self.record) {
            Ok(Some(at)) => at,
            Ok(None) => return false,
            Err(e) => {
                self.failed = Some(e.to_string());
                return false;
            }
        };
        self.last = at;
        self.replayed.add(at);
        entry.own.body = self.giver.as_mut().and_then(|giver| giver.next(&self.record));
        std::mem::swap(&mut entry.own.path, &mut self.record.path);
        entry.at = Span(at);
        entry.call = self.replay.0.patterns.call(self.record.method, &entry.own.path);
        let is_success = self.record.status.is_none_or(|s| self.replay.0.expect.accepts(s));
        entry.took = self.record.took.filter(|_| is_success).map(Span);
        entry.client = self.replay.0.by.client(&self.record);
        true
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.replay.note(self);
    }
}

/// What one feed has handed out; counted with the others at its end.
struct Counts {
    replay: Replay,
    requests: u64,
    took: Vec<Hist>,
    took_series: Option<Series>,
    late: u64,
    late_most: Span,
    held: Hist,
}

impl Counts {
    fn new(replay: &Replay) -> Self {
        let took = vec![Hist::default(); replay.0.patterns.names.len()];
        Self {
            replay: replay.clone(),
            requests: 0,
            took,
            took_series: None,
            late: 0,
            late_most: Span::ZERO,
            held: Hist::default(),
        }
    }

    fn count(&mut self, entry: &Entry) {
        self.requests += 1;
        if let Some(took) = entry.took {
            let (_, name) = self.replay.0.patterns.calls[entry.call as usize];
            self.took[name as usize].record(took);
            let series = self.took_series.get_or_insert_with(|| Series::new(Nanos::ZERO));
            series.replied(Nanos::ZERO + entry.at, took, 0);
        }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let mut handed = self.replay.lock();
        handed.requests += self.requests;
        handed.late += self.late;
        handed.held.merge(&self.held);
        handed.late_most = handed.late_most.max(self.late_most);
        for (all, own) in handed.took.iter_mut().zip(&self.took) {
            all.merge(own);
        }
        if let Some(own) = &self.took_series {
            let all = handed.took_series.get_or_insert_with(|| Series::new(Nanos::ZERO));
            all.merge(own);
        }
    }
}

/// Which of this many shares has the request with this number: those of a client are together.
fn share_of(entry: &Entry, number: u64, shares: u64) -> u64 {
    match entry.client {
        0 => number % shares,
        client => (client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % shares,
    }
}

/// A feed without requests, for a log that cannot be opened again.
fn failed(replay: &Replay, why: &SourceError) -> Vec<Box<dyn Feed>> {
    replay.lock().failed = Some(why.to_string());
    Vec::new()
}
