//! A call: messages in, steps out. The steps of a call run one after another, as in a handler that
//! receives, works and sends.

use std::borrow::Cow;
use std::collections::VecDeque;

use prony_base::grpc::{Item, Splitter, Status};
use prony_base::units::{Nanos, Span};

use super::gzip::{self, Unreadable};
use super::head::{CallHead, Encoding, Method};
use super::messages::{Outgoing, Request, SIZE_MAX, STEPS, Wanted, start_payload};
use super::wire::Fields;
use super::{health, reflection};

/// How many steps may wait before the client is slowed down by its window.
const PENDING: usize = 256;

/// How many bytes of messages may wait in these steps.
const ANSWERS: usize = 1 << 20;

/// The longest payload that is compressed.
const PACKED_MAX: u64 = 1 << 20;

/// The most bytes of the message of a status.
const TEXT: usize = 4_096;

/// How often load reports are sent, at least and by default.
const LOAD_INTERVAL: Span = Span::from_millis(100);
const LOAD_DEFAULT: Span = Span::from_secs(30);

/// A call.
#[derive(Debug)]
pub(in super::super) struct Call {
    head: Box<CallHead>,
    /// Its number among all requests.
    pub(in super::super) number: u64,
    deadline: Option<Nanos>,
    splitter: Splitter,
    /// The message that is incomplete, and whether it is compressed.
    message: Vec<u8>,
    is_compressed: bool,
    /// Messages so far, and the bytes of their payloads.
    received: u64,
    bytes: u64,
    /// Whether the client has sent its last message.
    pub(in super::super) is_half_closed: bool,
    steps: VecDeque<Step>,
    /// The steps that follow when the client has sent its last message.
    later: VecDeque<Step>,
    /// The interval of load reports.
    interval: Span,
    /// How often it was served.
    pub(in super::super) services: u64,
    /// Whether it is in service, or pauses.
    pub(in super::super) is_waiting: bool,
    is_in_service: bool,
    failure: Option<Failure>,
    /// The message that is being sent.
    pub(in super::super) outgoing: Option<Outgoing>,
    pub(in super::super) has_head: bool,
    /// How it ends, when all is sent.
    pub(in super::super) end: Option<End>,
    /// Whether its stream is reset when `outgoing` is sent.
    pub(in super::super) is_cut: bool,
    /// The load to report with this call, and from now on.
    load: Option<Vec<u8>>,
    new_load: Option<Vec<u8>>,
    /// The bytes that were decompressed and compressed and are not counted yet.
    unpacked: usize,
    packed: usize,
    /// The bytes of the messages among the steps.
    answers: usize,
}

/// What happens next in a call.
#[derive(Debug)]
enum Step {
    /// It is served, like a request.
    Serve,
    Respond(Wanted),
    Message(Vec<u8>),
    /// The server's load is sent, now and at intervals.
    Load(Span),
    End(End),
}

/// How a call ends.
#[derive(Debug)]
pub(in super::super) struct End {
    pub(in super::super) status: Status,
    pub(in super::super) message: Cow<'static, str>,
    /// The load to report.
    pub(in super::super) load: Option<Vec<u8>>,
}

/// A failure that was drawn for a call. It happens when the call was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Failure {
    /// The connection is reset.
    Reset,
    /// The stream is reset.
    StreamReset,
    /// The stream is reset in the middle of a message.
    Truncate,
    /// It ends with this status.
    Status(Status),
}

/// What a call needs in order to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Next {
    /// The client.
    Nothing,
    /// A service. `waited` follows.
    Service,
    /// That time. `waited` follows.
    Pause(Span),
    /// The server's load. `load` follows.
    Load,
    /// That its output is sent.
    Output,
}

impl Call {
    /// A call that arrives now.
    pub(in super::super) fn new(
        head: Box<CallHead>,
        number: u64,
        failure: Option<Failure>,
        now: Nanos,
    ) -> Self {
        let mut call = Self {
            number,
            deadline: head.timeout.map(|timeout| now + timeout),
            splitter: Splitter::default(),
            message: Vec::new(),
            is_compressed: false,
            received: 0,
            bytes: 0,
            is_half_closed: false,
            steps: VecDeque::new(),
            later: VecDeque::new(),
            interval: LOAD_DEFAULT,
            services: 0,
            is_waiting: false,
            is_in_service: false,
            failure,
            outgoing: None,
            has_head: false,
            end: None,
            is_cut: false,
            load: None,
            new_load: None,
            unpacked: 0,
            packed: 0,
            answers: 0,
            head,
        };
        match call.head.method {
            Method::NoService => call.end_with(Status::UNIMPLEMENTED, "no such service"),
            Method::Unserved => call.end_with(Status::UNIMPLEMENTED, "no such method"),
            _ if call.head.encoding == Encoding::Other => {
                call.end_with(Status::UNIMPLEMENTED, "grpc-encoding is not gzip or identity");
            }
            _ => {}
        }
        call
    }

    pub(in super::super) fn method(&self) -> Method {
        self.head.method
    }

    /// The metadata that the client wants back, with the head and with the trailers.
    pub(in super::super) fn echo(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        let echo = self.head.echo.as_deref();
        let initial = echo.and_then(|echo| echo.initial.as_deref());
        (initial, echo.and_then(|echo| echo.trailing.as_deref()))
    }

    /// Whether its messages may be compressed.
    pub(in super::super) fn may_compress(&self) -> bool {
        let is_unary = !self.head.method.streams();
        let is_compressed = self.outgoing.as_ref().is_some_and(Outgoing::is_compressed);
        self.head.accepts_gzip && (!is_unary || is_compressed)
    }

    /// Whether the client must learn which compression is possible.
    pub(in super::super) fn names_encodings(&self) -> bool {
        self.head.encoding == Encoding::Other
    }

    /// Take bytes of the client's messages, of at most `limit` bytes each. Return the number of
    /// messages that are complete.
    pub(in super::super) fn take(&mut self, mut data: &[u8], limit: u64) -> u64 {
        let before = self.received;
        let longest = u32::try_from(limit).unwrap_or(u32::MAX);
        while !self.has_end() {
            match self.splitter.next(&mut data, longest) {
                Err(_) => self.end_with(Status::RESOURCE_EXHAUSTED, "message over the limit"),
                Ok(None) => break,
                Ok(Some(Item::Start(prefix))) => {
                    self.message.clear();
                    self.is_compressed = prefix.flag == 1;
                    if prefix.flag > 1 {
                        self.end_with(Status::INTERNAL, "the flag of a message is not 0 or 1");
                    } else if self.is_compressed && self.head.encoding == Encoding::Identity {
                        let why = "a compressed message without grpc-encoding";
                        self.end_with(Status::INTERNAL, why);
                    }
                }
                Ok(Some(Item::Part(part))) => self.message.extend_from_slice(part),
                Ok(Some(Item::End)) => {
                    self.received += 1;
                    self.complete(limit);
                }
            }
        }
        self.received - before
    }

    fn complete(&mut self, limit: u64) {
        let message = std::mem::take(&mut self.message);
        if !self.is_compressed {
            self.receive(&message, limit);
            self.message = message;
            return;
        }
        match gzip::decompress(&message, limit) {
            Ok(message) => {
                self.unpacked += message.len();
                self.receive(&message, limit);
            }
            Err(Unreadable::Malformed) => self.end_with(Status::INTERNAL, "malformed gzip"),
            Err(Unreadable::TooLong) => {
                self.end_with(Status::RESOURCE_EXHAUSTED, "message over the limit");
            }
        }
    }

    /// Handle a message.
    fn receive(&mut self, message: &[u8], limit: u64) {
        if self.head.method.takes_one() && self.received > 1 {
            return self.end_with(Status::INTERNAL, "more than one message");
        }
        let request = match self.head.method {
            Method::Unary => Request::simple(message),
            Method::Input => Request::input(message),
            Method::Output | Method::FullDuplex | Method::HalfDuplex => Request::output(message),
            other => {
                let handled = self.receive_other(other, message);
                return handled.unwrap_or_else(|()| self.malformed());
            }
        };
        let Ok(request) = request else {
            return self.malformed();
        };
        if request.expects_compressed.is_some_and(|expected| expected != self.is_compressed) {
            let why = "the message is not compressed as expect_compressed says";
            return match self.head.method.takes_one() {
                true => self.later.push_back(Step::end(Status::INVALID_ARGUMENT, why)),
                false => self.end_with(Status::INVALID_ARGUMENT, why),
            };
        }
        self.bytes += request.payload;
        match self.head.method {
            Method::FullDuplex => {
                if request.load.is_some() {
                    self.new_load.clone_from(&request.load);
                }
                self.steps.push_back(Step::Serve);
                plan(request, limit, &mut self.steps);
            }
            Method::Unary => {
                self.load.clone_from(&request.load);
                plan(request, limit, &mut self.later);
            }
            _ => plan(request, limit, &mut self.later),
        }
        if self.steps.len() + self.later.len() > STEPS || self.answers > ANSWERS {
            self.end_with(Status::RESOURCE_EXHAUSTED, "too many responses at once");
        }
    }

    /// Handle a message of a service that answers at once.
    fn receive_other(&mut self, method: Method, message: &[u8]) -> Result<(), ()> {
        match method {
            Method::HealthCheck => match health::knows(message).map_err(|_| ())? {
                true => self.later.push_back(Step::Message(health::serving())),
                false => self.later.push_back(Step::end(Status::NOT_FOUND, "no such service")),
            },
            Method::HealthWatch => {
                let is_known = health::knows(message).map_err(|_| ())?;
                let state = if is_known { health::serving() } else { health::unknown() };
                self.later.push_back(Step::Message(state));
            }
            Method::HealthList => self.later.push_back(Step::Message(health::list())),
            Method::Reflection => {
                let response = reflection::respond(message).map_err(|_| ())?;
                self.answers += response.len();
                self.steps.push_back(Step::Message(response));
            }
            Method::Load => {
                self.interval = load_interval(message)?;
                self.later.push_back(Step::Load(Span::ZERO));
            }
            _ => {
                // The message without content.
                Fields(message).try_for_each(|field| field.map(|_| ())).map_err(|_| ())?;
                self.later.push_back(Step::Message(Vec::new()));
            }
        }
        Ok(())
    }

    fn malformed(&mut self) {
        self.end_with(Status::INTERNAL, "a message that cannot be decoded");
    }

    /// The client has sent its last message.
    pub(in super::super) fn half_close(&mut self) {
        self.is_half_closed = true;
        if self.has_end() {
            return;
        }
        let method = self.head.method;
        if !self.splitter.is_between_messages() {
            return self.end_with(Status::INTERNAL, "the request ends inside a message");
        }
        if method.takes_one() && self.received == 0 {
            return self.end_with(Status::INTERNAL, "no message");
        }
        if method.is_served() && method != Method::FullDuplex {
            self.steps.push_back(Step::Serve);
        }
        if method == Method::Input && self.later.is_empty() {
            let mut message = Vec::new();
            let sum = self.bytes.min(i32::MAX as u64);
            if sum > 0 {
                super::wire::number(&mut message, 1, sum);
            }
            self.steps.push_back(Step::Message(message));
        }
        self.steps.append(&mut self.later);
        if !method.is_endless() {
            self.steps.push_back(Step::end(Status::OK, ""));
        }
    }

    /// The server stops: end what would never end.
    pub(in super::super) fn stop(&mut self) -> bool {
        if !self.head.method.is_endless() || self.has_end() {
            return false;
        }
        self.steps.clear();
        if self.head.method == Method::HealthWatch {
            self.steps.push_back(Step::Message(health::not_serving()));
        }
        self.steps.push_back(Step::end(Status::UNAVAILABLE, "the server stops"));
        true
    }

    /// End it after the steps so far.
    fn end_with(&mut self, status: Status, message: &'static str) {
        self.later.clear();
        self.steps.push_back(Step::end(status, message));
    }

    /// Whether it is known how it ends, so that the client's messages are of no interest.
    fn has_end(&self) -> bool {
        self.end.is_some() || matches!(self.steps.back(), Some(Step::End(_)))
    }

    /// Whether the client has sent enough for now.
    pub(in super::super) fn is_full(&self) -> bool {
        self.steps.len() > PENDING
    }

    /// Whether something is to be sent.
    pub(in super::super) fn has_output(&self) -> bool {
        self.outgoing.is_some() || self.end.is_some()
    }

    /// Roughly how much memory it uses.
    pub(in super::super) fn footprint(&self) -> usize {
        let steps = self.steps.len() + self.later.len();
        let outgoing = self.outgoing.as_ref().map_or(0, Outgoing::size);
        size_of::<Self>()
            + self.message.capacity()
            + steps * 2 * size_of::<Step>()
            + self.answers
            + outgoing
    }

    /// The bytes that were decompressed since the last call.
    pub(in super::super) fn take_unpacked(&mut self) -> usize {
        std::mem::take(&mut self.unpacked)
    }

    /// The bytes that were compressed since the last call.
    pub(in super::super) fn take_packed(&mut self) -> usize {
        std::mem::take(&mut self.packed)
    }

    /// Take the load that the server shall report from now on.
    pub(in super::super) fn take_load(&mut self) -> Option<Vec<u8>> {
        self.new_load.take()
    }

    /// Go on, as far as nothing is needed.
    pub(in super::super) fn next(&mut self) -> Next {
        if self.has_output() {
            return Next::Output;
        }
        if self.is_waiting {
            return Next::Nothing;
        }
        match self.steps.pop_front() {
            None => return Next::Nothing,
            Some(Step::Serve) => {
                (self.is_waiting, self.is_in_service) = (true, true);
                return Next::Service;
            }
            Some(Step::Respond(wanted)) if wanted.pause > Span::ZERO => {
                self.steps.push_front(Step::Respond(Wanted { pause: Span::ZERO, ..wanted }));
                self.is_waiting = true;
                return Next::Pause(wanted.pause);
            }
            Some(Step::Load(pause)) if pause > Span::ZERO => {
                self.steps.push_front(Step::Load(Span::ZERO));
                self.is_waiting = true;
                return Next::Pause(pause);
            }
            Some(Step::Load(_)) => {
                self.steps.push_front(Step::Load(self.interval));
                return Next::Load;
            }
            Some(Step::Respond(wanted)) => {
                let response = self.response(wanted);
                self.send(response);
            }
            Some(Step::Message(message)) => {
                self.answers = self.answers.saturating_sub(message.len());
                self.send(Outgoing::new(&message, false));
            }
            Some(Step::End(end)) => self.end = Some(End { load: self.load.take(), ..end }),
        }
        Next::Output
    }

    /// As `next`, but only if something to send comes next. Return whether it does.
    pub(in super::super) fn next_output(&mut self) -> bool {
        let is_output = self.steps.front().is_some_and(|step| match step {
            Step::Respond(wanted) => wanted.pause == Span::ZERO,
            Step::Message(_) | Step::End(_) => true,
            Step::Serve | Step::Load(_) => false,
        });
        is_output && !self.is_waiting && self.next() == Next::Output
    }

    /// Whether it can go on by `next`.
    pub(in super::super) fn has_steps(&self) -> bool {
        !self.is_waiting && !self.steps.is_empty()
    }

    fn send(&mut self, mut outgoing: Outgoing) {
        if self.is_cut {
            outgoing.cut();
        }
        self.outgoing = Some(outgoing);
    }

    /// Send the server's load.
    pub(in super::super) fn send_load(&mut self, load: &[u8]) {
        self.send(Outgoing::new(load, false));
    }

    fn response(&mut self, wanted: Wanted) -> Outgoing {
        let size = wanted.size as u32;
        if !(wanted.is_compressed && self.head.accepts_gzip) {
            return Outgoing::zeros(size, wanted.is_named);
        }
        self.packed += size as usize;
        let mut message = Vec::new();
        start_payload(&mut message, size, wanted.is_named);
        message.resize(message.len() + size as usize, 0);
        Outgoing::new(&gzip::compress(&message), true)
    }

    /// Its service or pause is over. Return the failure by which its stream or connection ends.
    pub(in super::super) fn waited(&mut self, now: Nanos) -> Option<Failure> {
        self.is_waiting = false;
        let failure = match std::mem::take(&mut self.is_in_service) {
            true => {
                self.services += 1;
                self.failure.take()
            }
            false => None,
        };
        match failure {
            Some(Failure::Status(status)) => self.replace(status, "drawn from --status"),
            Some(Failure::Truncate) => self.is_cut = true,
            Some(Failure::Reset | Failure::StreamReset) => return failure,
            None => {}
        }
        if self.deadline.is_some_and(|deadline| now > deadline) {
            self.replace(Status::DEADLINE_EXCEEDED, "the deadline has passed");
        }
        None
    }

    /// End it at once.
    fn replace(&mut self, status: Status, message: &'static str) {
        self.steps.clear();
        self.end_with(status, message);
    }
}

impl Step {
    fn end(status: Status, message: &'static str) -> Self {
        Self::End(End { status, message: message.into(), load: None })
    }
}

/// The steps that a request asks for.
fn plan(request: Request, limit: u64, steps: &mut VecDeque<Step>) {
    if let Some((code, mut message)) = request.status {
        message.truncate(message.floor_char_boundary(TEXT));
        let status = u32::try_from(code).ok().and_then(Status::new).unwrap_or(Status::UNKNOWN);
        steps.push_back(Step::End(End { status, message: message.into(), load: None }));
        return;
    }
    let is_valid = |wanted: &Wanted| (0..=SIZE_MAX).contains(&wanted.size);
    if request.kind != 0 || !request.responses.iter().all(is_valid) {
        let why = "the type or the size of a payload is not supported";
        return steps.push_back(Step::end(Status::INVALID_ARGUMENT, why));
    }
    let longest = limit.min(PACKED_MAX);
    if request.responses.iter().any(|one| one.is_compressed && one.size as u64 > longest) {
        let why = "the payload is too large to be compressed";
        return steps.push_back(Step::end(Status::RESOURCE_EXHAUSTED, why));
    }
    steps.extend(request.responses.into_iter().map(Step::Respond));
}

/// The interval that a request for load reports asks for.
fn load_interval(message: &[u8]) -> Result<Span, ()> {
    let mut interval = LOAD_DEFAULT;
    for field in Fields(message) {
        let (1, duration) = field.map_err(|_| ())? else { continue };
        let (mut seconds, mut nanos) = (0, 0);
        for field in Fields(duration.bytes()) {
            match field.map_err(|_| ())? {
                (1, value) => seconds = value.int(),
                (2, value) => nanos = value.int(),
                _ => {}
            }
        }
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let nanos = u64::try_from(nanos).unwrap_or(0);
        interval = Span(1_000_000_000 * seconds + nanos);
    }
    Ok(interval.max(LOAD_INTERVAL))
}
