//! Counters of the target server, so that tests can compare them with those of a client.

use std::collections::BTreeMap;
use std::fmt;

use prony_base::grpc::Status;
use prony_base::merge::Merge;
use serde::{Deserialize, Serialize};

/// The server's counters. Invariant:
/// `requests + bad_requests == replies + truncated + resets + stream_resets + cancelled
/// + unanswered + outstanding`.
///
/// Those of several servers or workers are added up. So are the maxima, which makes them upper
/// bounds.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Maximum number of open connections.
    pub open_max: u64,
    /// Complete requests received, without malformed ones.
    pub requests: u64,
    /// Requests rejected as malformed, too large or not supported, each with a reply (or, if the
    /// client speaks another protocol, with a close).
    pub bad_requests: u64,
    /// Incomplete requests: the client closed before their end.
    pub cut_requests: u64,
    /// Replies whose last byte was passed to the kernel.
    pub replies: u64,
    /// Those replies by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Replies that were truncated deliberately.
    pub truncated: u64,
    /// Requests that were answered with a deliberate reset.
    pub resets: u64,
    /// Requests whose connection ended before the reply was sent.
    pub unanswered: u64,
    /// Requests received that have had none of these outcomes yet.
    pub outstanding: u64,
    /// `100 Continue` replies sent.
    pub continues: u64,
    /// Connections closed by the idle timeout.
    pub idle_closes: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes passed to the kernel.
    pub bytes_out: u64,
    /// Maximum number of requests in the server, waiting or in service.
    pub in_server_max: u64,
    /// Requests with a service time extended by a freeze (`--stall`), without those that only
    /// waited for a worker during it.
    pub frozen: u64,
    /// Those connections that used HTTP/2.
    pub h2_connections: u64,
    /// Those requests that came over HTTP/2.
    pub h2_requests: u64,
    /// Streams that clients of HTTP/2 opened, without those that are `ignored`.
    pub streams: u64,
    /// Requests whose stream ended before the reply was sent: the client has reset it, or broken
    /// its rules.
    pub cancelled: u64,
    /// Requests that were answered with a deliberate reset of their stream.
    pub stream_resets: u64,
    /// Streams that were refused, deliberately or over the limit. They are not among `requests`.
    pub refused: u64,
    /// Streams that were reset because their request was malformed. They are not among `requests`.
    pub malformed: u64,
    /// Streams that were opened after the last one that a GOAWAY allowed.
    pub ignored: u64,
    /// GOAWAY frames sent.
    pub goaways: u64,
    /// Connections that were closed because the client broke the rules of HTTP/2 or of WebSocket.
    pub violations: u64,
    /// How often the server stopped to read from a connection on which too many answers waited.
    pub pauses: u64,
    /// Connections that were closed because they used too much memory: their clients do not read,
    /// or all together send too much.
    pub overloads: u64,
    /// Those requests that are calls of gRPC. They are counted when they start.
    pub calls: u64,
    /// Complete messages of gRPC received.
    pub messages_received: u64,
    /// Messages of gRPC sent.
    pub messages_sent: u64,
    /// Server-sent events written, without those that were cut.
    pub events: u64,
    /// Connections that changed to WebSocket.
    pub sockets: u64,
    /// Complete messages of WebSocket received.
    pub socket_messages_received: u64,
    /// Messages of WebSocket sent.
    pub socket_messages_sent: u64,
    /// Deliveries of a broadcast that were left out deliberately.
    pub deliveries_lost: u64,
    /// Deliveries that were made twice deliberately.
    pub deliveries_duplicated: u64,
    /// Deliveries that were made after the next one of their publisher deliberately.
    pub deliveries_swapped: u64,
    /// The calls that have ended with a status, by its name.
    pub grpc_statuses: BTreeMap<String, u64>,
}

impl Served {
    /// Count `n` sent replies of one status.
    pub(super) fn count_replies(&mut self, status: u16, n: u64) {
        if n > 0 {
            self.replies += n;
            self.outstanding -= n;
            *self.statuses.entry(status).or_default() += n;
        }
    }

    /// Count a sent truncated reply.
    pub(super) fn count_truncated(&mut self) {
        self.truncated += 1;
        self.outstanding -= 1;
    }

    /// Count a sent reset of a stream.
    pub(super) fn count_stream_reset(&mut self) {
        self.stream_resets += 1;
        self.outstanding -= 1;
    }

    /// Count a call that was sent to its end.
    pub(super) fn count_call(&mut self, status: Status) {
        self.count_replies(200, 1);
        match self.grpc_statuses.get_mut(status.name()) {
            Some(n) => *n += 1,
            None => _ = self.grpc_statuses.insert(status.name().to_owned(), 1),
        }
    }
}

/// One line per counter that is not zero.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, n: u64| match n {
            0 => Ok(()),
            _ => writeln!(f, "{name:<24} {n}"),
        };
        line("connections", self.connections)?;
        line("  open now", self.open)?;
        line("  open at most", self.open_max)?;
        line("  of HTTP/2", self.h2_connections)?;
        line("requests", self.requests)?;
        line("  of HTTP/2", self.h2_requests)?;
        line("  in server at most", self.in_server_max)?;
        line("  held up by a freeze", self.frozen)?;
        line("  bad", self.bad_requests)?;
        line("  cut off by client", self.cut_requests)?;
        line("replies", self.replies)?;
        for (status, &n) in &self.statuses {
            line(&format!("  status {status}"), n)?;
        }
        line("  100 Continue", self.continues)?;
        line("truncated replies", self.truncated)?;
        line("resets", self.resets)?;
        line("streams", self.streams)?;
        line("  reset", self.stream_resets)?;
        line("  refused", self.refused)?;
        line("  malformed", self.malformed)?;
        line("  cancelled", self.cancelled)?;
        line("  ignored", self.ignored)?;
        line("GOAWAY frames", self.goaways)?;
        line("violations by clients", self.violations)?;
        line("pauses of reading", self.pauses)?;
        line("closed for memory", self.overloads)?;
        line("calls of gRPC", self.calls)?;
        for (status, &n) in &self.grpc_statuses {
            line(&format!("  {status}"), n)?;
        }
        line("  messages received", self.messages_received)?;
        line("  messages sent", self.messages_sent)?;
        if self.events > 0 {
            line("events", self.events)?;
        }
        if self.sockets > 0 {
            line("connections of WebSocket", self.sockets)?;
            line("  messages received", self.socket_messages_received)?;
            line("  messages sent", self.socket_messages_sent)?;
            line("  deliveries lost", self.deliveries_lost)?;
            line("  deliveries duplicated", self.deliveries_duplicated)?;
            line("  deliveries swapped", self.deliveries_swapped)?;
        }
        line("unanswered", self.unanswered)?;
        line("outstanding", self.outstanding)?;
        line("idle connections closed", self.idle_closes)?;
        line("bytes received", self.bytes_in)?;
        line("bytes sent", self.bytes_out)
    }
}
