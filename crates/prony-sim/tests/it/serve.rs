//! prony against its own target server: the counters of both sides agree.

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Stop};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{
    CloseAfter, Latency, Serve, ServerBehavior, Share, Stall, Stalls, StatusMix,
};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Extras, Outcome, load, simulate};

use crate::faults::random_plan;
use crate::plans::{
    Seed, assert_invariants, assert_matches_oracle, has_all_seeds, ms, numbered, open, seeds,
};

fn random_latency(rng: &mut Rng) -> Latency {
    let mut span = || Span(rng.below(5_000_000));
    let (a, b) = (span(), span());
    match rng.below(6) {
        0 => Latency::None,
        1 => Latency::Fixed(a),
        2 => Latency::Exponential(a),
        3 => Latency::LogNormal { median: a, sigma: 0.5 },
        4 => Latency::Uniform(a.min(b), a.max(b)),
        _ => Latency::Bimodal { fast: a, slow: b * 5, share: Share(0.2) },
    }
}

fn random_behavior(rng: &mut Rng) -> ServerBehavior {
    let mut behavior = ServerBehavior { latency: random_latency(rng), ..ServerBehavior::default() };
    if rng.chance(0.3) {
        let length = ms(rng.between(1, 60));
        behavior.stalls = Stalls(vec![Stall::Once { length, at: ms(rng.below(50)) }]);
    }
    if rng.chance(0.3) {
        behavior.workers = std::num::NonZeroU32::new(rng.between(1, 4) as u32);
    }
    if rng.chance(0.3) {
        behavior.statuses = StatusMix(vec![(200, 8), (404, 1), (503, 1), (204, 1)]);
    }
    behavior.size = rng.below(3_000);
    behavior
}

fn add_faults(behavior: &mut ServerBehavior, rng: &mut Rng) {
    behavior.chunked = rng.chance(0.4);
    if rng.chance(0.4) {
        let requests = rng.between(1, 20) as u32;
        behavior.close_after = Some(CloseAfter { requests, silent: rng.chance(0.5) });
    }
    if rng.chance(0.3) {
        behavior.idle_close = Some(ms(rng.between(1, 20)));
    }
    if rng.chance(0.4) {
        behavior.reset = Share(rng.unit() * 0.1);
    }
    if rng.chance(0.4) {
        behavior.truncate = Share(rng.unit() * 0.1);
    }
}

fn run(plan: &Plan, setup: &Setup, serve: &mut Serve, rng: &mut Rng) -> Outcome {
    let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
    load(plan, shares, setup, &mut [serve])
}

/// Without failures, the tally has the oracle's figures, and the counters of both sides are equal.
#[test]
fn counters_of_both_sides_are_equal() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 40);
        let mut plan = open(200.0 + rng.unit() * 5_000.0, Arrivals::Poisson, 60);
        plan.seed = seed;
        plan.pipeline = rng.between(1, 6) as u32;
        if let Load::Open { connections, .. } = &mut plan.load
            && rng.chance(0.6)
        {
            *connections = rng.between(1, 12) as u32;
        }
        let plan = numbered(plan, 60);
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        // A window of a few bytes makes a reply take longer than the timeout.
        setup.link.window = setup.link.window.map(|w| w.max(64));
        let mut serve = Serve::new(random_behavior(&mut rng), seed);
        let outcome = run(&plan, &setup, &mut serve, &mut rng);
        assert_matches_oracle(&plan, &outcome, "target server");
        let (served, tally) = (serve.served(), outcome.main());
        assert_eq!(tally.failed, 0);
        assert_eq!((served.requests, served.replies), (tally.sent, tally.replies));
        assert_eq!(served.statuses, tally.statuses);
        assert_eq!(served.bytes_in, tally.bytes_sent);
        assert_eq!(served.bytes_out, tally.bytes_head + tally.bytes_body);
        assert_eq!(served.connections, tally.connected);
        assert_eq!((served.open, served.outstanding, served.bad_requests), (0, 0, 0));
    }
}

/// With failures of the server and of the network, the counters of each side agree, neither side
/// received more than the other sent, and no connection stays open.
#[test]
fn counters_agree_with_a_faulty_server() {
    let mut on_purpose = (0, 0);
    for seed in seeds(1_500) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 41);
        let plan = random_plan(&mut rng);
        let link = match rng.below(3) {
            0 => Link::with_latency(Span::from_micros(30)),
            1 => Link::rough(&mut rng),
            _ => Link::broken(&mut rng),
        };
        let mut setup = Setup::new(link, seed);
        setup.link.latency += Span(1_000);
        setup.watch = false;
        let mut behavior = random_behavior(&mut rng);
        add_faults(&mut behavior, &mut rng);
        let mut serve = Serve::new(behavior, seed);
        let outcome = run(&plan, &setup, &mut serve, &mut rng);
        assert_invariants(&outcome, "cruel server");
        let served = serve.served();
        let ended = served.replies + served.truncated + served.resets + served.unanswered;
        assert_eq!(served.requests + served.bad_requests, ended);
        assert_eq!((served.open, served.outstanding), (0, 0));
        assert_eq!(served.bad_requests, 0, "the server refuses prony's requests");
        let tallies = outcome.tallies.iter().flat_map(|(warm, main)| warm.iter().chain([main]));
        let (mut sent, mut whole, mut read) = (0, 0, 0);
        for t in tallies {
            sent += t.sent + t.retries;
            whole += t.statuses.values().sum::<u64>();
            read += t.bytes_head + t.bytes_body;
            assert_eq!(t.faults[Fault::BadStatusLine as usize], 0);
            assert_eq!(t.faults[Fault::BadHeader as usize], 0);
            assert_eq!(t.faults[Fault::BadLength as usize], 0);
            assert_eq!(t.faults[Fault::BadChunk as usize], 0);
        }
        assert!(served.requests <= sent, "{} requests of {sent} sent", served.requests);
        assert!(whole <= served.replies + served.truncated, "{whole} of {}", served.replies);
        assert!(read <= served.bytes_out);
        on_purpose.0 += served.resets;
        on_purpose.1 += served.truncated;
    }
    assert!(
        !has_all_seeds() || on_purpose.0 > 200 && on_purpose.1 > 200,
        "{on_purpose:?}: too few faults"
    );
}

#[test]
fn a_simulated_run_is_the_same_to_the_byte() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed, 42);
        let mut plan = random_plan(&mut rng);
        plan.stop = Stop { requests: Some(200), sessions: None, duration: Some(ms(500)) };
        let behavior = random_behavior(&mut rng);
        let run = || {
            serde_json::to_string(&simulate(&plan, 4, seed, &behavior, &Extras::default())).unwrap()
        };
        assert!(run() == run(), "seed {seed}");
    }
}

/// A thread without a connection could not send its share.
#[test]
fn a_simulated_run_has_no_more_threads_than_connections() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 10);
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = 2;
    }
    let parts = simulate(&plan, 5, 1, &ServerBehavior::default(), &Extras::default());
    assert_eq!(parts.len(), 2);
    assert_eq!(parts.iter().map(|(_, main, _)| main.replies).sum::<u64>(), 10);
}
