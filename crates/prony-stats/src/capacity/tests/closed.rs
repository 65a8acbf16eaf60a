//! The search by connections: closed loops on servers whose throughput and response time are known
//! for each number of connections.

use super::*;

/// A server for closed loops. The mean time of one request alone is 5 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    /// The time of each request is exponential around `N / X(N)` of the Universal Scalability Law.
    Usl { sigma: f64, kappa: f64 },
    /// A number of workers with exponential times, and one queue.
    Workers(usize),
}

const ALONE: f64 = 5e-3;

impl Server {
    fn run(self, trial: Trial, seed: u64) -> Requests {
        let mut rng = Sequence::numbered(seed, Stream::Link, trial.number + 1);
        let (warmup, length) = (trial.warmup.as_secs_f64(), trial.length.as_secs_f64());
        let n = trial.rate as usize;
        let mut requests = Requests { span: length, ..Requests::default() };
        let mut record = |from: f64, to: f64| {
            if from >= warmup && from < warmup + length {
                requests.times.push(to - from);
            }
        };
        let mut exponential = |mean: f64| -(1.0 - rng.unit()).ln() * mean;
        match self {
            Self::Usl { .. } => {
                let mean = self.cycle(n as f64);
                for _ in 0..n {
                    let mut now = exponential(mean);
                    while now < warmup + length {
                        let done = now + exponential(mean);
                        record(now, done);
                        now = done;
                    }
                }
            }
            Self::Workers(workers) => {
                // In the order in which requests are sent: a worker that becomes free takes the
                // first one.
                let mut ready: Vec<f64> = vec![0.0; n];
                let mut free = vec![0.0_f64; workers];
                loop {
                    let least = |of: &[f64]| {
                        (0..of.len()).min_by(|&a, &b| of[a].total_cmp(&of[b])).unwrap_or(0)
                    };
                    let (user, worker) = (least(&ready), least(&free));
                    let from = ready[user];
                    if from >= warmup + length {
                        break;
                    }
                    let done = from.max(free[worker]) + exponential(ALONE);
                    record(from, done);
                    (ready[user], free[worker]) = (done, done);
                }
            }
        }
        requests
    }

    /// The mean time of a request with `n` connections.
    fn cycle(self, n: f64) -> f64 {
        match self {
            Self::Usl { sigma, kappa } => ALONE * (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)),
            Self::Workers(workers) => ALONE * (n / workers as f64).max(1.0),
        }
    }

    /// The probability of a time above `t` seconds.
    fn longer(self, n: f64, t: f64) -> f64 {
        match self {
            Self::Usl { .. } => (-t / self.cycle(n)).exp(),
            Self::Workers(workers) => {
                // It waits for n - c departures of c workers (an Erlang distribution), and then for
                // its own service.
                let (c, rate) = (workers as f64, 1.0 / ALONE);
                let waits = (n - c).max(0.0) as i32;
                let steps = 4_000;
                let step = t / f64::from(steps);
                let density = |w: f64| {
                    let mut term = (-c * rate * w).exp() * c * rate;
                    for k in 1..waits {
                        term *= c * rate * w / f64::from(k);
                    }
                    term
                };
                let own = |w: f64| (-rate * (t - w)).exp();
                if waits == 0 {
                    return own(0.0);
                }
                let (mut sum, mut within) = (0.0, 0.0);
                for i in 0..steps {
                    let w = step * (f64::from(i) + 0.5);
                    sum += density(w) * own(w) * step;
                    within += density(w) * step;
                }
                sum + 1.0 - within
            }
        }
    }

    /// The most connections with which at most 1 % of the times are above `t`.
    fn truth(self, t: f64) -> f64 {
        let holds = |n: &u32| self.longer(f64::from(*n), t) <= 0.01;
        f64::from((1..10_000).take_while(holds).last().unwrap_or(0))
    }
}

fn by_connections(threshold: &str, seed: u64) -> Settings {
    Settings { by: By::Connections, most: 1_000.0, from: 1.0, ..settings(threshold, seed) }
}

fn search_closed(server: Server, settings: Settings) -> Answer {
    let threshold = settings.thresholds[0].clone();
    let seed = settings.seed;
    let mut search = Search::new(settings);
    loop {
        match search.step() {
            Step::Done(answer) => return *answer,
            Step::Run(trial) => {
                let seen = observed(&mut server.run(trial, seed), trial, &threshold);
                search.feed(seen, trial.warmup + trial.length);
            }
        }
    }
}

const USL: Server = Server::Usl { sigma: 0.05, kappa: 0.001 };

#[test]
fn connections_and_model_of_a_server_are_found() {
    let truth = USL.truth(0.1);
    let (runs, first) = count();
    let (mut covered, mut errors, mut fits, mut parameters) = (0, Vec::new(), 0, [0; 3]);
    for seed in first..first + u64::from(runs) {
        let answer = search_closed(USL, by_connections("p99 < 100ms", seed));
        let Finding::Capacity { rate, interval, stop, .. } = answer.finding else {
            panic!("seed {seed}: {:?}", answer.finding);
        };
        assert_eq!(stop, Stop::Queueing);
        covered += u32::from(interval.lo <= truth && truth <= interval.hi);
        errors.push((rate / truth - 1.0).abs());
        let throughput = answer.throughput.and_then(|t| t.value).expect("a throughput");
        let expected = truth / USL.cycle(truth);
        assert!((throughput / expected - 1.0).abs() < 0.03, "{throughput}, not {expected}");
        let Some(Scalability::Fits { lambda, sigma, kappa, .. }) = answer.scalability else {
            continue;
        };
        fits += 1;
        for (i, (e, truth)) in
            [(lambda, 1.0 / ALONE), (sigma, 0.05), (kappa, 0.001)].into_iter().enumerate()
        {
            let interval = e.interval.expect("an interval");
            parameters[i] += u32::from(interval.lo <= truth && truth <= interval.hi);
        }
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    println!(
        "USL            truth {truth}: covered {covered} of {runs}, median error {:.2} %; the model \
         fits in {fits}, lambda, sigma, kappa covered in {parameters:?}",
        100.0 * median
    );
    let least = |n: u32, of: u32| {
        f64::from(n) / f64::from(of) >= 0.95 - 3.5 * (0.0475 / f64::from(of)).sqrt()
    };
    assert!(least(covered, runs) && median <= 0.03, "{covered} of {runs}, {median}");
    assert!(fits * 10 >= runs * 9 && parameters.iter().all(|n| least(*n, fits)), "{parameters:?}");
}

#[test]
fn model_does_not_hold_for_workers_with_one_queue() {
    let server = Server::Workers(8);
    let truth = server.truth(0.04);
    let (runs, first) = count();
    let (mut covered, mut refused, mut numbers) = (0, 0, 0);
    for seed in first..first + u64::from(runs) {
        let answer = search_closed(server, by_connections("p99 < 40ms", seed));
        let Finding::Capacity { interval, .. } = answer.finding else {
            println!("M/M/8, closed, seed {seed}: {:?}", answer.finding);
            continue;
        };
        numbers += 1;
        covered += u32::from(interval.lo <= truth && truth <= interval.hi);
        refused += u32::from(matches!(answer.scalability, Some(Scalability::Deviates { .. })));
        let throughput = answer.throughput.and_then(|t| t.value).expect("a throughput");
        assert!((throughput * ALONE / 8.0 - 1.0).abs() < 0.03, "{throughput}");
    }
    println!(
        "M/M/8, closed  truth {truth}: {numbers} of {runs} numbers, covered {covered}, no model in \
         {refused}"
    );
    // All, as long as it takes more than a hundred searches to see a false alarm.
    assert!(numbers + runs / 100 >= runs, "{numbers} of {runs}");
    assert!(covered * 10 >= runs * 8, "{covered} of {runs}");
    assert!(refused * 10 >= runs * 9, "{refused} of {runs}");
}

#[test]
fn few_connections_are_whole_numbers() {
    // Two fit, three do not.
    let server = Server::Usl { sigma: 0.5, kappa: 0.0 };
    let limit = ALONE * 1.75 * 100_f64.ln();
    let threshold = format!("p99 < {:.2}ms", limit * 1e3);
    let answer = search_closed(server, by_connections(&threshold, 3));
    let Finding::Capacity { rate, interval, .. } = answer.finding else {
        panic!("{:?}", answer.finding);
    };
    assert_eq!((rate, interval.lo, interval.hi), (2.0, 2.0, 2.0));
    assert!(answer.points.iter().all(|p| p.trial.rate.fract() == 0.0));
}

#[test]
fn a_server_that_takes_any_number_of_connections_has_no_ceiling() {
    let server = Server::Usl { sigma: 0.0, kappa: 0.0 };
    let answer = search_closed(server, Settings { most: 300.0, ..by_connections("p99 < 1s", 3) });
    let expected = Finding::AtLeast { rate: Some(300.0), limit: Limit::Connections };
    assert_eq!(answer.finding, expected);
    let Some(Scalability::Fits { lambda, sigma, .. }) = answer.scalability else {
        panic!("{:?}", answer.scalability);
    };
    assert!((lambda.value.expect("a value") * ALONE - 1.0).abs() < 0.05);
    assert!(sigma.value.expect("a value") < 1e-3);
}

#[test]
fn a_moment_of_a_busy_machine_is_no_ceiling() {
    let threshold = by_connections("p99 < 100ms", 3).thresholds[0].clone();
    let mut search = Search::new(by_connections("p99 < 100ms", 3));
    let mut hindered = 0;
    let answer = loop {
        match search.step() {
            Step::Done(answer) => break *answer,
            Step::Run(trial) => {
                let mut seen = observed(&mut USL.run(trial, 3), trial, &threshold);
                // The first trials with 4 and with 16 connections.
                let now = trial.rate == [4.0, 16.0, 0.0][hindered];
                seen.limit = now.then_some(Limit::Meter);
                hindered += usize::from(now);
                search.feed(seen, trial.warmup + trial.length);
            }
        }
    };
    assert_eq!(hindered, 2);
    let Finding::Capacity { interval, .. } = answer.finding else { panic!("{:?}", answer.finding) };
    let truth = USL.truth(0.1);
    assert!(interval.lo <= truth && truth <= interval.hi, "{interval:?}, {truth}");
}

/// A probe by connections lasts for as long as its requests need, not its connections.
#[test]
fn probes_last_as_long_as_their_requests() {
    let threshold = by_connections("p99 < 100ms", 3).thresholds[0].clone();
    let mut search = Search::new(by_connections("p99 < 100ms", 3));
    let mut probes = 0;
    loop {
        match search.step() {
            Step::Done(_) => break,
            Step::Run(trial) => {
                let mut seen = observed(&mut USL.run(trial, 3), trial, &threshold);
                if trial.purpose == Purpose::Probe {
                    probes += 1;
                    let requests = seen.point.requests;
                    assert!(requests >= 30, "{requests}");
                    assert_eq!(trial.length, Span::from_millis(500), "{trial:?}");
                } else if trial.rate > 60.0 {
                    seen.excess[0] = Some(100.0);
                }
                search.feed(seen, trial.warmup + trial.length);
            }
        }
    }
    assert!(probes > 0);
}

/// A wall between two numbers of connections is found exactly.
#[test]
fn wall_by_connections_is_found_exactly() {
    let threshold: Threshold = "p99 < 20ms".parse().expect("a threshold");
    for seed in 0..3 {
        let mut search = Search::new(by_connections("p99 < 20ms", seed));
        let answer = loop {
            match search.step() {
                Step::Done(answer) => break answer,
                Step::Run(trial) => {
                    let seconds = trial.length.as_secs_f64();
                    let times = vec![trial.rate * 1e-3 - 1e-5; (seconds * 1e3) as usize];
                    let mut requests = Requests { times, span: seconds, ..Requests::default() };
                    let seen = observed(&mut requests, trial, &threshold);
                    search.feed(seen, trial.warmup + trial.length);
                }
            }
        };
        let Finding::Capacity { rate, interval, .. } = answer.finding else {
            panic!("{:?}", answer.finding);
        };
        let near = 19.0..=20.0;
        let all = [rate, interval.lo, interval.hi];
        assert!(all.iter().all(|n| near.contains(n)), "{rate} {interval:?}");
    }
}
