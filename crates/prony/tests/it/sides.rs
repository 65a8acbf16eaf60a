//! The stamps of both sides of the same requests. A client that sees each request between the
//! moments at which its server sees it, and a server that sees it between those of the client, are
//! right on any machine: other load moves the stamps, but not past each other.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::rig::{Report, Serve, measure};

/// The client's stamps of a request, in nanoseconds since the start of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    pub(crate) first: u64,
    pub(crate) is_warmup: bool,
}

/// A run with the stamps of both sides.
pub(crate) struct Both {
    pub(crate) report: Report,
    /// In the order of their intended starts.
    pub(crate) client: Vec<Stamps>,
    /// When requests arrived, in nanoseconds of the server's own clock, ascending.
    pub(crate) server: Vec<u64>,
    pub(crate) counters: serde_json::Value,
}

impl Both {
    /// Runs a load without errors. `words`: its options, by the URL of the server.
    pub(crate) fn measure(words: impl Fn(&str) -> Vec<String>) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let (arrivals, raw) = (file("arrivals"), file("raw.csv"));
        let server = Serve::start(&["--record-arrivals", &arrivals]);
        let words = words(&server.url(""));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let report = measure(&[&words[..], &["--raw", &raw]].concat());
        let counters = server.stop();
        let seconds = |line: &str| (line.parse::<f64>().expect("a number") * 1e9).round() as u64;
        let mut server: Vec<u64> =
            fs::read_to_string(arrivals).expect("the arrivals").lines().map(seconds).collect();
        server.sort_unstable();
        Self { report, client: stamps(Path::new(&raw)), server, counters }
    }

    /// Requires that each side's stamps contain the other's, and that nothing was sent early.
    pub(crate) fn agree(&self) -> Result<(), String> {
        if let Some(early) = self.client.iter().find(|s| s.sent < s.intended) {
            return Err(format!("sent before it was due: {early:?}"));
        }
        contained(&self.client, &self.server)
    }

    /// The intended starts of what was measured.
    pub(crate) fn intended(&self) -> Vec<u64> {
        self.client.iter().filter(|s| !s.is_warmup).map(|s| s.intended).collect()
    }
}

/// The stamps of a file of raw results, all of whose requests have a reply.
fn stamps(raw: &Path) -> Vec<Stamps> {
    let text = fs::read_to_string(raw).expect("raw results");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    let place = |name| names.iter().position(|n| *n == name).expect("a column");
    let [intended, sent, first, warmup] =
        ["intended_ns", "sent_ns", "first_byte_ns", "warmup"].map(place);
    let mut all: Vec<Stamps> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let time = |i: usize| fields[i].parse().unwrap_or_else(|e| panic!("{e}: {line}"));
            Stamps {
                intended: time(intended),
                sent: time(sent),
                first: time(first),
                is_warmup: fields[warmup] == "true",
            }
        })
        .collect();
    all.sort_by_key(|s| s.intended);
    all
}

/// The steps of the times that the server writes, in nanoseconds.
const STEP: u64 = 1_000;

/// Requires that each request arrived after it was sent, and before its reply. The clocks have the
/// same pace but not the same zero, so there must be a difference with which that is true of all.
/// The server does not say which request an arrival is; but if each is between its stamps, the
/// earliest arrival is after the earliest send, the second after the second, and so on.
fn contained(client: &[Stamps], server: &[u64]) -> Result<(), String> {
    if client.len() != server.len() {
        return Err(format!("{} requests, {} at the server", client.len(), server.len()));
    }
    let sorted = |of: fn(&Stamps) -> u64| {
        let mut times: Vec<i64> = client.iter().map(|s| of(s) as i64).collect();
        times.sort_unstable();
        times
    };
    let (sent, first) = (sorted(|s| s.sent), sorted(|s| s.first));
    let least = server.iter().zip(&first).map(|(at, first)| *at as i64 - first).max();
    let most = server.iter().zip(&sent).map(|(at, sent)| *at as i64 - sent).min();
    if least.is_some() && least <= most.map(|most| most + STEP as i64) {
        return Ok(());
    }
    Err(format!("the server's zero is {least:?} ns after the client's at least, {most:?} at most"))
}

#[test]
fn detects_arrivals_outside_of_the_stamps_of_the_client() {
    // Sent in threes at once, up to 2 ms late, each with a reply after 100 us.
    let sent = |i: u64| 1_000_000 + i / 3 * 5_000_000 + i % 7 * 300_000;
    let stamps = |i: u64| Stamps {
        intended: i / 3 * 5_000_000,
        sent: sent(i),
        first: sent(i) + 100_000,
        is_warmup: false,
    };
    let client: Vec<Stamps> = (0..300).map(stamps).collect();
    let server = |of: &dyn Fn(u64) -> u64| {
        let mut all: Vec<u64> = (0..300).map(|i| 7_000_000_000 + of(i)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(contained(&client, &server(&|i| sent(i) + i % 2 * 99_000)), Ok(()));
    for wrong in [
        // A pace that differs by 0.1 %, one request that was held back, one that came early, and
        // requests that were sent at the times of the schedule, whatever the client says.
        server(&|i| sent(i) + sent(i) / 1_000),
        server(&|i| sent(i) + if i == 150 { 300_000 } else { 0 }),
        server(&|i| sent(i) - if i == 150 { 300_000 } else { 0 }),
        server(&|i| i / 3 * 5_000_000),
    ] {
        assert!(contained(&client, &wrong).is_err());
    }
    assert!(contained(&client[1..], &server(&sent)).is_err());
}
