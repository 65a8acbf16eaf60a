//! The messages in the streams of exchanges: their schedules, and what was sent and received.

use super::NONE;
use super::broadcast::Broadcasting;
use super::reading::{Reading, Stage, StreamBody};
use prony_base::units::{Nanos, RequestId};
use prony_plan::messages::{Due, Ledger, Numbering, Subscription, Times, Written};
use prony_plan::plan::{CallSpec, MessagePlan, MessageReply, Plan};
use prony_tally::record::{CallStart, Recorder};

/// All streams with messages. Each has the number of the slot of its exchange.
#[derive(Debug)]
pub(in crate::engine) struct Messages {
    plan: Option<Box<MessagePlan>>,
    seed: u64,
    calls: Vec<Call>,
    pub(super) streams: Vec<Stream>,
    /// How bodies are read as streams.
    pub(super) reading: Option<Box<Reading>>,
    /// The numbers of streams with a schedule.
    numbers: Numbering,
    /// The intended times of the messages that became due last, if messages are stamped.
    pub(super) stamped: Option<Vec<Nanos>>,
    /// The broadcast, if the plan is one.
    pub(super) broadcast: Option<Box<Broadcasting>>,
    /// When the user has ended the load: no schedule goes on after that.
    pub(super) stopped: Option<Nanos>,
}

/// What matters of a call.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Whether its messages have a schedule.
    is_paced: bool,
    /// Whether replies are matched with messages.
    matches: bool,
    /// How many messages it has.
    messages: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    /// Its exchange; a slot of `NONE` if there was none.
    pub(super) id: RequestId,
    /// The slot of its connection.
    pub(super) conn: u32,
    /// Its intended start.
    pub(super) intended: Nanos,
    call: u32,
    pub(super) times: Option<Times>,
    pub(super) ledger: Ledger,
    /// What was read of its body, if bodies are read as streams.
    pub(super) body: Option<Box<StreamBody>>,
    /// What it has received of a broadcast.
    pub(super) subscription: Option<Box<Subscription>>,
}

/// What a connection is to send.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct ToSend {
    /// The slot of the connection.
    pub(in crate::engine) conn: u32,
    pub(in crate::engine) id: RequestId,
    /// How many messages are due.
    pub(in crate::engine) messages: u64,
    /// Whether no further one follows.
    pub(in crate::engine) ends: bool,
    /// When the next one is due.
    pub(in crate::engine) next: Option<Nanos>,
}

impl Messages {
    /// `None`: no call of the plan has a stream of messages.
    pub(in crate::engine) fn new(plan: &Plan) -> Option<Box<Self>> {
        let calls: Vec<Call> = plan.calls.iter().map(|call| Call::new(call, plan)).collect();
        let streams = |call: &CallSpec| call.grpc.as_deref().is_some_and(|call| call.streams);
        let reading = plan.stream.as_deref().map(|plan| Box::new(Reading::new(plan)));
        let is_grpc = calls.iter().any(|call| call.is_paced) || plan.calls.iter().any(streams);
        let pings = plan.websocket.as_deref().is_some_and(|spec| spec.ping_every.is_some());
        let wanted = reading.is_some() || is_grpc || pings;
        wanted.then(|| {
            Box::new(Self {
                plan: plan.messages.clone(),
                seed: plan.seed,
                calls,
                streams: Vec::new(),
                reading,
                numbers: Numbering::new(plan),
                stamped: (plan.broadcast().is_some() || plan.matches_by_token()).then(Vec::new),
                broadcast: Broadcasting::new(plan).map(Box::new),
                stopped: None,
            })
        })
    }

    /// An exchange is submitted on the connection in slot `conn`. Returns what to send now, if its
    /// messages have a schedule.
    pub(in crate::engine) fn start(
        &mut self,
        id: RequestId,
        conn: u32,
        (call, intended): (u32, Nanos),
        now: Nanos,
    ) -> Option<ToSend> {
        let known = self.calls[call as usize];
        let times = self.plan.as_deref().filter(|_| known.is_paced).map(|plan| {
            let number = self.numbers.take();
            let start = match self.broadcast.as_deref() {
                None => intended,
                Some(broadcast) => match broadcast.starts(number, intended) {
                    Ok(start) => start,
                    Err(end) => return Times::silent(end),
                },
            };
            Times::new(plan, self.seed, start, number, known.messages)
        });
        let stream = self.stream(id.slot);
        let continues = stream.continues(id);
        (stream.id, stream.conn, stream.intended, stream.call) = (id, conn, intended, call);
        let is_paced = times.is_some();
        stream.times = times;
        if !continues {
            stream.ledger.clear();
        }
        if let Some(at) = self.stopped {
            self.end_schedule(id.slot, at);
        }
        is_paced.then(|| self.due(id.slot, now)).flatten()
    }

    /// The user has ended the load: no message becomes due any more. Returns how many slots have
    /// schedules whose end may have changed.
    pub(in crate::engine) fn stop(&mut self, now: Nanos) -> u32 {
        let stopped = *self.stopped.get_or_insert(now);
        let slots = if self.plan.is_some() { self.streams.len() as u32 } else { 0 };
        (0..slots).for_each(|slot| self.end_schedule(slot, stopped));
        slots
    }

    /// When the next message of the stream in this slot is due, or the end of its schedule.
    pub(in crate::engine) fn next_in(&self, slot: u32) -> Option<Nanos> {
        self.streams.get(slot as usize)?.times.as_ref()?.next()
    }

    fn end_schedule(&mut self, slot: u32, at: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let Some(times) = &mut stream.times else { return };
        match (self.broadcast.as_deref(), times.is_silent()) {
            (Some(broadcast), true) => {
                let [awaits, stays] = broadcast.after_stop(at);
                times.end_at(stays);
                if let Some(subscription) = &mut stream.subscription {
                    subscription.ends_at(awaits);
                }
            }
            _ => times.end_at(at),
        }
    }

    /// The exchange of the stream in this slot, if one of its messages is due.
    pub(in crate::engine) fn waiting(&self, slot: u32, now: Nanos) -> Option<RequestId> {
        let is_due = self.next_in(slot).is_some_and(|at| at <= now);
        is_due.then(|| self.streams[slot as usize].id)
    }

    /// What is due of the stream in this slot; `None`: it has no schedule.
    pub(in crate::engine) fn due(&mut self, slot: u32, now: Nanos) -> Option<ToSend> {
        let plan = self.plan.as_deref()?;
        let stream = self.streams.get_mut(slot as usize)?;
        let times = stream.times.as_mut()?;
        let (mut messages, mut ends) = (0, false);
        let mut stamped = self.stamped.as_mut();
        if let Some(stamped) = &mut stamped {
            stamped.clear();
        }
        while let Some(due) = times.take(plan, self.seed, now) {
            match due {
                Due::Message { at, is_last } => {
                    stream.ledger.due(at);
                    if let Some(stamped) = &mut stamped {
                        stamped.push(at);
                    }
                    messages += 1;
                    ends |= is_last;
                }
                Due::End => ends = true,
            }
        }
        let next = times.next();
        Some(ToSend { conn: stream.conn, id: stream.id, messages, ends, next })
    }

    /// The next message of the exchange was written.
    pub(in crate::engine) fn written(
        &mut self,
        id: RequestId,
        token: u64,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        if self.broadcast.is_some() {
            recorder.published((token >> 32) as u32, now);
        }
        let Some((stream, awaits)) = self.of(id) else { return };
        if let Some(Written { intended, lag }) = stream.ledger.written(now, token, awaits) {
            recorder.message_sent(intended, lag, awaits);
        }
    }

    /// The stream of the exchange has ended, and the exchange with it. What its schedule has left
    /// is not sent. If prony has ended it, the plan wants no more of it.
    pub(in crate::engine) fn schedule_ended(
        &mut self,
        id: RequestId,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        let is_bounded = self.is_bounded(id);
        let stream = self.streams.get_mut(id.slot as usize).filter(|stream| stream.id == id);
        let (Some(plan), Some(stream)) = (self.plan.as_deref(), stream) else { return };
        let Some(mut times) = stream.times.take() else { return };
        let unsent = stream.ledger.take_unwritten() + times.take_rest(plan, self.seed);
        if unsent > 0 && !is_bounded {
            recorder.messages_unsent(now, unsent);
        }
    }

    /// Whether no message of the reply to the exchange has arrived yet.
    pub(in crate::engine) fn awaits_first(&self, id: RequestId) -> bool {
        let stream = self.streams.get(id.slot as usize).filter(|stream| stream.id == id);
        stream.is_some_and(|stream| stream.ledger.is_empty_handed())
    }

    /// A message of the reply to the exchange has arrived, with this token. `start`: when the
    /// exchange was due and sent, if it is the first.
    pub(in crate::engine) fn arrived(
        &mut self,
        id: RequestId,
        (token, start): (u64, Option<CallStart>),
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        let Some((stream, matches)) = self.of(id) else { return };
        match stream.ledger.arrived(now) {
            None => {
                let intended = stream.intended;
                let start = start.unwrap_or_default();
                recorder.first_message(CallStart { intended, ..start }, now);
            }
            Some(before) => recorder.next_message(before, now),
        }
        if stream.times.is_some() && matches {
            match stream.ledger.matched(token, now) {
                Some(matched) => recorder.message_replied(&matched, now),
                None => recorder.unmatched_message(now),
            }
        }
    }

    /// The stream of the exchange, and whether replies are matched with its messages.
    fn of(&mut self, id: RequestId) -> Option<(&mut Stream, bool)> {
        let stream = self.streams.get_mut(id.slot as usize).filter(|stream| stream.id == id)?;
        let matches = self.calls[stream.call as usize].matches;
        Some((stream, matches))
    }

    pub(super) fn stream(&mut self, slot: u32) -> &mut Stream {
        while self.streams.len() <= slot as usize {
            self.streams.push(Stream {
                id: RequestId { slot: NONE, generation: 0 },
                conn: NONE,
                intended: Nanos::ZERO,
                call: 0,
                times: None,
                ledger: Ledger::default(),
                body: None,
                subscription: None,
            });
        }
        &mut self.streams[slot as usize]
    }
}

impl Stream {
    /// Whether it is the stream of this exchange, and continues on another connection.
    pub(super) fn continues(&self, id: RequestId) -> bool {
        self.id == id && self.stage() == Stage::Between
    }

    pub(super) fn stage(&self) -> Stage {
        self.body.as_deref().map_or(Stage::Closed, |body| body.stage)
    }
}

impl Call {
    fn new(spec: &CallSpec, plan: &Plan) -> Self {
        if plan.websocket.is_some() {
            let (is_paced, matches) = (plan.messages.is_some(), plan.awaits_echoes());
            return Self { is_paced, matches, messages: 1 };
        }
        let (takes, streams, has_token) = match spec.grpc.as_deref() {
            Some(grpc) => (grpc.takes, grpc.streams, grpc.token.is_some()),
            None => (false, false, false),
        };
        let schedule = plan.messages.as_deref().filter(|_| takes);
        let matches = schedule.is_some_and(|messages| match messages.reply {
            MessageReply::Usual => streams,
            MessageReply::Order => true,
            MessageReply::None | MessageReply::Token => false,
            MessageReply::Field => has_token,
        });
        Self { is_paced: schedule.is_some(), matches, messages: spec.message_count() }
    }
}
