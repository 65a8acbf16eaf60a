//! Options of WebSocket.

use clap::Args;
use prony_core::plan::Plan;
use prony_core::target::{Url, UrlKind};
use prony_run::error::Error;
use prony_run::grpc::MessagesDraft;
use prony_run::websocket::{WebSocketDraft, prepare};

use super::WEBSOCKET;

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
    pub(crate) fn check(&self, is_asked: bool, has_method: bool) -> Result<(), Error> {
        let given = [(self.binary, "--binary"), (!self.subprotocol.is_empty(), "--subprotocol")];
        match given.into_iter().find(|(is_given, _)| *is_given && !is_asked) {
            Some((_, option)) => {
                Err(Error::Needs(option, "a ws:// URL", "it is an option of WebSocket"))
            }
            None if is_asked && has_method => {
                let why = "the handshake of WebSocket is a GET; --body is its first message";
                Err(Error::Conflict("--method", "ws://", why))
            }
            None => Ok(()),
        }
    }

    /// Turns the requests of a plan into connections of WebSocket.
    ///
    /// # Errors
    /// What WebSocket cannot do.
    pub(crate) fn prepare(&self, plan: &mut Plan, messages: MessagesDraft) -> Result<(), Error> {
        let (binary, subprotocols) = (self.binary, self.subprotocol.clone());
        prepare(plan, WebSocketDraft { binary, subprotocols, messages }).map_err(Error::Argument)
    }
}
