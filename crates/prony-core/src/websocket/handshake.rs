//! The keys of the handshake (RFC 6455, section 4).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// What the server appends to the client's key.
const APPENDED: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

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
