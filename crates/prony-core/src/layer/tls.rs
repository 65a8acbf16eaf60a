//! One secured connection, of a client or of a server: ciphertext in and out, no socket.

use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConfig, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{HandshakeKind, ProtocolVersion};

use super::certificate::key_bits;
use super::reason::Reason;

/// What a record is longer than its plaintext at most: header, explicit nonce, type, tag. rustls
/// says how much it needs where this is not enough.
const RECORD_OVERHEAD: usize = 64;
/// The most bytes that are kept because they are no whole message yet. A handshake message has at
/// most 64 KiB, in fragments that may be small.
const PARTIAL_MAX: usize = 256 << 10;

/// A client's connection.
pub type Tls = Secured<UnbufferedClientConnection>;

/// A server's connection.
pub type TlsServer = Secured<UnbufferedServerConnection>;

/// A connection of either side.
pub struct Secured<C> {
    conn: C,
    /// What is to be sent before anything else.
    out: Vec<u8>,
    /// How much of it is sent.
    out_sent: usize,
    /// Received bytes that are no whole record yet.
    partial: Vec<u8>,
    is_open: bool,
    ended: bool,
    failed: bool,
}

/// rustls' connections have none of their own.
impl<C> std::fmt::Debug for Secured<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { is_open, ended, failed, .. } = self;
        let state = [("is_open", is_open), ("ended", ended), ("failed", failed)];
        f.debug_map().entries(state).finish()
    }
}

/// What rustls' connections of both sides can do, though not by one name.
pub trait Side {
    /// What rustls keeps for that side.
    type Data;

    /// Go through what was received, as far as there is something to do.
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

/// What a handshake has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Whether it took up an earlier session.
    pub resumed: bool,
    /// The version, as `1.3`.
    pub version: &'static str,
    /// The cipher suite by its name at IANA.
    pub suite: &'static str,
    /// The group in which keys were exchanged, by its name at IANA; `None` where there was none
    /// (some resumptions).
    pub group: Option<&'static str>,
    /// The bits of the server's public key; `None` where they cannot be told.
    pub key_bits: Option<u32>,
}

impl Tls {
    /// A connection that begins its handshake: [`Self::wants_send`] at once.
    ///
    /// # Errors
    /// rustls refuses to begin.
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Reason> {
        let conn = UnbufferedClientConnection::new(config, name).map_err(|e| Reason::of(&e))?;
        let mut tls = Self::around(conn);
        tls.process(&mut [], &mut Vec::new()).1?;
        Ok(tls)
    }

    /// What the handshake has led to; `None` before it is done.
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
            suite: crate::plan::suite_name(u16::from(suite.suite())).unwrap_or("unknown"),
            group: conn.negotiated_key_exchange_group().and_then(|group| group.name().as_str()),
            key_bits: conn.peer_certificates().and_then(|all| key_bits(all.first()?)),
        })
    }
}

impl TlsServer {
    /// A connection that waits for its client to begin.
    ///
    /// # Errors
    /// rustls refuses to begin.
    pub fn accept(config: Arc<ServerConfig>) -> Result<Self, Reason> {
        UnbufferedServerConnection::new(config).map(Self::around).map_err(|e| Reason::of(&e))
    }
}

impl<C: Side> Secured<C> {
    /// The most plaintext that one record carries (RFC 8446, 5.1).
    pub const RECORD: usize = 1 << 14;

    fn around(conn: C) -> Self {
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

    /// Whether the handshake is done.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the peer has said that it sends nothing more (close_notify): only then is the end of
    /// its stream the true one.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something to send before any request.
    #[inline]
    pub fn wants_send(&self) -> bool {
        self.out_sent < self.out.len()
    }

    /// Take in received bytes; appends what they say to `plain`. What was said before a fault is
    /// appended too.
    ///
    /// # Errors
    /// What was received is not what TLS allows, or the peer is not to be trusted: the connection
    /// is of no more use once what it wants to send is sent.
    pub fn receive(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Reason> {
        if self.ended {
            // Nothing counts behind the peer's own end.
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
                return Err(Reason::endless());
            }
            all.drain(..used);
            self.partial = all;
        }
        result
    }

    /// Append `plain` as a record (several, where it is longer than [`Self::RECORD`]) to `out`.
    ///
    /// # Errors
    /// The keys are used up, which no more than closes the connection.
    pub fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        let mut begin = out.len();
        let mut room = plain.len() + RECORD_OVERHEAD;
        loop {
            // rustls remembers places in what it has not done with, and has to be given that.
            let status = self.conn.process(&mut self.partial);
            debug_assert_eq!(status.discard, 0, "nothing new was received");
            match status.state.map_err(|e| Reason::of(&e))? {
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
                            return Err(Reason::worn_out());
                        }
                    }
                }
                // A change of keys goes before what is encrypted by them.
                ConnectionState::EncodeTlsData(mut message) => {
                    out.truncate(begin);
                    encode(&mut message, out);
                    begin = out.len();
                }
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                _ => return Err(Reason::closed()),
            }
        }
    }

    /// Give what is to be sent before any request to `send`. Returns how much it took and whether
    /// that was all.
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
        // A handshake's messages are of no use later, and an idle connection keeps no buffer.
        (self.out, self.out_sent) = (Vec::new(), 0);
        (taken, true)
    }

    /// The last bytes of the connection: what it still has to send, and that nothing follows.
    pub fn farewell(mut self) -> Vec<u8> {
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

    /// Let rustls go through `data` as far as there are whole records. Returns how many bytes are
    /// done with.
    fn process(&mut self, data: &mut [u8], plain: &mut Vec<u8>) -> (usize, Result<(), Reason>) {
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
                    return (at, Err(Reason::of(&e)));
                }
            }
            at += used;
            if !more {
                return (at, Ok(()));
            }
        }
    }

    /// Fetch the alert that tells the peer of a fault; `rest` is what rustls has not done with.
    fn collect(&mut self, rest: &mut [u8]) {
        if let Ok(ConnectionState::EncodeTlsData(mut message)) = self.conn.process(rest).state {
            encode(&mut message, &mut self.out);
        }
    }
}

/// Append a message of rustls to what is to be sent.
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
