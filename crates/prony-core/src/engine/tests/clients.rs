//! Independent clients: their parts of the requests, their schedules and their ends.

use super::*;
use prony_plan::plan::{Clients, Pace};
use prony_tally::record::ClientTally;

const FREE: Clients =
    Clients { starts: None, pace: Pace::Free, lifetime: None, ends_on_timeout: true };

fn clients(n: u32, requests: u64, clients: Clients) -> Plan {
    Plan { clients: Some(Box::new(clients)), ..closed(n, requests) }
}

/// Runs the plan against a server that replies `latency` after each request. Returns what was sent
/// at which millisecond by which connection, and the tally.
fn run(plan: &Plan, latency: u64) -> (Vec<(u64, u32, char)>, Tally) {
    let (sent, tally, _) = run_to_its_end(plan, latency);
    (sent, tally)
}

/// The same, with the millisecond in which the run ended.
fn run_to_its_end(plan: &Plan, latency: u64) -> (Vec<(u64, u32, char)>, Tally, u64) {
    plan.check().expect("a valid plan");
    let mut e = Engine::new(plan, Letters);
    let (mut sent, mut replies) = (Vec::new(), Vec::new());
    for now in 0..10_000 {
        e.on_tick(ms(now));
        let due: Vec<ConnId> =
            replies.extract_if(.., |(at, _)| *at == now).map(|(_, id)| id).collect();
        for id in due {
            e.on_recv(id, &mut b"!".to_vec(), ms(now));
        }
        e.on_tick(ms(now));
        while let Some(action) = e.poll_action() {
            match action {
                Action::Connect { id, .. } => e.on_connected(id, ms(now)),
                Action::Transmit { id } => {
                    e.take_output(id, ms(now), &mut |bytes| {
                        for &byte in bytes {
                            sent.push((now, id.slot, char::from(byte)));
                            replies.push((now + latency, id));
                        }
                        bytes.len()
                    });
                }
                Action::Finished => return (sent, e.finish().1, now),
                _ => {}
            }
        }
    }
    panic!("it does not end: {sent:?}");
}

fn calls(mut plan: Plan, n: u32) -> Plan {
    let call = plan.calls[0].clone();
    plan.calls = vec![call; n as usize].into();
    plan
}

#[test]
fn each_client_has_its_part_and_makes_all_calls_in_turn() {
    let (sent, t) = run(&calls(clients(3, 10, FREE), 3), 1);
    assert_eq!((t.started, t.replies, t.failed), (10, 10, 0));
    for (client, expected) in [(0, "?12?"), (1, "?12"), (2, "?12")] {
        let own: String = sent.iter().filter(|s| s.1 == client).map(|s| s.2).collect();
        assert_eq!(own, expected, "client {client}");
    }
    let replies: Vec<u64> = t.clients.iter().map(|client| client.replies).collect();
    assert_eq!(replies, [4, 3, 3]);
    let first = t.clients[0];
    assert_eq!((first.began, first.ready, first.last), (Some(ms(0)), Some(ms(0)), ms(4)));
    assert_eq!(first.first_byte, Some(ms(1)));
}

#[test]
fn shares_divide_the_requests_of_clients_as_one_engine_does() {
    let whole = clients(5, 17, FREE);
    let mut replies: Vec<u64> = Vec::new();
    for share in 0..2 {
        let (_, t) = run(&whole.shard(share, 2), 1);
        replies.extend(t.clients.iter().map(|client| client.replies));
    }
    // Of one engine, the first two clients make four, which are the first ones of both shares.
    assert_eq!(replies, [4, 3, 3, 4, 3]);
}

#[test]
fn clients_start_in_groups() {
    let starts = Some((2, Span::from_millis(50)));
    let (sent, _) = run(&clients(5, 5, Clients { starts, ..FREE }), 1);
    let times: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 0, 50, 50, 100]);
    let shares = (0..2).flat_map(|share| {
        let plan = clients(5, 5, Clients { starts, ..FREE }).shard(share, 2);
        run(&plan, 1).0.into_iter().map(|s| s.0)
    });
    let mut times: Vec<u64> = shares.collect();
    times.sort_unstable();
    assert_eq!(times, [0, 0, 50, 50, 100]);
}

#[test]
fn requests_wait_for_the_rate_of_their_client() {
    let paced = Clients { pace: Pace::Rate(100.0), ..FREE };
    let (sent, t) = run(&clients(2, 8, paced), 1);
    let times: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 0, 10, 10, 20, 20, 30, 30]);
    assert_eq!(t.times.response.max(), Some(Span::from_millis(1)));
}

/// Users who have no request left do not wait for times of the schedule.
#[test]
fn more_users_than_requests_do_not_delay_the_end() {
    let paced = Clients { pace: Pace::Rate(100.0), ..FREE };
    let (sent, t, end) = run_to_its_end(&Plan { pipeline: 50, ..clients(1, 3, paced) }, 1);
    let times: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!((times, t.replies, end), (vec![0, 10, 20], 3, 21));
}

/// With 25 ms for each reply, a client with one request in flight falls behind its schedule of one
/// per 10 ms. The response times count from the schedule.
#[test]
fn late_requests_of_a_client_keep_their_intended_start() {
    let paced = Clients { pace: Pace::Rate(100.0), ..FREE };
    let (sent, t) = run(&clients(1, 4, paced.clone()), 25);
    let times: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 25, 50, 75]);
    assert_eq!(t.times.service.max(), Some(Span::from_millis(25)));
    assert_eq!(t.times.response.max(), Some(Span::from_millis(100 - 30)));
    // With two in flight it falls behind half as fast.
    let (sent, t) = run(&Plan { pipeline: 2, ..clients(1, 4, paced) }, 25);
    let times: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!(times, [0, 10, 25, 35]);
    assert_eq!(t.times.response.max(), Some(Span::from_millis(60 - 30)));
}

#[test]
fn requests_follow_the_times_of_a_script() {
    let times = [0, 5, 40].map(Span::from_millis);
    let script = Clients { pace: Pace::Times(times.into()), ..FREE };
    let (sent, t) = run(&calls(clients(2, 6, script), 3), 1);
    let expected = [(0, 0, '?'), (0, 1, '?'), (5, 0, '1'), (5, 1, '1'), (40, 0, '2'), (40, 1, '2')];
    assert_eq!(sent, expected);
    assert_eq!(t.replies, 6);
}

#[test]
fn a_client_gives_up_when_its_time_is_over() {
    let lifetime = Some(Span::from_millis(35));
    let (sent, t) = run(&clients(2, 20, Clients { lifetime, ..FREE }), 10);
    assert_eq!(sent.len(), 8);
    assert_eq!((t.started, t.replies, t.fault(Fault::RequestTimeout)), (8, 6, 2));
    let is_right = |client: &ClientTally| {
        client.gave_up == Some(true) && (client.replies, client.abandoned) == (3, 6)
    };
    assert!(t.clients.iter().all(is_right), "{:?}", t.clients);
}

#[test]
fn a_client_gives_up_after_a_timeout() {
    let plan = Plan { timeout: Span::from_millis(30), ..clients(1, 10, FREE) };
    let (sent, t) = run(&plan, 5_000);
    assert_eq!((sent.len(), t.started, t.fault(Fault::RequestTimeout)), (1, 1, 1));
    assert_eq!((t.clients[0].replies, t.clients[0].abandoned), (0, 9));
}

#[test]
fn a_client_without_a_connection_gives_up() {
    let plan = Plan { pipeline: 2, ..clients(1, 100, FREE) };
    let mut e = Engine::new(&plan, Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_closed(id, Some(Fault::ConnectRefused), ms(3));
    e.on_tick(ms(3));
    assert_eq!(turn(&mut e, ms(3)).0.last(), Some(&Action::Finished));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.failed, t.sent, t.connects), (2, 2, 0, 1));
    assert_eq!(t.clients[0].gave_up, Some(false));
    assert_eq!((t.clients[0].began, t.clients[0].abandoned), (None, 98));
}

#[test]
fn clients_stop_at_the_end_of_the_duration() {
    let mut plan = clients(2, 1, FREE);
    plan.stop = Stop { duration: Some(Span::from_millis(45)), ..Stop::default() };
    plan.warmup = Span::from_millis(20);
    let (_, t) = run(&plan, 10);
    assert_eq!((t.started, t.replies, t.unfinished), (10, 8, 2));
    // The reply at 20 ms is to a request of the warm-up.
    let replies: Vec<u64> = t.clients.iter().map(|client| client.replies).collect();
    assert_eq!(replies, [5, 5]);
}
