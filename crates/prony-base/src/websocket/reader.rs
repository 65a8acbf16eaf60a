//! Messages from the bytes of a connection.

use super::deflate::Inflater;
use super::utf8::Utf8;
use super::{CONTROL_MAX, Close, Head, Opcode, Role, Violation, mask};

/// The default limit of a message in bytes: 16 MiB.
pub const MESSAGE_MAX: u64 = 16 << 20;

/// How many masked bytes are unmasked at a time.
const CHUNK: usize = 1 << 10;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// What was found in the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A message starts.
    Start(Kind),
    /// The next bytes of the message, never empty.
    Piece(&'a [u8]),
    /// The message is complete. It has this many bytes.
    End(u64),
    /// A ping, which may come inside of a message, too.
    Ping(&'a [u8]),
    /// A pong.
    Pong(&'a [u8]),
    /// The peer closes. Nothing follows.
    Close(Close<'a>),
}

/// The position in what one endpoint receives.
#[derive(Debug)]
pub struct Reader {
    /// How many bytes of the frame are to come.
    left: u64,
    /// How many were read.
    read: u64,
    /// The length of the message so far.
    length: u64,
    /// The longest message that is accepted.
    most: u64,
    /// The bytes of data frames so far, as they were sent.
    payload_bytes: u64,
    mask: Option<u32>,
    role: Role,
    /// The message that has started and not ended.
    open: Option<Kind>,
    /// Whether the frame is the last one of its message.
    is_final: bool,
    /// Whether a data frame has started and not ended.
    in_frame: bool,
    /// Whether the peer has closed.
    is_closed: bool,
    text: Utf8,
    /// Whether texts have to be UTF-8.
    checks_text: bool,
    /// Whether messages may be compressed.
    deflates: bool,
    /// Whether the message that has started is compressed.
    is_compressed: bool,
    /// Since the first compressed message.
    inflater: Option<Box<Inflater>>,
    /// Whether the peer compresses each message by itself, so that nothing of one is kept.
    is_alone: bool,
}

// Keep idle connections small.
const _: () = assert!(size_of::<Reader>() <= 72);

impl Reader {
    /// At the start of a connection of an endpoint with this role, which accepts messages of up to
    /// `most` bytes.
    pub fn new(role: Role, most: u64) -> Self {
        Self {
            left: 0,
            read: 0,
            length: 0,
            most,
            mask: None,
            role,
            open: None,
            is_final: false,
            in_frame: false,
            is_closed: false,
            text: Utf8::default(),
            checks_text: true,
            payload_bytes: 0,
            deflates: false,
            is_compressed: false,
            inflater: None,
            is_alone: false,
        }
    }

    /// Accept compressed messages. `is_alone`: the peer compresses each by itself.
    pub fn accept_compressed(&mut self, is_alone: bool) {
        (self.deflates, self.is_alone) = (true, is_alone);
    }

    /// Accept texts of any bytes. Reasons in close frames are checked nevertheless.
    pub fn accept_any_text(&mut self) {
        self.checks_text = false;
    }

    /// The bytes of the messages so far, as they were sent.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Whether the peer has closed, so that all further bytes are ignored.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether no message has started that has not ended.
    pub fn is_between_messages(&self) -> bool {
        self.open.is_none()
    }

    /// Read the next bytes, and pass what is in them to `each`. Returns how many were used. The
    /// rest, at most 131 bytes, must be passed again with the bytes that follow it.
    ///
    /// # Errors
    /// The first violation of the protocol. What comes before it was passed to `each`; the reader
    /// cannot be used after it.
    pub fn read(
        &mut self,
        data: &[u8],
        mut each: impl FnMut(Event<'_>),
    ) -> Result<usize, Violation> {
        let mut at = 0;
        while at < data.len() && !self.is_closed {
            if self.in_frame {
                at += self.payload(&data[at..], &mut each)?;
                continue;
            }
            let Some((head, n)) = Head::parse(self.role, self.deflates, &data[at..])? else {
                return Ok(at);
            };
            if head.opcode.is_control() {
                let length = usize::try_from(head.length).unwrap_or(CONTROL_MAX);
                let Some(payload) = data[at + n..].get(..length) else { return Ok(at) };
                self.control(head, payload, &mut each)?;
                at += n + length;
            } else if let Some(content) = self.whole(head, &data[at + n..]) {
                self.message(head.opcode, content, &mut each)?;
                at += n + content.len();
            } else {
                self.begin(head, &mut each)?;
                at += n;
            }
        }
        Ok(if self.is_closed { data.len() } else { at })
    }

    /// The content of the message that this frame begins, if it is all here, as it was sent.
    #[inline]
    fn whole<'a>(&self, head: Head, rest: &'a [u8]) -> Option<&'a [u8]> {
        let is_plain = head.is_final && !head.is_compressed && head.mask.is_none();
        let starts = self.open.is_none() && head.opcode != Opcode::Continuation;
        if !is_plain || !starts || head.length > self.most {
            return None;
        }
        rest.get(..usize::try_from(head.length).ok()?)
    }

    /// A message in one frame.
    #[inline]
    fn message(
        &mut self,
        opcode: Opcode,
        content: &[u8],
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Violation> {
        let is_text = opcode == Opcode::Text;
        each(Event::Start(if is_text { Kind::Text } else { Kind::Binary }));
        self.payload_bytes += content.len() as u64;
        let mut text = Utf8::default();
        if is_text && self.checks_text {
            text.read(content)?;
        }
        if !content.is_empty() {
            each(Event::Piece(content));
        }
        if !text.is_complete() {
            return Err(Violation::Utf8);
        }
        each(Event::End(content.len() as u64));
        Ok(())
    }

    /// A data frame starts.
    fn begin(&mut self, head: Head, each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        let kind = match head.opcode {
            Opcode::Text => Some(Kind::Text),
            Opcode::Binary => Some(Kind::Binary),
            _ => None,
        };
        match (self.open, kind) {
            (None, None) => return Err(Violation::NothingToContinue),
            (Some(_), Some(_)) => return Err(Violation::InsideMessage),
            (None, Some(kind)) => {
                (self.open, self.length, self.text) = (Some(kind), 0, Utf8::default());
                self.is_compressed = head.is_compressed;
                each(Event::Start(kind));
            }
            (Some(_), None) => {}
        }
        // How long a compressed message is, is seen when it is decompressed.
        let length = if self.is_compressed { 0 } else { head.length };
        if self.length.checked_add(length).is_none_or(|length| length > self.most) {
            return Err(Violation::TooLong);
        }
        (self.left, self.read, self.mask) = (head.length, 0, head.mask);
        (self.is_final, self.in_frame) = (head.is_final, true);
        self.end_frame(each)
    }

    /// Bytes of a data frame. Returns how many belong to it.
    fn payload(
        &mut self,
        data: &[u8],
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<usize, Violation> {
        let n = usize::try_from(self.left).map_or(data.len(), |left| left.min(data.len()));
        match self.mask {
            None => self.piece(&data[..n], each)?,
            Some(bits) => {
                let mut chunk = [0; CHUNK];
                for masked in data[..n].chunks(CHUNK) {
                    let bytes = &mut chunk[..masked.len()];
                    bytes.copy_from_slice(masked);
                    mask(bytes, bits, self.read);
                    self.piece(bytes, each)?;
                }
            }
        }
        self.end_frame(each)?;
        Ok(n)
    }

    /// Bytes of a data frame without their mask.
    fn piece(&mut self, bytes: &[u8], each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        let n = bytes.len() as u64;
        (self.left, self.read) = (self.left - n, self.read + n);
        self.payload_bytes += n;
        if self.is_compressed {
            return self.inflate(Some(bytes), each);
        }
        self.content(bytes, each)
    }

    /// Bytes of a message.
    #[inline]
    fn content(&mut self, bytes: &[u8], each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        if self.open == Some(Kind::Text) && self.checks_text {
            self.text.read(bytes)?;
        }
        self.length += bytes.len() as u64;
        each(Event::Piece(bytes));
        Ok(())
    }

    /// Bytes of a compressed message; `None`: its end.
    #[cold]
    fn inflate(
        &mut self,
        bytes: Option<&[u8]>,
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Violation> {
        let mut inflater = self.inflater.take().unwrap_or_default();
        let mut content = |bytes: &[u8]| {
            let room = usize::try_from(self.most - self.length).unwrap_or(usize::MAX);
            match bytes.split_at_checked(room) {
                Some((fitting, rest)) if !rest.is_empty() => {
                    // A violation in it comes first.
                    if !fitting.is_empty() {
                        self.content(fitting, each)?;
                    }
                    Err(Violation::TooLong)
                }
                _ => self.content(bytes, each),
            }
        };
        match bytes {
            Some(bytes) => inflater.read(bytes, &mut content)?,
            None => inflater.end(&mut content)?,
        }
        if bytes.is_some() || !self.is_alone {
            self.inflater = Some(inflater);
        }
        Ok(())
    }

    /// The data frame has ended, unless bytes are to come.
    fn end_frame(&mut self, each: &mut impl FnMut(Event<'_>)) -> Result<(), Violation> {
        if self.left > 0 {
            return Ok(());
        }
        self.in_frame = false;
        if self.is_final {
            if self.is_compressed {
                self.inflate(None, each)?;
            }
            self.open = None;
            if !self.text.is_complete() {
                return Err(Violation::Utf8);
            }
            each(Event::End(self.length));
        }
        Ok(())
    }

    fn control(
        &mut self,
        head: Head,
        payload: &[u8],
        each: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Violation> {
        let mut bytes = [0; CONTROL_MAX];
        let bytes = &mut bytes[..payload.len()];
        bytes.copy_from_slice(payload);
        if let Some(bits) = head.mask {
            mask(bytes, bits, 0);
        }
        each(match head.opcode {
            Opcode::Ping => Event::Ping(bytes),
            Opcode::Pong => Event::Pong(bytes),
            _ => {
                let close = Close::parse(bytes)?;
                self.is_closed = true;
                Event::Close(close)
            }
        });
        Ok(())
    }
}
