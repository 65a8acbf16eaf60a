//! The times at which the messages of one stream are due.

use crate::plan::{MessageArrivals, MessagePlan};
use crate::rng::{self, Stream};
use crate::units::{Nanos, Span};

/// The schedule of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The intended start of the stream.
    start: Nanos,
    /// Its number, which distinguishes its random draws.
    number: u64,
    /// When the next message is due, from the start.
    next: Span,
    /// How many were taken.
    taken: u64,
    /// How many there are at most.
    count: u64,
    /// When the stream has no more messages, from the start.
    end: Option<Span>,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A message that was due at this time. `is_last`: the stream has no further one.
    Message {
        /// Its intended time.
        at: Nanos,
        /// Whether it is the last one.
        is_last: bool,
    },
    /// The end of a stream in whose time no message falls.
    End,
}

impl Times {
    /// The schedule of a stream that starts at `start`; `own` is the number of messages that its
    /// call has.
    pub fn new(plan: &MessagePlan, seed: u64, start: Nanos, number: u64, own: u64) -> Self {
        let count = plan.most(own);
        let mut times = Self { start, number, next: Span::ZERO, taken: 0, count, end: plan.time };
        times.next = times.fixed(plan);
        if plan.arrivals == MessageArrivals::Poisson {
            times.next = times.gap(plan, seed);
        }
        times
    }

    /// The schedule of a stream without messages, which ends at this time.
    pub fn silent(end: Nanos) -> Self {
        let (number, next, taken, count) = (0, Span::MAX, 0, 1);
        Self { start: end, number, next, taken, count, end: Some(Span::ZERO) }
    }

    /// When something is due next; `None`: never.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        if self.taken == self.count {
            return None;
        }
        Some(self.start + self.end.map_or(self.next, |end| self.next.min(end)))
    }

    /// Take what is due at `now`.
    pub fn take(&mut self, plan: &MessagePlan, seed: u64, now: Nanos) -> Option<Due> {
        let at = self.next().filter(|&at| at <= now)?;
        if !self.is_in_time() {
            self.taken = self.count;
            return Some(Due::End);
        }
        self.taken += 1;
        self.next = match plan.arrivals {
            // From the number, so that rounding does not add up.
            MessageArrivals::Fixed => self.fixed(plan),
            MessageArrivals::Poisson => self.next + self.gap(plan, seed),
        };
        let is_last = self.taken == self.count || !self.is_in_time();
        if is_last {
            self.taken = self.count;
        }
        Some(Due::Message { at, is_last })
    }

    fn is_in_time(&self) -> bool {
        self.end.is_none_or(|end| self.next < end)
    }

    /// When message `taken` is due, if times are fixed: messages of several streams in turn.
    fn fixed(&self, plan: &MessagePlan) -> Span {
        let over = u64::from(plan.over);
        let place = self.taken * over + self.number % over;
        Span((place as f64 * 1e9 / plan.rate).round() as u64)
    }

    fn gap(&self, plan: &MessagePlan, seed: u64) -> Span {
        let bits = rng::keyed(seed, Stream::Messages, self.number, self.taken);
        let unit = rng::exponential(bits, Span(1_000_000_000)).0 as f64;
        Span((unit * f64::from(plan.over) / plan.rate).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MessageReply;

    const START: Nanos = Nanos(1_000_000);

    fn plan(rate: f64, count: Option<u64>, time: Option<Span>) -> MessagePlan {
        let (arrivals, reply) = (MessageArrivals::Fixed, MessageReply::Usual);
        MessagePlan { rate, over: 1, arrivals, count, time, reply }
    }

    /// All that is due, each taken at its time.
    fn all(plan: &MessagePlan, own: u64) -> Vec<Due> {
        let mut times = Times::new(plan, 7, START, 3, own);
        let mut all = Vec::new();
        while let Some(at) = times.next() {
            assert_eq!(times.take(plan, 7, Nanos(at.0 - 1)), None);
            all.push(times.take(plan, 7, at).expect("it is due"));
        }
        assert_eq!(times.take(plan, 7, Nanos::MAX), None);
        all
    }

    fn message(ns: u64, is_last: bool) -> Due {
        Due::Message { at: START + Span(ns), is_last }
    }

    #[test]
    fn fixed_times_are_multiples_from_the_start() {
        let thirds = [message(0, false), message(333_333_333, false), message(666_666_667, true)];
        assert_eq!(all(&plan(3.0, None, None), 3), thirds);
        assert_eq!(all(&plan(3.0, Some(3), None), 1), thirds);
        // A message at the end of the time does not fall into it.
        assert_eq!(
            all(&plan(3.0, None, Some(Span(666_666_667))), 9),
            thirds[..1].iter().copied().chain([message(333_333_333, true)]).collect::<Vec<_>>()
        );
        assert_eq!(all(&plan(3.0, Some(2), Some(Span::from_secs(9))), 9).len(), 2);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_depend_on_the_stream() {
        let poisson =
            MessagePlan { arrivals: MessageArrivals::Poisson, ..plan(1_000.0, Some(20_000), None) };
        let due = all(&poisson, 1);
        let Some(Due::Message { at, is_last: true }) = due.last() else { panic!("{due:?}") };
        let mean = at.since(START).0 as f64 / 20_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        let first = |number| Times::new(&poisson, 7, START, number, 1).next();
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn a_stream_without_a_message_in_its_time_ends() {
        let poisson = MessagePlan { arrivals: MessageArrivals::Poisson, ..plan(1e-3, None, None) };
        let short = MessagePlan { time: Some(Span(1_000)), ..poisson };
        assert_eq!(all(&short, 1), [Due::End]);
        assert_eq!(Times::new(&short, 7, START, 3, 1).next(), Some(START + Span(1_000)));
    }

    /// Streams with a rate together: the times of all are those of one stream with that rate.
    #[test]
    fn streams_take_turns() {
        let alone = plan(30.0, Some(12), None);
        let shared = MessagePlan { over: 4, count: Some(3), ..alone };
        let due = |plan: &MessagePlan, number| {
            let mut times = Times::new(plan, 7, START, number, 1);
            let mut all = Vec::new();
            while let Some(due) = times.take(plan, 7, Nanos::MAX) {
                let Due::Message { at, .. } = due else { panic!("{due:?}") };
                all.push(at);
            }
            all
        };
        let mut all: Vec<Nanos> = (0..4).flat_map(|number| due(&shared, number)).collect();
        all.sort_unstable();
        assert_eq!(all, due(&alone, 0));
        assert_eq!(shared.length(1), Span(400_000_000));
        let poisson =
            MessagePlan { arrivals: MessageArrivals::Poisson, count: Some(20_000), ..shared };
        let last = due(&poisson, 2).pop().expect("messages");
        let mean = last.since(START).0 as f64 / 20_000.0;
        assert!((mean / (4e9 / 30.0) - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn a_silent_stream_only_ends() {
        let plan = plan(10.0, None, None);
        let mut times = Times::silent(START);
        assert_eq!((times.next(), times.take(&plan, 7, Nanos(START.0 - 1))), (Some(START), None));
        assert_eq!((times.take(&plan, 7, START), times.next()), (Some(Due::End), None));
    }
}
