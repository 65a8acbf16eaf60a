//! What kernels note, in a world in which it is known: the parts of response times are those, and
//! add up.

use prony_core::fault::Fault;
use prony_core::plan::{Plan, Think};
use prony_core::record::Phases;
use prony_core::record::hist::Hist;
use prony_core::schedule::Arrivals;
use prony_core::serve::{Latency, Serve, ServeLaw, Share};
use prony_core::units::Span;
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::world::{Card, Kernel, Setup};
use prony_sim::{Outcome, load};

use crate::plans::{Seed, assert_conserved, closed, ms, numbered, open};

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
    let law = ServeLaw { latency: Latency::Fixed(latency), ..ServeLaw::default() };
    let outcome = load(plan, 1, &setup, &mut [&mut Serve::new(law, 1)]);
    assert_conserved(&outcome, "parts");
    let phases = phases(&outcome);
    assert_eq!((phases.whole.count(), phases.without()), (outcome.main().replies, 0));
    phases
}

/// A closed loop that has connected before it is measured.
fn warmed(connections: u32) -> Plan {
    Plan { warmup: ms(50), ..closed(connections, Think::None, ms(500)) }
}

/// The one value that all have.
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
fn p09_each_part_is_what_the_world_took_for_it() {
    let phases = run(&warmed(3), KERNEL, ms(1));
    let expected = [0, 3_000, 5_000, 2 * 50_000 + 1_000_000, 7_000, 0];
    assert_eq!(phases.parts().map(|part| only(part).0), expected);
    assert_eq!(only(&phases.whole), Span(expected.iter().sum()));
    assert_adds_up(&phases, "fixed times");
}

/// A target that is slow makes its own part longer and no other; a busy client makes its own longer
/// and not the target's.
#[test]
fn p09_each_side_makes_its_own_parts_longer() {
    let plan = warmed(1);
    let usual = run(&plan, KERNEL, ms(1)).parts().map(|part| only(part).0);
    let slow = run(&plan, KERNEL, ms(21)).parts().map(|part| only(part).0);
    let busy = Kernel { to_scheduler: ms(2), to_user: ms(4), ..KERNEL };
    let busy = run(&plan, busy, ms(1)).parts().map(|part| only(part).0);
    let longer = |other: [u64; Phases::PARTS]| [0, 1, 2, 3, 4, 5].map(|i| other[i] - usual[i]);
    assert_eq!(longer(slow), [0, 0, 0, 20_000_000, 0, 0]);
    assert_eq!(longer(busy), [0, 1_997_000, 0, 0, 3_993_000, 0]);
}

/// A network card's stamps are of a clock that nobody knows; what lies between them is the wire and
/// the peer without the host, and none of the parts.
#[test]
fn p09_a_cards_stamps_tell_the_wire_without_the_host() {
    let takes = Span::from_micros(11);
    for (ahead, is_slow) in [(0, false), (1 << 60, false), (77, true)] {
        let card = Some(Card { takes, ahead, is_slow });
        let phases = run(&warmed(3), Kernel { card, ..KERNEL }, ms(1));
        let link = 2 * 50_000 + 1_000_000;
        assert_eq!(only(&phases.by_card), Span(link));
        assert_eq!(only(&phases.wire_and_peer), Span(link) + takes + takes);
        // A slow card tells after the reply, for all but those that the end cuts off.
        let without = phases.whole.count() - phases.by_card.count();
        assert!(without == 0 || is_slow && without <= 3, "{without}");
        assert_adds_up(&phases, "with a card");
    }
}

fn some_card(dice: &mut Dice) -> Card {
    let takes = dice.up_to(Span::from_micros(50));
    Card { takes, ahead: dice.bits() >> 1, is_slow: dice.chance(0.5) }
}

/// On links that cut and hold back bytes, with pipelining: all successes are accounted for, the
/// parts add up, and a kernel's constant times are never undercut.
#[test]
fn p09_parts_add_up_on_any_link() {
    for seed in 0..60 {
        let _seed = Seed(seed);
        let mut dice = Dice::new(seed, 0x57A);
        let link = if dice.chance(0.2) { Link::broken(&mut dice) } else { Link::rough(&mut dice) };
        let kernel = Kernel {
            to_scheduler: dice.up_to(Span::from_micros(100)),
            to_device: dice.up_to(Span::from_micros(100)),
            to_user: dice.up_to(ms(1)),
            card: dice.chance(0.3).then(|| some_card(&mut dice)),
        };
        let mut plan = match dice.below(2) {
            0 => open(2_000.0, Arrivals::Poisson, 200),
            _ => closed(dice.between(1, 5) as u32, Think::None, ms(100)),
        };
        plan.pipeline = dice.between(1, 8) as u32;
        plan.requests_per_connection = dice.chance(0.2).then(|| dice.between(1, 9) as u32);
        plan = numbered(plan, 20);
        let whole_writes = link.write.is_none() && link.window.is_none();
        let setup = Setup { kernel: Some(kernel), watch: false, ..Setup::new(link, seed) };
        let law = ServeLaw {
            latency: Latency::Exponential(ms(1)),
            size: dice.below(3_000),
            reset: Share(if dice.chance(0.2) { 0.02 } else { 0.0 }),
            ..ServeLaw::default()
        };
        let outcome = load(&plan, 2, &setup, &mut [&mut Serve::new(law, seed)]);
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
                // With the card's own time both ways it is what the kernel saw.
                let told = phases.by_card.sum_ns() + u128::from(2 * card.takes.0 * count);
                assert!(count < tally.replies || told == phases.wire_and_peer.sum_ns());
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
