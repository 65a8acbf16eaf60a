//! Broadcasts: what a subscriber has received, and what the workers of a run know together of who
//! was to receive what.

use super::Stamp;
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// One subscriber, from the opening of its connection to its end.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// When its connection was open.
    opened: Nanos,
    /// It awaits no messages that are sent from then on.
    until: Nanos,
    /// By publisher.
    received: Vec<Received>,
}

/// What was received of one publisher.
#[derive(Clone, Debug, Default)]
struct Received {
    /// The number after the highest one so far.
    next: u32,
    /// The ranges of numbers below it that were not received, in order.
    missing: Vec<(u32, u32)>,
}

/// What a message is to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in order, or messages before it are missing.
    InOrder,
    /// It arrives after a later one of its publisher.
    Reordered,
    /// It was received before.
    Duplicate,
    /// It was sent before the subscriber was open, or after it awaited messages.
    NotAwaited,
}

impl Subscription {
    /// A subscriber of `publishers` that awaits the messages that are sent between two times.
    pub fn new(opened: Nanos, until: Nanos, publishers: u32) -> Self {
        let received = vec![Received::default(); publishers as usize];
        Self { opened, until, received }
    }

    /// It awaits nothing that is sent from this time on.
    pub fn ends_at(&mut self, at: Nanos) {
        self.until = self.until.min(at);
    }

    /// A message with this stamp has arrived.
    pub fn arrived(&mut self, stamp: &Stamp) -> Delivery {
        if !(self.opened..self.until).contains(&stamp.sent) {
            return Delivery::NotAwaited;
        }
        match self.received.get_mut(stamp.publisher as usize) {
            Some(received) => received.arrived(stamp.sequence),
            None => Delivery::NotAwaited,
        }
    }

    /// From when to when it awaited messages, if it ends now.
    pub fn awaited(&self, now: Nanos) -> (Nanos, Nanos) {
        (self.opened, self.until.min(now).max(self.opened))
    }
}

impl Received {
    fn arrived(&mut self, number: u32) -> Delivery {
        if number >= self.next {
            if number > self.next {
                self.missing.push((self.next, number));
            }
            self.next = number.saturating_add(1);
            return Delivery::InOrder;
        }
        let place = self.missing.iter().rposition(|&(from, to)| (from..to).contains(&number));
        let Some(place) = place else { return Delivery::Duplicate };
        let (from, to) = self.missing[place];
        let rest = [(from, number), (number + 1, to)].into_iter().filter(|(from, to)| from < to);
        self.missing.splice(place..=place, rest);
        Delivery::Reordered
    }
}

/// What is known of the messages of a broadcast and of its subscribers. The logs of all workers
/// together say which messages have reached whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroadcastLog {
    /// When each message was sent, by publisher and number.
    sent: Vec<Vec<Nanos>>,
    /// Where each message was received, by publisher and number.
    seen: Vec<Vec<Seen>>,
    /// From when to when each subscriber awaited messages.
    awaited: Vec<(Nanos, Nanos)>,
    /// Messages that were sent from then on are left out, as the run was given up.
    cut: Option<Nanos>,
}

/// The deliveries of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    first: Nanos,
    last: Nanos,
    count: u64,
}

impl Seen {
    const NONE: Self = Self { first: Nanos::MAX, last: Nanos::ZERO, count: 0 };

    fn merge(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count += other.count;
    }
}

/// A message of a broadcast, and its subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The subscribers that awaited it.
    pub expected: u64,
    /// Those that have received it.
    pub delivered: u64,
    /// From its first to its last delivery, if there were at least two.
    pub spread: Option<Span>,
}

impl Merge for BroadcastLog {
    fn merge(&mut self, other: &Self) {
        for (publisher, sent) in other.sent.iter().enumerate() {
            entry(&mut self.sent, publisher, Vec::new()).extend_from_slice(sent);
        }
        for (publisher, of_publisher) in other.seen.iter().enumerate() {
            let mine = entry(&mut self.seen, publisher, Vec::new());
            for (number, seen) in of_publisher.iter().enumerate() {
                entry(mine, number, Seen::NONE).merge(*seen);
            }
        }
        self.awaited.extend_from_slice(&other.awaited);
        if let Some(at) = other.cut {
            self.cut(at);
        }
    }
}

impl BroadcastLog {
    /// The next message of a publisher was sent.
    pub fn sent(&mut self, publisher: u32, at: Nanos) {
        entry(&mut self.sent, publisher as usize, Vec::new()).push(at);
    }

    /// A subscriber has received a message that it awaited, for the first time.
    pub fn received(&mut self, stamp: &Stamp, at: Nanos) {
        let of_publisher = entry(&mut self.seen, stamp.publisher as usize, Vec::new());
        let seen = entry(of_publisher, stamp.sequence as usize, Seen::NONE);
        seen.merge(Seen { first: at, last: at, count: 1 });
    }

    /// A subscriber has ended.
    pub fn ended(&mut self, awaited: (Nanos, Nanos)) {
        self.awaited.push(awaited);
    }

    /// The run is given up: messages that were sent from `at` on may be in flight.
    pub fn cut(&mut self, at: Nanos) {
        self.cut = Some(self.cut.map_or(at, |cut| cut.min(at)));
    }

    /// How many subscribers there were.
    pub fn subscribers(&self) -> u64 {
        self.awaited.len() as u64
    }

    /// Every message, with its subscribers.
    pub fn published(&self) -> impl Iterator<Item = Published> {
        let mut opened: Vec<Nanos> = self.awaited.iter().map(|&(from, _)| from).collect();
        let mut ended: Vec<Nanos> = self.awaited.iter().map(|&(_, to)| to).collect();
        opened.sort_unstable();
        ended.sort_unstable();
        let cut = self.cut.unwrap_or(Nanos::MAX);
        let all = self.sent.iter().enumerate().flat_map(|(publisher, sent)| {
            sent.iter().enumerate().map(move |(number, &at)| (publisher, number, at))
        });
        all.filter(move |&(.., at)| at < cut).map(move |(publisher, number, at)| {
            let before = |times: &[Nanos]| times.partition_point(|&time| time <= at) as u64;
            let seen = self.seen.get(publisher).and_then(|seen| seen.get(number));
            let seen = seen.copied().unwrap_or(Seen::NONE);
            Published {
                expected: before(&opened) - before(&ended),
                delivered: seen.count,
                spread: (seen.count > 1).then(|| seen.last.since(seen.first)),
            }
        })
    }
}

/// The entry with this number; those that are missing before it are `empty`.
fn entry<T: Clone>(all: &mut Vec<T>, number: usize, empty: T) -> &mut T {
    if all.len() <= number {
        all.resize(number + 1, empty);
    }
    &mut all[number]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(publisher: u32, sequence: u32, sent: u64) -> Stamp {
        Stamp { publisher, sequence, intended: Nanos(sent), sent: Nanos(sent) }
    }

    #[test]
    fn order_breaks_and_duplicates_differ_however_late() {
        use Delivery::{Duplicate, InOrder, Reordered};
        let mut one = Subscription::new(Nanos(10), Nanos(1_000), 2);
        let mut arrives = |sequence| one.arrived(&stamp(1, sequence, 500));
        let numbers = [3, 5, 4, 4, 0, 2, 9, 3, 1, 0, 7, 6, 8, 8, 10];
        let found: Vec<Delivery> = numbers.into_iter().map(&mut arrives).collect();
        let expected = [
            InOrder, InOrder, Reordered, Duplicate, Reordered, Reordered, InOrder, Duplicate,
            Reordered, Duplicate, Reordered, Reordered, Reordered, Duplicate, InOrder,
        ];
        assert_eq!(found, expected);
        // The other publisher has numbers of its own.
        assert_eq!(one.arrived(&stamp(0, 0, 500)), InOrder);
        for (publisher, sent) in [(0, 9), (0, 1_000), (2, 500)] {
            assert_eq!(one.arrived(&stamp(publisher, 1, sent)), Delivery::NotAwaited);
        }
        assert_eq!(one.awaited(Nanos(5_000)), (Nanos(10), Nanos(1_000)));
        assert_eq!(one.awaited(Nanos(50)), (Nanos(10), Nanos(50)));
    }

    /// Every order of eight messages: one is reordered if and only if a later one came before it.
    #[test]
    fn reordered_messages_are_those_after_a_later_one() {
        fn visit(rest: &mut Vec<u32>, order: &mut Vec<u32>) {
            if rest.is_empty() {
                let mut received = Received::default();
                for (i, &number) in order.iter().enumerate() {
                    let is_late = order[..i].iter().any(|&before| before > number);
                    let expected = if is_late { Delivery::Reordered } else { Delivery::InOrder };
                    assert_eq!(received.arrived(number), expected, "{order:?}");
                    assert_eq!(received.clone().arrived(number), Delivery::Duplicate);
                }
                let missing: u32 = received.missing.iter().map(|(from, to)| to - from).sum();
                assert_eq!(missing, 0);
            }
            for i in 0..rest.len() {
                order.push(rest.remove(i));
                visit(rest, order);
                let number = order.pop().expect("it was pushed");
                rest.insert(i, number);
            }
        }
        visit(&mut (0..7).collect(), &mut Vec::new());
    }

    #[test]
    fn logs_of_workers_say_together_who_was_to_receive_what() {
        let (mut a, mut b) = (BroadcastLog::default(), BroadcastLog::default());
        for at in [100, 200, 300, 400] {
            a.sent(0, Nanos(at));
        }
        b.sent(1, Nanos(250));
        // Open at 100, 150 and 250, until 400, 300 and 1000.
        a.ended((Nanos(100), Nanos(400)));
        b.ended((Nanos(150), Nanos(300)));
        b.ended((Nanos(250), Nanos(1_000)));
        a.received(&stamp(0, 0, 100), Nanos(110));
        a.received(&stamp(0, 1, 200), Nanos(215));
        b.received(&stamp(0, 1, 200), Nanos(207));
        b.received(&stamp(1, 0, 250), Nanos(260));
        a.merge(&b);
        assert_eq!(a.subscribers(), 3);
        let of = |expected, delivered, spread: Option<u64>| Published {
            expected,
            delivered,
            spread: spread.map(Span),
        };
        let all =
            [of(1, 1, None), of(2, 2, Some(8)), of(2, 0, None), of(1, 0, None), of(3, 1, None)];
        assert_eq!(a.published().collect::<Vec<_>>(), all);
        a.cut(Nanos(300));
        a.cut(Nanos(900));
        assert_eq!(a.published().collect::<Vec<_>>(), [all[0], all[1], all[4]]);
    }
}
