//! A proxy that closes a connection after a number of bytes from the server.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Stops on drop; open connections continue until one side closes.
pub(crate) struct Cut {
    pub(crate) port: u16,
    over: Arc<AtomicBool>,
}

impl Cut {
    /// Start a proxy to a local port.
    pub(crate) fn after(upstream: u16, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let over = Arc::<AtomicBool>::default();
        let reported = Arc::clone(&over);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if reported.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)) else { continue };
                let (Ok(c), Ok(s)) = (client.try_clone(), server.try_clone()) else { continue };
                thread::spawn(move || pass(c, s, u64::MAX));
                thread::spawn(move || pass(server, client, bytes));
            }
        });
        Self { port, over }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Forward at most this number of bytes, then close both connections.
fn pass(mut from: TcpStream, mut to: TcpStream, bytes: u64) {
    let mut left = bytes;
    let mut buffer = [0; 4_096];
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match from.read(&mut buffer[..most]) {
            Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => left -= n as u64,
            _ => break,
        }
    }
    // One of them may be closed already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
