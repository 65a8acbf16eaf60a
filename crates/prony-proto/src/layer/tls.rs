//! One TLS connection, of a client or of a server: ciphertext in and out, no socket.

use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConfig, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{HandshakeKind, ProtocolVersion};

use super::certificate::key_bits;
use super::reason::TlsError;

/// The maximum overhead of a record over its plaintext, in bytes: header, explicit nonce, type,
/// tag. rustls reports the required size if this is not enough.
const RECORD_OVERHEAD: usize = 64;
/// The maximum size of an incomplete message, in bytes. A handshake message has at most 64 KiB, in
/// fragments that may be small.
const PARTIAL_MAX: usize = 256 << 10;

/// A client's connection.
pub type Tls = Secured<UnbufferedClientConnection>;

/// A server's connection.
pub type ServerTls = Secured<UnbufferedServerConnection>;

/// A connection of either side.
pub struct Secured<C> {
    conn: C,
    /// Bytes to send before anything else.
    out: Vec<u8>,
    /// How much of it is sent.
    out_sent: usize,
    /// Received bytes that are not a complete record yet.
    partial: Vec<u8>,
    is_open: bool,
    ended: bool,
    failed: bool,
}

/// The connections of rustls do not implement `Debug`.
impl<C> std::fmt::Debug for Secured<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { is_open, ended, failed, .. } = self;
        let state = [("is_open", is_open), ("ended", ended), ("failed", failed)];
        f.debug_map().entries(state).finish()
    }
}

/// The common interface of rustls' connections of both sides.
pub trait Side {
    /// rustls' data for this side.
    type Data;

    /// Process received bytes, as far as there is something to do.
    fn process<'c, 'i>(&'c mut self, data: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        data: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(data)
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        data: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(data)
    }
}

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Whether it resumed an earlier session.
    pub resumed: bool,
    /// The version, such as `1.3`.
    pub version: &'static str,
    /// The cipher suite by its IANA name.
    pub suite: &'static str,
    /// The key exchange group by its IANA name; `None` if there was none (some resumptions).
    pub group: Option<&'static str>,
    /// The size of the server's public key in bits; `None` if unknown.
    pub key_bits: Option<u32>,
}

impl Tls {
    /// A connection that starts its handshake: [`Self::wants_send`] at once.
    ///
    /// # Errors
    /// rustls refuses to start.
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, TlsError> {
        let conn = UnbufferedClientConnection::new(config, name).map_err(|e| TlsError::of(&e))?;
        let mut tls = Self::wrap(conn);
        tls.process(&mut [], &mut Vec::new()).1?;
        Ok(tls)
    }

    /// The application protocol that was negotiated, if any.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.conn.alpn_protocol()
    }

    /// The result of the handshake; `None` before it is complete.
    pub fn handshake(&self) -> Option<Handshake> {
        let conn = &self.conn;
        let suite = conn.negotiated_cipher_suite()?;
        Some(Handshake {
            resumed: conn.handshake_kind()? == HandshakeKind::Resumed,
            version: match conn.protocol_version()? {
                ProtocolVersion::TLSv1_3 => "1.3",
                ProtocolVersion::TLSv1_2 => "1.2",
                _ => "unknown",
            },
            suite: prony_plan::plan::suite_name(u16::from(suite.suite())).unwrap_or("unknown"),
            group: conn.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            key_bits: conn.peer_certificates().and_then(|all| key_bits(all.first()?)),
        })
    }
}

impl ServerTls {
    /// A connection that waits for its client to start the handshake.
    ///
    /// # Errors
    /// rustls refuses to start.
    pub fn accept(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        UnbufferedServerConnection::new(config).map(Self::wrap).map_err(|e| TlsError::of(&e))
    }
}

impl<C: Side> Secured<C> {
    /// The maximum plaintext of one record, in bytes (RFC 8446, 5.1).
    pub const RECORD: usize = 1 << 14;

    fn wrap(conn: C) -> Self {
        Self {
            conn,
            out: Vec::new(),
            out_sent: 0,
            partial: Vec::new(),
            is_open: false,
            ended: false,
            failed: false,
        }
    }

    /// Whether the handshake is complete.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the peer has announced the end of its stream (close_notify). Any other end may be a
    /// truncation.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something to send before any request.
    #[inline]
    pub fn wants_send(&self) -> bool {
        self.out_sent < self.out.len()
    }

    /// Process received bytes and append the plaintext to `plain`, also the plaintext before a
    /// fault.
    ///
    /// # Errors
    /// The received bytes violate TLS, or the peer is not trusted: the connection cannot be used
    /// again once its pending bytes are sent.
    pub fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.ended {
            // Bytes after the peer's end are ignored.
            return Ok(());
        }
        if self.partial.is_empty() {
            let (used, result) = self.process(data, plain);
            if result.is_ok() && used < data.len() && !self.ended {
                self.partial.extend_from_slice(&data[used..]);
            }
            return result;
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(data);
        let (used, result) = self.process(&mut all, plain);
        if result.is_ok() && used < all.len() && !self.ended {
            if all.len() - used > PARTIAL_MAX {
                return Err(TlsError::endless());
            }
            all.drain(..used);
            self.partial = all;
        }
        result
    }

    /// Append `plain` to `out` as one record, or as several if it is longer than [`Self::RECORD`].
    ///
    /// # Errors
    /// The keys are used up; the connection must be closed.
    pub fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let mut begin = out.len();
        let mut room = plain.len() + RECORD_OVERHEAD;
        loop {
            // rustls remembers positions in its unprocessed input, and must get the same bytes
            // again.
            let status = self.conn.process(&mut self.partial);
            debug_assert_eq!(status.discard, 0, "there was no new input");
            match status.state.map_err(|e| TlsError::of(&e))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    out.resize(begin + room, 0);
                    match traffic.encrypt(plain, &mut out[begin..]) {
                        Ok(n) => {
                            out.truncate(begin + n);
                            return Ok(());
                        }
                        Err(EncryptError::InsufficientSize(e)) => room = e.required_size,
                        Err(EncryptError::EncryptExhausted) => {
                            out.truncate(begin);
                            return Err(TlsError::keys_used_up());
                        }
                    }
                }
                // A key update goes before the bytes that are encrypted with the new keys.
                ConnectionState::EncodeTlsData(mut message) => {
                    out.truncate(begin);
                    encode(&mut message, out);
                    begin = out.len();
                }
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                _ => return Err(TlsError::closed()),
            }
        }
    }

    /// Give the bytes that go before any request to `send`. Returns how many it accepted and
    /// whether these were all.
    pub fn flush(&mut self, send: &mut dyn FnMut(&[u8]) -> usize) -> (usize, bool) {
        let mut taken = 0;
        while self.wants_send() {
            let n = send(&self.out[self.out_sent..]);
            self.out_sent += n;
            taken += n;
            if n == 0 {
                return (taken, false);
            }
        }
        // The messages of a handshake are not needed later, and an idle connection keeps no buffer.
        (self.out, self.out_sent) = (Vec::new(), 0);
        (taken, true)
    }

    /// The last bytes of the connection: pending ones, and close_notify.
    pub fn close_notify(mut self) -> Vec<u8> {
        let mut rest = self.out.split_off(self.out_sent);
        if self.is_open
            && !self.failed
            && let Ok(ConnectionState::WriteTraffic(mut traffic)) =
                self.conn.process(&mut self.partial).state
        {
            let begin = rest.len();
            rest.resize(begin + RECORD_OVERHEAD, 0);
            let written = traffic.queue_close_notify(&mut rest[begin..]).unwrap_or(0);
            rest.truncate(begin + written);
        }
        rest
    }

    /// Let rustls process all complete records in `data`. Returns how many bytes are done.
    fn process(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> (usize, Result<(), TlsError>) {
        let mut at = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.conn.process(&mut data[at..]);
            let mut used = discard;
            let mut more = true;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        used += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, &mut self.out);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::PeerClosed) => self.ended = true,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.is_open = true;
                    more = false;
                }
                Ok(_) => more = false,
                Err(e) => {
                    self.failed = true;
                    self.collect(&mut data[at + used..]);
                    return (at, Err(TlsError::of(&e)));
                }
            }
            at += used;
            if !more {
                return (at, Ok(()));
            }
        }
    }

    /// Fetch the alert that reports a fault to the peer; `rest` is the unprocessed input.
    fn collect(&mut self, rest: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(mut message)) = self.conn.process(rest).state {
            encode(&mut message, &mut self.out);
        }
    }
}

/// Append a message of rustls to the bytes to send.
fn encode<D>(message: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>) {
    let begin = out.len();
    let mut room = 512;
    loop {
        out.resize(begin + room, 0);
        match message.encode(&mut out[begin..]) {
            Ok(n) => {
                out.truncate(begin + n);
                return;
            }
            Err(EncodeError::InsufficientSize(e)) => room = e.required_size,
            Err(EncodeError::AlreadyEncoded) => {
                out.truncate(begin);
                return;
            }
        }
    }
}
