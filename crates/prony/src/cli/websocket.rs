//! Options of WebSocket.

use prony_plan::plan::{Load, Plan, Stop};
use prony_plan::target::{Url, UrlKind};
use prony_run::error::Error;
use prony_run::grpc::MessagesDraft;
use prony_run::websocket::{WebSocketDraft, prepare};

use super::WEBSOCKET;
use super::keyed::{Given, Headed};

/// Options of WebSocket.
pub(crate) type WebSocketArgs = Given<WebSocketDraft>;

impl Headed for WebSocketDraft {
    const HEADING: &'static str = WEBSOCKET;
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
        match self.options.first().filter(|_| !is_asked) {
            Some(option) => {
                Err(Error::Needs(option, "a ws:// URL", "it is an option of WebSocket"))
            }
            None if is_asked && has_method => {
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
            (self.part.broadcast.publishers, &plan.load, has_end)
        {
            let all = u64::from(*connections) * u64::from(plan.pipeline);
            plan.stop = Stop { requests: Some(all), ..Stop::default() };
        }
        let draft = WebSocketDraft { messages, ..self.part.clone() };
        prepare(plan, draft).map_err(Error::Argument)
    }
}
