//! The bytes that a connection is about to send, and where exchanges start in them.

use prony_base::units::{Nanos, RequestId, Span};

/// How many bytes of a file are read at once.
pub(super) const PIECE: u64 = 64 << 10;

/// Bytes for the socket of one connection, with the positions at which exchanges start, and the
/// positions at which they are cut into pieces that are given to the kernel one by one.
#[derive(Clone, Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
    begins: Vec<Begin>,
    cuts: Vec<usize>,
    waits: Vec<(RequestId, Span)>,
    messages: Vec<(RequestId, u64)>,
    pings: Vec<Nanos>,
    body: Option<BodyRest>,
    /// How many bytes there may be before no further exchange is appended.
    limit: usize,
}

/// A body that is sent from its file, and is not completely appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRest {
    /// The call whose body it is.
    pub call: u32,
    /// How many of its bytes are appended.
    pub at: u64,
}

/// The start of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// How many bytes are before it.
    pub at: usize,
    /// Which exchange.
    pub id: RequestId,
}

impl Out {
    /// How many bytes of requests are encoded before they are given to the kernel.
    pub const CHUNK: usize = 64 << 10;

    /// An empty buffer, with memory for this number of bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// The first byte of an exchange is the next one that is appended.
    #[inline]
    pub fn begin(&mut self, id: RequestId) {
        self.begins.push(Begin { at: self.bytes.len(), id });
    }

    /// The bytes appended so far, for appending more.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Give the bytes appended since the last cut to the kernel by themselves, as a message or a
    /// datagram.
    #[inline]
    pub fn cut(&mut self) {
        self.cut_at(self.bytes.len());
    }

    /// Give the bytes between the last cut and `at` to the kernel by themselves.
    #[inline]
    pub fn cut_at(&mut self, at: usize) {
        if self.cuts.last().copied().unwrap_or(0) < at {
            self.cuts.push(at);
        }
    }

    /// Cut the bytes appended since the last cut into datagrams of `size` bytes each; the last one
    /// may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn segments(&mut self, size: usize) {
        assert!(size > 0, "a datagram is not empty");
        let mut at = self.cuts.last().copied().unwrap_or(0) + size;
        while at < self.bytes.len() {
            self.cuts.push(at);
            at += size;
        }
        self.cut();
    }

    /// A part of the exchange that is sent now has waited this long for the peer's permission.
    #[inline]
    pub fn waited_for_window(&mut self, id: RequestId, wait: Span) {
        self.waits.push((id, wait));
    }

    /// The next message of an exchange, of those that are sent at their time, is appended. Its
    /// reply has the same token, if replies are not matched by their order.
    #[inline]
    pub fn wrote_message(&mut self, id: RequestId, token: u64) {
        self.messages.push((id, token));
    }

    /// A ping that was due at this time is appended.
    #[inline]
    pub fn wrote_ping(&mut self, due: Nanos) {
        self.pings.push(due);
    }

    /// The bytes end inside this body. The rest of it follows before anything else on the
    /// connection.
    pub fn continue_later(&mut self, body: BodyRest) {
        self.body = Some(body);
        self.limit = 0;
    }

    /// How many bytes were appended so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was appended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forget all of it; the memory stays.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.begins.clear();
        self.body = None;
        self.limit = Self::CHUNK;
        if !self.cuts.is_empty() {
            self.cuts.clear();
        }
    }

    /// The bytes appended so far.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where exchanges begin in them.
    #[inline]
    pub fn begins(&self) -> &[Begin] {
        &self.begins
    }

    /// Where they are cut.
    #[inline]
    pub fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// Whether no further exchange is to be appended.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Whether the bytes end inside a body.
    #[inline]
    pub fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// The body inside which they end.
    pub fn take_body(&mut self) -> Option<BodyRest> {
        self.body.take()
    }

    /// The waits for permission since the last call.
    #[inline]
    pub fn take_waits(&mut self) -> std::vec::Drain<'_, (RequestId, Span)> {
        self.waits.drain(..)
    }

    /// The messages that were appended since the last call.
    #[inline]
    pub fn take_messages(&mut self) -> std::vec::Drain<'_, (RequestId, u64)> {
        self.messages.drain(..)
    }

    /// When the pings were due that were appended since the last call.
    #[inline]
    pub fn take_pings(&mut self) -> std::vec::Drain<'_, Nanos> {
        self.pings.drain(..)
    }

    /// The bytes, starts and cuts, to be replaced by those of the encrypted records.
    #[inline]
    pub fn parts(&mut self) -> (&mut Vec<u8>, &mut [Begin], &mut Vec<usize>) {
        (&mut self.bytes, &mut self.begins, &mut self.cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cut_the_bytes_since_the_last_cut() {
        let mut out = Out::default();
        out.bytes().extend_from_slice(b"hello");
        out.cut();
        out.cut();
        out.bytes().extend_from_slice(&[0; 25]);
        out.segments(10);
        assert_eq!(out.cuts(), [5, 15, 25, 30]);
        out.bytes().extend_from_slice(&[0; 20]);
        out.segments(10);
        assert_eq!(out.cuts(), [5, 15, 25, 30, 40, 50]);
    }

    #[test]
    fn does_not_cut_an_empty_buffer() {
        let mut out = Out::default();
        out.cut();
        out.segments(3);
        assert!(out.is_empty() && out.cuts().is_empty());
    }
}
