//! Waits for the peer's permission to send more of a request.

use super::{Exchange, Exchanges};
use prony_base::units::{RequestId, Span};

impl Exchange {
    /// How long it has waited for the peer's permission to send more of it.
    #[inline]
    pub(in crate::engine) fn window(&self) -> Span {
        self.window
    }

    pub(in crate::engine) fn waited_for_window(&mut self, wait: Span) {
        self.window += wait;
    }
}

impl Exchanges {
    /// Whether more is to be counted of a reply on a stream: some request of the run has waited for
    /// its peer's permission, or has messages.
    #[inline]
    pub(in crate::engine) fn have_more(&self) -> bool {
        self.windows || self.messages.is_some()
    }

    /// A part of the request has waited this long for the peer's permission.
    pub(in crate::engine) fn waited_for_window(&mut self, id: RequestId, wait: Span) {
        if let Some(exchange) = self.get_mut(id) {
            exchange.waited_for_window(wait);
            self.windows = true;
        }
    }
}
