//! Computes the numbers of the classic report from a finished run.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_stats::summary::Summary;
use prony_tally::record::hist::Hist;
use prony_tally::record::{SessionTally, Tally};

use super::options::Opts;
use super::report::{Errors, Lengths, Numbers, Rate, SessionNumbers, Spread};

/// The interval between two samples of the reply rate, in seconds.
pub(super) const SAMPLE: f64 = 5.0;

/// The numbers of a run. `request_bytes`: the bytes of the requests, if they are not all bytes that
/// were sent. `concurrent`: the most connections at one time.
pub(super) fn numbers(
    o: &Opts,
    summary: &Summary,
    request_bytes: Option<u64>,
    concurrent: u64,
) -> Numbers {
    let t = &summary.main;
    let request_bytes = request_bytes.unwrap_or(t.bytes_sent);
    let duration = duration(summary);
    let replies: u64 = t.statuses.values().sum();
    // A call that is sent again counts twice.
    let requests = t.sent + t.retries;
    let connections = connections(t);
    let (lifetime, lifetime_median) = lifetimes(&t.connections.lifetimes);
    let samples = samples(o, duration, &reply_curve(t));
    let header = t.bytes_head - t.bytes_framing - t.bytes_footer;
    let sizes = [header, t.bytes_body, t.bytes_footer].map(|bytes| whole_share(bytes, replies));
    let moved = (request_bytes + header + t.bytes_body) as f64;
    let cpu = [
        summary.workers.iter().map(|m| m.cpu_user.as_secs_f64()).sum(),
        summary.workers.iter().map(|m| m.cpu_system.as_secs_f64()).sum::<f64>(),
    ];
    let (user, system) = (100.0 * share(cpu[0], duration), 100.0 * share(cpu[1], duration));
    Numbers {
        connect_burst: connect_burst(t, connections),
        lifetimes: (o.verbose >= 2).then(|| lifetime_bins(&t.connections.lifetimes)),
        connections,
        requests,
        replies,
        duration,
        connection_rate: rate(connections, duration),
        concurrent,
        lifetime,
        lifetime_median,
        // A TLS connection counts after its handshake.
        connect: mean_ms(&t.times.connect) + mean_ms(&t.times.handshake),
        connection_length: share(replies as f64, t.connections.lifetimes.count() as f64),
        request_rate: rate(requests, duration),
        request_size: whole_share(request_bytes, requests),
        samples: samples.len() as u64,
        reply_rate: spread(&samples),
        response: mean_ms(&t.times.first_byte),
        transfer: mean_ms(&t.times.transfer),
        reply_size: [sizes[0], sizes[1], sizes[2], sizes.iter().sum()],
        statuses: [1, 2, 3, 4, 5].map(|class| of_class(t, class)),
        periodic: o.periodic_stats.then(|| (of_status(t, 200), of_status(t, 302))),
        cpu,
        cpu_share: [user, system, user + system],
        net: [share(moved, duration) / 1024.0, 8e-6 * share(moved, duration)],
        errors: errors(o, t, &summary.plan),
        sessions: t
            .sessions
            .as_deref()
            .filter(|_| o.has_sessions())
            .map(|s| sessions(o, s, duration)),
    }
}

/// From the start to the last event, in seconds.
pub(super) fn duration(summary: &Summary) -> f64 {
    let wall = summary.workers.iter().map(|m| m.wall).max().unwrap_or(Span::ZERO);
    let length = wall.max(summary.main.window());
    // A run that its duration ended lasted for its duration, even if nothing happened at its end.
    let planned = summary.plan.stop.duration.filter(|_| {
        let started = summary.main.sessions.as_ref().map_or(0, |s| s.started);
        !summary.run.interrupted && summary.plan.stop.sessions.is_some_and(|n| started < n)
    });
    planned.map_or(length, |planned| planned.max(length)).as_secs_f64()
}

/// Connects for which a socket was opened.
fn connections(t: &Tally) -> u64 {
    t.connects.saturating_sub(t.connections.fault(Fault::NoDescriptors))
}

/// The longest burst of connects in one turn. The last burst does not count.
fn connect_burst(t: &Tally, connections: u64) -> u64 {
    if t.connections.opening_max >= connections { 0 } else { t.connections.opening_max }
}

fn lifetimes(h: &Hist) -> (Spread, f64) {
    let ms = |t: Option<Span>| t.map_or(0.0, |t| t.as_secs_f64() * 1e3);
    let n = h.count() as f64;
    let bessel = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 0.0 };
    let stddev = h.stdev_ns().unwrap_or(0.0) * bessel / 1e6;
    let spread = Spread { min: ms(h.min()), avg: mean_ms(h), max: ms(h.max()), stddev };
    (spread, ms(h.estimate(0.5)))
}

/// The connection lifetimes in whole milliseconds.
fn lifetime_bins(h: &Hist) -> Vec<(f64, u64)> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (last, count) in h.recorded() {
        let middle = Hist::bin_start(last).0.midpoint(Hist::bin_end(last).0);
        *bins.entry(middle / 1_000_000).or_default() += count;
    }
    bins.into_iter().map(|(ms, n)| (ms as f64 + 0.5, n)).collect()
}

/// Connections by error. Errors without a classic name count as `other`. A truncated body was never
/// an error in httperf, so it counts only if that is requested.
fn errors(o: &Opts, t: &Tally, plan: &Plan) -> Errors {
    let of = |faults: &[Fault]| faults.iter().map(|&f| t.connections.fault(f)).sum::<u64>();
    let timeouts = of(&[Fault::ConnectTimeout, Fault::RequestTimeout]);
    // Without a time limit, only the kernel's own timeout can have expired.
    let is_limited = plan.timeout < Span::MAX || plan.connect_timeout < Span::MAX;
    let short = of(&[Fault::ShortBody]);
    let resets = of(&[Fault::ConnectReset, Fault::Reset, Fault::ClosedEarly, Fault::Truncated]);
    let not_counted = if o.more.truncated_as_reset { 0 } else { short };
    let mut e = Errors {
        client_timo: if is_limited { timeouts } else { 0 },
        socket_timo: if is_limited { 0 } else { timeouts },
        connrefused: of(&[Fault::ConnectRefused]),
        connreset: resets + short - not_counted,
        fd_unavail: of(&[Fault::NoDescriptors]),
        addrunavail: of(&[Fault::NoPorts, Fault::NoAddress]),
        ftab_full: 0,
        other: 0,
    };
    e.other = of(&Fault::ALL) - not_counted - e.total();
    e
}

/// The number of replies (or sessions) until each second after the start, as pairs (time, number),
/// ascending.
fn reply_curve(t: &Tally) -> Vec<(f64, f64)> {
    let length = t.series.interval().as_secs_f64();
    let mut sum = 0.0;
    let cells = t.series.cells().iter().enumerate().map(|(i, c)| {
        sum += c.replies as f64;
        ((i + 1) as f64 * length, sum)
    });
    cells.collect()
}

fn session_curve(s: &SessionTally) -> Vec<(f64, f64)> {
    let mut curve = Vec::new();
    let mut sum = 0.0;
    for (&second, &n) in &s.per_second {
        curve.push((second as f64, sum));
        sum += n as f64;
        curve.push((second as f64 + 1.0, sum));
    }
    curve
}

/// The number at this time, by linear interpolation of a curve.
fn at(curve: &[(f64, f64)], time: f64) -> f64 {
    let next = curve.partition_point(|p| p.0 < time);
    let (t0, n0) = next.checked_sub(1).map_or((0.0, 0.0), |i| curve[i]);
    match curve.get(next) {
        Some(&(t1, n1)) if t1 > t0 => n0 + (n1 - n0) * (time - t0) / (t1 - t0),
        Some(&(_, n1)) => n1,
        None => n0,
    }
}

/// When the first sample of the rates is due, in seconds.
pub(super) fn first_sample((id, of): (u64, u64)) -> f64 {
    (id + 1) as f64 * SAMPLE / of as f64
}

/// The rate of events in each interval between two samples. The last interval is incomplete, and is
/// dropped.
fn samples(o: &Opts, duration: f64, curve: &[(f64, f64)]) -> Vec<f64> {
    let (mut from, mut to) = (0.0, first_sample(o.client));
    let mut samples = Vec::new();
    while to <= duration {
        samples.push((at(curve, to) - at(curve, from)) / (to - from));
        (from, to) = (to, to + SAMPLE);
    }
    samples
}

fn sessions(o: &Opts, s: &SessionTally, duration: f64) -> SessionNumbers {
    let ended = s.completed + s.failed;
    let seconds = |h: &Hist| h.mean_ns().unwrap_or(0.0) / 1e9;
    let lengths = if o.more.compact {
        Lengths::Compact(s.lengths.iter().map(|(&length, &n)| (length, n)).collect())
    } else {
        let longest = s.lengths.keys().next_back().copied().unwrap_or(0);
        let of = |length| s.lengths.get(&length).copied().unwrap_or(0);
        Lengths::Classic((0..=longest).map(of).collect())
    };
    SessionNumbers {
        // The mean is that of the whole run, the others are those of the samples.
        rate: Spread {
            avg: share(s.completed as f64, duration),
            ..spread(&samples(o, duration, &session_curve(s)))
        },
        completed: s.completed,
        ended,
        connections: share(s.connections as f64, s.completed as f64),
        lifetime: seconds(&s.lifetime),
        failtime: seconds(&s.failtime),
        lengths,
    }
}

fn spread(samples: &[f64]) -> Spread {
    if samples.is_empty() {
        return Spread::default();
    }
    let n = samples.len() as f64;
    let avg = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|s| (s - avg) * (s - avg)).sum();
    let stddev = if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    let min = samples.iter().copied().fold(f64::INFINITY, f64::min);
    Spread { min, avg, max: samples.iter().copied().fold(0.0, f64::max), stddev }
}

fn rate(n: u64, duration: f64) -> Rate {
    Rate { per_second: share(n as f64, duration), ms: 1e3 * share(duration, n as f64) }
}

/// `a / b`, or 0 if `b` is 0.
fn share(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The integer part of the mean: httperf prints sizes as integers.
fn whole_share(bytes: u64, n: u64) -> f64 {
    bytes.checked_div(n).unwrap_or(0) as f64
}

fn mean_ms(h: &Hist) -> f64 {
    h.mean_ns().unwrap_or(0.0) / 1e6
}

fn of_class(t: &Tally, class: u16) -> u64 {
    t.statuses.range(class * 100..(class + 1) * 100).map(|(_, n)| n).sum()
}

fn of_status(t: &Tally, status: u16) -> u64 {
    t.statuses.get(&status).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_client(client: (u64, u64)) -> Opts {
        Opts { client, ..Opts::new("httperf") }
    }

    #[test]
    fn rates_are_sampled_every_five_seconds() {
        // 10 replies a second for 8 s, then none.
        let curve: Vec<_> = (1..=12).map(|i| (f64::from(i), f64::from(i.min(8)) * 10.0)).collect();
        assert_eq!(samples(&at_client((0, 1)), 12.0, &curve), [10.0, 6.0]);
        assert!(samples(&at_client((0, 1)), 4.9, &curve).is_empty());
        // The first sample of client 0 of 2 is taken after 2.5 s.
        assert_eq!(samples(&at_client((0, 2)), 12.4, &curve), [10.0, 10.0]);
        let spread = spread(&[10.0, 6.0]);
        assert_eq!((spread.min, spread.avg, spread.max), (6.0, 8.0, 10.0));
        assert!((spread.stddev - 8.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(super::spread(&[]), Spread::default());
        assert_eq!(super::spread(&[3.0]).stddev, 0.0);
    }

    #[test]
    fn sessions_count_in_the_second_in_which_they_end() {
        let per_second = BTreeMap::from([(0, 3), (4, 7), (6, 5)]);
        let tally = SessionTally { completed: 15, per_second, ..SessionTally::default() };
        let n = sessions(&at_client((0, 1)), &tally, 10.0);
        assert_eq!((n.rate.min, n.rate.max, n.rate.avg), (1.0, 2.0, 1.5));
        assert_eq!((n.completed, n.ended, n.lengths), (15, 15, Lengths::Classic(vec![0])));
    }

    #[test]
    fn lifetimes_have_the_deviation_of_a_sample() {
        let mut h = Hist::new();
        for ms in [1, 2, 3, 4] {
            h.record(Span::from_millis(ms));
        }
        let (s, median) = lifetimes(&h);
        assert_eq!((s.min, s.avg, s.max), (1.0, 2.5, 4.0));
        assert!((s.stddev - (5.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert!((median - 2.0).abs() < 0.01);
        h.record(Span::from_micros(9_900));
        let bins = lifetime_bins(&h);
        assert_eq!(bins.iter().map(|b| b.1).sum::<u64>(), 5);
        assert_eq!((bins[0], bins[bins.len() - 1]), ((1.5, 1), (9.5, 1)));
        assert_eq!(lifetimes(&Hist::new()), (Spread::default(), 0.0));
    }

    /// httperf's histogram has 100,000 bins of a millisecond, and ignores longer times.
    #[test]
    fn lifetimes_may_be_longer_than_100_seconds() {
        let mut opts = super::super::plan::tests::opts_of("--num-conns 3 --num-calls 2");
        opts.verbose = 2;
        let plan = super::super::plan::tests::plan_of("--num-conns 3 --num-calls 2");
        let server = serde_json::from_str(r#"{"latency": "fixed:150s"}"#).unwrap();
        let summary = prony_run::run::simulate(&plan, 1, 1, &server, &[], Default::default());
        let n = numbers(&opts, &summary, None, summary.main.connections.open_max);
        // Two replies of 150 s, and the network latency.
        for ms in [n.lifetime.min, n.lifetime.avg, n.lifetime.max, n.lifetime_median] {
            assert!((300_000.0..300_010.0).contains(&ms), "{ms} ms");
        }
        let bins = n.lifetimes.unwrap();
        assert_eq!(bins.iter().map(|b| b.1).sum::<u64>(), 3, "{bins:?}");
        // A bin is at most 1.6 % wide.
        assert!(bins.iter().all(|b| (295_000.0..305_000.0).contains(&b.0)), "{bins:?}");
    }

    #[test]
    fn an_empty_run_has_valid_numbers() {
        let plan = super::super::plan::tests::plan_of("--num-conns 1");
        let parts = vec![(None, Tally::default(), prony_base::meter::WorkerStats::default())];
        let summary = Summary::from_parts(plan, prony_stats::summary::RunInfo::default(), parts);
        let n = numbers(&Opts::new("httperf"), &summary, None, 0);
        let text = n.render();
        assert_eq!(n, Numbers::default());
        assert!(!text.contains("nan") && !text.contains("inf"), "{text}");
    }
}
