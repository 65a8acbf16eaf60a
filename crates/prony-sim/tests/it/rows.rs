//! Rows that only one session has, and numbers that only one request has, over any number of
//! shares.

use std::collections::BTreeSet;
use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{Burst, CallSpec, Plan, SessionKind, Sessions, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Exhausted, PickRow, Table};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Server, ServerAction, ServerModel};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::plans::{assert_invariants, at, closed, get, ms, open};

/// Replies after 7 ms, and keeps each path.
#[derive(Default)]
struct Paths(Vec<String>);

impl ServerModel for Paths {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        self.0.push(head.split(' ').nth(1).expect("a path").to_owned());
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
        conns.at(conns.now() + ms(7), id, ServerAction::Send(reply));
    }
}

/// The plan with sessions of these requests, and a table `users` of `rows` rows.
fn with_rows(plan: Plan, paths: &[&str], rows: u32, exhausted: Exhausted) -> Plan {
    let calls: Vec<_> = paths.iter().map(|path| CallSpec { template: true, ..get(path) }).collect();
    let bursts = (0..paths.len() as u32).map(|call| Burst::of(vec![call], Think::None)).collect();
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    let mut table = Table::new("users", PickRow::Unique, vec!["id".to_owned()]).expect("a column");
    for row in 0..rows {
        table.push([format!("u{row}").as_str()]).expect("a cell");
    }
    let mut plan = Plan { calls: calls.into(), sessions: Some(Sessions::plain(kinds)), ..plan };
    plan.data.tables = vec![Arc::new(table.when_exhausted(exhausted))];
    plan.stop.requests = None;
    plan.check().expect("a valid plan");
    plan
}

/// The paths in order, the tally, and the end of the run.
fn run(plan: &Plan, shares: u32) -> (Vec<String>, Tally, Nanos) {
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(ms(1)), 5) };
    let mut server = Server::new(Paths::default());
    let outcome = load(plan, shares, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "rows");
    let end = outcome.world.finished.iter().copied().max().expect("a share");
    (server.model().0.clone(), outcome.main(), end)
}

fn distinct(paths: &[String]) -> BTreeSet<&str> {
    paths.iter().map(String::as_str).collect()
}

/// All rows, each once, and then the load ends, long before its time.
#[test]
fn each_row_is_used_once_and_then_the_load_ends() {
    let minute = Span::from_secs(60);
    let closed_loop =
        |rows| with_rows(closed(3, Think::None, minute), &["/{{users.id}}"], rows, Exhausted::Stop);
    for (rows, shares) in [(30, 1), (30, 2), (31, 3), (3, 3), (1, 1)] {
        let plan = closed_loop(rows);
        assert!(plan.shards_max() >= shares);
        let (paths, tally, end) = run(&plan, shares);
        assert_eq!((paths.len(), distinct(&paths).len()), (rows as usize, rows as usize));
        let sessions = tally.sessions.expect("sessions");
        assert_eq!((sessions.completed, tally.failed), (u64::from(rows), 0), "{rows} {shares}");
        // Each session opens a connection in 2 ms, and its request takes 9 ms.
        assert!(end < at(11 * u64::from(rows) + 20), "{rows} {shares}: {end:?}");
    }
    assert_eq!(closed_loop(2).shards_max(), 2, "no share without a row");
    let mut plan = open(100.0, Arrivals::Fixed, 0);
    plan.stop.duration = Some(minute);
    let plan = with_rows(plan, &["/{{users.id}}"], 40, Exhausted::Stop);
    let in_order = run(&plan, 1);
    assert_eq!(in_order.0, (0..40).map(|row| format!("/u{row}")).collect::<Vec<_>>());
    // The 41st session is due after 400 ms.
    assert!(in_order.2 > at(390) && in_order.2 < at(450), "{:?}", in_order.2);
    for shares in [2, 3] {
        let (mut paths, tally, _) = run(&plan, shares);
        paths.sort();
        assert_eq!((paths.len(), distinct(&paths).len(), tally.failed), (40, 40, 0), "{shares}");
    }
}

/// The shares of several processes have all rows between them, and none in common.
#[test]
fn shards_have_disjoint_rows() {
    let plan = closed(4, Think::None, Span::from_secs(60));
    let plan = with_rows(plan, &["/{{users.id}}/{{counter 500 10}}"], 21, Exhausted::Stop);
    let parts: Vec<_> = (0..3).flat_map(|i| run(&plan.shard(i, 3), 1).0).collect();
    assert_eq!((parts.len(), distinct(&parts).len()), (21, 21));
    let expected: BTreeSet<_> = (0..21).map(|row| format!("/u{row}/{}", 500 + 10 * row)).collect();
    assert_eq!(distinct(&parts), expected.iter().map(String::as_str).collect());
}

#[test]
fn exhausted_tables_reuse_rows_or_fail() {
    let ten = |exhausted| {
        let mut plan = open(100.0, Arrivals::Fixed, 0);
        plan.stop.sessions = Some(10);
        with_rows(plan, &["/a", "/{{users.id}}"], 4, exhausted)
    };
    for shares in [1, 2] {
        let (paths, tally, _) = run(&ten(Exhausted::Reuse), shares);
        assert_eq!((paths.len(), distinct(&paths).len(), tally.failed), (20, 5, 0));
        let of = |row: &str| paths.iter().filter(|path| *path == row).count();
        assert_eq!(["/u0", "/u1", "/u2", "/u3"].map(of), [3, 3, 2, 2]);
        // Only the requests that need the row fail, and they are not sent.
        let (paths, tally, _) = run(&ten(Exhausted::Fail), shares);
        assert_eq!((paths.len(), distinct(&paths).len()), (14, 5));
        assert_eq!((tally.faults[Fault::NoValue as usize], tally.failed), (6, 6));
        let sessions = tally.sessions.expect("sessions");
        assert_eq!((sessions.completed, sessions.failed), (4, 6));
        let (paths, ..) = run(&ten(Exhausted::Stop), shares);
        assert_eq!((paths.len(), distinct(&paths).len()), (8, 5));
    }
}

/// Every request of the run has its own number, retries and several kinds of sessions included.
#[test]
fn no_two_requests_share_a_number() {
    let mut plan = open(100.0, Arrivals::Fixed, 0);
    plan.stop.sessions = Some(20);
    let paths = ["/{{counter -7 3}}", "/{{counter -7 3}}?again"];
    let mut plan = with_rows(plan, &paths, 20, Exhausted::Stop);
    let kinds = &mut plan.sessions.as_mut().expect("sessions").kinds;
    let mut other = kinds[0].clone();
    other.bursts[1].repeat = 4;
    *kinds = vec![kinds[0].clone(), other].into();
    let (mut first, ..) = run(&plan, 1);
    assert_eq!(first.len(), 10 * 2 + 10 * 5);
    let numbers: BTreeSet<i64> = first
        .iter()
        .map(|path| path[1..].trim_end_matches("?again").parse().expect("a number"))
        .collect();
    assert_eq!(numbers.len(), first.len());
    assert!(numbers.iter().all(|n| (n + 7) % 3 == 0) && numbers.contains(&-7));
    first.sort();
    for shares in [2, 4] {
        let (mut seen, ..) = run(&plan, shares);
        seen.sort();
        assert_eq!(seen, first, "{shares} shares");
    }
}
