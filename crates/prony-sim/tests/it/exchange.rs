//! Round trips to the responder: the times follow from arithmetic, and both sides' counts agree.

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Exchange, Framing, Load, Message, Plan, Stop, Think};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_server::echo::{Echo, EchoBehavior};
use prony_sim::link::{ConnectFaults, Link};
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;

use crate::plans::{assert_invariants, closed, ms};

pub(crate) fn exchange_plan(
    framing: Framing,
    warmup_exchanges: u32,
    sizes: &[(u32, u32)],
    load: Load,
) -> Plan {
    let messages = sizes.iter().map(|&(request, reply)| Message { request, reply }).collect();
    let mut plan = closed(1, Think::None, ms(1_000));
    plan.stop = Stop { requests: Some(500), sessions: None, duration: None };
    plan.calls = vec![plan.calls[0].clone(); sizes.len()].into();
    plan.exchange = Some(Box::new(Exchange { framing, warmup_exchanges, messages }));
    plan.load = load;
    plan.check().expect("a valid plan");
    plan
}

fn one_connection() -> Load {
    Load::Closed { connections: 1, think: Think::None }
}

pub(crate) fn responder() -> Echo {
    Echo::new(EchoBehavior::default(), Vec::new())
}

fn run(plan: &Plan, setup: &Setup, echo: &mut Echo) -> Tally {
    let outcome = load(plan, plan.shards_max().min(2), setup, &mut [echo]);
    assert_invariants(&outcome, &format!("seed {}", setup.seed));
    outcome.main()
}

fn count_above(h: &Hist, limit: Span) -> u64 {
    h.recorded().filter(|&(last, _)| last > limit).map(|(_, n)| n).sum()
}

/// With a one-way latency of 250 us, every round trip takes 500 us. The measurement starts after
/// the connect and the warm-up exchanges.
#[test]
fn a_round_trip_takes_twice_the_one_way_latency() {
    for (framing, sizes, frame) in
        [(Framing::Short, [(128, 2)], 4 + 128 + 2), (Framing::Long, [(128, 700)], 40 + 128 + 700)]
    {
        let plan = exchange_plan(framing, 100, &sizes, one_connection());
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
        // One round trip for the connect, and one for each warm-up exchange.
        assert_eq!(t.start, Nanos::ZERO + Span::from_micros(101 * 500));
        assert!((t.rate() - 2_000.0).abs() < 1e-6, "{}", t.rate());
        assert_eq!((echo.echoed().messages, echo.echoed().connections), (600, 1));
        let opening = if framing == Framing::Short { 8 } else { 0 };
        let passed = echo.echoed().bytes_in + echo.echoed().bytes_out;
        assert_eq!(passed, 600 * frame + opening);
        assert_eq!((echo.echoed().broken, echo.echoed().refused), (0, 0));
    }
}

/// On links that lose nothing, every message gets exactly one reply.
#[test]
fn every_message_gets_one_reply_on_rough_links() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed, 0x21);
        let link = Link::rough(&mut rng);
        let framing = if rng.chance(0.5) { Framing::Short } else { Framing::Long };
        let size = |rng: &mut Rng| rng.below(150) as u32;
        let mut message = |framing| match framing {
            Framing::Short => (size(&mut rng), 2),
            Framing::Long => (size(&mut rng), size(&mut rng)),
        };
        let sizes = [message(framing), message(framing), message(framing)];
        let connections = rng.between(1, 4) as u32;
        let mut plan = exchange_plan(framing, rng.below(5) as u32, &sizes, one_connection());
        plan.load = Load::Closed { connections, think: Think::None };
        plan.pipeline = rng.between(1, 5) as u32;
        plan.timeout = Span::from_secs(3_600);
        plan.connect_timeout = Span::from_secs(3_600);
        plan.stop = Stop { requests: Some(40), sessions: None, duration: None };
        let mut echo = responder();
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        let t = run(&plan, &setup, &mut echo);
        assert_eq!((t.started, t.replies, t.failed, t.unfinished), (40, 40, 0, 0), "seed {seed}");
        let warmup_exchanges = u64::from(plan.exchange.as_ref().map_or(0, |e| e.warmup_exchanges));
        let echoed = echo.echoed();
        assert_eq!(echoed.messages, 40 + warmup_exchanges * t.connected, "seed {seed}");
        assert_eq!((echoed.refused, echoed.silent), (0, 0), "seed {seed}");
    }
}

/// On links that break, the counters agree, and nothing hangs or panics.
#[test]
fn counters_agree_on_broken_links() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed, 0x22);
        let link = Link::broken(&mut rng);
        let sizes = [(rng.below(150) as u32, rng.below(150) as u32)];
        let mut plan = exchange_plan(Framing::Long, rng.below(5) as u32, &sizes, one_connection());
        if rng.chance(0.5) {
            let rate = "2000".parse::<RatePlan>().expect("a rate");
            plan.load = Load::Open { rate, arrivals: Arrivals::Poisson, connections: 3 };
        }
        plan.pipeline = rng.between(1, 3) as u32;
        plan.timeout = ms(200);
        plan.connect_timeout = ms(100);
        plan.stop = Stop { requests: Some(60), sessions: None, duration: Some(ms(3_000)) };
        let mut echo = responder();
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        let t = run(&plan, &setup, &mut echo);
        assert!(t.started > 0, "seed {seed}");
    }
}

/// In an open loop, connections open and warm up before the load, and the response time includes
/// the wait since the intended start.
#[test]
fn an_open_loop_reports_response_and_service_times() {
    let rate = "1000".parse::<RatePlan>().expect("a rate");
    let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 1 };
    let mut plan = exchange_plan(Framing::Short, 10, &[(64, 2)], load);
    plan.warmup = ms(100);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(ms(1_000)) };
    // The link stalls for 200 ms, from 500 ms on.
    let link = Link { stalls: vec![(Nanos(500_000_000), ms(200))], ..Link::with_latency(ms(0)) };
    let mut echo = responder();
    let t = run(&plan, &Setup { watch: false, ..Setup::new(link, 1) }, &mut echo);
    assert_eq!((t.started, t.replies), (1_000, 1_000));
    // The 200 arrivals during the stall waited 200 ms, 199 ms ... in the queue; one exchange was in
    // flight when it started.
    let waited = count_above(&t.times.response, ms(1));
    assert!((199..=201).contains(&waited), "{waited}");
    assert_eq!(count_above(&t.times.service, ms(1)), 1);
    assert!(t.times.response.max() >= Some(ms(199)));
}

/// Each refused connect fails one exchange.
#[test]
fn a_failed_connect_fails_an_exchange() {
    let mut plan = exchange_plan(Framing::Short, 3, &[(64, 2)], one_connection());
    plan.stop = Stop { requests: Some(5), sessions: None, duration: None };
    let connect = ConnectFaults { refused: 1.0, ..ConnectFaults::default() };
    let link = Link { connect, ..Link::with_latency(ms(1)) };
    let t = run(&plan, &Setup { watch: false, ..Setup::new(link, 1) }, &mut responder());
    assert_eq!((t.started, t.failed, t.fault(Fault::ConnectRefused)), (5, 5, 5));
}
