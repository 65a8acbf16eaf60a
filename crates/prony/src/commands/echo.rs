//! `prony echo`: the responder for round-trip measurements.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::thread;

use prony_base::merge::Merge;
use prony_base::units::Nanos;
use prony_io::datagrams::{Answered, Datagrams};
use prony_io::socket::sctp::Style;
use prony_io::{Control, Listen, Listener, Options, serve_associations, userspace};
use prony_proto::layer::Identity;
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::interrupt::stoppable;
use prony_run::output;
use prony_server::echo::{self, Echo, EchoBehavior, Echoed};
use prony_server::tls_server::{Handshakes, TlsServer};
use serde::Serialize;

use crate::cli::rtt::EchoArgs;
use crate::cli::sctp::SctpArgs;
use crate::cli::tls;
use crate::cli::transport::{Place, Transport};
use crate::exec_options::driver;

/// The number of stream clients (without TLS) that get a dedicated thread each.
const DEDICATED_THREADS: usize = 4;

/// The summary of the responder.
#[derive(Serialize)]
struct Done {
    #[serde(flatten)]
    streams: Echoed,
    #[serde(skip_serializing_if = "Option::is_none")]
    handshakes: Option<Handshakes>,
    datagrams: u64,
    datagrams_refused: u64,
}

/// The sockets of the responder.
#[derive(Default)]
struct Bound {
    listeners: Vec<Listener>,
    /// Whether each listener uses TLS.
    secured: Vec<bool>,
    datagrams: Option<Datagrams>,
    /// The socket of the userspace SCTP.
    userspace: Option<userspace::Listener>,
}

/// Responds until the duration is over or a signal stops it, then prints a summary.
pub(super) fn echo(args: &EchoArgs) -> Result<Exit, Error> {
    let place = Place::parse("echo", &args.address)?;
    let transports = match (args.transport.as_slice(), &place) {
        ([], Place::Inet(..)) => vec![Transport::Tcp, Transport::Udp],
        ([], Place::Unix(_)) => vec![Transport::Unix],
        (given, _) => given.to_vec(),
    };
    check(&place, &transports, args)?;
    let bound = bind(&place, &transports, &args.sctp)?;
    let identity = match &place {
        Place::Inet(host, _) if bound.secured.contains(&true) => {
            Some(tls::identity(&args.identity, host)?)
        }
        _ => None,
    };
    let control = stoppable()?;
    if !args.quiet {
        announce(&bound);
    }
    let done = respond(args, bound, identity, &control)?;
    let text = if args.json {
        serde_json::to_string(&done).map_or_else(|e| e.to_string(), |json| json + "\n")
    } else {
        let Done { streams, handshakes, datagrams, datagrams_refused } = &done;
        let handshakes = handshakes.map(|h| h.to_string()).unwrap_or_default();
        format!(
            "{streams}{handshakes}datagrams         {datagrams} answered, {datagrams_refused} \
             refused\n"
        )
    };
    output::to_stdout(text.as_bytes())?;
    Ok(Exit::Done)
}

/// Checks that the transports and options fit together.
fn check(place: &Place, transports: &[Transport], args: &EchoArgs) -> Result<(), Error> {
    transports.iter().try_for_each(|t| t.endpoint(place).map(drop))?;
    args.sctp.check(transports, args.driver)?;
    let over_tcp = |t: &&Transport| matches!(t, Transport::Tcp | Transport::Mptcp | Transport::Tls);
    if transports.iter().filter(over_tcp).count() > 1 {
        let named: Vec<_> = transports.iter().map(|t| t.name()).collect();
        return Err(Error::Value {
            what: "--transport",
            value: named.join(","),
            why: "tcp, mptcp and tls cannot share a port; start one responder for each".into(),
        });
    }
    if args.identity.cert.is_some() && !transports.contains(&Transport::Tls) {
        let why = "no transport uses TLS";
        return Err(Error::Needs("--cert", "--transport tls", why));
    }
    Ok(())
}

/// Binds one socket per transport, all on the port of the first.
fn bind(place: &Place, transports: &[Transport], sctp: &SctpArgs) -> Result<Bound, Error> {
    let mut all = Bound::default();
    let mut at = match place {
        // SCTP accepts several addresses, separated by commas.
        Place::Inet(hosts, port) => Some(address(hosts.split(',').next().unwrap_or(""), *port)?),
        Place::Unix(_) => None,
    };
    for &transport in transports {
        let listen = match (transport, place, at) {
            (Transport::Udp, _, Some(at)) => {
                all.datagrams = Some(Datagrams::bind(at)?);
                continue;
            }
            (Transport::Tcp | Transport::Tls, _, Some(at)) => Listen::Tcp(at),
            (Transport::Mptcp, _, Some(at)) => Listen::Mptcp(at),
            (Transport::Sctp | Transport::SctpSeqpacket, Place::Inet(hosts, _), Some(to))
                if let Some(settings) = sctp.settings() =>
            {
                if hosts.contains(',') {
                    return Err(one_path(hosts));
                }
                // The userspace SCTP serves both kinds of sockets.
                if all.userspace.is_none() {
                    let listener = userspace::bind(to, settings)?;
                    at = Some(listener.local());
                    all.userspace = Some(listener);
                }
                continue;
            }
            (Transport::Sctp | Transport::SctpSeqpacket, Place::Inet(hosts, _), Some(at)) => {
                let style = match transport {
                    Transport::Sctp => Style::OneToOne,
                    _ => Style::OneToMany,
                };
                let addrs = hosts.split(',').map(|host| address(host, at.port()));
                Listen::Sctp { style, addrs: addrs.collect::<Result<_, _>>()?, rto: sctp.rto.rto() }
            }
            (Transport::Unix, Place::Unix(path), _) => Listen::Unix(path.clone()),
            (Transport::UnixSeqpacket, Place::Unix(path), _) => Listen::UnixSeqpacket(path.clone()),
            (other, ..) => {
                other.endpoint(place)?;
                continue;
            }
        };
        let listener = prony_io::bind(&listen)?;
        let bound = match listener.local() {
            Listen::Tcp(bound) | Listen::Mptcp(bound) => Some(*bound),
            Listen::Sctp { addrs, .. } => addrs.first().copied(),
            Listen::Unix(_) | Listen::UnixSeqpacket(_) => None,
        };
        at = bound.or(at);
        all.listeners.push(listener);
        all.secured.push(transport == Transport::Tls);
    }
    Ok(all)
}

fn one_path(hosts: &str) -> Error {
    let why = "has several addresses; the userspace SCTP supports only one".into();
    Error::Value { what: "echo", value: hosts.to_owned(), why }
}

fn address(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let wrong = || Error::Value {
        what: "echo",
        value: host.to_owned(),
        why: "is not an address; write ADDR:PORT, such as 127.0.0.1:45453".into(),
    };
    (host, port).to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

fn announce(bound: &Bound) {
    let streams = bound.listeners.iter().zip(&bound.secured);
    let addresses = streams.map(|(l, &secured)| match l.local() {
        Listen::Tcp(a) if secured => format!("tls {a}"),
        Listen::Tcp(a) => format!("tcp {a}"),
        Listen::Mptcp(a) => format!("mptcp {a}"),
        Listen::Sctp { style: Style::OneToOne, .. } => format!("sctp {}", l.local()),
        Listen::Sctp { style: Style::OneToMany, .. } => format!("sctp-seqpacket {}", l.local()),
        Listen::Unix(p) => format!("unix:{}", p.display()),
        Listen::UnixSeqpacket(p) => format!("unix-seqpacket unix:{}", p.display()),
    });
    let addresses = addresses.chain(bound.datagrams.as_ref().map(|d| format!("udp {}", d.local())));
    let userspace = bound.userspace.as_ref().map(|l| match l.udp_port() {
        Some(port) => format!("sctp (over UDP port {port}) {}", l.local()),
        None => format!("sctp (over IP) {}", l.local()),
    });
    let addresses: Vec<_> = addresses.chain(userspace).collect();
    output::to_stderr(&format!("listening on {}", addresses.join(", ")));
}

fn respond(
    args: &EchoArgs,
    bound: Bound,
    identity: Option<Identity>,
    control: &Control,
) -> Result<Done, Error> {
    let Bound { listeners, secured, datagrams, userspace } = bound;
    let end = args.duration.map(|d| Nanos::ZERO + d);
    let show = |_: &TlsServer<Echo>, now: Nanos| {
        if end.is_some_and(|end| now >= end) {
            control.stop();
        }
    };
    let bounded =
        |l: &Listener| matches!(l.local(), Listen::UnixSeqpacket(_) | Listen::Sctp { .. });
    let bounded = listeners.iter().map(bounded).collect();
    let machine = Echo::new(EchoBehavior::default(), bounded);
    let (machine, dedicated) = match identity {
        Some(identity) => (TlsServer::new(machine, identity, secured), 0),
        None => (TlsServer::none(machine), DEDICATED_THREADS),
    };
    let dedicated =
        (0..dedicated).map(|_| Echo::new(EchoBehavior::default(), Vec::new())).collect();
    let options = Options { driver: driver(args.driver), ..Options::default() };
    let (streams, dedicated_done, answered) = thread::scope(|scope| -> Result<_, Error> {
        let userspace = userspace.map(|listener| {
            let machine = TlsServer::none(Echo::new(EchoBehavior::default(), vec![true]));
            scope.spawn(move || serve_associations(machine, listener, control, &|_, _| {}))
        });
        let responder = datagrams.as_ref().map(|socket| {
            let longer = socket.local().ip().is_loopback();
            scope.spawn(move || socket.respond(&mut |data, out| echo::answer(data, longer, out)))
        });
        // Necessary without streams as well: this thread ends the run after the duration.
        let served = prony_io::serve_with_threads(
            vec![machine],
            dedicated,
            &listeners,
            &options,
            control,
            &show,
        );
        if served.is_err() {
            control.stop();
        }
        if let Some(datagrams) = &datagrams {
            datagrams.end();
        }
        let answered = responder.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let userspace = userspace.and_then(|thread| thread.join().ok()).transpose()?;
        let (served, dedicated_done) = served?;
        let served: Vec<_> = served.into_iter().map(|s| s.machine).chain(userspace).collect();
        Ok((served, dedicated_done, answered))
    })?;
    let mut done = Echoed::default();
    for one in streams.iter().map(TlsServer::inner).chain(&dedicated_done) {
        done.merge(one.echoed());
    }
    let handshakes = streams.first().and_then(TlsServer::handshakes);
    let Answered { answered, refused, .. } = answered;
    Ok(Done { streams: done, handshakes, datagrams: answered, datagrams_refused: refused })
}
