//! Every figure that is one number, one row each: thresholds and comparisons of reports walk these
//! rows. `docs/terms.md` defines the figures.

use super::Unit;

/// Expand `$with` with the rows: a doc comment, the name here, the name in thresholds, the name in
/// tables, the unit, what a fault of the meter makes of it, and its value in a tally `t`; `None`
/// where a run has no such thing, or where it is no matter of the tally.
///
/// The values are only for `record`, which knows what a tally is. It is above this room.
#[doc(hidden)]
#[macro_export]
macro_rules! each_number {
    ($with:ident) => {
        $with! {
            /// Completed requests per second.
            Rate, "rate", "completed rate", Rate, Smaller, |t| Some(t.rate());
            /// Open loop: requests sent on time per second.
            SentRate, "sent-rate", "sent rate", Rate, Smaller, |_| None;
            /// Completed sessions per second.
            SessionRate, "session.rate", "session rate", Rate, Smaller, |t| t.session_rate();
            /// Bytes received per second.
            Throughput, "throughput", "received", ByteRate, Smaller, |t| Some(t.bytes_per_second());
            /// Requests that started.
            Requests, "requests", "requests", Count, Smaller, |t| Some(t.started as f64);
            /// Requests of which the first byte was sent.
            Sent, "sent", "sent", Count, Smaller, |t| Some(t.sent as f64);
            /// Requests answered as expected.
            Replies, "replies", "replies", Count, Smaller, |t| Some(t.replies as f64);
            /// Errors while no request was waiting.
            Stray, "stray", "stray", Count, Exact, |t| Some(t.stray.iter().sum::<u64>() as f64);
            /// Connections that were tried.
            Connects, "connects", "connects", Count, Any, |t| Some(t.connects as f64);
            /// Connections that opened.
            Connections, "connections", "connections", Count, Any, |t| Some(t.connected as f64);
            /// Completed TLS handshakes.
            Handshakes, "handshakes", "handshakes", Count, Any,
                |t| Some(t.times.handshake.count() as f64);
            /// Bytes passed to the kernel.
            BytesSent, "bytes-sent", "bytes sent", Count, Smaller, |t| Some(t.bytes_sent as f64);
            /// Bytes read.
            BytesReceived, "bytes-received", "bytes received", Count, Smaller,
                |t| Some(t.bytes_received() as f64);
            /// The mean number of requests in flight.
            Concurrency, "concurrency", "concurrency", Count, Any, |t| Some(t.concurrency());
            /// The most requests in flight at once.
            InFlightMax, "in-flight-max", "in flight at most", Count, Any,
                |t| Some(t.in_flight_max as f64);
            /// The mean number of open streams.
            Streams, "streams", "streams", Count, Any, |t| t.streams_mean();
            /// The most streams that were open on one connection.
            StreamsMax, "streams-max", "streams at most", Count, Any,
                |t| Some(t.http2.as_ref()?.open_max.into());
            /// Tokens of a language model per second.
            TokenRate, "token-rate", "token rate", Rate, Smaller, |t| t.token_rate();
            /// Messages with output per second.
            ChunkRate, "chunk-rate", "chunk rate", Rate, Smaller, |t| t.chunk_rate();
            /// Replies that keep all limits per second.
            Goodput, "goodput", "goodput", Rate, Smaller, |t| t.goodput();
            /// Tokens in the replies.
            OutputTokens, "output-tokens", "tokens", Count, Smaller,
                |t| t.output_tokens().map(|n| n as f64);
            /// Tokens in their requests.
            InputTokens, "input-tokens", "tokens in", Count, Smaller,
                |t| t.input_tokens().map(|n| n as f64);
            /// The time in which replies could not continue because of our own windows.
            WindowTime, "window-time", "window time", Time, Exact,
                |t| Some(t.http2.as_ref()?.blocked_time.0 as f64);
            /// The share of the expected deliveries of a broadcast that took place.
            Reach, "reach", "reach", Share, Smaller, |t| t.broadcast.as_ref()?.reach();
            /// The busiest worker's share of busy time.
            Busy, "busy", "busy", Share, Exact, |_| None;
            /// Processor time of the meter per request that ended.
            CpuPerRequest, "cpu-per-request", "CPU/request", Time, Exact, |_| None;
        }
    };
}

/// What a fault of the meter can make of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distortion {
    /// Nothing: it is about the meter, or a fact.
    Exact,
    /// Less than it would be.
    Smaller,
    /// More or less.
    Any,
}

macro_rules! names {
    ($(
        $(#[$doc:meta])+
        $name:ident, $key:literal, $label:literal, $unit:ident, $distorted:ident,
            |$t:pat_param| $of:expr;
    )+) => {
        /// A figure that is one number, and no share of what was counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Scalar {
            $($(#[$doc])+ $name,)+
        }

        impl Scalar {
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

            /// What its limit is measured in.
            pub fn unit(self) -> Unit {
                match self {
                    $(Self::$name => Unit::$unit,)+
                }
            }

            /// What a fault of the meter can make of it.
            pub fn distortion(self) -> Distortion {
                match self {
                    $(Self::$name => Distortion::$distorted,)+
                }
            }
        }
    };
}
each_number!(names);
