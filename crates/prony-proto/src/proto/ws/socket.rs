//! A socket, from its handshake to its close, and the exchange that is made on it.

use super::frames::{Frames, State};
use super::steps::{Inbox, Needs};
use super::talk::Whole;
use crate::proto::{Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_base::websocket::CloseCode;

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) frames: Frames,
    /// The call that opens it.
    pub(super) call: u32,
    /// Which socket of its session it is; `None`: no later exchange uses it.
    pub(super) name: Option<u32>,
    pub(super) current: Option<Current>,
    pub(super) work: Work,
}

/// An exchange that has not ended.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) id: RequestId,
    pub(super) call: u32,
    pub(super) needs: Needs,
    /// The text that the awaited message equals, if it was filled in.
    pub(super) equals: Option<Box<[u8]>>,
    /// When the wait ends without the message.
    pub(super) until: Option<Nanos>,
}

/// What exchanges are.
#[derive(Debug)]
pub(super) enum Work {
    /// One, which is everything that is done on the socket.
    Whole(Whole),
    /// Steps.
    Steps(Box<Received>),
}

/// The messages for steps.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The message that is incomplete.
    pub(super) message: Vec<u8>,
    pub(super) inbox: Inbox,
}

impl Current {
    pub(super) fn new(id: RequestId, call: u32, needs: Needs) -> Self {
        Self { id, call, needs, equals: None, until: None }
    }
}

impl Socket {
    /// The exchange that has not ended.
    pub(super) fn exchange(&self) -> Option<RequestId> {
        self.current.as_ref().map(|current| current.id)
    }

    /// What that needs to end.
    pub(super) fn needs(&self) -> Option<Needs> {
        self.current.as_ref().map(|current| current.needs)
    }

    /// Whether the handshake is not answered.
    pub(super) fn is_handshake(&self) -> bool {
        self.frames.state == State::Handshake
    }

    /// Whether the exchange that opens it has not ended.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.needs(), Some(Needs::End | Needs::Answer))
    }

    /// No exchange uses it any more. Returns the last one, if it has not ended.
    pub(super) fn give_up(&mut self) -> Option<Current> {
        self.name = None;
        self.current.take()
    }

    /// The handshake is refused.
    pub(super) fn refused(&mut self) {
        self.give_up();
        self.frames.state = State::Over;
    }

    /// It fails, and the exchange that uses it.
    pub(super) fn fail(&mut self, fault: Fault, sink: &mut impl Sink) {
        if let Some(last) = self.give_up() {
            sink.failed(last.id, fault);
        }
    }

    /// The end of its exchange is no longer awaited. Returns whether it can be used after that.
    pub(super) fn cancel(&mut self) -> bool {
        let ends = matches!(self.needs(), Some(Needs::End | Needs::Answer | Needs::Close));
        self.current = None;
        if ends {
            self.name = None;
        }
        !ends
    }

    /// Enough has arrived for this exchange, after a handshake whose reply had this head. If it is
    /// everything that is done on an open socket, it ends. Returns whether it has.
    pub(super) fn stop(&mut self, id: RequestId, head: &Reply, sink: &mut impl Sink) -> bool {
        let Work::Whole(whole) = &self.work else { return false };
        if self.frames.state != State::Open || self.exchange() != Some(id) {
            return false;
        }
        (self.frames.state, self.frames.last_words) = (State::Ended, CloseCode::NORMAL);
        sink.done(id, &whole.reply(&self.frames, CloseCode::NORMAL, head));
        self.give_up();
        true
    }

    /// The next `n` messages are due. `ends`: no further one follows.
    pub(super) fn due(&mut self, n: u64, ends: bool) {
        if let Work::Whole(whole) = &mut self.work {
            whole.due(n, ends);
        }
    }

    /// Messages are due since these times.
    pub(super) fn due_since(&mut self, times: &[Nanos]) {
        if let Work::Whole(whole) = &mut self.work
            && let Some(part) = whole.part.as_deref_mut()
        {
            part.due(times);
        }
    }

    /// When its next ping is due, or the wait of its step ends.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        match &self.work {
            Work::Whole(whole) => {
                let pings = whole.pings.as_deref().filter(|_| self.frames.state == State::Open);
                pings.map(|pings| pings.next())
            }
            Work::Steps(_) => self.current.as_ref()?.until,
        }
    }

    /// It is this time now.
    pub(super) fn on_deadline(&mut self, now: Nanos) {
        if let Work::Whole(whole) = &mut self.work
            && let Some(pings) = &mut whole.pings
        {
            pings.advance(now);
        }
        if let Some(current) = &mut self.current
            && current.until.take_if(|until| *until <= now).is_some()
        {
            current.needs = Needs::Failed(Fault::WaitTimeout);
        }
    }
}
