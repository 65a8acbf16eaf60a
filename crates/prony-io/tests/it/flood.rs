//! A server that sends much, on a timer, to clients that read late.

use std::collections::VecDeque;
use std::io::Read as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use prony_io::DriverChoice;

use crate::suite::{inet, loopback, with_server};

/// How many clients there are, how long they read nothing, and what each gets, in bytes.
const CLIENTS: usize = 12;
const SILENCE: Duration = Duration::from_millis(500);
const CHUNK: usize = 200 << 10;
const ALL: usize = 40 * CHUNK;
/// From tick to tick. One is always due, so it comes between any two events of the driver.
const TICK: Span = Span::from_micros(1);

/// Sends numbers: a chunk on each connection with each tick, from the time when all are there.
#[derive(Default)]
struct Flood {
    conns: Vec<Progress>,
    due: Option<Nanos>,
    actions: VecDeque<Action>,
    faults: Vec<Fault>,
}

/// How much of the numbers a connection has sent, and how much it may have sent by now.
#[derive(Clone, Copy, Default)]
struct Progress {
    sent: usize,
    goal: usize,
}

/// These bytes of the numbers, each of which has four.
fn numbers(from: usize, to: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(to - from + 4);
    for number in (from / 4) as u32..to.div_ceil(4) as u32 {
        all.extend_from_slice(&number.to_be_bytes());
    }
    all.drain(..from % 4);
    all.truncate(to - from);
    all
}

impl Machine for Flood {
    fn on_connected(&mut self, id: ConnId, _: Nanos) {
        panic!("a server opens no connections: {id:?}");
    }

    fn on_accepted(&mut self, _: u32, now: Nanos) -> Option<ConnId> {
        self.conns.push(Progress::default());
        if self.conns.len() == CLIENTS {
            self.due = Some(now);
        }
        Some(ConnId { slot: self.conns.len() as u32 - 1, generation: 0 })
    }

    fn on_recv(&mut self, id: ConnId, _: &mut [u8], _: Nanos) {
        panic!("the clients send nothing: {id:?}");
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _: Nanos) {
        self.faults.extend(why);
        self.conns[id.slot as usize] = Progress { sent: ALL, goal: ALL };
        self.actions.push_back(Action::Close { id, how: CloseHow::Reset });
    }

    fn on_tick(&mut self, now: Nanos) {
        for (slot, conn) in (0..).zip(&mut self.conns) {
            if conn.sent == conn.goal && conn.goal < ALL {
                conn.goal += CHUNK;
                self.actions.push_back(Action::Transmit { id: ConnId { slot, generation: 0 } });
            }
        }
        self.due = Some(now + TICK);
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {
        self.actions.push_back(Action::Finished);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let conn = &mut self.conns[id.slot as usize];
        let data = numbers(conn.sent, conn.goal);
        conn.sent += send(&data);
        if conn.sent == ALL && !data.is_empty() {
            self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
        }
        conn.sent == conn.goal
    }

    fn deadline(&self) -> Option<Nanos> {
        self.due
    }
}

/// Timers that send come between events: bytes of a send that the kernel took in part go before
/// theirs.
pub(crate) fn timers_keep_the_order_of_bytes(on: DriverChoice) {
    let served = with_server(on, &loopback(), Flood::default(), |at| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(inet(at)).unwrap()).collect();
        thread::sleep(SILENCE);
        for mut client in clients {
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut all = Vec::with_capacity(ALL);
            client.read_to_end(&mut all).expect("no reset");
            assert_eq!(all.len(), ALL);
            assert!(all == numbers(0, ALL), "the bytes have another order");
        }
    });
    assert_eq!(served.machine.faults, []);
}
