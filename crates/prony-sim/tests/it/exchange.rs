//! Round trips against the responder: times by arithmetic, and both sides count alike.

use prony_core::echo::{Echo, EchoLaw};
use prony_core::fault::Fault;
use prony_core::plan::{Exchange, Framing, Load, Message, Plan, Stop, Think};
use prony_core::record::Tally;
use prony_core::record::hist::Hist;
use prony_core::schedule::{Arrivals, RatePlan};
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::{ConnectOdds, Link};
use prony_sim::load;
use prony_sim::world::Setup;

use crate::plans::{assert_conserved, closed, ms};

fn exchanged(framing: Framing, primers: u32, sizes: &[(u32, u32)], load: Load) -> Plan {
    let messages = sizes.iter().map(|&(request, reply)| Message { request, reply }).collect();
    let mut plan = closed(1, Think::None, ms(1_000));
    plan.stop = Stop { requests: Some(500), sessions: None, duration: None };
    plan.calls = vec![plan.calls[0].clone(); sizes.len()].into();
    plan.exchange = Some(Box::new(Exchange { framing, primers, messages }));
    plan.load = load;
    plan.check().expect("a valid plan");
    plan
}

fn one() -> Load {
    Load::Closed { connections: 1, think: Think::None }
}

fn responder() -> Echo {
    Echo::new(EchoLaw::default(), Vec::new())
}

fn run(plan: &Plan, setup: &Setup, echo: &mut Echo) -> Tally {
    let outcome = load(plan, plan.shards_max().min(2), setup, &mut [echo]);
    assert_conserved(&outcome, &format!("seed {}", setup.seed));
    outcome.main()
}

fn over(h: &Hist, limit: Span) -> u64 {
    h.bins()
        .iter_recorded()
        .filter(|v| v.value_iterated_to() > limit.0)
        .map(|v| v.count_at_value())
        .sum()
}

/// A link that delays by 250 us each way: every round trip takes 500 us. Those of the connection
/// and its primers are none of them, and the measurement begins behind them.
#[test]
fn a_round_trip_is_twice_the_way() {
    for (framing, sizes, frame) in
        [(Framing::Short, [(128, 2)], 4 + 128 + 2), (Framing::Long, [(128, 700)], 40 + 128 + 700)]
    {
        let plan = exchanged(framing, 100, &sizes, one());
        let setup =
            Setup { watch: false, ..Setup::new(Link::with_latency(Span::from_micros(250)), 1) };
        let mut echo = responder();
        let t = run(&plan, &setup, &mut echo);
        assert_eq!((t.started, t.replies, t.failed), (500, 500, 0));
        for h in [&t.times.response, &t.times.service] {
            let us500 = Some(Span::from_micros(500));
            assert_eq!((h.count(), h.min(), h.max()), (500, us500, us500), "{framing:?}");
        }
        assert_eq!(t.times.lag.max(), Some(Span::ZERO));
        // One trip for the connection, one for each primer.
        assert_eq!(t.begin, Nanos::ZERO + Span::from_micros(101 * 500));
        assert!((t.rate() - 2_000.0).abs() < 1e-6, "{}", t.rate());
        assert_eq!((echo.echoed().messages, echo.echoed().connections), (600, 1));
        let opening = if framing == Framing::Short { 8 } else { 0 };
        let passed = echo.echoed().bytes_in + echo.echoed().bytes_out;
        assert_eq!(passed, 600 * frame + opening);
        assert_eq!((echo.echoed().broken, echo.echoed().refused), (0, 0));
    }
}

/// Whatever the link does short of breaking, every message is answered, and once.
#[test]
fn rough_links_lose_nothing() {
    for seed in 0..150 {
        let mut dice = Dice::new(seed, 0x21);
        let link = Link::rough(&mut dice);
        let framing = if dice.chance(0.5) { Framing::Short } else { Framing::Long };
        let size = |dice: &mut Dice| dice.below(150) as u32;
        let mut message = |framing| match framing {
            Framing::Short => (size(&mut dice), 2),
            Framing::Long => (size(&mut dice), size(&mut dice)),
        };
        let sizes = [message(framing), message(framing), message(framing)];
        let connections = dice.between(1, 4) as u32;
        let mut plan = exchanged(framing, dice.below(5) as u32, &sizes, one());
        plan.load = Load::Closed { connections, think: Think::None };
        plan.pipeline = dice.between(1, 5) as u32;
        plan.timeout = Span::from_secs(3_600);
        plan.connect_timeout = Span::from_secs(3_600);
        plan.stop = Stop { requests: Some(40), sessions: None, duration: None };
        let mut echo = responder();
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        let t = run(&plan, &setup, &mut echo);
        assert_eq!((t.started, t.replies, t.failed, t.unfinished), (40, 40, 0, 0), "seed {seed}");
        let primers = u64::from(plan.exchange.as_ref().map_or(0, |e| e.primers));
        let echoed = echo.echoed();
        assert_eq!(echoed.messages, 40 + primers * t.connected, "seed {seed}");
        assert_eq!((echoed.refused, echoed.silent), (0, 0), "seed {seed}");
    }
}

/// Links that break: nothing is lost from the books, nothing hangs, nobody panics.
#[test]
fn broken_links_are_accounted_for() {
    for seed in 0..150 {
        let mut dice = Dice::new(seed, 0x22);
        let link = Link::broken(&mut dice);
        let sizes = [(dice.below(150) as u32, dice.below(150) as u32)];
        let mut plan = exchanged(Framing::Long, dice.below(5) as u32, &sizes, one());
        if dice.chance(0.5) {
            let rate = "2000".parse::<RatePlan>().expect("a rate");
            plan.load = Load::Open { rate, arrivals: Arrivals::Poisson, connections: 3 };
        }
        plan.pipeline = dice.between(1, 3) as u32;
        plan.timeout = ms(200);
        plan.connect_timeout = ms(100);
        plan.stop = Stop { requests: Some(60), sessions: None, duration: Some(ms(3_000)) };
        let mut echo = responder();
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        let t = run(&plan, &setup, &mut echo);
        assert!(t.started > 0, "seed {seed}");
    }
}

/// In an open loop the connections and their primers are made before the load, and a wait that the
/// schedule knows of is told.
#[test]
fn an_open_loop_tells_from_the_schedule_and_from_the_send() {
    let rate = "1000".parse::<RatePlan>().expect("a rate");
    let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 1 };
    let mut plan = exchanged(Framing::Short, 10, &[(64, 2)], load);
    plan.warmup = ms(100);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(ms(1_000)) };
    // Nothing arrives for 200 ms from 500 ms on.
    let link = Link { stalls: vec![(Nanos(500_000_000), ms(200))], ..Link::with_latency(ms(0)) };
    let mut echo = responder();
    let t = run(&plan, &Setup { watch: false, ..Setup::new(link, 1) }, &mut echo);
    assert_eq!((t.started, t.replies), (1_000, 1_000));
    // The stall's own 200 arrivals waited 200 ms, 199 ms ... in line; the one under way at its
    // begin was sent before it.
    let waited = over(&t.times.response, ms(1));
    assert!((199..=201).contains(&waited), "{waited}");
    assert_eq!(over(&t.times.service, ms(1)), 1);
    assert!(t.times.response.max() >= Some(ms(199)));
}

/// A responder that is not there, and one that is slow to be reached.
#[test]
fn a_connect_that_fails_is_a_failed_exchange() {
    let mut plan = exchanged(Framing::Short, 3, &[(64, 2)], one());
    plan.stop = Stop { requests: Some(5), sessions: None, duration: None };
    let connect = ConnectOdds { refused: 1.0, ..ConnectOdds::default() };
    let link = Link { connect, ..Link::with_latency(ms(1)) };
    let t = run(&plan, &Setup { watch: false, ..Setup::new(link, 1) }, &mut responder());
    assert_eq!((t.started, t.failed, t.fault(Fault::ConnectRefused)), (5, 5, 5));
}
