//! Tests of the echo protocol over datagrams that are lost, duplicated and reordered, with a manual
//! driver.

use super::{connect_of, ms};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::frame::{HEADER, Header, Kind};
use prony_base::machine::{Action, Machine};
use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{Exchange, Framing, Load, Message, Plan, Think};
use prony_plan::target::{Carrier, Endpoint};
use prony_proto::proto::echo::Echo;
use prony_tally::record::{Messages, Observer};

const NONE: [u64; 0] = [];

fn plan(connections: u32, depth: u32, requests: u64, warmup_exchanges: u32) -> Plan {
    let mut plan = super::closed(connections, requests);
    plan.endpoints = vec![Endpoint::Inet { over: Carrier::Udp, host: "h".into(), port: 1 }];
    plan.load = Load::Closed { connections, think: Think::None };
    plan.pipeline = depth;
    plan.timeout = Span::from_millis(50);
    let messages = vec![Message { request: 10, reply: 4 }];
    plan.exchange = Some(Box::new(Exchange { framing: Framing::Long, warmup_exchanges, messages }));
    plan.check().expect("a valid plan");
    plan
}

/// Polls all actions. Returns them, and the numbers of the datagrams, each sent by itself.
fn sent(e: &mut Engine<Echo>, now: Nanos) -> (Vec<Action>, Vec<u64>) {
    let (mut actions, mut numbers) = (Vec::new(), Vec::new());
    while let Some(action) = e.poll_action() {
        let Action::Transmit { id } = action else {
            actions.push(action);
            continue;
        };
        e.take_output(id, now, &mut |datagram| {
            let header = Header::read(datagram).expect("a header");
            assert_eq!((header.kind, header.length), (Kind::Request { reply: 4 }, 10));
            assert_eq!(datagram.len(), HEADER + 10);
            numbers.push(header.sequence);
            datagram.len()
        });
    }
    (actions, numbers)
}

fn reply(sequence: u64) -> Vec<u8> {
    let mut datagram = Header { kind: Kind::Reply, length: 4, sequence }.bytes().to_vec();
    datagram.extend([0; 4]);
    datagram
}

fn begun(plan: &Plan) -> (Engine<Echo>, ConnId) {
    let mut e = Engine::new(plan, Echo::new(plan));
    e.on_tick(ms(0));
    let id = connect_of(&sent(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(0));
    (e, id)
}

#[test]
fn a_lost_message_fails_alone_and_its_connection_stays_open() {
    let (mut e, id) = begun(&plan(1, 3, 6, 0));
    assert_eq!(sent(&mut e, ms(0)).1, [0, 1, 2]);
    // The first is lost, the third arrives before the second.
    e.on_recv(id, &mut reply(2), ms(3));
    assert_eq!(sent(&mut e, ms(3)).1, NONE);
    e.on_recv(id, &mut reply(1), ms(4));
    // Two of three are free: the next ones are sent.
    assert_eq!(sent(&mut e, ms(4)).1, [3, 4]);
    // A duplicate, an unexpected reply, and bytes that are not a reply.
    for datagram in [reply(1), reply(77), b"hello".to_vec(), reply(3)[..HEADER].to_vec()] {
        e.on_recv(id, &mut datagram.clone(), ms(5));
    }
    assert_eq!(sent(&mut e, ms(5)), (vec![], vec![]));
    assert_eq!(e.deadline(), Some(ms(50)));
    e.on_tick(ms(50));
    assert_eq!(sent(&mut e, ms(50)), (vec![], vec![]));
    e.on_recv(id, &mut reply(4), ms(51));
    assert_eq!(sent(&mut e, ms(51)).1, [5]);
    // The lost one arrives late.
    e.on_recv(id, &mut reply(0), ms(52));
    e.on_recv(id, &mut reply(3), ms(53));
    e.on_recv(id, &mut reply(5), ms(53));
    assert_eq!(sent(&mut e, ms(53)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.replies, t.failed), (6, 5, 1));
    assert_eq!((t.fault(Fault::RequestTimeout), t.connects), (1, 1));
    // Round trips of 3, 4, 47, 49 and 2 ms, one after another.
    let (jitter_sum, jitter_count) = (Span::from_millis(1 + 43 + 2 + 47), 4);
    let messages =
        Messages { reordered: 2, duplicates: 1, late: 1, unexpected: 3, jitter_sum, jitter_count };
    assert_eq!(t.messages.as_deref(), Some(&messages));
    // The lost one counts with at least the timeout.
    assert_eq!((t.times.response.count(), t.times.response.max()), (6, Some(ms(50).since(ms(0)))));
    assert_eq!(t.times.response.min(), Some(Span::from_millis(2)));
}

#[test]
fn resends_a_lost_warm_up_exchange_without_delaying_the_first_exchange() {
    let mut plan = plan(1, 1, 2, 2);
    plan.connect_timeout = Span::from_secs(1);
    let (mut e, id) = begun(&plan);
    assert_eq!(sent(&mut e, ms(0)).1, [0]);
    e.on_tick(ms(50));
    assert_eq!(sent(&mut e, ms(50)).1, NONE, "the exchange has not started");
    assert_eq!(e.deadline(), Some(ms(100)));
    e.on_tick(ms(100));
    assert_eq!(sent(&mut e, ms(100)).1, [1], "it was lost");
    e.on_recv(id, &mut reply(0), ms(101));
    assert_eq!(sent(&mut e, ms(101)).1, NONE, "that one is no longer awaited");
    e.on_recv(id, &mut reply(1), ms(102));
    assert_eq!(sent(&mut e, ms(102)).1, [2]);
    e.on_recv(id, &mut reply(2), ms(110));
    assert_eq!(sent(&mut e, ms(110)).1, [3]);
    e.on_recv(id, &mut reply(3), ms(115));
    assert_eq!(sent(&mut e, ms(115)).1, [4]);
    e.on_recv(id, &mut reply(4), ms(122));
    assert_eq!(sent(&mut e, ms(122)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.replies, t.times.response.sum_ns()), (2, 12_000_000));
    assert_eq!((t.start, t.end), (ms(110), ms(122)));
}

#[test]
fn gives_up_a_peer_that_never_replies() {
    let mut plan = plan(1, 1, 1, 1);
    plan.timeout = Span::from_secs(20);
    plan.connect_timeout = Span::from_secs(1);
    let (mut e, _) = begun(&plan);
    let mut tries = sent(&mut e, ms(0)).1.len();
    let mut at = ms(0);
    while let Some(next) = e.deadline() {
        assert!(next > at, "time advances");
        at = next;
        e.on_tick(at);
        tries += sent(&mut e, at).1.len();
        if at == ms(1_000) {
            break;
        }
    }
    assert_eq!((at, tries), (ms(1_000), 10));
    let (_, t) = e.finish();
    assert_eq!((t.failed, t.fault(Fault::ConnectTimeout)), (1, 1));
}

#[test]
fn calls_the_observer_for_every_success_in_order() {
    use std::sync::{Arc, Mutex};
    let (mut e, id) = begun(&plan(1, 1, 3, 0));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    e.observe(Observer(Arc::new(move |stamps| kept.lock().unwrap().push(stamps.service()))));
    for (n, at) in [(0, 1), (1, 3), (2, 6)] {
        assert_eq!(sent(&mut e, ms(at)).1, [n]);
        e.on_recv(id, &mut reply(n), ms(at + n + 1));
    }
    sent(&mut e, ms(9));
    let spans: Vec<_> = [1, 2, 3].map(Span::from_millis).to_vec();
    assert_eq!(*heard.lock().unwrap(), spans);
    let (_, t) = e.finish();
    assert!(t.kept.is_empty(), "nothing else is kept");
}
