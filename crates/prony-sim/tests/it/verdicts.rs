//! The verdicts of runs with and without a known fault: no run with a fault may be called valid,
//! and almost every run without one must be.

use prony_base::fault::Fault;
use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Burst, Plan, SessionKind, Sessions, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::{ConnectFaults, Link};
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::{Pauses, Setup};
use prony_stats::summary::{Judgment, Reason, RunInfo, Summary, Verdict};

use crate::plans::{Seed, assert_invariants, at, closed, get, ms, open, seeds, summed};

/// A run, without the number of its shares.
struct Case {
    plan: Plan,
    setup: Setup,
    station: Station,
    percentile: Option<f64>,
}

impl Case {
    /// A random run without a fault, of 9 to 30 s: any load model, with a server that is not
    /// overloaded.
    fn clean(rng: &mut Rng, seed: u64) -> Self {
        let length = Span::from_secs(rng.between(9, 30));
        let service_time = match rng.below(5) {
            0 => ServiceTime::Fixed(ms(10)),
            1 => ServiceTime::Exponential(ms(10)),
            2 => ServiceTime::Uniform(ms(2), ms(30)),
            3 => ServiceTime::Pareto(ms(4), 2.2),
            _ => ServiceTime::Bimodal(ms(5), ms(60), 0.05),
        };
        let mut station = Station::new(service_time, seed);
        let mut plan = match rng.below(6) {
            0 => closed(rng.between(1, 3) as u32, Think::None, length),
            1 => closed(rng.between(2, 6) as u32, Think::Exponential(ms(20)), length),
            2 => {
                let pipeline = rng.between(2, 8) as u32;
                Plan { pipeline, ..closed(rng.between(1, 3) as u32, Think::None, length) }
            }
            3 => in_sessions(closed(rng.between(2, 6) as u32, Think::None, length), rng),
            4 => {
                let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
                let mut plan = open(10.0 + rng.unit() * 30.0, arrivals, 1);
                plan.stop = Stop { duration: Some(length), ..Stop::default() };
                in_sessions(plan, rng)
            }
            _ => {
                let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
                let rate = 40.0 + rng.unit() * 120.0;
                let mut plan = open(rate, arrivals, 1);
                plan.stop = Stop { duration: Some(length), ..Stop::default() };
                // A queue at one server, with a utilization of 30 to 80 %.
                if rng.chance(0.5) {
                    let busy = 0.3 + rng.unit() * 0.5;
                    let service = Span::from_micros((busy / rate * 1e6) as u64);
                    station = Station::new(ServiceTime::Exponential(service), seed).servers(1);
                }
                plan
            }
        };
        plan.seed = seed;
        plan.expect.statuses = vec![(200, 399)];
        if rng.chance(0.3) {
            plan.warmup = ms(rng.between(500, 2_000));
        }
        if plan.sessions.is_none() && plan.pipeline == 1 && rng.chance(0.2) {
            plan.requests_per_connection = Some(rng.between(1, 9) as u32);
        }
        let link = Link { jitter: Span(rng.below(200_000)), ..Link::with_latency(Span(50_000)) };
        let setup = Setup { watch: false, ..Setup::new(link, seed) };
        Self { plan, setup, station, percentile: None }
    }

    fn judgment(self, shares: u32) -> Judgment {
        self.summary(shares).verdict()
    }

    fn summary(self, shares: u32) -> Summary {
        let Self { plan, setup, station, percentile } = self;
        plan.check().expect("a valid plan");
        let outcome = load(&plan, shares, &setup, &mut [&mut Server::new(station)]);
        assert_invariants(&outcome, "verdicts");
        let interrupted = !setup.stops.is_empty();
        let run = RunInfo { interrupted, percentile, ..RunInfo::default() };
        summed(&plan, run, outcome)
    }
}

/// The same load as sessions of one to three bursts, with think times between them.
fn in_sessions(plan: Plan, rng: &mut Rng) -> Plan {
    let bursts = (0..rng.between(1, 3)).map(|_| Burst {
        calls: (0..rng.between(1, 3) as u32).collect(),
        lead: rng.chance(0.5),
        think: Think::Exponential(ms(20)),
        repeat: 1,
        control: None,
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
    for seed in seeds(200) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 40);
        let case = Case::clean(&mut rng, seed);
        let judgment = case.judgment(1 + (seed % 2) as u32);
        if !judgment.is_valid() {
            alarms.push((seed, judgment));
        }
    }
    assert!(alarms.len() <= 4, "{} of 200: {alarms:#?}", alarms.len());
}

/// Users of a closed loop have no reply at first. Long replies of nearly one length then come in
/// waves, which is no change of the target.
#[test]
fn the_start_of_a_closed_loop_is_no_change() {
    let mut alarms = Vec::new();
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 44);
        let mut case = Case::clean(&mut rng, seed);
        let least = rng.between(300, 2_500);
        let most = least + least * rng.between(5, 40) / 100;
        let length = Span::from_secs(rng.between(30, 90));
        case.plan = Plan { seed, ..closed(rng.between(2, 12) as u32, Think::None, length) };
        case.station = Station::new(ServiceTime::Uniform(ms(least), ms(most)), seed);
        let judgment = case.judgment(1);
        if judgment.verdict == Verdict::NotStationary {
            alarms.push((seed, judgment));
        }
    }
    assert!(alarms.len() <= 2, "{} of 100: {alarms:#?}", alarms.len());
}

/// The service time rises from 10 ms to 100 ms between two plateaus, so the ends of the regression
/// line are far outside of all response times.
#[test]
fn p14_a_drift_is_reported_with_measured_times() {
    for seed in 0..10 {
        let _case = Seed(seed);
        let mut case = Case::clean(&mut Rng::new(seed, 42), seed);
        let stop = Stop { duration: Some(Span::from_secs(60)), ..Stop::default() };
        case.plan = Plan { stop, seed, ..open(100.0, Arrivals::Poisson, 1) };
        changing(&mut case, vec![(at(20_000), 1.0), (at(50_000), 10.0)]);
        let summary = case.summary(1);
        let judgment = summary.verdict();
        let [Reason::LevelShift(change)] = judgment.reasons[..] else { panic!("{judgment:?}") };
        assert_eq!(change.at, None, "{change:?}");
        let response = &summary.main.times.response;
        let [least, most] = [response.min(), response.max()].map(|t| t.expect("a time").0 as f64);
        assert!(least <= change.from && change.to <= most, "{least} {change:?} {most}");
        // 8 to 12 ms at first, 80 to 120 ms at the end, and 0.1 ms of network latency.
        assert!((9.5e6..10.8e6).contains(&change.from), "{change:?}");
        assert!((93e6..107e6).contains(&change.to), "{change:?}");
    }
}

/// Add a fault to the run; returns the verdict that it must get.
fn add_fault(case: &mut Case, kind: u64, rng: &mut Rng) -> Verdict {
    let length = case.plan.stop.duration.expect("a time").0 / 1_000_000;
    let warm = case.plan.warmup.0 / 1_000_000;
    // After a quarter to three quarters of the measurement.
    let when = at(warm + length / 4 + rng.below(length / 2));
    match kind {
        0 => {
            let factor = 1.6 + rng.unit() * 2.4;
            let (before, after) = if rng.chance(0.5) { (1.0, factor) } else { (factor, 1.0) };
            changing(case, vec![(when, before), (when, after)]);
            Verdict::NotStationary
        }
        1 => {
            let factor = 2.2 + rng.unit() * 2.0;
            changing(case, vec![(at(warm), 1.0), (at(warm + length), factor)]);
            Verdict::NotStationary
        }
        2 => {
            case.station = Station::new(ServiceTime::Fixed(ms(5)), 1).statuses(vec![500, 200, 503]);
            Verdict::TargetFailed
        }
        3 => {
            let refused = 0.6 + rng.unit() * 0.4;
            failing_to_connect(case, ConnectFaults { refused, ..ConnectFaults::default() });
            Verdict::TargetFailed
        }
        4 => {
            let no_descriptors = 0.05 + rng.unit() * 0.5;
            failing_to_connect(case, ConnectFaults { no_descriptors, ..ConnectFaults::default() });
            Verdict::ClientLimited
        }
        5 => {
            let no_ports = 0.05 + rng.unit() * 0.5;
            failing_to_connect(case, ConnectFaults { no_ports, ..ConnectFaults::default() });
            Verdict::ClientLimited
        }
        6 => {
            // Each timer of the meter is up to 20 ms late; replies take 10 ms.
            let plan = open(100.0, Arrivals::Poisson, 1);
            case.plan = Plan { stop: case.plan.stop, seed: case.plan.seed, ..plan };
            case.station = Station::new(ServiceTime::Fixed(ms(10)), 1);
            case.setup.timer_lateness = ms(20);
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
            // A run of one second, too short for the percentile.
            case.plan.stop.duration = Some(Span::from_secs(1));
            case.percentile = Some(99.9);
            Verdict::TooShort
        }
        _ => {
            // The client runs for 5 to 50 % of the time.
            let period = rng.between(20, 200);
            let length = period as f64 * (0.5 + rng.unit() * 0.45);
            case.setup.pauses = Some(Pauses::fixed(ms(period), Span((length * 1e6) as u64)));
            Verdict::ClientLimited
        }
    }
}

/// With 40 % of the connects refused, fewer than half of the requests fail. But each refusal in a
/// row doubles the wait for the next try: 2 ms on average for each reply, which takes 1.2 ms.
#[test]
fn waits_for_an_unavailable_target_count() {
    let plan = closed(1, Think::None, Span::from_secs(9));
    let station = Station::new(ServiceTime::Fixed(ms(1)), 5);
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(Span(50_000)), 5) };
    let mut case = Case { plan, setup, station, percentile: None };
    failing_to_connect(&mut case, ConnectFaults { refused: 0.4, ..ConnectFaults::default() });
    let judgment = case.judgment(1);
    let [Reason::TargetUnavailable { share, fault: Fault::ConnectRefused }] = judgment.reasons[..]
    else {
        panic!("{judgment:?}");
    };
    assert!((0.5..0.75).contains(&share), "{share}");
}

/// Make connects fail, with a connection for each request or session.
fn failing_to_connect(case: &mut Case, faults: ConnectFaults) {
    case.setup.link.connect = faults;
    if case.plan.sessions.is_none() {
        case.plan.requests_per_connection = Some(1);
    }
}

/// Use a server with little variance that changes.
fn changing(case: &mut Case, slowdown: Vec<(Nanos, f64)>) {
    let station = Station::new(ServiceTime::Uniform(ms(8), ms(12)), 1);
    case.station = station.slowdown(slowdown);
}

/// Check those of 360 cases that have one of these faults.
fn are_not_valid(kinds: &[u64]) {
    for seed in (0..360).filter(|seed| kinds.contains(&(seed % 12))) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 41);
        let mut case = Case::clean(&mut rng, seed);
        let expected = add_fault(&mut case, seed % 12, &mut rng);
        let judgment = case.judgment(1);
        assert!(!judgment.is_valid(), "seed {seed}: {expected:?} was called valid");
        assert_eq!(judgment.verdict, expected, "seed {seed}: {judgment:?}");
    }
}

#[test]
fn p08_late_and_paused_meters_are_reported() {
    are_not_valid(&[6, 10, 11]);
}

#[test]
fn p14_steps_and_drifts_of_the_server_are_reported() {
    are_not_valid(&[0, 1]);
}

#[test]
fn faulty_runs_are_not_valid() {
    are_not_valid(&[2, 3, 4, 5, 7, 8, 9]);
}
