//! Compressed messages: the extension permessage-deflate (RFC 7692). Both sides compress each
//! message by itself, so that a connection needs no memory for what it has sent. What a peer
//! compresses may refer to its earlier messages.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Violation;

/// The end of what a flush of deflate writes, which messages are sent without.
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// How many decompressed bytes are passed on at a time.
const CHUNK: usize = 4 << 10;

/// What a client offers.
pub const OFFER: &str = "permessage-deflate; client_no_context_takeover";

/// What both sides have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Whether the client compresses each message by itself.
    pub client_alone: bool,
    /// Whether the server does.
    pub server_alone: bool,
}

impl Agreed {
    /// What an offer of a client leads to; `None`: it is none, or not one that prony can accept,
    /// because the server may then not compress with a window of 32 KiB.
    pub(super) fn to_offer(extension: &[u8]) -> Option<Self> {
        let mut agreed = Self { client_alone: false, server_alone: true };
        let mut seen = Vec::new();
        for (name, value) in parameters(extension)? {
            let is_known = match (name, value) {
                (b"client_no_context_takeover", None) => {
                    agreed.client_alone = true;
                    true
                }
                (b"server_no_context_takeover" | b"client_max_window_bits", None) => true,
                (b"client_max_window_bits", Some(value)) => window(value).is_some(),
                (b"server_max_window_bits", Some(value)) => window(value) == Some(15),
                _ => false,
            };
            if !is_known || seen.contains(&name) {
                return None;
            }
            seen.push(name);
        }
        Some(agreed)
    }

    /// What the reply of a server to [`OFFER`] says; `None`: it does not answer that.
    pub(super) fn to_reply(extension: &[u8]) -> Option<Self> {
        let mut agreed = Self { client_alone: false, server_alone: false };
        let mut seen = Vec::new();
        for (name, value) in parameters(extension)? {
            let is_known = match (name, value) {
                (b"client_no_context_takeover", None) => {
                    agreed.client_alone = true;
                    true
                }
                (b"server_no_context_takeover", None) => {
                    agreed.server_alone = true;
                    true
                }
                (b"server_max_window_bits", Some(value)) => window(value).is_some(),
                // The client's window was not offered.
                _ => false,
            };
            if !is_known || seen.contains(&name) {
                return None;
            }
            seen.push(name);
        }
        Some(agreed)
    }

    /// The header field of the reply of a server.
    pub fn reply(self) -> &'static str {
        match self.client_alone {
            true => "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            false => "permessage-deflate; server_no_context_takeover",
        }
    }
}

/// Whether an element of the list of extensions is this one.
pub(super) fn is_deflate(extension: &[u8]) -> bool {
    let name = extension.split(|&byte| byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"permessage-deflate")
}

/// A parameter of an extension, and its value.
type Parameter<'a> = (&'a [u8], Option<&'a [u8]>);

/// The parameters of this extension; `None`: they are malformed.
fn parameters(extension: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let parts = extension.split(|&byte| byte == b';').map(<[u8]>::trim_ascii).skip(1);
    parts.map(parameter).collect()
}

fn parameter(part: &[u8]) -> Option<Parameter<'_>> {
    let Some(at) = part.iter().position(|&byte| byte == b'=') else {
        return (!part.is_empty()).then_some((part, None));
    };
    let (name, value) = (part[..at].trim_ascii_end(), part[at + 1..].trim_ascii_start());
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some((name, Some(quoted.unwrap_or(value))))
}

/// The number of bits of a window.
fn window(value: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(value).ok()?;
    let is_number = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|bits| is_number && (8..=15).contains(bits))
}

/// Compresses messages, each by itself.
#[derive(Debug)]
pub struct Deflater {
    inner: Compress,
    out: Vec<u8>,
}

impl Default for Deflater {
    fn default() -> Self {
        Self { inner: Compress::new(Compression::fast(), false), out: Vec::new() }
    }
}

impl Deflater {
    /// The payload of a message with this content.
    pub fn compress(&mut self, content: &[u8]) -> &[u8] {
        self.out.clear();
        if content.is_empty() {
            // An empty block, without the end of it.
            self.out.push(0);
            return &self.out;
        }
        self.inner.reset();
        let mut used = 0;
        loop {
            self.out.reserve((content.len() - used) / 2 + 64);
            let before = self.inner.total_in();
            let result =
                self.inner.compress_vec(&content[used..], &mut self.out, FlushCompress::Sync);
            debug_assert!(result.is_ok(), "{result:?}");
            used += (self.inner.total_in() - before) as usize;
            // A buffer that is not full has all of the flush.
            if used == content.len() && self.out.len() < self.out.capacity() {
                break;
            }
        }
        debug_assert!(self.out.ends_with(&TAIL));
        self.out.truncate(self.out.len() - TAIL.len());
        &self.out
    }
}

/// Decompresses the messages of a peer.
#[derive(Debug)]
pub(super) struct Inflater {
    inner: Decompress,
}

impl Default for Inflater {
    fn default() -> Self {
        Self { inner: Decompress::new(false) }
    }
}

impl Inflater {
    /// The next bytes of a message.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(&[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mut chunk = [0; CHUNK];
        loop {
            let (used, made) = (self.inner.total_in(), self.inner.total_out());
            let result = self.inner.decompress(bytes, &mut chunk, FlushDecompress::Sync);
            let used = (self.inner.total_in() - used) as usize;
            let made = (self.inner.total_out() - made) as usize;
            bytes = &bytes[used..];
            if made > 0 {
                each(&chunk[..made])?;
            }
            // After what comes before a violation, so that it is found in any split of the bytes.
            match result.map_err(|_| Violation::Deflate)? {
                // The last block of a stream: another one may follow.
                Status::StreamEnd => self.inner.reset(false),
                _ if used == 0 && made == 0 && !bytes.is_empty() => return Err(Violation::Deflate),
                _ => {}
            }
            if bytes.is_empty() && made < CHUNK {
                return Ok(());
            }
        }
    }

    /// The message is complete.
    pub(super) fn end(
        &mut self,
        each: &mut impl FnMut(&[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        self.read(&TAIL, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflate(inflater: &mut Inflater, payload: &[u8], cut: usize) -> Result<Vec<u8>, Violation> {
        let mut content = Vec::new();
        let mut each = |piece: &[u8]| {
            assert!(!piece.is_empty());
            content.extend_from_slice(piece);
            Ok(())
        };
        for piece in payload.chunks(cut) {
            inflater.read(piece, &mut each)?;
        }
        inflater.end(&mut each)?;
        Ok(content)
    }

    #[test]
    fn messages_are_compressed_by_themselves() {
        let mut deflater = Deflater::default();
        let noise: Vec<u8> =
            (0..100_000u64).map(|k| (k.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        let long = b"many times the same ".repeat(10_000);
        let contents = [&b""[..], b"a", b"Hello", &noise, &long, b"", &noise[..4_096], b"Hello"];
        let mut inflater = Inflater::default();
        for content in contents {
            let payload = deflater.compress(content).to_vec();
            for cut in [1, 7, 4_096, usize::MAX] {
                let found = inflate(&mut Inflater::default(), &payload, cut);
                assert_eq!(found.as_deref(), Ok(content), "{cut}");
            }
            assert_eq!(inflate(&mut inflater, &payload, 100).as_deref(), Ok(content));
        }
        assert!(deflater.compress(&long).len() < long.len() / 50);
    }

    /// The payloads of section 7.2.3 of the standard: with a reference to the message before it, in
    /// a block without compression, in a last block, and in two blocks.
    #[test]
    fn payloads_are_those_of_the_standard() {
        let mut inflater = Inflater::default();
        let hello = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00];
        let again = [0xF2, 0x00, 0x11, 0x00, 0x00];
        for payload in [&hello[..], &again] {
            assert_eq!(inflate(&mut inflater, payload, 1).as_deref(), Ok(&b"Hello"[..]));
        }
        let stored = [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00];
        let last = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00];
        let two = [0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00];
        for payload in [&stored[..], &last, &two] {
            for cut in [1, 100] {
                let found = inflate(&mut Inflater::default(), payload, cut);
                assert_eq!(found.as_deref(), Ok(&b"Hello"[..]), "{payload:x?}");
            }
        }
        assert_eq!(inflate(&mut Inflater::default(), &[0], 1).as_deref(), Ok(&b""[..]));
        // The window starts with zeros, so a reference to what was never sent is no error.
        let zeros = inflate(&mut Inflater::default(), &again, 1);
        assert_eq!(zeros.as_deref(), Ok(&b"H\0\0\0\0"[..]));
        assert_eq!(inflate(&mut Inflater::default(), &[0x06], 1), Err(Violation::Deflate));
    }

    #[test]
    fn offers_are_accepted_if_their_window_is_the_largest() {
        let offer =
            |text: &str| Agreed::to_offer(text.as_bytes()).map(|agreed| agreed.client_alone);
        for (text, alone) in [
            ("permessage-deflate", false),
            ("permessage-deflate; client_max_window_bits", false),
            ("permessage-deflate;client_max_window_bits=9;client_no_context_takeover", true),
            ("permessage-deflate; server_max_window_bits=\"15\"", false),
            ("permessage-deflate; server_no_context_takeover ; client_no_context_takeover", true),
            (OFFER, true),
        ] {
            assert_eq!(offer(text), Some(alone), "{text}");
        }
        for text in [
            "permessage-deflate; server_max_window_bits=10",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; client_max_window_bits=7",
            "permessage-deflate; client_max_window_bits=09",
            "permessage-deflate; client_max_window_bits=+9",
            "permessage-deflate; client_no_context_takeover=1",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
            "permessage-deflate; mux",
            "permessage-deflate;",
        ] {
            assert_eq!(offer(text), None, "{text}");
        }
    }

    #[test]
    fn replies_say_nothing_that_was_not_offered() {
        let reply = |text: &str| Agreed::to_reply(text.as_bytes());
        let agreed = |client_alone, server_alone| Some(Agreed { client_alone, server_alone });
        assert_eq!(reply("permessage-deflate"), agreed(false, false));
        assert_eq!(reply("permessage-deflate; server_max_window_bits=10"), agreed(false, false));
        for both in [false, true] {
            let server = Agreed { client_alone: both, server_alone: true };
            assert_eq!(reply(server.reply()), Some(server));
        }
        for text in [
            "permessage-deflate; client_max_window_bits=15",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
            "permessage-deflate; x",
        ] {
            assert_eq!(reply(text), None, "{text}");
        }
        assert!(is_deflate(b"Permessage-Deflate ; a") && !is_deflate(b"permessage-bzip2"));
    }
}
