//! A responder for datagrams: one socket, one thread, nothing remembered of anybody.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{RecvFlags, recvfrom};

use crate::error::SetupError;
use crate::net::socket::waits;

/// The longest datagram there is.
const LONGEST: usize = 65_536;

/// A bound socket.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    local: SocketAddr,
    over: AtomicBool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Datagrams answered.
    pub answered: u64,
    /// Datagrams that got no answer, because they ask for none that may be given.
    pub refused: u64,
    /// Bytes of all that came.
    pub bytes_in: u64,
    /// Bytes of the answers.
    pub bytes_out: u64,
}

impl Datagrams {
    /// Listen there; port 0 = a free one.
    pub fn bind(at: SocketAddr) -> Result<Self, SetupError> {
        let open = || {
            let socket = UdpSocket::bind(at)?;
            let local = socket.local_addr()?;
            Ok(Self { socket, local, over: AtomicBool::new(false) })
        };
        open().map_err(|error: io::Error| SetupError::Listen {
            addr: at.to_string(),
            advice: match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process has it; choose another, or port 0 for a free one"
                }
                io::ErrorKind::PermissionDenied => "ports below 1024 need rights",
                _ => "it must be an address of this machine",
            },
            error,
        })
    }

    /// Where it listens, with the port that was free.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Have [`respond`](Self::respond) return: soon if it is under way, else at once when it is
    /// called.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        waits::end_reads(&self.socket);
    }

    /// Answer every datagram to which `answer` appends an answer (and says so), until the
    /// [`end`](Self::end). It waits without a limit, which would cost each datagram a timer.
    pub fn respond(&self, answer: &mut dyn FnMut(&[u8], &mut Vec<u8>) -> bool) -> Answered {
        let mut done = Answered::default();
        let mut buffer = vec![0; LONGEST];
        let mut out = Vec::with_capacity(LONGEST);
        while !self.over.load(Ordering::Relaxed) {
            // What goes wrong here (nobody has sent, the last answer's receiver is gone) concerns
            // one datagram at most. One from nobody is what the end brings.
            let received = recvfrom(&self.socket, &mut buffer, RecvFlags::empty());
            let Ok((n, _, Some(from))) = received else { continue };
            let Ok(from) = SocketAddr::try_from(from) else { continue };
            let data = &buffer[..n];
            done.bytes_in += n as u64;
            out.clear();
            if !answer(data, &mut out) {
                done.refused += 1;
            } else if let Ok(sent) = self.socket.send_to(&out, from) {
                done.answered += 1;
                done.bytes_out += sent as u64;
            }
        }
        done
    }
}
