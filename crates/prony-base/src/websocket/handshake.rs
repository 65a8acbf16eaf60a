//! The handshake over HTTP/1.1 (RFC 6455, section 4) and HTTP/2 (RFC 8441): its keys, and the
//! header fields of both sides. Its caller parses the heads, and checks method, version and status.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::deflate::{Agreed, is_deflate};

/// What the server appends to the client's key.
const APPENDED: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a handshake fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No `Upgrade: websocket`, or no `Connection: upgrade`.
    NoUpgrade,
    /// The request is of another version than 13.
    Version,
    /// The request has no valid key.
    Key,
    /// The reply has no proof that its server has read the key, a wrong one, or more than one.
    Accept,
    /// The server uses an extension that the client has not offered, or does not use the one that
    /// it has.
    Extension,
    /// The server has chosen a subprotocol that the client has not offered, or more than one.
    Protocol,
}

/// What a client knows of the head of a reply with the status 101.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyFields {
    upgrades: Upgrades,
    /// Whether the proof is right; `None`: there is none yet.
    accepted: Option<bool>,
    has_extension: bool,
    deflate: Option<Agreed>,
    protocol: Option<Result<usize, Refusal>>,
}

/// What a server knows of the head of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    upgrades: Upgrades,
    /// Whether the version is that of RFC 6455; `None`: there is none yet.
    is_version_13: Option<bool>,
    key: Option<Result<[u8; 24], Refusal>>,
    deflate: Option<Agreed>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Upgrades {
    upgrade: bool,
    connection: bool,
}

impl Upgrades {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade |= elements(value).any(|e| e.eq_ignore_ascii_case(b"websocket"));
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.connection |= elements(value).any(|e| e.eq_ignore_ascii_case(b"upgrade"));
        }
    }

    fn check(self) -> Result<(), Refusal> {
        if self.upgrade && self.connection { Ok(()) } else { Err(Refusal::NoUpgrade) }
    }
}

impl ReplyFields {
    /// A header field of the reply to a request with this key that offers `protocols`.
    pub fn field<P: AsRef<[u8]>>(
        &mut self,
        name: &[u8],
        value: &[u8],
        (key, protocols): (&[u8; 24], &[P]),
    ) {
        self.upgrades.field(name, value);
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"sec-websocket-accept") {
            let is_right = value == accept_of(key);
            self.accepted = Some(is_right && self.accepted.is_none());
        } else if name.eq_ignore_ascii_case(b"sec-websocket-extensions") {
            for extension in elements(value) {
                match (Agreed::to_reply(extension).filter(|_| is_deflate(extension)), self.deflate)
                {
                    (Some(agreed), None) => self.deflate = Some(agreed),
                    _ => self.has_extension = true,
                }
            }
        } else if name.eq_ignore_ascii_case(b"sec-websocket-protocol") {
            let place = protocols.iter().position(|offered| offered.as_ref() == value);
            self.protocol = Some(match (self.protocol, place) {
                (None, Some(place)) => Ok(place),
                _ => Err(Refusal::Protocol),
            });
        }
    }

    /// The head is complete. Returns the place of the chosen subprotocol among those offered.
    /// `deflates`: the client has offered to compress messages, and insists on it.
    ///
    /// # Errors
    /// The reply does not open the connection.
    pub fn check(self, deflates: bool) -> Result<Option<usize>, Refusal> {
        self.upgrades.check()?;
        if self.accepted != Some(true) {
            return Err(Refusal::Accept);
        }
        self.check_http2(deflates)
    }

    /// The same of a reply over HTTP/2, which needs no upgrade and proves nothing.
    ///
    /// # Errors
    /// The reply does not open the connection.
    pub fn check_http2(self, deflates: bool) -> Result<Option<usize>, Refusal> {
        if self.has_extension || self.deflate.is_some() != deflates {
            return Err(Refusal::Extension);
        }
        self.protocol.transpose()
    }

    /// How messages are compressed; `None`: they are not.
    pub fn deflate(&self) -> Option<Agreed> {
        self.deflate
    }
}

impl RequestFields {
    /// A header field of the request.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.upgrades.field(name, value);
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"sec-websocket-version") {
            self.is_version_13 = Some(value == b"13" && self.is_version_13.is_none());
        } else if name.eq_ignore_ascii_case(b"sec-websocket-key") {
            let is_first = self.key.is_none();
            let key = valid_key(value).filter(|_| is_first);
            self.key = Some(key.ok_or(Refusal::Key));
        } else if name.eq_ignore_ascii_case(b"sec-websocket-extensions") {
            // The first offer that can be accepted.
            let mut offers = elements(value).filter(|extension| is_deflate(extension));
            self.deflate = self.deflate.or_else(|| offers.find_map(Agreed::to_offer));
        }
    }

    /// How messages can be compressed; `None`: the client has not offered it.
    pub fn deflate(&self) -> Option<Agreed> {
        self.deflate
    }

    /// Whether the request asks for WebSocket at all; otherwise it is a usual one.
    pub fn is_upgrade(&self) -> bool {
        self.upgrades.check().is_ok()
    }

    /// The same of a request over HTTP/2, which needs no upgrade and no key.
    ///
    /// # Errors
    /// The request does not open a connection.
    pub fn check_http2(self) -> Result<(), Refusal> {
        if self.is_version_13 == Some(true) { Ok(()) } else { Err(Refusal::Version) }
    }

    /// The head is complete. Returns the proof that the key was read.
    ///
    /// # Errors
    /// The request does not open a connection.
    pub fn check(self) -> Result<[u8; 28], Refusal> {
        self.upgrades.check()?;
        if self.is_version_13 != Some(true) {
            return Err(Refusal::Version);
        }
        self.key.unwrap_or(Err(Refusal::Key)).map(|key| accept_of(&key))
    }
}

/// The key, if it is 16 bytes in base64.
fn valid_key(text: &[u8]) -> Option<[u8; 24]> {
    let key: [u8; 24] = text.try_into().ok()?;
    let mut bytes = [0; 18];
    let length = BASE64_STANDARD.decode_slice(key, &mut bytes).ok()?;
    (length == 16).then_some(key)
}

/// The elements of a list in a header field, without the white space around them.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|e| !e.is_empty())
}

/// A client's key (`Sec-WebSocket-Key`) from random bits.
pub fn key_of(bits: [u64; 2]) -> [u8; 24] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&bits[0].to_be_bytes());
    bytes[8..].copy_from_slice(&bits[1].to_be_bytes());
    encoded(&bytes)
}

/// The server's proof that it has read the client's key (`Sec-WebSocket-Accept`).
pub fn accept_of(key: &[u8]) -> [u8; 28] {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key);
    hash.update(APPENDED);
    encoded(&hash.digest().bytes())
}

fn encoded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut text = [0; N];
    let written = BASE64_STANDARD.encode_slice(bytes, &mut text);
    assert_eq!(written, Ok(N), "the length of base64 follows from that of the bytes");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the proof in section 1.3 of the standard.
    const KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    fn reply(fields: &[(&str, &str)]) -> Result<Option<usize>, Refusal> {
        let mut reply = ReplyFields::default();
        for (name, value) in fields {
            reply.field(name.as_bytes(), value.as_bytes(), (KEY, &["chat", "superchat"]));
        }
        reply.check(false)
    }

    fn request(fields: &[(&str, &str)]) -> Result<[u8; 28], Refusal> {
        let mut request = RequestFields::default();
        for (name, value) in fields {
            request.field(name.as_bytes(), value.as_bytes());
        }
        request.check()
    }

    #[test]
    fn replies_prove_that_the_key_was_read() {
        let upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
        let accept = ("Sec-WebSocket-Accept", ACCEPT);
        let with = |more: &[(&str, &str)]| reply(&[&upgrade[..], more].concat());
        assert_eq!(with(&[accept]), Ok(None));
        let odd = [
            ("UPGRADE", " WebSocket "),
            ("connection", "keep-alive, upgrade"),
            ("sec-websocket-accept", " s3pPLMBiTxaQ9kYGzzhZRbK+xOo= "),
        ];
        assert_eq!(reply(&odd), Ok(None));
        for only in upgrade {
            assert_eq!(reply(&[only, accept]), Err(Refusal::NoUpgrade));
        }
        assert_eq!(reply(&[("Upgrade", "h2c"), upgrade[1], accept]), Err(Refusal::NoUpgrade));
        assert_eq!(with(&[]), Err(Refusal::Accept));
        let wrong = ("Sec-WebSocket-Accept", "S3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for accepts in [&[wrong][..], &[accept, accept], &[wrong, accept]] {
            assert_eq!(with(accepts), Err(Refusal::Accept));
        }
    }

    #[test]
    fn replies_choose_among_what_was_offered() {
        let usual =
            [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", ACCEPT)];
        let with = |more: &[(&str, &str)]| reply(&[&usual[..], more].concat());
        let protocol = |value| ("Sec-WebSocket-Protocol", value);
        assert_eq!(with(&[protocol("superchat")]), Ok(Some(1)));
        for wrong in [&[protocol("mqtt")][..], &[protocol("Chat")], &[protocol("chat, superchat")]]
        {
            assert_eq!(with(wrong), Err(Refusal::Protocol));
        }
        assert_eq!(with(&[protocol("chat"), protocol("chat")]), Err(Refusal::Protocol));
        assert_eq!(with(&[("Sec-WebSocket-Extensions", "")]), Ok(None));
        let deflate = ("Sec-WebSocket-Extensions", "permessage-deflate");
        assert_eq!(with(&[deflate]), Err(Refusal::Extension));
        // With an offer, the server must accept it, once, and nothing else.
        let insists = |more: &[(&str, &str)]| {
            let mut reply = ReplyFields::default();
            for (name, value) in [&usual[..], more].concat() {
                reply.field(name.as_bytes(), value.as_bytes(), (KEY, &["chat"]));
            }
            (reply.check(true), reply.deflate().map(|agreed| agreed.server_alone))
        };
        assert_eq!(insists(&[deflate]), (Ok(None), Some(false)));
        let alone = (deflate.0, "permessage-deflate; server_no_context_takeover");
        assert_eq!(insists(&[alone]), (Ok(None), Some(true)));
        let both = (deflate.0, "permessage-deflate, permessage-deflate");
        let other = (deflate.0, "permessage-deflate, x-other");
        let wrong = (deflate.0, "permessage-deflate; client_max_window_bits=15");
        for wrong in [&[][..], &[deflate, deflate], &[both], &[other], &[wrong]] {
            assert_eq!(insists(wrong).0, Err(Refusal::Extension), "{wrong:?}");
        }
    }

    /// Over HTTP/2, neither side upgrades, and nothing is proved.
    #[test]
    fn handshakes_over_http2_have_no_key() {
        let mut reply = ReplyFields::default();
        assert_eq!(reply.check_http2(false), Ok(None));
        reply.field(b"sec-websocket-protocol", b"chat", (KEY, &["chat"]));
        assert_eq!(
            (reply.check_http2(false), reply.check(false)),
            (Ok(Some(0)), Err(Refusal::NoUpgrade))
        );
        assert_eq!(reply.check_http2(true), Err(Refusal::Extension));
        let mut request = RequestFields::default();
        assert_eq!(request.check_http2(), Err(Refusal::Version));
        request.field(b"sec-websocket-version", b"13");
        assert_eq!((request.check_http2(), request.is_upgrade()), (Ok(()), false));
    }

    #[test]
    fn servers_take_the_first_offer_that_they_can_accept() {
        let offer = |value: &str| {
            let mut request = RequestFields::default();
            request.field(b"Sec-WebSocket-Extensions", value.as_bytes());
            request.deflate().map(|agreed| agreed.client_alone)
        };
        assert_eq!((offer(""), offer("x-other; a=1")), (None, None));
        let several = "x-other, permessage-deflate; server_max_window_bits=9, \
                       permessage-deflate; client_no_context_takeover, permessage-deflate";
        assert_eq!(offer(several), Some(true));
        assert_eq!(offer("permessage-deflate; client_max_window_bits"), Some(false));
    }

    #[test]
    fn requests_have_a_version_and_a_key() {
        let upgrade = [("Upgrade", "websocket"), ("Connection", "keep-alive, Upgrade")];
        let (version, key) = (("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", KEY));
        let key = (key.0, str::from_utf8(key.1).expect("base64"));
        let with = |more: &[(&str, &str)]| request(&[&upgrade[..], more].concat());
        assert_eq!(with(&[version, key]).as_ref().map(|bytes| &bytes[..]), Ok(ACCEPT.as_bytes()));
        assert_eq!(request(&[upgrade[0], version, key]), Err(Refusal::NoUpgrade));
        assert_eq!(with(&[key]), Err(Refusal::Version));
        for versions in [&[("Sec-WebSocket-Version", "8")][..], &[version, version]] {
            assert_eq!(with(&[versions, &[key]].concat()), Err(Refusal::Version));
        }
        for keys in [
            &[][..],
            &[key, key],
            &[("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ")],
            &[("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZSE=")],
            &[("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25j*Q==")],
        ] {
            assert_eq!(with(&[&[version], keys].concat()), Err(Refusal::Key), "{keys:?}");
        }
    }

    #[test]
    fn keys_are_valid_and_read_by_servers() {
        for bits in [[0, 0], [u64::MAX, u64::MAX], [1, 1 << 63]] {
            let key = key_of(bits);
            assert_eq!(valid_key(&key), Some(key));
        }
    }
}
