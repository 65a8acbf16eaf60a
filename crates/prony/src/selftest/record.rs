//! What a self-test found, as it is saved: documented in `docs/selftest.md`, described by
//! `docs/schema/selftest-1.json`.

use prony_io::host::Host;
use serde::{Deserialize, Serialize};

use super::advice::Advice;

/// The version of the shape. It grows when a field changes its meaning or goes away, not when one
/// is added.
pub(crate) const SCHEMA: u32 = 1;

/// All that a self-test found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// prony's version.
    pub version: String,
    /// Its begin, in seconds since 1970 (UTC).
    pub started_unix: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether it was the short one.
    pub quick: bool,
    /// Whether the user ended it before its time.
    pub interrupted: bool,
    /// Whether all proofs were made and held.
    pub passed: bool,
    /// Where it was made.
    pub host: Host,
    /// The cores of client and server; the same where there is only one.
    pub client_cores: Vec<usize>,
    /// See `client_cores`.
    pub server_cores: Vec<usize>,
    /// What was held against a known truth.
    pub proofs: Vec<Proof>,
    /// The smallest times; `None` where the user ended the test before.
    pub floor: Option<Floor>,
    /// How late requests went out, by rate.
    pub lags: Vec<Lag>,
    /// The highest rates at which the verdict was `VALID`.
    pub rates: Vec<Rate>,
    /// What would help.
    pub advice: Vec<Advice>,
}

/// One law that is known, and what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Its name.
    pub name: String,
    /// What was done, in a sentence.
    pub what: String,
    /// What was expected and what was found; empty where no run came to its end.
    pub checks: Vec<Check>,
    /// How often it was tried until it held, or was given up.
    pub tries: u32,
    /// Whether it held.
    pub held: bool,
}

/// One figure of a proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// What it is.
    pub what: String,
    /// What theory, arithmetic or the other side says.
    pub expected: Amount,
    /// The least and the most that passes, in the unit of `expected`; `None`: nothing but it.
    pub passes: Option<(f64, f64)>,
    /// What was measured; `None` where nothing was.
    pub measured: Option<Amount>,
    /// Whether that passes.
    pub held: bool,
}

/// A figure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Amount {
    /// Nanoseconds.
    Ns(f64),
    /// How many.
    Count(u64),
    /// A number without a unit.
    Number(f64),
    /// A word.
    Word(String),
}

/// The smallest times that the host lets anybody measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Floor {
    /// The step of the clock, as the kernel says it, in nanoseconds.
    pub clock_resolution_ns: u64,
    /// The smallest difference of two readings that was seen.
    pub clock_step_ns: u64,
    /// What one reading costs.
    pub clock_read_ns: f64,
    /// The longest that a thread which never sleeps was kept from running.
    pub longest_gap_ns: u64,
    /// How late a sleep of 100 us ends: median ...
    pub sleep_late_p50_ns: u64,
    /// ... and 99th percentile.
    pub sleep_late_p99_ns: u64,
    /// One request at a time over loopback, by driver.
    pub loopback: Vec<Loopback>,
}

/// Round trips of one request at a time on one connection, to a server that takes no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loopback {
    /// The driver.
    pub driver: String,
    /// How many there were.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile; `None` where the sample cannot carry it.
    pub p99_ns: Option<u64>,
}

/// How late requests of an open loop went out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lag {
    /// Requests per second.
    pub rate: f64,
    /// The median of the send lag; `None` where the sample cannot carry it, as below.
    pub p50_ns: Option<u64>,
    /// Its 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// The verdict on that run.
    pub verdict: String,
}

/// The highest rate at which the verdict was `VALID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// The kind of load: `closed`, `open`, `pipelined`, `tls`.
    pub load: String,
    /// The driver.
    pub driver: String,
    /// Replies per second; `None` where no run was valid.
    pub per_second: Option<f64>,
    /// What the load was given for that: connections, or in an open loop requests per second.
    pub given: Option<u64>,
    /// How busy the busiest thread was, 0 to 1.
    pub busy: Option<f64>,
    /// What stood against more.
    pub bound: String,
}

impl Record {
    /// How many proofs held.
    pub(crate) fn held(&self) -> usize {
        self.proofs.iter().filter(|p| p.held).count()
    }
}

impl Check {
    /// It must be exactly that.
    pub(crate) fn exact(what: &str, expected: Amount, measured: Option<Amount>) -> Self {
        let held = measured.as_ref() == Some(&expected);
        Self { what: what.to_owned(), expected, passes: None, measured, held }
    }

    /// It must lie between the two, ends included.
    pub(crate) fn within(
        what: &str,
        expected: Amount,
        passes: (f64, f64),
        measured: Option<Amount>,
    ) -> Self {
        let number = measured.as_ref().and_then(Amount::number);
        let held = number.is_some_and(|n| (passes.0..=passes.1).contains(&n));
        Self { what: what.to_owned(), expected, passes: Some(passes), measured, held }
    }

    /// It must be that within 5 %.
    pub(crate) fn near(what: &str, expected_ns: f64, measured_ns: Option<f64>) -> Self {
        let passes = (expected_ns * 0.95, expected_ns * 1.05);
        Self::within(what, Amount::Ns(expected_ns), passes, measured_ns.map(Amount::Ns))
    }
}

impl Amount {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Ns(n) | Self::Number(n) => Some(*n),
            Self::Count(n) => Some(*n as f64),
            Self::Word(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_holds_where_its_figure_passes_and_never_without_one() {
        assert!(Check::exact("n", Amount::Count(5), Some(Amount::Count(5))).held);
        assert!(!Check::exact("n", Amount::Count(5), Some(Amount::Count(6))).held);
        assert!(!Check::exact("n", Amount::Count(5), None).held);
        let word = |w: &str| Amount::Word(w.to_owned());
        assert!(!Check::exact("v", word("VALID"), Some(word("TOO-SHORT"))).held);
        for (measured, held) in [(94.9, false), (95.0, true), (105.0, true), (105.1, false)] {
            assert_eq!(Check::near("mean", 100.0, Some(measured)).held, held, "{measured}");
        }
        assert!(!Check::near("mean", 100.0, None).held);
        assert!(!Check::within("w", word("x"), (0.0, 1.0), Some(word("x"))).held);
    }
}
