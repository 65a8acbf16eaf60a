//! Closes, resets, truncations, stops.

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine as _, StopRequest};
use prony_base::merge::Merge;

use super::{Rig, at, get, ms, replies};
use crate::serve::{CloseAfter, ServerBehavior, Share, StatusMix};

const N: usize = 20_000;

/// Run many requests, each on its own connection if the behavior closes connections.
fn shares(behavior: ServerBehavior) -> Rig {
    let mut rig = Rig::new(behavior);
    for _ in 0..N {
        let link = rig.connect();
        rig.send(link, get("/"));
        if rig.links[link].closed.is_none() {
            rig.half_close(link);
        }
        assert!(rig.links[link].closed.is_some());
        rig.links.clear();
    }
    rig
}

/// Within four standard deviations of a binomial count.
fn near(n: u64, p: f64) {
    let (mean, sd) = (N as f64 * p, (N as f64 * p * (1.0 - p)).sqrt());
    assert!((n as f64 - mean).abs() < 4.0 * sd, "{n} of {N} at {p}");
}

#[test]
fn faults_have_the_configured_shares() {
    let behavior = ServerBehavior {
        reset: Share(0.1),
        truncate: Share(0.2),
        statuses: "200:7,503:2,404:1".parse().unwrap(),
        ..ServerBehavior::default()
    };
    let rig = shares(behavior);
    let s = rig.served();
    near(s.resets, 0.1);
    near(s.truncated, 0.9 * 0.2);
    near(s.statuses[&200], 0.9 * 0.8 * 0.7);
    near(s.statuses[&503], 0.9 * 0.8 * 0.2);
    near(s.statuses[&404], 0.9 * 0.8 * 0.1);
    assert_eq!((s.requests, s.open, s.outstanding, s.unanswered), (N as u64, 0, 0, 0));
}

#[test]
fn draws_of_one_fault_do_not_change_those_of_another() {
    let statuses: StatusMix = "200:1,503:1".parse().unwrap();
    let plain = ServerBehavior { statuses: statuses.clone(), ..ServerBehavior::default() };
    let hostile = ServerBehavior { statuses, truncate: Share(0.3), ..ServerBehavior::default() };
    let said = |behavior: ServerBehavior| {
        let mut rig = Rig::new(behavior);
        (0..200)
            .map(|_| {
                let link = rig.connect();
                rig.send(link, get("/"));
                rig.text(link)[9..12].to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(said(plain), said(hostile));
}

#[test]
fn reset_follows_earlier_replies() {
    let mut rig = Rig::new(ServerBehavior { reset: Share(1.0), ..ServerBehavior::default() });
    let link = rig.connect();
    rig.send(link, get("/delay/5ms") + &get("/"));
    assert_eq!(rig.links[link].closed, None);
    rig.run_until(at(10));
    assert_eq!(rig.links[link].closed, Some((at(5), CloseHow::Reset)));
    assert_eq!(rig.text(link), "");
    // Bytes after a reset are not read.
    assert_eq!((rig.served().requests, rig.served().resets), (1, 1));
}

#[test]
fn truncation_cuts_body_or_head() {
    let behavior = ServerBehavior { truncate: Share(1.0), ..ServerBehavior::default() };
    for (request, ends) in [
        (get("/bytes/100"), "Content-Length: 100\r\n\r\n".to_owned() + &pattern(50)),
        (get("/bytes/1"), "Content-Length: 1\r\n\r\n".into()),
        (get("/bytes/40000"), pattern(20_000 % 64)),
        (get("/status/204"), "HTTP/1.1 204 No Content\r\nServer: prony\r\n\r\n"[..21].into()),
    ] {
        let mut rig = Rig::new(behavior.clone());
        let link = rig.connect();
        rig.send(link, &request);
        assert!(rig.text(link).ends_with(&ends), "{request}: {}", rig.text(link));
        assert!(!rig.text(link).contains("Connection: close"));
        assert_eq!(rig.links[link].closed, Some((at(0), CloseHow::Orderly)));
        assert_eq!((rig.served().truncated, rig.served().replies), (1, 0));
    }
    let mut rig = Rig::new(ServerBehavior { chunked: true, size: 100, ..behavior });
    let link = rig.connect();
    rig.send(link, get("/"));
    assert!(rig.text(link).ends_with(&format!("\r\n\r\n32\r\n{}\r\n", pattern(50))));
}

fn pattern(n: usize) -> String {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    letters.chars().cycle().take(n).collect()
}

#[test]
fn close_after_sends_connection_close_unless_silent() {
    for (silent, says) in [(false, true), (true, false)] {
        let close_after = Some(CloseAfter { requests: 3, silent });
        let mut rig = Rig::new(ServerBehavior { close_after, ..ServerBehavior::default() });
        let link = rig.connect();
        rig.send(link, get("/").repeat(2));
        assert_eq!(rig.links[link].closed, None);
        rig.send(link, get("/"));
        let got = replies(&rig.bytes(link));
        let said: Vec<bool> = got.iter().map(|r| r.head.contains("Connection: close")).collect();
        assert_eq!(said, [false, false, says]);
        assert_eq!(rig.links[link].closed, Some((at(0), CloseHow::Orderly)));
    }
}

#[test]
fn close_waits_for_a_client_that_still_sends() {
    let close_after = Some(CloseAfter { requests: 1, silent: false });
    let mut rig = Rig::new(ServerBehavior { close_after, ..ServerBehavior::default() });
    let (a, b) = (rig.connect(), rig.connect());
    for link in [a, b] {
        rig.send(link, get("/").repeat(3));
        assert_eq!(rig.statuses(link), [200]);
        assert_eq!(rig.links[link].closed, None);
    }
    rig.run_until(at(10));
    rig.half_close(a);
    assert_eq!(rig.links[a].closed, Some((at(10), CloseHow::Orderly)));
    rig.run_until(at(3_000));
    assert_eq!(rig.links[b].closed, Some((at(1_000), CloseHow::Orderly)));
    assert_eq!(rig.served().requests, 2);
}

#[test]
fn closes_idle_connections_after_the_timeout() {
    let mut rig =
        Rig::new(ServerBehavior { idle_close: Some(ms(100)), ..ServerBehavior::default() });
    let (idle, busy, slow) = (rig.connect(), rig.connect(), rig.connect());
    rig.run_until(at(60));
    rig.send(busy, get("/"));
    rig.send(slow, get("/delay/300ms"));
    rig.run_until(at(1_000));
    assert_eq!(rig.links[idle].closed, Some((at(100), CloseHow::Orderly)));
    assert_eq!(rig.links[busy].closed, Some((at(160), CloseHow::Orderly)));
    assert_eq!(rig.links[slow].closed, Some((at(460), CloseHow::Orderly)));
    assert_eq!(rig.statuses(slow), [200]);
    assert_eq!((rig.served().idle_closes, rig.served().open), (3, 0));
}

#[test]
fn requests_of_a_reset_connection_count_as_unanswered() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    rig.send(link, get("/delay/5ms").repeat(4));
    let id = rig.links[link].id;
    rig.serve.on_closed(id, Some(Fault::Reset), rig.now);
    rig.poll();
    assert!(rig.links[link].closed.is_some());
    assert_eq!((rig.served().unanswered, rig.served().outstanding), (4, 0));
    // The next connection in the slot gets none of their replies.
    let next = rig.connect();
    assert_eq!(rig.links[next].id.slot, id.slot);
    rig.run_until(at(10));
    assert_eq!(rig.text(next), "");
    rig.send(next, get("/"));
    assert_eq!(rig.statuses(next), [200]);
}

#[test]
fn drain_answers_outstanding_requests_and_finishes() {
    let mut rig = Rig::new(ServerBehavior::default());
    let (idle, busy, inside) = (rig.connect(), rig.connect(), rig.connect());
    rig.send(busy, get("/delay/50ms"));
    rig.send(inside, "GET / HT");
    rig.stop(StopRequest::Drain);
    assert_eq!(rig.links[idle].closed, Some((at(0), CloseHow::Orderly)));
    assert_eq!(rig.serve.on_accepted(0, rig.now), None);
    rig.send(inside, "TP/1.1\r\nHost: a\r\n\r\n");
    assert!(rig.text(inside).contains("Connection: close"));
    assert!(rig.links[inside].closed.is_some() && !rig.finished);
    rig.run_until(at(100));
    assert_eq!(rig.statuses(busy), [200]);
    assert_eq!(rig.links[busy].closed, Some((at(50), CloseHow::Orderly)));
    assert!(rig.finished);
    assert_eq!((rig.served().unanswered, rig.served().open_max), (0, 3));
}

#[test]
fn immediate_stop_closes_all_connections() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    rig.send(link, get("/delay/50ms"));
    rig.stop(StopRequest::Drain);
    assert!(!rig.finished);
    rig.stop(StopRequest::Now);
    assert!(rig.finished && rig.links[link].closed.is_some());
    assert_eq!(rig.served().unanswered, 1);
    assert_eq!(
        rig.served().to_string(),
        concat!(
            "connections              1\n",
            "  open at most           1\n",
            "requests                 1\n",
            "  in server at most      1\n",
            "unanswered               1\n",
            "bytes received           37\n",
        )
    );
}

#[test]
fn counters_add_up_and_round_trip_through_json() {
    let mut a =
        shares(ServerBehavior { reset: Share(0.5), ..ServerBehavior::default() }).served().clone();
    let b = shares(ServerBehavior { size: 1, ..ServerBehavior::default() }).served().clone();
    a.merge(&b);
    assert_eq!(a.requests, 2 * N as u64);
    assert_eq!(a.statuses[&200], a.replies);
    assert_eq!(a.replies + a.resets, a.requests);
    let json = serde_json::to_string(&a).unwrap();
    assert_eq!(serde_json::from_str::<crate::serve::Served>(&json).unwrap(), a);
}

#[test]
fn records_arrivals_on_demand() {
    let mut rig = Rig::new(ServerBehavior::default());
    let link = rig.connect();
    rig.send(link, get("/"));
    rig.serve.record_arrivals();
    rig.run_until(at(3));
    rig.send(link, get("/") + &get("/delay/2ms"));
    rig.run_until(at(4));
    rig.send(link, "GET / HTTP/1.1\r\n");
    rig.run_until(at(9));
    rig.send(link, "Host: a\r\n\r\n");
    assert_eq!(rig.serve.arrivals(), [at(3), at(3), at(9)]);
}
