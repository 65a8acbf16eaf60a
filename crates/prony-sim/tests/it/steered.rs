//! A rate that is changed while the run goes on: requests reach the server when the changed plan
//! wants them, however many shares there are and whenever each hears of the change.

use std::collections::VecDeque;

use prony_core::engine::Engine;
use prony_core::machine::Machine;
use prony_core::plan::{Plan, Stop};
use prony_core::proto::h1::H1;
use prony_core::schedule::{Arrivals, Schedule, Steer};
use prony_core::serve::{Serve, ServeLaw};
use prony_core::units::{Nanos, Span};
use prony_sim::link::Link;
use prony_sim::world::Setup;

use crate::pass_on::pass_on;
use crate::plans::open;

/// An engine that hears of changes as a worker's does: some time before each one's moment.
struct Heeding {
    engine: Engine<H1>,
    /// When it hears of what.
    news: VecDeque<(Nanos, Steer)>,
}

impl Machine for Heeding {
    pass_on!(engine: on_connected on_recv on_closed on_turn on_stop poll_action take_output);

    fn on_tick(&mut self, now: Nanos) {
        while let Some(&(at, steer)) = self.news.front()
            && at <= now
        {
            self.news.pop_front();
            self.engine.steer(steer);
        }
        if self.engine.deadline().is_some_and(|at| at <= now) {
            self.engine.on_tick(now);
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        let heard = self.news.front().map(|&(at, _)| at);
        self.engine.deadline().into_iter().chain(heard).min()
    }
}

fn ms(n: u64) -> Nanos {
    Nanos::ZERO + Span::from_millis(n)
}

/// When requests reached the server, and when each share ended.
fn arrived(plan: &Plan, steers: &[Steer], shares: u32) -> (Vec<Nanos>, Vec<Nanos>) {
    let mut machines: Vec<Heeding> = (0..shares)
        .map(|i| {
            let share = plan.shard(i, shares);
            let mut engine = Engine::new(&share, H1::new(&share));
            engine.expect_steers();
            // Every share hears of it at another moment.
            let before = Span::from_millis(200 - 60 * u64::from(i));
            let news = steers.iter().map(|&s| (Nanos(s.from.0.saturating_sub(before.0)), s));
            Heeding { engine, news: news.collect() }
        })
        .collect();
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for machine in &mut machines {
        clients.push(machine);
    }
    let mut server = Serve::new(ServeLaw::default(), 1);
    server.record_arrivals();
    let setup = Setup::new(Link::default(), 1);
    let ran = setup.run(&mut clients, &mut [&mut server]);
    let mut started = 0;
    for machine in machines {
        let (warmup, main) = machine.engine.finish();
        started += warmup.map_or(0, |w| w.started) + main.started;
        assert_eq!(main.started, main.replies);
    }
    assert_eq!(server.arrivals().len() as u64, started);
    (server.arrivals().to_vec(), ran.finished)
}

fn intended(plan: &Plan) -> Vec<Nanos> {
    let mut schedule = Schedule::new(plan);
    std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at).collect()
}

const STEERS: [(u64, f64); 4] = [(1_000, 2.0), (1_500, 0.0), (2_250, 0.5), (2_600, 0.0)];

#[test]
fn what_arrives_is_what_the_changed_plan_asks_for() {
    for law in [Arrivals::Fixed, Arrivals::Poisson] {
        for warmup in [0, 400] {
            let mut plan = open(1_600.0, law.clone(), 1);
            plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_secs(3)) };
            plan.warmup = Span::from_millis(warmup);
            let steers = STEERS.map(|(at, factor)| Steer { from: ms(warmup + at), factor });
            let mut changed = plan.clone();
            let rate = changed.load.steerable().expect("a rate");
            *rate = rate.steered(ms(warmup), &steers);
            let expected = intended(&changed);
            for shares in [1, 2, 3] {
                let (arrived, ended) = arrived(&plan, &steers, shares);
                assert!(arrived == expected, "{law:?}, warm-up {warmup} ms, {shares} shares");
                // Paused to the end, every share waits for it all the same.
                assert!(ended.iter().all(|&end| end >= ms(warmup + 3_000)), "{ended:?}");
            }
        }
    }
}

#[test]
fn a_step_by_arithmetic() {
    let mut plan = open(100.0, Arrivals::Fixed, 130);
    plan.stop.duration = None;
    let steers = [(500, 0.0), (700, 4.0)].map(|(at, factor)| Steer { from: ms(at), factor });
    // Every 10 ms; nothing for 200 ms from 500 ms on, when one would be due, then every 2.5 ms.
    let grid = (0..50).map(|k| ms(10 * k));
    let grid: Vec<Nanos> =
        grid.chain((0..80).map(|k| ms(700) + Span::from_micros(2_500) * k)).collect();
    for shares in [1, 2] {
        assert_eq!(arrived(&plan, &steers, shares).0, grid, "{shares} shares");
    }
}
