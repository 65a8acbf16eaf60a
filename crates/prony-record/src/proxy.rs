//! The proxy: a listener, and a thread for each connection of a client, with a connection of its
//! own to the target.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_proto::layer::{Identity, TlsContext};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::log::Log;
use crate::pair::Pair;
use crate::wire::{Broken, Wire};

/// The most bytes that wait for a slow reader.
const WAITING: usize = 256 << 10;

/// How often a thread looks whether the recording ends.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long the listener waits for the close of idle connections.
const TURN: Duration = Duration::from_millis(5);

/// How long replies may take that are in flight when the recording ends.
const GRACE: Duration = Duration::from_secs(2);

/// How long a client may take to read the last reply of a connection.
const LINGER: Duration = Duration::from_secs(2);

/// How long the target may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The most connections of clients at a time. For further ones, those that are idle for longest are
/// closed; while none is idle, they wait.
const CONNECTIONS: usize = 1_024;

/// How many idle connections are closed at once.
const CLOSED: usize = 32;

/// Where requests go.
#[derive(Debug)]
pub struct Target {
    /// The value of `Host`.
    pub host: String,
    /// Its addresses, which are tried in order.
    pub addresses: Vec<SocketAddr>,
    /// Its TLS, of which it is the first endpoint.
    pub tls: Option<TlsContext>,
}

/// Passes on what clients send until `stop` says so, and the replies in flight have arrived.
///
/// # Errors
/// No connection can be accepted.
pub fn run(
    listener: &TcpListener,
    identity: Option<&Identity>,
    target: &Arc<Target>,
    log: &Arc<Log>,
    stop: &(dyn Fn() -> bool + Sync),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let places = Places::default();
    let started = Instant::now();
    let host: Arc<str> = target.host.as_str().into();
    thread::scope(|scope| {
        while !stop() {
            // A signal only ends the wait.
            let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&TICK));
            if places.taken() >= CONNECTIONS {
                if ready == Ok(1) {
                    places.close_idle();
                    thread::sleep(TURN);
                }
                continue;
            }
            let (stream, client) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if is_passing(&e) => continue,
                Err(e) => return Err(e),
            };
            let place = places.take();
            let (places, host) = (&places, Arc::clone(&host));
            scope.spawn(move || {
                let pair = Pair::new(Arc::clone(log), host, client.ip());
                let of = Of { target, log, stop, started, place: &place };
                // What goes wrong on one connection is in the log.
                let _ = of.carry(pair, stream, identity);
                places.give_back(&place);
            });
        }
        Ok(())
    })
}

/// Whether a failed accept concerns one client only, or ends by itself.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    // Too many open files: some will be closed.
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
        || matches!(error.raw_os_error(), Some(23 | 24))
}

/// The places of the connections of clients.
#[derive(Debug, Default)]
struct Places(Mutex<Vec<Arc<Place>>>);

/// That of one connection.
#[derive(Debug, Default)]
struct Place {
    /// Since when it is idle, in milliseconds after the start and one; 0: it is not.
    idle: AtomicU64,
    /// Whether it is to be closed if it is idle.
    is_unwanted: AtomicBool,
}

impl Places {
    fn taken(&self) -> usize {
        self.all().len()
    }

    fn take(&self) -> Arc<Place> {
        let place = Arc::new(Place::default());
        self.all().push(Arc::clone(&place));
        place
    }

    fn give_back(&self, place: &Arc<Place>) {
        self.all().retain(|other| !Arc::ptr_eq(other, place));
    }

    /// Has the connections closed that are idle for longest.
    fn close_idle(&self) {
        let all = self.all();
        // Those that are being closed make room, too.
        let (closing, others): (Vec<_>, Vec<_>) =
            all.iter().partition(|place| place.is_unwanted.load(Ordering::Relaxed));
        let since = |place: &&Arc<Place>| place.idle.load(Ordering::Relaxed);
        let mut idle: Vec<_> = others.into_iter().filter(|place| since(place) > 0).collect();
        idle.sort_by_key(since);
        for place in idle.iter().take(CLOSED.saturating_sub(closing.len())) {
            place.is_unwanted.store(true, Ordering::Relaxed);
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Notes whether the connection is idle. Returns whether it is to be closed.
    fn is_over(&self, is_idle: bool, now: Duration) -> bool {
        if !is_idle {
            self.idle.store(0, Ordering::Relaxed);
            self.is_unwanted.store(false, Ordering::Relaxed);
            return false;
        }
        if self.idle.load(Ordering::Relaxed) == 0 {
            let since = u64::try_from(now.as_millis()).unwrap_or(u64::MAX - 1) + 1;
            self.idle.store(since, Ordering::Relaxed);
        }
        self.is_unwanted.load(Ordering::Relaxed)
    }
}

/// What the threads share.
struct Of<'a> {
    target: &'a Target,
    log: &'a Log,
    stop: &'a (dyn Fn() -> bool + Sync),
    started: Instant,
    place: &'a Place,
}

/// Whether a pair of connections goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Continue,
    Over,
}

/// Both connections, while they are open.
struct Link {
    pair: Pair,
    client: Wire,
    target: Option<Wire>,
    /// Nothing more comes from the target: since when.
    over: Option<Instant>,
    /// The target has failed, as opposed to an orderly end.
    is_broken: bool,
    bytes: Vec<u8>,
}

impl Of<'_> {
    /// Carries bytes until both sides have ended.
    fn carry(&self, pair: Pair, stream: TcpStream, identity: Option<&Identity>) -> io::Result<()> {
        let client = match identity {
            Some(identity) => {
                let tls = identity.accept().map_err(|_| io::Error::from(ErrorKind::Other))?;
                Wire::secured(stream, tls)?
            }
            None => Wire::plain(stream)?,
        };
        let bytes = Vec::new();
        let mut link = Link { pair, client, target: None, over: None, is_broken: false, bytes };
        let mut stopped: Option<Instant> = None;
        loop {
            if (self.stop)() {
                let since = *stopped.get_or_insert_with(Instant::now);
                let is_done = !link.pair.is_waiting() && link.is_written();
                if is_done || since.elapsed() > GRACE {
                    link.pair.stop();
                    return Ok(());
                }
            }
            if self.turn(&mut link) == Turn::Over {
                return Ok(());
            }
            if self.place.is_over(link.is_quiet(), self.started.elapsed()) {
                self.log.count(|counts| counts.idle_closed += 1);
                return Ok(());
            }
        }
    }

    /// Writes what waits, then waits for more.
    fn turn(&self, link: &mut Link) -> Turn {
        self.forward(link);
        if link.write() == Turn::Over {
            return Turn::Over;
        }
        let in_flags = PollFlags::IN;
        let mut client_flags = PollFlags::empty();
        client_flags.set(in_flags, link.reads_client());
        client_flags.set(PollFlags::OUT, link.client.wants_write());
        let mut fds = vec![PollFd::from_borrowed_fd(link.client.socket(), client_flags)];
        if let Some(target) = link.target.as_ref().filter(|_| link.over.is_none()) {
            let mut flags = PollFlags::empty();
            flags.set(in_flags, link.client.waiting() < WAITING);
            flags.set(PollFlags::OUT, target.wants_write());
            fds.push(PollFd::from_borrowed_fd(target.socket(), flags));
        }
        // A signal only ends the wait.
        let _ = poll(&mut fds, Some(&TICK));
        let ready = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let is_ready =
            |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| fd.revents().intersects(ready));
        let (client, target) = (is_ready(fds.first()), is_ready(fds.get(1)));
        drop(fds);
        // Replies first: what has arrived goes to the client even if it leaves now.
        if target {
            self.read_target(link);
        }
        match client {
            true => self.read_client(link),
            false => Turn::Continue,
        }
    }

    /// Connects for the first request, and hands over what is to be passed on.
    fn forward(&self, link: &mut Link) {
        if !link.pair.to_target.is_empty() && link.target.is_none() && link.over.is_none() {
            match self.connect() {
                Ok(target) => link.target = Some(target),
                Err(why) => link.lose(&why),
            }
        }
        match &mut link.target {
            Some(target) => target.queue(&mut link.pair.to_target),
            None if link.over.is_some() => link.pair.to_target.clear(),
            None => {}
        }
        link.client.queue(&mut link.pair.to_client);
        if link.client.has_ended
            && let Some(target) = &mut link.target
        {
            target.end();
        }
        if link.pair.is_refused() && link.pair.is_idle() {
            link.over.get_or_insert_with(Instant::now);
        }
        if link.over.is_some() && !link.is_broken {
            link.client.end();
        }
    }

    fn connect(&self) -> Result<Wire, String> {
        let mut why = "the target has no address".to_owned();
        for address in &self.target.addresses {
            let wire = self.dial(*address);
            match wire.map_err(|e| e.to_string()).and_then(|stream| self.secure(stream)) {
                Ok(wire) => return Ok(wire),
                Err(e) => why = format!("the target {address} cannot be reached: {e}"),
            }
        }
        Err(why)
    }

    /// Connects, unless the recording ends meanwhile.
    fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        let (begun, mut stopped) = (Instant::now(), None);
        loop {
            // A signal only ends the wait.
            if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&TICK)) == Ok(1) {
                sockopt::socket_error(&socket)??;
                return Ok(socket.into());
            }
            if begun.elapsed() >= CONNECT {
                return Err(ErrorKind::TimedOut.into());
            }
            if (self.stop)() && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                return Err(io::Error::other("the recording has ended"));
            }
        }
    }

    fn secure(&self, stream: TcpStream) -> Result<Wire, String> {
        let wire = match &self.target.tls {
            None => Wire::plain(stream),
            Some(context) => {
                let tls = context.begin(0, Arc::clone(context.shared()));
                Wire::secured(stream, tls.map_err(|e| e.to_string())?)
            }
        };
        wire.map_err(|e| e.to_string())
    }

    fn read_target(&self, link: &mut Link) {
        let Some(target) = &mut link.target else { return };
        let was_securing = target.is_securing();
        link.bytes.clear();
        let read = target.read(&mut link.bytes);
        let now = self.started.elapsed();
        if !link.bytes.is_empty() {
            link.pair.target_sent(&link.bytes, now);
        }
        match read {
            Err(Broken::Tls(why)) if was_securing => {
                link.lose(&format!("the TLS handshake with the target failed: {why}"));
            }
            Err(_) => {
                link.pair.target_failed(now);
                // A client that gets 502 is to read it.
                link.is_broken = !link.pair.is_refused();
                link.over = Some(Instant::now());
            }
            Ok(()) if target.has_ended => {
                link.pair.target_ended(now);
                link.over = Some(Instant::now());
            }
            Ok(()) => {}
        }
    }

    fn read_client(&self, link: &mut Link) -> Turn {
        let was_securing = link.client.is_securing();
        let had_ended = link.client.has_ended;
        link.bytes.clear();
        let read = link.client.read(&mut link.bytes);
        if matches!(read, Err(Broken::Tls(_))) && was_securing {
            self.log.count(|counts| counts.bad_handshakes += 1);
        }
        if read.is_err() || had_ended {
            return link.leave();
        }
        // After the end, there is nobody who could reply.
        if link.over.is_none() {
            link.pair.client_sent(&link.bytes, self.started.elapsed());
        }
        Turn::Continue
    }
}

impl Link {
    /// Whether nothing is in flight.
    fn is_quiet(&self) -> bool {
        self.pair.is_idle() && self.is_written()
    }

    /// Whether the client has all that is for it.
    fn is_written(&self) -> bool {
        self.client.waiting() == 0 && self.pair.to_client.is_empty()
    }

    /// Whether bytes of the client are wanted.
    fn reads_client(&self) -> bool {
        let waiting = self.target.as_ref().map_or(0, Wire::waiting) + self.pair.held();
        !self.client.has_ended && (self.over.is_some() || waiting < WAITING)
    }

    /// There is no connection to the target.
    fn lose(&mut self, why: &str) {
        self.pair.unreachable(why);
        self.over = Some(Instant::now());
    }

    /// The client is gone.
    fn leave(&mut self) -> Turn {
        if let Some(target) = &self.target {
            target.reset();
        }
        self.pair.client_left();
        Turn::Over
    }

    fn write(&mut self) -> Turn {
        if self.client.write().is_err() {
            return self.leave();
        }
        if let Some(target) = &mut self.target
            && target.write().is_err()
        {
            // It may have replied before it stopped reading.
            target.mute();
        }
        if self.is_broken && self.client.waiting() == 0 {
            self.client.reset();
            return Turn::Over;
        }
        if let Some(over) = self.over
            && self.client.is_shut()
        {
            // The kernel resets a connection with unread bytes, and the reset can overtake a reply.
            let is_read = self.client.has_ended || over.elapsed() > LINGER;
            return if is_read { Turn::Over } else { Turn::Continue };
        }
        if self.client.has_ended && self.is_quiet() {
            return Turn::Over;
        }
        Turn::Continue
    }
}
