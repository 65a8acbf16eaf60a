//! The times at which the messages of one stream are due.

use crate::plan::MessagePlan;
use crate::schedule::{ArrivalProcess, Arrivals};
use prony_base::rng::{self, Sequence, Stream};
use prony_base::units::{Nanos, Span};

/// The schedule of one stream.
#[derive(Clone, Debug)]
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
    /// The process of a rate that changes, or of other times than constant and exponential ones.
    process: Option<Box<ArrivalProcess>>,
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
        let (count, end, next) = (plan.most(own), plan.end(), Span::ZERO);
        let mut times = Self { start, number, next, taken: 0, count, end, process: None };
        let is_simple = matches!(plan.arrivals, Arrivals::Fixed | Arrivals::Poisson)
            && plan.rate.as_constant().is_some();
        if !is_simple {
            times.process = Some(Box::new(process(plan, seed, number)));
        }
        match times.following(plan, seed) {
            Some(first) => times.next = first,
            // There is none, and an end must come.
            None => {
                times.next = Span::MAX;
                times.end.get_or_insert(Span::ZERO);
            }
        }
        times
    }

    /// The schedule of a stream without messages, which ends at this time.
    pub fn silent(end: Nanos) -> Self {
        let (number, next, taken, count) = (0, Span::MAX, 0, 1);
        Self { start: end, number, next, taken, count, end: Some(Span::ZERO), process: None }
    }

    /// Whether it has no messages, but an end.
    pub fn is_silent(&self) -> bool {
        self.next == Span::MAX && self.end == Some(Span::ZERO)
    }

    /// End the schedule at this time, if it does not end before: what is due before remains.
    pub fn end_at(&mut self, at: Nanos) {
        if at < self.start {
            (self.start, self.next) = (at, Span::MAX);
        }
        let length = at.since(self.start);
        self.end = Some(self.end.map_or(length, |end| end.min(length)));
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
        let following = self.following(plan, seed);
        self.next = following.unwrap_or(Span::MAX);
        let is_last = self.taken == self.count || following.is_none() || !self.is_in_time();
        if is_last {
            self.taken = self.count;
        }
        Some(Due::Message { at, is_last })
    }

    /// Take all messages that are left, due or not. Returns how many there are.
    pub fn take_rest(&mut self, plan: &MessagePlan, seed: u64) -> u64 {
        let is_fixed = self.process.is_none() && matches!(plan.arrivals, Arrivals::Fixed);
        if is_fixed && self.taken < self.count && self.is_in_time() {
            let all =
                self.end.map_or(self.count, |end| self.count.min(self.fixed_before(plan, end)));
            return all - std::mem::replace(&mut self.taken, self.count).min(all);
        }
        let mut rest = 0;
        while let Some(due) = self.take(plan, seed, Nanos::MAX) {
            rest += u64::from(matches!(due, Due::Message { .. }));
        }
        rest
    }

    /// How many messages of a schedule with fixed times are due before `end`.
    fn fixed_before(&self, plan: &MessagePlan, end: Span) -> u64 {
        let (rate, over) = (plan.rate.initial(), u64::from(plan.over));
        let places = end.0 as f64 * rate / 1e9 - (self.number % over) as f64;
        // Rounding can hide one.
        let mut all = ((places / over as f64) as u64).saturating_sub(1);
        while self.fixed(plan, rate, all) < end {
            all += 1;
        }
        all
    }

    /// When message `taken` is due; `None`: there is no such message.
    fn following(&mut self, plan: &MessagePlan, seed: u64) -> Option<Span> {
        if let Some(process) = &mut self.process {
            let others = match self.taken {
                0 => self.number % u64::from(plan.over),
                _ => u64::from(plan.over) - 1,
            };
            return process.next(others);
        }
        let rate = plan.rate.initial();
        Some(match plan.arrivals {
            Arrivals::Poisson => self.next + self.gap(plan, rate, seed),
            // From the number, so that rounding does not add up.
            _ => self.fixed(plan, rate, self.taken),
        })
    }

    fn is_in_time(&self) -> bool {
        self.end.is_none_or(|end| self.next < end)
    }

    /// When message `k` is due, if times are fixed: messages of several streams in turn.
    fn fixed(&self, plan: &MessagePlan, rate: f64, k: u64) -> Span {
        let over = u64::from(plan.over);
        let place = k * over + self.number % over;
        Span((place as f64 * 1e9 / rate).round() as u64)
    }

    fn gap(&self, plan: &MessagePlan, rate: f64, seed: u64) -> Span {
        let bits = rng::keyed(seed, Stream::Messages, self.number, self.taken);
        let unit = rng::exponential(bits, Span(1_000_000_000)).0 as f64;
        Span((unit * f64::from(plan.over) / rate).round() as u64)
    }
}

/// The process of one stream. Streams with one schedule together draw the same times, and each
/// takes every n-th: those that follow them on their connections draw others.
fn process(plan: &MessagePlan, seed: u64, number: u64) -> ArrivalProcess {
    let draws = Sequence::numbered(seed, Stream::Messages, number / u64::from(plan.over));
    ArrivalProcess::new(&plan.rate, &plan.arrivals, draws)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::RatePlan;

    const START: Nanos = Nanos(1_000_000);

    fn plan(rate: f64, count: Option<u64>, time: Option<Span>) -> MessagePlan {
        MessagePlan::fixed(rate, count, time)
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

    /// What is due before the end remains; an end that comes before the start comes at once.
    #[test]
    fn a_schedule_can_end_early() {
        let plan = MessagePlan::fixed(10.0, Some(50), None);
        let at = |ms: u64| START + Span::from_millis(ms);
        let mut times = Times::new(&plan, 7, START, 0, 1);
        times.end_at(at(150));
        let take = |times: &mut Times, now| times.take(&plan, 7, now);
        let first = Due::Message { at: at(0), is_last: false };
        assert_eq!(take(&mut times, at(150)), Some(first));
        let second = Due::Message { at: at(100), is_last: true };
        assert_eq!((take(&mut times, at(150)), times.next()), (Some(second), None));
        times.end_at(at(120));
        assert_eq!((take(&mut times, at(900)), times.next()), (None, None));

        // After the last message before it, only the end is due.
        let mut times = Times::new(&plan, 7, START, 0, 1);
        assert_eq!((take(&mut times, at(0)), times.next()), (Some(first), Some(at(100))));
        times.end_at(at(50));
        assert_eq!((times.next(), times.is_silent()), (Some(at(50)), false));
        assert_eq!((take(&mut times, at(50)), times.next()), (Some(Due::End), None));

        let mut times = Times::new(&plan, 7, at(1_000), 0, 1);
        times.end_at(at(10));
        assert_eq!((times.next(), take(&mut times, at(10))), (Some(at(10)), Some(Due::End)));
        let mut times = Times::silent(at(1_000));
        times.end_at(at(2_000));
        assert_eq!((times.next(), times.is_silent()), (Some(at(1_000)), true));
        times.end_at(at(700));
        assert_eq!((times.next(), take(&mut times, at(700))), (Some(at(700)), Some(Due::End)));
    }

    /// The rest of a schedule is what would be taken of it one by one.
    #[test]
    fn the_rest_is_counted_as_it_is_taken() {
        let poisson = MessagePlan { arrivals: Arrivals::Poisson, ..plan(300.0, None, None) };
        let turns = MessagePlan { over: 4, ..plan(30.0, None, None) };
        let seconds = |plan: &MessagePlan, ms| MessagePlan {
            time: Some(Span::from_millis(ms)),
            ..plan.clone()
        };
        for plan in [
            plan(3.0, Some(9), None),
            plan(3.0, Some(9), Some(Span(666_666_667))),
            plan(1e9, Some(5_000), Some(Span(700))),
            plan(0.1, None, Some(Span(3))),
            seconds(&plan(7.0, None, None), 9_999),
            seconds(&turns, 1_234),
            seconds(&poisson, 777),
            MessagePlan { count: Some(20), ..poisson },
        ] {
            for taken in [0, 1, 7, 100_000] {
                for ended in [None, Some(START + Span(333_333_334))] {
                    let mut one_by_one = Times::new(&plan, 7, START, 2, 1);
                    if let Some(at) = ended {
                        one_by_one.end_at(at);
                    }
                    let take = |times: &mut Times| {
                        matches!(times.take(&plan, 7, Nanos::MAX), Some(Due::Message { .. }))
                    };
                    (0..taken).for_each(|_| _ = take(&mut one_by_one));
                    let mut rest = one_by_one.clone();
                    let left = (0..).take_while(|_| take(&mut one_by_one)).count() as u64;
                    assert_eq!(rest.take_rest(&plan, 7), left, "{plan:?} {taken} {ended:?}");
                    assert_eq!((rest.next(), rest.take_rest(&plan, 7)), (None, 0));
                }
            }
        }
        let start = Nanos(1);
        assert_eq!(Times::silent(start).take_rest(&plan(3.0, None, None), 7), 0);
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
            MessagePlan { arrivals: Arrivals::Poisson, ..plan(1_000.0, Some(20_000), None) };
        let due = all(&poisson, 1);
        let Some(Due::Message { at, is_last: true }) = due.last() else { panic!("{due:?}") };
        let mean = at.since(START).0 as f64 / 20_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        let first = |number| Times::new(&poisson, 7, START, number, 1).next();
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn a_stream_without_a_message_in_its_time_ends() {
        let poisson = MessagePlan { arrivals: Arrivals::Poisson, ..plan(1e-3, None, None) };
        let short = MessagePlan { time: Some(Span(1_000)), ..poisson };
        assert_eq!(all(&short, 1), [Due::End]);
        assert_eq!(Times::new(&short, 7, START, 3, 1).next(), Some(START + Span(1_000)));
    }

    /// Streams with a rate together: the times of all are those of one stream with that rate.
    #[test]
    fn streams_take_turns() {
        let alone = plan(30.0, Some(12), None);
        let shared = MessagePlan { over: 4, count: Some(3), ..alone.clone() };
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
        let poisson = MessagePlan { arrivals: Arrivals::Poisson, count: Some(20_000), ..shared };
        let last = due(&poisson, 2).pop().expect("messages");
        let mean = last.since(START).0 as f64 / 20_000.0;
        assert!((mean / (4e9 / 30.0) - 1.0).abs() < 0.02, "{mean}");
    }

    fn at(plan: &MessagePlan, number: u64) -> Vec<u64> {
        let mut times = Times::new(plan, 7, START, number, 1);
        std::iter::from_fn(|| times.take(plan, 7, Nanos::MAX))
            .filter_map(|due| match due {
                Due::Message { at, .. } => Some(at.since(START).0),
                Due::End => None,
            })
            .collect()
    }

    /// Steps and ramps: message k is due when the integral of the rate reaches k, until the rate
    /// ends.
    #[test]
    fn rates_may_change() {
        let rate: RatePlan = "10@1s,0..20@2s".parse().expect("a rate");
        let plan = MessagePlan { rate, ..plan(1.0, None, None) };
        let due = at(&plan, 3);
        // 10 in the step, of which the last is due at 0.9 s, and 20 in the ramp: t^2 * 5 = k.
        assert_eq!(due.len(), 30);
        assert_eq!(due[..3], [0, 100_000_000, 200_000_000]);
        for (k, at) in due[10..].iter().enumerate() {
            let expected = 1e9 + (k as f64 / 5.0).sqrt() * 1e9;
            assert!((*at as f64 - expected).abs() < 2.0, "{k}: {at} {expected}");
        }
        assert_eq!(all(&plan, 1).last(), Some(&message(due[29], true)));
        assert_eq!((plan.end(), plan.length(1)), (Some(Span::from_secs(3)), Span::from_secs(3)));
        // A time and a number of messages are further bounds.
        let short = MessagePlan { time: Some(Span(250_000_000)), ..plan.clone() };
        assert_eq!(at(&short, 3), due[..3]);
        assert_eq!(at(&MessagePlan { count: Some(12), ..plan }, 3), due[..12]);
    }

    /// Other processes than constant and exponential ones: their means and variances.
    #[test]
    fn gaps_have_the_distribution_of_their_process() {
        let gaps = |arrivals: Arrivals| {
            let rate =
                if arrivals.has_rate() { RatePlan::constant(1e3) } else { RatePlan::default() };
            let plan = MessagePlan { rate, arrivals, ..plan(1.0, Some(40_000), None) };
            let due = at(&plan, 5);
            let gaps: Vec<f64> = std::iter::once(due[0])
                .chain(due.windows(2).map(|two| two[1] - two[0]))
                .map(|gap| gap as f64 / 1e6)
                .collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            (mean, variance / gaps.len() as f64, at(&plan, 6) != due)
        };
        for (arrivals, mean, variance) in [
            (Arrivals::Gamma(0.5), 1.0, 2.0),
            (Arrivals::Gamma(4.0), 1.0, 0.25),
            (Arrivals::Uniform(Span(0), Span(3_000_000)), 1.5, 0.75),
        ] {
            let (measured, spread, differs) = gaps(arrivals.clone());
            assert!((measured / mean - 1.0).abs() < 0.02, "{arrivals}: {measured}");
            assert!((spread / variance - 1.0).abs() < 0.06, "{arrivals}: {spread}");
            assert!(differs, "{arrivals}: each stream has its own");
        }
    }

    /// Whatever the process and the rate: the times of all streams together are those of one stream
    /// with that schedule.
    #[test]
    fn one_schedule_is_dealt_to_all_streams() {
        let trace = [0, 5, 5, 9, 20, 31, 32].map(Span).to_vec();
        for (rate, arrivals) in [
            ("30@1s,30..90@1s", Arrivals::Fixed),
            ("30@1s,30..90@1s", Arrivals::Poisson),
            ("90", Arrivals::Gamma(0.5)),
            ("10..200@2s", Arrivals::Gamma(3.0)),
            ("", Arrivals::Uniform(Span(1_000), Span(90_000_000))),
            ("", Arrivals::Trace(trace.into())),
        ] {
            let rate = rate.parse().unwrap_or_default();
            let alone = MessagePlan { rate, arrivals, ..plan(1.0, None, Some(Span::from_secs(2))) };
            alone.check().expect("a valid plan");
            let shared = MessagePlan { over: 4, ..alone.clone() };
            let of = |numbers: std::ops::Range<u64>| {
                let mut all: Vec<u64> = numbers.flat_map(|number| at(&shared, number)).collect();
                all.sort_unstable();
                all
            };
            let expected = at(&alone, 0);
            assert_eq!(of(0..4), expected, "{alone:?}");
            assert!(expected.len() > 6, "{alone:?}");
            // Those that take their places later have the next schedule.
            assert_eq!(of(4..8), at(&alone, 1), "{alone:?}");
        }
    }

    #[test]
    fn processes_and_rates_are_checked() {
        let check = |rate: &str, arrivals| {
            let rate = rate.parse().unwrap_or_default();
            MessagePlan { rate, arrivals, ..plan(1.0, None, None) }.check()
        };
        let uniform = || Arrivals::Uniform(Span(1), Span(2));
        assert_eq!(check("10..20@5s", Arrivals::Poisson), Ok(()));
        assert_eq!(check("", uniform()), Ok(()));
        for (rate, arrivals) in [
            ("", Arrivals::Fixed),
            ("10", uniform()),
            ("10", Arrivals::Gamma(0.001)),
            ("", Arrivals::Uniform(Span(0), Span(0))),
            ("", Arrivals::Uniform(Span(3), Span(2))),
            ("", Arrivals::Trace(Vec::new().into())),
            ("", Arrivals::Log),
        ] {
            assert!(check(rate, arrivals.clone()).is_err(), "{rate} {arrivals:?}");
        }
    }

    #[test]
    fn a_silent_stream_only_ends() {
        let plan = plan(10.0, None, None);
        let mut times = Times::silent(START);
        assert_eq!((times.next(), times.take(&plan, 7, Nanos(START.0 - 1))), (Some(START), None));
        assert_eq!((times.take(&plan, 7, START), times.next()), (Some(Due::End), None));
    }
}
