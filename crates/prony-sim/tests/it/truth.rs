//! What a truthful meter must tell: every figure of the tally against the oracle's, over many
//! seeds.

use prony_core::plan::{Load, Plan, Stop, Think};
use prony_core::schedule::{Arrivals, RatePiece, RatePlan, Schedule};
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::oracle::{Seen, Truth, differs};
use prony_sim::plant::{Law, Server, Station};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_conserved, assert_true, closed, ms, numbered, open};

fn some_law(dice: &mut Dice) -> Law {
    let mut span = |most: u64| Span(dice.below(most));
    let (a, b) = (span(3_000_000), span(30_000_000));
    match dice.below(5) {
        0 => Law::Fixed(a),
        1 => Law::Exponential(a),
        2 => Law::Uniform(a.min(b), a.max(b)),
        3 => Law::Pareto(Span(a.0 / 10 + 1), 1.2),
        _ => Law::Bimodal(a, b, 0.1),
    }
}

fn some_arrivals(dice: &mut Dice, requests: u64) -> Arrivals {
    match dice.below(4) {
        0 => Arrivals::Fixed,
        1 => Arrivals::Poisson,
        2 => Arrivals::Uniform(Span(dice.below(100_000)), Span(100_000 + dice.below(2_000_000))),
        _ => {
            let mut times: Vec<Span> = (0..requests).map(|_| Span(dice.below(1 << 30))).collect();
            times.sort_unstable();
            Arrivals::Trace(times.into())
        }
    }
}

fn some_plan(dice: &mut Dice) -> Plan {
    let requests = dice.between(1, 60);
    let rate = 100.0 + dice.unit() * dice.unit() * 20_000.0;
    let arrivals = some_arrivals(dice, requests);
    let mut plan = open(rate, arrivals, requests);
    plan.seed = dice.bits();
    plan.pipeline = if dice.chance(0.5) { 1 } else { dice.between(2, 8) as u32 };
    plan.requests_per_connection =
        if dice.chance(0.3) { Some(dice.between(1, 5) as u32) } else { None };
    if let Load::Open { rate, arrivals, connections } = &mut plan.load {
        if dice.chance(0.5) {
            *connections = dice.between(1, 20) as u32;
        }
        match arrivals {
            Arrivals::Fixed | Arrivals::Poisson => {
                if dice.chance(0.3) {
                    let from = rate.pieces[0].from;
                    let ramp = RatePiece { from, to: from * 3.0, length: Some(ms(20)) };
                    rate.pieces.insert(0, ramp);
                }
                if dice.chance(0.3) {
                    plan.warmup = Span(dice.below((requests as f64 / 2e3 * 1e9) as u64));
                }
            }
            Arrivals::Uniform(..) | Arrivals::Trace(_) => *rate = RatePlan::default(),
        }
    }
    // Room for the warm-up's requests beside the measured ones.
    numbered(plan, 1 << 11)
}

fn some_station(dice: &mut Dice, plan: &Plan) -> Station {
    let mut station = Station::new(some_law(dice), dice.bits());
    if dice.chance(0.4) {
        station = station.servers(dice.between(1, 5) as usize);
    }
    if dice.chance(0.4) {
        station = station.freezes(vec![(Nanos(dice.below(50_000_000)), ms(dice.below(200)))]);
    }
    if dice.chance(0.5) {
        station = station.body(0, dice.below(2_000));
    }
    if dice.chance(0.3) {
        station = station.statuses(vec![200, 204, 304, 404, 503, 200]);
    }
    // A server that announces its close turns pipelined requests away; they come twice, and the
    // oracle is not to guess which time counts.
    if plan.pipeline == 1 && dice.chance(0.3) {
        station = station.close_after(dice.between(1, 5));
    }
    station
}

/// P4, P5, P11 and the sums: in worlds of every kind that breaks nothing, the tally is the truth.
#[test]
fn every_figure_is_the_truth() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 10);
        let plan = some_plan(&mut dice);
        let link = if dice.chance(0.2) { Link::default() } else { Link::rough(&mut dice) };
        let mut setup = Setup::new(link, seed);
        setup.late = if dice.chance(0.3) { Span(dice.below(500_000)) } else { Span::ZERO };
        let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let mut server = Server::new(some_station(&mut dice, &plan));
        let outcome = load(&plan, shares, &setup, &mut [&mut server]);
        assert_true(&plan, &outcome, &format!("seed {seed}"));
        let (main, warm) = (outcome.main(), outcome.warmup());
        let started = main.started + warm.map_or(0, |w| w.started);
        assert_eq!(server.yard().requests, started, "seed {seed}");
        let wires = outcome.ran.oracle.clients();
        let connects: u64 = wires.iter().map(|w| w.connects).sum();
        if plan.warmup == Span::ZERO {
            let sent: u64 = wires.iter().map(|w| w.bytes_sent).sum();
            assert_eq!((main.connects, main.bytes_sent), (connects, sent), "seed {seed}");
            let received: u64 = wires.iter().map(|w| w.bytes_received).sum();
            assert_eq!(main.bytes_received, received, "seed {seed}");
            let opened: Vec<u64> =
                wires.iter().flat_map(|w| &w.opened).map(|span| span.0).collect();
            let wrong = differs("connect", &main.times.connect, &opened);
            assert!(wrong.is_none(), "seed {seed}: {wrong:?}");
        }
        if setup.late == Span::ZERO {
            assert_eq!(main.times.lag.sum_ns(), 0, "seed {seed}: the meter was never late");
        }
        if setup.link == Link::default() {
            // Connects take no time here, so what is not lateness is waiting in the queue.
            let waits = Truth::of(&outcome.ran.oracle, &plan, false).wait;
            let waited: u64 = waits.iter().sum();
            let told = main.times.lag.sum_ns() + main.times.queue.sum_ns();
            assert_eq!(told, u128::from(waited), "seed {seed}");
        }
    }
}

/// In a closed loop the wires know no intended times, but everything from the send on.
#[test]
fn a_closed_loop_tells_what_the_wires_saw() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 16);
        let think = match dice.below(3) {
            0 => Think::None,
            1 => Think::Fixed(Span(dice.below(5_000_000))),
            _ => Think::Exponential(Span(dice.below(5_000_000))),
        };
        let mut plan = closed(dice.between(1, 6) as u32, think, ms(1));
        plan.stop = Stop { requests: Some(dice.between(1, 60)), sessions: None, duration: None };
        plan.timeout = Span::from_secs(1_000);
        plan.pipeline = dice.between(1, 4) as u32;
        plan.seed = seed;
        let mut setup = Setup::new(Link::rough(&mut dice), seed);
        setup.late = Span(dice.below(2) * 100_000);
        let mut server = Server::new(some_station(&mut dice, &plan));
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_conserved(&outcome, "closed loop");
        let (tally, seen) = (outcome.main(), outcome.ran.oracle.seen());
        let requests = plan.stop.requests.unwrap();
        assert_eq!((tally.started, tally.replies), (requests, requests));
        assert_eq!(seen.len() as u64, requests);
        let between = |from: fn(&Seen) -> Nanos, to: fn(&Seen) -> Nanos| {
            seen.iter().map(|s| to(s).since(from(s)).0).collect::<Vec<_>>()
        };
        let (sent, first) = (|s: &Seen| s.sent, |s: &Seen| s.first.unwrap());
        let done = |s: &Seen| s.done.unwrap();
        let times = &tally.times;
        assert_eq!(differs("service", &times.service, &between(sent, done)), None);
        assert_eq!(differs("first byte", &times.first_byte, &between(sent, first)), None);
        assert_eq!(differs("transfer", &times.transfer, &between(first, done)), None);
        assert!(times.response.sum_ns() >= times.service.sum_ns());
        assert_eq!(tally.bytes_sent, outcome.ran.oracle.clients()[0].bytes_sent);
    }
}

/// P3: both clocks are told, from the schedule and from the send, and what lies between them has
/// histograms of its own: the queue's, and that of the meter's lateness.
#[test]
fn p03_what_lies_between_the_two_clocks_is_told() {
    for seed in 0..200 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 17);
        let mut plan = open(500.0, Arrivals::Poisson, 300);
        plan.seed = seed;
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = 2;
        }
        let mut setup = Setup::new(Link::default(), seed);
        setup.late = Span(dice.below(300_000));
        let station = Station::new(some_law(&mut dice), seed).servers(2);
        let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(station)]);
        assert_conserved(&outcome, "two clocks");
        let times = &outcome.main().times;
        assert_eq!((times.response.count(), times.service.count()), (300, 300));
        let between = times.response.sum_ns() - times.service.sum_ns();
        assert_eq!(between, times.queue.sum_ns() + times.lag.sum_ns(), "seed {seed}");
    }
}

/// P6: arrivals reach the server when the schedule says, whatever the server does; with too few
/// connections they are late, but none is dropped and none comes before it is due.
#[test]
fn p06_arrivals_follow_the_schedule_and_nothing_else() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 12);
        let rate = 200.0 + dice.unit() * 2_000.0;
        let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let mut plan = numbered(open(rate, arrivals, 100), 100);
        plan.seed = seed;
        let cap = if dice.chance(0.5) { 1 << 20 } else { dice.between(1, 8) as u32 };
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = cap;
        }
        let freeze = (Nanos(dice.below(100_000_000)), ms(dice.below(500)));
        let station = Station::new(some_law(&mut dice), seed).freezes(vec![freeze]);
        let mut server = Server::new(station);
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_true(&plan, &outcome, &format!("seed {seed}"));
        let mut seen = outcome.ran.oracle.seen().to_vec();
        seen.sort_by_key(|s| s.number);
        let mut schedule = Schedule::new(&plan);
        for seen in &seen {
            let intended = schedule.pop().unwrap().at;
            let arrived = seen.arrived.unwrap();
            assert!(arrived >= intended, "seed {seed}: {seen:?} was to start at {intended}");
            assert!(cap < 100 || arrived == intended, "seed {seed}: {seen:?}, not {intended}");
        }
        assert_eq!((seen.len(), schedule.pop()), (100, None));
        // After the freeze, not more at once than connections: the backlog drains as replies come.
        for s in &seen {
            let busy = seen.iter().filter(|o| o.sent <= s.sent && o.done.unwrap() > s.sent).count();
            assert!(busy <= cap as usize, "seed {seed}: {busy} at once, {cap} allowed");
        }
    }
}

/// P5: what is warm-up is counted apart and nothing is lost between the two.
#[test]
fn p05_nothing_is_discarded_in_silence() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 13);
        let rate = 500.0 + dice.unit() * 1_000.0;
        let mut plan = open(rate, Arrivals::Poisson, 0);
        plan.seed = seed;
        plan.stop =
            Stop { requests: None, sessions: None, duration: Some(ms(dice.between(1, 50))) };
        plan.warmup = ms(dice.between(1, 50));
        let plan = numbered(plan, 1 << 10);
        let mut server = Server::new(Station::new(some_law(&mut dice), seed));
        let setup = Setup::new(Link::rough(&mut dice), seed);
        let outcome = load(&plan, 2, &setup, &mut [&mut server]);
        assert_true(&plan, &outcome, &format!("seed {seed}"));
        let (main, warm) = (outcome.main(), outcome.warmup().expect("a warm-up was asked for"));
        let mut schedule = Schedule::new(&plan);
        let mut counts = (0, 0);
        while let Some(arrival) = schedule.pop() {
            *(if arrival.warmup { &mut counts.0 } else { &mut counts.1 }) += 1;
        }
        assert_eq!((warm.started, main.started), counts, "seed {seed}");
        assert_eq!(warm.started + main.started, server.yard().requests, "seed {seed}");
    }
}

/// P11: quantiles within 0.1 % of the exact sort, over laws of every shape.
#[test]
fn p11_quantiles_are_those_of_the_exact_sort() {
    for seed in 0..60 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 14);
        let plan = numbered(open(2_000.0, Arrivals::Poisson, 3_000), 3_000);
        let mut server = Server::new(Station::new(some_law(&mut dice), seed));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_true(&plan, &outcome, &format!("seed {seed}"));
    }
}

/// P15: a request that takes longer than the timeout counts as failed and as a latency of the
/// timeout, so failures never make a server look faster.
#[test]
fn p15_timeouts_are_latencies_too() {
    let mut timeouts = 0;
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 15);
        let mut plan = open(300.0 + dice.unit() * 3_000.0, Arrivals::Poisson, 100);
        plan.seed = seed;
        plan.timeout = Span(dice.between(1_000_000, 60_000_000));
        if let Load::Open { connections, .. } = &mut plan.load
            && dice.chance(0.5)
        {
            *connections = dice.between(1, 30) as u32;
        }
        let plan = numbered(plan, 100);
        let law = Law::Exponential(Span(dice.between(100_000, 30_000_000)));
        let freeze = (Nanos(dice.below(50_000_000)), ms(dice.below(100)));
        let mut server = Server::new(Station::new(law, seed).freezes(vec![freeze]));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_true(&plan, &outcome, &format!("seed {seed}"));
        let tally = outcome.main();
        assert_eq!(tally.times.response.count(), 100, "seed {seed}: every user is counted");
        assert!(tally.failed == 0 || tally.times.response.max() >= Some(plan.timeout));
        timeouts += tally.failed;
    }
    assert!(timeouts > 10_000, "only {timeouts} timeouts: this test tests little");
}
