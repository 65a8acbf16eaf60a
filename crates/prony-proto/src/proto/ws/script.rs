//! What is done on sockets, whatever carries their bytes: an exchange is everything on a socket
//! from its handshake to its close, or a step on a socket that stays open.

use super::frames::{Frames, State};
use super::socket::{Current, Received, Socket, Work};
use super::steps::{Inbox, Needs, Step, What};
use super::talk::Talk;
use crate::proto::{Call, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_base::websocket::{CloseCode, Event, OFFER, Opcode, ReplyFields};
use prony_plan::messages::Numbering;
use prony_plan::plan::{CallSpec, Plan, SocketStep};
use prony_plan::script::{BODY_LIMIT, Filled};

/// What all sockets of one worker have in common.
#[derive(Debug)]
pub(super) struct Script {
    seed: u64,
    numbers: Numbering,
    /// The subprotocols that the handshake of each call offers.
    protocols: Vec<Vec<String>>,
    /// What whole exchanges have in common; `None`: exchanges are steps.
    talk: Option<Talk>,
    /// The step of each call, if it is one, and the number of the name of its socket.
    steps: Vec<(Option<Step>, u32)>,
    /// Whether connections carry more than a socket, so that a close is not that of the connection.
    keeps_open: bool,
}

impl Script {
    /// `keeps_open`: connections carry more than a socket.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub(super) fn new(plan: &Plan, keeps_open: bool) -> Self {
        let calls = if has_sockets(plan) { &plan.calls[..] } else { &[] };
        let offer = |call| offer(plan, call).map(|(protocols, _)| protocols.to_vec());
        let mut names: Vec<_> = calls.iter().map(|call| &call.socket_name).collect();
        names.sort_unstable();
        names.dedup();
        let step = |call: &CallSpec| {
            let name = names.binary_search(&&call.socket_name).unwrap_or_default();
            (Step::new(call), name as u32)
        };
        Self {
            seed: plan.seed,
            numbers: Numbering::new(plan),
            protocols: calls.iter().map(|call| offer(call).unwrap_or_default()).collect(),
            talk: plan.websocket.as_deref().map(|spec| Talk::new(plan, spec)),
            steps: calls.iter().map(step).collect(),
            keeps_open,
        }
    }

    /// Whether exchanges are steps, or requests next to them.
    pub(super) fn has_steps(&self) -> bool {
        self.talk.is_none()
    }

    /// Whether a call opens a socket; `None`: it is a request of HTTP.
    pub(super) fn opens(&self, call: u32) -> Option<bool> {
        match &self.steps[call as usize].0 {
            _ if self.talk.is_some() => Some(true),
            step => step.as_ref().map(|step| step.what == What::Open),
        }
    }

    /// The number of the name of the socket that a step needs.
    pub(super) fn name(&self, call: u32) -> u32 {
        self.steps[call as usize].1
    }

    /// The subprotocols that the handshake of a socket offers.
    pub(super) fn protocols(&self, socket: &Socket) -> &[String] {
        &self.protocols[socket.call as usize]
    }

    /// Whether handshakes offer to compress messages.
    pub(super) fn deflates(&self) -> bool {
        self.talk.as_ref().is_some_and(Talk::deflates)
    }

    /// A socket whose handshake is about to be sent.
    pub(super) fn begin(&mut self, id: RequestId, call: &Call<'_>) -> Socket {
        let number = self.numbers.take();
        self.socket(number, id, call)
    }

    /// In place of the socket that a step needs, if no handshake was sent: the step fails.
    pub(super) fn no_socket(&self, id: RequestId, call: &Call<'_>) -> Socket {
        let mut socket = self.socket(0, id, call);
        socket.frames.state = State::Over;
        self.start_step(&mut socket, id, call);
        socket
    }

    fn socket(&self, number: u64, id: RequestId, call: &Call<'_>) -> Socket {
        let at = (self.seed, number);
        let (frames, work, needs) = match &self.talk {
            Some(talk) => {
                let (frames, whole) = talk.begin(at, id, call);
                (frames, Work::Whole(whole), Needs::End)
            }
            None => {
                let frames = Frames::new(at, BODY_LIMIT as u64);
                (frames, Work::Steps(Box::default()), Needs::Answer)
            }
        };
        let current = Some(Current::new(id, call.index, needs));
        Socket { frames, call: call.index, name: Some(self.name(call.index)), current, work }
    }

    /// The reply with this head, which has these fields, has opened the socket.
    pub(super) fn opened(
        &self,
        socket: &mut Socket,
        (head, fields): (&Reply, &ReplyFields),
        now: Nanos,
        sink: &mut impl Sink,
    ) {
        if let Some(agreed) = fields.deflate() {
            socket.frames.reader.accept_compressed(agreed.server_alone);
        }
        socket.frames.state = State::Open;
        if let (Work::Whole(whole), Some(talk)) = (&mut socket.work, &self.talk) {
            talk.opened(whole, head.status, now, sink);
        } else if let Some(current) = socket.current.take() {
            sink.done(current.id, &Reply { keeps_open: true, fault: None, ..*head });
        }
    }

    /// Whether there is something to write.
    pub(super) fn owes(&self, socket: &Socket) -> bool {
        let has_more = || match (&socket.work, &self.talk) {
            (Work::Whole(whole), Some(talk)) => talk.owes(whole),
            _ => false,
        };
        socket.frames.state == State::Open && (socket.frames.owes_pong() || has_more())
    }

    /// Append the next frame that is due. Returns whether there was one.
    pub(super) fn write_next(&mut self, socket: &mut Socket, now: Nanos, out: &mut Out) -> bool {
        let Socket { frames, work, .. } = socket;
        if frames.state != State::Open {
            return false;
        }
        match (work, &mut self.talk) {
            _ if frames.write_pong(out.bytes()) => true,
            (Work::Whole(whole), Some(talk)) => talk.write_next(frames, whole, now, out),
            _ => false,
        }
    }

    /// Read frames. Returns how many bytes were used, and the code with which the socket is closed,
    /// if the peer has closed it: then [`closed`](Self::closed) follows.
    ///
    /// # Errors
    /// A violation of the protocol.
    pub(super) fn read(
        &mut self,
        socket: &mut Socket,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, Option<CloseCode>), Fault> {
        let Socket { frames, work, current, .. } = socket;
        let Received { message, inbox } = match work {
            Work::Steps(received) => &mut **received,
            Work::Whole(whole) => {
                let Some(talk) = &self.talk else { return Ok((data.len(), None)) };
                return talk.read(frames, whole, data, sink);
            }
        };
        let is_open = frames.state == State::Open;
        let result = frames.read(data, |event| match event {
            Event::Start(_) => message.clear(),
            Event::Piece(piece) => message.extend_from_slice(piece),
            Event::End(_) if is_open => self.arrived(message, current, inbox, sink),
            Event::End(_) | Event::Pong(_) | Event::Ping(_) | Event::Close(_) => {}
        });
        if frames.reader.is_between_messages() {
            message.clear();
            message.shrink_to(BODY_LIMIT / 16);
        }
        result
    }

    /// The peer has closed the socket with this code, after a handshake whose reply had this head.
    /// Returns whether no exchange has the code as its outcome.
    pub(super) fn closed(
        &self,
        socket: &mut Socket,
        code: CloseCode,
        head: Option<&Reply>,
        sink: &mut impl Sink,
    ) -> bool {
        socket.name = None;
        let Some(current) = &mut socket.current else { return true };
        match (&socket.work, head) {
            (Work::Whole(whole), Some(head)) => {
                sink.done(current.id, &whole.reply(&socket.frames, code, head));
            }
            (Work::Whole(_), None) => sink.failed(current.id, Fault::StreamReset),
            (Work::Steps(_), _) if sink.was_sent(current.id) => {
                sink.done(current.id, &self.reply(code.0, 0));
            }
            (Work::Steps(_), _) => {
                current.needs = Needs::Closed(code);
                return false;
            }
        }
        socket.current = None;
        false
    }

    /// Start a step on a socket. Returns whether it has a frame to send, which
    /// [`write_step`](Self::write_step) appends.
    pub(super) fn start_step(&self, socket: &mut Socket, id: RequestId, call: &Call<'_>) -> bool {
        let Some(step) = &self.steps[call.index as usize].0 else {
            unreachable!("sockets have endpoints of their own");
        };
        let needs = step.needs(&socket.frames, call.filled.and_then(Filled::body));
        let equals = call.filled.and_then(Filled::awaited).map(Box::from);
        socket.current = Some(Current { equals, ..Current::new(id, call.index, needs) });
        matches!(needs, Needs::Send | Needs::SendAndMessage | Needs::Close)
    }

    /// Append the frame of a step that has one.
    pub(super) fn write_step(&self, socket: &mut Socket, call: &Call<'_>, out: &mut Vec<u8>) {
        let Some(step) = &self.steps[call.index as usize].0 else { return };
        let data = call.filled.and_then(Filled::body).unwrap_or(&step.data);
        match (step.what, &mut socket.work) {
            (What::Send { binary }, Work::Steps(received)) => {
                let opcode = if binary { Opcode::Binary } else { Opcode::Text };
                socket.frames.next(opcode).write(data, out);
                if step.matcher.is_some() {
                    // They cannot be the answer.
                    received.inbox.clear();
                }
            }
            (What::Close(code), _) => socket.frames.close(code, data, out),
            _ => {}
        }
    }

    /// Report the end of the step, if it needs nothing more from the peer. Returns whether it has
    /// ended.
    pub(super) fn report_end(
        &mut self,
        socket: &mut Socket,
        now: Nanos,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(current) = &mut socket.current else { return false };
        match current.needs {
            Needs::End | Needs::Answer | Needs::Close | Needs::NewMessage => return false,
            Needs::Send | Needs::SendAndMessage if !sink.was_sent(current.id) => return false,
            Needs::Send => sink.done(current.id, &self.reply(SocketStep::MESSAGE, 0)),
            Needs::Failed(_) | Needs::Closed(_) => self.report_over(current, sink),
            Needs::SendAndMessage | Needs::Message => {
                let step = self.steps[current.call as usize].0.as_ref();
                current.until = step.and_then(|step| step.within).map(|within| now + within);
                let had_come = current.needs == Needs::Message;
                current.needs = Needs::NewMessage;
                if had_come {
                    sink.sent(current.id);
                }
                return had_come && self.look(socket, sink);
            }
        }
        socket.current = None;
        true
    }

    /// Report the end of a step that needs no socket.
    pub(super) fn report_over(&self, step: &Current, sink: &mut impl Sink) {
        match step.needs {
            Needs::Closed(code) => {
                sink.sent(step.id);
                sink.done(step.id, &self.reply(code.0, 0));
            }
            Needs::Failed(fault) => sink.failed(step.id, fault),
            _ => sink.failed(step.id, Fault::StreamReset),
        }
    }

    /// Look for the awaited message in those that have arrived. Returns whether it is there.
    fn look(&mut self, socket: &mut Socket, sink: &mut impl Sink) -> bool {
        let Work::Steps(received) = &mut socket.work else { return false };
        let mut message = Vec::new();
        while socket.current.is_some() && received.inbox.pop(&mut message) {
            self.arrived(&message, &mut socket.current, &mut received.inbox, sink);
        }
        socket.current.is_none()
    }

    /// A message is complete: it ends the step that waits for it, or is kept if none waits.
    fn arrived(
        &mut self,
        message: &[u8],
        current: &mut Option<Current>,
        inbox: &mut Inbox,
        sink: &mut impl Sink,
    ) {
        match current {
            Some(Current { id, call, needs: Needs::NewMessage, equals, .. }) => {
                let step = self.steps[*call as usize].0.as_mut();
                let matcher = step.and_then(|step| step.matcher.as_mut());
                if matcher.is_some_and(|matcher| matcher.matches(message, equals.as_deref())) {
                    if sink.wants_body(*id) {
                        sink.body(*id, message);
                    }
                    let reply = self.reply(SocketStep::MESSAGE, message.len());
                    sink.done(*id, &reply);
                    *current = None;
                }
            }
            // It comes before the message that it could answer.
            Some(Current { needs: Needs::SendAndMessage, .. }) => {}
            _ => inbox.push(message),
        }
    }

    /// The reply of a step that ends with a message of this length, or the close of the socket.
    fn reply(&self, status: u16, length: usize) -> Reply {
        Reply {
            status,
            head_bytes: 0,
            framing_bytes: 0,
            footer_bytes: 0,
            body_bytes: length as u64,
            interim: 0,
            keeps_open: self.keeps_open || status == SocketStep::MESSAGE,
            fault: None,
        }
    }
}

/// Whether calls open sockets.
fn has_sockets(plan: &Plan) -> bool {
    plan.websocket.is_some() || plan.has_sockets()
}

/// The subprotocols that the handshake of a call offers, and whether it offers to compress
/// messages; `None`: it is no handshake.
fn offer<'a>(plan: &'a Plan, call: &'a CallSpec) -> Option<(&'a [String], bool)> {
    match (plan.websocket.as_deref(), call.socket.as_deref()) {
        (Some(spec), _) => Some((&spec.subprotocols, spec.compress)),
        (None, Some(SocketStep::Open { subprotocols })) => Some((subprotocols, false)),
        (None, _) => None,
    }
}

/// The plan with its handshakes as requests: with this method, and the headers that a handshake
/// adds, of which `fixed` are the first.
pub(super) fn handshakes(
    plan: &Plan,
    method: &'static str,
    fixed: &[(&'static str, &'static str)],
) -> Plan {
    let mut handshakes = plan.clone();
    if !has_sockets(plan) {
        return handshakes;
    }
    let calls = plan.calls.iter().map(|call| {
        let Some((protocols, compress)) = offer(plan, call) else {
            // The data of other steps are sent in frames.
            let body = if call.socket.is_some() { Vec::new() } else { call.body.clone() };
            return CallSpec { body, ..call.clone() };
        };
        let mut own: Vec<(&str, String)> = fixed.iter().map(|&(n, v)| (n, v.to_owned())).collect();
        own.push(("Sec-WebSocket-Version", "13".to_owned()));
        if !protocols.is_empty() {
            own.push(("Sec-WebSocket-Protocol", protocols.join(", ")));
        }
        if compress {
            own.push(("Sec-WebSocket-Extensions", OFFER.to_owned()));
        }
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let headers: Vec<_> = call.headers.iter().cloned().chain(own).collect();
        let (method, body) = (method.into(), Vec::new());
        CallSpec { method, headers: headers.into(), body, ..call.clone() }
    });
    handshakes.calls = calls.collect::<Vec<_>>().into();
    handshakes
}
