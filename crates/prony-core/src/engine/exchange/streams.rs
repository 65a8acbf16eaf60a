//! Bodies of replies that are streams of messages: each piece that arrives, and when they end.

use std::sync::Arc;

use super::ended::{EndedRequest, EndedStream};
use super::messages::{Messages, Stream};
use super::reading::{Over, Reading, Stage};
use super::tokens::Uncounted;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_plan::events::{Ending, Message, Reader, Rules};
use prony_plan::plan::StreamFormat;
use prony_plan::tokenizer::CountTokens;
use prony_tally::record::{CallStart, Recorder, Stamps, StreamEnd};

/// What follows from a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum After {
    Nothing,
    /// The streams in the lists of [`Messages`] need something.
    Work,
    /// The reply has this fault, and is not read to its end.
    Fault(Fault),
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
        let continues = stream.continues(id);
        (stream.id, stream.intended) = (id, intended);
        // Messages with a schedule were started before.
        if stream.times.is_none() && !continues {
            stream.ledger.clear();
        }
        let body = stream.body.get_or_insert_default();
        if continues {
            body.continues(intended, recorder);
        } else {
            body.begins(stamps, reading);
        }
        if reading.plan.format == StreamFormat::Sse && !has_events {
            body.over = Some(Over::Failed);
            reading.stopped.push(id);
            return After::Fault(Fault::NotAStream);
        }
        if !continues {
            recorder.stream_began(intended);
        }
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
        if let Some((stream, _)) = self.open(id)
            && let Some(body) = stream.body.as_deref_mut()
        {
            body.bytes += piece.len() as u64;
        }
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

    /// The body of a reply with this status is complete, or prony has ended it. What follows is a
    /// fault of a body in one piece that reports an error, and of a stream without its end.
    pub(in crate::engine) fn body_ended(
        &mut self,
        id: RequestId,
        status: u16,
        now: Nanos,
        recorder: &mut Recorder,
    ) -> After {
        let mut is_incomplete = false;
        let after = self.take(id, now, recorder, |reader, rules, each| {
            match reader.end(rules) {
                Ending::Clean => {}
                Ending::Message(message) => each(message),
                Ending::Incomplete => is_incomplete = true,
            }
            Ok(())
        });
        if let Some((stream, reading)) = self.unfinished(id) {
            let Some(body) = stream.body.as_deref_mut() else { return after };
            body.is_incomplete = is_incomplete;
            let is_cut = body.over.is_none() && !body.has_ended_well(&reading.plan);
            if !is_cut || !reading.plan.must_end() {
                return after;
            }
            body.over = Some(Over::Failed);
            return After::Fault(Fault::TruncatedStream);
        }
        // A body without a byte is no stream that has begun.
        let must_end = self.reading.as_deref().is_some_and(|reading| reading.plan.must_end());
        match must_end && (200..=299).contains(&status) {
            true => After::Fault(Fault::TruncatedStream),
            false => after,
        }
    }

    /// The stream of the exchange, which ends now. None if its body has not begun.
    pub(in crate::engine) fn ended_stream(
        &mut self,
        id: RequestId,
        is_success: bool,
    ) -> Option<EndedStream> {
        let (stream, reading) = self.unfinished(id)?;
        let body = stream.body.as_deref()?;
        let model = reading.plan.tokens.as_ref().map(|_| body.reply());
        let reply = model.filter(|_| is_success);
        Some(EndedStream {
            messages: body.size().0,
            times: body.times(),
            first_content: body.first_content(),
            first_token: model.and_then(|reply| reply.first),
            reply,
            is_uncounted: reading.tokenizer.is_some()
                && reply.is_some_and(|reply| reply.output.is_none()),
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
        let Some((stream, reading)) = self.unfinished(id) else { return };
        let Some(body) = stream.body.as_deref_mut() else { return };
        let has_begun = body.stage == Stage::Open;
        body.stage = Stage::Closed;
        if !has_begun && success.is_none() {
            return recorder.stream_failed(stream.intended, body.size());
        }
        if let (Some(tokens), Some(stamps)) = (&reading.plan.tokens, success) {
            let reply = body.reply();
            if reading.tokenizer.is_some() && reply.output.is_none() {
                let output = body.reader.output().into();
                reading.uncounted.push(Uncounted { stamps: *stamps, reply, output, ended: None });
            } else {
                recorder.tokens_replied(stamps, &reply, &tokens.slo);
            }
        }
        match body.over.unwrap_or(Over::Ended(StreamEnd::Server)) {
            Over::Ended(why) => recorder.stream_ended(stream.intended, why, body.size()),
            Over::Failed | Over::Error => {
                recorder.stream_failed(stream.intended, body.size());
            }
        }
        if body.is_incomplete {
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
        let Some((stream, _)) = self.unfinished(id) else { return };
        let Some(body) = stream.body.as_deref_mut() else { return };
        body.stage = Stage::Closed;
        recorder.stream_failed(stream.intended, body.size());
    }

    /// Take a stream that has begun on the connection in slot `conn`. Returns it with the time
    /// after which it is ended, from the send of its request.
    pub(in crate::engine) fn take_begun(
        &mut self,
        conn: u32,
    ) -> Option<(RequestId, prony_base::units::Span)> {
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
        let is_open = stream.body.as_deref().is_some_and(|body| body.stage == Stage::Open);
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
            let is_first_content = body.count(message, &reading.plan, now);
            if reading.plan.tokens.is_some() {
                recorder.token_message(before, now);
                body.tokens.arrived(&message, now, recorder);
                return;
            }
            let since = body.reconnect.as_deref_mut().and_then(|reconnect| {
                reconnect.arrived(message.id, intended, recorder);
                reconnect.take_lost_at()
            });
            let start = CallStart { intended, ..body.start };
            match (before, since) {
                (None, _) => recorder.first_message(start, now),
                (_, Some(lost_at)) => recorder.first_message_again(intended, lost_at, now),
                (Some(before), None) => recorder.next_message(before, now),
            }
            if is_first_content {
                recorder.first_content(start, now);
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

    /// Whether the stream of the exchange has reached a bound of the plan.
    pub(super) fn is_bounded(&mut self, id: RequestId) -> bool {
        let over = |stream: &Stream| stream.body.as_deref().and_then(|body| body.over);
        let over = self.unfinished(id).and_then(|(stream, _)| over(stream));
        matches!(over, Some(Over::Ended(_)))
    }

    /// The stream of the exchange, if its body is being read.
    fn open(&mut self, id: RequestId) -> Option<(&mut Stream, &mut Reading)> {
        self.unfinished(id).filter(|(stream, _)| stream.stage() == Stage::Open)
    }

    /// The stream of the exchange, if it has begun and not ended.
    pub(super) fn unfinished(&mut self, id: RequestId) -> Option<(&mut Stream, &mut Reading)> {
        let reading = self.reading.as_deref_mut()?;
        let stream = self.streams.get_mut(id.slot as usize)?;
        let has_begun = stream.stage() != Stage::Closed;
        (stream.id == id && has_begun).then_some((stream, reading))
    }

    /// Count the tokens of replies that do not say how many they have, in the end.
    pub(in crate::engine) fn set_tokenizer(&mut self, tokenizer: Arc<dyn CountTokens>) {
        if let Some(reading) = self.reading.as_deref_mut() {
            reading.rules.keep_output();
            reading.tokenizer = Some(tokenizer);
        }
    }

    /// An observer waits for the tokens of the reply that has ended last.
    pub(in crate::engine) fn keep_uncounted(&mut self, request: &EndedRequest) {
        if let Some(last) = self.reading.as_deref_mut().and_then(|r| r.uncounted.last_mut()) {
            last.ended = Some(Box::new(*request));
        }
    }

    /// Count them now: the load is over. An observer that waits for them gets them, too.
    pub(in crate::engine) fn count_tokens(
        &mut self,
        recorder: &mut Recorder,
        observe: &mut dyn FnMut(&EndedRequest),
    ) {
        let Some(reading) = self.reading.as_deref_mut() else { return };
        let (Some(tokenizer), Some(tokens)) = (&reading.tokenizer, &reading.plan.tokens) else {
            return;
        };
        for mut uncounted in reading.uncounted.drain(..) {
            uncounted.record(&**tokenizer, &tokens.slo, recorder);
            uncounted.show(observe);
        }
    }
}
