//! The parts of response times from the kernel's timestamps, with known delays of the kernel: each
//! part is exact, and the parts add up.

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, Serve, ServerBehavior, Share};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::{Card, Kernel, Setup};
use prony_sim::{Outcome, load};
use prony_tally::record::Phases;
use prony_tally::record::hist::Hist;

use crate::plans::{Seed, assert_invariants, closed, ms, numbered, open, seeds};

const KERNEL: Kernel = Kernel {
    to_scheduler: Span::from_micros(3),
    to_device: Span::from_micros(5),
    to_user: Span::from_micros(7),
    card: None,
};

fn phases(outcome: &Outcome) -> Phases {
    *outcome.main().phases.expect("the kernel was asked")
}

fn run(plan: &Plan, kernel: Kernel, latency: Span) -> Phases {
    let link = Link::with_latency(Span::from_micros(50));
    let setup = Setup { kernel: Some(kernel), watch: false, ..Setup::new(link, 1) };
    let behavior = ServerBehavior { latency: Latency::Fixed(latency), ..ServerBehavior::default() };
    let outcome = load(plan, 1, &setup, &mut [&mut Serve::new(behavior, 1)]);
    assert_invariants(&outcome, "parts");
    let phases = phases(&outcome);
    assert_eq!((phases.whole.count(), phases.without()), (outcome.main().replies, 0));
    phases
}

/// A closed loop that opens its connections during the warm-up.
fn warmed(connections: u32) -> Plan {
    Plan { warmup: ms(50), ..closed(connections, Think::None, ms(500)) }
}

/// The value of all samples, which are equal.
fn only(hist: &Hist) -> Span {
    assert_eq!(hist.min(), hist.max());
    hist.max().expect("some")
}

fn assert_adds_up(phases: &Phases, what: &str) {
    let parts = phases.parts();
    assert!(parts.iter().all(|part| part.count() == phases.whole.count()), "{what}");
    let sum: u128 = parts.iter().map(|part| part.sum_ns()).sum();
    assert_eq!(sum, phases.whole.sum_ns(), "{what}");
}

#[test]
fn p09_each_part_is_exact() {
    let phases = run(&warmed(3), KERNEL, ms(1));
    let expected = [0, 3_000, 5_000, 2 * 50_000 + 1_000_000, 7_000, 0];
    assert_eq!(phases.parts().map(|part| only(part).0), expected);
    assert_eq!(only(&phases.whole), Span(expected.iter().sum()));
    assert_adds_up(&phases, "fixed times");
}

/// A slow target makes only its own part longer; a busy client makes only its own parts longer.
#[test]
fn p09_a_slow_side_makes_only_its_own_parts_longer() {
    let plan = warmed(1);
    let usual = run(&plan, KERNEL, ms(1)).parts().map(|part| only(part).0);
    let slow = run(&plan, KERNEL, ms(21)).parts().map(|part| only(part).0);
    let busy = Kernel { to_scheduler: ms(2), to_user: ms(4), ..KERNEL };
    let busy = run(&plan, busy, ms(1)).parts().map(|part| only(part).0);
    let longer = |other: [u64; Phases::PARTS]| [0, 1, 2, 3, 4, 5].map(|i| other[i] - usual[i]);
    assert_eq!(longer(slow), [0, 0, 0, 20_000_000, 0, 0]);
    assert_eq!(longer(busy), [0, 1_997_000, 0, 0, 3_993_000, 0]);
}

/// The time between the network card's timestamps, which are from an unknown clock, is that of the
/// wire and the peer without the host. It is not one of the parts.
#[test]
fn p09_card_timestamps_measure_the_wire_without_the_host() {
    let takes = Span::from_micros(11);
    for (ahead, is_slow) in [(0, false), (1 << 60, false), (77, true)] {
        let card = Some(Card { takes, ahead, is_slow });
        let phases = run(&warmed(3), Kernel { card, ..KERNEL }, ms(1));
        let link = 2 * 50_000 + 1_000_000;
        assert_eq!(only(&phases.by_card), Span(link));
        assert_eq!(only(&phases.wire_and_peer), Span(link) + takes + takes);
        // The timestamps of a slow card arrive after the reply, so the last ones can be missing.
        let without = phases.whole.count() - phases.by_card.count();
        assert!(without == 0 || is_slow && without <= 3, "{without}");
        assert_adds_up(&phases, "with a card");
    }
}

fn random_card(rng: &mut Rng) -> Card {
    let takes = rng.up_to(Span::from_micros(50));
    Card { takes, ahead: rng.bits() >> 1, is_slow: rng.chance(0.5) }
}

/// On rough links, with pipelining: the counters agree, the parts add up, and no part is shorter
/// than the kernel's delay.
#[test]
fn p09_parts_add_up_on_any_link() {
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut rng = Rng::new(seed, 0x57A);
        let link = if rng.chance(0.2) { Link::broken(&mut rng) } else { Link::rough(&mut rng) };
        let kernel = Kernel {
            to_scheduler: rng.up_to(Span::from_micros(100)),
            to_device: rng.up_to(Span::from_micros(100)),
            to_user: rng.up_to(ms(1)),
            card: rng.chance(0.3).then(|| random_card(&mut rng)),
        };
        let mut plan = match rng.below(2) {
            0 => open(2_000.0, Arrivals::Poisson, 200),
            _ => closed(rng.between(1, 5) as u32, Think::None, ms(100)),
        };
        plan.pipeline = rng.between(1, 8) as u32;
        plan.requests_per_connection = rng.chance(0.2).then(|| rng.between(1, 9) as u32);
        plan = numbered(plan, 20);
        let whole_writes = link.write.is_none() && link.window.is_none();
        let setup = Setup { kernel: Some(kernel), watch: false, ..Setup::new(link, seed) };
        let behavior = ServerBehavior {
            latency: Latency::Exponential(ms(1)),
            size: rng.below(3_000),
            reset: Share(if rng.chance(0.2) { 0.02 } else { 0.0 }),
            ..ServerBehavior::default()
        };
        let outcome = load(&plan, 2, &setup, &mut [&mut Serve::new(behavior, seed)]);
        let (tally, phases) = (outcome.main(), phases(&outcome));
        assert_eq!(phases.whole.count() + phases.without(), tally.replies);
        assert_adds_up(&phases, "any link");
        assert_eq!((phases.no_received, phases.contradicting), (0, 0));
        assert!(!whole_writes || phases.no_sent == 0, "every write is whole");
        let count = phases.by_card.count();
        match kernel.card {
            None => assert_eq!(count, 0),
            Some(card) if phases.without() == 0 => {
                assert!(card.is_slow || count == tally.replies);
                // With the card's delay in both directions, it is the kernel's time.
                let with_card = phases.by_card.sum_ns() + u128::from(2 * card.takes.0 * count);
                assert!(count < tally.replies || with_card == phases.wire_and_peer.sum_ns());
            }
            Some(_) => {}
        }
        let least = |hist: &Hist, at_least: Span| hist.min().is_none_or(|min| min >= at_least);
        assert!(least(&phases.to_scheduler, kernel.to_scheduler));
        assert!(phases.to_device.count() == 0 || only(&phases.to_device) == kernel.to_device);
        assert!(phases.to_user.count() == 0 || only(&phases.to_user) == kernel.to_user);
        if tally.failed == 0 && tally.fault(Fault::RequestTimeout) == 0 && phases.without() == 0 {
            assert_eq!(phases.whole, tally.times.response);
        }
    }
}
