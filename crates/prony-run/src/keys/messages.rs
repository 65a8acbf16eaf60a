//! The keys of a schedule of messages, in calls of gRPC and in connections of WebSocket.

use super::{Key, Keyed, Parsed};
use crate::grpc::MessagesDraft;
use crate::values;

type Row = Key<MessagesDraft>;

impl Keyed for MessagesDraft {
    const KEYS: &'static [Row] = &[
        Row::parsed(
            "--messages",
            "RATE",
            "Send the messages of each call on a schedule of their own, at this rate: 10/s",
            Parsed {
                what: "a rate: \"10/s\"",
                set: |draft, text| {
                    draft.rate = Some(values::message_rate(text)?);
                    Ok(())
                },
                get: |draft| draft.rate.as_ref().map(ToString::to_string),
            },
        )
        .group("schedule")
        .more(
            "For methods of gRPC that take a stream of messages, and for connections of \
             WebSocket. The schedule counts from the intended start of the call. Messages are \
             those of --body in turn. Without a number or a time of them, each of the -c \
             connections or calls is opened once, and sends messages for the duration of the load \
             (-d).",
        ),
        Row::count(
            "--messages-count",
            "Messages per call [default: as many as fit into --messages-time, or into -d]",
            |draft| &mut draft.count,
        )
        .needs("schedule")
        .more("Several messages in --body of a call of gRPC are sent once each by default."),
        Row::time("--messages-time", "For how long each call sends messages", |draft| {
            &mut draft.time
        })
        .needs("schedule"),
        Row::parsed(
            "--messages-arrivals",
            "PROCESS",
            "Times between messages: fixed, poisson, gamma:SHAPE, uniform:LOW:HIGH [default: fixed]",
            Parsed {
                what: "fixed, poisson, gamma:0.5 or uniform:10ms:90ms",
                set: |draft, text| {
                    draft.arrivals = values::message_arrivals(text)?;
                    Ok(())
                },
                get: |draft| Some(draft.arrivals.to_string()),
            },
        )
        .group("schedule")
        .more("As those of --arrivals. Uniform times have no rate: without --messages."),
        Row::text(
            "--messages-reply",
            "HOW",
            "How replies are matched with messages: order, none, or the name of a field [default: \
             order]",
            |draft| &mut draft.reply,
        )
        .needs("schedule")
        .more(
            "REQUEST:REPLY names different fields in both. Methods with one reply have none by \
             default. WebSocket has no fields, but token: the reply has the stamp that prony puts \
             into its message, at {{stamp}} or before it.",
        ),
    ];
}
