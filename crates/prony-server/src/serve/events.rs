//! Replies that are streams of server-sent events.

use std::io::Write as _;

use prony_base::rng::{self, Stream};
use prony_base::units::{Nanos, Span};

use super::behavior::EventBehavior;
use super::model::{Model, Prompt};
use super::out::{Counted, Out};
use super::reply::{After, Connection, Reply};
use super::request::{Head, Route};
use super::served::Served;
use super::station::Ticket;
use super::work::{EVENTS_AHEAD, not_too_late};
use super::{Draw, Serve};

/// A stream of events that is being sent.
#[derive(Debug)]
pub(super) struct Events {
    spec: EventBehavior,
    /// The reply of a language model, if it is one.
    model: Option<Model>,
    /// The number of the request.
    number: u64,
    /// How many events it has, how many are due and how many are written; those before it continues
    /// count in all three.
    count: u64,
    due: u64,
    written: u64,
    /// Whether its last event is cut in the middle, and the end of the body is missing.
    pub(super) is_cut: bool,
    has_head: bool,
    /// Whether events are chunks; otherwise the body ends with the connection.
    chunked: bool,
    says_close: bool,
    /// What happens to the connection after it.
    pub(super) after: After,
    /// With HTTP/2: an event that is not completely sent, and its part that is.
    pub(super) piece: Vec<u8>,
    pub(super) at: usize,
    /// When the last event was due, if the next one has no timer until some are written.
    parked: Option<Nanos>,
}

impl Events {
    fn new(
        spec: EventBehavior,
        number: u64,
        (start, count): (u64, u64),
        is_http10: bool,
        reply: &Reply,
    ) -> Self {
        Self {
            spec,
            model: None,
            number,
            count: if reply.cut { start + (count - start).div_ceil(2) } else { count },
            due: start,
            written: start,
            is_cut: reply.cut,
            has_head: false,
            chunked: !is_http10,
            says_close: is_http10 || reply.connection == Connection::Close,
            after: if is_http10 { After::Close } else { reply.after },
            piece: Vec::new(),
            at: 0,
            parked: None,
        }
    }

    /// The next event was due at `at`, and is the last one if the stream `ends`. Returns the number
    /// of the request and that of the event after it, if that one has a timer now.
    pub(super) fn is_due(&mut self, ends: bool, at: Nanos) -> Option<(u64, u64)> {
        self.due += 1;
        if ends {
            self.count = self.due;
            if let Some(model) = &mut self.model {
                let written = self.due.saturating_sub(self.spec.empty) * self.spec.tokens;
                model.output = model.output.min(written);
            }
        }
        if self.due >= self.count {
            return None;
        }
        if !self.is_whole() && self.due - self.written >= EVENTS_AHEAD {
            self.parked = Some(at);
            return None;
        }
        Some((self.number, self.due))
    }

    /// If the next event has no timer, and enough of those before it are written: what `is_due`
    /// would have returned, and when the last one was due.
    pub(super) fn unpark(&mut self) -> Option<((u64, u64), Nanos)> {
        if self.parked.is_none() || self.due - self.written > EVENTS_AHEAD / 2 {
            return None;
        }
        self.parked.take().map(|at| ((self.number, self.due), at))
    }

    /// Whether the reply is sent in one piece, when its last event is due.
    pub(super) fn is_whole(&self) -> bool {
        self.model.is_some_and(|model| !model.prompt.streams)
    }

    /// Whether nothing of it may be written yet.
    pub(super) fn must_wait(&self) -> bool {
        self.is_whole() && self.due < self.count
    }

    /// Whether there is something to write.
    pub(super) fn has_more(&self) -> bool {
        if self.must_wait() {
            return false;
        }
        !self.has_head || self.written < self.due || self.at < self.piece.len()
    }

    /// Whether all events are written.
    pub(super) fn is_over(&self) -> bool {
        self.written == self.count
    }

    /// Whether the head must be written first, which is done now.
    pub(super) fn starts(&mut self) -> bool {
        !std::mem::replace(&mut self.has_head, true)
    }

    /// Append the next event that is due. Returns whether there is one.
    pub(super) fn next(&mut self, out: &mut Vec<u8>, served: &mut u64) -> bool {
        if self.written == self.due {
            return false;
        }
        if let Some(model) = self.model {
            self.next_of_model(&model, out, served);
            return true;
        }
        self.written += 1;
        let (n, start) = (self.written, out.len());
        if self.spec.pings {
            out.extend_from_slice(b": ping\n\n");
        }
        if let Some(retry) = self.spec.retry.take() {
            writeln!(out, "retry: {}", retry.0 / 1_000_000).expect("a Vec takes all");
        }
        let word = if n > self.spec.empty { format_args!("w{n} ") } else { format_args!("") };
        write!(
            out,
            "id: {n}\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"{word}\"}}}}]}}\n\n"
        )
        .expect("a Vec takes all");
        if self.is_cut && self.is_over() {
            out.truncate(out.len() - (out.len() - start) / 3);
        } else {
            *served += 1;
        }
        true
    }

    /// Append the next event of a language model, or its whole reply.
    fn next_of_model(&mut self, model: &Model, out: &mut Vec<u8>, served: &mut u64) {
        let start = out.len();
        self.written = if model.prompt.streams { self.written + 1 } else { self.count };
        let (n, is_last) = (self.written, self.is_over());
        if model.prompt.streams {
            if n == 1 {
                model.begin(out);
            }
            let empty = self.spec.empty.min(n);
            let before = (n - 1).saturating_sub(empty) * self.spec.tokens;
            let after =
                if is_last && !self.is_cut { model.output } else { (n - empty) * self.spec.tokens };
            model.text(before + 1..=after, out);
            if is_last && !self.is_cut {
                model.end(out);
            }
        } else {
            model.whole(out);
        }
        if self.is_cut && is_last {
            out.truncate(out.len() - (out.len() - start) / 3);
        } else {
            *served += if model.prompt.streams { 1 } else { self.count };
        }
    }

    /// The reply of a language model with `count` events; with fewer, or more, if that was asked
    /// for.
    fn of_model(mut self, prompt: Prompt, count: u64) -> Self {
        let empty = self.spec.empty.min(count - 1);
        let tokens = prompt.tokens((count - empty) * self.spec.tokens);
        let count = empty + tokens.div_ceil(self.spec.tokens);
        self.spec.empty = empty;
        self.count = if self.is_cut { count.div_ceil(2) } else { count };
        self.model = Some(Model { prompt, number: self.number, output: tokens });
        self
    }

    /// Write a reply in one piece with HTTP/1.
    fn write_whole(&mut self, out: &mut Out, served: &mut Served) -> bool {
        let mut piece = std::mem::take(&mut self.piece);
        self.next(&mut piece, &mut served.events);
        let length = piece.len() + usize::from(self.is_cut);
        let close = if self.says_close { "Connection: close\r\n" } else { "" };
        let bytes = out.bytes();
        write!(
            bytes,
            "HTTP/1.1 200 OK\r\nServer: prony\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{close}\r\n"
        )
        .expect("a Vec takes all");
        bytes.extend_from_slice(&piece);
        if self.is_cut {
            self.after = After::Close;
            out.count(Counted::Truncated);
        } else {
            out.count(Counted::Reply(200));
        }
        true
    }

    /// Write what is due with HTTP/1. Returns whether that was all.
    pub(super) fn write(&mut self, out: &mut Out, served: &mut Served) -> bool {
        if self.must_wait() {
            return false;
        }
        if self.is_whole() {
            return self.write_whole(out, served);
        }
        if self.starts() {
            let framing = if self.chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
            let close = if self.says_close { "Connection: close\r\n" } else { "" };
            write!(
                out.bytes(),
                "HTTP/1.1 200 OK\r\nServer: prony\r\nContent-Type: text/event-stream\r\n\
                 Cache-Control: no-cache\r\n{framing}{close}\r\n"
            )
            .expect("a Vec takes all");
        }
        let mut piece = std::mem::take(&mut self.piece);
        while out.has_room() && self.next(&mut piece, &mut served.events) {
            let bytes = out.bytes();
            if self.chunked {
                write!(bytes, "{:x}\r\n", piece.len()).expect("a Vec takes all");
            }
            bytes.extend_from_slice(&piece);
            if self.chunked {
                bytes.extend_from_slice(b"\r\n");
            }
            piece.clear();
        }
        self.piece = piece;
        if !self.is_over() {
            return false;
        }
        if self.is_cut {
            self.after = After::Close;
            out.count(Counted::Truncated);
            return true;
        }
        if self.chunked {
            out.bytes().extend_from_slice(b"0\r\n\r\n");
        }
        out.count(Counted::Reply(200));
        true
    }
}

impl Serve {
    /// Whether the body of a request is needed for its reply.
    pub(super) fn keeps_body(&self, head: &Head) -> bool {
        match head.route {
            Route::Echo => true,
            Route::Model(_) => self.behavior.sse.is_some(),
            _ => false,
        }
    }

    /// What a request asks of a language model, if it is one to it.
    ///
    /// # Errors
    /// The body is no such request.
    pub(super) fn prompt(head: &Head, body: &[u8]) -> Result<Option<Prompt>, &'static str> {
        match head.route {
            Route::Model(api) if head.has_body => match Prompt::parse(api, body) {
                Some(prompt) if prompt.is_too_long() => {
                    Err("max_tokens over 131072 with ignore_eos, but without stream\n")
                }
                Some(prompt) => Ok(Some(prompt)),
                None => Err("the body is not a JSON object\n"),
            },
            _ => Ok(None),
        }
    }

    /// The stream that answers a request, if streams answer such requests.
    pub(super) fn events(
        &self,
        head: &Head,
        number: u64,
        prompt: Option<Prompt>,
        reply: &Reply,
    ) -> Option<Box<Events>> {
        let is_streamed = self.is_streamed(head, number) && reply.status == 200;
        let spec = self.behavior.sse.filter(|_| is_streamed)?;
        let count = self.draw_count(number, Draw::Count, spec.count);
        if let Some(prompt) = prompt {
            let events = Events::new(spec, number, (0, count), head.is_http10, reply);
            return Some(Box::new(events.of_model(prompt, count)));
        }
        let start = head.last_event.unwrap_or(0);
        let cut = spec.cut.map(|cut| start.saturating_add(self.draw_count(number, Draw::Cut, cut)));
        let count = cut.map_or(count, |cut| count.min(cut));
        Some(Box::new(Events::new(spec, number, (start, count), head.is_http10, reply)))
    }

    /// Draw a number from a range.
    fn draw_count(&self, number: u64, what: Draw, (low, high): (u64, u64)) -> u64 {
        let draw = rng::keyed(self.seed, Stream::Serve, number, what as u64);
        let count = low + (rng::unit(draw) * (high - low + 1) as f64) as u64;
        count.min(high)
    }

    /// Whether a request is answered with a stream, and whether its client has had all events of
    /// that: it is to stop.
    pub(super) fn streams(&self, head: &Head, number: u64) -> (bool, bool) {
        let is_streamed = self.is_streamed(head, number);
        let (Some(spec), Some(last)) = (self.behavior.sse, head.last_event) else {
            return (is_streamed, false);
        };
        let count = self.draw_count(number, Draw::Count, spec.count);
        (is_streamed, is_streamed && last >= count)
    }

    /// Whether a request is answered with a stream.
    pub(super) fn is_streamed(&self, head: &Head, number: u64) -> bool {
        let draw = || rng::keyed(self.seed, Stream::Serve, number, Draw::Status as u64);
        self.behavior.sse.is_some()
            && matches!(head.route, Route::Default | Route::Model(_))
            && !head.is_head
            && self.behavior.statuses.draw(draw()) == 200
    }

    /// The time before event `k` of a request, from 0, since the event before it.
    pub(super) fn event_time(&self, number: u64, k: u64, now: Nanos) -> Span {
        let Some(spec) = self.behavior.sse else { return Span::ZERO };
        let draw = |what| rng::keyed(self.seed, Stream::Serve, number, k << 8 | what as u64);
        let times = if k == 0 { spec.first } else { spec.gap };
        let time = times.draw(draw(Draw::Latency), draw(Draw::Latency2));
        match self.behavior.factor(self.station.since_first(now)) {
            1.0 => time,
            factor => Span::from_secs_f64(time.as_secs_f64() * factor),
        }
    }

    /// If this is a stream, its next event was due at `at`.
    pub(super) fn event_is_due(&mut self, ticket: Ticket, at: Nanos, now: Nanos) {
        let ends = self.slots.is_stopping();
        let events = self.conn(ticket.id).and_then(|c| c.events(ticket.entry));
        let next = events.and_then(|events| events.is_due(ends, at));
        self.follow_event(next, ticket, at, now);
    }

    /// The event after one that was due at `at`, and is handled now.
    pub(super) fn follow_event(
        &mut self,
        next: Option<(u64, u64)>,
        ticket: Ticket,
        at: Nanos,
        now: Nanos,
    ) {
        if let Some((number, k)) = next {
            let at = not_too_late(at, now);
            let gap = self.event_time(number, k, at);
            self.station.follow(at, ticket, gap);
        }
    }
}
