//! Sessions, bursts, cookies and templates: a site that is the same over HTTP/1.1 and HTTP/2 gets
//! the same requests at the same times.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{
    Burst, CallSpec, Cookies, HttpVersion, Plan, SessionKind, Sessions, Stop, Think,
};
use prony_plan::script::{Extract, Place};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Event, FrameServer, Server, ServerAction, ServerModel, Turn};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::plans::{assert_invariants, closed, get, ms};

/// The time from a request to its reply at the site, and the one-way latency.
const SERVICE: Span = Span::from_millis(2);
const WAY: Span = Span::from_micros(150);
const ROUND_TRIP: Span = Span::from_micros(300);
const BOTH: [HttpVersion; 2] = [HttpVersion::Http11, HttpVersion::Http2Only];

/// A request as the site sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    at: Nanos,
    path: String,
    cookie: String,
    token: String,
}

/// Replies to `/login` with a cookie and a token, which are numbers, and to all else with nothing.
#[derive(Debug, Default)]
struct Site {
    asked: Vec<Asked>,
    logins: u64,
}

impl Site {
    /// The header fields of the reply.
    fn answer(&mut self, asked: Asked) -> Vec<(&'static str, String)> {
        let login = asked.path == "/login";
        self.asked.push(asked);
        self.logins += u64::from(login);
        let n = self.logins;
        match login {
            true => vec![("set-cookie", format!("sid={n}; Path=/")), ("x-token", format!("t{n}"))],
            false => Vec::new(),
        }
    }
}

/// The site over HTTP/1.1.
struct OverHttp1(Rc<RefCell<Site>>);

impl ServerModel for OverHttp1 {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            let found = fields.find(|(n, _)| n.eq_ignore_ascii_case(name));
            found.map_or_else(String::new, |(_, value)| value.to_owned())
        };
        let asked = Asked {
            at: conns.now(),
            path: head.split(' ').nth(1).expect("a path").to_owned(),
            cookie: field("cookie"),
            token: field("x-token"),
        };
        let fields = self.0.borrow_mut().answer(asked);
        let fields = fields.into_iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let reply =
            format!("HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\nok", fields.collect::<String>());
        conns.at(conns.now() + SERVICE, id, ServerAction::Send(reply.into_bytes()));
    }
}

/// The site over HTTP/2.
fn over_http2(site: &Rc<RefCell<Site>>) -> impl FnMut(&mut Turn<'_>) + use<> {
    let site = Rc::clone(site);
    let mut due = BTreeMap::new();
    move |turn| match turn.event {
        Event::Request(_) => {
            let field = |name| turn.request.field(name).unwrap_or_default().to_owned();
            let asked = Asked {
                at: turn.now(),
                path: field(":path"),
                cookie: field("cookie"),
                token: field("x-token"),
            };
            due.insert((turn.conn, turn.stream), site.borrow_mut().answer(asked));
            turn.after(SERVICE, 0);
        }
        Event::Timer(_) => {
            let fields = due.remove(&(turn.conn, turn.stream)).expect("a request");
            let fields = fields.iter().map(|(name, value)| (*name, value.as_str()));
            let fields: Vec<_> = [(":status", "200")].into_iter().chain(fields).collect();
            turn.headers(false, &fields).data(true, b"ok");
        }
        _ => _ = turn.usual(),
    }
}

/// The tally, and what the site was asked, in order.
fn run(plan: &Plan, http: HttpVersion, shares: u32) -> (Tally, Vec<Asked>) {
    let plan = Plan { http, ..plan.clone() };
    plan.check().expect("a valid plan");
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(WAY), 1) };
    let site = Rc::new(RefCell::new(Site::default()));
    let outcome = if http == HttpVersion::Http11 {
        load(&plan, shares, &setup, &mut [&mut Server::new(OverHttp1(Rc::clone(&site)))])
    } else {
        let server = FrameServer::new(over_http2(&site));
        load(&plan, shares, &setup, &mut [&mut Server::new(server)])
    };
    assert_invariants(&outcome, "both versions");
    let t = outcome.main();
    assert_eq!((t.failed, t.unfinished), (0, 0), "{http:?}: {:?}", t.faults);
    assert_eq!(t.times.service.min(), Some(ROUND_TRIP + SERVICE), "{http:?}");
    assert_eq!(t.times.service.max(), Some(ROUND_TRIP + SERVICE), "{http:?}");
    let asked = site.borrow().asked.clone();
    (t, asked)
}

fn sessions(users: u32, count: u64, calls: Vec<CallSpec>, bursts: Vec<Burst>) -> Plan {
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    Plan {
        calls: calls.into(),
        stop: Stop { requests: None, sessions: Some(count), duration: None },
        pipeline: 100,
        sessions: Some(Sessions { cookies: Cookies::Session, ..Sessions::plain(kinds) }),
        ..closed(users, Think::None, ms(1))
    }
}

fn templated(path: &str) -> CallSpec {
    let headers = vec![("X-Token".to_owned(), "{{token}}".to_owned())];
    CallSpec { headers: headers.into(), template: true, ..get(path) }
}

/// Each session has the cookie and the token of its own login in all later requests, in paths and
/// in header fields, over either version.
#[test]
fn sessions_keep_their_cookies_and_extracted_values() {
    let place = Place::Header { name: "X-Token".into(), regex: None };
    let extract = vec![Extract { variable: "token".into(), place, default: None }];
    let login = CallSpec { extract, ..get("/login") };
    let calls = vec![login, templated("/cart/{{token}}"), templated("/pay/{{session}}/{{token}}")];
    let burst = |call| Burst::of(vec![call], Think::None);
    let plan = sessions(4, 40, calls, vec![burst(0), burst(1), burst(2)]);
    for shares in [1, 2] {
        let all = BOTH.map(|http| {
            let (t, asked) = run(&plan, http, shares);
            assert_eq!((t.replies, asked.len()), (120, 120), "{http:?}");
            let ended = t.sessions.as_deref().expect("sessions");
            assert_eq!((ended.completed, ended.failed), (40, 0), "{http:?}");
            let (mut carts, mut paid) = (Vec::new(), Vec::new());
            for Asked { path, cookie, token, .. } in &asked {
                let parts: Vec<&str> = path.split('/').skip(1).collect();
                match parts[..] {
                    ["login"] => assert_eq!((&**cookie, &**token), ("", ""), "{http:?}"),
                    ["cart", own] | ["pay", _, own] => {
                        assert_eq!((own, &*format!("sid={}", &own[1..])), (&**token, &**cookie));
                        let list = if parts[0] == "cart" { &mut carts } else { &mut paid };
                        list.push(own.to_owned());
                    }
                    _ => panic!("{http:?}: {path}"),
                }
            }
            carts.sort();
            paid.sort();
            let mut logins: Vec<String> = (1..=40).map(|n| format!("t{n}")).collect();
            logins.sort();
            assert_eq!((&carts, &paid), (&logins, &logins), "{http:?}");
            let mut paths: Vec<String> = asked.into_iter().map(|asked| asked.path).collect();
            paths.sort();
            paths
        });
        assert_eq!(all[0].len(), all[1].len());
    }
}

/// The requests of a burst are sent at once, in their order, and the next burst after the last
/// reply and the think time. With a lead, the first goes alone.
#[test]
fn bursts_have_their_order_and_their_times() {
    let think = ms(10);
    let calls = (0..5).map(|n| get(&format!("/{n}"))).collect();
    let lead = Burst { lead: true, ..Burst::of(vec![2, 3, 4], Think::None) };
    let bursts = vec![
        Burst { repeat: 2, ..Burst::of(vec![0, 1, 2, 3], Think::Fixed(think)) },
        Burst::of(vec![4, 1], Think::None),
        lead,
    ];
    let plan = sessions(1, 3, calls, bursts);
    let turn = ROUND_TRIP + SERVICE;
    let expected = [
        (Span::ZERO, &["/0", "/1", "/2", "/3"][..]),
        (turn + think, &["/0", "/1", "/2", "/3"]),
        (turn * 2 + think * 2, &["/4", "/1"]),
        (turn * 3 + think * 2, &["/2"]),
        (turn * 4 + think * 2, &["/3", "/4"]),
    ];
    let expected: Vec<(Span, &str)> = expected
        .iter()
        .flat_map(|(at, paths)| paths.iter().map(move |path| (*at, *path)))
        .collect();
    for http in BOTH {
        let (t, asked) = run(&plan, http, 1);
        assert_eq!((t.replies, asked.len()), (39, 39), "{http:?}");
        for session in asked.chunks(13) {
            let seen: Vec<(Span, &str)> =
                session.iter().map(|a| (a.at.since(session[0].at), &*a.path)).collect();
            assert_eq!(seen, expected, "{http:?}");
        }
        // With the connection's round trip, if the session opens one.
        let lifetime = &t.sessions.as_deref().expect("sessions").lifetime;
        let least = turn * 5 + think * 2;
        assert!(lifetime.min() >= Some(least), "{http:?}: {lifetime:?}");
        assert!(lifetime.max() <= Some(least + ROUND_TRIP), "{http:?}: {lifetime:?}");
    }
}
