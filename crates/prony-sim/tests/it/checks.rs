//! Checks of replies and groups of steps, against servers with known replies and times.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prony_base::units::{ConnId, Span};
use prony_plan::plan::{
    Alternative, Burst, CallSpec, Check, Checks, Control, Expect, Gate, Group, GroupPart,
    OnFailure, Plan, SessionKind, Sessions, Stop, Switch, Think,
};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Connections, Server, ServerAction, ServerModel};
use prony_sim::world::Setup;
use prony_stats::summary::{Outcome as Decided, RunInfo, Summary};
use prony_tally::record::{CheckTally, GroupTally, Tally};

use crate::plans::{assert_invariants, closed, get, ms, numbered, open};

/// Replies to `/k` after k mod 5 milliseconds with a document that says k; with the status 404 if k
/// is a multiple of 7, and a header if k is odd.
struct Documents;

impl ServerModel for Documents {
    fn request(&mut self, id: ConnId, sent: u64, head: &[u8], conns: &mut Connections) {
        Encoded("identity").request(id, sent, head, conns);
    }
}

/// The same documents in this coding.
struct Encoded(&'static str);

impl ServerModel for Encoded {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let path = head.split(' ').nth(1).expect("a path");
        let k: u64 = path[1..].parse().expect("a number");
        let status = if k.is_multiple_of(7) { "404 No" } else { "200 OK" };
        let odd = if k % 2 == 1 { "X-Odd: no\r\nX-Odd: yes\r\n" } else { "" };
        let body = encoded(self.0, &document(k));
        let (coding, length) = (self.0, body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\n{odd}Content-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
        );
        let reply = [head.as_bytes(), &body].concat();
        conns.at(conns.now() + ms(k % 5), id, ServerAction::Send(reply));
    }
}

/// The first half of one of them.
struct Cut(&'static str);
impl ServerModel for Cut {
    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        let body = encoded(self.0, &document(1));
        let body = &body[..body.len() / 2];
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n",
            self.0,
            body.len()
        );
        conns.send(id, &[head.as_bytes(), body].concat());
    }
}

fn document(k: u64) -> String {
    format!("{{\"n\":{k},\"name\":\"item {k}\",\"nothing\":null}}")
}

/// A short text in a coding.
fn encoded(coding: &str, text: &str) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(text.as_bytes()).expect("memory");
            encoder.finish().expect("memory")
        }
        // One part that is stored as it is, and an empty last one (RFC 7932, 9.2).
        "br" => {
            let stored = (text.len() as u32 - 1) << 4 | 1 << 20;
            [&stored.to_le_bytes()[..3], text.as_bytes(), &[3]].concat()
        }
        _ => text.as_bytes().to_vec(),
    }
}

fn checks(texts: &[&str]) -> Checks {
    let check = |text: &&str| text.parse::<Check>().expect(text);
    Checks::of_all(texts.iter().map(check).collect())
}

fn run(plan: &Plan, shares: u32, link: Link, model: impl ServerModel) -> Tally {
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(link, 5) };
    let outcome = load(plan, shares, &setup, &mut [&mut Server::new(model)]);
    assert_invariants(&outcome, "checks");
    outcome.main()
}

fn counts(t: &Tally) -> Vec<(u64, u64)> {
    t.checks.iter().map(|check| (check.passed, check.failed)).collect()
}

/// 210 requests, one for each number, and the checks with the numbers that pass.
fn documents() -> (Plan, Vec<(u64, u64)>) {
    type Passes = fn(u64) -> bool;
    let all: [(&str, Passes); 15] = [
        ("status = 200", |k| k % 7 != 0),
        ("status != 4xx,500", |k| k % 7 != 0),
        ("status < 500", |_| true),
        ("header X-Odd", |k| k % 2 == 1),
        ("header x-odd = yes", |k| k % 2 == 1),
        ("header X-Odd != yes", |_| false),
        ("json /n < 50", |k| k < 50),
        ("range: json /n in 10..19", |k| (10..20).contains(&k)),
        ("json /n = 17.0", |k| k == 17),
        ("json /name matches 'item [0-9]$'", |k| k < 10),
        ("json /nothing", |_| false),
        ("json /nothing = null", |_| true),
        ("length > 40", |k| k >= 100),
        ("body not contains '\"n\":1'", |k| k != 1 && k / 10 != 1 && k / 100 != 1),
        ("time < 4ms", |k| k % 5 < 4),
    ];
    let plan = Plan {
        checks: checks(&all.map(|(text, _)| text)),
        ..numbered(open(100.0, Arrivals::Fixed, 210), 210)
    };
    let expected = all.map(|(_, passes)| (0..210).filter(|&k| passes(k)).count() as u64);
    (plan, expected.into_iter().map(|n| (n, 210 - n)).collect())
}

/// Each check counts exactly the replies that pass, however the bytes arrive, however many shares
/// there are, and whether or not replies fail their requests.
#[test]
fn checks_count_the_replies_of_a_known_server() {
    let (plan, expected) = documents();
    for shares in [1, 2, 3] {
        for (segment, expect) in [(None, (200, 599)), (Some(1), (200, 599)), (None, (200, 299))] {
            let expect = Expect { statuses: vec![expect], ..Expect::default() };
            let plan = Plan { expect: expect.clone(), ..plan.clone() };
            let link = Link { segment, ..Link::with_latency(Span::from_micros(150)) };
            let t = run(&plan, shares, link, Documents);
            let failed = if expect.accepts(404) { 0 } else { 30 };
            assert_eq!((t.replies, t.failed), (210 - failed, failed));
            assert_eq!(counts(&t), expected, "{shares} shares");
            for check in &t.checks {
                let by_second = |n: &std::collections::BTreeMap<u64, u64>| n.values().sum::<u64>();
                assert_eq!(by_second(&check.passed_by_second), check.passed);
                assert_eq!(by_second(&check.failed_by_second), check.failed);
                assert_eq!(check.unreadable, 0);
            }
        }
    }
}

/// Compressed bodies are decoded before checks look into them, however their bytes arrive. The
/// length is that of the bytes that were sent.
#[test]
fn checks_look_into_compressed_bodies() {
    let (plan, plain) = documents();
    // Of the checks of `documents`.
    let at_length = 12;
    for coding in ["gzip", "br"] {
        let long = (0..210).filter(|k| encoded(coding, &document(*k)).len() > 40).count() as u64;
        let mut expected = plain.clone();
        expected[at_length] = (long, 210 - long);
        for (segment, shares) in [(None, 1), (Some(1), 2)] {
            let link = Link { segment, ..Link::with_latency(Span::from_micros(150)) };
            let t = run(&plan, shares, link, Encoded(coding));
            assert_eq!(counts(&t), expected, "{coding}");
            assert!(t.checks.iter().all(|check| check.unreadable == 0), "{coding}");
        }
        // Cut bodies of the same coding pass no check of what is in them.
        let mut plan = open(10.0, Arrivals::Fixed, 5);
        plan.checks = checks(&["status = 200", "json /n"]);
        let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Cut(coding));
        let all = |check: &CheckTally| (check.passed, check.failed, check.unreadable);
        assert_eq!(t.checks.iter().map(all).collect::<Vec<_>>(), [(5, 0, 0), (0, 5, 5)]);
    }
}

/// A check of one request does not look at the replies to others, and replies to requests of the
/// warm-up do not count.
#[test]
fn checks_are_of_their_requests_and_of_the_measurement() {
    let mut plan = numbered(open(100.0, Arrivals::Fixed, 200), 2);
    plan.checks = checks(&["status = 2xx"]);
    let own = plan.checks.intern("json /n = 1".parse().expect("a check"));
    plan.calls[1].checks = vec![own].into();
    plan.warmup = Span::from_secs(1);
    let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Documents);
    assert_eq!(counts(&t), [(100, 100), (100, 0)]);
}

/// The share of a check, its interval and its thresholds are those of the counts.
#[test]
fn thresholds_decide_checks() {
    let (mut plan, _) = documents();
    let texts = [
        "check.range > 1%",
        "check.range > 20%",
        "check.range = 10",
        "checks > 40%",
        "check.range > 5%",
    ];
    plan.thresholds = texts.iter().map(|text| text.parse().expect(text)).collect();
    let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Documents);
    let parts = vec![(None, t, Default::default())];
    let decided = Summary::from_parts(plan, RunInfo::default(), parts).thresholds();
    let outcomes: Vec<Decided> = decided.iter().map(|checked| checked.outcome).collect();
    use Decided::{Met, Missed, Undecided};
    assert_eq!(outcomes, [Met, Missed, Met, Met, Undecided], "{decided:?}");
    let share = decided[0].value.expect("a share");
    assert!((share - 10.0 / 210.0).abs() < 1e-12, "{share}");
    // Wilson's interval of 10 of 210.
    let interval = decided[0].interval.expect("an interval");
    assert!((interval.lo - 0.02607).abs() < 1e-4 && (interval.hi - 0.08541).abs() < 1e-4);
}

/// Replies with a body of that many bytes.
struct Long(usize);

impl ServerModel for Long {
    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", self.0);
        conns.send(id, &[head.as_bytes(), &vec![b'x'; self.0]].concat());
    }
}

#[test]
fn a_body_that_is_too_long_to_be_read_passes_no_check_of_it() {
    let mut plan = open(10.0, Arrivals::Fixed, 5);
    plan.checks = checks(&["body contains x", "body not contains y", "length = 1048577"]);
    for (length, result) in [
        (1 << 20, [(5, 0, 0), (5, 0, 0), (0, 5, 0)]),
        ((1 << 20) + 1, [(0, 5, 5), (0, 5, 5), (5, 0, 0)]),
    ] {
        let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Long(length));
        let got = t.checks.iter().map(|c| (c.passed, c.failed, c.unreadable));
        assert_eq!(got.collect::<Vec<_>>(), result);
        assert_eq!((t.replies, t.failed), (5, 0));
    }
}

/// Replies with 500, but with 200 to every third request.
struct Third(u64);

impl ServerModel for Third {
    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        self.0 += 1;
        let status = if self.0.is_multiple_of(3) { "200 OK" } else { "500 No" };
        conns.send(id, format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    }
}

fn burst(call: u32, think: Think, repeat: u32) -> Burst {
    Burst { repeat, ..Burst::of(vec![call], think) }
}

/// An open loop of `count` sessions, 10 a second, of these steps.
fn sessions(count: u64, bursts: Vec<Burst>) -> Plan {
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    Plan {
        calls: (1..=5).map(|k| get(&format!("/{k}"))).collect(),
        sessions: Some(Sessions::plain(kinds)),
        stop: Stop { requests: None, sessions: Some(count), duration: None },
        expect: Expect::default(),
        ..open(10.0, Arrivals::Fixed, 0)
    }
}

#[test]
fn only_the_last_reply_of_a_request_that_is_sent_again_is_checked() {
    for (retries, passed) in [(2, 10), (0, 3)] {
        let mut plan = sessions(10, vec![burst(0, Think::None, 1)]);
        plan.sessions.as_mut().expect("sessions").retries = retries;
        plan.checks = checks(&["status = 200"]);
        let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Third(0));
        assert_eq!(counts(&t), [(passed, 10 - passed)]);
        assert_eq!((t.replies, t.failed), (passed, 10 - passed));
    }
}

fn group(name: &str, first: u32, bursts: u32) -> Group {
    Group { name: name.into(), parts: vec![GroupPart { kind: 0, first, bursts }] }
}

/// A session asks for /1, then, as the group `buy`, for /2 and, after 20 ms, twice for /3 with 5 ms
/// between and after them, then for /4, which is a group of its own. The reply to /k takes k ms,
/// a round trip 300 us.
#[test]
fn times_of_groups_are_those_of_arithmetic() {
    let pause = |n| Think::Fixed(ms(n));
    let steps = vec![
        burst(0, pause(7), 1),
        burst(1, pause(20), 1),
        burst(2, pause(5), 2),
        burst(3, pause(9), 1),
    ];
    let mut plan = sessions(30, steps);
    plan.groups = vec![group("buy", 1, 2), group("last", 3, 1)];
    for shares in [1, 2, 3] {
        let t = run(&plan, shares, Link::with_latency(Span::from_micros(150)), Documents);
        let round_trip = Span::from_micros(300);
        let requests = (round_trip + ms(2)) + (round_trip + ms(3)) * 2;
        let all = |group: &GroupTally| {
            let GroupTally {
                started, completed, failed, unfinished, duration, without_pauses, ..
            } = group;
            assert_eq!((*started, *completed, *failed, *unfinished), (30, 30, 0, 0));
            assert_eq!((duration.count(), without_pauses.count()), (30, 30));
            assert_eq!(
                (duration.min(), without_pauses.min()),
                (duration.max(), without_pauses.max())
            );
            // The meter is never late here.
            assert_eq!(group.meter_added(1.0), Some(Span::ZERO));
            (duration.max(), without_pauses.max())
        };
        assert_eq!(all(&t.groups[0]), (Some(requests + ms(20) + ms(5)), Some(requests)));
        let last = Some(round_trip + ms(4));
        assert_eq!(all(&t.groups[1]), (last, last));
    }
}

/// A group in which a request fails has failed, whether its session goes on or not; a group that
/// the session does not reach has not started; the end of the run leaves groups unfinished.
#[test]
fn groups_fail_with_their_requests() {
    let steps = vec![burst(0, Think::None, 1), burst(1, Think::None, 2), burst(2, Think::None, 1)];
    let mut plan = sessions(12, steps);
    plan.groups = vec![group("middle", 1, 1), group("end", 2, 1)];
    let link = || Link::with_latency(Span::from_micros(150));
    let figures = |t: &Tally, i: usize| {
        let g = &t.groups[i];
        (g.started, g.completed, g.failed, g.unfinished, g.duration.count())
    };
    // The requests of a session get 500, 500, 200, 500: of every three, the third is a success.
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let t = run(&plan, 1, link(), Third(0));
    assert_eq!(t.started, 48);
    // Of 12 sessions of four requests, the second and third are both a success in none, and the
    // last is in four.
    assert_eq!(figures(&t, 0), (12, 0, 12, 0, 0));
    assert_eq!(figures(&t, 1), (12, 4, 8, 0, 4));
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::End;
    let t = run(&plan, 1, link(), Third(0));
    // Sessions end with their first failure: 500; 500; 200, 500; 500; 200, 500; ...
    let middle = &t.groups[0];
    assert!(middle.started > 0 && middle.started == middle.failed, "{middle:?}");
    assert_eq!(figures(&t, 1), (0, 0, 0, 0, 0));
    // The load ends while the last session pauses.
    let steps = vec![burst(0, Think::Fixed(ms(50)), 1), burst(1, Think::None, 1)];
    let mut plan = sessions(5, steps);
    plan.groups = vec![group("both", 0, 2)];
    (plan.stop.sessions, plan.stop.duration) = (None, Some(ms(401)));
    let t = run(&plan, 1, link(), Documents);
    assert_eq!(figures(&t, 0), (5, 4, 0, 1, 4));
}

/// The same step, at which a switch starts with alternatives of this weight and number of bursts.
fn switched(burst: Burst, alternatives: &[(u32, u32)]) -> Burst {
    let alternative = |&(weight, bursts): &(u32, u32)| Alternative { weight, bursts };
    let alternatives = alternatives.iter().map(alternative).collect();
    let switches = vec![Switch { gate: Gate::default(), alternatives }];
    Burst { control: Some(Box::new(Control { switches, ..Control::default() })), ..burst }
}

/// A session asks for /5. The group `buy` is /2 and a switch: three of four sessions ask for /3 and
/// /4 after pauses, the others for nothing. After it, one of three asks for /1 and /2, as the group
/// `once`, the others for /3.
#[test]
fn groups_have_switches_and_are_in_switches() {
    let pause = |n| Think::Fixed(ms(n));
    let steps = vec![
        burst(4, pause(7), 1),
        burst(1, pause(5), 1),
        switched(burst(2, pause(20), 1), &[(3, 2), (1, 0)]),
        burst(3, pause(9), 1),
        switched(burst(0, pause(11), 1), &[(1, 2), (2, 1)]),
        burst(1, pause(13), 1),
        burst(2, Think::None, 1),
    ];
    let count = 2_000;
    let mut plan = sessions(count, steps);
    plan.groups = vec![group("buy", 1, 3), group("once", 4, 2)];
    plan.names = (1..=5).map(|k| format!("/{k}")).collect();
    let named = (0..).zip(plan.calls.iter());
    plan.calls = named
        .map(|(k, call)| CallSpec { name: Some(k), ..call.clone() })
        .collect::<Vec<_>>()
        .into();
    let round_trip = Span::from_micros(300);
    let of = |k: u64| round_trip + ms(k);
    let mut chosen = Vec::new();
    for shares in [1, 2, 3] {
        let t = run(&plan, shares, Link::with_latency(Span::from_micros(150)), Documents);
        let made = |k: usize| t.names[k - 1].replies;
        let (bought, once) = (made(4), made(1));
        assert_eq!((made(5), made(2)), (count, count + once));
        assert_eq!(made(3), bought + count - once);
        for (n, share) in [(bought, 0.75), (once, 1.0 / 3.0)] {
            let sigma = (count as f64 * share * (1.0 - share)).sqrt();
            assert!((n as f64 - count as f64 * share).abs() < 4.5 * sigma, "{n} of {share}");
        }
        let (buy, alone) = (&t.groups[0], &t.groups[1]);
        assert_eq!((buy.started, buy.completed, alone.started), (count, count, once));
        let short = of(2);
        let long = of(2) + of(3) + of(4);
        assert_eq!(
            (buy.duration.min(), buy.duration.max()),
            (Some(short), Some(long + ms(5) + ms(20)))
        );
        let sum = |long: Span| u128::from(short.0 * (count - bought) + long.0 * bought);
        assert_eq!(buy.duration.sum_ns(), sum(long + ms(5) + ms(20)));
        assert_eq!(buy.without_pauses.sum_ns(), sum(long));
        let both = of(1) + ms(11) + of(2);
        assert_eq!((alone.duration.count(), alone.completed), (once, once));
        assert_eq!((alone.duration.min(), alone.duration.max()), (Some(both), Some(both)));
        chosen.push((bought, once));
    }
    assert!(chosen.iter().all(|all| *all == chosen[0]), "{chosen:?}");
}

/// A group that is a part of a switch is none.
#[test]
fn groups_cannot_have_a_part_of_a_switch() {
    let plain = || burst(0, Think::None, 1);
    let steps =
        vec![plain(), switched(plain(), &[(1, 2), (1, 1), (1, 0)]), plain(), plain(), plain()];
    for (first, bursts, fits) in [
        (0, 1, true),
        (0, 4, true),
        (0, 5, true),
        (1, 3, true),
        (1, 2, true),
        (2, 1, true),
        (3, 1, true),
        (0, 2, false),
        (2, 2, false),
        (3, 2, false),
    ] {
        let mut plan = sessions(1, steps.clone());
        plan.groups = vec![group("part", first, bursts)];
        let refused = plan.check().err();
        assert_eq!(refused.is_none(), fits, "{first} {bursts}: {refused:?}");
        if let Some(why) = refused {
            assert!(why.contains("the group 'part' has a part of a switch"), "{why}");
        }
    }
}

/// A group at the end of a session that has failed before is complete, whether the session has
/// decisions or not.
#[test]
fn groups_at_the_end_of_failed_sessions_are_complete() {
    for decides in [false, true] {
        let last = burst(1, Think::None, 1);
        let last = if decides { switched(last, &[(1, 1)]) } else { last };
        let mut plan = sessions(10, vec![burst(0, Think::None, 1), last]);
        plan.calls = vec![get("/7"), get("/2")].into();
        plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
        plan.groups = vec![group("end", 1, 1)];
        let t = run(&plan, 1, Link::with_latency(Span::from_micros(150)), Documents);
        assert_eq!(t.sessions.as_ref().expect("sessions").failed, 10);
        let end = &t.groups[0];
        assert_eq!((end.started, end.completed, end.failed), (10, 10, 0), "{decides}");
    }
}

/// Gives a plan random checks and, if it has sessions, random groups.
pub(crate) fn random_checks(rng: &mut Rng, plan: &mut Plan) {
    let all = ["status = 200", "length < 16", "body contains x", "time < 3ms", "header Server"];
    let count = rng.between(1, 5) as usize;
    plan.checks = checks(&all[..count]);
    let own: Vec<u32> = [plan.checks.intern("json /a > 3".parse().expect("a check"))].into();
    let last = plan.calls.len() - 1;
    plan.calls[last] = CallSpec { checks: own.into(), ..plan.calls[last].clone() };
    let Some(sessions) = &plan.sessions else { return };
    plan.groups = (0..)
        .zip(&sessions.kinds)
        .map(|(kind, spec)| Group {
            name: format!("group {kind}"),
            parts: vec![GroupPart {
                kind,
                first: 0,
                bursts: rng.between(1, spec.bursts.len() as u64) as u32,
            }],
        })
        .collect();
}

/// Two checks of the same reply, and the sums of the tallies of shares.
#[test]
fn tallies_of_checks_add_up() {
    let (plan, expected) = documents();
    let link = || Link::with_latency(Span::from_micros(150));
    let whole = run(&plan, 1, link(), Documents);
    let sum = |all: &[CheckTally]| all.iter().map(|check| check.passed + check.failed).sum::<u64>();
    assert_eq!(sum(&whole.checks), 210 * expected.len() as u64);
    let t = closed(3, Think::None, ms(50));
    let t = run(&Plan { checks: plan.checks, ..numbered(t, 8) }, 3, link(), Documents);
    assert!(t.checks.iter().all(|check| check.passed + check.failed == t.replies), "{t:?}");
}
