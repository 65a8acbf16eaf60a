//! Replays of access logs: the requests reach the server at the times of the log.

use std::fs;
use std::path::Path;

use prony_base::director::METHODS;
use prony_base::feed::{Entry, Fed, Feed, Feeds};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{CallSpec, HttpVersion, Load, Plan, Stop};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_replay::{By, Replay, Settings, Shape, Source};
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};

use crate::plans::{Seed, get, ms};

/// A plan of a log, with these calls.
fn plan(calls: Vec<CallSpec>) -> Plan {
    let load =
        Load::Open { rate: RatePlan::default(), arrivals: Arrivals::Log, connections: 10_000 };
    let plan = crate::plans::open(1.0, Arrivals::Fixed, 1);
    Plan { load, stop: Stop::default(), calls: calls.into(), ..plan }
}

/// The plan of a replay.
fn plan_of(replay: &Replay) -> Plan {
    let patterns = replay.patterns();
    let call = |&(method, name): &(u8, u32)| CallSpec {
        method: METHODS[usize::from(method)].into(),
        name: Some(name),
        ..get("/")
    };
    let plan = plan(patterns.calls.iter().map(call).collect());
    Plan { names: patterns.names.clone(), ..plan }
}

/// How many clients a log has, in turn.
const CLIENTS: usize = 3;

/// Writes a log of nginx with requests for `/0`, `/1` and so on at these times, in microseconds.
fn write_log(path: &Path, times: &[u64]) {
    let line = |(k, us): (usize, &u64)| {
        let (s, us) = (1_700_000_000 + us / 1_000_000, us % 1_000_000);
        format!("10.0.0.{} - - [{s}.{us:06}] \"GET /{k} HTTP/1.1\" 200\n", k % CLIENTS)
    };
    fs::write(path, times.iter().enumerate().map(line).collect::<String>()).expect("written");
}

fn replay(path: &Path, shape: Shape, by: By) -> Replay {
    ordered(path, shape, by, true)
}

fn ordered(path: &Path, shape: Shape, by: By, wait: bool) -> Replay {
    let mut source = Source { paths: vec![path.to_owned()], ..Source::default() };
    let format = "$remote_addr - - [$msec] \"$request\" $status";
    source.options.format = Some(prony_replay::Format::parse(format).expect("a format"));
    Replay::open(Settings { source, shape, by, wait, ..Settings::default() }).expect("a log")
}

/// Runs the replay. Returns its outcome, and the number in the path and the time at the server of
/// each request, in the order of the times.
fn run(replay: &Replay, shares: u32, http: HttpVersion) -> (Outcome, Vec<(Nanos, u64)>) {
    let setup = Setup { feeds: Some(replay.direct()), ..Setup::new(Link::default(), 1) };
    let mut server = Serve::new(ServerBehavior::default(), 1);
    server.record_arrivals();
    let plan = Plan { http, ..plan_of(replay) };
    let outcome = load(&plan, shares, &setup, &mut [&mut server]);
    let numbers = outcome.world.oracle.requests().iter().map(|r| (r.sent, r.number.unwrap_or(9)));
    let numbers: Vec<_> = numbers.collect();
    let mut times: Vec<Nanos> = server.arrivals().to_vec();
    times.sort_unstable();
    if http == HttpVersion::Http11 {
        let mut sent: Vec<Nanos> = numbers.iter().map(|(at, _)| *at).collect();
        sent.sort_unstable();
        assert!(sent == times, "the link takes no time");
        return (outcome, numbers);
    }
    let count = times.len() as u64;
    (outcome, times.into_iter().zip(0..count).collect())
}

/// At 1x, the arrivals at the server are those of the log; at other speeds they are exactly scaled.
#[test]
fn requests_arrive_at_the_times_of_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    for seed in 0..30 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 60);
        let mut at = 0;
        let times: Vec<u64> = (0..rng.below(400) + 1)
            .map(|_| {
                // Bursts, pauses, and requests at the same time.
                at += [0, rng.below(50), rng.below(20_000), rng.below(900_000)]
                    [rng.below(4) as usize];
                at
            })
            .collect();
        write_log(&path, &times);
        for speed in [1_000_000, 2_000_000, 100_000, 1 + rng.below(9_000_000)] {
            let shares = 1 + rng.below(3) as u32;
            let http = [HttpVersion::Http11, HttpVersion::Http2Only][rng.below(2) as usize];
            let replay = replay(&path, Shape { speed, ..Shape::default() }, By::Nobody);
            let (outcome, mut got) = run(&replay, shares, http);
            let scaled = |us: u64| (us - times[0]) * 1000 * 1_000_000 / speed;
            let expected: Vec<(Nanos, u64)> =
                times.iter().zip(0..).map(|(us, k)| (Nanos(scaled(*us)), k)).collect();
            got.sort_unstable();
            assert!(got == expected, "speed {speed}, {shares} shares, {http:?}");
            let tally = outcome.main();
            let all = times.len() as u64;
            assert_eq!(
                (tally.started, tally.replies, tally.times.lag.max()),
                (all, all, Some(Span::ZERO))
            );
            assert_eq!(tally.names.iter().map(|name| name.started).sum::<u64>(), all);
            let handed = replay.handed();
            assert_eq!((handed.requests, handed.late, handed.failed), (all, 0, None));
        }
    }
}

/// With `--wait`, a client's next request starts when the last one has ended, or at its time.
#[test]
fn requests_of_a_client_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    for seed in 0..30 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 61);
        let mut at = 0;
        let times: Vec<u64> = (0..rng.below(200) + 1)
            .map(|_| {
                at += rng.below(4000);
                at
            })
            .collect();
        write_log(&path, &times);
        let replay = replay(&path, Shape::default(), By::Client);
        let setup = Setup { feeds: Some(replay.direct()), ..Setup::new(Link::default(), 1) };
        let latency = "exp:5ms".parse().expect("a latency");
        let mut server = Serve::new(ServerBehavior { latency, ..ServerBehavior::default() }, seed);
        let shares = 1 + rng.below(3) as u32;
        let outcome = load(&plan_of(&replay), shares, &setup, &mut [&mut server]);
        let mut requests = outcome.world.oracle.requests().to_vec();
        requests.sort_unstable_by_key(|request| request.number);
        assert_eq!(requests.len(), times.len());
        let (mut held, mut waited) = (0, Span::ZERO);
        for (k, request) in requests.iter().enumerate() {
            let due = Nanos((times[k] - times[0]) * 1000);
            let before = k.checked_sub(CLIENTS).and_then(|before| requests[before].done);
            let expected = due.max(before.unwrap_or(Nanos::ZERO));
            assert_eq!((request.number, request.sent), (Some(k as u64), expected));
            held += u64::from(expected > due);
            waited += expected.since(due);
        }
        let (tally, all) = (outcome.main(), times.len() as u64);
        assert_eq!((tally.started, tally.replies), (all, all));
        assert_eq!(tally.times.lag.max(), Some(Span::ZERO), "waiting is no lag of the meter");
        let handed = replay.handed();
        assert_eq!((handed.held.count(), handed.held.sum_ns()), (held, waited.0.into()));
    }
}

/// Without `--wait`, requests of a client are sent in their order, also if new connections have to
/// be opened for them, and no later than that takes.
#[test]
fn requests_of_a_client_are_sent_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut reordered = 0;
    for seed in 0..30 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 62);
        let mut at = 0;
        let times: Vec<u64> = (0..rng.below(200) + 50)
            .map(|_| {
                at += rng.below(2000);
                at
            })
            .collect();
        write_log(&path, &times);
        let shares = 1 + rng.below(3) as u32;
        let run = |by| {
            let replay = ordered(&path, Shape::default(), by, false);
            let link = Link::with_latency(ms(3));
            let setup = Setup { feeds: Some(replay.direct()), ..Setup::new(link, 1) };
            let latency = "exp:5ms".parse().expect("a latency");
            let behavior = ServerBehavior { latency, ..ServerBehavior::default() };
            let mut server = Serve::new(behavior, seed);
            let outcome = load(&plan_of(&replay), shares, &setup, &mut [&mut server]);
            let mut requests = outcome.world.oracle.requests().to_vec();
            requests.sort_unstable_by_key(|request| request.number);
            let tally = outcome.main();
            let all = times.len() as u64;
            assert_eq!((tally.started, tally.replies), (all, all));
            let sent: Vec<Nanos> = requests.iter().map(|request| request.sent).collect();
            assert_eq!(sent.len(), times.len());
            (sent, replay.handed().held)
        };
        let (free, none) = run(By::Nobody);
        assert!(none.is_empty());
        reordered += (CLIENTS..free.len()).filter(|&k| free[k] < free[k - CLIENTS]).count();
        let (sent, held) = run(By::Client);
        for (k, at) in sent.iter().enumerate() {
            let due = Nanos((times[k] - times[0]) * 1000);
            let before = k.checked_sub(CLIENTS).map_or(Nanos::ZERO, |before| sent[before]);
            assert!(*at >= due && *at >= before, "request {k}");
            // A connect takes 6 ms; then the next one is looked for every millisecond.
            let latest = due.max(before) + ms(8);
            assert!(*at <= latest, "request {k} is sent at {at:?}, not before {latest:?}");
        }
        assert!(held.max().is_none_or(|most| most <= ms(100)), "{:?}", held.max());
    }
    assert!(reordered > 20, "{reordered} requests were reordered without --by");
}

/// A feed that has its requests only from a time on.
struct Slow {
    times: Vec<Span>,
    from: Span,
    next: usize,
}

impl Feed for Slow {
    fn next(&mut self, entry: &mut Entry, now: Span) -> Fed {
        let Some(&at) = self.times.get(self.next) else { return Fed::Ended };
        if now < self.from {
            return Fed::Later(Span::ZERO);
        }
        self.next += 1;
        (entry.at, entry.call) = (at, 0);
        entry.own.path.clear();
        entry.own.path.extend_from_slice(b"/0");
        Fed::Entry
    }

    fn due_before(&self, limit: Span) -> u64 {
        self.times[self.next..].partition_point(|at| *at < limit) as u64
    }
}

/// What a log is read too slowly is the lateness of the meter.
#[test]
fn a_log_that_is_read_too_late_shows_as_send_lag() {
    let times: Vec<Span> = (0..100).map(|i| ms(i * 10)).collect();
    let feed = move |_| -> Vec<Box<dyn Feed>> {
        vec![Box::new(Slow { times: times.clone(), from: ms(505), next: 0 })]
    };
    let setup = Setup { feeds: Some(Feeds::new(feed)), ..Setup::new(Link::default(), 1) };
    let mut server = Serve::new(ServerBehavior::default(), 1);
    let tally = load(&plan(vec![get("/0")]), 1, &setup, &mut [&mut server]).main();
    assert_eq!((tally.started, tally.replies), (100, 100));
    let most = tally.times.lag.max().expect("late requests");
    assert!((ms(505)..ms(507)).contains(&most), "{most}");
    assert!(tally.times.response.max() >= Some(ms(505)), "it is a part of the response time");
}

/// A plan of a log without a feed has no requests, and ends.
#[test]
fn without_a_feed_nothing_is_sent() {
    let mut server = Serve::new(ServerBehavior::default(), 1);
    let setup = Setup::new(Link::default(), 1);
    let tally = load(&plan(vec![get("/0")]), 2, &setup, &mut [&mut server]).main();
    assert_eq!(tally.started, 0);
}
