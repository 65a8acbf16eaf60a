//! Redirects that are followed, against servers with known chains and times.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Span};
use prony_plan::plan::{
    Burst, CallSpec, Check, Checks, Cookies, Expect, Follow, Group, GroupPart, HttpVersion,
    OnFailure, Plan, RedirectServer, Redirects, SessionKind, Sessions, Stop, Think,
};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Extract, Place};
use prony_plan::target::Endpoint;
use prony_server::serve::{Latency, Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::server::{Connections, Server, ServerAction, ServerModel};
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::{GroupTally, RedirectTally, Tally};

use crate::meter_added::bounds_of_durations;
use crate::plans::{assert_invariants, closed, get, ms, open};

const ROUND_TRIP: Span = Span::from_micros(300);

/// Replies to `/N` after N + 1 ms with a redirect to `/N-1`, and to `/0` after 1 ms with 200. Other
/// paths have their own replies. Counts what it has received, by request line.
#[derive(Default)]
struct Chains {
    received: BTreeMap<String, u64>,
    heads: Vec<String>,
    /// Whether it closes its connection after each redirect.
    closes: bool,
}

impl Chains {
    fn count(&self, line: &str) -> u64 {
        self.received.get(line).copied().unwrap_or(0)
    }

    fn total(&self) -> u64 {
        self.received.values().sum()
    }
}

impl ServerModel for Chains {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = String::from_utf8_lossy(head).into_owned();
        let line = head.lines().next().expect("a line").replace(" HTTP/1.1", "");
        let path = line.split(' ').nth(1).expect("a path").to_owned();
        *self.received.entry(line).or_default() += 1;
        self.heads.push(head);
        let moved = |status: u16, to: &str| (status, format!("Location: {to}\r\n"), 1);
        let (status, headers, time) = match path[1..].parse::<u64>() {
            Ok(0) => (200, String::new(), 1),
            Ok(n) => (302, format!("Location: {}\r\n", n - 1), n + 1),
            Err(_) => match &*path {
                "/loop" => moved(301, "/loop"),
                "/keep" => moved(307, "/end"),
                "/away" => moved(302, "http://elsewhere/1"),
                "/named" => moved(302, "http://named:81/0"),
                "/ftp" => moved(302, "ftp://server/"),
                "/login" => (303, "Location: home/?a=b#c\r\nSet-Cookie: id=7\r\n".to_owned(), 1),
                _ => (200, "X-Token: abc\r\n".to_owned(), 1),
            },
        };
        let close = if self.closes && status != 200 { "Connection: close\r\n" } else { "" };
        let reply = format!("HTTP/1.1 {status} X\r\n{headers}{close}Content-Length: 2\r\n\r\nok");
        let when = conns.now() + ms(time);
        conns.at(when, id, ServerAction::Send(reply.into_bytes()));
        if !close.is_empty() {
            conns.at(when, id, ServerAction::Close);
        }
    }
}

fn following(mut plan: Plan, most: u32) -> Plan {
    let group = plan.groups.len() as u32;
    plan.groups.push(Group { name: Follow::GROUP.into(), parts: Vec::new() });
    let redirects = Redirects::Most(most);
    plan.follow = Some(Box::new(Follow { redirects, servers: Vec::new(), group }));
    plan
}

fn to(plan: Plan, path: &str) -> Plan {
    Plan { calls: vec![get(path)].into(), ..plan }
}

fn link() -> Link {
    Link::with_latency(Span::from_micros(150))
}

fn run(plan: &Plan, shares: u32, server: Chains) -> (Tally, Server<Chains>) {
    let (outcome, server) = outcome(plan, shares, server);
    (outcome.main(), server)
}

fn outcome(plan: &Plan, shares: u32, server: Chains) -> (Outcome, Server<Chains>) {
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(link(), 5) };
    let mut server = Server::new(server);
    let outcome = load(plan, shares, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "redirects");
    (outcome, server)
}

/// Chains that end, are too long, lead to no server of HTTP, and lead elsewhere, on two shares.
pub(crate) fn each_kind() -> Vec<Outcome> {
    let plan = |path| following(to(open(10.0, Arrivals::Fixed, 9), path), 4);
    let run = |path| outcome(&plan(path), 2, Chains::default()).0;
    ["/3", "/loop", "/ftp", "/away"].map(run).into()
}

fn redirects(t: &Tally) -> RedirectTally {
    t.redirects.as_deref().expect("the plan follows redirects").clone()
}

fn chains(t: &Tally) -> (u64, u64, u64, u64) {
    let GroupTally { started, completed, failed, unfinished, duration, .. } =
        t.groups.last().expect("the group of redirects");
    assert_eq!(duration.count(), *completed);
    (*started, *completed, *failed, *unfinished)
}

/// Each chain of four requests takes the sum of their times; each of them is a request in all
/// counts, and they are those of the server. The redirects are followed on the connection on which
/// they arrived.
#[test]
fn chains_take_the_sum_of_their_requests() {
    let plan = following(to(open(10.0, Arrivals::Fixed, 30), "/3"), 10);
    for shares in [1, 2, 3] {
        let (t, server) = run(&plan, shares, Chains::default());
        assert_eq!((t.started, t.sent, t.replies, t.failed), (120, 120, 120, 0));
        assert_eq!(server.model().total(), 120);
        for path in ["GET /3", "GET /2", "GET /1", "GET /0"] {
            assert_eq!(server.model().count(path), 30, "{path}");
        }
        assert_eq!(t.statuses, [(200, 30), (302, 90)].into());
        assert_eq!(redirects(&t), RedirectTally { followed: 90, ..RedirectTally::default() });
        assert_eq!(server.connections().accepted, u64::from(shares));
        assert_eq!(chains(&t), (30, 30, 0, 0));
        let duration = &t.groups[0].duration;
        let sum = ROUND_TRIP * 4 + ms(4 + 3 + 2 + 1);
        assert_eq!(duration.min(), Some(sum));
        // The first request of each share waits for its connection.
        let connect = t.times.connect.max().expect("a connect");
        assert_eq!(duration.max(), Some(sum + connect));
        assert_eq!(t.times.lag.max(), Some(Span::ZERO), "the next request is sent at once");
    }
}

/// A step of a session whose request is redirected, after one that opens the connection: the chain
/// and the group in which the step is take as long, and have the same bound.
#[test]
fn p08_the_time_added_to_chains_has_a_close_upper_bound() {
    let truth = Span::from_micros(100) * 4 + ms(4 + 3 + 2 + 1);
    bounds_of_durations(60, truth, |seed, setup| {
        let step = |call| Burst::of(vec![call], Think::Fixed(ms(20)));
        let kinds =
            vec![SessionKind { name: String::new(), weight: 1, bursts: vec![step(0), step(1)] }];
        let mut plan = open(50.0, Arrivals::Poisson, 0);
        (plan.stop.requests, plan.stop.sessions) = (None, Some(200));
        (plan.calls, plan.seed) = (vec![get("/0"), get("/3")].into(), seed);
        plan.sessions = Some(Sessions::plain(kinds));
        let parts = vec![GroupPart { kind: 0, first: 1, bursts: 1 }];
        plan.groups = vec![Group { name: "moved".to_owned(), parts }];
        let plan = following(plan, 10);
        plan.check().expect("a valid plan");
        let outcome = load(&plan, 1, setup, &mut [&mut Server::new(Chains::default())]);
        let mut main = outcome.main();
        assert_eq!(main.groups[0], main.groups[1]);
        assert_eq!((main.groups[0].completed, main.replies), (200, 1_000));
        main.groups.remove(0)
    });
}

/// The same over HTTP/1.1 and HTTP/2 against the target server, with a fixed time of each reply.
#[test]
fn chains_are_the_same_over_both_versions() {
    for http in [HttpVersion::Http11, HttpVersion::Http2Only] {
        let mut plan = following(to(open(50.0, Arrivals::Fixed, 40), "/redirect/2"), 10);
        (plan.http, plan.expect) = (http, Expect::default());
        plan.check().expect("a valid plan");
        let latency = Latency::Fixed(ms(2));
        let mut server = Serve::new(ServerBehavior { latency, ..ServerBehavior::default() }, 7);
        let setup = Setup { watch: false, ..Setup::new(link(), 5) };
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "redirects");
        let t = outcome.main();
        assert_eq!((t.started, t.replies, t.failed), (120, 120, 0), "{http:?}");
        assert_eq!(t.statuses, [(200, 40), (302, 80)].into());
        assert_eq!(t.connects, 1, "{http:?}");
        assert_eq!(chains(&t), (40, 40, 0, 0));
        assert_eq!(t.groups[0].duration.min(), Some((ROUND_TRIP + ms(2)) * 3), "{http:?}");
    }
}

/// Users of a closed loop make their next request after the chain; `-n` counts what they ask for.
#[test]
fn closed_loops_count_chains_against_their_quota() {
    let mut plan = following(to(closed(3, Think::None, ms(1)), "/2"), 10);
    plan.stop = Stop { requests: Some(50), sessions: None, duration: None };
    for closes in [false, true] {
        let (t, server) = run(&plan, 1, Chains { closes, ..Chains::default() });
        assert_eq!((t.started, t.replies, server.model().total()), (150, 150, 150));
        assert_eq!(chains(&t), (50, 50, 0, 0));
        let accepted = server.connections().accepted;
        // Each redirect closes its connection; the last reply of a chain leaves it open.
        assert_eq!(accepted, if closes { 3 + 100 } else { 3 });
        assert_eq!(t.retries, 0);
    }
}

/// A loop ends at the limit, and its last request fails for a reason of its own.
#[test]
fn loops_end_at_the_limit() {
    for most in [0, 1, 10] {
        let plan = following(to(open(10.0, Arrivals::Fixed, 5), "/loop"), most);
        let (t, server) = run(&plan, 1, Chains::default());
        let requests = 5 * (u64::from(most) + 1);
        assert_eq!((t.started, server.model().total()), (requests, requests));
        assert_eq!((t.replies, t.fault(Fault::TooManyRedirects)), (requests - 5, 5));
        let tally = redirects(&t);
        assert_eq!((tally.followed, tally.over_limit), (5 * u64::from(most), 5));
        assert_eq!(chains(&t), if most == 0 { (0, 0, 0, 0) } else { (5, 0, 5, 0) });
    }
}

/// A redirect to a server that the user did not name is the last reply; nothing connects there.
#[test]
fn other_servers_are_left_alone_and_counted() {
    for (path, elsewhere, unusable) in [("/away", 8, 0), ("/ftp", 0, 8)] {
        let plan = following(to(open(10.0, Arrivals::Fixed, 8), path), 10);
        let (t, server) = run(&plan, 1, Chains::default());
        assert_eq!((t.started, t.replies, server.model().total()), (8, 8, 8));
        let tally = redirects(&t);
        assert_eq!((tally.followed, tally.unusable), (0, unusable));
        assert_eq!(tally.led_elsewhere(), elsewhere);
        if elsewhere > 0 {
            assert_eq!(tally.elsewhere, [("http://elsewhere".to_owned(), 8)].into());
        }
        assert_eq!(chains(&t), (0, 0, 0, 0));
    }
}

/// A server that the user has named gets the next request, with its own host and without
/// credentials for the first one; with one connection in all, too.
#[test]
fn named_servers_are_followed() {
    for connections in [1, 100] {
        let mut plan = following(to(open(10.0, Arrivals::Fixed, 8), "/named"), 10);
        if let prony_plan::plan::Load::Open { connections: most, .. } = &mut plan.load {
            *most = connections;
        }
        plan.endpoints.push(Endpoint::Tcp { host: "named".into(), port: 81 });
        let servers = vec![RedirectServer { endpoint: 1, authority: "named:81".into() }];
        plan.follow.as_mut().expect("it follows").servers = servers;
        let secret = ("Authorization".to_owned(), "Basic abc".to_owned());
        let own = ("X-Own".to_owned(), "1".to_owned());
        plan.calls[0].headers = vec![secret, own].into();
        plan.check().expect("a valid plan");
        let setup = Setup { watch: false, ..Setup::new(link(), 5) };
        let (mut first, mut named) =
            (Server::new(Chains::default()), Server::new(Chains::default()));
        let outcome = load(&plan, 1, &setup, &mut [&mut first, &mut named]);
        assert_invariants(&outcome, "redirects");
        let t = outcome.main();
        assert_eq!((t.started, t.replies), (16, 16), "{connections}");
        assert_eq!((first.model().total(), named.model().count("GET /0")), (8, 8));
        assert_eq!(chains(&t), (8, 8, 0, 0));
        let expects = if connections == 1 { 16 } else { 2 };
        assert_eq!(t.connects, expects, "one connection makes room for the other");
        for head in &first.model().heads {
            assert!(head.contains("Host: server\r\n") && head.contains("Basic abc"), "{head}");
        }
        for head in &named.model().heads {
            assert!(head.contains("Host: named:81\r\n") && head.contains("X-Own: 1"), "{head}");
            assert!(!head.contains("Authorization"), "{head}");
        }
    }
}

/// 307 keeps method and body, 303 makes a GET without the body and its headers.
#[test]
fn methods_and_bodies_follow_the_rules() {
    let post = |path: &str| CallSpec {
        method: "POST".into(),
        body: b"a=b".to_vec(),
        headers: vec![("Content-Type".to_owned(), "text/x".to_owned())].into(),
        ..get(path)
    };
    let mut plan = following(open(10.0, Arrivals::Fixed, 10), 10);
    plan.calls = vec![post("/keep"), post("/login")].into();
    let (t, server) = run(&plan, 1, Chains::default());
    assert_eq!((t.started, t.replies), (20, 20));
    let counts = ["POST /keep", "POST /end", "POST /login", "GET /home/?a=b"];
    assert_eq!(counts.map(|line| server.model().count(line)), [5; 4]);
    for head in &server.model().heads {
        let has_body = !head.starts_with("GET");
        assert_eq!(head.contains("Content-Type: text/x"), has_body, "{head}");
        assert_eq!(head.contains("Content-Length: 3"), has_body, "{head}");
    }
}

/// A session keeps the cookies of a redirect, and checks and extracts from the last reply; only
/// that must be as expected. Its next step waits for the chain.
#[test]
fn sessions_go_on_with_the_last_reply() {
    let mut plan = following(open(10.0, Arrivals::Fixed, 0), 10);
    let place = Place::Header { name: "X-Token".into(), regex: None };
    let extract = Extract { variable: "token".into(), place, default: None };
    let login = CallSpec { extract: vec![extract], ..get("/login") };
    plan.calls = vec![login, CallSpec { template: true, ..get("/with/{{token}}") }].into();
    let bursts = vec![Burst::of(vec![0], Think::Fixed(ms(5))), Burst::of(vec![1], Think::None)];
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    let sessions = Sessions { cookies: Cookies::Session, ..Sessions::plain(kinds) };
    plan.sessions = Some(sessions);
    plan.stop = Stop { requests: None, sessions: Some(6), duration: None };
    plan.expect = Expect { statuses: vec![(200, 200)], ..Expect::default() };
    plan.checks = Checks::of_all(vec!["status = 200".parse::<Check>().expect("a check")]);
    for shares in [1, 2] {
        let (t, server) = run(&plan, shares, Chains::default());
        assert_eq!((t.started, t.replies, t.failed), (18, 18, 0));
        let counts = ["GET /login", "GET /home/?a=b", "GET /with/abc"];
        assert_eq!(counts.map(|line| server.model().count(line)), [6; 3]);
        let with_cookie = server.model().heads.iter().filter(|h| h.contains("Cookie: id=7\r\n"));
        assert_eq!(with_cookie.count(), 12, "the requests after the login");
        assert_eq!((t.checks[0].passed, t.checks[0].failed), (12, 0));
        assert_eq!(chains(&t), (6, 6, 0, 0));
        let ended = t.sessions.as_deref().expect("sessions");
        assert_eq!((ended.completed, ended.failed), (6, 0));
    }
}

/// A session whose chain fails fails, and a request can follow no redirects where others do.
#[test]
fn requests_have_their_own_rules() {
    let mut plan = following(open(10.0, Arrivals::Fixed, 0), 2);
    let off = CallSpec { redirects: Some(Redirects::Off), ..get("/3") };
    let more = CallSpec { redirects: Some(Redirects::Most(3)), ..get("/3") };
    plan.calls = vec![get("/3"), off, more].into();
    let bursts = (0..3).map(|call| Burst::of(vec![call], Think::None)).collect();
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    let sessions = Sessions { on_failure: OnFailure::Continue, ..Sessions::plain(kinds) };
    plan.sessions = Some(sessions);
    plan.stop = Stop { requests: None, sessions: Some(4), duration: None };
    let (t, server) = run(&plan, 1, Chains::default());
    // Three requests of the first, the last of which fails; one; four.
    assert_eq!((t.started, t.failed, server.model().total()), (4 * 8, 4, 4 * 8));
    assert_eq!(t.fault(Fault::TooManyRedirects), 4);
    assert_eq!(chains(&t), (8, 4, 4, 0));
    assert_eq!(t.sessions.as_deref().expect("sessions").failed, 4);
}

/// Chains in flight at the end of the load are completed in the drain; those of a server that
/// does not reply any more are unfinished or failed.
#[test]
fn the_end_of_the_load_cuts_no_chain() {
    let mut plan = following(to(closed(4, Think::None, ms(17)), "/3"), 10);
    let (t, server) = run(&plan, 1, Chains::default());
    assert_eq!(t.started, server.model().total());
    assert_eq!((t.replies, t.unfinished), (t.started, 0));
    // Two chains of each user: the second starts before the end, and ends after it.
    assert_eq!(chains(&t), (8, 8, 0, 0));
    assert!(t.replies_in_drain > 0);
    plan.timeout = Span::from_micros(3_500);
    let (t, _) = run(&plan, 1, Chains::default());
    // The first reply takes longer than the timeout: no chain starts.
    assert_eq!((t.replies, chains(&t)), (0, (0, 0, 0, 0)));
    let plan = Plan { timeout: ms(4), ..to(plan, "/2") };
    let (t, _) = run(&plan, 1, Chains::default());
    let (started, completed, failed, unfinished) = chains(&t);
    assert!(started > 0 && failed == 0, "{started} {completed} {failed} {unfinished}");
    assert_eq!(started, completed + unfinished);
}

/// No chain is lost when connections break, however the replies arrive.
#[test]
fn every_chain_ends_once() {
    for seed in 0..40 {
        let latency = Latency::Exponential(ms(2));
        let behavior = ServerBehavior {
            latency,
            reset: "5%".parse().expect("a share"),
            truncate: "5%".parse().expect("a share"),
            ..ServerBehavior::default()
        };
        for http in [HttpVersion::Http11, HttpVersion::Http2Only] {
            for mut plan in [
                open(200.0, Arrivals::Poisson, 60),
                Plan { pipeline: 3, ..closed(4, Think::None, ms(200)) },
            ] {
                plan = following(to(plan, "/redirect/3"), 3);
                (plan.http, plan.seed) = (http, seed);
                plan.check().expect("a valid plan");
                let mut server = Serve::new(behavior.clone(), seed);
                let setup = Setup { watch: false, ..Setup::new(link(), seed) };
                let outcome = load(&plan, 1 + (seed % 2) as u32, &setup, &mut [&mut server]);
                assert_invariants(&outcome, &format!("seed {seed}"));
                let t = outcome.main();
                let (started, completed, failed, unfinished) = chains(&t);
                assert_eq!(started, completed + failed + unfinished, "seed {seed}");
                let ends = t.statuses.get(&200).copied().unwrap_or(0);
                assert_eq!(completed, ends - t.fault(Fault::Surplus), "seed {seed}");
                assert!(completed > 0 && redirects(&t).followed >= 3 * completed);
            }
        }
    }
}
