//! Messages in the body of a reply: server-sent events, lines, chunks, or messages of WebSocket. A
//! [`Reader`] gets the body in any pieces, and finds the same messages in all of them. It keeps no
//! more of a message than its [`Rules`] need, and allocates nothing once it has seen its longest
//! one.

mod json;
mod pointer;
mod position;
mod sse;
#[cfg(test)]
mod tests;
mod tokens;

use memchr::{memchr, memmem};

use crate::plan::{StreamFormat, StreamPlan, TokenDialect};
pub use pointer::Pointer;
pub use position::{ID_MAX, Position};
use sse::Sse;
pub use tokens::{Choices, Finish, Said, output_text};

/// The maximum length of a message in the body of a reply, in bytes.
pub const MESSAGE_MAX: usize = 1 << 20;

/// A longer message leaves no buffer behind.
const KEPT: usize = 2 << 10;

/// How to read the streams of a plan.
#[derive(Clone, Debug)]
pub struct Rules {
    format: StreamFormat,
    /// The place of the content in a message.
    pointer: Option<Pointer>,
    /// The text in the last message.
    until: Option<memmem::Finder<'static>>,
    /// The dialect of the messages, if they are those of a model.
    dialect: Option<TokenDialect>,
    /// The text that the last message must have.
    end: Option<memmem::Finder<'static>>,
    /// Whether the output of a model is kept.
    keeps_output: bool,
    /// Whether streams are opened again, so that their position matters.
    reconnect: bool,
}

/// A complete message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Whether it has content: a non-empty value at the place of the plan, or output of a model.
    /// False if the plan has neither.
    pub has_content: bool,
    /// Whether it contains the text that ends the stream.
    pub is_last: bool,
    /// Whether it contains the text that the last message must have.
    pub has_end: bool,
    /// What else it says, if it is one of a model.
    pub said: Said,
    /// Its ID, if that is a number and streams are opened again.
    pub id: Option<u64>,
}

/// What follows from the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended after a message.
    Clean,
    /// It ended a message.
    Message(Message),
    /// It ended within a server-sent event, which is not complete without an empty line.
    Incomplete,
}

/// A message is longer than [`MESSAGE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// The position in one body. Reused for body after body.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    sse: Sse,
    /// Whether a line or chunk has a byte that counts: lines of white space are no messages.
    has_begun: bool,
    collected: Collected,
}

/// The message so far.
#[derive(Clone, Debug, Default)]
struct Collected {
    /// Its bytes, if the rules need them.
    bytes: Vec<u8>,
    length: usize,
    /// The output of all messages so far, if the rules keep it.
    output: Vec<u8>,
}

fn finder(text: &str) -> memmem::Finder<'static> {
    memmem::Finder::new(text).into_owned()
}

impl Rules {
    /// The rules of a plan.
    pub fn new(plan: &StreamPlan) -> Self {
        Self {
            format: plan.format,
            pointer: plan.content.as_deref().map(Pointer::new),
            until: plan.until.as_deref().map(finder),
            end: plan.end.as_deref().map(finder),
            dialect: plan.tokens.as_ref().map(|tokens| tokens.dialect),
            keeps_output: false,
            reconnect: plan.reconnect,
        }
    }

    /// Keep the output of models, as [`Reader::output`] has it.
    pub fn keep_output(&mut self) {
        self.keeps_output = true;
    }

    fn keeps_bytes(&self) -> bool {
        let has_text = self.until.is_some() || self.end.is_some();
        self.pointer.is_some() || has_text || self.dialect.is_some()
    }
}

impl Reader {
    /// Start with the body of another stream.
    pub fn clear(&mut self, rules: &Rules) {
        self.sse.clear();
        if rules.reconnect {
            self.sse.position.get_or_insert_default().clear();
        }
        self.has_begun = false;
        self.collected.clear();
        self.collected.clear_output();
    }

    /// The output of a model's reply so far, if the rules keep it; [`output_text`] reads it.
    pub fn output(&self) -> &[u8] {
        &self.collected.output
    }

    /// Start with the next body of the same stream.
    pub fn continues(&mut self) {
        self.sse.clear();
        if let Some(position) = &mut self.sse.position {
            position.continues();
        }
        self.has_begun = false;
        self.collected.clear();
    }

    /// The position in the stream, if streams are opened again.
    pub fn position(&self) -> Option<&Position> {
        self.sse.position.as_deref()
    }

    /// A piece of the body. `each` gets the messages that it completes.
    ///
    /// # Errors
    /// A message is too long. The rest of the body cannot be read.
    pub fn read(
        &mut self,
        rules: &Rules,
        piece: &[u8],
        each: impl FnMut(Message),
    ) -> Result<(), TooLong> {
        match rules.format {
            StreamFormat::Sse => self.sse.read(rules, piece, &mut self.collected, each),
            StreamFormat::Ndjson => self.lines(rules, piece, each),
            StreamFormat::Chunks | StreamFormat::Whole => {
                self.has_begun |= !piece.is_empty();
                self.collected.add(rules, piece)
            }
            // Its reader has a limit.
            StreamFormat::Messages if !rules.keeps_bytes() => Ok(()),
            StreamFormat::Messages => self.collected.add(rules, piece),
        }
    }

    /// A chunk has ended, or a message of WebSocket.
    pub fn chunk_ended(&mut self, rules: &Rules) -> Option<Message> {
        let is_message = match rules.format {
            StreamFormat::Chunks => std::mem::take(&mut self.has_begun),
            // An empty message is one, too.
            StreamFormat::Messages => true,
            StreamFormat::Sse | StreamFormat::Ndjson | StreamFormat::Whole => return None,
        };
        is_message.then(|| self.collected.take(rules))
    }

    /// The body is complete.
    pub fn end(&mut self, rules: &Rules) -> Ending {
        match rules.format {
            StreamFormat::Sse if self.sse.is_inside() => Ending::Incomplete,
            StreamFormat::Sse | StreamFormat::Messages => Ending::Clean,
            StreamFormat::Ndjson | StreamFormat::Chunks | StreamFormat::Whole => {
                match std::mem::take(&mut self.has_begun) {
                    true => Ending::Message(self.collected.take(rules)),
                    false => Ending::Clean,
                }
            }
        }
    }

    fn lines(
        &mut self,
        rules: &Rules,
        mut piece: &[u8],
        mut each: impl FnMut(Message),
    ) -> Result<(), TooLong> {
        while !piece.is_empty() {
            let end = memchr(b'\n', piece);
            let line = &piece[..end.unwrap_or(piece.len())];
            self.has_begun |= !line.trim_ascii().is_empty();
            self.collected.add(rules, line)?;
            let Some(end) = end else { break };
            piece = &piece[end + 1..];
            if std::mem::take(&mut self.has_begun) {
                each(self.collected.take(rules));
            } else {
                self.collected.clear();
            }
        }
        Ok(())
    }
}

impl Collected {
    fn add(&mut self, rules: &Rules, bytes: &[u8]) -> Result<(), TooLong> {
        self.length += bytes.len();
        // A message of WebSocket has the limit of its own reader, which is another one.
        if self.length > MESSAGE_MAX && rules.format != StreamFormat::Messages {
            return Err(TooLong);
        }
        if rules.keeps_bytes() {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// The message is complete.
    fn take(&mut self, rules: &Rules) -> Message {
        let (has_content, said) = match (rules.dialect, &rules.pointer) {
            (Some(dialect), _) => {
                let output = rules.keeps_output.then_some(&mut self.output);
                tokens::read(dialect, &self.bytes, output)
            }
            (None, Some(pointer)) => (pointer.finds_content(&self.bytes), Said::default()),
            (None, None) => (false, Said::default()),
        };
        let has = |text: &memmem::Finder<'_>| text.find(&self.bytes).is_some();
        let is_last = rules.until.as_ref().is_some_and(has);
        let has_end = rules.end.as_ref().is_some_and(has);
        let message = Message { has_content, is_last, has_end, said, id: None };
        self.clear();
        message
    }

    fn clear_output(&mut self) {
        self.output.clear();
        self.output.shrink_to(KEPT);
    }

    fn clear(&mut self) {
        self.length = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
    }
}
