//! The options of `prony serve`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use prony_base::units::Span;
use prony_server::serve::{
    Change, CloseAfter, EventBehavior, Latency, ServerBehavior, Share, SocketBehavior, Stalls,
    StatusMix,
};

use super::tls::{self, IdentityArgs};
use super::{Driver, values};

const BEHAVIOR: &str = "Behavior";
const FAULTS: &str = "Faults";
const HTTP2: &str = "HTTP/2";
const GRPC: &str = "gRPC";
const RUNNING: &str = "Running";

/// The options of the target server.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on: ADDR:PORT, PORT (on 127.0.0.1; 0 = any free port), or unix:PATH
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub address: String,

    /// Service time: fixed:2ms, exp:1ms, uniform:1ms:9ms
    ///
    /// Also none, lognormal:MEDIAN:SIGMA and bimodal:FAST:SLOW:SHARE (SHARE of slow replies).
    #[arg(long, value_name = "DIST", help_heading = BEHAVIOR, default_value = "none")]
    pub latency: Latency,
    /// Multiply all service times from a given time on: 3@10s (by 3 after 10 s)
    ///
    /// The time counts from the first request, also for --drift and --stall.
    #[arg(long, value_name = "CHANGE", help_heading = BEHAVIOR)]
    pub step: Option<Change>,
    /// Increase all service times linearly: 3@10s (to 3 times after 10 s)
    #[arg(long, value_name = "CHANGE", help_heading = BEHAVIOR)]
    pub drift: Option<Change>,
    /// Number of workers that share one queue [default: unlimited]
    #[arg(long, value_name = "N", help_heading = BEHAVIOR, value_parser = values::workers)]
    pub workers: Option<NonZeroU32>,
    /// Answer with server-sent events: ttft=exp:200ms,gap=20ms,count=100..300
    ///
    /// ttft is the time to the first event, in which a stream has a worker; gap the time between
    /// events; both are distributions as of --latency. empty=N: the first N events have no content.
    /// pings: a comment before each event. cut=10..20: a stream ends after as many events, and goes
    /// on when it is opened again (Last-Event-ID). Requests to the paths of language models are
    /// answered like those (docs/target-server.md), with tokens=N in each event.
    #[arg(long, value_name = "STREAM", help_heading = BEHAVIOR)]
    pub sse: Option<EventBehavior>,
    /// Answer WebSocket: echo, broadcast, push:50 (messages per second) or push:exp:20ms
    ///
    /// echo returns each message, after the service time of --latency; broadcast sends it to all
    /// other connections (broadcast:lose=1%,duplicate=1%,swap=1% makes mistakes). push sends
    /// messages of --size bytes, with these times between them. Without --ws, handshakes are usual
    /// requests.
    #[arg(long, value_name = "WHAT", help_heading = BEHAVIOR)]
    pub ws: Option<SocketBehavior>,
    /// Compress messages of WebSocket (permessage-deflate), for clients that offer it
    #[arg(long, help_heading = BEHAVIOR, requires = "ws")]
    pub ws_compress: bool,
    /// Freeze the server: 1s@10s (for 1 s every 10 s), 2s@+4s (once, after 4 s)
    ///
    /// Separate several with commas.
    #[arg(long, value_name = "STALLS", help_heading = BEHAVIOR, default_value = "none")]
    pub stall: Stalls,
    /// Length of reply bodies in bytes (64, 4k)
    #[arg(
        long, value_name = "N", help_heading = BEHAVIOR, default_value = "128",
        value_parser = values::size,
    )]
    pub size: u64,
    /// Status codes with weights: 200:99,503:1
    #[arg(long, value_name = "LIST", help_heading = BEHAVIOR, default_value = "200")]
    pub status: StatusMix,
    /// Send bodies in chunks
    #[arg(long, help_heading = BEHAVIOR)]
    pub chunked: bool,

    /// Close each connection after N replies [default: never]
    ///
    /// The last reply has the header Connection: close; with N,silent it does not.
    #[arg(long, value_name = "N", help_heading = FAULTS)]
    pub close_after: Option<CloseAfter>,
    /// Close connections that are idle for this time [default: never]
    #[arg(long, value_name = "T", help_heading = FAULTS, value_parser = values::positive_span)]
    pub idle_close: Option<Span>,
    /// Share of requests to answer with a connection reset (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = FAULTS, default_value = "0")]
    pub reset: Share,
    /// Share of replies to truncate (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = FAULTS, default_value = "0")]
    pub truncate: Share,

    /// HTTP/2: streams that a client may open at once
    ///
    /// Clients choose HTTP/2 by its preface, with TLS by ALPN; all other options hold for its
    /// streams too.
    #[arg(
        long, value_name = "N", help_heading = HTTP2, default_value = "250",
        value_parser = values::streams,
    )]
    pub max_streams: u32,
    /// HTTP/2: flow-control window of a request's body in bytes (64k, 1M)
    #[arg(
        long, value_name = "N", help_heading = HTTP2, default_value = "1M",
        value_parser = values::window,
    )]
    pub window: u32,
    /// HTTP/2: announce the end of a connection after N streams [default: never]
    ///
    /// With two GOAWAY frames: the second names the last stream, after the client has answered a
    /// PING. (--close-after sends only the second.)
    #[arg(long, value_name = "N", help_heading = HTTP2, value_parser = values::after_streams)]
    pub goaway_after: Option<NonZeroU32>,
    /// HTTP/2: share of streams to refuse with REFUSED_STREAM (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = HTTP2, default_value = "0")]
    pub refuse: Share,
    /// HTTP/2: share of requests to answer with RST_STREAM (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = HTTP2, default_value = "0")]
    pub rst: Share,
    /// HTTP/2: time before the server sends its first SETTINGS [default: none]
    #[arg(long, value_name = "T", help_heading = HTTP2, value_parser = values::positive_span)]
    pub settings_delay: Option<Span>,

    /// Answer gRPC: grpc.testing.TestService, health and reflection
    ///
    /// Over HTTP/2. Other requests are served as without it. All other options hold for calls of
    /// the TestService too.
    #[arg(long, help_heading = GRPC)]
    pub grpc: bool,

    /// Serve over TLS
    #[arg(long, help_heading = tls::TLS)]
    pub tls: bool,
    /// The server's certificate.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Stop after this time [default: run until Ctrl-C]
    #[arg(short, long, value_name = "T", help_heading = RUNNING, value_parser = values::positive_span)]
    pub duration: Option<Span>,
    /// Kernel interface
    #[arg(long, value_name = "NAME", help_heading = RUNNING, default_value = "auto")]
    pub driver: Driver,
    /// Seed of the random numbers
    #[arg(
        long, value_name = "N", help_heading = RUNNING, default_value = "1",
        value_parser = values::seed,
    )]
    pub seed: u64,
    /// Print the summary as JSON
    #[arg(long, help_heading = RUNNING)]
    pub json: bool,
    /// Print only the summary
    #[arg(long, help_heading = RUNNING)]
    pub quiet: bool,
    /// Write the arrival times of the requests to a file, in seconds since the first
    #[arg(long, value_name = "FILE", hide = true)]
    pub record_arrivals: Option<PathBuf>,
}

impl ServeArgs {
    /// The behavior of the server.
    pub fn behavior(&self) -> ServerBehavior {
        ServerBehavior {
            latency: self.latency,
            step: self.step,
            drift: self.drift,
            stalls: self.stall.clone(),
            workers: self.workers,
            sse: self.sse,
            ws: self.ws,
            ws_compress: self.ws_compress,
            size: self.size,
            statuses: self.status.clone(),
            chunked: self.chunked,
            close_after: self.close_after,
            idle_close: self.idle_close,
            reset: self.reset,
            truncate: self.truncate,
            max_streams: self.max_streams,
            window: self.window,
            goaway_after: self.goaway_after,
            refuse: self.refuse,
            rst: self.rst,
            settings_delay: self.settings_delay,
            grpc: self.grpc,
            ..ServerBehavior::default()
        }
    }
}
