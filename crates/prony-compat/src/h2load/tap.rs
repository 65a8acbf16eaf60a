//! What is observed of single requests: headers for `-v`, rows for `--log-file`, and the size of
//! HTTP/1.1's headers.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, RequestId};
use prony_core::engine::Tap;
use prony_proto::proto::Reply;

use crate::say;

/// What all workers share.
#[derive(Debug)]
pub(super) struct Shared {
    log: Option<Mutex<BufWriter<File>>>,
    verbose: bool,
    h1: bool,
    /// The names and values of headers over HTTP/1.1, in bytes.
    h1_fields: AtomicU64,
}

impl Shared {
    pub(super) fn new(log: Option<File>, verbose: bool, h1: bool) -> Self {
        let log = log.map(|file| Mutex::new(BufWriter::new(file)));
        Self { log, verbose, h1, h1_fields: AtomicU64::new(0) }
    }

    /// Whether there is anything to observe.
    pub(super) fn is_needed(&self) -> bool {
        self.log.is_some() || self.verbose || self.h1
    }

    pub(super) fn h1_fields(&self) -> u64 {
        self.h1_fields.load(Ordering::Relaxed)
    }

    /// Write what is left of the log. Returns whether all of it was written.
    pub(super) fn finish(&self) -> bool {
        let Some(log) = &self.log else { return true };
        log.lock().is_ok_and(|mut log| log.flush().is_ok())
    }
}

/// A connection's requests: their numbers, in the order in which they were sent.
#[derive(Debug, Default)]
struct Conn {
    sent: u32,
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
struct Pending {
    id: RequestId,
    /// The number of its stream, if it is one.
    stream: u32,
    started: Instant,
    /// Microseconds since 1970.
    at: u128,
    headers: String,
}

/// Observes the requests of a worker.
#[derive(Debug)]
pub(super) struct Observer {
    shared: Arc<Shared>,
    conns: HashMap<ConnId, Conn>,
    fields: u64,
}

impl Observer {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), conns: HashMap::new(), fields: 0 }
    }

    fn watches_requests(&self) -> bool {
        self.shared.log.is_some() || (self.shared.verbose && !self.shared.h1)
    }

    fn take(&mut self, conn: ConnId, id: RequestId) -> Option<Pending> {
        let pending = &mut self.conns.get_mut(&conn)?.pending;
        let at = pending.iter().position(|pending| pending.id == id)?;
        pending.remove(at)
    }

    /// A row of the log; -1 is the status of a request without a reply.
    fn log(&self, pending: &Pending, status: i32) {
        let Some(log) = &self.shared.log else { return };
        if let Ok(mut log) = log.lock() {
            // `finish` reports that the log cannot be written.
            let took = pending.started.elapsed().as_micros();
            let _ = writeln!(log, "{}\t{status}\t{took}", pending.at);
        }
    }
}

impl Tap for Observer {
    fn submitted(&mut self, conn: ConnId, id: RequestId, _: u32, _: &[u8]) {
        if self.watches_requests() {
            let conn = self.conns.entry(conn).or_default();
            let at = SystemTime::now().duration_since(UNIX_EPOCH);
            conn.pending.push_back(Pending {
                id,
                stream: conn.sent * 2 + 1,
                started: Instant::now(),
                at: at.map_or(0, |since| since.as_micros()),
                headers: String::new(),
            });
            conn.sent += 1;
        }
    }

    fn read(&mut self, _: ConnId, _: Result<usize, Fault>) {
        if self.fields > 0 {
            self.shared.h1_fields.fetch_add(std::mem::take(&mut self.fields), Ordering::Relaxed);
        }
    }

    fn wants_headers(&self) -> bool {
        self.shared.verbose || self.shared.h1
    }

    fn header(&mut self, conn: ConnId, id: RequestId, name: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        if self.shared.h1 {
            self.fields += (name.len() + value.len()) as u64;
        }
        if self.shared.verbose {
            let line = format!("{}: {}\n", name.escape_ascii(), value.escape_ascii());
            if self.shared.h1 {
                say(&line);
            } else if let Some(conn) = self.conns.get_mut(&conn)
                && let Some(pending) = conn.pending.iter_mut().find(|pending| pending.id == id)
            {
                let _ = write!(pending.headers, "[stream_id={}] {line}", pending.stream);
            }
        }
    }

    fn done(&mut self, conn: ConnId, id: RequestId, reply: &Reply) {
        let Some(pending) = self.take(conn, id) else { return };
        self.log(&pending, i32::from(reply.status));
        if self.shared.verbose {
            say(&pending.headers);
        }
    }

    fn cancelled(&mut self, conn: ConnId, id: RequestId) {
        if let Some(pending) = self.take(conn, id) {
            self.log(&pending, -1);
        }
    }

    fn closed(&mut self, conn: ConnId) {
        let Some(conn) = self.conns.remove(&conn) else { return };
        conn.pending.iter().for_each(|pending| self.log(pending, -1));
    }
}
