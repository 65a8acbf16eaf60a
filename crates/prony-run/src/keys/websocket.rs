//! The keys of WebSocket, but for its schedule of messages.

use super::{Key, Keyed, Parsed};
use crate::values;
use crate::websocket::WebSocketDraft;

type Row = Key<WebSocketDraft>;

impl Keyed for WebSocketDraft {
    const KEYS: &'static [Row] = &[
        Row::flag(
            "--binary",
            "Send binary messages instead of text to ws:// and wss:// URLs",
            |draft| &mut draft.binary,
        )
        .more(
            "--body is the message. It is sent when the connection is open, or on the schedule of \
             --messages (docs/streams.md).",
        ),
        Row::texts(
            "--subprotocol",
            "NAME",
            "Offer this subprotocol of WebSocket, may be repeated",
            |draft| &mut draft.subprotocols,
            "the name of a subprotocol, or a list of them",
        )
        .key("subprotocols"),
        Row::word(
            "--messages-over",
            "WHICH",
            "Whether --messages is the rate of each connection, or of all together: each, all",
            &[("each", |draft| draft.over_all = false), ("all", |draft| draft.over_all = true)],
        )
        .listed("each")
        .needs("schedule")
        .more("With all, the connections of -c (with --publishers: the publishers) send in turn."),
        Row::flag(
            "--ws-compress",
            "Compress messages of WebSocket (permessage-deflate)",
            |draft| &mut draft.compress,
        )
        .key("compress")
        .more(
            "Each message by itself. A connection fails (bad-upgrade) if the server does not \
             agree.",
        ),
        Row::flag(
            "--no-utf8-check",
            "Accept text messages of WebSocket that are not UTF-8",
            |draft| &mut draft.no_utf8_check,
        )
        .more("By default such a text fails its connection (bad-text), which is closed with 1007."),
        Row::time(
            "--ping-every",
            "Send a ping on each connection of WebSocket each T, and measure the time to its pong",
            |draft| &mut draft.ping_every,
        )
        .more("The first one is due T after the connection has opened."),
        Row::parsed(
            "--publishers",
            "N",
            "Let the first N connections send the messages, and all others receive them",
            Parsed {
                what: "a number",
                set: |draft, text| {
                    draft.broadcast.publishers = Some(values::connections(text)?);
                    Ok(())
                },
                get: |draft| draft.broadcast.publishers.map(|number| number.to_string()),
            },
        )
        .needs("schedule")
        .more(
            "Measures a server that passes each message to all other connections: delivery \
             times, spread and reach (docs/streams.md). -n is -c by default: each connection is \
             opened once.",
        ),
        Row::parsed(
            "--publish-after",
            "T",
            "When publishers start: when subscribers are there [default: 1s]",
            Parsed {
                what: "a time",
                set: |draft, text| {
                    draft.broadcast.after = Some(values::span(text)?);
                    Ok(())
                },
                get: |draft| draft.broadcast.after.map(|time| time.to_string()),
            },
        )
        .needs("publishers"),
        Row::time(
            "--subscribers-wait",
            "How long subscribers stay after the last message is due [default: 2s]",
            |draft| &mut draft.broadcast.wait,
        )
        .needs("publishers")
        .more("In the second half of this time they await no new messages, only deliveries."),
    ];
}
