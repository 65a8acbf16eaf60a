//! Templates, values extracted from replies, and cookies, against servers that check the requests.

use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::units::ConnId;
use prony_base::websocket::{Event, MESSAGE_MAX, Reader, Role};
use prony_plan::plan::{
    Burst, CallSpec, Cookies, Expect, OnFailure, Plan, SessionKind, Sessions, Think,
};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Extract, PickRow, Place, Table};
use prony_server::serve::{Latency, Serve};
use prony_sim::link::Link;
use prony_sim::server::{Connections, Server, ServerModel};
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};

use crate::plans::{assert_invariants, get, ms, open};
use crate::recorded::Recorded;
use crate::websocket::{echo, schedule, websocket};

/// A shop. The reply to a login has a cookie, a token in a header and a secret in the page; an
/// order must have all three.
#[derive(Default)]
struct Shop {
    orders: u64,
    refused: u64,
}

impl ServerModel for Shop {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let path = head.split(' ').nth(1).expect("a path");
        let field = |name: &str| {
            let line = head.lines().find_map(|l| l.split_once(": ").filter(|(n, _)| *n == name));
            line.map(|(_, value)| value)
        };
        let reply = match path.split_once("?user=") {
            Some(("/login", user)) => {
                let page = format!("<p>{{\"user\":{{\"secret\":\"s {user}\"}}}}</p>");
                format!(
                    "HTTP/1.1 200 OK\r\nSet-Cookie: sid={user}; Path=/\r\nSet-Cookie: at=login; \
                     Path=/login\r\nX-Token: id={user};\r\nContent-Length: {}\r\n\r\n{page}",
                    page.len()
                )
            }
            Some((_, user))
                if field("Cookie") == Some(&format!("sid={user}"))
                    && field("X-Token") == Some(user)
                    && field("X-Secret") == Some(&format!("s%20{user}")) =>
            {
                self.orders += 1;
                "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            _ => {
                self.refused += 1;
                "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
        };
        conns.send(id, reply.as_bytes());
    }
}

fn template(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> CallSpec {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let (method, body) = (method.to_owned(), body.as_bytes().to_vec());
    CallSpec { method: method.into(), headers, body, template: true, ..get(path) }
}

fn extract(variable: &str, place: Place) -> Extract {
    Extract { variable: variable.to_owned(), place, default: None }
}

/// An open loop of `count` sessions, 100 a second, with one burst for each call.
fn sessions(calls: Vec<CallSpec>, cookies: Cookies, count: u64) -> Plan {
    let burst = |i| Burst::of(vec![i], Think::None);
    let bursts = (0..calls.len() as u32).map(burst).collect();
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    let sessions = Sessions { cookies, ..Sessions::plain(kinds) };
    let mut plan = open(100.0, Arrivals::Fixed, 0);
    (plan.stop.requests, plan.stop.sessions) = (None, Some(count));
    (plan.calls, plan.sessions) = (calls.into(), Some(sessions));
    plan.expect = Expect { statuses: vec![(200, 299)], ..Expect::default() };
    plan
}

fn table(columns: &[&str], rows: &[&[&str]], pick: PickRow) -> Arc<Table> {
    let columns = columns.iter().map(|c| (*c).to_owned()).collect();
    let mut table = Table::new("users", pick, columns).expect("columns");
    for row in rows {
        table.push(row.iter().copied()).expect("a cell for each column");
    }
    Arc::new(table)
}

/// A session that logs in and orders, twice.
fn shopping(count: u64) -> Plan {
    let place = Place::Header { name: "x-token".into(), regex: Some("id=(.*);".into()) };
    let login = CallSpec {
        extract: vec![
            extract("token", place),
            extract("page", Place::Between("<p>".into(), "</p>".into())),
            extract("secret", Place::Regex("\"secret\":\"([^\"]*)\"".into())),
        ],
        ..template("GET", "/login?user={{users.id}}-{{session}}", &[], "")
    };
    let headers = [("X-Token", "{{token}}"), ("X-Secret", "{{secret | url}}")];
    let body = "{\"page\":\"{{page | json}}\",\"n\":{{random.int 1 1000000}},\"k\":{{counter}}}";
    let order = template("POST", "/order?user={{users.id}}-{{session}}", &headers, body);
    let mut plan = sessions(vec![login, order], Cookies::Session, count);
    let bursts = &mut plan.sessions.as_mut().expect("sessions").kinds[0].bursts;
    bursts[1].repeat = 2;
    plan.data.tables = vec![table(&["id"], &[&["ann"], &["bob"], &["eve"]], PickRow::Random)];
    plan
}

fn run<M: ServerModel>(
    plan: &Plan,
    shares: u32,
    link: Link,
    model: M,
) -> (Outcome, Recorded<Server<M>>) {
    let mut recorded = Recorded::new(Server::new(model));
    let setup = Setup { watch: false, ..Setup::new(link, 5) };
    let outcome = load(plan, shares, &setup, &mut [&mut recorded]);
    assert_invariants(&outcome, "templates");
    (outcome, recorded)
}

#[test]
fn extracted_values_and_cookies_are_sent() {
    let mut plan = shopping(300);
    for (segment, write) in [(None, None), (Some(1), None), (Some(40), Some(30))] {
        let link = Link { segment, write, ..Link::with_latency(ms(1)) };
        let (outcome, recorded) = run(&plan, 1, link, Shop::default());
        let tally = outcome.main();
        assert_eq!((tally.replies, tally.failed), (900, 0), "pieces of {segment:?}");
        assert_eq!((recorded.server.model().orders, recorded.server.model().refused), (600, 0));
        let sessions = tally.sessions.expect("there were sessions");
        assert_eq!((sessions.completed, sessions.failed), (300, 0));
    }
    // Without cookies, every order is refused.
    plan.sessions.as_mut().expect("sessions").cookies = Cookies::Off;
    let (outcome, recorded) = run(&plan, 1, Link::with_latency(ms(1)), Shop::default());
    assert_eq!((recorded.server.model().orders, recorded.server.model().refused), (0, 300));
    let tally = outcome.main();
    assert_eq!((tally.replies, tally.faults[Fault::UnexpectedStatus as usize]), (300, 300));
}

#[test]
fn requests_do_not_depend_on_the_number_of_shares() {
    let plan = shopping(200);
    let streams = |shares, seed| {
        let plan = Plan { seed, ..plan.clone() };
        run(&plan, shares, Link::with_latency(ms(1)), Shop::default()).1.sorted()
    };
    let whole = streams(1, 1);
    assert_eq!(whole.len(), 200, "a connection for each session");
    for shares in [2, 3] {
        assert!(streams(shares, 1) == whole, "{shares} shares");
    }
    assert!(streams(1, 2) != whole, "another seed");
    // Each value of the counter occurs once.
    let mut counters: Vec<u64> = Vec::new();
    for stream in &whole {
        let after = stream.split("\"k\":").skip(1);
        counters.extend(
            after.map(|t| t.split('}').next().expect("a number").parse::<u64>().expect("a number")),
        );
    }
    counters.sort_unstable();
    // Of the three requests of a session, the second and third have a counter.
    let expected: Vec<u64> = (0..200).flat_map(|s| [3 * s + 2, 3 * s + 3]).collect();
    assert_eq!(counters, expected);
    let lengths: Vec<_> = whole[0].split("Content-Length: ").skip(1).collect();
    assert_eq!(lengths.len(), 2);
    for part in lengths {
        let (length, rest) = part.split_once("\r\n").expect("a line");
        let body = rest.split_once("\r\n\r\n").expect("a head").1;
        let body = body.split("POST").next().expect("a body");
        assert_eq!(length, body.len().to_string(), "{body}");
        let json: String = body.to_owned();
        assert!(json.starts_with("{\"page\":\"{\\\"user\\\"") && json.ends_with('}'), "{json}");
    }
}

/// Replies to every request with the same bytes.
struct ConstantReply(String);

impl ServerModel for ConstantReply {
    fn request(&mut self, id: ConnId, _: u64, _: &[u8], conns: &mut Connections) {
        conns.send(id, self.0.as_bytes());
    }
}

fn ok(headers: &str, body: &str) -> ConstantReply {
    ConstantReply(format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

#[test]
fn a_reply_without_the_value_fails() {
    let login = CallSpec { extract: vec![extract("v", Place::Json("/v".into()))], ..get("/") };
    let plan = sessions(vec![login, template("GET", "/{{v}}", &[], "")], Cookies::Off, 10);
    let faults = |on_failure, body: &str| {
        let mut plan = plan.clone();
        plan.sessions.as_mut().expect("sessions").on_failure = on_failure;
        let (outcome, recorded) = run(&plan, 1, Link::with_latency(ms(1)), ok("", body));
        let tally = outcome.main();
        let of = |f: Fault| tally.faults[f as usize];
        let faults = [Fault::ExtractMissing, Fault::ExtractTooLong, Fault::NoValue].map(of);
        let sessions = tally.sessions.expect("there were sessions");
        let sent: usize =
            recorded.streams.values().map(|s| s.windows(4).filter(|w| w == b"GET ").count()).sum();
        (tally.replies, faults, sessions.completed, sessions.failed, sent)
    };
    let long = format!("{{\"v\":\"{}\"}}", "x".repeat(1 << 20));
    assert_eq!(faults(OnFailure::End, "{\"v\":1}"), (20, [0, 0, 0], 10, 0, 20));
    assert_eq!(faults(OnFailure::End, "{}"), (0, [10, 0, 0], 0, 10, 10));
    // The session continues, but the request that needs the value cannot be sent.
    assert_eq!(faults(OnFailure::Continue, "{}"), (0, [10, 0, 10], 0, 10, 10));
    assert_eq!(faults(OnFailure::End, &long), (0, [0, 10, 0], 0, 10, 10));
}

#[test]
fn values_with_line_breaks_are_never_sent_in_a_head() {
    let rows: &[&[&str]] = &[&["good"], &["bad\r\nEvil: 1"], &["bad blank"]];
    let calls = vec![
        template("GET", "/{{users.id | url}}", &[], ""),
        template("GET", "/", &[("X-A", "{{users.id}}")], ""),
        template("GET", "/{{users.id}}", &[], ""),
        get("/end"),
    ];
    let mut plan = sessions(calls, Cookies::Off, 30);
    plan.data.tables = vec![table(&["id"], rows, PickRow::InTurn)];
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let (outcome, recorded) = run(&plan, 1, Link::with_latency(ms(1)), ok("", ""));
    let tally = outcome.main();
    // Row 2 is invalid in a header and in a path, row 3 in a path.
    assert_eq!(tally.faults[Fault::UnfitValue as usize], 10 + 10 + 10);
    assert_eq!((tally.replies, tally.sent), (120 - 30, 120 - 30));
    let sessions = tally.sessions.expect("there were sessions");
    assert_eq!((sessions.completed, sessions.failed), (10, 20));
    for stream in recorded.sorted() {
        assert!(!stream.contains("Evil: 1\r\n"), "{stream}");
        assert!(stream.contains("GET /end "), "the connection stays open: {stream}");
    }
}

#[test]
fn each_cookie_mode_sends_the_expected_cookies() {
    let cookies = "Set-Cookie: a=1; Path=/x\r\nSet-Cookie: b=2; Domain=other\r\n";
    let seen = |kind| {
        let plan = sessions(vec![get("/"), get("/"), get("/x/y")], kind, 3);
        let mut streams = run(&plan, 1, Link::with_latency(ms(1)), ok(cookies, "")).1.sorted();
        streams.iter_mut().for_each(|s| {
            let lines = s.lines().filter_map(|l| {
                l.strip_prefix("Cookie: ").or_else(|| l.starts_with("GET").then_some("|"))
            });
            *s = lines.collect();
        });
        streams
    };
    assert_eq!(seen(Cookies::Off), ["|||"; 3]);
    assert_eq!(seen(Cookies::Session), ["|||a=1"; 3]);
    assert_eq!(seen(Cookies::Always), ["||a=1; b=2|a=1; b=2"; 3]);
    // The second session starts after the first one, and sends the shared cookies.
    assert_eq!(seen(Cookies::Shared), ["|||a=1"; 3]);
    let plan = sessions(vec![get("/x/")], Cookies::Shared, 3);
    let streams = run(&plan, 1, Link::with_latency(ms(1)), ok(cookies, "")).1.sorted();
    let with = streams.iter().filter(|s| s.contains("Cookie: a=1")).count();
    assert_eq!(with, 2, "all sessions but the first: {streams:?}");
}

/// A random value in a variable is drawn once for each session.
#[test]
fn a_variable_keeps_its_random_value() {
    let call = || template("GET", "/{{me}}/{{random.hex 8}}", &[], "");
    let mut plan = sessions(vec![call(), call()], Cookies::Off, 20);
    plan.data.variables = vec![("me".to_owned(), "{{session}}-{{random.uuid}}".to_owned())];
    let (_, recorded) = run(&plan, 1, Link::with_latency(ms(1)), ok("", ""));
    let mut seen = Vec::new();
    for stream in recorded.sorted() {
        let paths: Vec<_> = stream.lines().filter_map(|l| l.strip_prefix("GET /")).collect();
        let [(me, one), (again, two)] =
            [0, 1].map(|i| paths[i].split_once('/').expect("two parts"));
        assert_eq!(me, again);
        assert_ne!(one, two);
        seen.push(me.to_owned());
    }
    seen.dedup();
    assert_eq!(seen.len(), 20);
}

/// Template fields of a message of WebSocket are filled in once per connection: all messages of a
/// connection have the same number, and each connection has its own.
#[test]
fn messages_of_websocket_have_the_values_of_their_connection() {
    let mut plan = websocket(open(50.0, Arrivals::Fixed, 20), Some(schedule(100.0, 5)), None);
    plan.calls =
        vec![template("GET", "/room/{{counter}}", &[], "{\"number\":\"<{{counter}}>\"}")].into();
    plan.check().expect("a valid plan");
    let mut server = Recorded::new(Serve::new(echo(Latency::None), 5));
    let setup = Setup::new(Link::with_latency(ms(0)), 5);
    let t = load(&plan, 1, &setup, &mut [&mut server]).main();
    assert_eq!((t.replies, t.failed), (20, 0), "{:?}", t.faults);
    assert_eq!(t.stream_messages.expect("messages").answered, 100);
    let mut numbers = Vec::new();
    for stream in server.streams.into_values() {
        let end = stream.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(stream[..end].to_vec()).expect("text");
        let (mut reader, mut texts) = (Reader::new(Role::Server, MESSAGE_MAX), vec![Vec::new()]);
        let used = reader.read(&stream[end..], |event| match event {
            Event::Piece(piece) => texts.last_mut().expect("a text").extend_from_slice(piece),
            Event::End(_) => texts.push(Vec::new()),
            _ => {}
        });
        assert_eq!(used, Ok(stream.len() - end));
        assert_eq!((texts.pop(), texts.len()), (Some(Vec::new()), 5));
        let number = head.split(['/', ' ']).nth(3).expect("a path").to_owned();
        let expected = format!("{{\"number\":\"<{number}>\"}}").into_bytes();
        assert_eq!(texts, vec![expected; 5], "{head}");
        numbers.push(number.parse::<u32>().expect("a number"));
    }
    numbers.sort_unstable();
    assert!(
        numbers.windows(2).all(|two| two[1] == two[0] + 1) && numbers.len() == 20,
        "{numbers:?}"
    );
}
