//! Scripted servers: a test defines their replies byte by byte, and reads the requests they
//! received.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The reaction of a server to a request.
pub(crate) enum Deed {
    /// Send these parts, each in its own write, and close.
    Send(Vec<Vec<u8>>),
    /// Send these parts, and wait for the client to close.
    Keep(Vec<u8>),
    /// Reset the connection.
    Reset,
}

/// A reply in one part, then close.
pub(crate) fn send(text: &str) -> Deed {
    Deed::Send(vec![text.as_bytes().to_vec()])
}

/// A normal reply with this status and body.
pub(crate) fn reply(status: u16, body: &str) -> Deed {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close");
    send(&format!("{head}\r\n\r\n{body}"))
}

/// Chooses the reaction by the number of the connection (from 0) and the request (without its last
/// byte).
type Script = dyn Fn(usize, &str) -> Deed + Send + Sync;

/// A server in this process, with one thread per connection.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    script: Box<Script>,
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    begun: AtomicUsize,
    /// The number of requests in the script, now and at most.
    busy: AtomicUsize,
    busy_max: AtomicUsize,
    over: AtomicBool,
}

impl Scripted {
    /// Starts on a free port of 127.0.0.1, and of ::1 if it exists.
    pub(crate) fn start(script: impl Fn(usize, &str) -> Deed + Send + Sync + 'static) -> Self {
        let v4 = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = v4.local_addr().expect("an address").port();
        let server = Self { port, state: State::new(script) };
        server.listen(v4);
        if let Ok(v6) = TcpListener::bind(("::1", port)) {
            server.listen(v6);
        }
        server
    }

    /// Starts on a Unix domain socket.
    pub(crate) fn at(
        path: &Path,
        script: impl Fn(usize, &str) -> Deed + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(path).expect("a socket");
        let server = Self { port: 0, state: State::new(script) };
        let state = Arc::clone(&server.state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || state.serve(stream));
            }
        });
        server
    }

    fn listen(&self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if state.over.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&state);
                thread::spawn(move || state.serve(stream));
            }
        });
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All requests so far, in the order of their last bytes.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().expect("no panic").clone()
    }

    /// The number of requests that the script has started to process.
    pub(crate) fn begun(&self) -> usize {
        self.state.begun.load(Ordering::Relaxed)
    }

    /// The maximum number of requests that the script processed at the same time.
    pub(crate) fn busy_max(&self) -> usize {
        self.state.busy_max.load(Ordering::Relaxed)
    }
}

/// Stops the listeners.
impl Drop for Scripted {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        let hosts = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for host in hosts.into_iter().filter(|_| self.port > 0) {
            let to = SocketAddr::new(host, self.port);
            drop(TcpStream::connect_timeout(&to, Duration::from_millis(200)));
        }
    }
}

impl State {
    fn new(script: impl Fn(usize, &str) -> Deed + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            busy_max: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// Serves one connection.
    fn serve(&self, mut stream: impl Read + Write) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        if let Some(mut request) = request(&mut stream) {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
            self.busy_max.fetch_max(busy, Ordering::Relaxed);
            let deed = (self.script)(number, &request);
            // Record it before the reply, as the client may then send the next request.
            self.busy.fetch_sub(1, Ordering::Relaxed);
            let mut last = [0];
            if !matches!(deed, Deed::Reset) && stream.read_exact(&mut last).is_ok() {
                request.push(last[0].into());
            }
            self.requests.lock().expect("no panic").push(request);
            // The client may disconnect at any time.
            match deed {
                Deed::Send(pieces) => {
                    for (i, piece) in pieces.iter().enumerate() {
                        if i > 0 {
                            thread::sleep(Duration::from_millis(50));
                        }
                        let _ = stream.write_all(piece);
                    }
                }
                Deed::Keep(bytes) => {
                    let _ = stream.write_all(&bytes);
                    let _ = stream.read(&mut [0; 64]);
                }
                // Unread data makes the kernel reset the connection.
                Deed::Reset => {}
            }
        }
    }
}

/// Reads a request except for its last byte.
fn request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r") {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes.clone()).ok()?.to_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
    let mut rest = vec![b'\n'; length.map_or(0, |n| n.parse().expect("a length"))];
    stream.read_exact(&mut rest).ok()?;
    bytes.extend(rest);
    String::from_utf8(bytes).ok()
}
