//! The saved result of a self-test: documented in `docs/selftest.md`, with the schema
//! `docs/schema/selftest-1.json`.

use prony_io::host::Host;
use serde::{Deserialize, Serialize};

use super::advice::Advice;

/// The version of the format. It increases when a field is removed or changes its meaning, not when
/// one is added.
pub(crate) const SCHEMA: u32 = 1;

/// The result of a self-test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// prony's version.
    pub version: String,
    /// Its start, in seconds since 1970 (UTC).
    pub started_unix: f64,
    /// Its duration in seconds.
    pub seconds: f64,
    /// Whether it ran with `--quick`.
    pub quick: bool,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// Whether all checks ran and passed.
    pub passed: bool,
    /// The host.
    pub host: Host,
    /// The cores of the client; equal to `server_cores` on a single core.
    pub client_cores: Vec<usize>,
    /// The cores of the server.
    pub server_cores: Vec<usize>,
    /// The comparisons with known values.
    pub checks: Vec<Check>,
    /// The shortest measurable times; `None` if the user interrupted the test before.
    pub floor: Option<Floor>,
    /// The send lag, by rate.
    pub lags: Vec<Lag>,
    /// The highest rates with the verdict `VALID`.
    pub rates: Vec<Rate>,
    /// The share of the CPU time that other processes used during the test, from 0 to 1, if it is
    /// known.
    #[serde(default)]
    pub others: Option<f64>,
    /// Suggested improvements of the host.
    pub advice: Vec<Advice>,
}

/// A comparison of measurements with known values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Its name.
    pub name: String,
    /// Its description.
    pub what: String,
    /// Its figures; empty if no run finished.
    pub comparisons: Vec<Comparison>,
    /// The number of attempts.
    pub tries: u32,
    /// Whether the last attempt passed.
    pub passed: bool,
}

/// One figure of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Its name.
    pub what: String,
    /// The known value.
    pub expected: Amount,
    /// The accepted range, in the unit of `expected`; `None` accepts only `expected`.
    pub accepted: Option<(f64, f64)>,
    /// The measured value; `None` without a measurement.
    pub measured: Option<Amount>,
    /// Whether the measured value is accepted.
    pub passed: bool,
}

/// A figure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Amount {
    /// Nanoseconds.
    Ns(f64),
    /// A count.
    Count(u64),
    /// A number without a unit.
    Number(f64),
    /// A word.
    Word(String),
}

/// The shortest times that can be measured on the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Floor {
    /// The resolution of the clock, as reported by the kernel.
    pub clock_resolution_ns: u64,
    /// The smallest observed difference of two readings.
    pub clock_step_ns: u64,
    /// The duration of one reading.
    pub clock_read_ns: f64,
    /// The longest interruption of a thread that never sleeps.
    pub longest_gap_ns: u64,
    /// How late a sleep of 100 us ends: median.
    pub sleep_late_p50_ns: u64,
    /// The same: 99th percentile.
    pub sleep_late_p99_ns: u64,
    /// Loopback round trips of one request at a time, by driver.
    pub loopback: Vec<Loopback>,
}

/// Round trips of one request at a time on one connection, to a server without latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loopback {
    /// The driver.
    pub driver: String,
    /// The number of round trips.
    pub count: u64,
    /// The shortest time.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile; `None` with too few samples.
    pub p99_ns: Option<u64>,
}

/// The send lag of an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lag {
    /// Requests per second.
    pub rate: f64,
    /// The median; `None` with too few samples.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The maximum.
    pub max_ns: Option<u64>,
    /// The verdict of the run.
    pub verdict: String,
}

/// The highest rate with the verdict `VALID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// The kind of load: `closed`, `open`, `pipelined`, `tls`.
    pub load: String,
    /// The driver.
    pub driver: String,
    /// Replies per second; `None` if no run was valid.
    pub per_second: Option<f64>,
    /// The number of connections of this run; in an open loop, the target rate.
    pub given: Option<u64>,
    /// CPU use of the busiest thread, 0 to 1.
    pub busy: Option<f64>,
    /// Why the search found no higher rate.
    pub limit_reason: String,
}

impl Record {
    /// The number of checks that passed.
    pub(crate) fn checks_passed(&self) -> usize {
        self.checks.iter().filter(|c| c.passed).count()
    }
}

impl Comparison {
    /// Accepts only the expected value.
    pub(crate) fn exact(what: &str, expected: Amount, measured: Option<Amount>) -> Self {
        let passed = measured.as_ref() == Some(&expected);
        Self { what: what.to_owned(), expected, accepted: None, measured, passed }
    }

    /// Accepts values in the range, including its ends.
    pub(crate) fn within(
        what: &str,
        expected: Amount,
        accepted: (f64, f64),
        measured: Option<Amount>,
    ) -> Self {
        let number = measured.as_ref().and_then(Amount::number);
        let passed = number.is_some_and(|n| (accepted.0..=accepted.1).contains(&n));
        Self { what: what.to_owned(), expected, accepted: Some(accepted), measured, passed }
    }

    /// Accepts the expected value within 5 %.
    pub(crate) fn near(what: &str, expected_ns: f64, measured_ns: Option<f64>) -> Self {
        let accepted = (expected_ns * 0.95, expected_ns * 1.05);
        Self::within(what, Amount::Ns(expected_ns), accepted, measured_ns.map(Amount::Ns))
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
    fn comparisons_pass_only_with_an_accepted_measurement() {
        assert!(Comparison::exact("n", Amount::Count(5), Some(Amount::Count(5))).passed);
        assert!(!Comparison::exact("n", Amount::Count(5), Some(Amount::Count(6))).passed);
        assert!(!Comparison::exact("n", Amount::Count(5), None).passed);
        let word = |w: &str| Amount::Word(w.to_owned());
        assert!(!Comparison::exact("v", word("VALID"), Some(word("TOO-SHORT"))).passed);
        for (measured, passed) in [(94.9, false), (95.0, true), (105.0, true), (105.1, false)] {
            assert_eq!(
                Comparison::near("mean", 100.0, Some(measured)).passed,
                passed,
                "{measured}"
            );
        }
        assert!(!Comparison::near("mean", 100.0, None).passed);
        assert!(!Comparison::within("w", word("x"), (0.0, 1.0), Some(word("x"))).passed);
    }
}
