//! prony against prony's own target server: both sides count, and the counts are held together.

use prony_core::fault::Fault;
use prony_core::plan::{Load, Plan, Stop};
use prony_core::schedule::Arrivals;
use prony_core::serve::{CloseAfter, Latency, Serve, ServeLaw, Share, Stall, Stalls, StatusMix};
use prony_core::units::Span;
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load, simulate};

use crate::faults::any_plan;
use crate::plans::{Seed, assert_conserved, assert_true, ms, numbered, open};

fn some_latency(dice: &mut Dice) -> Latency {
    let mut span = || Span(dice.below(5_000_000));
    let (a, b) = (span(), span());
    match dice.below(6) {
        0 => Latency::None,
        1 => Latency::Fixed(a),
        2 => Latency::Exponential(a),
        3 => Latency::LogNormal { median: a, sigma: 0.5 },
        4 => Latency::Uniform(a.min(b), a.max(b)),
        _ => Latency::Bimodal { fast: a, slow: b * 5, share: Share(0.2) },
    }
}

fn some_law(dice: &mut Dice) -> ServeLaw {
    let mut law = ServeLaw { latency: some_latency(dice), ..ServeLaw::default() };
    if dice.chance(0.3) {
        let length = ms(dice.between(1, 60));
        law.stalls = Stalls(vec![Stall::Once { length, at: ms(dice.below(50)) }]);
    }
    if dice.chance(0.3) {
        law.workers = std::num::NonZeroU32::new(dice.between(1, 4) as u32);
    }
    if dice.chance(0.3) {
        law.statuses = StatusMix(vec![(200, 8), (404, 1), (503, 1), (204, 1)]);
    }
    law.size = dice.below(3_000);
    law
}

fn make_cruel(law: &mut ServeLaw, dice: &mut Dice) {
    law.chunked = dice.chance(0.4);
    if dice.chance(0.4) {
        let requests = dice.between(1, 20) as u32;
        law.close_after = Some(CloseAfter { requests, silent: dice.chance(0.5) });
    }
    if dice.chance(0.3) {
        law.idle_close = Some(ms(dice.between(1, 20)));
    }
    if dice.chance(0.4) {
        law.reset = Share(dice.unit() * 0.1);
    }
    if dice.chance(0.4) {
        law.truncate = Share(dice.unit() * 0.1);
    }
}

fn run(plan: &Plan, setup: &Setup, serve: &mut Serve, dice: &mut Dice) -> Outcome {
    let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
    load(plan, shares, setup, &mut [serve])
}

/// With nothing broken, the tally is the oracle's truth, and both sides count alike.
#[test]
fn both_sides_count_alike() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 40);
        let mut plan = open(200.0 + dice.unit() * 5_000.0, Arrivals::Poisson, 60);
        plan.seed = seed;
        plan.pipeline = dice.between(1, 6) as u32;
        if let Load::Open { connections, .. } = &mut plan.load
            && dice.chance(0.6)
        {
            *connections = dice.between(1, 12) as u32;
        }
        let plan = numbered(plan, 60);
        let mut setup = Setup::new(Link::rough(&mut dice), seed);
        // A window of a few bytes makes a reply take longer than the timeout.
        setup.link.window = setup.link.window.map(|w| w.max(64));
        let mut serve = Serve::new(some_law(&mut dice), seed);
        let outcome = run(&plan, &setup, &mut serve, &mut dice);
        assert_true(&plan, &outcome, "target server");
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

/// Whatever the server does on purpose and the network by chance, each side's sums hold, no side
/// has more than the other gave, and in the end nothing is open.
#[test]
fn a_cruel_server_and_its_client_agree() {
    let mut on_purpose = (0, 0);
    for seed in 0..1_500 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 41);
        let plan = any_plan(&mut dice);
        let link = match dice.below(3) {
            0 => Link::with_latency(Span::from_micros(30)),
            1 => Link::rough(&mut dice),
            _ => Link::broken(&mut dice),
        };
        let mut setup = Setup::new(link, seed);
        setup.link.latency += Span(1_000);
        setup.watch = false;
        let mut law = some_law(&mut dice);
        make_cruel(&mut law, &mut dice);
        let mut serve = Serve::new(law, seed);
        let outcome = run(&plan, &setup, &mut serve, &mut dice);
        assert_conserved(&outcome, "cruel server");
        let served = serve.served();
        let ended = served.replies + served.truncated + served.resets + served.unanswered;
        assert_eq!(served.requests + served.bad_requests, ended);
        assert_eq!((served.open, served.outstanding), (0, 0));
        assert_eq!(served.bad_requests, 0, "prony sends what its own server refuses");
        let tallies = outcome.tallies.iter().flat_map(|(warm, main)| warm.iter().chain([main]));
        let (mut sent, mut whole, mut heard) = (0, 0, 0);
        for t in tallies {
            sent += t.sent + t.retries;
            whole += t.statuses.values().sum::<u64>();
            heard += t.bytes_head + t.bytes_body;
            assert_eq!(t.faults[Fault::BadStatusLine as usize], 0);
            assert_eq!(t.faults[Fault::BadHeader as usize], 0);
            assert_eq!(t.faults[Fault::BadLength as usize], 0);
            assert_eq!(t.faults[Fault::BadChunk as usize], 0);
        }
        assert!(served.requests <= sent, "{} requests of {sent} sent", served.requests);
        assert!(whole <= served.replies + served.truncated, "{whole} of {}", served.replies);
        assert!(heard <= served.bytes_out);
        on_purpose.0 += served.resets;
        on_purpose.1 += served.truncated;
    }
    assert!(on_purpose.0 > 200 && on_purpose.1 > 200, "{on_purpose:?}: hardly cruel");
}

#[test]
fn a_simulated_run_is_the_same_to_the_byte() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed, 42);
        let mut plan = any_plan(&mut dice);
        plan.stop = Stop { requests: Some(200), sessions: None, duration: Some(ms(500)) };
        let law = some_law(&mut dice);
        let run = || serde_json::to_string(&simulate(&plan, 4, seed, &law, false)).unwrap();
        assert!(run() == run(), "seed {seed}");
    }
}

/// A thread without a connection could send nothing of its share.
#[test]
fn a_simulated_run_has_no_more_threads_than_connections() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 10);
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = 2;
    }
    let parts = simulate(&plan, 5, 1, &ServeLaw::default(), false);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts.iter().map(|(_, main, _)| main.replies).sum::<u64>(), 10);
}
