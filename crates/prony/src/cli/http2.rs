//! Options of HTTP/2.

use clap::Args;
use prony_plan::plan::{Http2Spec, HttpVersion, Placement};
use prony_run::error::Error;
use prony_run::keys::Keyed as _;

use super::keyed::{Given, Headed};
use super::typed::TypedOptions;
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
    /// The others.
    #[command(flatten)]
    pub(crate) keys: Given<Http2Spec>,
}

impl Headed for Http2Spec {
    const HEADING: &'static str = HTTP2;
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
    pub(crate) fn spec(&self) -> Option<Box<Http2Spec>> {
        self.keys.part.boxed()
    }

    /// Refuses what does not fit the version.
    pub(crate) fn check(
        &self,
        typed: &TypedOptions,
        version: HttpVersion,
        pipeline: u32,
    ) -> Result<(), Error> {
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
        let first = typed.first(&["--streams", "--fill", "--spread"]);
        match first.or_else(|| self.keys.options.first().copied()) {
            Some(option) => Err(Error::Needs(option, "--http 2", "it is an option of HTTP/2")),
            None => Ok(()),
        }
    }
}
