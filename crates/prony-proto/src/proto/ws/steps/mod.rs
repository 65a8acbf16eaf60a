//! The steps of a plan on sockets, ready to be made.

mod inbox;
#[cfg(test)]
mod tests;

use super::frames::{Frames, State};
pub(super) use inbox::Inbox;
use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_base::websocket::CloseCode;
use prony_plan::plan::{CallSpec, SocketStep};
use prony_plan::script::Matcher;

/// A step on a socket.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) what: What,
    /// Its message, or the reason of its close.
    pub(super) data: Vec<u8>,
    /// What finds the message for which it waits.
    pub(super) matcher: Option<Matcher>,
    /// How long it waits; `None`: until its timeout.
    pub(super) within: Option<Span>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It opens the socket.
    Open,
    /// It sends a message.
    Send {
        /// Whether the message is binary.
        binary: bool,
    },
    /// It waits for a message.
    Wait,
    /// It closes the socket.
    Close(CloseCode),
}

/// What an exchange needs to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The end of the socket: the exchange is everything that is done on it.
    End,
    /// The answer to the handshake.
    Answer,
    /// That its message is sent.
    Send,
    /// That its message is sent, and then the awaited message.
    SendAndMessage,
    /// The awaited message, which may have arrived.
    Message,
    /// The awaited message, which has not arrived.
    NewMessage,
    /// The peer's close frame.
    Close,
    /// Nothing: it has failed.
    Failed(Fault),
    /// Nothing: the peer has closed.
    Closed(CloseCode),
}

impl Step {
    /// The step of a call, if it is one.
    ///
    /// # Panics
    /// When the call is not valid.
    pub(super) fn new(call: &CallSpec) -> Option<Self> {
        let socket = call.socket.as_deref()?;
        let what = match socket {
            SocketStep::Open { .. } => What::Open,
            SocketStep::Send { binary, .. } => What::Send { binary: *binary },
            SocketStep::Wait(_) => What::Wait,
            SocketStep::Close { code } => What::Close(CloseCode(*code)),
        };
        let wait = socket.wait();
        let matcher = wait.map(|wait| wait.message.compile().expect("the plan is valid"));
        let within = wait.and_then(|wait| wait.within);
        Some(Self { what, data: call.body.clone(), matcher, within })
    }

    /// What the step needs to end, if it is made now. `own`: the data in place of that of its call.
    pub(super) fn needs(&self, frames: &Frames, own: Option<&[u8]>) -> Needs {
        let is_text = || own.is_none_or(|own| std::str::from_utf8(own).is_ok());
        match (&self.what, frames.state) {
            (_, State::Ended) => Needs::Closed(frames.last_words),
            (What::Open, _) | (_, State::Handshake | State::Closing | State::Over) => {
                Needs::Failed(Fault::NoSocket)
            }
            (What::Wait, State::Open) => Needs::Message,
            (What::Send { binary: false }, State::Open) if !is_text() => {
                Needs::Failed(Fault::UnfitValue)
            }
            (What::Send { .. }, State::Open) if self.matcher.is_none() => Needs::Send,
            (What::Send { .. }, State::Open) => Needs::SendAndMessage,
            (What::Close(_), State::Open) => {
                let length = own.map_or(self.data.len(), <[u8]>::len);
                match length > SocketStep::REASON_MAX || !is_text() {
                    true => Needs::Failed(Fault::UnfitValue),
                    false => Needs::Close,
                }
            }
        }
    }
}
