//! Servers with dedicated threads for some clients.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use prony_base::fault::Fault;
use prony_base::frame::{HEADER, Header, Kind};
use prony_base::machine::{Action, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use prony_io::{Control, DriverChoice, Listen, Options, bind, serve_with_threads};
use prony_server::echo::{Echo, EchoBehavior, Echoed};

/// Run `body` against a responder with this many dedicated threads. Returns the counts of the
/// driver's machine and of the threads' machines.
fn with_responder(
    dedicated: usize,
    behavior: EchoBehavior,
    body: impl FnOnce(SocketAddr),
) -> (Echoed, Vec<Echoed>) {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let echo = || Echo::new(behavior, vec![false]);
    thread::scope(|s| {
        let server = s.spawn(|| {
            let dedicated = (0..dedicated).map(|_| echo()).collect();
            let options = Options::default();
            serve_with_threads(vec![echo()], dedicated, &[listener], &options, &control, &|_, _| {})
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(at)));
        control.stop_now();
        let (served, counts) = server.join().unwrap().unwrap();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        let counts = counts.iter().map(|echo| *echo.echoed()).collect();
        (*served[0].machine.echoed(), counts)
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

/// The dedicated threads and the driver together reply to all clients; the driver serves those for
/// which no thread is free.
#[test]
fn driver_serves_clients_beyond_the_threads() {
    let (driver, counts) = with_responder(2, EchoBehavior::default(), |at| {
        let mut clients: Vec<_> = (0..5).map(|_| connect(at)).collect();
        for sequence in 0..50 {
            for client in &mut clients {
                exchange(client, sequence);
            }
        }
    });
    let all = counts.iter().chain([&driver]);
    assert_eq!(all.clone().map(|e| e.connections).sum::<u64>(), 5);
    assert_eq!(all.clone().map(|e| e.messages).sum::<u64>(), 250);
    assert_eq!(all.map(|e| e.broken + e.refused + e.silent).sum::<u64>(), 0);
    // A thread may start after the first clients.
    assert!(driver.connections >= 3, "{driver:?}");
}

/// Consecutive clients get the same thread.
#[test]
fn threads_are_reused() {
    let (driver, counts) = with_responder(1, EchoBehavior::default(), |at| {
        for sequence in 0..200 {
            exchange(&mut connect(at), sequence);
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!((driver.messages + counts[0].messages, driver.broken), (200, 0));
    assert!(counts[0].connections > 1, "{counts:?}");
}

#[test]
fn silent_clients_delay_no_one_and_are_closed() {
    let behavior = EchoBehavior { patience: Span::from_millis(100), ..EchoBehavior::default() };
    let (driver, counts) = with_responder(1, behavior, |at| {
        let mut silent = [connect(at), connect(at)];
        let mut busy = connect(at);
        exchange(&mut busy, 1);
        for client in &mut silent {
            assert_eq!(client.read(&mut [0; 9]).unwrap(), 0, "an end of stream");
        }
        // A client that has sent a message has no idle timeout.
        exchange(&mut busy, 2);
    });
    assert_eq!(driver.silent + counts[0].silent, 2, "{driver:?} {counts:?}");
    assert_eq!(driver.messages + counts[0].messages, 2);
}

/// A client that sends everything before it reads gets all replies.
#[test]
fn thread_continues_to_read_while_replies_are_blocked() {
    const EACH: u32 = 500_000;
    let (_, counts) = with_responder(1, EchoBehavior::default(), |at| {
        thread::sleep(Duration::from_millis(20));
        let mut client = connect(at);
        for sequence in 0..40 {
            client.write_all(&request(EACH, EACH, sequence)).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), 40 * (HEADER + EACH as usize));
    });
    assert_eq!(counts[0].broken, 0, "{counts:?}");
}

/// The last reply arrives although the client continues to send, and the connection closes without
/// a reset.
#[test]
fn drains_clients_that_send_too_much() {
    with_responder(1, EchoBehavior::default(), |at| {
        for _ in 0..20 {
            let mut client = connect(at);
            // Announce one exchange, in the short framing, and send ten.
            client.write_all(&[1, 0, 0, 0, 1, 0, 0, 0]).unwrap();
            for _ in 0..10 {
                client.write_all(&[0, 0, 0, 4, 9, 9, 9, 9]).unwrap();
            }
            let mut received = Vec::new();
            client.shutdown(Shutdown::Write).unwrap();
            client.read_to_end(&mut received).unwrap();
            assert!(received.len() >= 2, "{received:?}");
        }
    });
}

#[test]
fn stop_does_not_wait_for_clients() {
    let start = Instant::now();
    let mut clients = Vec::new();
    let (driver, counts) = with_responder(3, EchoBehavior::default(), |at| {
        clients.extend((0..4).map(|_| connect(at)));
        for client in &mut clients {
            exchange(client, 7);
        }
        // One client is in the middle of a message.
        clients[0].write_all(&request(100, 30, 8)[..50]).unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(driver.messages + counts.iter().map(|e| e.messages).sum::<u64>(), 4);
    for client in &mut clients {
        // Closed, by an end of stream or a reset.
        assert!(!matches!(client.read(&mut [0; 9]), Ok(n) if n > 0));
    }
}

#[test]
fn selected_driver_serves_all_clients() {
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let echo = || Echo::new(EchoBehavior::default(), vec![false]);
    let options = Options { driver: DriverChoice::Epoll, ..Options::default() };
    let (served, counts) = thread::scope(|s| {
        let server = s.spawn(|| {
            serve_with_threads(
                vec![echo()],
                vec![echo()],
                &[listener],
                &options,
                &control,
                &|_, _| {},
            )
        });
        exchange(&mut connect(at), 1);
        control.stop_now();
        server.join().unwrap().unwrap()
    });
    assert_eq!((served[0].machine.echoed().messages, counts.len()), (1, 0));
}

/// A responder that records the times of received data and of requested output.
struct Stamped {
    echo: Echo,
    received: Vec<Nanos>,
    sent: Vec<Nanos>,
}

impl Stamped {
    fn new() -> Self {
        let echo = Echo::new(EchoBehavior::default(), vec![false]);
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

/// The clock is read after each read and before each write: stamps are not those of a batch, or of
/// a turn that began before. The client waits a known time between its exchanges.
#[test]
fn timestamps_of_dedicated_threads_are_precise() {
    const PAUSE: Duration = Duration::from_micros(300);
    let listener = bind(&Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let Listen::Tcp(at) = *listener.local() else { panic!("a TCP listener") };
    let control = Control::new();
    let options = Options::default();
    let mut taken = Vec::new();
    let (_, counts) = thread::scope(|s| {
        let server = s.spawn(|| {
            let (main, dedicated) = (vec![Stamped::new()], vec![Stamped::new()]);
            serve_with_threads(main, dedicated, &[listener], &options, &control, &|_, _| {})
        });
        // Wait until the thread has started.
        thread::sleep(Duration::from_millis(100));
        let mut client = connect(at);
        for sequence in 0..100 {
            thread::sleep(PAUSE);
            let begun = Instant::now();
            exchange(&mut client, sequence);
            taken.push(Span(begun.elapsed().as_nanos() as u64));
        }
        control.stop_now();
        server.join().unwrap().unwrap()
    });
    let (received, sent) = (&counts[0].received, &counts[0].sent);
    assert_eq!((received.len(), sent.len()), (100, 100), "the thread serves the client");
    let pause = Span(PAUSE.as_nanos() as u64);
    for (i, (received, sent)) in received.iter().zip(sent).enumerate() {
        // Both lie between the client's write and its read.
        assert!(received <= sent && sent.since(*received) <= taken[i], "{i}: {received} {sent}");
    }
    for (sent, next) in sent.iter().zip(&received[1..]) {
        // The client pauses after it has the reply. The clocks may differ by a part in 1,000.
        assert!(next.since(*sent) >= pause * 999 / 1_000, "{sent} {next}");
    }
}
