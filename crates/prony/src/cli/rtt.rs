//! The options of `prony echo` and `prony rtt`, and the plan of a round-trip measurement.

use std::slice;

use clap::{Args, ValueEnum};
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Exchange, Framing, Message, Stop};
use prony_plan::schedule::{ArrivalsArg, RatePlan};
use prony_plan::target::Endpoint;
use prony_run::builder::{Draft, LoadDraft, Planned, Targets, is_rate};
use prony_run::environment::Environment;
use prony_run::error::Error;

use super::exec_options::{ExecArgs, UntilArgs};
use super::output::OutputArgs;
use super::plan::{check_sources, exec_notes};
use super::sctp::SctpArgs;
use super::tls::{self, IdentityArgs, TlsArgs};
use super::transport::{Place, SOCKETS, Transport};
use super::values;
use super::{Driver, LOAD, MEASUREMENT};

const MESSAGES: &str = "Messages";

/// The warm-up of an open loop, in which its connections open.
const LEAD: Span = Span::from_millis(100);

/// The options of the responder.
#[derive(Clone, Debug, Args)]
pub struct EchoArgs {
    /// Address to listen on: ADDR:PORT, ADDR, PORT (on 127.0.0.1; 0 = any free port), or unix:PATH
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:45453")]
    pub address: String,
    /// Transports to listen on, separated by commas [default: tcp,udp; unix for unix:PATH]
    ///
    /// All of them use the same port number.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub transport: Vec<Transport>,
    /// The server's certificate.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// The SCTP implementation and its settings.
    #[command(flatten)]
    pub sctp: SctpArgs,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(short, long, value_name = "T", value_parser = values::positive_span)]
    pub duration: Option<Span>,
    /// Kernel interface
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub driver: Driver,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only the summary
    #[arg(long)]
    pub quiet: bool,
}

/// The options of `prony rtt`.
#[derive(Clone, Debug, Args)]
pub struct RttArgs {
    /// Address of the responder: HOST:PORT, HOST, PORT (on 127.0.0.1), or unix:PATH
    ///
    /// TRANSPORT://HOST:PORT, such as sctp://10.0.0.2:45453, also names the transport.
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Transport [default: tcp; unix for unix:PATH]
    #[arg(long, value_name = "NAME", help_heading = MESSAGES)]
    pub transport: Option<Transport>,
    /// Messages and sockets.
    #[command(flatten)]
    pub messages: MessageArgs,

    /// Message length in bytes: 64, 64,1k, 1..64k (doubling) [default: 128]
    ///
    /// Several lengths are sent in turn and reported separately.
    #[arg(short, long, value_name = "N", help_heading = MESSAGES, value_parser = sizes)]
    pub size: Option<Sizes>,
    /// Number of connections
    #[arg(
        short, long, value_name = "N", help_heading = LOAD, default_value = "1",
        value_parser = values::connections,
    )]
    pub connections: u32,
    /// Messages in flight per connection
    #[arg(
        short, long, value_name = "D", help_heading = LOAD, default_value = "1",
        value_parser = values::pipeline,
    )]
    pub pipeline: u32,
    /// Stop after N round trips (10k, 2m)
    #[arg(short = 'n', long, value_name = "N", help_heading = LOAD, value_parser = values::positive)]
    pub exchanges: Option<u64>,
    /// Stop after this time (1m30s) [default: 10s if no other option ends the run]
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", help_heading = LOAD,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// Messages per second, independent of replies (open loop): 20k, 1k..20k@60s
    ///
    /// The first 100 ms are a warm-up and reported separately.
    #[arg(
        short, long, visible_short_alias = 'R', value_name = "PLAN", help_heading = LOAD,
        value_parser = values::rate_plan,
    )]
    pub rate: Option<RatePlan>,
    /// Arrival process: fixed, poisson or gamma:SHAPE [default: fixed]
    #[arg(long, value_name = "DIST", help_heading = LOAD, requires = "rate", value_parser = values::arrivals)]
    pub arrivals: Option<ArrivalsArg>,

    /// The options of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Options of execution.
    #[command(flatten)]
    pub exec: ExecArgs,
    /// Stopping early.
    #[command(flatten)]
    pub until: UntilArgs,
    /// Output options.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Message and socket options of `prony rtt` and `prony spectrum`.
#[derive(Clone, Debug, Default, Args)]
pub struct MessageArgs {
    /// Reply length in bytes
    ///
    /// With 2, on a transport that preserves order, prony uses the protocol of the ACE tests.
    #[arg(
        long, value_name = "N", help_heading = MESSAGES, default_value = "2",
        value_parser = length,
    )]
    pub reply_size: u32,
    /// Number of warm-up exchanges on each connection, which are not measured
    #[arg(
        long, value_name = "N", help_heading = MEASUREMENT, default_value = "100",
        value_parser = values::number,
    )]
    pub warmup: u32,
    /// Maximum time to wait for a reply [default: 5s; 1s over UDP]
    #[arg(long, value_name = "T", help_heading = MESSAGES, value_parser = values::positive_span)]
    pub timeout: Option<Span>,
    /// Maximum time to establish a connection
    #[arg(
        long, value_name = "T", help_heading = MESSAGES, default_value = "5s",
        value_parser = values::positive_span,
    )]
    pub connect_timeout: Span,
    /// Enable Nagle's algorithm (no TCP_NODELAY)
    #[arg(long, help_heading = SOCKETS)]
    pub nagle: bool,
    /// Socket send buffer in bytes (SO_SNDBUF) [default: kernel default]
    #[arg(long, value_name = "N", help_heading = SOCKETS, value_parser = length)]
    pub send_buffer: Option<u32>,
    /// Socket receive buffer in bytes (SO_RCVBUF) [default: kernel default]
    #[arg(long, value_name = "N", help_heading = SOCKETS, value_parser = length)]
    pub recv_buffer: Option<u32>,
    /// Type-of-service byte of packets, 0 to 255 (DSCP * 4) [default: 0]
    #[arg(long, value_name = "N", help_heading = SOCKETS, value_parser = values::tos)]
    pub tos: Option<u8>,
    /// DSCP of packets: 0 to 63, or a name such as ef, af41 or cs5 [default: 0]
    #[arg(
        long, value_name = "N", help_heading = SOCKETS, conflicts_with = "tos",
        value_parser = values::dscp,
    )]
    pub dscp: Option<u8>,
    /// Time to poll the network device before sleeping (SO_BUSY_POLL) [default: 0s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::span)]
    pub busy_poll: Option<Span>,
    /// The SCTP implementation and its settings.
    #[command(flatten)]
    pub sctp: SctpArgs,
    /// Run threads with real-time priority, if permitted
    #[arg(long, help_heading = MEASUREMENT)]
    pub realtime: bool,
}

impl MessageArgs {
    /// Checks that the socket options fit the transports.
    ///
    /// # Errors
    /// An option has no effect on any of the transports.
    pub fn check(&self, transports: &[Transport], driver: Driver) -> Result<(), Error> {
        self.sctp.check(transports, driver)?;
        self.sctp.check_client(self.nagle)?;
        let any = |fits: fn(Transport) -> bool| transports.iter().any(|&t| fits(t));
        if self.nagle && !any(|t| t != Transport::Udp && !t.is_local()) {
            let why = "other transports have no Nagle's algorithm";
            return Err(Error::Needs("--nagle", "--transport tcp, tls, mptcp or sctp", why));
        }
        let marked = if self.dscp.is_some() { "--dscp" } else { "--tos" };
        if self.tos().is_some() && !any(|t| !t.is_local()) {
            return Err(Error::Needs(marked, "another transport", "a unix socket has no packets"));
        }
        Ok(())
    }

    /// The type-of-service byte, from `--tos` or `--dscp`.
    pub fn tos(&self) -> Option<u8> {
        self.tos.or_else(|| self.dscp.map(|dscp| dscp << 2))
    }
}

/// Message lengths, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u32>);

/// The plan of the options.
pub fn plan(args: &RttArgs, around: &Environment) -> Result<Planned, Error> {
    check_sources(&args.exec)?;
    let (named, target) = named(&args.target);
    if let Some(transport) = named.filter(|_| target.is_empty()) {
        let why = format!("has no host; write {transport}://HOST or {transport}://HOST:PORT");
        return Err(Error::Value { what: "rtt", value: args.target.clone(), why });
    }
    let place = Place::parse("rtt", target)?;
    let local = matches!(place, Place::Unix(_));
    let usual = if local { Transport::Unix } else { Transport::Tcp };
    let transport = args.transport.or(named).unwrap_or(usual);
    if named.is_some_and(|named| named != transport) {
        let why = format!("is not the transport of {}", args.target);
        return Err(Error::Value { what: "--transport", value: transport.name().into(), why });
    }
    args.messages.check(&[transport], args.exec.driver)?;
    let endpoint = transport.endpoint(&place)?;
    let secured = tls::check(&args.tls, slice::from_ref(&endpoint), "--transport tls")?;
    let arrivals = match &args.arrivals {
        None => None,
        Some(ArrivalsArg::Process(process)) if !is_rate(process) => Some(process.clone()),
        Some(_) => {
            let why = "--rate already sets the rate; use fixed, poisson or gamma";
            return Err(Error::Conflict("--rate", "--arrivals uniform or trace", why));
        }
    };
    let sizes = args.size.clone().unwrap_or_else(|| Sizes(vec![128]));
    let mut draft = exchange(endpoint, &sizes.0, &args.messages);
    draft.server_name.clone_from(&args.tls.sni);
    draft.tls = tls::spec(&args.tls)?.filter(|_| secured);
    draft.load = LoadDraft {
        connections: Some(args.connections),
        rate: args.rate.clone(),
        arrivals,
        ..LoadDraft::default()
    };
    draft.stop = Stop { requests: args.exchanges, sessions: None, duration: args.duration };
    draft.duration = args.until.time();
    draft.warmup = args.rate.is_some().then_some(LEAD);
    draft.pipeline = Some(args.pipeline);
    draft.seed = args.exec.seed.or(args.exec.simulate);
    let mut planned = draft.plan(around);
    planned.plan.check().map_err(Error::Plan)?;
    planned.notes = exec_notes(&args.exec);
    planned.notes.extend(args.messages.sctp.note());
    if args.messages.realtime {
        planned.notes.push("Threads ran with real-time priority.".into());
    }
    Ok(planned)
}

/// The transport that a target such as `sctp://HOST:PORT` names, and the rest of it.
fn named(target: &str) -> (Option<Transport>, &str) {
    let parts = target.split_once("://").and_then(|(name, rest)| {
        let named = <Transport as ValueEnum>::from_str(name, true).ok();
        Some((named.filter(|named| !named.is_local())?, rest.strip_suffix('/').unwrap_or(rest)))
    });
    parts.map_or((None, target), |(named, rest)| (Some(named), rest))
}

/// The draft of one connection that exchanges messages of these lengths, without a stop condition.
pub(crate) fn exchange(endpoint: Endpoint, sizes: &[u32], args: &MessageArgs) -> Draft {
    let lossy = endpoint.transport().is_lossy();
    let short = args.reply_size == 2 && !lossy;
    let messages = sizes.iter().map(|&request| Message { request, reply: args.reply_size });
    let several = sizes.len() > 1;
    let call = |i: usize| CallSpec { name: several.then_some(i as u32), ..CallSpec::default() };
    let timeout = if lossy { Span::from_secs(1) } else { Span::from_secs(5) };
    let names = sizes.iter().filter(|_| several).map(|n| format!("{n} bytes"));
    Draft {
        targets: Targets {
            endpoints: vec![endpoint],
            calls: (0..sizes.len()).map(call).collect(),
            names: names.collect(),
            ..Targets::default()
        },
        load: LoadDraft { connections: Some(1), ..LoadDraft::default() },
        exchange: Some(Box::new(Exchange {
            framing: if short { Framing::Short } else { Framing::Long },
            warmup_exchanges: args.warmup,
            messages: messages.collect(),
        })),
        timeout: Some(args.timeout.unwrap_or(timeout)),
        connect_timeout: Some(args.connect_timeout),
        ..Draft::default()
    }
}

/// Parses a length: `64`, `4k` (k = 1,024 bytes).
fn length(text: &str) -> Result<u32, String> {
    let n = values::size(text)?;
    u32::try_from(n)
        .ok()
        .filter(|&n| n <= Exchange::LENGTH_MAX)
        .ok_or_else(|| format!("must be at most {} bytes", Exchange::LENGTH_MAX))
}

/// Parses `64`, `64,1k` or `1..64k` (doubling).
pub(crate) fn sizes(text: &str) -> Result<Sizes, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            all.push(length(part)?);
            continue;
        };
        let (from, to) = (length(from)?, length(to)?);
        if from == 0 || from > to {
            return Err("a range starts at 1 or more and ends higher, such as 1..64k".into());
        }
        let doubling = std::iter::successors(Some(from), |n| n.checked_mul(2));
        all.extend(doubling.take_while(|&n| n <= to));
    }
    if all.len() > 1_000 {
        return Err("a run can have at most 1,000 lengths".into());
    }
    Ok(Sizes(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::transport::PORT;

    #[test]
    fn parses_lists_and_ranges_of_sizes() {
        assert_eq!(sizes("64"), Ok(Sizes(vec![64])));
        assert_eq!(sizes("1..9,2k,0"), Ok(Sizes(vec![1, 2, 4, 8, 2_048, 0])));
        assert_eq!(sizes("1..64k").map(|s| (s.0.len(), s.0[16])), Ok((17, 65_536)));
        for bad in ["", "x", "9..1", "0..4", "1..", "17m", "1,,2", "-1"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn puts_the_dscp_into_the_upper_six_bits_of_tos() {
        let all = ["0", "63", "ef", "AF11", "af43", "cs5", "va", "le"].map(values::dscp);
        assert_eq!(all, [0, 63, 46, 10, 38, 40, 44, 1].map(Ok));
        for bad in ["64", "-1", "", "af14", "af51", "cs8", "efx"] {
            assert!(values::dscp(bad).is_err(), "{bad}");
        }
        let args = MessageArgs { dscp: Some(46), ..MessageArgs::default() };
        assert_eq!(args.tos(), Some(184));
    }

    #[test]
    fn parses_addresses_of_responders() {
        let inet = |h: &str, p| Some(Place::Inet(h.into(), p));
        for (text, place) in [
            ("host", inet("host", PORT)),
            ("host:9", inet("host", 9)),
            ("10.0.0.1:0", inet("10.0.0.1", 0)),
            ("7000", inet("127.0.0.1", 7_000)),
            (":7000", inet("127.0.0.1", 7_000)),
            ("[::1]:80", inet("::1", 80)),
            ("::1", inet("::1", PORT)),
            ("unix:/a/b", Some(Place::Unix("/a/b".into()))),
            ("unix:", None),
            ("http://h/", None),
            ("99999", None),
            ("h:x", None),
            ("", None),
        ] {
            assert_eq!(Place::parse("rtt", text).ok(), place, "{text}");
        }
    }

    #[test]
    fn targets_may_name_their_transport() {
        for (target, transport, rest) in [
            ("sctp://h:1", Some(Transport::Sctp), "h:1"),
            ("sctp-seqpacket://h", Some(Transport::SctpSeqpacket), "h"),
            ("UDP://[::1]:9/", Some(Transport::Udp), "[::1]:9"),
            ("tls://10.0.0.1", Some(Transport::Tls), "10.0.0.1"),
            ("http://h/", None, "http://h/"),
            ("unix://h", None, "unix://h"),
            ("unix:/a", None, "unix:/a"),
            ("h:1", None, "h:1"),
        ] {
            assert_eq!(named(target), (transport, rest), "{target}");
        }
    }

    #[test]
    fn uses_ace_framing_for_replies_of_two_bytes_over_ordered_transports() {
        let framing = |transport: Transport, reply_size| {
            let place = Place::Inet("h".into(), 1);
            let args = MessageArgs { reply_size, ..MessageArgs::default() };
            let plan = exchange(transport.endpoint(&place).unwrap(), &[1], &args);
            plan.exchange.map(|e| e.framing)
        };
        assert_eq!(framing(Transport::Tcp, 2), Some(Framing::Short));
        assert_eq!(framing(Transport::Tcp, 3), Some(Framing::Long));
        assert_eq!(framing(Transport::Udp, 2), Some(Framing::Long));
    }
}
