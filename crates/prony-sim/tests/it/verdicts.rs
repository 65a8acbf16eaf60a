//! The verdict on runs whose truth is known: none that is spoilt may be called valid, and hardly
//! any clean one may be called anything else.

use prony_core::fault::Fault;
use prony_core::machine::StopRequest;
use prony_core::plan::{Burst, Plan, SessionKind, Sessions, Stop, Think};
use prony_core::schedule::Arrivals;
use prony_core::summary::{Judgement, Limit, RunInfo, Summary, Verdict};
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::{ConnectOdds, Link};
use prony_sim::load;
use prony_sim::plant::{Law, Server, Station};
use prony_sim::world::{Held, Setup};

use crate::plans::{Seed, assert_conserved, at, closed, get, ms, open, summed};

/// What a case is made of.
struct Case {
    plan: Plan,
    setup: Setup,
    station: Station,
    percentile: Option<f64>,
}

impl Case {
    /// A clean run of 9 to 30 s: any load model, servers of every kind, none of them overloaded.
    fn clean(dice: &mut Dice, seed: u64) -> Self {
        let length = Span::from_secs(dice.between(9, 30));
        let law = match dice.below(5) {
            0 => Law::Fixed(ms(10)),
            1 => Law::Exponential(ms(10)),
            2 => Law::Uniform(ms(2), ms(30)),
            3 => Law::Pareto(ms(4), 2.2),
            _ => Law::Bimodal(ms(5), ms(60), 0.05),
        };
        let mut station = Station::new(law, seed);
        let mut plan = match dice.below(6) {
            0 => closed(dice.between(1, 3) as u32, Think::None, length),
            1 => closed(dice.between(2, 6) as u32, Think::Exponential(ms(20)), length),
            2 => {
                let pipeline = dice.between(2, 8) as u32;
                Plan { pipeline, ..closed(dice.between(1, 3) as u32, Think::None, length) }
            }
            3 => in_sessions(closed(dice.between(2, 6) as u32, Think::None, length), dice),
            4 => {
                let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
                let mut plan = open(10.0 + dice.unit() * 30.0, arrivals, 1);
                plan.stop = Stop { duration: Some(length), ..Stop::default() };
                in_sessions(plan, dice)
            }
            _ => {
                let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
                let rate = 40.0 + dice.unit() * 120.0;
                let mut plan = open(rate, arrivals, 1);
                plan.stop = Stop { duration: Some(length), ..Stop::default() };
                // A queue before one server, busy for 30 to 80 % of the time.
                if dice.chance(0.5) {
                    let busy = 0.3 + dice.unit() * 0.5;
                    let service = Span::from_micros((busy / rate * 1e6) as u64);
                    station = Station::new(Law::Exponential(service), seed).servers(1);
                }
                plan
            }
        };
        plan.seed = seed;
        plan.expect.statuses = vec![(200, 399)];
        if dice.chance(0.3) {
            plan.warmup = ms(dice.between(500, 2_000));
        }
        if plan.sessions.is_none() && plan.pipeline == 1 && dice.chance(0.2) {
            plan.requests_per_connection = Some(dice.between(1, 9) as u32);
        }
        let link = Link { jitter: Span(dice.below(200_000)), ..Link::with_latency(Span(50_000)) };
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        Self { plan, setup, station, percentile: None }
    }

    fn judged(self, shares: u32) -> Judgement {
        self.ran(shares).verdict()
    }

    fn ran(self, shares: u32) -> Summary {
        let Self { plan, setup, station, percentile } = self;
        plan.check().expect("a valid plan");
        let outcome = load(&plan, shares, &setup, &mut [&mut Server::new(station)]);
        assert_conserved(&outcome, "verdicts");
        let interrupted = !setup.stops.is_empty();
        let run = RunInfo { interrupted, percentile, ..RunInfo::default() };
        summed(&plan, run, outcome)
    }
}

/// The same load as sessions of one to three bursts, with pauses between them.
fn in_sessions(plan: Plan, dice: &mut Dice) -> Plan {
    let bursts = (0..dice.between(1, 3)).map(|_| Burst {
        calls: (0..dice.between(1, 3) as u32).collect(),
        lead: dice.chance(0.5),
        think: Think::Exponential(ms(20)),
        repeat: 1,
    });
    let kind = SessionKind { name: String::new(), weight: 1, bursts: bursts.collect() };
    Plan {
        calls: (0..3).map(|k| get(&format!("/{k}"))).collect(),
        pipeline: 8,
        sessions: Some(Sessions::plain(vec![kind])),
        ..plan
    }
}

#[test]
fn clean_runs_are_valid() {
    let mut alarms = Vec::new();
    for seed in 0..200 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 40);
        let case = Case::clean(&mut dice, seed);
        let judged = case.judged(1 + (seed % 2) as u32);
        if !judged.is_valid() {
            alarms.push((seed, judged));
        }
    }
    assert!(alarms.len() <= 4, "{} of 200: {alarms:#?}", alarms.len());
}

/// A ramp from 10 ms to 100 ms between two plateaus: the ends of the line that fits it best lie far
/// outside of all response times.
#[test]
fn p14_a_drift_is_reported_by_times_that_were_measured() {
    for seed in 0..10 {
        let _case = Seed(seed);
        let mut case = Case::clean(&mut Dice::new(seed, 42), seed);
        let stop = Stop { duration: Some(Span::from_secs(60)), ..Stop::default() };
        case.plan = Plan { stop, seed, ..open(100.0, Arrivals::Poisson, 1) };
        changing(&mut case, vec![(at(20_000), 1.0), (at(50_000), 10.0)]);
        let summary = case.ran(1);
        let judged = summary.verdict();
        let [Limit::Changed(change)] = judged.reasons[..] else { panic!("{judged:?}") };
        assert_eq!(change.at, None, "{change:?}");
        let response = &summary.main.times.response;
        let [least, most] = [response.min(), response.max()].map(|t| t.expect("a time").0 as f64);
        assert!(least <= change.from && change.to <= most, "{least} {change:?} {most}");
        // 8 to 12 ms at first, 80 to 120 at last, and 0.1 ms on the wire.
        assert!((9.5e6..10.8e6).contains(&change.from), "{change:?}");
        assert!((93e6..107e6).contains(&change.to), "{change:?}");
    }
}

/// Spoil a clean run in one way, and say what it must be called.
fn spoil(case: &mut Case, kind: u64, dice: &mut Dice) -> Verdict {
    let length = case.plan.stop.duration.expect("a time").0 / 1_000_000;
    let warm = case.plan.warmup.0 / 1_000_000;
    // A quarter to three quarters into the measurement.
    let when = at(warm + length / 4 + dice.below(length / 2));
    match kind {
        0 => {
            let factor = 1.6 + dice.unit() * 2.4;
            let (before, after) = if dice.chance(0.5) { (1.0, factor) } else { (factor, 1.0) };
            changing(case, vec![(when, before), (when, after)]);
            Verdict::NotStationary
        }
        1 => {
            let factor = 2.2 + dice.unit() * 2.0;
            changing(case, vec![(at(warm), 1.0), (at(warm + length), factor)]);
            Verdict::NotStationary
        }
        2 => {
            case.station = Station::new(Law::Fixed(ms(5)), 1).statuses(vec![500, 200, 503]);
            Verdict::TargetFailed
        }
        3 => {
            let refused = 0.6 + dice.unit() * 0.4;
            failing_to_connect(case, ConnectOdds { refused, ..ConnectOdds::default() });
            Verdict::TargetFailed
        }
        4 => {
            let no_descriptors = 0.05 + dice.unit() * 0.5;
            failing_to_connect(case, ConnectOdds { no_descriptors, ..ConnectOdds::default() });
            Verdict::ClientLimited
        }
        5 => {
            let no_ports = 0.05 + dice.unit() * 0.5;
            failing_to_connect(case, ConnectOdds { no_ports, ..ConnectOdds::default() });
            Verdict::ClientLimited
        }
        6 => {
            // The meter is held up for up to 20 ms at every turn, against replies of 10 ms.
            let plan = open(100.0, Arrivals::Poisson, 1);
            case.plan = Plan { stop: case.plan.stop, seed: case.plan.seed, ..plan };
            case.station = Station::new(Law::Fixed(ms(10)), 1);
            case.setup.late = ms(20);
            Verdict::ClientLimited
        }
        7 => {
            case.percentile = Some(99.999);
            Verdict::TooShort
        }
        8 => {
            case.setup.stops.push((when, StopRequest::Drain));
            Verdict::Interrupted
        }
        9 => {
            // A run of one second, and a percentile that it cannot carry.
            case.plan.stop.duration = Some(Span::from_secs(1));
            case.percentile = Some(99.9);
            Verdict::TooShort
        }
        _ => {
            // On a processor for 5 to 50 % of the time, whatever the load.
            let period = dice.between(20, 200);
            let away = period as f64 * (0.5 + dice.unit() * 0.45);
            case.setup.held = Some(Held { period: ms(period), away: Span((away * 1e6) as u64) });
            Verdict::ClientLimited
        }
    }
}

/// Two connects in five are refused: fewer than half of the requests fail. But each refusal in a
/// row doubles the wait for the next try (2 ms on average for each reply, which takes 1.2 ms).
#[test]
fn waits_for_a_target_that_is_away_count() {
    let plan = closed(1, Think::None, Span::from_secs(9));
    let station = Station::new(Law::Fixed(ms(1)), 5);
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(Span(50_000)), 5) };
    let mut case = Case { plan, setup, station, percentile: None };
    failing_to_connect(&mut case, ConnectOdds { refused: 0.4, ..ConnectOdds::default() });
    let judged = case.judged(1);
    let [Limit::Gone { share, fault: Fault::ConnectRefused }] = judged.reasons[..] else {
        panic!("{judged:?}");
    };
    assert!((0.5..0.75).contains(&share), "{share}");
}

/// Where each request has a connection of its own, or each session.
fn failing_to_connect(case: &mut Case, odds: ConnectOdds) {
    case.setup.link.connect = odds;
    if case.plan.sessions.is_none() {
        case.plan.requests_per_connection = Some(1);
    }
}

/// A server of little scatter that changes.
fn changing(case: &mut Case, slower: Vec<(Nanos, f64)>) {
    let station = Station::new(Law::Uniform(ms(8), ms(12)), 1);
    case.station = station.slower(slower);
}

/// Of 360 cases, those that are spoilt in one of these ways.
fn are_not_valid(kinds: &[u64]) {
    for seed in (0..360).filter(|seed| kinds.contains(&(seed % 12))) {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 41);
        let mut case = Case::clean(&mut dice, seed);
        let expected = spoil(&mut case, seed % 12, &mut dice);
        let judged = case.judged(1);
        assert!(!judged.is_valid(), "seed {seed}: {expected:?} was called valid");
        assert_eq!(judged.verdict, expected, "seed {seed}: {judged:?}");
    }
}

#[test]
fn p08_a_meter_that_is_late_or_away_says_so() {
    are_not_valid(&[6, 10, 11]);
}

#[test]
fn p14_a_server_that_steps_or_drifts_is_told() {
    are_not_valid(&[0, 1]);
}

#[test]
fn spoilt_runs_are_not_valid() {
    are_not_valid(&[2, 3, 4, 5, 7, 8, 9]);
}
