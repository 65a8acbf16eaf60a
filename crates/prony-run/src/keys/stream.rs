//! The keys of streams.

use prony_plan::plan::{StreamFormat, StreamPlan};

use super::{Key, Keyed};

type Row = Key<StreamPlan>;

impl Keyed for StreamPlan {
    const KEYS: &'static [Row] = &[
        Row::word(
            "--stream",
            "FORMAT",
            "Read replies as streams of messages: sse, ndjson, chunks, messages, whole",
            &[
                ("sse", |plan| plan.format = StreamFormat::Sse),
                ("ndjson", |plan| plan.format = StreamFormat::Ndjson),
                ("chunks", |plan| plan.format = StreamFormat::Chunks),
                ("messages", |plan| plan.format = StreamFormat::Messages),
                ("whole", |plan| plan.format = StreamFormat::Whole),
            ],
        )
        .key("format")
        .always_written()
        .more(
            "A message is a server-sent event, a line, a chunk (with HTTP/2 a DATA frame), with \
             ws:// URLs a message of WebSocket, or the whole body. The report has the times to \
             the first message and between messages (docs/streams.md).",
        ),
        Row::text(
            "--content-pointer",
            "POINTER",
            "Where a message has its content, as a JSON pointer: /choices/0/delta/content",
            |plan| &mut plan.content,
        )
        .needs("stream")
        .more("The first message with a value there that is not empty is the first content."),
        Row::count(
            "--stream-events",
            "End a stream after N messages [default: the server ends it]",
            |plan| &mut plan.count,
        )
        .key("events")
        .needs("stream")
        .more(
            "The request succeeds. With HTTP/1.1 its connection is closed, with HTTP/2 its \
             stream reset.",
        ),
        Row::time(
            "--stream-time",
            "End a stream after this time, from the send of its request",
            |plan| &mut plan.time,
        )
        .key("time")
        .needs("stream"),
        Row::text(
            "--until-event",
            "TEXT",
            "End a stream after the first message with this text (`[DONE]`)",
            |plan| &mut plan.until,
        )
        .needs("stream")
        .more(
            "A stream that the server ends before that fails (truncated-stream), unless it is \
             opened again.",
        ),
        Row::text(
            "--require-end",
            "TEXT",
            "Fail a stream that the server ends after another message than one with this text",
            |plan| &mut plan.end,
        )
        .needs("stream")
        .excludes("reconnect")
        .more(
            "Its error is truncated-stream. For streams that have a last message of their own, \
             such as `\"done\":true`. A stream that prony ends, after one of the bounds above, \
             does not fail.",
        ),
        Row::flag(
            "--reconnect",
            "Open a stream again that has ended before these bounds, after the event that was last",
            |plan| &mut plan.reconnect,
        )
        .needs("stream")
        .more(
            "As browsers do: after the time that the server has given (retry), or after 3 s, \
             with the header Last-Event-ID. It is still the same request, with one timeout. For \
             server-sent events, with one of the bounds above.",
        ),
    ];
}
