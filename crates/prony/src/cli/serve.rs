//! The options of `prony serve`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use prony_core::serve::{Change, CloseAfter, Latency, ServeLaw, Share, Stalls, StatusMix};
use prony_core::units::Span;

use super::tls::{self, IdentityArgs};
use super::{Driver, values};

const BEHAVIOUR: &str = "Behaviour";
const FAULTS: &str = "Faults";
const RUNNING: &str = "Running";

/// What can be said about the target server.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Where to listen: ADDR:PORT, a PORT of 127.0.0.1 (0 = a free one), or unix:PATH
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub address: String,

    /// Service time: fixed:2ms, exp:1ms, uniform:1ms..9ms
    ///
    /// Also none, lognormal:MEDIAN,SIGMA and bimodal:FAST,SLOW,SHARE (of slow ones).
    #[arg(long, value_name = "LAW", help_heading = BEHAVIOUR, default_value = "none")]
    pub latency: Latency,
    /// All service times change at once: 3@10s (times 3 from 10 s on)
    ///
    /// Time counts from the first request, here and below.
    #[arg(long, value_name = "CHANGE", help_heading = BEHAVIOUR)]
    pub step: Option<Change>,
    /// All service times change evenly: 3@10s (up to times 3 after 10 s)
    #[arg(long, value_name = "CHANGE", help_heading = BEHAVIOUR)]
    pub drift: Option<Change>,
    /// Workers behind one queue [default: no request waits for another]
    #[arg(long, value_name = "N", help_heading = BEHAVIOUR, value_parser = values::workers)]
    pub workers: Option<NonZeroU32>,
    /// Freeze: 1s@10s (1 s every 10 s), 2s@+4s (once, after 4 s)
    ///
    /// Several are joined by commas.
    #[arg(long, value_name = "STALLS", help_heading = BEHAVIOUR, default_value = "none")]
    pub stall: Stalls,
    /// Length of a reply's body in bytes (64, 4k)
    #[arg(
        long, value_name = "N", help_heading = BEHAVIOUR, default_value = "128",
        value_parser = values::size,
    )]
    pub size: u64,
    /// Statuses with their weights: 200:99,503:1
    #[arg(long, value_name = "LIST", help_heading = BEHAVIOUR, default_value = "200")]
    pub status: StatusMix,
    /// Send bodies in chunks
    #[arg(long, help_heading = BEHAVIOUR)]
    pub chunked: bool,

    /// Close a connection with its N-th reply [default: never]
    ///
    /// The reply says so; with N,silent it does not.
    #[arg(long, value_name = "N", help_heading = FAULTS)]
    pub close_after: Option<CloseAfter>,
    /// Close a connection that was idle so long [default: never]
    #[arg(long, value_name = "T", help_heading = FAULTS, value_parser = values::positive_span)]
    pub idle_close: Option<Span>,
    /// Share of requests that get a reset instead of a reply (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = FAULTS, default_value = "0")]
    pub reset: Share,
    /// Share of replies that are cut off (0.1%)
    #[arg(long, value_name = "SHARE", help_heading = FAULTS, default_value = "0")]
    pub truncate: Share,

    /// Speak TLS
    #[arg(long, help_heading = tls::TLS)]
    pub tls: bool,
    /// Who it is over TLS.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Stop after that time [default: at Ctrl-C]
    #[arg(short, long, value_name = "T", help_heading = RUNNING, value_parser = values::positive_span)]
    pub duration: Option<Span>,
    /// Kernel interface
    #[arg(long, value_name = "NAME", help_heading = RUNNING, default_value = "auto")]
    pub driver: Driver,
    /// Seed of every random draw
    #[arg(
        long, value_name = "N", help_heading = RUNNING, default_value = "1",
        value_parser = values::seed,
    )]
    pub seed: u64,
    /// Print what was served as JSON
    #[arg(long, help_heading = RUNNING)]
    pub json: bool,
    /// Print nothing but what was served
    #[arg(long, help_heading = RUNNING)]
    pub quiet: bool,
    /// Write the time of each arrival to a file, in seconds since the first
    #[arg(long, value_name = "FILE", hide = true)]
    pub record_arrivals: Option<PathBuf>,
}

impl ServeArgs {
    /// How the server behaves.
    pub fn law(&self) -> ServeLaw {
        ServeLaw {
            latency: self.latency,
            step: self.step,
            drift: self.drift,
            stalls: self.stall.clone(),
            workers: self.workers,
            size: self.size,
            statuses: self.status.clone(),
            chunked: self.chunked,
            close_after: self.close_after,
            idle_close: self.idle_close,
            reset: self.reset,
            truncate: self.truncate,
            ..ServeLaw::default()
        }
    }
}
