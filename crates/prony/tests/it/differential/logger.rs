//! A server that keeps every request as its bytes arrived.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::request::{Request, header};

/// What a server sends for a request: head and body.
type Reply = dyn Fn(&Request) -> Vec<u8> + Send + Sync;

/// A server in this process, with one thread per connection. Connections stay open.
pub(crate) struct Logger {
    port: u16,
    state: Arc<State>,
}

struct State {
    reply: Box<Reply>,
    requests: Mutex<Vec<Request>>,
    is_over: AtomicBool,
}

/// A short reply of success.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

impl Logger {
    /// Starts on a free port of 127.0.0.1. `reply` makes the replies to requests; those to HEAD are
    /// sent without their bodies.
    pub(crate) fn start(reply: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            reply: Box::new(reply),
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&shared);
                // A client that leaves in the middle of a request has sent none.
                thread::spawn(move || state.serve(stream));
            }
        });
        Self { port, state }
    }

    /// Starts a server that replies `ok` to everything.
    pub(crate) fn plain() -> Self {
        Self::start(|_| ok("ok"))
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Takes the requests that have arrived since the last call, in the order of their ends.
    pub(crate) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.state.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut writer = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let request = read(&mut reader, &mut writer)?;
            let mut reply = (self.reply)(&request);
            if request.method == "HEAD"
                && let Some(end) = reply.windows(4).position(|four| four == b"\r\n\r\n")
            {
                reply.truncate(end + 4);
            }
            let closes = header(&request.headers, "connection") == Some(b"close");
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            writer.write_all(&reply).ok()?;
            if closes {
                return None;
            }
        }
    }
}

/// Reads a request. One that waits for a consent to send its body gets it.
fn read(reader: &mut impl BufRead, writer: &mut TcpStream) -> Option<Request> {
    let first = line(reader)?;
    let mut words = first.splitn(3, |&b| b == b' ').map(<[u8]>::to_vec);
    let method = String::from_utf8(words.next()?).ok()?;
    let target = words.next()?;
    let version = String::from_utf8(words.next()?).ok()?;
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|&b| b == b':')?;
        let name = String::from_utf8(line[..colon].to_vec()).ok()?;
        headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
    }
    if header(&headers, "expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let body = match header(&headers, "content-length") {
        _ if header(&headers, "transfer-encoding").is_some() => chunks(reader)?,
        Some(length) => exactly(reader, std::str::from_utf8(length).ok()?.parse().ok()?)?,
        None => Vec::new(),
    };
    Some(Request { method, target, version, headers, body })
}

fn line(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok()?;
    line.strip_suffix(b"\r\n").map(<[u8]>::to_vec)
}

fn exactly(reader: &mut impl BufRead, length: u64) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    (body.len() as u64 == length).then_some(body)
}

fn chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = String::from_utf8(line(reader)?).ok()?;
        let size = u64::from_str_radix(size.trim(), 16).ok()?;
        body.extend(exactly(reader, size)?);
        // The end of the chunk; after the last one, no trailers are expected.
        if !line(reader)?.is_empty() {
            return None;
        }
        if size == 0 {
            return Some(body);
        }
    }
}
