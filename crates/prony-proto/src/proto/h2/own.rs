//! What a stream sends, if that is not simply the body of its call, and the memory for it.

use prony_base::grpc::{self, Gzip};

/// What a stream sends, if that is not simply the body of its call.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// The body, if it was made for this request.
    pub(super) bytes: Vec<u8>,
    /// Whether it was; otherwise the body is that of the call.
    pub(super) has_bytes: bool,
    /// The compressed message of the reply that is incomplete, if something looks into it.
    pub(super) packed: Vec<u8>,
    pub(super) messages: Option<Messages>,
    /// The position in the file with the body, of which `bytes` are the last piece.
    pub(super) upload: Option<Upload>,
}

/// A body that is read from its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upload {
    /// How many of its bytes were read.
    pub(super) at: u64,
    pub(super) length: u64,
}

impl Upload {
    /// How many bytes are read at once: those of a frame, and no more than streams keep for others.
    pub(super) const PIECE: u64 = 16 << 10;

    pub(super) fn has_more(&self) -> bool {
        self.at < self.length
    }
}

/// Memory that the streams of all connections use in turn.
#[derive(Debug, Default)]
pub(super) struct Spare {
    #[expect(clippy::vec_box, reason = "they move between here and streams as they are")]
    owns: Vec<Box<Own>>,
    pub(super) gzip: Gzip,
    packed: Vec<u8>,
}

impl Spare {
    /// How many are kept, and the largest body that is kept with them, in bytes.
    const MOST: usize = 1_000;
    const BYTES_MAX: usize = 16 << 10;

    /// This body, if it was made for the request.
    pub(super) fn body(&mut self, bytes: Option<&[u8]>) -> Option<Box<Own>> {
        bytes.map(|bytes| self.take(Some(bytes)))
    }

    /// Messages in turn: these, or those of the call.
    pub(super) fn messages(&mut self, bytes: Option<&[u8]>) -> Box<Own> {
        let mut own = self.take(bytes);
        own.messages = Some(Messages::default());
        own
    }

    /// A body of this length, from a file.
    pub(super) fn upload(&mut self, length: u64) -> Box<Own> {
        let mut own = self.take(Some(&[]));
        own.upload = Some(Upload { at: 0, length });
        own
    }

    pub(super) fn take(&mut self, bytes: Option<&[u8]>) -> Box<Own> {
        let mut own = self.owns.pop().unwrap_or_default();
        own.has_bytes = bytes.is_some();
        own.bytes.extend_from_slice(bytes.unwrap_or_default());
        own
    }

    /// The messages of a body, compressed. [`unused`](Self::unused) gives the memory back.
    pub(super) fn packed(&mut self, body: &[u8]) -> Vec<u8> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        self.gzip.pack(body, &mut packed);
        packed
    }

    /// Compressed messages are not used any more.
    pub(super) fn unused(&mut self, packed: Vec<u8>) {
        self.packed = packed;
    }

    /// The value of a field of a message with its prefix, as a number.
    pub(super) fn token(&mut self, whole: &[u8], field: u32) -> u64 {
        let (prefix, message) = whole.split_at(grpc::PREFIX);
        match prefix[0] {
            0 => grpc::token(message, field),
            // It was compressed here.
            _ => self.gzip.unpack(message, usize::MAX >> 1).map_or(0, |m| grpc::token(m, field)),
        }
    }

    /// The stream needs it no more.
    #[cold]
    pub(super) fn put(&mut self, mut own: Box<Own>) {
        let bytes = own.bytes.capacity() + own.packed.capacity();
        if self.owns.len() < Self::MOST && bytes <= Self::BYTES_MAX {
            own.bytes.clear();
            own.packed.clear();
            own.messages = None;
            own.upload = None;
            self.owns.push(own);
        }
    }
}

/// Messages that are sent at their time.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// Where the message that was taken last ends in the body.
    pub(super) at: usize,
    /// How many are due, and not taken.
    pub(super) owed: u64,
    /// Whether no further one follows.
    pub(super) ends: bool,
    /// Whether the stream was ended.
    pub(super) ended: bool,
    /// Whether no byte of the message that was taken last was sent.
    pub(super) is_fresh: bool,
    /// Whether the stream waits for its turn to send.
    pub(super) is_queued: bool,
    /// The message of the reply that is incomplete, if it is matched by a field.
    pub(super) reply: Vec<u8>,
}

impl Own {
    /// The body, if it was made for this request.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.has_bytes.then_some(&self.bytes)
    }

    /// Whether a file has more of the body.
    pub(super) fn is_in_file(&self) -> bool {
        self.upload.as_ref().is_some_and(Upload::has_more)
    }
}
