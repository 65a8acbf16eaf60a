//! Messages in the bodies of replies of HTTP.

use serde::{Deserialize, Serialize};

use super::tokens::{TokenLimit, TokenPlan, TokenTime, check_slo};
use prony_base::units::Span;

/// How the bodies of replies are read as streams of messages, and when a stream ends. Applies to
/// all requests, and to replies with a status of 200 to 299.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPlan {
    /// What a message is.
    pub format: StreamFormat,
    /// A JSON pointer (RFC 6901): a message with a non-empty value there has content. `None`: no
    /// message has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// End a stream after this many messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// End a stream after this time, from the send of its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// End a stream after the first message that contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// A stream that the server ends must end with a message that contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Messages are those of a language model; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenPlan>,
    /// Open a stream again that has ended before one of the bounds above, or whose connection has
    /// broken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnect: bool,
}

/// What a message of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamFormat {
    /// A server-sent event with data.
    Sse,
    /// A line that has more than white space.
    Ndjson,
    /// A chunk of the chunked transfer coding, or a DATA frame of HTTP/2.
    Chunks,
    /// A message of WebSocket.
    Messages,
    /// The whole body.
    Whole,
}

impl Default for StreamPlan {
    fn default() -> Self {
        Self::new(StreamFormat::Sse)
    }
}

impl StreamPlan {
    /// Streams of this format, which the server ends.
    pub fn new(format: StreamFormat) -> Self {
        Self {
            format,
            content: None,
            count: None,
            time: None,
            until: None,
            end: None,
            tokens: None,
            reconnect: false,
        }
    }

    /// Whether a stream that the server ends must have ended with a certain message. One that is
    /// opened again may end anywhere.
    pub fn must_end(&self) -> bool {
        let has_mark = self.until.is_some() || self.end.is_some() || self.tokens.is_some();
        has_mark && !self.reconnect
    }

    /// How long a stream waits before it is opened again, unless its server has said it.
    pub const RETRY: Span = Span::from_secs(3);

    /// Check the values.
    ///
    /// # Errors
    /// One sentence about the first defect.
    pub fn check(&self) -> Result<(), String> {
        if let Some(pointer) = &self.content
            && !(pointer.is_empty() || pointer.starts_with('/'))
        {
            return Err(format!(
                "'{}' is not a JSON pointer: write '/' before each key or index, as in \
                 '/choices/0/delta/content'",
                pointer.escape_debug()
            ));
        }
        if self.content.is_some() && self.format == StreamFormat::Chunks {
            return Err("a chunk is no JSON text: a pointer to the content of messages needs \
                        streams of the format sse or ndjson"
                .into());
        }
        if let Some(tokens) = &self.tokens {
            if !matches!(self.format, StreamFormat::Sse | StreamFormat::Whole) {
                return Err("the replies of a language model are streams of the format sse, or \
                            whole bodies"
                    .into());
            }
            if self.content.is_some() {
                return Err("where the messages of a language model have their content is known: \
                            leave out the pointer to it"
                    .into());
            }
            check_slo(&tokens.slo)?;
            let needs_parts = |limit: &&TokenLimit| limit.time != TokenTime::Response;
            if self.format == StreamFormat::Whole
                && let Some(limit) = tokens.slo.iter().find(needs_parts)
            {
                return Err(format!(
                    "a reply in one piece has no time to its first token: leave out '{limit}', or \
                     let replies stream"
                ));
            }
        }
        if self.count == Some(0) {
            return Err("a stream must have at least 1 message before it is ended".into());
        }
        if self.time == Some(Span::ZERO) {
            return Err("a stream must last longer than no time".into());
        }
        if self.until.as_deref() == Some("") {
            return Err("the text that ends a stream must not be empty".into());
        }
        if self.end.as_deref() == Some("") {
            return Err("the text with which a stream must end must not be empty".into());
        }
        if self.reconnect { self.check_reconnect() } else { Ok(()) }
    }

    fn check_reconnect(&self) -> Result<(), String> {
        if self.format != StreamFormat::Sse {
            return Err("only streams of the format sse can be opened again".into());
        }
        if self.tokens.is_some() {
            return Err("a reply of a language model cannot be continued: it is not opened \
                        again"
                .into());
        }
        if self.end.is_some() {
            return Err("a stream that is opened again has no last message: leave out the text \
                        with which it must end, or do not open it again"
                .into());
        }
        if self.count.is_none() && self.time.is_none() && self.until.is_none() {
            return Err("a stream that is opened again never ends by itself: give a number of \
                        events, a time or the text of its last event"
                .into());
        }
        Ok(())
    }
}
