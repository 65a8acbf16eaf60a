//! Compares every figure of the tally with the oracle's, over many seeds.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Load, Plan, Stop, Think};
use prony_plan::schedule::{Arrivals, RatePiece, RatePlan, Schedule};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::oracle::{ObservedRequest, Truth, histogram_mismatch};
use prony_sim::rng::Rng;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;

use crate::plans::{
    Seed, assert_invariants, assert_matches_oracle, closed, has_all_seeds, ms, numbered, open,
    seeds,
};

fn random_service_time(rng: &mut Rng) -> ServiceTime {
    let mut span = |most: u64| Span(rng.below(most));
    let (a, b) = (span(3_000_000), span(30_000_000));
    match rng.below(5) {
        0 => ServiceTime::Fixed(a),
        1 => ServiceTime::Exponential(a),
        2 => ServiceTime::Uniform(a.min(b), a.max(b)),
        3 => ServiceTime::Pareto(Span(a.0 / 10 + 1), 1.2),
        _ => ServiceTime::Bimodal(a, b, 0.1),
    }
}

fn random_arrivals(rng: &mut Rng, requests: u64) -> Arrivals {
    match rng.below(5) {
        0 => Arrivals::Fixed,
        1 => Arrivals::Poisson,
        2 => Arrivals::Gamma(0.1 + rng.unit() * 4.0),
        3 => Arrivals::Uniform(Span(rng.below(100_000)), Span(100_000 + rng.below(2_000_000))),
        _ => {
            let mut times: Vec<Span> = (0..requests).map(|_| Span(rng.below(1 << 30))).collect();
            times.sort_unstable();
            Arrivals::Trace(times.into())
        }
    }
}

fn random_plan(rng: &mut Rng) -> Plan {
    let requests = rng.between(1, 60);
    let rate = 100.0 + rng.unit() * rng.unit() * 20_000.0;
    let arrivals = random_arrivals(rng, requests);
    let mut plan = open(rate, arrivals, requests);
    plan.seed = rng.bits();
    plan.pipeline = if rng.chance(0.5) { 1 } else { rng.between(2, 8) as u32 };
    plan.requests_per_connection =
        if rng.chance(0.3) { Some(rng.between(1, 5) as u32) } else { None };
    if let Load::Open { rate, arrivals, connections } = &mut plan.load {
        if rng.chance(0.5) {
            *connections = rng.between(1, 20) as u32;
        }
        match arrivals {
            Arrivals::Fixed | Arrivals::Poisson | Arrivals::Gamma(_) => {
                if rng.chance(0.3) {
                    let from = rate.pieces[0].from;
                    let ramp = RatePiece { from, to: from * 3.0, length: Some(ms(20)) };
                    rate.pieces.insert(0, ramp);
                }
                if rng.chance(0.3) {
                    plan.warmup = Span(rng.below((requests as f64 / 2e3 * 1e9) as u64));
                }
            }
            Arrivals::Uniform(..) | Arrivals::Trace(_) | Arrivals::Log => {
                *rate = RatePlan::default();
            }
        }
    }
    // Enough numbers for the requests of the warm-up too.
    numbered(plan, 1 << 11)
}

fn random_station(rng: &mut Rng, plan: &Plan) -> Station {
    let mut station = Station::new(random_service_time(rng), rng.bits());
    if rng.chance(0.4) {
        station = station.servers(rng.between(1, 5) as usize);
    }
    if rng.chance(0.4) {
        station = station.freezes(vec![(Nanos(rng.below(50_000_000)), ms(rng.below(200)))]);
    }
    if rng.chance(0.5) {
        station = station.body(0, rng.below(2_000));
    }
    if rng.chance(0.3) {
        station = station.statuses(vec![200, 204, 304, 404, 503, 200]);
    }
    // After an announced close, pipelined requests are sent again, and the oracle cannot say which
    // send counts.
    if plan.pipeline == 1 && rng.chance(0.3) {
        station = station.close_after(rng.between(1, 5));
    }
    station
}

/// P4, P5, P11: in random worlds without failures, every figure of the tally is the true one.
#[test]
fn every_figure_matches_the_oracle() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 10);
        let plan = random_plan(&mut rng);
        let link = if rng.chance(0.2) { Link::default() } else { Link::rough(&mut rng) };
        let mut setup = Setup::new(link, seed);
        setup.timer_lateness = if rng.chance(0.3) { Span(rng.below(500_000)) } else { Span::ZERO };
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let mut server = Server::new(random_station(&mut rng, &plan));
        let outcome = load(&plan, shares, &setup, &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, &format!("seed {seed}"));
        let (main, warm) = (outcome.main(), outcome.warmup());
        let started = main.started + warm.map_or(0, |w| w.started);
        assert_eq!(server.connections().requests, started, "seed {seed}");
        let traffic = outcome.world.oracle.clients();
        let connects: u64 = traffic.iter().map(|w| w.connects).sum();
        if plan.warmup == Span::ZERO {
            let sent: u64 = traffic.iter().map(|w| w.bytes_sent).sum();
            assert_eq!((main.connects, main.bytes_sent), (connects, sent), "seed {seed}");
            let received: u64 = traffic.iter().map(|w| w.bytes_received).sum();
            assert_eq!(main.bytes_received, received, "seed {seed}");
            let opened: Vec<u64> =
                traffic.iter().flat_map(|w| &w.opened).map(|span| span.0).collect();
            let wrong = histogram_mismatch("connect", &main.times.connect, &opened);
            assert!(wrong.is_none(), "seed {seed}: {wrong:?}");
        }
        if setup.timer_lateness == Span::ZERO {
            assert_eq!(main.times.lag.sum_ns(), 0, "seed {seed}: the meter was never late");
        }
        if setup.link == Link::default() {
            // Connects take no time here, so each wait is send lag or queue.
            let waits = Truth::of(&outcome.world.oracle, &plan, false).wait;
            let waited: u64 = waits.iter().sum();
            let reported = main.times.lag.sum_ns() + main.times.queue.sum_ns();
            assert_eq!(reported, u128::from(waited), "seed {seed}");
        }
    }
}

/// In a closed loop, the oracle knows all times except the intended start.
#[test]
fn closed_loop_times_match_the_oracle() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 16);
        let think = match rng.below(3) {
            0 => Think::None,
            1 => Think::Fixed(Span(rng.below(5_000_000))),
            _ => Think::Exponential(Span(rng.below(5_000_000))),
        };
        let mut plan = closed(rng.between(1, 6) as u32, think, ms(1));
        plan.stop = Stop { requests: Some(rng.between(1, 60)), sessions: None, duration: None };
        plan.timeout = Span::from_secs(1_000);
        plan.pipeline = rng.between(1, 4) as u32;
        plan.seed = seed;
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.timer_lateness = Span(rng.below(2) * 100_000);
        let mut server = Server::new(random_station(&mut rng, &plan));
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "closed loop");
        let (tally, seen) = (outcome.main(), outcome.world.oracle.requests());
        let requests = plan.stop.requests.unwrap();
        assert_eq!((tally.started, tally.replies), (requests, requests));
        assert_eq!(seen.len() as u64, requests);
        let between = |from: fn(&ObservedRequest) -> Nanos, to: fn(&ObservedRequest) -> Nanos| {
            seen.iter().map(|s| to(s).since(from(s)).0).collect::<Vec<_>>()
        };
        let (sent, first) = (|s: &ObservedRequest| s.sent, |s: &ObservedRequest| s.first.unwrap());
        let done = |s: &ObservedRequest| s.done.unwrap();
        let times = &tally.times;
        assert_eq!(histogram_mismatch("service", &times.service, &between(sent, done)), None);
        assert_eq!(
            histogram_mismatch("first byte", &times.first_byte, &between(sent, first)),
            None
        );
        assert_eq!(histogram_mismatch("transfer", &times.transfer, &between(first, done)), None);
        assert!(times.response.sum_ns() >= times.service.sum_ns());
        assert_eq!(tally.bytes_sent, outcome.world.oracle.clients()[0].bytes_sent);
    }
}

/// P3: response and service times are both recorded. The time between their starts has histograms
/// of its own: queue and send lag.
#[test]
fn p03_the_time_between_schedule_and_send_is_recorded() {
    for seed in seeds(200) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 17);
        let mut plan = open(500.0, Arrivals::Poisson, 300);
        plan.seed = seed;
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = 2;
        }
        let mut setup = Setup::new(Link::default(), seed);
        setup.timer_lateness = Span(rng.below(300_000));
        let station = Station::new(random_service_time(&mut rng), seed).servers(2);
        let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(station)]);
        assert_invariants(&outcome, "two clocks");
        let times = &outcome.main().times;
        assert_eq!((times.response.count(), times.service.count()), (300, 300));
        let between = times.response.sum_ns() - times.service.sum_ns();
        assert_eq!(between, times.queue.sum_ns() + times.lag.sum_ns(), "seed {seed}");
    }
}

/// P6: requests are sent at the times of the schedule, whatever the server does. With too few
/// connections they are late, but none is dropped and none is early.
#[test]
fn p06_arrivals_follow_the_schedule_and_nothing_else() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 12);
        let rate = 200.0 + rng.unit() * 2_000.0;
        let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let mut plan = numbered(open(rate, arrivals, 100), 100);
        plan.seed = seed;
        let limit = if rng.chance(0.5) { 1 << 20 } else { rng.between(1, 8) as u32 };
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = limit;
        }
        let freeze = (Nanos(rng.below(100_000_000)), ms(rng.below(500)));
        let station = Station::new(random_service_time(&mut rng), seed).freezes(vec![freeze]);
        let mut server = Server::new(station);
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, &format!("seed {seed}"));
        let mut seen = outcome.world.oracle.requests().to_vec();
        seen.sort_by_key(|s| s.number);
        let mut schedule = Schedule::new(&plan);
        for seen in &seen {
            let intended = schedule.pop().unwrap().at;
            let arrived = seen.arrived.unwrap();
            assert!(arrived >= intended, "seed {seed}: {seen:?} was to start at {intended}");
            assert!(limit < 100 || arrived == intended, "seed {seed}: {seen:?}, not {intended}");
        }
        assert_eq!((seen.len(), schedule.pop()), (100, None));
        // After the freeze, there are never more requests in flight than connections.
        for s in &seen {
            let busy = seen.iter().filter(|o| o.sent <= s.sent && o.done.unwrap() > s.sent).count();
            assert!(busy <= limit as usize, "seed {seed}: {busy} in flight, {limit} allowed");
        }
    }
}

/// P5: warm-up and measurement are counted apart, and no request is lost between them.
#[test]
fn p05_nothing_is_discarded_in_silence() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 13);
        let rate = 500.0 + rng.unit() * 1_000.0;
        let mut plan = open(rate, Arrivals::Poisson, 0);
        plan.seed = seed;
        plan.stop = Stop { requests: None, sessions: None, duration: Some(ms(rng.between(1, 50))) };
        plan.warmup = ms(rng.between(1, 50));
        let plan = numbered(plan, 1 << 10);
        let mut server = Server::new(Station::new(random_service_time(&mut rng), seed));
        let setup = Setup::new(Link::rough(&mut rng), seed);
        let outcome = load(&plan, 2, &setup, &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, &format!("seed {seed}"));
        let (main, warm) = (outcome.main(), outcome.warmup().expect("a warm-up was asked for"));
        let mut schedule = Schedule::new(&plan);
        let mut counts = (0, 0);
        while let Some(arrival) = schedule.pop() {
            *(if arrival.warmup { &mut counts.0 } else { &mut counts.1 }) += 1;
        }
        assert_eq!((warm.started, main.started), counts, "seed {seed}");
        assert_eq!(warm.started + main.started, server.connections().requests, "seed {seed}");
    }
}

/// P11: quantiles are within 0.1 % of those of the sorted sample, for various distributions.
#[test]
fn p11_quantiles_are_those_of_the_exact_sort() {
    for seed in seeds(60) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 14);
        let plan = numbered(open(2_000.0, Arrivals::Poisson, 3_000), 3_000);
        let mut server = Server::new(Station::new(random_service_time(&mut rng), seed));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, &format!("seed {seed}"));
    }
}

/// P15: a request that takes longer than the timeout counts as failed and as a latency of the
/// timeout, so failures never make a server look faster.
#[test]
fn p15_timeouts_are_latencies_too() {
    let mut timeouts = 0;
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 15);
        let mut plan = open(300.0 + rng.unit() * 3_000.0, Arrivals::Poisson, 100);
        plan.seed = seed;
        plan.timeout = Span(rng.between(1_000_000, 60_000_000));
        if let Load::Open { connections, .. } = &mut plan.load
            && rng.chance(0.5)
        {
            *connections = rng.between(1, 30) as u32;
        }
        let plan = numbered(plan, 100);
        let service_time = ServiceTime::Exponential(Span(rng.between(100_000, 30_000_000)));
        let freeze = (Nanos(rng.below(50_000_000)), ms(rng.below(100)));
        let mut server = Server::new(Station::new(service_time, seed).freezes(vec![freeze]));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_matches_oracle(&plan, &outcome, &format!("seed {seed}"));
        let tally = outcome.main();
        assert_eq!(tally.times.response.count(), 100, "seed {seed}: every user is counted");
        assert!(tally.failed == 0 || tally.times.response.max() >= Some(plan.timeout));
        timeouts += tally.failed;
    }
    assert!(!has_all_seeds() || timeouts > 10_000, "only {timeouts} timeouts");
}
