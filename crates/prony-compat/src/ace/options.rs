//! The command lines of the four tests, as the old programs read them: malformed words are ignored,
//! invalid values are checked at the end, and the last of several errors is reported.

use std::net::Ipv4Addr;

use super::{Role, Test};
use crate::getopt::{Item, Table, Takes};
use crate::strto;

/// The maximum length of an address list; the old programs truncate it.
const LIST_MAX: usize = 100;
/// The maximum length of a host name.
const HOST_MAX: usize = 99;
/// The largest accepted power of two for the payload, whatever the message says.
const POWER_MAX: u16 = 17;
/// The value of a payload that is not given.
const UNSET: u16 = 31;

/// The transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Sctp,
}

/// The options of a test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) iterations: u32,
    pub(super) nagle: bool,
    pub(super) transport: Transport,
    pub(super) min_bin: f64,
    pub(super) max_bin: f64,
    pub(super) outliers: u32,
    pub(super) bins: u32,
    pub(super) client_port: u16,
    /// Local addresses; empty = any.
    pub(super) own: Vec<Ipv4Addr>,
    pub(super) port: u16,
    pub(super) host: String,
    /// Bytes of the payload.
    pub(super) size: u32,
    /// Retransmission timeouts of SCTP in milliseconds; 0 = the kernel's default.
    pub(super) rto: [u32; 3],
    /// Whether prony's own report is printed too, on standard error.
    pub(super) report: bool,
}

/// The result of reading a command line. `error` and `sctp` also apply with the help, which takes
/// precedence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) help: bool,
    /// The error message, if any.
    pub(super) error: Option<String>,
    pub(super) options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Iterations,
    Nagle,
    Transport,
    MinBin,
    MaxBin,
    Outliers,
    Bins,
    ClientPort,
    Own,
    Port,
    Host,
    Size,
    Help,
    Nothing,
    RtoInitial,
    RtoMin,
    RtoMax,
    Report,
}
use Takes::{Argument, Nothing};

/// The names that the old programs understand; then those that they only print in their usage, with
/// dashes; then ours.
const CLIENT: Table<Key> = Table {
    letters: &[
        ('c', Argument, Key::Iterations),
        ('n', Nothing, Key::Nagle),
        ('t', Argument, Key::Transport),
        ('m', Argument, Key::MinBin),
        ('M', Argument, Key::MaxBin),
        ('x', Argument, Key::Outliers),
        ('b', Argument, Key::Bins),
        ('C', Argument, Key::ClientPort),
        ('i', Argument, Key::Own),
        ('p', Argument, Key::Port),
        ('H', Argument, Key::Host),
        ('s', Argument, Key::Size),
        ('h', Nothing, Key::Help),
    ],
    words: &[
        ("test_iterations", Argument, Key::Iterations),
        ("test_enable_nagle", Nothing, Key::Nagle),
        ("test_transport_protocol", Argument, Key::Transport),
        ("histogram_min_bin", Argument, Key::MinBin),
        ("histogram_max_bin", Argument, Key::MaxBin),
        ("histogram_num_outliers", Argument, Key::Outliers),
        ("histogram_bin_count", Argument, Key::Bins),
        ("client_port", Argument, Key::ClientPort),
        ("client_accept_addr", Argument, Key::Own),
        ("server_port", Argument, Key::Port),
        ("server_host", Argument, Key::Host),
        ("payload_size_power_of_2", Argument, Key::Size),
        ("help", Nothing, Key::Help),
    ],
    newer: &[
        ("test-iterations", Argument, Key::Iterations),
        ("test-enable-nagle", Nothing, Key::Nagle),
        ("test-transport-protocol", Argument, Key::Transport),
        ("histogram-min-bin", Argument, Key::MinBin),
        ("histogram-max-bin", Argument, Key::MaxBin),
        ("histogram-num-outliers", Argument, Key::Outliers),
        ("histogram-bin-count", Argument, Key::Bins),
        ("client-port", Argument, Key::ClientPort),
        ("client-accept-addr", Argument, Key::Own),
        ("client-connect-addr", Argument, Key::Own),
        ("client_connect_addr", Argument, Key::Own),
        ("server-port", Argument, Key::Port),
        ("server-host", Argument, Key::Host),
        ("payload-size-power-of-2", Argument, Key::Size),
        ("rto-initial", Argument, Key::RtoInitial),
        ("rto-min", Argument, Key::RtoMin),
        ("rto-max", Argument, Key::RtoMax),
        ("prony-report", Nothing, Key::Report),
    ],
};

const SERVER: Table<Key> = Table {
    letters: &[
        ('n', Nothing, Key::Nagle),
        ('t', Argument, Key::Transport),
        ('p', Argument, Key::Port),
        ('a', Argument, Key::Own),
        ('u', Nothing, Key::Nothing),
        ('h', Nothing, Key::Help),
    ],
    words: &[
        ("test_enable_nagle", Nothing, Key::Nagle),
        ("test_transport_protocol", Argument, Key::Transport),
        ("server_port", Argument, Key::Port),
        ("server_accept_addr", Argument, Key::Own),
        ("help", Nothing, Key::Help),
    ],
    newer: &[
        ("test-enable-nagle", Nothing, Key::Nagle),
        ("test-transport-protocol", Argument, Key::Transport),
        ("server-port", Argument, Key::Port),
        ("server-accept-addr", Argument, Key::Own),
        ("rto-initial", Argument, Key::RtoInitial),
        ("rto-min", Argument, Key::RtoMin),
        ("rto-max", Argument, Key::RtoMax),
    ],
};

/// Read the words after the program's name. `only_leading`: the first operand ends the options.
pub(super) fn read(test: Test, words: &[String], only_leading: bool) -> Asked {
    let table = match test.role {
        Role::Client => CLIENT,
        Role::Server => SERVER,
    };
    let mut given = Given::new();
    for item in table.read("", words) {
        match item {
            Item::Option(key, value) => given.take(key, &value.unwrap_or_default()),
            Item::Operand(_) if only_leading => break,
            // The old programs report neither.
            Item::Operand(_) | Item::Refused(_) => {}
        }
    }
    given.checked(test.role)
}

/// The values as given.
struct Given {
    help: bool,
    /// An error about an address.
    address: Option<String>,
    /// `None`: neither of the two values.
    transport: Option<Transport>,
    power: u16,
    options: Options,
}

impl Given {
    fn new() -> Self {
        let options = Options {
            iterations: 1_000_000,
            nagle: false,
            transport: Transport::Sctp,
            min_bin: 0.0,
            max_bin: 10_000.0,
            outliers: 100,
            bins: 1000,
            client_port: 0,
            own: Vec::new(),
            port: 45_453,
            host: "localhost".into(),
            size: 0,
            rto: [0; 3],
            report: false,
        };
        let transport = Some(Transport::Sctp);
        Self { help: false, address: None, transport, power: UNSET, options }
    }

    fn take(&mut self, key: Key, value: &str) {
        let o = &mut self.options;
        match key {
            Key::Iterations => o.iterations = atoi(value) as u32,
            Key::Nagle => o.nagle = true,
            Key::Transport => {
                self.transport = match value {
                    "tcp" => Some(Transport::Tcp),
                    "sctp" => Some(Transport::Sctp),
                    _ => None,
                }
            }
            Key::MinBin => o.min_bin = atof(value),
            Key::MaxBin => o.max_bin = atof(value),
            Key::Outliers => o.outliers = atoi(value) as u32,
            Key::Bins => o.bins = atoi(value) as u32,
            Key::ClientPort => o.client_port = atoi(value) as u16,
            Key::Own => match addresses(value) {
                Ok(list) => o.own = list,
                Err(e) => self.address = Some(e),
            },
            Key::Port => o.port = atoi(value) as u16,
            Key::Host => o.host = value.chars().take(HOST_MAX).collect(),
            Key::Size => self.power = atoi(value) as u16,
            Key::Help => self.help = true,
            Key::RtoInitial => o.rto[0] = atoi(value) as u32,
            Key::RtoMin => o.rto[1] = atoi(value) as u32,
            Key::RtoMax => o.rto[2] = atoi(value) as u32,
            Key::Report => o.report = true,
            Key::Nothing => {}
        }
    }

    fn checked(self, role: Role) -> Asked {
        let mut options = self.options;
        let mut error = self.address;
        let mut check = |good: bool, complaint: &str| {
            if !good {
                error = Some(complaint.to_owned());
            }
        };
        check(options.iterations >= 1, "test_iterations must be no less than than 1");
        check(options.min_bin >= 0.0, "histogram_min_bin must be no less than 0.0");
        check(
            options.max_bin >= options.min_bin,
            "histogram_max_bin must be no less than histogram_min_bin",
        );
        check(options.outliers >= 1, "histogram_num_outliers must be no less than 1");
        check(options.bins >= 1, "histogram_bin_count must be no less than 1");
        check(
            matches!(options.port, 0 | 1010..=65_000),
            "server_port must be between 1010 and 65000 inclusive, or zero.",
        );
        check(
            role == Role::Server || self.power <= POWER_MAX,
            "payload_size_power_of_2 must be specified between 0 and 16 inclusive",
        );
        check(
            self.transport.is_some(),
            "test_transport_protocol may only take 'sctp' and 'tcp' as values",
        );
        options.size = 1_u32.checked_shl(u32::from(self.power)).unwrap_or(0);
        // A missing transport is reported, with and without SCTP.
        options.transport = self.transport.unwrap_or(Transport::Tcp);
        Asked { help: self.help, error, options }
    }
}

/// Dotted addresses, separated by commas.
fn addresses(list: &str) -> Result<Vec<Ipv4Addr>, String> {
    let list: String = list.chars().take(LIST_MAX).collect();
    let mut all = Vec::new();
    for (i, text) in list.split(',').enumerate() {
        let which = if i == 0 { "primary" } else { "secondary" };
        let addr = text.parse();
        all.push(addr.map_err(|_| format!("Could not make sense of {which} address: {text}"))?);
    }
    Ok(all)
}

/// A number as C's `atoi` reads it: the digits at the start of the text, or 0.
fn atoi(text: &str) -> i32 {
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit);
    let value = digits.fold(0_i64, |n, d| n.saturating_mul(10).saturating_add(i64::from(d - b'0')));
    // It is a long that is truncated to an int.
    (if body.starts_with('-') { -value } else { value }) as i32
}

fn atof(text: &str) -> f64 {
    strto::float_prefix(text).map_or(0.0, |(value, _)| value)
}

#[cfg(test)]
mod tests;
