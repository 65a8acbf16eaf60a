//! A server that records what it gets. It stands behind a proxy whose log is read, and it is the
//! one that a log is replayed against.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::{Request, SLOW};

/// The server; it runs until the end of the test.
pub(crate) struct Backend {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    /// Where it reports the number in the header `X-Index` of each request.
    report: Option<Sender<(usize, Instant)>>,
}

impl Backend {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { port, state }
    }

    /// Reports each request when it arrives.
    pub(crate) fn report_to(&self, sender: Sender<(usize, Instant)>) {
        lock(&self.state).report = Some(sender);
    }

    /// The requests that have arrived, in their order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.state).requests.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replies to the requests of a connection. None of them has a body.
fn serve(mut stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return;
        }
        let at = Instant::now();
        let mut index = None;
        loop {
            let mut header = Vec::new();
            if reader.read_until(b'\n', &mut header).unwrap_or(0) == 0 {
                return;
            }
            let header = String::from_utf8_lossy(&header).trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            index = header.strip_prefix("x-index: ").and_then(|n| n.parse().ok()).or(index);
        }
        let line = line.trim_ascii_end();
        let first = line.iter().position(|b| *b == b' ').expect("a method");
        let last = line.iter().rposition(|b| *b == b' ').expect("a version");
        let method = String::from_utf8_lossy(&line[..first]).into_owned();
        let request = Request { method, target: line[first + 1..last].to_vec() };
        let target = String::from_utf8_lossy(&request.target).into_owned();
        {
            let mut state = lock(state);
            state.requests.push(request);
            if let (Some(report), Some(index)) = (&state.report, index) {
                let _ = report.send((index, at));
            }
        }
        if index.is_some() && target.contains("slow") {
            thread::sleep(SLOW);
        }
        let redirect = match target.contains("xaccel") && index.is_some() {
            true => "X-Accel-Redirect: /other/slow\r\n",
            false => "",
        };
        let reply = format!("HTTP/1.1 200 OK\r\n{redirect}Content-Length: 0\r\n\r\n");
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}
