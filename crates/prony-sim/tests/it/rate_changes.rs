//! Changes of the rate during a run: requests reach the server at the times of the changed plan,
//! with any number of shares and whenever each receives the change.

use std::collections::VecDeque;

use prony_base::machine::Machine;
use prony_base::units::{Nanos, Span};
use prony_core::engine::Engine;
use prony_plan::plan::{Plan, Stop};
use prony_plan::schedule::{Arrivals, RateChange, Schedule};
use prony_proto::proto::h1::H1;
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::world::Setup;

use crate::delegate::delegate;
use crate::plans::open;

/// An engine that receives each change of the rate some time before it applies, as in a worker.
struct Notified {
    engine: Engine<H1>,
    /// When it receives which change.
    news: VecDeque<(Nanos, RateChange)>,
}

impl Machine for Notified {
    delegate!(engine: on_connected on_recv on_closed on_turn on_stop poll_action take_output);

    fn on_tick(&mut self, now: Nanos) {
        while let Some(&(at, change)) = self.news.front()
            && at <= now
        {
            self.news.pop_front();
            self.engine.change_rate(change);
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
fn arrived(plan: &Plan, rate_changes: &[RateChange], shares: u32) -> (Vec<Nanos>, Vec<Nanos>) {
    let mut machines: Vec<Notified> = (0..shares)
        .map(|i| {
            let share = plan.shard(i, shares);
            let mut engine = Engine::new(&share, H1::new(&share));
            engine.expect_rate_changes();
            // Each share receives it at a different time.
            let before = Span::from_millis(200 - 60 * u64::from(i));
            let news = rate_changes.iter().map(|&s| (Nanos(s.from.0.saturating_sub(before.0)), s));
            Notified { engine, news: news.collect() }
        })
        .collect();
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for machine in &mut machines {
        clients.push(machine);
    }
    let mut server = Serve::new(ServerBehavior::default(), 1);
    server.record_arrivals();
    let setup = Setup::new(Link::default(), 1);
    let outcome = setup.run(&mut clients, &mut [&mut server]);
    let mut started = 0;
    for machine in machines {
        let (warmup, main) = machine.engine.finish();
        started += warmup.map_or(0, |w| w.started) + main.started;
        assert_eq!(main.started, main.replies);
    }
    assert_eq!(server.arrivals().len() as u64, started);
    (server.arrivals().to_vec(), outcome.finished)
}

fn intended(plan: &Plan) -> Vec<Nanos> {
    let mut schedule = Schedule::new(plan);
    std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at).collect()
}

const RATE_CHANGES: [(u64, f64); 4] = [(1_000, 2.0), (1_500, 0.0), (2_250, 0.5), (2_600, 0.0)];

#[test]
fn arrivals_follow_the_changed_plan() {
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
        for warmup in [0, 400] {
            let mut plan = open(1_600.0, arrivals.clone(), 1);
            plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_secs(3)) };
            plan.warmup = Span::from_millis(warmup);
            let rate_changes =
                RATE_CHANGES.map(|(at, factor)| RateChange { from: ms(warmup + at), factor });
            let mut changed = plan.clone();
            let rate = changed.load.adjustable_rate().expect("a rate");
            *rate = rate.with_changes(ms(warmup), &rate_changes);
            let expected = intended(&changed);
            for shares in [1, 2, 3] {
                let (arrived, ended) = arrived(&plan, &rate_changes, shares);
                assert!(arrived == expected, "{arrivals:?}, warm-up {warmup} ms, {shares} shares");
                // The rate is zero until the end, and every share runs until then.
                assert!(ended.iter().all(|&end| end >= ms(warmup + 3_000)), "{ended:?}");
            }
        }
    }
}

#[test]
fn arrivals_follow_a_step_of_the_rate() {
    let mut plan = open(100.0, Arrivals::Fixed, 130);
    plan.stop.duration = None;
    let rate_changes =
        [(500, 0.0), (700, 4.0)].map(|(at, factor)| RateChange { from: ms(at), factor });
    // Every 10 ms; none from 500 to 700 ms; then every 2.5 ms.
    let grid = (0..50).map(|k| ms(10 * k));
    let grid: Vec<Nanos> =
        grid.chain((0..80).map(|k| ms(700) + Span::from_micros(2_500) * k)).collect();
    for shares in [1, 2] {
        assert_eq!(arrived(&plan, &rate_changes, shares).0, grid, "{shares} shares");
    }
}
