//! Plans side by side in one world, as the phases of a plan are.

use std::num::NonZeroU32;

use prony_base::merge::Merge;
use prony_base::meter::WorkerStats;
use prony_base::units::Span;
use prony_plan::plan::{Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, ServerBehavior};
use prony_sim::{Extras, simulate, simulate_beside};
use prony_tally::record::Tally;

use crate::plans::{closed, ms, open};

fn server(service: Span, workers: Option<u32>) -> ServerBehavior {
    ServerBehavior {
        latency: Latency::Fixed(service),
        workers: workers.and_then(NonZeroU32::new),
        ..ServerBehavior::default()
    }
}

fn merged(parts: Vec<(Option<Tally>, Tally, WorkerStats)>) -> Tally {
    let mut all = Tally::default();
    parts.iter().for_each(|(_, main, _)| all.merge(main));
    all.settle();
    all
}

fn beside(plans: &[(&Plan, Span)], threads: u32, server: &ServerBehavior) -> Vec<Tally> {
    simulate_beside(plans, threads, 7, server, &Extras::default()).into_iter().map(merged).collect()
}

/// One worker with a service time of 6 ms, and two schedules of 100 requests per second that
/// alternate: each alone uses 60 % of it and never waits, together they use 120 %. Request k of
/// both comes at 5k ms and is served by 6(k + 1) ms, so it takes k + 6 ms.
#[test]
fn plans_side_by_side_compete_for_one_server() {
    let plan = open(100.0, Arrivals::Fixed, 100);
    let one = server(ms(6), Some(1));
    let alone = merged(simulate(&plan, 1, 7, &one, &Extras::default()));
    assert_eq!(alone.replies, 100);
    assert!(alone.times.response.max() < Some(ms(7)), "{:?}", alone.times.response.max());
    let both = beside(&[(&plan, Span::ZERO), (&plan, ms(5))], 1, &one);
    for (tally, last) in both.iter().zip([198, 199]) {
        assert_eq!((tally.started, tally.replies, tally.failed), (100, 100, 0));
        let longest = tally.times.response.max().expect("replies");
        // Connects and the way there and back take at most 0.4 ms.
        let (least, most) = (ms(last + 6), ms(last + 6) + Span::from_micros(400));
        assert!(least <= longest && longest <= most, "{longest} is not {least} to {most}");
    }
}

/// Against a server that serves any number of requests at once, a plan does not see the others, and
/// its times count from its own start.
#[test]
fn a_plan_that_does_not_compete_is_as_it_is_alone() {
    let service = server(ms(3), None);
    let users = closed(4, Think::None, ms(500));
    let spike = open(400.0, Arrivals::Poisson, 200);
    for threads in [1, 2] {
        let alone = |plan| merged(simulate(plan, threads, 7, &service, &Extras::default()));
        let both = beside(&[(&users, Span::ZERO), (&spike, ms(123))], threads, &service);
        for (tally, plan) in both.iter().zip([&users, &spike]) {
            let alone = alone(plan);
            assert_eq!(tally.times.response, alone.times.response);
            assert_eq!((tally.started, tally.replies), (alone.started, alone.replies));
            assert_eq!((tally.start, tally.end), (alone.start, alone.end));
        }
    }
}

/// Each worker's wall time is that of its own plan, not that of the world.
#[test]
fn the_meter_of_a_later_plan_starts_with_it() {
    let plan = open(100.0, Arrivals::Fixed, 10);
    let parts = simulate_beside(
        &[(&plan, Span::ZERO), (&plan, ms(5_000))],
        1,
        7,
        &server(ms(1), None),
        &Extras::default(),
    );
    let walls: Vec<Span> = parts.iter().map(|parts| parts[0].2.wall).collect();
    assert_eq!(walls[0], walls[1], "{walls:?}");
    assert!(walls[0] < ms(200), "{walls:?}");
}
