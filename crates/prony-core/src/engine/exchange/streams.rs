//! Bodies of replies that are streams of messages: what was read of each, and when it ends.

use super::messages::Messages;
use super::tokens::TokenBody;
use crate::events::{Ending, Message, Reader, Rules};
use crate::fault::Fault;
use crate::plan::{StreamFormat, StreamPlan};
use crate::record::{Recorder, Stamps, StreamEnd};
use crate::units::{Nanos, RequestId};

/// How bodies are read.
#[derive(Debug)]
pub(super) struct Reading {
    plan: StreamPlan,
    rules: Rules,
    /// Streams whose first piece has arrived with the bytes that are read now.
    begun: Vec<RequestId>,
    /// Streams that are to be ended.
    stopped: Vec<RequestId>,
}

/// What was read of one body. Reused for stream after stream.
#[derive(Debug, Default)]
pub(super) struct StreamBody {
    /// Whether it has begun and not ended.
    is_open: bool,
    reader: Reader,
    messages: u64,
    /// Whether a message had content.
    has_content: bool,
    /// Why the rest is not read, if it is not.
    over: Option<Over>,
    /// What it says as the reply of a language model.
    tokens: TokenBody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Ended(StreamEnd),
    Failed,
    /// A message has reported an error.
    Error,
}

/// What follows from a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum After {
    Nothing,
    /// The streams in the lists of [`Messages`] need something.
    Work,
    /// The reply has this fault, and is not read to its end.
    Fault(Fault),
}

impl Reading {
    pub(super) fn new(plan: &StreamPlan) -> Self {
        let rules = Rules::new(plan);
        Self { plan: plan.clone(), rules, begun: Vec::new(), stopped: Vec::new() }
    }
}

impl StreamBody {
    /// A message has arrived. Returns whether it is the first with content.
    fn count(&mut self, message: Message, plan: &StreamPlan) -> bool {
        self.messages += 1;
        if message.said.is_error && plan.format != StreamFormat::Whole {
            self.over = Some(Over::Error);
        } else if message.is_last {
            self.over = Some(Over::Ended(StreamEnd::Text));
        } else if plan.count == Some(self.messages) {
            self.over = Some(Over::Ended(StreamEnd::Count));
        }
        message.has_content && !std::mem::replace(&mut self.has_content, true)
    }
}

impl Messages {
    /// The head of a successful reply has arrived, with the first piece of its body.
    pub(in crate::engine) fn begin_stream(
        &mut self,
        id: RequestId,
        stamps: &Stamps,
        has_events: bool,
        recorder: &mut Recorder,
    ) -> After {
        if self.reading.is_none() {
            return After::Nothing;
        }
        self.stream(id.slot);
        let Some(reading) = self.reading.as_deref_mut() else { return After::Nothing };
        let stream = &mut self.streams[id.slot as usize];
        let intended = stamps.intended;
        (stream.id, stream.intended) = (id, intended);
        // Messages with a schedule were started before.
        if stream.times.is_none() {
            stream.ledger.clear();
        }
        let body = stream.body.get_or_insert_default();
        let mut reader = std::mem::take(&mut body.reader);
        reader.clear();
        let tokens = TokenBody::new(stamps, reading.plan.format == StreamFormat::Whole);
        **body = StreamBody { is_open: true, reader, tokens, ..StreamBody::default() };
        if reading.plan.format == StreamFormat::Sse && !has_events {
            body.over = Some(Over::Failed);
            reading.stopped.push(id);
            return After::Fault(Fault::NotAStream);
        }
        recorder.stream_began(intended);
        if reading.plan.time.is_some() {
            reading.begun.push(id);
            return After::Work;
        }
        After::Nothing
    }

    /// A piece of the body has arrived.
    pub(in crate::engine) fn read(
        &mut self,
        id: RequestId,
        piece: &[u8],
        now: Nanos,
        recorder: &mut Recorder,
    ) -> After {
        self.take(id, now, recorder, |reader, rules, each| {
            reader.read(rules, piece, each).map_err(|_| Fault::MessageTooLong)
        })
    }

    /// The last piece was the end of a chunk.
    pub(in crate::engine) fn chunk_ended(
        &mut self,
        id: RequestId,
        now: Nanos,
        recorder: &mut Recorder,
    ) -> After {
        self.take(id, now, recorder, |reader, rules, each| {
            reader.chunk_ended(rules).into_iter().for_each(each);
            Ok(())
        })
    }

    /// The reply is complete, or prony has ended it. `success`: its timestamps if it is a success.
    pub(in crate::engine) fn reply_ended(
        &mut self,
        id: RequestId,
        success: Option<&Stamps>,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        self.unsubscribed(id, now, recorder);
        let mut is_incomplete = false;
        self.take(id, now, recorder, |reader, rules, each| {
            match reader.end(rules) {
                Ending::Clean => {}
                Ending::Message(message) => each(message),
                Ending::Incomplete => is_incomplete = true,
            }
            Ok(())
        });
        let Some((stream, reading)) = self.open(id) else { return };
        let Some(body) = stream.body.as_deref_mut() else { return };
        body.is_open = false;
        if let (Some(tokens), Some(stamps)) = (&reading.plan.tokens, success) {
            recorder.tokens_replied(stamps, &body.tokens.reply(), &tokens.slo);
        }
        match body.over.unwrap_or(Over::Ended(StreamEnd::Server)) {
            Over::Ended(why) => recorder.stream_ended(stream.intended, why, body.messages),
            Over::Failed | Over::Error => {
                recorder.stream_failed(stream.intended, body.messages);
            }
        }
        if is_incomplete {
            recorder.stream_incomplete(stream.intended);
        }
    }

    /// The request has failed without a complete reply.
    pub(in crate::engine) fn stream_failed(
        &mut self,
        id: RequestId,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        self.unsubscribed(id, now, recorder);
        let Some((stream, _)) = self.open(id) else { return };
        let Some(body) = stream.body.as_deref_mut() else { return };
        body.is_open = false;
        recorder.stream_failed(stream.intended, body.messages);
    }

    /// Take a stream that has begun on the connection in slot `conn`. Returns it with the time
    /// after which it is ended, from the send of its request.
    pub(in crate::engine) fn take_begun(
        &mut self,
        conn: u32,
    ) -> Option<(RequestId, crate::units::Span)> {
        let reading = self.reading.as_deref_mut()?;
        let (id, time) = (reading.begun.pop()?, reading.plan.time?);
        self.stream(id.slot).conn = conn;
        Some((id, time))
    }

    /// Take a stream that is to be ended.
    pub(in crate::engine) fn take_stopped(&mut self) -> Option<RequestId> {
        self.reading.as_deref_mut()?.stopped.pop()
    }

    /// The open stream in this slot, and the slot of its connection.
    pub(in crate::engine) fn open_in(&self, slot: u32) -> Option<(RequestId, u32)> {
        let stream = self.streams.get(slot as usize)?;
        let is_open = stream.body.as_deref().is_some_and(|body| body.is_open);
        is_open.then_some((stream.id, stream.conn))
    }

    /// The stream has lasted its time: it is to be ended.
    pub(in crate::engine) fn has_lasted(&mut self, id: RequestId) {
        let Some((stream, reading)) = self.open(id) else { return };
        if let Some(body) = stream.body.as_deref_mut() {
            body.over.get_or_insert(Over::Ended(StreamEnd::Time));
            reading.stopped.push(id);
        }
    }

    /// Count the messages that `read` finds in an open stream.
    fn take(
        &mut self,
        id: RequestId,
        now: Nanos,
        recorder: &mut Recorder,
        read: impl FnOnce(&mut Reader, &Rules, &mut dyn FnMut(Message)) -> Result<(), Fault>,
    ) -> After {
        let Some((stream, reading)) = self.open(id) else { return After::Nothing };
        let (intended, ledger) = (stream.intended, &mut stream.ledger);
        let Some(body) = stream.body.as_deref_mut() else { return After::Nothing };
        if body.over.is_some() {
            return After::Nothing;
        }
        let mut reader = std::mem::take(&mut body.reader);
        let result = read(&mut reader, &reading.rules, &mut |message| {
            if body.over.is_some() {
                return;
            }
            let before = ledger.arrived(now);
            let is_first_content = body.count(message, &reading.plan);
            if reading.plan.tokens.is_some() {
                recorder.token_message(before, now);
                body.tokens.arrived(&message, now, recorder);
                return;
            }
            match before {
                None => recorder.first_message(intended, now.since(intended)),
                Some(before) => recorder.next_message(before, now),
            }
            if is_first_content {
                recorder.first_content(intended, now.since(intended));
            }
        });
        body.reader = reader;
        match (result, body.over) {
            (_, Some(Over::Error)) => {
                reading.stopped.push(id);
                After::Fault(Fault::ErrorMessage)
            }
            (_, Some(_)) => {
                reading.stopped.push(id);
                After::Work
            }
            (Ok(()), None) => After::Nothing,
            (Err(fault), None) => {
                body.over = Some(Over::Failed);
                reading.stopped.push(id);
                After::Fault(fault)
            }
        }
    }

    /// The stream of the exchange, if its body has begun and not ended.
    fn open(&mut self, id: RequestId) -> Option<(&mut super::messages::Stream, &mut Reading)> {
        let reading = self.reading.as_deref_mut()?;
        let stream = self.streams.get_mut(id.slot as usize)?;
        let is_open = stream.body.as_deref().is_some_and(|body| body.is_open);
        (stream.id == id && is_open).then_some((stream, reading))
    }
}
