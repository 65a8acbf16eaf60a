//! A socket on its stream.

use super::LINGER;
use crate::fault::Fault;
use crate::proto::Sink;
use crate::proto::ws::over_h2::Finish;
use crate::proto::ws::steps::socket::{Current, Needs, Socket, State};
use crate::units::{Nanos, RequestId};
use crate::websocket::CloseCode;

#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: u32,
    /// Which socket of its session it is; `None`: the session has no more use for it.
    pub(super) name: Option<u32>,
    pub(super) socket: Socket,
    /// The status of the last head of its reply.
    pub(super) status: u16,
    /// Received bytes that are the start of a frame.
    pub(super) stash: Vec<u8>,
    /// Bytes to send that no window has allowed, and the step whose message starts there.
    pub(super) rest: Vec<u8>,
    pub(super) begin: Option<(usize, RequestId)>,
    /// How this side ends, after what it has to send.
    pub(super) finish: Finish,
    /// Whether this side has ended.
    pub(super) is_finished: bool,
    /// If the peer has ended its side: what was left of the window of the stream.
    pub(super) ended: Option<i64>,
    /// When it is reset, as the peer does not end it.
    pub(super) lingers_until: Option<Nanos>,
    /// Since when it waits for a window.
    pub(super) waits: Option<Nanos>,
}

impl Line {
    pub(super) fn new(stream: u32, name: u32, number: u64, opens: Current) -> Self {
        let mut socket = Socket::new(number, State::Handshake);
        (socket.is_stream, socket.current) = (true, Some(opens));
        Self {
            stream,
            name: Some(name),
            socket,
            status: 0,
            stash: Vec::new(),
            rest: Vec::new(),
            begin: None,
            finish: Finish::Open,
            is_finished: false,
            ended: None,
            lingers_until: None,
            waits: None,
        }
    }

    /// Whether the handshake is not answered.
    pub(super) fn is_handshake(&self) -> bool {
        self.socket.state == State::Handshake
    }

    /// Whether the last head of the reply opens the socket.
    pub(super) fn is_accepted(&self) -> bool {
        (200..=299).contains(&self.status)
    }

    /// Whether it has something to send, if windows allow it.
    pub(super) fn has_output(&self) -> bool {
        let has_pong = self.socket.owes_pong && self.socket.state == State::Open;
        !self.rest.is_empty() || has_pong || (self.finish != Finish::Open && !self.is_finished)
    }

    /// Whether the message of its step is completely sent.
    pub(super) fn has_sent(&self) -> bool {
        self.rest.is_empty() || !matches!(self.needs(), Some(Needs::Send | Needs::SendAndMessage))
    }

    fn needs(&self) -> Option<Needs> {
        self.socket.current.as_ref().map(|current| current.needs)
    }

    /// Whether nothing follows on its stream.
    pub(super) fn is_over(&self) -> bool {
        self.is_finished && self.ended.is_some() && self.socket.current.is_none()
    }

    /// The stream has been reset.
    pub(super) fn was_reset(&mut self) {
        self.is_finished = true;
        self.ended.get_or_insert(0);
        self.rest.clear();
        (self.name, self.begin) = (None, None);
        self.socket.state = State::Over;
    }

    /// The step that is made, if one is, and the socket have failed. A close frame says why, if
    /// that is possible, and a reset follows.
    pub(super) fn fail(&mut self, fault: Fault, seed: u64, sink: &mut impl Sink) {
        if let Some(current) = self.socket.current.take() {
            sink.failed(current.id, fault);
        }
        self.abandon(seed);
    }

    /// The same without a step.
    pub(super) fn abandon(&mut self, seed: u64) {
        if self.socket.state == State::Open && self.rest.is_empty() {
            self.socket.write_close(seed, &mut self.rest);
        } else {
            self.rest.clear();
        }
        self.socket.state = State::Over;
        self.finish = Finish::Reset;
        (self.name, self.begin) = (None, None);
    }

    /// Do what follows from the end of the socket, if it has ended. Returns its name and the code
    /// with which the peer has closed it, if no step has this code as its outcome.
    pub(super) fn settle(&mut self, now: Nanos, seed: u64) -> Option<(u32, CloseCode)> {
        let mut unseen = None;
        match self.socket.state {
            State::Ended(_) => {
                unseen = self.name.zip(self.socket.closed_between.take());
                self.socket.write_close(seed, &mut self.rest);
                // A step whose message was not sent ends with the code.
                (self.finish, self.name, self.begin) = (Finish::End, None, None);
            }
            State::Over if self.finish == Finish::Open => {
                self.name = None;
                match self.ended {
                    // After a refusal, the peer expects no more of the stream.
                    Some(_) if self.is_accepted() => self.finish = Finish::End,
                    Some(_) => self.finish = Finish::Reset,
                    // This side has closed first, so the peer's side ends first.
                    None => _ = self.lingers_until.get_or_insert(now + LINGER),
                }
            }
            _ => {}
        }
        unseen
    }
}
