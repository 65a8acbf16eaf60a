//! Servers some of whose clients have a thread of their own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use prony_core::echo::{Echo, EchoLaw, Echoed};
use prony_core::fault::Fault;
use prony_core::frame::{HEADER, Header, Kind};
use prony_core::machine::{Action, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};
use prony_io::{Control, DriverChoice, Listen, Options, bind, serve_at_desks};

/// Run `body` against a responder with so many attendants: what its driver's machine and what the
/// attendants' have counted.
fn attended(
    attendants: usize,
    law: EchoLaw,
    body: impl FnOnce(SocketAddr),
) -> (Echoed, Vec<Echoed>) {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let echo = || Echo::new(law, vec![false]);
    thread::scope(|s| {
        let server = s.spawn(|| {
            let attendants = (0..attendants).map(|_| echo()).collect();
            let options = Options::default();
            serve_at_desks(vec![echo()], attendants, &[listener], &options, &control, &|_, _| {})
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(at)));
        control.stop_now();
        let (served, attended) = server.join().unwrap().unwrap();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        let attended = attended.iter().map(|echo| *echo.echoed()).collect();
        (*served[0].machine.echoed(), attended)
    })
}

fn request(length: u32, reply: u32, sequence: u64) -> Vec<u8> {
    let header = Header { kind: Kind::Request { reply }, length, sequence };
    [header.bytes().as_slice(), &vec![7; length as usize]].concat()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, sequence: u64) {
    stream.write_all(&request(100, 30, sequence)).unwrap();
    let mut reply = [0; HEADER + 30];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(Header::read(&reply[..HEADER]).unwrap().sequence, sequence);
}

/// Whether a thread or the driver has the client, it is answered; and the driver has those for whom
/// there is no thread.
#[test]
fn clients_beyond_the_threads_are_answered_beside_them() {
    let (driver, attended) = attended(2, EchoLaw::default(), |at| {
        let mut clients: Vec<_> = (0..5).map(|_| connect(at)).collect();
        for sequence in 0..50 {
            for client in &mut clients {
                exchange(client, sequence);
            }
        }
    });
    let all = attended.iter().chain([&driver]);
    assert_eq!(all.clone().map(|e| e.connections).sum::<u64>(), 5);
    assert_eq!(all.clone().map(|e| e.messages).sum::<u64>(), 250);
    assert_eq!(all.map(|e| e.broken + e.refused + e.silent).sum::<u64>(), 0);
    // A thread may come to its desk after the first clients.
    assert!(driver.connections >= 3, "{driver:?}");
}

/// One after the other gets the same thread.
#[test]
fn threads_come_free_again() {
    let (driver, attended) = attended(1, EchoLaw::default(), |at| {
        for sequence in 0..200 {
            exchange(&mut connect(at), sequence);
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!((driver.messages + attended[0].messages, driver.broken), (200, 0));
    assert!(attended[0].connections > 1, "{attended:?}");
}

#[test]
fn silent_clients_hold_up_nobody_and_are_sent_away() {
    let law = EchoLaw { patience: Span::from_millis(100), ..EchoLaw::default() };
    let (driver, attended) = attended(1, law, |at| {
        let mut silent = [connect(at), connect(at)];
        let mut busy = connect(at);
        exchange(&mut busy, 1);
        for client in &mut silent {
            assert_eq!(client.read(&mut [0; 9]).unwrap(), 0, "an orderly end");
        }
        // Nobody's patience with whoever has begun ends.
        exchange(&mut busy, 2);
    });
    assert_eq!(driver.silent + attended[0].silent, 2, "{driver:?} {attended:?}");
    assert_eq!(driver.messages + attended[0].messages, 2);
}

/// A client that sends all before it reads anything gets it all.
#[test]
fn replies_that_nobody_reads_do_not_keep_a_thread_from_reading() {
    const EACH: u32 = 500_000;
    let (_, attended) = attended(1, EchoLaw::default(), |at| {
        thread::sleep(Duration::from_millis(20));
        let mut client = connect(at);
        for sequence in 0..40 {
            client.write_all(&request(EACH, EACH, sequence)).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        assert_eq!(heard.len(), 40 * (HEADER + EACH as usize));
    });
    assert_eq!(attended[0].broken, 0, "{attended:?}");
}

/// The last reply arrives although the client goes on sending, and is closed in good order.
#[test]
fn whoever_says_too_much_is_heard_out() {
    attended(1, EchoLaw::default(), |at| {
        for _ in 0..20 {
            let mut client = connect(at);
            // One exchange is announced, in the short framing, and ten are made.
            client.write_all(&[1, 0, 0, 0, 1, 0, 0, 0]).unwrap();
            for _ in 0..10 {
                client.write_all(&[0, 0, 0, 4, 9, 9, 9, 9]).unwrap();
            }
            let mut heard = Vec::new();
            client.shutdown(Shutdown::Write).unwrap();
            client.read_to_end(&mut heard).unwrap();
            assert!(heard.len() >= 2, "{heard:?}");
        }
    });
}

#[test]
fn the_end_waits_for_nobody() {
    let begin = Instant::now();
    let mut clients = Vec::new();
    let (driver, attended) = attended(3, EchoLaw::default(), |at| {
        clients.extend((0..4).map(|_| connect(at)));
        for client in &mut clients {
            exchange(client, 7);
        }
        // One is in the middle of a message.
        clients[0].write_all(&request(100, 30, 8)[..50]).unwrap();
    });
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(driver.messages + attended.iter().map(|e| e.messages).sum::<u64>(), 4);
    for client in &mut clients {
        // Gone, in good order or not.
        assert!(!matches!(client.read(&mut [0; 9]), Ok(n) if n > 0));
    }
}

#[test]
fn a_driver_that_is_asked_for_does_it_all() {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let echo = || Echo::new(EchoLaw::default(), vec![false]);
    let options = Options { driver: DriverChoice::Epoll, ..Options::default() };
    let (served, attended) = thread::scope(|s| {
        let server = s.spawn(|| {
            serve_at_desks(vec![echo()], vec![echo()], &[listener], &options, &control, &|_, _| {})
        });
        exchange(&mut connect(at), 1);
        control.stop_now();
        server.join().unwrap().unwrap()
    });
    assert_eq!((served[0].machine.echoed().messages, attended.len()), (1, 0));
}

/// A responder that keeps the times at which it was given bytes, and was asked for some.
struct Stamped {
    echo: Echo,
    received: Vec<Nanos>,
    sent: Vec<Nanos>,
}

impl Stamped {
    fn new() -> Self {
        let echo = Echo::new(EchoLaw::default(), vec![false]);
        Self { echo, received: Vec::new(), sent: Vec::new() }
    }
}

impl Machine for Stamped {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.echo.on_connected(id, now);
    }

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        self.echo.on_accepted(listener, now)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.received.push(now);
        self.echo.on_recv(id, data, now);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.echo.on_closed(id, why, now);
    }

    fn on_tick(&mut self, now: Nanos) {
        self.echo.on_tick(now);
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.echo.on_stop(how, now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.echo.poll_action()
    }

    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        self.sent.push(now);
        self.echo.take_output(id, now, send)
    }

    fn deadline(&self) -> Option<Nanos> {
        self.echo.deadline()
    }
}

/// The time of a read is read after it, so that two exchanges cannot have the same, however short
/// they are.
#[test]
fn stamps_of_dedicated_threads_are_precise() {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let options = Options::default();
    let (_, attended) = thread::scope(|s| {
        let server = s.spawn(|| {
            let (main, attendants) = (vec![Stamped::new()], vec![Stamped::new()]);
            serve_at_desks(main, attendants, &[listener], &options, &control, &|_, _| {})
        });
        // The thread comes to its desk.
        thread::sleep(Duration::from_millis(100));
        let mut client = connect(at);
        for sequence in 0..100 {
            thread::sleep(Duration::from_micros(100));
            exchange(&mut client, sequence);
        }
        control.stop_now();
        server.join().unwrap().unwrap()
    });
    let (received, sent) = (&attended[0].received, &attended[0].sent);
    assert!(received.len() >= 100, "the thread has the client: {}", received.len());
    // No exchange begins sooner than 100 us after the one before.
    let between = |times: &[Nanos]| times.windows(2).map(|w| w[1].since(w[0])).min().unwrap();
    assert!(between(received) >= Span::from_micros(1), "{:?}", between(received));
    assert!(between(sent) >= Span::from_micros(1), "{:?}", between(sent));
}
