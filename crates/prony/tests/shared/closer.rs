//! A server that answers a number of requests on each connection and then closes it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) struct Closer {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// Replies on each connection.
    replies: u64,
    /// Whether the last one says `Connection: close`.
    announces: bool,
    served: AtomicU64,
    over: AtomicBool,
}

impl Closer {
    pub(crate) fn start(replies: u64, announces: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (served, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { replies, announces, served, over });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if theirs.over.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), theirs) = (stream, Arc::clone(&theirs)) else { continue };
                thread::spawn(move || drop(serve(stream, &theirs)));
            }
        });
        Self { port, shared }
    }

    /// How many requests were answered.
    pub(crate) fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let (mut unread, mut piece) = (Vec::new(), [0; 16 << 10]);
    for n in 1..=shared.replies {
        let end = loop {
            if let Some(at) = unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                n => unread.extend_from_slice(&piece[..n]),
            }
        };
        unread.drain(..end);
        let close =
            if n == shared.replies && shared.announces { "Connection: close\r\n" } else { "" };
        shared.served.fetch_add(1, Ordering::Relaxed);
        stream.write_all(
            format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{close}\r\nok").as_bytes(),
        )?;
    }
    // The end of the stream, and not a reset for what is not read.
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}
