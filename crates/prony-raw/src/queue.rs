//! The queues between workers and the thread that writes, and that thread.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prony_base::units::Nanos;
use prony_core::engine::{EndedRequest, Tap, Taps};
use prony_plan::plan::Plan;

use crate::Destination;
#[cfg(feature = "parquet")]
use crate::columns::Columns;
use crate::line::{Format, Line, Lines, NONE};

/// How many requests wait for the writer, for each worker: 10 MB.
const QUEUE: usize = 1 << 17;
/// How long the writer sleeps when there is nothing to write. At a million requests per second, the
/// queue is full after 130 ms.
const PAUSE: Duration = Duration::from_millis(2);
/// How much is written at once, in bytes.
const PIECE: usize = 1 << 18;

/// A file of raw results that is being written.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    /// `None` after the end.
    thread: Option<JoinHandle<io::Result<u64>>>,
}

/// Why no file was begun.
#[derive(Debug)]
pub enum BeginError {
    /// The file cannot be written.
    File(io::Error),
    /// No thread can be started.
    Thread(io::Error),
}

/// The requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Those in the file.
    pub written: u64,
    /// Those that are not: they found the queue full.
    pub left_out: u64,
}

/// Why a file is not complete.
#[derive(Debug)]
pub enum EndError {
    /// It could not be written.
    File(io::Error),
    /// It did not take everything in time; what it has taken stays.
    Stuck(Counts),
}

/// What workers and writer share.
#[derive(Debug, Default)]
struct Shared {
    /// Of the workers, in the order of their creation.
    queues: Mutex<Vec<Receiver<Line>>>,
    /// The number of workers so far.
    workers: AtomicU32,
    /// Requests that found the queue full.
    left_out: AtomicU64,
    /// All requests of the workers that have ended.
    all: AtomicU64,
    /// How many the file has taken, apart from columns, which it takes at the end.
    taken: AtomicU64,
    /// The load has ended, and with it all workers.
    is_over: AtomicBool,
    /// Nobody wants the file.
    is_abandoned: AtomicBool,
}

impl Writer {
    /// Begins the raw results of a run of this plan. The workers of the run have these taps.
    /// `waits`: workers wait for the writer, instead of leaving requests out.
    ///
    /// # Errors
    /// The file cannot be written, or no thread can be started.
    ///
    /// # Panics
    /// The format is not [available](Format::is_available).
    pub fn begin(
        format: Format,
        file: Box<dyn Destination>,
        plan: &Plan,
        waits: bool,
    ) -> Result<(Self, Taps), BeginError> {
        assert!(format.is_available(), "{format:?}");
        let sheet = Sheet::new(format, file, plan).map_err(BeginError::File)?;
        let shared = Arc::new(Shared::default());
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("raw results".into())
                .spawn(move || write(sheet, &shared))
                .map_err(BeginError::Thread)?
        };
        let taps = {
            let shared = Arc::clone(&shared);
            Taps::new(move || RawTap::new(&shared, waits))
        };
        Ok((Self { shared, thread: Some(thread) }, taps))
    }

    /// The requests so far, after the load, if the file takes all that have found room.
    pub fn counts(&self) -> Counts {
        let left_out = self.shared.left_out.load(Ordering::Relaxed);
        let written = self.shared.all.load(Ordering::Relaxed).saturating_sub(left_out);
        Counts { written, left_out }
    }

    /// Completes the file after the load, within the limit if there is one.
    ///
    /// # Errors
    /// The file could not be written, or takes longer.
    pub fn end(mut self, limit: Option<Duration>) -> Result<Counts, EndError> {
        self.shared.is_over.store(true, Ordering::Release);
        let thread = self.thread.take().expect("only this takes it");
        let begun = Instant::now();
        while let Some(limit) = limit
            && !thread.is_finished()
        {
            if begun.elapsed() >= limit {
                let written = self.shared.taken.load(Ordering::Relaxed);
                let all = self.shared.all.load(Ordering::Relaxed);
                return Err(EndError::Stuck(Counts {
                    written,
                    left_out: all.saturating_sub(written),
                }));
            }
            thread::sleep(PAUSE);
        }
        let written =
            thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        let written = written.map_err(EndError::File)?;
        Ok(Counts { written, left_out: self.shared.left_out.load(Ordering::Relaxed) })
    }
}

/// Without an end, there is no file.
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_abandoned.store(true, Ordering::Relaxed);
        self.shared.is_over.store(true, Ordering::Release);
    }
}

/// The observer of a worker.
struct RawTap {
    worker: u32,
    queue: SyncSender<Line>,
    waits: bool,
    shared: Arc<Shared>,
    /// The number of each connection, with the generation of its slot.
    connections: Vec<(u32, u32)>,
    /// The number of connections so far.
    count: u32,
    /// The number of requests so far.
    ended: u64,
}

impl Drop for RawTap {
    fn drop(&mut self) {
        self.shared.all.fetch_add(self.ended, Ordering::Relaxed);
    }
}

impl RawTap {
    fn new(shared: &Arc<Shared>, waits: bool) -> Self {
        let (queue, receiver) = sync_channel(QUEUE);
        shared.queues.lock().unwrap_or_else(PoisonError::into_inner).push(receiver);
        let worker = shared.workers.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        Self { worker, queue, waits, shared, connections: Vec::new(), count: 0, ended: 0 }
    }

    /// The number of a connection: 0 for the first that has carried a complete reply.
    fn number(&mut self, slot: u32, generation: u32) -> u32 {
        let slot = slot as usize;
        if slot >= self.connections.len() {
            self.connections.resize(slot + 1, (0, NONE));
        }
        let known = &mut self.connections[slot];
        if *known == (0, NONE) || known.0 != generation {
            *known = (generation, self.count);
            self.count += 1;
        }
        known.1
    }
}

impl Tap for RawTap {
    fn wants_ends(&self) -> bool {
        true
    }

    fn request_ended(&mut self, request: &EndedRequest) {
        // It comes again with its tokens.
        if request.stream.is_none_or(|stream| !stream.is_uncounted) {
            self.add(request);
        }
    }

    fn tokens_counted(&mut self, request: &EndedRequest) {
        self.add(request);
    }
}

impl RawTap {
    /// Passes a request to the writer.
    fn add(&mut self, request: &EndedRequest) {
        self.ended += 1;
        let connection = request.conn.map(|id| self.number(id.slot, id.generation));
        let line = Line {
            worker: self.worker,
            connection: connection.unwrap_or(NONE),
            call: request.call,
            intended: request.stamps.intended,
            sent: if request.was_sent { request.stamps.sent } else { Nanos::MAX },
            first: if request.has_begun { request.stamps.first } else { Nanos::MAX },
            done: request.stamps.done,
            status: request.reply.map_or(0, |reply| reply.status),
            fault: request.fault,
            head: request.reply.map_or(0, |reply| reply.head_bytes),
            body: request.reply.map_or(0, |reply| reply.body_bytes),
            stream: request.stream.map(Box::new),
        };
        // A writer that has ended has failed, and says why.
        if self.waits {
            let _ = self.queue.send(line);
        } else if let Err(TrySendError::Full(_)) = self.queue.try_send(line) {
            self.shared.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What is written, and where.
enum Sheet {
    Text(Box<dyn Destination>, Lines),
    #[cfg(feature = "parquet")]
    Columns(Box<Columns>),
}

impl Sheet {
    fn new(format: Format, file: Box<dyn Destination>, plan: &Plan) -> io::Result<Self> {
        #[cfg(feature = "parquet")]
        if format == Format::Parquet {
            return Columns::new(file, plan).map(Box::new).map(Self::Columns);
        }
        Ok(Self::Text(file, Lines::new(format, plan)))
    }

    /// Adds a line. Returns whether the file has taken all lines so far.
    fn add(&mut self, line: Line) -> io::Result<bool> {
        match self {
            Self::Text(file, lines) => {
                lines.add(&line);
                let is_full = lines.text().len() >= PIECE;
                if is_full {
                    file.add(lines.text())?;
                    lines.clear();
                }
                Ok(is_full)
            }
            #[cfg(feature = "parquet")]
            Self::Columns(columns) => columns.add(line).map(|()| false),
        }
    }

    fn complete(self) -> io::Result<()> {
        match self {
            Self::Text(mut file, lines) => {
                file.add(lines.text())?;
                file.complete()
            }
            #[cfg(feature = "parquet")]
            Self::Columns(columns) => columns.complete(),
        }
    }
}

/// The thread that writes. Returns the number of requests in the file.
fn write(mut sheet: Sheet, shared: &Shared) -> io::Result<u64> {
    let mut written = 0;
    loop {
        // Before the look into the queues, so that nothing is in them if it was true.
        let is_over = shared.is_over.load(Ordering::Acquire);
        let before = written;
        {
            let queues = shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
            for queue in queues.iter() {
                // Turn by turn, so that no queue waits for long.
                for _ in 0..QUEUE / 8 {
                    match queue.try_recv() {
                        Ok(line) => {
                            written += 1;
                            if sheet.add(line)? {
                                shared.taken.store(written, Ordering::Relaxed);
                            }
                        }
                        Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                    }
                }
            }
        }
        if written == before {
            if is_over && shared.is_abandoned.load(Ordering::Relaxed) {
                return Ok(0);
            }
            if is_over {
                return sheet.complete().map(|()| written);
            }
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests;
