//! Every kind of time that a run measures, one row each: thresholds, tables, JSON, plots and
//! comparisons walk these rows, in their order. `docs/terms.md` defines the times.

/// Expand `$with` with the rows: a doc comment, the name here, the name in thresholds (in JSON with
/// `_` for `-`), the name in tables, whether JSON has it, and the histogram in a tally `t`; `None`
/// where a run has no such thing.
///
/// The histograms are only for `record`, which knows what a tally is. It is above this room.
#[doc(hidden)]
#[macro_export]
macro_rules! each_time {
    ($with:ident) => {
        $with! {
            /// From the intended start to the last byte.
            Response, "response", "response", Always, |t| &t.times.response;
            /// From the intended start of a request to the first output of a language model.
            Ttft, "ttft", "TTFT", IfAny, |t| &t.tokens.as_ref()?.ttft;
            /// From the send to the first output.
            TtftService, "ttft-service", "TTFT service", IfAny,
                |t| &t.tokens.as_ref()?.ttft_service;
            /// Between the tokens of a reply, on average.
            Itl, "itl", "ITL", IfAny, |t| &t.tokens.as_ref()?.itl;
            /// Between two messages with output.
            ChunkGap, "chunk-gap", "chunk gap", IfAny, |t| &t.tokens.as_ref()?.chunk_gap;
            /// From the intended time of a message of a broadcast to a delivery.
            Delivery, "delivery", "delivery", IfAny, |t| &t.broadcast.as_ref()?.delivery;
            /// From the first to the last delivery of a message of a broadcast.
            Spread, "spread", "spread", IfAny, |t| &t.broadcast.as_ref()?.spread;
            /// From the time at which a ping of WebSocket is due to its pong.
            Ping, "ping", "ping", IfAny, |t| &t.pings.as_ref()?.time;
            /// From the send to the last byte.
            Service, "service", "service", Always, |t| &t.times.service;
            /// From the send to the first byte of the reply.
            FirstByte, "first-byte", "first byte", Always, |t| &t.times.first_byte;
            /// From the first to the last byte of the reply.
            Transfer, "transfer", "transfer", Always, |t| &t.times.transfer;
            /// The wait in the client's own queue.
            Queue, "queue", "queue", Always, |t| &t.times.queue;
            /// The wait for the peer's limit of streams.
            StreamWait, "stream-wait", "stream wait", IfAny, |t| &t.times.stream_wait;
            /// The wait for the peer's flow-control window.
            FlowWait, "flow-wait", "flow wait", IfAny, |t| &t.times.flow_wait;
            /// From the intended time of a message in a stream to its reply.
            Message, "message", "message", IfAny, |t| &t.times.message;
            /// From the send of such a message to its reply.
            MessageService, "message-service", "message service", IfAny,
                |t| &t.times.message_service;
            /// How late the meter sent such a message.
            MessageLag, "message-lag", "message lag", IfAny, |t| &t.times.message_lag;
            /// From the intended start of a call to the first message of its reply.
            FirstMessage, "first-message", "first message", IfAny, |t| &t.times.first_message;
            /// From the intended start of a request to the first message with content.
            FirstContent, "first-content", "first content", IfAny, |t| &t.times.first_content;
            /// Between two messages of a reply.
            MessageGap, "message-gap", "message gap", IfAny, |t| &t.times.message_gap;
            /// From the end of a stream's connection to the first message after its reconnect.
            Reconnect, "reconnect", "reconnect", IfAny, |t| &t.times.reconnect;
            /// From the start of a connect to the open connection.
            Connect, "connect", "connect", Always, |t| &t.times.connect;
            /// From the open connection to the proxy to the open tunnel.
            Tunnel, "tunnel", "tunnel", IfAny, |t| &t.times.tunnel;
            /// From the open connection to the end of the TLS handshake.
            Handshake, "handshake", "handshake", Always, |t| &t.times.handshake;
            /// How late the meter sent.
            SendLag, "send-lag", "send lag", Always, |t| &t.times.lag;
            /// From the intended start to a failure that is no timeout.
            Failed, "failed", "failed", Always, |t| &t.times.failed;
            /// From the intended start of a session to its last reply.
            Session, "session", "session", Elsewhere, |t| &t.sessions.as_ref()?.lifetime;
            /// From the intended start of a group to its last reply: each name has its own.
            Group, "group", "group", Elsewhere, |_t| None?;
        }
    };
}

/// Whether the times of a section in JSON have a kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InJson {
    /// In every run.
    Always,
    /// If any was measured.
    IfAny,
    /// It is beside what it belongs to.
    Elsewhere,
}

macro_rules! names {
    ($(
        $(#[$doc:meta])+
        $name:ident, $key:literal, $label:literal, $json:ident, |$t:ident| $of:expr;
    )+) => {
        /// A duration that is recorded in a histogram. They are in the order of tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Timed {
            $($(#[$doc])+ $name,)+
        }

        impl Timed {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name in thresholds.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)+
                }
            }

            /// Its name in tables.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)+
                }
            }

            /// Whether the times of a section in JSON have it.
            pub fn in_json(self) -> InJson {
                match self {
                    $(Self::$name => InJson::$json,)+
                }
            }

            /// Its name in JSON.
            pub fn json_key(self) -> String {
                self.key().replace('-', "_")
            }
        }
    };
}
each_time!(names);
