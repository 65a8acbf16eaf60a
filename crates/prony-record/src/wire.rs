//! A socket with or without TLS: what is read from it, and what waits to be written.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use prony_proto::layer::{Secured, ServerTls, Side, TlsError};
use rustix::net::sockopt::set_socket_linger;

/// The most bytes of one read.
const READ: usize = 64 << 10;

/// TLS of either side.
trait Secure {
    fn is_open(&self) -> bool;
    fn has_ended(&self) -> bool;
    fn wants_send(&self) -> bool;
    fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> Result<(), TlsError>;
    fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError>;
    /// Appends what goes before anything else.
    fn flush(&mut self, out: &mut Vec<u8>);
    fn close_notify(self: Box<Self>) -> Vec<u8>;
}

/// The most plaintext of one record.
const RECORD: usize = ServerTls::RECORD;

impl<C: Side> Secure for Secured<C> {
    fn is_open(&self) -> bool {
        self.is_open()
    }

    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn wants_send(&self) -> bool {
        self.wants_send()
    }

    fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        self.receive(data, plain)
    }

    fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.encrypt(plain, out)
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        self.flush(&mut |bytes| {
            out.extend_from_slice(bytes);
            bytes.len()
        });
    }

    fn close_notify(self: Box<Self>) -> Vec<u8> {
        (*self).close_notify()
    }
}

/// A connection that does not block.
pub(crate) struct Wire {
    stream: TcpStream,
    tls: Option<Box<dyn Secure>>,
    /// What waits for the handshake, in plain text.
    plain: Vec<u8>,
    /// What waits for the socket.
    out: Vec<u8>,
    /// How much is written.
    written: usize,
    input: Vec<u8>,
    /// The peer has ended its side.
    pub(crate) has_ended: bool,
    /// Our side is to end after what waits, or has ended.
    is_ending: bool,
    is_shut: bool,
    /// Nothing can be written any more.
    is_mute: bool,
}

/// Why the connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Socket,
    Tls(String),
}

impl Wire {
    pub(crate) fn plain(stream: TcpStream) -> io::Result<Self> {
        Self::new(stream, None)
    }

    pub(crate) fn secured<C: Side + 'static>(
        stream: TcpStream,
        tls: Secured<C>,
    ) -> io::Result<Self> {
        Self::new(stream, Some(Box::new(tls)))
    }

    fn new(stream: TcpStream, tls: Option<Box<dyn Secure>>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            tls,
            plain: Vec::new(),
            out: Vec::new(),
            written: 0,
            input: vec![0; READ],
            has_ended: false,
            is_ending: false,
            is_shut: false,
            is_mute: false,
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether the handshake is still to be completed.
    pub(crate) fn is_securing(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_open())
    }

    /// How many bytes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.plain.len() + self.out.len() - self.written
    }

    pub(crate) fn wants_write(&self) -> bool {
        let tls = self.tls.as_ref().is_some_and(|tls| tls.wants_send());
        let plain = !self.plain.is_empty() && !self.is_securing();
        let end = self.is_ending && !self.is_shut;
        !self.is_mute && (self.written < self.out.len() || tls || plain || end)
    }

    /// Whether all is written, and our side has ended.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// Reads once, and appends what the peer has said.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> Result<(), Broken> {
        let n = match self.stream.read(&mut self.input) {
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(_) => return Err(Broken::Socket),
        };
        self.has_ended |= n == 0;
        match &mut self.tls {
            None => into.extend_from_slice(&self.input[..n]),
            Some(tls) => {
                let received = tls.receive(&mut self.input[..n], into);
                self.has_ended |= tls.has_ended();
                if let Err(why) = received {
                    // An alert for the peer, if it can be written at once.
                    let _ = self.write();
                    return Err(Broken::Tls(why.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Appends to what waits to be written, and empties `from`.
    pub(crate) fn queue(&mut self, from: &mut Vec<u8>) {
        match &self.tls {
            _ if self.is_mute || self.is_ending => from.clear(),
            Some(_) => self.plain.append(from),
            None => self.out.append(from),
        }
    }

    /// Ends our side once all is written.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
    }

    /// The peer takes nothing any more; it may still send.
    pub(crate) fn mute(&mut self) {
        self.is_mute = true;
        self.plain.clear();
        self.out.clear();
        self.written = 0;
    }

    /// Writes as much as the socket takes.
    pub(crate) fn write(&mut self) -> Result<(), Broken> {
        if self.is_mute {
            return Ok(());
        }
        if let Some(tls) = &mut self.tls {
            tls.flush(&mut self.out);
            if tls.is_open() {
                for piece in std::mem::take(&mut self.plain).chunks(RECORD) {
                    tls.encrypt(piece, &mut self.out).map_err(|e| Broken::Tls(e.to_string()))?;
                }
            }
        }
        let ends = self.is_ending && self.plain.is_empty();
        if ends
            && !self.has_ended
            && let Some(tls) = self.tls.take()
        {
            self.out.extend(tls.close_notify());
            // What the peer still sends cannot be read.
            self.has_ended = true;
        }
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.out.drain(..self.written);
                    self.written = 0;
                    return Ok(());
                }
                Err(_) => return Err(Broken::Socket),
            }
        }
        self.out.clear();
        self.written = 0;
        if ends && !self.is_shut {
            self.is_shut = true;
            // The peer may be gone.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Makes the close a reset, as the peer must not take what it has for everything.
    pub(crate) fn reset(&self) {
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}
