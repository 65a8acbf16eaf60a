//! The round-trip latency tests of ACE: two clients, two servers and the spectrum of sizes.

mod client;
pub(crate) mod histogram;
mod options;
mod server;
mod spectrum;
mod usage;

use std::io;
use std::process;

use prony_io::socket::Mode;
use prony_io::socket::sctp::{self, Rto, Style, Tuning};

use self::options::{Options, Transport};
use super::Call;

use prony_run::output::lines_to_stderr;
pub(super) use spectrum::main as spectrum;

/// The exit code of the old programs when they cannot run.
const FAILED: u8 = 1;
/// More bins would only add zeros.
const BINS_MAX: u32 = 10_000_000;

/// One of the four programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    socket: Socket,
    role: Role,
}

/// The kind of its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    /// TCP, or one-to-one SCTP.
    Stream,
    /// One-to-many SCTP.
    Seqpack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

impl Test {
    fn named(name: &str) -> Self {
        Self {
            socket: if name.contains("SEQPACK") { Socket::Seqpack } else { Socket::Stream },
            role: if name.ends_with("_srv") { Role::Server } else { Role::Client },
        }
    }

    fn name(self) -> &'static str {
        match (self.socket, self.role) {
            (Socket::Stream, Role::Client) => "SOCK_STREAM_clt",
            (Socket::Stream, Role::Server) => "SOCK_STREAM_srv",
            (Socket::Seqpack, Role::Client) => "SOCK_SEQPACK_clt",
            (Socket::Seqpack, Role::Server) => "SOCK_SEQPACK_srv",
        }
    }

    /// The style of its SCTP sockets.
    fn style(self) -> Style {
        match self.socket {
            Socket::Stream => Style::OneToOne,
            Socket::Seqpack => Style::OneToMany,
        }
    }
}

/// The names: `SOCK_STREAM_clt` and three others.
pub(super) fn main(call: &Call) -> u8 {
    let test = Test::named(call.tool);
    match wanted(test, &call.program, &call.args) {
        Ok(options) => match test.role {
            Role::Client => client::main(test, &options, call),
            Role::Server => server::main(test, &options),
        },
        Err(text) => {
            lines_to_stderr(text.trim_end_matches('\n'));
            if text.ends_with("\n\n") {
                lines_to_stderr("");
            }
            FAILED
        }
    }
}

/// What a command line requests, or the message to print.
fn wanted(test: Test, program: &str, args: &[String]) -> Result<Options, String> {
    let only_leading = std::env::var_os("POSIXLY_CORRECT").is_some();
    let asked = options::read(test, args, only_leading);
    if asked.help {
        return Err(usage::text(test, program));
    }
    let options = asked.options;
    if options.transport == Transport::Sctp || test.socket == Socket::Seqpack {
        sctp::socket(test.style(), false, Mode::Blocking).map_err(|e| no_sctp(test, &e))?;
    }
    if let Some(complaint) = asked.error {
        return Err(format!("ERROR: {complaint}"));
    }
    if options.bins > BINS_MAX {
        return Err(format!("ERROR: histogram_bin_count must be no more than {BINS_MAX}"));
    }
    Ok(options)
}

/// The message of the old programs when they are built without SCTP. Ours always has it, but not
/// every kernel does. The last line is ours.
fn no_sctp(test: Test, e: &io::Error) -> String {
    let why = words(e);
    let ways = "load its module (modprobe sctp), as root, or take prony rtt with --sctp udp or raw";
    match test.socket {
        Socket::Stream => format!(
            "SCTP was NOT installed when this binary was compiled.\n\
             {0} may still be run using TCP via the '-t tcp' option.\n\
             prony: this kernel has no SCTP ({why}): {ways}, or use TCP",
            test.name()
        ),
        Socket::Seqpack => format!(
            "SCTP was NOT installed/accessible when this binary was compiled.\n\
             prony: this kernel has no SCTP ({why}): {ways}, or use {} -t tcp",
            Test { socket: Socket::Stream, ..test }.name()
        ),
    }
}

/// A line with the process id in front, twice, as the old programs print it on Linux, where only
/// their thread prints.
fn log(line: &str) {
    let id = process::id();
    lines_to_stderr(&format!("({id}|{id}) {line}"));
}

/// The kernel's message only.
fn words(e: &io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn tuning(options: &Options) -> Tuning {
    let [initial, min, max] = options.rto;
    Tuning { nagle: options.nagle, rto: Rto { initial, min, max } }
}
