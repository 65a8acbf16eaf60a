//! Options of streams in the bodies of replies.

use clap::Args;
use prony_core::plan::{StreamFormat, StreamPlan};
use prony_core::units::Span;

use super::{STREAMS, values};

/// Options of streams.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct StreamArgs {
    /// Read replies as streams of messages: sse, ndjson, chunks, messages, whole
    ///
    /// A message is a server-sent event, a line, a chunk (with HTTP/2 a DATA frame), with ws://
    /// URLs a message of WebSocket, or the whole body. The report has the times to the first
    /// message and between messages (docs/streams.md).
    #[arg(long, value_name = "FORMAT", help_heading = STREAMS, value_parser = format)]
    pub stream: Option<StreamFormat>,
    /// Where a message has its content, as a JSON pointer: /choices/0/delta/content
    ///
    /// The first message with a value there that is not empty is the first content.
    #[arg(long, value_name = "POINTER", help_heading = STREAMS, requires = "stream")]
    pub content_pointer: Option<String>,
    /// End a stream after N messages [default: the server ends it]
    ///
    /// The request succeeds. With HTTP/1.1 its connection is closed, with HTTP/2 its stream reset.
    #[arg(
        long, value_name = "N", help_heading = STREAMS, requires = "stream",
        value_parser = values::positive,
    )]
    pub stream_events: Option<u64>,
    /// End a stream after this time, from the send of its request
    #[arg(
        long, value_name = "T", help_heading = STREAMS, requires = "stream",
        value_parser = values::positive_span,
    )]
    pub stream_time: Option<Span>,
    /// End a stream after the first message with this text (`[DONE]`)
    ///
    /// A stream that the server ends before that fails (truncated-stream), unless it is opened
    /// again.
    #[arg(long, value_name = "TEXT", help_heading = STREAMS, requires = "stream")]
    pub until_event: Option<String>,
    /// Fail a stream that the server ends after another message than one with this text
    ///
    /// Its error is truncated-stream. For streams that have a last message of their own, such as
    /// `"done":true`. A stream that prony ends, after one of the bounds above, does not fail.
    #[arg(
        long, value_name = "TEXT", help_heading = STREAMS, requires = "stream",
        conflicts_with = "reconnect",
    )]
    pub require_end: Option<String>,
    /// Open a stream again that has ended before these bounds, after the event that was last
    ///
    /// As browsers do: after the time that the server has given (retry), or after 3 s, with the
    /// header Last-Event-ID. It is still the same request, with one timeout. For server-sent
    /// events, with one of the bounds above.
    #[arg(long, help_heading = STREAMS, requires = "stream")]
    pub reconnect: bool,
}

/// The IDs of these options.
pub(super) const IDS: [&str; 7] = [
    "stream",
    "content_pointer",
    "stream_events",
    "stream_time",
    "until_event",
    "require_end",
    "reconnect",
];

impl StreamArgs {
    /// The part of the plan.
    pub(crate) fn plan(&self) -> Option<Box<StreamPlan>> {
        self.stream.map(|format| {
            Box::new(StreamPlan {
                format,
                content: self.content_pointer.clone(),
                count: self.stream_events,
                time: self.stream_time,
                until: self.until_event.clone(),
                end: self.require_end.clone(),
                tokens: None,
                reconnect: self.reconnect,
            })
        })
    }
}

fn format(text: &str) -> Result<StreamFormat, String> {
    match text {
        "sse" => Ok(StreamFormat::Sse),
        "ndjson" => Ok(StreamFormat::Ndjson),
        "chunks" => Ok(StreamFormat::Chunks),
        "messages" => Ok(StreamFormat::Messages),
        "whole" => Ok(StreamFormat::Whole),
        _ => Err("must be sse, ndjson, chunks, messages or whole".into()),
    }
}
