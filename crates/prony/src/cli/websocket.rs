//! Options of WebSocket.

use clap::Args;
use prony_core::plan::{Load, Plan, Stop};
use prony_core::target::{Url, UrlKind};
use prony_core::units::Span;
use prony_run::error::Error;
use prony_run::grpc::MessagesDraft;
use prony_run::websocket::{BroadcastDraft, WebSocketDraft, prepare};

use super::typed::TypedOptions;
use super::{WEBSOCKET, values};

/// Options of WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct WebSocketArgs {
    /// Send binary messages instead of text to ws:// and wss:// URLs
    ///
    /// --body is the message. It is sent when the connection is open, or on the schedule of
    /// --messages (docs/streams.md).
    #[arg(long, help_heading = WEBSOCKET)]
    pub binary: bool,
    /// Offer this subprotocol of WebSocket, may be repeated
    #[arg(long, value_name = "NAME", help_heading = WEBSOCKET)]
    pub subprotocol: Vec<String>,
    /// Whether --messages is the rate of each connection, or of all together: each, all
    ///
    /// With all, the connections of -c (with --publishers: the publishers) send in turn.
    #[arg(
        long, value_name = "WHICH", help_heading = WEBSOCKET, requires = "schedule",
        default_value = "each", value_parser = ["each", "all"],
    )]
    pub messages_over: String,
    /// Compress messages of WebSocket (permessage-deflate)
    ///
    /// Each message by itself. A connection fails (bad-upgrade) if the server does not agree.
    #[arg(long, help_heading = WEBSOCKET)]
    pub ws_compress: bool,
    /// Accept text messages of WebSocket that are not UTF-8
    ///
    /// By default such a text fails its connection (bad-text), which is closed with 1007.
    #[arg(long, help_heading = WEBSOCKET)]
    pub no_utf8_check: bool,
    /// Send a ping on each connection of WebSocket each T, and measure the time to its pong
    ///
    /// The first one is due T after the connection has opened.
    #[arg(long, value_name = "T", help_heading = WEBSOCKET, value_parser = values::positive_span)]
    pub ping_every: Option<Span>,
    /// Let the first N connections send the messages, and all others receive them
    ///
    /// Measures a server that passes each message to all other connections: delivery times, spread
    /// and reach (docs/streams.md). -n is -c by default: each connection is opened once.
    #[arg(
        long, value_name = "N", help_heading = WEBSOCKET, requires = "schedule",
        value_parser = values::connections,
    )]
    pub publishers: Option<u32>,
    /// When publishers start: when subscribers are there [default: 1s]
    #[arg(
        long, value_name = "T", help_heading = WEBSOCKET, requires = "publishers",
        value_parser = values::span,
    )]
    pub publish_after: Option<Span>,
    /// How long subscribers stay after the last message is due [default: 2s]
    ///
    /// In the second half of this time they await no new messages, only deliveries.
    #[arg(
        long, value_name = "T", help_heading = WEBSOCKET, requires = "publishers",
        value_parser = values::positive_span,
    )]
    pub subscribers_wait: Option<Span>,
}

impl WebSocketArgs {
    /// Whether the load has connections of WebSocket.
    pub(crate) fn is_asked(urls: &[String]) -> bool {
        let is_of_websocket = |url: &String| {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            ["ws", "wss"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        };
        urls.iter().any(is_of_websocket)
    }

    /// Checks the kinds of the URLs.
    ///
    /// # Errors
    /// URLs of different kinds.
    pub(crate) fn check_urls(urls: &[&mut Url], is_asked: bool) -> Result<(), Error> {
        let count = urls.iter().filter(|url| url.kind == UrlKind::WebSocket).count();
        if count > 0 && !is_asked {
            let why = "give URLs of WebSocket as arguments";
            return Err(Error::Conflict("--urls", "ws://", why));
        }
        if count > 0 && count < urls.len() {
            let why = "URLs are all of WebSocket, or none; use ws:// for all";
            return Err(Error::Conflict("ws://", "http://", why));
        }
        Ok(())
    }

    /// Refuses options of WebSocket without a URL of it, and options that it does not have.
    pub(crate) fn check(typed: &TypedOptions, is_asked: bool) -> Result<(), Error> {
        let own = [
            "--binary",
            "--subprotocol",
            "--messages-over",
            "--ws-compress",
            "--no-utf8-check",
            "--ping-every",
            "--publishers",
        ];
        match typed.first(&own).filter(|_| !is_asked) {
            Some(option) => {
                Err(Error::Needs(option, "a ws:// URL", "it is an option of WebSocket"))
            }
            None if is_asked && typed.first(&["--method"]).is_some() => {
                let why = "the handshake of WebSocket is a GET; --body is its first message";
                Err(Error::Conflict("--method", "ws://", why))
            }
            None => Ok(()),
        }
    }

    /// Turns the requests of a plan into connections of WebSocket. `has_end`: the user has given a
    /// number of requests, or a duration.
    ///
    /// # Errors
    /// What WebSocket cannot do.
    pub(crate) fn prepare(
        &self,
        plan: &mut Plan,
        messages: MessagesDraft,
        has_end: bool,
    ) -> Result<(), Error> {
        if let (Some(_), Load::Closed { connections, .. }, false) =
            (self.publishers, &plan.load, has_end)
        {
            let all = u64::from(*connections) * u64::from(plan.pipeline);
            plan.stop = Stop { requests: Some(all), ..Stop::default() };
        }
        let (binary, subprotocols) = (self.binary, self.subprotocol.clone());
        let broadcast = BroadcastDraft {
            publishers: self.publishers,
            after: self.publish_after,
            wait: self.subscribers_wait,
        };
        let (compress, no_utf8_check) = (self.ws_compress, self.no_utf8_check);
        let draft = WebSocketDraft {
            binary,
            subprotocols,
            messages,
            over_all: self.messages_over == "all",
            compress,
            no_utf8_check,
            ping_every: self.ping_every,
            broadcast,
        };
        prepare(plan, draft).map_err(Error::Argument)
    }
}
