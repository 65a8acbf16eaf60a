//! Tests of the connections alone, and of how they send what a carrier has appended.

use super::*;
use crate::engine::Engine;
use crate::engine::tests::{Letters, closed, connect_of, ms, turn};
use prony_base::fault::Fault;
use prony_base::machine::{Action, Machine};
use prony_base::units::RequestId;
use prony_proto::proto::{Call, Cancelled, Carrier, Out, Sink};

/// No counter retires a connection that lives for weeks.
#[test]
fn keeps_a_connection_without_a_limit_beyond_32_bits() {
    let mut e = Engine::new(&closed(1, u64::MAX), Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.links[id.slot].carried.given += u64::from(u32::MAX) - 3;
    e.links[id.slot].carried.served = u64::from(u32::MAX) - 3;
    e.on_connected(id, ms(0));
    turn(&mut e, ms(0));
    for at in 1..10 {
        e.on_recv(id, &mut b"!".to_vec(), ms(at));
        assert_eq!(turn(&mut e, ms(at)), (vec![], "?".to_owned()), "request {at}");
    }
}

#[test]
fn reuses_a_slot_with_a_new_generation() {
    let mut links = Links::<()>::new(2);
    let first = links.insert(3, 7, ms(1));
    assert_eq!((links.of(first.slot), links.len(), links.is_open(first.slot)), ((3, 7), 1, false));
    links.remove(first.slot);
    assert!(!links.live(first) && links.output_taken(first).is_none());
    assert_eq!(links.used().count(), 0);
    let second = links.insert(0, 0, ms(2));
    let generation = first.generation + 1;
    assert_eq!(second, ConnId { slot: first.slot, generation });
    assert_eq!(links.connect_taken(second), Some(ms(2)));
    assert_eq!(links.connect_taken(first), None);
}

#[test]
fn counts_submitted_and_sent_exchanges() {
    let mut exchanges = Exchanges::new();
    let mut carried = Carried::nothing();
    let new = |n| New { intended: ms(n), call: 0, user: 0, nth: 0 };
    let ids: Vec<_> = (0..4).map(|n| exchanges.insert(new(n))).collect();
    for &id in &ids {
        carried.push(&mut exchanges, id);
    }
    assert_eq!((carried.len(), carried.waiting, carried.next(&exchanges)), (4, 4, Some(ids[0])));
    for id in &ids[..2] {
        assert_eq!(carried.submit(&mut exchanges).map(|(id, _)| id), Some(*id));
    }
    exchanges[ids[0]].goes_out(ms(9));
    carried.sent += 1;
    assert_eq!((carried.submitted(), carried.next(&exchanges)), (2, Some(ids[2])));
    // Remove a waiting one, then a submitted one, then a sent one.
    carried.take_out(&mut exchanges, ids[2]);
    assert_eq!((carried.waiting, carried.sent, carried.next(&exchanges)), (1, 1, Some(ids[3])));
    carried.take_out(&mut exchanges, ids[1]);
    carried.take_out(&mut exchanges, ids[0]);
    assert_eq!((carried.len(), carried.waiting, carried.sent), (1, 1, 0));
    let left: Vec<bool> = ids.iter().chain([&ids[1]]).map(|&id| carried.has_left(id)).collect();
    assert_eq!(left, [false, true, false, false, false], "submitted, not sent; said once");
    let mut rest = Vec::new();
    carried.take_all(&exchanges, &mut rest);
    assert_eq!((rest, carried.next(&exchanges), carried.is_empty()), (vec![ids[3]], None, true));
}

/// A carrier that sends each exchange as 25 bytes in datagrams of at most 10.
struct Datagrams {
    /// What `cancel` returns.
    cancels: Cancelled,
}

impl Carrier for Datagrams {
    type Conn = ();

    fn capacity(&self, (): &(), in_flight: u32, limit: u32) -> u32 {
        limit.saturating_sub(in_flight)
    }

    fn submit(&mut self, (): &mut (), id: RequestId, _: Call<'_>, _: bool, out: &mut Out) {
        out.begin(id);
        out.bytes().extend_from_slice(&[b'a'; 25]);
        out.segments(10);
    }

    fn receive(
        &mut self,
        (): &mut (),
        data: &[u8],
        _: Nanos,
        _: &mut impl Sink,
    ) -> Result<usize, Fault> {
        Ok(data.len())
    }

    fn end(&mut self, (): &mut (), _: &[u8], _: &mut impl Sink) -> Result<(), Fault> {
        Ok(())
    }

    fn cancel(&mut self, (): &mut (), _: RequestId) -> Cancelled {
        self.cancels
    }

    fn is_lossy(&self) -> bool {
        true
    }
}

/// The pieces that are given to a kernel that accepts this number of pieces.
fn offered(e: &mut Engine<Datagrams>, id: ConnId, now: Nanos, takes: usize) -> (Vec<usize>, bool) {
    let mut pieces = Vec::new();
    let all = e.take_output(id, now, &mut |piece| {
        pieces.push(piece.len());
        if pieces.len() > takes { 0 } else { piece.len() }
    });
    (pieces, all)
}

/// Each datagram is given to the kernel by itself, also after the socket was full; an exchange
/// counts as sent when its first datagram is.
#[test]
fn datagrams_keep_their_sizes_after_a_full_socket() {
    let (mut e, id) = opened(Cancelled::Exchange);
    assert_eq!(offered(&mut e, id, ms(1), 4), (vec![10, 10, 5, 10, 10], false));
    let sent = |e: &Engine<Datagrams>| e.links[id.slot].carried.sent;
    assert_eq!(sent(&e), 2);
    assert_eq!(offered(&mut e, id, ms(2), 1), (vec![10, 5], false));
    assert_eq!(sent(&e), 2);
    assert_eq!(offered(&mut e, id, ms(3), 9), (vec![5, 10, 10, 5], true));
    assert_eq!(sent(&e), 3);
    // The first two have timed out, the third has not: the connection stays open.
    e.on_tick(ms(0) + e.plan.timeout);
    assert!(e.links.live(id));
}

/// If a carrier cannot skip a reply, cancelling closes the connection.
#[test]
fn a_cancel_can_end_the_connection() {
    let (mut e, id) = opened(Cancelled::Connection);
    assert!(offered(&mut e, id, ms(1), 99).1);
    e.on_tick(ms(0) + e.plan.timeout);
    assert!(!e.links.live(id));
    assert_eq!(e.recorder().fault(Fault::RequestTimeout), 3);
}

/// An engine whose one connection is open and has three requests to send.
fn opened(cancels: Cancelled) -> (Engine<Datagrams>, ConnId) {
    let mut plan = closed(1, 3);
    plan.pipeline = 3;
    let mut e = Engine::new(&plan, Datagrams { cancels });
    e.on_tick(ms(0));
    let mut connect = None;
    while let Some(action) = e.poll_action() {
        if let Action::Connect { id, .. } = action {
            connect = Some(id);
        }
    }
    let id = connect.expect("a connect");
    e.on_connected(id, ms(0));
    assert_eq!(e.poll_action(), Some(Action::Transmit { id }));
    (e, id)
}
