//! HPACK (RFC 7541): the compression of headers.
//!
//! [`Decoder`] reads blocks and keeps the table that the peer fills. [`Encoder`] writes blocks and
//! keeps the peer's table; [`encode_static`] writes fields that need no table, so that their bytes
//! can be sent on any connection, any number of times. Nothing is allocated per block once the
//! tables have grown to their sizes.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::{Encoder, Indexing, encode_static};

/// Why a block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block is malformed: a connection error of type COMPRESSION_ERROR.
    Invalid,
    /// The fields exceed the bound. The table is still the peer's: the connection can go on.
    TooLarge,
}

/// Decode a Huffman code, and append the text. `None`: it is malformed. For the fuzz target.
#[cfg(any(test, feature = "fuzzing"))]
pub fn huffman_decode(code: &[u8], out: &mut Vec<u8>) -> Option<()> {
    huffman::decode(code, out)
}

/// Append the Huffman code of a text. For the fuzz target.
#[cfg(any(test, feature = "fuzzing"))]
pub fn huffman_encode(text: &[u8], out: &mut Vec<u8>) {
    huffman::encode(text, out);
}
