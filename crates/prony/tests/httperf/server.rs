//! A scripted server: the path selects the reply. The server keeps all requests.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::replies::{Request, Step, script};

/// The maximum number of bytes to keep for a connection. Tests that send more do not check them.
const KEPT_BYTES: usize = 1 << 20;
/// The maximum duration of a connection.
const LIMIT: Duration = Duration::from_secs(40);

/// A server on a free local port; stopped on drop.
pub(crate) struct Server {
    pub(crate) port: u16,
    host: &'static str,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    seen: Mutex<Vec<Seen>>,
    blunt: Option<fn() -> Vec<Step>>,
}

/// The data of one connection, in the order of the accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// All received bytes.
    pub(crate) bytes: Vec<u8>,
    /// Complete requests.
    pub(crate) requests: u64,
    /// The client's port.
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::at("127.0.0.1")
    }

    /// Start on the IPv6 loopback address.
    pub(crate) fn start_v6() -> Self {
        Self::at("::1")
    }

    /// Start a server with the same actions for any input.
    pub(crate) fn blunt(steps: fn() -> Vec<Step>) -> Self {
        Self::with("127.0.0.1", Shared { blunt: Some(steps), ..Shared::default() })
    }

    fn at(host: &'static str) -> Self {
        Self::with(host, Shared::default())
    }

    fn with(host: &'static str, shared: Shared) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(shared);
        let theirs = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accept(&listener, &theirs)));
        Self { port, host, shared, acceptor }
    }

    /// The connections so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// The number of complete requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.shared.seen().iter().map(|s| s.requests).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the accepting thread. If this fails, listener and thread have ended already.
        drop(TcpStream::connect((self.host, self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.over() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let port = stream.peer_addr().map_or(0, |a| a.port());
        let mut seen = shared.seen();
        let index = seen.len();
        seen.push(Seen { port, ..Seen::default() });
        drop(seen);
        let shared = Arc::clone(shared);
        thread::spawn(move || Connection { stream, shared, index, unread: Vec::new() }.serve());
    }
}

struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
    index: usize,
    unread: Vec<u8>,
}

/// Whether the connection continues.
#[derive(PartialEq)]
enum Then {
    On,
    Over,
}

impl Connection {
    fn serve(mut self) {
        let patience = Some(Duration::from_millis(50));
        // If the peer has gone, the first read fails.
        let _ = self.stream.set_read_timeout(patience);
        let _ = self.stream.set_nodelay(true);
        if let Some(steps) = self.shared.blunt {
            if self.more() {
                steps().into_iter().all(|step| self.step(step) == Then::On);
            }
            return;
        }
        let mut nth = 0;
        while let Some(request) = self.request() {
            nth += 1;
            for step in script(&request, nth) {
                if self.step(step) == Then::Over {
                    return;
                }
            }
        }
    }

    /// Read the next complete request; `None` if there are no more.
    fn request(&mut self) -> Option<Request> {
        loop {
            if let Some((request, length)) = Request::parse(&self.unread) {
                self.unread.drain(..length);
                self.shared.seen()[self.index].requests += 1;
                return Some(request);
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Read some bytes; false at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16_384];
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && !self.shared.over() {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => {
                    self.unread.extend_from_slice(&buffer[..n]);
                    let kept = &mut self.shared.seen()[self.index].bytes;
                    let room = KEPT_BYTES.saturating_sub(kept.len());
                    kept.extend_from_slice(&buffer[..n.min(room)]);
                    return true;
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return false,
            }
        }
        false
    }

    fn step(&mut self, step: Step) -> Then {
        match step {
            Step::Send(bytes) => self.send(&bytes),
            Step::Wait(time) => {
                thread::sleep(time);
                Then::On
            }
            Step::Close => Then::Over,
            Step::Reset => {
                // With a linger time of zero, a close sends a reset.
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
                Then::Over
            }
            Step::Silence => {
                while self.more() {}
                Then::Over
            }
            Step::Forever { bytes, gap } => {
                let begun = Instant::now();
                while begun.elapsed() < LIMIT && !self.shared.over() {
                    if self.send(&bytes) == Then::Over {
                        break;
                    }
                    thread::sleep(gap);
                }
                Then::Over
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Then {
        match self.stream.write_all(bytes) {
            Ok(()) => Then::On,
            Err(_) => Then::Over,
        }
    }
}
