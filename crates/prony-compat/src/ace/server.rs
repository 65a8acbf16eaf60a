//! The servers, with one thread for each client, so that clients do not delay each other.
//!
//! Unlike the old programs, they survive any client: one that sends nothing, disconnects early, or
//! violates the protocol loses only its own connection.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use prony_base::frame::{self, OPENING};
use prony_base::machine::{Action, Machine as _};
use prony_base::units::{ConnId, Nanos};
use prony_io::resolve;
use prony_io::socket::Mode;
use prony_io::socket::sctp;
use prony_run::output::lines_to_stderr;
use prony_server::echo::{Echo, EchoBehavior};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::options::{Options, Transport};
use super::{FAILED, Socket, Test, log, tuning, words};

/// How long the server waits for a client before it prints a message.
const WATCH: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// The timeout of the client's first message, the number of iterations.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause when no descriptor is free, so that the server does not retry without end.
const SHORTAGE: Duration = Duration::from_millis(100);
/// The size of a read.
const BUFFER: usize = 64 << 10;

/// Serve until the process is killed.
pub(super) fn main(test: Test, options: &Options) -> u8 {
    let server = match Server::open(test, options) {
        Ok(server) => server,
        Err(e) => {
            lines_to_stderr(&format!("open: {}", words(&e)));
            return FAILED;
        }
    };
    server.run(|| true);
    0
}

/// A listening server.
pub(super) struct Server {
    listener: OwnedFd,
    kind: Kind,
    nagle: bool,
    port: u16,
}

/// How clients are accepted from the listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    OneToOne,
    OneToMany,
}

impl Server {
    /// Listen, and print the message.
    pub(super) fn open(test: Test, options: &Options) -> io::Result<Self> {
        let kind = match (test.socket, options.transport) {
            (Socket::Stream, Transport::Tcp) => Kind::Tcp,
            (Socket::Stream, Transport::Sctp) => Kind::OneToOne,
            (Socket::Seqpack, _) => Kind::OneToMany,
        };
        let protocol = if kind == Kind::Tcp { "IPPROTO_TCP" } else { "IPPROTO_SCTP" };
        let mut own = options.own.clone();
        if test.socket == Socket::Stream {
            own.truncate(1);
            let interface = own.first().map_or_else(|| "INADDR_ANY".into(), Ipv4Addr::to_string);
            let port = options.port;
            log(&format!(
                "Accepting connections on port {port} on interface {interface} using {protocol}"
            ));
        }
        if own.is_empty() {
            own.push(Ipv4Addr::UNSPECIFIED);
        }
        let addrs: Vec<_> =
            own.iter().map(|&a| SocketAddr::new(IpAddr::V4(a), options.port)).collect();
        let (listener, port) = match kind {
            Kind::Tcp => {
                let listener = TcpListener::bind(addrs[0])?;
                listener.set_nonblocking(true)?;
                let port = listener.local_addr()?.port();
                (OwnedFd::from(listener), port)
            }
            Kind::OneToOne | Kind::OneToMany => {
                let tuning = tuning(options);
                let fd = sctp::listen(test.style(), &addrs, Mode::NonBlocking, &tuning)?;
                let port = sctp::local_addrs(fd.as_raw_fd(), 0)?.first().map_or(0, |a| a.port());
                (fd, port)
            }
        };
        match test.socket {
            Socket::Stream => log(&format!("starting server at port {port}")),
            Socket::Seqpack => {
                let all: Vec<_> = own.iter().map(Ipv4Addr::to_string).collect();
                let all = all.join(" and ");
                log(&format!(
                    "Accepting connections, using {protocol} on port {port} on interfaces {all}"
                ));
            }
        }
        Ok(Self { listener, kind, nagle: options.nagle, port })
    }

    /// Its address.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Accept clients while `goes_on` returns true, which is checked every five seconds and after
    /// each client.
    pub(super) fn run(&self, goes_on: impl Fn() -> bool) {
        while goes_on() {
            let mut watched = [PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut watched, Some(&WATCH)) {
                Ok(0) => log("select timed out"),
                Ok(_) => self.accept(),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => {
                    log(&format!("select: {}", words(&e.into())));
                    thread::sleep(SHORTAGE);
                }
            }
        }
    }

    fn accept(&self) {
        let taken = match self.kind {
            Kind::OneToMany => sctp::accept_from_many(self.listener.as_raw_fd(), Mode::Blocking),
            Kind::Tcp | Kind::OneToOne => self.listener.try_clone().and_then(|fd| {
                TcpListener::from(fd).accept().map(|(stream, _)| OwnedFd::from(stream))
            }),
        };
        let fd = match taken {
            Ok(fd) => fd,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(e) => {
                lines_to_stderr(&format!("accept: {}", words(&e)));
                thread::sleep(SHORTAGE);
                return;
            }
        };
        log("spawning server");
        let client = Client { stream: TcpStream::from(fd), kind: self.kind };
        let nagle = self.nagle;
        let spawned = thread::Builder::new().spawn(move || {
            if let Err(line) = client.serve(nagle) {
                lines_to_stderr(&line);
            }
        });
        if let Err(e) = spawned {
            log(&format!("spawn: {}", words(&e)));
        }
    }
}

/// A client. Its socket is used as a stream of bytes, with every transport.
struct Client {
    stream: TcpStream,
    kind: Kind,
}

impl Client {
    /// Reply to all messages. The error is the message to print.
    fn serve(mut self, nagle: bool) -> Result<(), String> {
        let said = |what: &'static str| move |e: io::Error| format!("{what}: {}", words(&e));
        match self.kind {
            Kind::Tcp => self.stream.set_nodelay(!nagle),
            Kind::OneToOne | Kind::OneToMany => sctp::set_nodelay(self.stream.as_raw_fd(), !nagle),
        }
        .map_err(said("set_option"))?;
        let peer = self.stream.peer_addr().map_err(said("get_remote_addr"))?;
        let name = resolve::name_of(peer.ip());
        log(&format!("client {name} connected from {}", peer.port()));

        let mut opening = [0; OPENING];
        self.stream.set_read_timeout(Some(PATIENCE)).map_err(said("hdrCDR"))?;
        self.stream.read_exact(&mut opening).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => "hdrCDR: the client ended before its header did".into(),
            ErrorKind::WouldBlock => "hdrCDR: the client said nothing for 10 s".into(),
            _ => said("hdrCDR")(e),
        })?;
        self.stream.set_read_timeout(None).map_err(said("hdrCDR"))?;
        // Any number except 0 means the same byte order.
        opening[0] = u8::from(opening[0] != 0);
        let iterations = frame::announced(opening);
        log(&format!("Test for {} iterations", iterations as u32));
        self.answer(opening, iterations)
    }

    fn answer(&mut self, mut opening: [u8; OPENING], iterations: u64) -> Result<(), String> {
        // There is no timeout after the first message.
        let now = Nanos::ZERO;
        let mut echo = Echo::new(EchoBehavior::default(), vec![self.kind != Kind::Tcp]);
        let Some(id) = echo.on_accepted(0, now) else { return Ok(()) };
        echo.on_recv(id, &mut opening, now);
        let mut buffer = vec![0; BUFFER];
        while self.act(&mut echo, id)? {
            let n = match self.stream.read(&mut buffer) {
                Ok(0) => {
                    let done = echo.echoed().messages;
                    return Err(format!(
                        "recv_n: the client is gone after {done} of {iterations} iterations"
                    ));
                }
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(format!("recv_n: {}", words(&e))),
            };
            echo.on_recv(id, &mut buffer[..n], now);
            if echo.echoed().refused > 0 {
                let most = EchoBehavior::default().length_max;
                return Err(format!("recv_n: the client announces more than {most} bytes"));
            }
        }
        Ok(())
    }

    /// Execute the responder's actions. Returns whether to continue.
    fn act(&mut self, echo: &mut Echo, id: ConnId) -> Result<bool, String> {
        let mut broken = None;
        while let Some(action) = echo.poll_action() {
            match action {
                Action::Transmit { .. } => {
                    let stream = &mut self.stream;
                    let mut send = |piece: &[u8]| match stream.write_all(piece) {
                        Ok(()) => piece.len(),
                        Err(e) => {
                            broken = Some(format!("send_n: {}", words(&e)));
                            0
                        }
                    };
                    echo.take_output(id, Nanos::ZERO, &mut send);
                }
                Action::Close { .. } | Action::Finished => return Ok(false),
                Action::Connect { .. }
                | Action::Pause { .. }
                | Action::Resume { .. }
                | Action::Yield => {}
            }
            if let Some(line) = broken {
                return Err(line);
            }
        }
        Ok(true)
    }
}
