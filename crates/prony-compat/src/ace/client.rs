//! The clients: one connection, 100 warm-up exchanges, then the measured ones, one after the other;
//! then the histogram.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_io::{Control, Live, Options as IoOptions, SocketOptions};
use prony_plan::plan::{CallSpec, Exchange, Framing, Message, Plan, Stop};
use prony_plan::target::{Carrier, Endpoint};
use prony_report::{Style, appendix};
use prony_run::interrupt::{Ending, stoppable};
use prony_run::output::lines_to_stderr;
use prony_run::run::{self, Provenance};
use prony_stats::summary::Summary;
use prony_tally::record::Observer;
use prony_tally::record::bins::Bins;

use super::histogram::{Frame, render};
use super::options::{Options, Transport};
use super::{FAILED, Socket, Test, tuning};
use crate::plan::closed;
use crate::{Call, say};

/// The number of warm-up exchanges.
const WARMUP_EXCHANGES: u32 = 100;
/// Longer than any reply of a working server takes.
const TIMEOUT: Span = Span::from_secs(60);

/// Why the connect failed.
const CONNECTING: [Fault; 4] =
    [Fault::ConnectRefused, Fault::ConnectTimeout, Fault::ConnectReset, Fault::ConnectUnreachable];

/// Run the command line.
pub(super) fn main(test: Test, options: &Options, call: &Call) -> u8 {
    let measured = stoppable()
        .map_err(|e| e.to_string())
        .and_then(|control| measure(test, options, &control, call.provenance()));
    match measured {
        Ok(measured) => {
            say(&measured.histogram);
            if options.report {
                lines_to_stderr(&appendix(&measured.summary, Style::default(), &[]));
            }
            0
        }
        Err(line) => {
            lines_to_stderr(&line);
            FAILED
        }
    }
}

/// A finished run.
pub(super) struct Measured {
    /// Its histogram, as it is printed.
    pub(super) histogram: String,
    /// Everything else.
    pub(super) summary: Summary,
}

/// Run all exchanges; the error is the message to print.
pub(super) fn measure(
    test: Test,
    options: &Options,
    control: &Arc<Control>,
    provenance: Provenance,
) -> Result<Measured, String> {
    let server = resolved(options)?;
    if options.port == 0 {
        let id = std::process::id();
        return Err(format!("({id}|{id}) connection failed: Connection refused"));
    }
    let plan = plan(test, options, server);
    plan.check().map_err(|e| format!("ERROR: {e}"))?;
    let Options { bins, min_bin, max_bin, outliers, .. } = *options;
    let bins = Bins::new(bins as usize, min_bin, max_bin, outliers as usize);
    let bins = Arc::new(Mutex::new(bins));
    let observed = Arc::clone(&bins);
    let observer = Observer(Arc::new(move |stamps| {
        let mut bins = observed.lock().unwrap_or_else(PoisonError::into_inner);
        bins.record(stamps.service().as_nanos() as f64 / 1000.0);
    }));
    let io = IoOptions {
        threads: Some(1),
        sources: options.own.iter().map(|&a| IpAddr::V4(a)).collect(),
        sockets: SocketOptions {
            port: options.client_port,
            nagle: options.nagle,
            rto: tuning(options).rto,
            ..SocketOptions::default()
        },
        observer: Some(observer),
        ..IoOptions::default()
    };
    // The first failure ends the run, because all exchanges use the same connection.
    let mut ended = false;
    let mut ending = Ending::default();
    let mut watch = |live: &Live| {
        ending.say(control, live);
        if live.lost > 0 && !ended {
            ended = true;
            control.stop_now();
        }
    };
    let summary = run::run(&plan, &io, control, &mut watch, provenance);
    let summary = summary.map_err(|e| format!("{}: {e}", test.name()))?;
    let bins = bins.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = broken(&summary, options.iterations) {
        return Err(line);
    }
    let frame = Frame { message_size: u64::from(options.size), ..Frame::default() };
    Ok(Measured { histogram: render(&bins, &frame), summary })
}

/// The server's address, which must be IPv4 in the old programs.
fn resolved(options: &Options) -> Result<SocketAddr, String> {
    let all = (options.host.as_str(), options.port).to_socket_addrs();
    let found = all.ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
    found.ok_or_else(|| {
        let id = std::process::id();
        format!(
            "ACE_INET_Addr::ACE_INET_Addr: {}: Unknown error -2\n\
             ({id}|{id}) connection failed: Invalid argument",
            options.host
        )
    })
}

fn plan(test: Test, options: &Options, server: SocketAddr) -> Plan {
    let (host, port) = (server.ip().to_string(), server.port());
    let endpoint = match (test.socket, options.transport) {
        (Socket::Seqpack, _) => Endpoint::Inet { over: Carrier::SctpSeqpacket, host, port },
        (Socket::Stream, Transport::Sctp) => Endpoint::Inet { over: Carrier::Sctp, host, port },
        (Socket::Stream, Transport::Tcp) => Endpoint::Tcp { host, port },
    };
    let message = Message { request: options.size, reply: 2 };
    Plan {
        exchange: Some(Box::new(Exchange {
            framing: Framing::Short,
            warmup_exchanges: WARMUP_EXCHANGES,
            messages: vec![message],
        })),
        stop: Stop { requests: Some(u64::from(options.iterations)), ..Stop::default() },
        timeout: TIMEOUT,
        ..closed(endpoint, CallSpec::default(), 1)
    }
}

/// Why a run failed, in the words of the old programs, which printed the message and exited with 0.
fn broken(summary: &Summary, iterations: u32) -> Option<String> {
    let t = &summary.main;
    if t.replies == u64::from(iterations) && t.failed == 0 {
        return None;
    }
    let mut faults: Vec<_> = Fault::ALL.into_iter().filter(|&f| t.faults[f as usize] > 0).collect();
    faults.sort_by_key(|f| CONNECTING.contains(f));
    let fault = faults.first().copied();
    let id = std::process::id();
    let done = t.replies;
    let failure = |what: &str| format!("{what} (after {done} of {iterations} iterations)");
    Some(match fault {
        _ if t.stray[Fault::BadFrame as usize] > 0 => failure("recv_n: more bytes than one reply"),
        // prony would send the failed exchange again on another connection; this test must not.
        Some(f) if t.connected > 0 && CONNECTING.contains(&f) => {
            failure("recv_n: the server has closed")
        }
        Some(Fault::ConnectRefused) => format!("({id}|{id}) connection failed: Connection refused"),
        Some(Fault::ConnectTimeout) => {
            format!("({id}|{id}) connection failed: Connection timed out")
        }
        Some(Fault::ConnectReset) => {
            format!("({id}|{id}) connection failed: Connection reset by peer")
        }
        Some(Fault::ConnectUnreachable) => {
            format!("({id}|{id}) connection failed: No route to host")
        }
        Some(Fault::NoPorts | Fault::NoAddress) => {
            format!("({id}|{id}) connection failed: Cannot assign requested address")
        }
        Some(Fault::RequestTimeout) => failure("recv_n: Connection timed out"),
        Some(Fault::ClosedEarly | Fault::Truncated) => failure("recv_n: the server has closed"),
        Some(Fault::Reset) => failure("recv_n: Connection reset by peer"),
        Some(Fault::BadFrame | Fault::Surplus) => failure("recv_n: more bytes than one reply"),
        _ if summary.run.interrupted => failure("interrupted"),
        _ => failure("recv_n: the exchange has failed"),
    })
}
