//! `run_spectrum`: runs a client's test with every power of two as the message size, and plots the
//! results.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use prony_base::units::Span;
use prony_io::{Control, clock};
use prony_report::{OverSize, over_size};
use prony_run::files;
use prony_run::interrupt::stoppable;
use prony_run::output::lines_to_stderr;
use prony_run::run::Provenance;

use super::client::{self, Measured};
use super::options::{self, Transport};
use super::server::Server;
use super::{FAILED, Role, Socket, Test, wanted, words};
use crate::{Call, say};

/// The exit code of the old script for wrong usage.
const WRONG: u8 = 2;
/// The first size is 2 to the power of this ...
const FIRST: u32 = 2;
/// ... and the last one 2 to the power of this, over TCP and SCTP. The old script left out the last
/// size over SCTP, which was too long for the stacks of its time.
const LAST: (u32, u32) = (16, 15);

const SYNOPSIS: &str = "\
Usage:
    run_spectrum [--help|-h] [--manual|-m] [--service|-s STREAM|SEQPACK]
                 [--protocol|-p TCP|SCTP] [--config_file|-c FILE]
                 [--serve] [--pause SECONDS]

Options:
    --service      STREAM or SEQPACK (STREAM)
    --protocol     TCP or SCTP (TCP)
    --config_file  The clients' further options, the first quoted string of a file
                   (run_spectrum.config)
    --serve        Start a server of its own; without it one must run already
    --pause        Seconds between two sizes (5; 0 with --serve)
";

const MANUAL: &str = "
    Runs SOCK_STREAM_clt or SOCK_SEQPACK_clt once for each size of message from
    4 bytes to 65536 (TCP) or 32768 (SCTP), and appends what it prints to a file
    that is named after the time, with the ending .spectrum. At the end it draws
    the mean round-trip time over the size, as .svg and .png beside that file.

    The configuration file holds the clients' options between double quotes, as
        \"-c 1000 -H 127.0.0.1\"
    Lines on which a # stands before the quotes are comments. Options in it that
    the spectrum sets itself (-s, -t) win over it.

    With --serve the servers' options -p, -n and -t are the clients'.
";

/// The options.
#[derive(Clone, Debug, PartialEq)]
struct Wish {
    socket: Socket,
    transport: Transport,
    config: String,
    serve: bool,
    pause: Option<u64>,
}

/// The result of reading the command line.
#[derive(Clone, Debug, PartialEq)]
enum Asked {
    Help,
    Manual,
    Wrong(String),
    Run(Wish),
}

/// Run the command line.
pub(crate) fn main(call: &Call) -> u8 {
    let (asked, strange) = read(&call.args);
    for name in strange {
        lines_to_stderr(&format!("Unknown option: {name}"));
    }
    match asked {
        Asked::Help => say(SYNOPSIS),
        Asked::Manual => say(&format!("{SYNOPSIS}{MANUAL}")),
        Asked::Wrong(why) => {
            lines_to_stderr(&format!("{why}\n{SYNOPSIS}"));
            return WRONG;
        }
        Asked::Run(wish) => {
            return match wish.given() {
                Ok(given) => given.run(),
                Err(line) => {
                    lines_to_stderr(&line);
                    WRONG
                }
            };
        }
    }
    FAILED
}

/// Read the words after the program's name; also returns the unknown option names.
fn read(words: &[String]) -> (Asked, Vec<String>) {
    const NAMES: [&str; 7] =
        ["help", "manual", "service", "protocol", "config_file", "serve", "pause"];
    // Abbreviations that the old script accepted never mean a newer option.
    const OLD: usize = 5;
    let mut strange = Vec::new();
    let (mut help, mut manual, mut serve) = (false, false, false);
    let (mut service, mut protocol) = ("stream".to_owned(), "tcp".to_owned());
    let (mut config, mut pause) = ("run_spectrum.config".to_owned(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_lowercase(), Some(value.to_owned())),
            None => (name.to_lowercase(), None),
        };
        let fits = |n: &&&str| !name.is_empty() && n.starts_with(name.as_str());
        // No two of the old names share a prefix, except single letters, which are names too.
        let exact = NAMES.iter().find(|n| **n == name);
        let found =
            exact.or_else(|| NAMES[..OLD].iter().find(fits)).or_else(|| NAMES.iter().find(fits));
        let mut value = || value.clone().or_else(|| words.next().cloned()).unwrap_or_default();
        match found.copied() {
            Some("help") => help = true,
            Some("manual") => manual = true,
            Some("serve") => serve = true,
            Some("service") => service = value().to_lowercase(),
            Some("protocol") => protocol = value().to_lowercase(),
            Some("config_file") => config = value(),
            Some("pause") => pause = Some(value()),
            _ => strange.push(name),
        }
    }
    let asked = if help {
        Asked::Help
    } else if manual {
        Asked::Manual
    } else {
        wish((&service, &protocol), config, serve, pause).map_or_else(Asked::Wrong, Asked::Run)
    };
    (asked, strange)
}

fn wish(
    (service, protocol): (&str, &str),
    config: String,
    serve: bool,
    pause: Option<String>,
) -> Result<Wish, String> {
    let socket = match service {
        "stream" => Socket::Stream,
        "seqpack" | "seqpacket" => Socket::Seqpack,
        _ => return Err("Service must be STREAM or SEQPACK".into()),
    };
    let transport = match protocol {
        "tcp" => Transport::Tcp,
        "sctp" => Transport::Sctp,
        _ => return Err("Protocol must be TCP or SCTP".into()),
    };
    if (socket, transport) == (Socket::Seqpack, Transport::Tcp) {
        return Err("Cannot use SEQPACK service with TCP".into());
    }
    let seconds = |text: String| {
        text.parse().map_err(|_| format!("Pause must be a number of seconds, not {text}"))
    };
    Ok(Wish { socket, transport, config, serve, pause: pause.map(seconds).transpose()? })
}

impl Wish {
    /// Apply the configuration file.
    fn given(self) -> Result<Given, String> {
        let text = files::bounded_text(Path::new(&self.config))
            .map_err(|_| format!("cannot open file: {}", self.config))?;
        let further = quoted(&text);
        say(&format!("Read options from {}: \"{further}\"\n\n", self.config));
        Ok(Given { further, stamp: clock::local_date().replace(' ', "-"), wish: self })
    }
}

/// The first string in double quotes on a line without a `#` before it.
fn quoted(text: &str) -> String {
    let on_line = |line: &str| {
        let (before, rest) = line.split_once('"')?;
        let (inside, _) = rest.split_once('"')?;
        (!before.contains('#')).then(|| inside.to_owned())
    };
    text.lines().find_map(on_line).unwrap_or_default()
}

/// A spectrum, ready to run.
struct Given {
    wish: Wish,
    further: String,
    /// The time, which is part of the files' names.
    stamp: String,
}

/// A size and its mean time.
type Point = (u32, Span);

impl Given {
    fn run(self) -> u8 {
        let control = match stoppable() {
            Ok(control) => control,
            Err(e) => {
                lines_to_stderr(&e.to_string());
                return FAILED;
            }
        };
        let file = format!("{}.spectrum", self.stamp);
        let result = self.serve().and_then(|port| self.measure(Path::new(&file), port, &control));
        result.unwrap_or_else(|line| {
            lines_to_stderr(&line);
            FAILED
        })
    }

    /// Start a server if requested; returns its port.
    fn serve(&self) -> Result<Option<u16>, String> {
        if !self.wish.serve {
            return Ok(None);
        }
        let test = Test { socket: self.wish.socket, role: Role::Server };
        let mut options = self.options(FIRST)?;
        options.own.clear();
        let server = Server::open(test, &options).map_err(|e| format!("open: {}", words(&e)))?;
        let port = server.port();
        thread::spawn(move || server.run(|| true));
        Ok(Some(port))
    }

    fn words(&self, power: u32) -> Vec<String> {
        let protocol = if self.wish.transport == Transport::Tcp { "tcp" } else { "sctp" };
        let power = power.to_string();
        let own = ["-t", protocol, "-s", &power].map(str::to_owned);
        // The options in the file come last, so they take precedence. They are split at spaces,
        // without a shell.
        own.into_iter().chain(self.further.split_whitespace().map(str::to_owned)).collect()
    }

    fn client(&self) -> Test {
        Test { socket: self.wish.socket, role: Role::Client }
    }

    fn options(&self, power: u32) -> Result<options::Options, String> {
        let test = self.client();
        wanted(test, test.name(), &self.words(power))
    }

    fn measure(
        &self,
        path: &Path,
        port: Option<u16>,
        control: &Arc<Control>,
    ) -> Result<u8, String> {
        let cannot = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let mut file = File::options().append(true).create(true).open(path).map_err(cannot)?;
        let last = if self.wish.transport == Transport::Tcp { LAST.0 } else { LAST.1 };
        let (mut points, mut failed) = (Vec::new(), false);
        for power in FIRST..=last {
            if power > FIRST {
                self.rest(control);
            }
            if control.stop_request().is_some() {
                break;
            }
            let words = self.words(power);
            let name = self.client().name();
            say(&format!("{name} {} >> {}\n", words.join(" "), path.display()));
            let mut options = self.options(power)?;
            options.port = port.unwrap_or(options.port);
            if port.is_some() {
                options.host = "127.0.0.1".into();
            }
            match client::measure(self.client(), &options, control, Provenance::default()) {
                Ok(Measured { histogram, summary }) => {
                    file.write_all(histogram.as_bytes()).map_err(cannot)?;
                    let mean = summary.main.times.service.mean_ns();
                    points.extend(mean.map(|ns| (options.size, Span(ns as u64))));
                }
                Err(line) => {
                    lines_to_stderr(&line);
                    failed = true;
                }
            }
        }
        self.draw(&points)?;
        Ok(if failed || control.stop_request().is_some() { FAILED } else { 0 })
    }

    /// Save plots of the mean over the size next to the file.
    fn draw(&self, points: &[Point]) -> Result<(), String> {
        if points.is_empty() {
            return Ok(());
        }
        let protocol = if self.wish.transport == Transport::Tcp { "tcp" } else { "sctp" };
        let service = if self.wish.socket == Socket::Stream { "STREAM" } else { "SEQPACK" };
        let curve = OverSize { name: format!("{protocol} {service}"), points: points.to_vec() };
        let what = "Mean round-trip time, 2-byte reply";
        let (svg, png) = over_size(what, "mean round-trip time", &[curve]);
        for (ending, bytes) in [("svg", svg.into_bytes()), ("png", png)] {
            let name = format!("{}.{ending}", self.stamp);
            fs::write(&name, bytes).map_err(|e| format!("cannot write {name}: {e}"))?;
            say(&format!("The mean over the size: {name}\n"));
        }
        Ok(())
    }

    /// The pause between two sizes, which ends early when the run is stopped.
    fn rest(&self, control: &Control) {
        let seconds = self.wish.pause.unwrap_or(if self.wish.serve { 0 } else { 5 });
        let until = Instant::now() + Duration::from_secs(seconds);
        while control.stop_request().is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(50).min(until - Instant::now()));
        }
    }
}
