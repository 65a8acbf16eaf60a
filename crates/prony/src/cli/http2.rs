//! Options of HTTP/2.

use std::ops::RangeInclusive;

use clap::Args;
use prony_core::http2;
use prony_core::plan::{Http2Spec, HttpVersion, Placement};
use prony_core::units::Span;
use prony_run::error::Error;

use super::{HTTP2, values};

/// Options of HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Http2Args {
    /// HTTP/2 if the server offers it: --http 2
    #[arg(long, help_heading = HTTP2, conflicts_with_all = ["h2c", "http"])]
    pub http2: bool,
    /// HTTP/2 without negotiation, for http:// URLs: --http 2-only
    #[arg(long, help_heading = HTTP2, alias = "http2-prior-knowledge", conflicts_with = "http")]
    pub h2c: bool,
    /// Concurrent streams per connection [default: 1; 100 in an open loop]
    ///
    /// The server may allow fewer. Requests that wait for a stream wait in the client; the report
    /// shows how long (stream wait). A closed loop of C connections has C x N users.
    #[arg(long, value_name = "N", help_heading = HTTP2, value_parser = values::pipeline)]
    pub streams: Option<u32>,
    /// Use as few connections as possible: a new one only when the others have no free stream
    ///
    /// By default an open loop uses an idle connection, or opens a new one, before it puts a second
    /// request on a connection.
    #[arg(long, help_heading = HTTP2, conflicts_with = "spread")]
    pub fill: bool,
    /// Spread requests over connections: an idle or a new one before one with open streams (the
    /// default)
    #[arg(long, help_heading = HTTP2)]
    pub spread: bool,
    /// Flow-control window of each stream and of the connection, in bytes [default: 1g]
    #[arg(long, value_name = "SIZE", help_heading = HTTP2, value_parser = values::size)]
    pub window: Option<u64>,
    /// Size of the table for the header fields of replies, in bytes; 0: none [default: 4k]
    #[arg(long, value_name = "SIZE", help_heading = HTTP2, value_parser = values::size)]
    pub header_table_size: Option<u64>,
    /// Largest frame that the server may send, in bytes [default: 16k]
    #[arg(long, value_name = "SIZE", help_heading = HTTP2, value_parser = values::size)]
    pub max_frame_size: Option<u64>,
    /// Send requests only when the server's settings have arrived
    ///
    /// By default the first requests go out with the client's own settings, before the server's
    /// limit of streams is known.
    #[arg(long, help_heading = HTTP2)]
    pub wait_settings: bool,
    /// Header compression: warm, or static (no use of the server's table) [default: warm]
    #[arg(long, value_name = "HOW", help_heading = HTTP2, value_parser = hpack)]
    pub hpack: Option<Hpack>,
    /// Send requests again whose streams the server refuses, up to 16 times
    ///
    /// They keep their intended start. By default they fail, as other clients show it to users.
    #[arg(long, help_heading = HTTP2)]
    pub retry_refused: bool,
    /// Check each connection with a ping at this interval [default: never]
    ///
    /// A connection whose server does not answer until the next ping is closed.
    #[arg(long, value_name = "T", help_heading = HTTP2, value_parser = values::positive_span)]
    pub keepalive: Option<Span>,
}

/// How header fields of requests are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hpack {
    /// Fields that all requests share are entered into the server's table once per connection.
    Warm,
    /// Nothing is entered.
    Static,
}

impl Http2Args {
    /// The HTTP version of the options.
    pub(crate) fn version(&self, http: HttpVersion) -> HttpVersion {
        match (self.http2, self.h2c) {
            (true, _) => HttpVersion::Http2,
            (_, true) => HttpVersion::Http2Only,
            _ => http,
        }
    }

    /// The requests in flight per connection; `None`: the default of HTTP/2.
    pub(crate) fn in_flight(&self, version: HttpVersion, pipeline: u32) -> Option<u32> {
        if version.is_http2() { self.streams } else { Some(pipeline) }
    }

    /// The connection that a request takes.
    pub(crate) fn placement(&self) -> Option<Placement> {
        match (self.fill, self.spread) {
            (true, _) => Some(Placement::Fill),
            (_, true) => Some(Placement::Spread),
            _ => None,
        }
    }

    /// The options for the plan; `None` if all have their defaults.
    ///
    /// # Errors
    /// A size that HTTP/2 does not allow.
    pub(crate) fn spec(&self) -> Result<Option<Box<Http2Spec>>, Error> {
        let default = Http2Spec::default();
        let size = |what, given: Option<u64>, usual, range: RangeInclusive<u32>, why: &str| {
            let Some(n) = given else { return Ok(usual) };
            u32::try_from(n).ok().filter(|n| range.contains(n)).ok_or_else(|| Error::Value {
                what,
                value: n.to_string(),
                why: why.into(),
            })
        };
        let spec = Http2Spec {
            window: size(
                "--window",
                self.window,
                default.window,
                1..=http2::WINDOW_MAX,
                "a window has 1 to 2147483647 bytes",
            )?,
            table_size: size(
                "--header-table-size",
                self.header_table_size,
                default.table_size,
                0..=1 << 20,
                "the table may have at most 1m",
            )?,
            frame_size: size(
                "--max-frame-size",
                self.max_frame_size,
                default.frame_size,
                http2::FRAME_SIZE..=http2::FRAME_SIZE_MAX,
                "the largest frame has 16384 to 16777215 bytes",
            )?,
            wait_settings: self.wait_settings,
            is_static: self.hpack == Some(Hpack::Static),
            retry_refused: self.retry_refused,
            keepalive: self.keepalive,
        };
        Ok((spec != default).then(|| Box::new(spec)))
    }

    /// Refuses what does not fit the version.
    pub(crate) fn check(&self, version: HttpVersion, pipeline: u32) -> Result<(), Error> {
        if version.is_http2() {
            return match pipeline {
                1 => Ok(()),
                _ => Err(Error::Conflict(
                    "--pipeline",
                    "--http 2",
                    "HTTP/2 has streams instead; use --streams",
                )),
            };
        }
        let given = [
            (self.streams.is_some(), "--streams"),
            (self.fill, "--fill"),
            (self.spread, "--spread"),
            (self.window.is_some(), "--window"),
            (self.header_table_size.is_some(), "--header-table-size"),
            (self.max_frame_size.is_some(), "--max-frame-size"),
            (self.wait_settings, "--wait-settings"),
            (self.hpack.is_some(), "--hpack"),
            (self.retry_refused, "--retry-refused"),
            (self.keepalive.is_some(), "--keepalive"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(Error::Needs(option, "--http 2", "it is an option of HTTP/2")),
            None => Ok(()),
        }
    }
}

fn hpack(text: &str) -> Result<Hpack, String> {
    match text {
        "warm" => Ok(Hpack::Warm),
        "static" => Ok(Hpack::Static),
        _ => Err(format!("'{text}' is not a kind of header compression; write warm or static")),
    }
}
