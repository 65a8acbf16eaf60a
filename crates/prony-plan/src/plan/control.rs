//! What decides whether a session makes a burst, how often, and in which alternative.

use serde::{Deserialize, Serialize};

use prony_base::rng;
use prony_base::units::Span;

/// The decisions at one burst. Conditions are texts, which [`crate::script`] compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The switches that start at this burst, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<Switch>,
    /// Whether the burst is made. Checked once, before its first repetition.
    #[serde(default, skip_serializing_if = "Gate::is_open")]
    pub gate: Gate,
    /// What ends its repetitions before their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Whether its only request is made again if it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// The conditions of a step. Without any, the step is always made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The step is made only if this condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The step is made only if this condition does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
}

/// Alternatives, of which a session makes one. They are the next bursts, one alternative after the
/// other; a switch within an alternative starts at one of its bursts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Whether the switch is made.
    #[serde(default, skip_serializing_if = "Gate::is_open")]
    pub gate: Gate,
    /// The alternatives, in order. One of them has a burst.
    pub alternatives: Vec<Alternative>,
}

/// An alternative of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// How often it is chosen, relative to the others.
    pub weight: u32,
    /// The number of its bursts; 0: the session makes nothing.
    pub bursts: u32,
}

/// A condition that ends the repetitions of a burst.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    /// The condition, checked after each repetition.
    pub condition: String,
    /// What happens if it does not hold after the last repetition.
    #[serde(default)]
    pub at_limit: AtLimit,
}

/// What happens if a burst was repeated as often as it may be, and its condition does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtLimit {
    /// The session has failed, as after a failed request.
    #[default]
    Fail,
    /// The session continues.
    Continue,
}

/// How a failed request is made again: each time as another request, after a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How often, at least once.
    pub times: u32,
    /// The wait before the first retry.
    pub wait: Span,
    /// By what each further wait is longer than the one before, in thousandths.
    pub factor: u32,
    /// The longest wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// By what part a wait may be shorter or longer, in thousandths: uniformly distributed.
    pub jitter: u32,
    /// The failures after which the request is made again. Never empty.
    pub on: Vec<RetryOn>,
}

/// A group of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryOn {
    /// A status that does not count as success.
    Status,
    /// Any other valid reply that does not count as success.
    Reply,
    /// No reply within the timeout.
    Timeout,
    /// The connection broke.
    Lost,
    /// The connection could not be opened.
    Connect,
}

impl Gate {
    /// Whether there is no condition.
    pub fn is_open(&self) -> bool {
        self.when.is_none() && self.unless.is_none()
    }

    fn conditions(&self) -> impl Iterator<Item = &String> {
        self.when.iter().chain(&self.unless)
    }
}

impl Control {
    /// Whether it decides nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        let gates = self.switches.iter().map(|switch| &switch.gate).chain([&self.gate]);
        let until = self.until.iter().map(|until| &until.condition);
        gates.flat_map(Gate::conditions).chain(until).map(String::as_str)
    }

    /// Replace its conditions.
    pub(super) fn hide(&mut self, text: &str) {
        let gates = self.switches.iter_mut().map(|switch| &mut switch.gate);
        for gate in gates.chain([&mut self.gate]) {
            for condition in gate.when.iter_mut().chain(&mut gate.unless) {
                text.clone_into(condition);
            }
        }
        if let Some(until) = &mut self.until {
            text.clone_into(&mut until.condition);
        }
    }
}

impl Retry {
    /// The wait before retry `n`, from 0, with 64 random bits.
    pub fn wait(&self, n: u32, bits: u64) -> Span {
        let most = self.max.unwrap_or(Self::WAIT_MAX).min(Self::WAIT_MAX);
        let mut wait = self.wait.min(most);
        for _ in 0..n {
            if wait == most || self.factor == 1000 {
                break;
            }
            let next = u128::from(wait.0) * u128::from(self.factor) / 1000;
            wait = Span(u64::try_from(next).unwrap_or(u64::MAX)).min(most);
        }
        if self.jitter == 0 {
            return wait;
        }
        let part = u128::from(wait.0) * u128::from(self.jitter.min(1000)) / 1000;
        let part = part as u64;
        rng::uniform(bits, Span(wait.0 - part), Span(wait.0 + part)).min(most)
    }

    /// No wait is longer.
    const WAIT_MAX: Span = Span::from_secs(24 * 60 * 60);

    /// Check the values.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.times == 0 {
            return Err("a request must be made again at least once (`times`)".into());
        }
        if self.factor < 1000 {
            return Err("the factor of the waits must be at least 1".into());
        }
        if self.jitter > 1000 {
            return Err("the jitter of the waits must be from 0 to 1".into());
        }
        if self.on.is_empty() {
            return Err("there is no failure after which the request is made again (`on`)".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(factor: u32, max: Option<u64>, jitter: u32) -> Retry {
        let (wait, max) = (Span::from_millis(100), max.map(Span::from_millis));
        Retry { times: 9, wait, factor, max, jitter, on: vec![RetryOn::Status] }
    }

    #[test]
    fn waits_grow_by_the_factor_up_to_the_longest() {
        let waits = |retry: Retry| [0, 1, 2, 3, 8].map(|n| retry.wait(n, 7).0 / 1_000_000);
        assert_eq!(waits(retry(2_000, None, 0)), [100, 200, 400, 800, 25_600]);
        assert_eq!(waits(retry(1_500, Some(300), 0)), [100, 150, 225, 300, 300]);
        assert_eq!(waits(retry(1_000, None, 0)), [100; 5]);
        assert_eq!(waits(retry(2_000, Some(50), 0)), [50; 5]);
        assert_eq!(retry(u32::MAX, None, 0).wait(u32::MAX, 0), Retry::WAIT_MAX);
    }

    #[test]
    fn jitter_moves_a_wait_by_no_more_than_its_part() {
        let retry = retry(1_000, None, 200);
        assert_eq!(retry.wait(0, 0), Span::from_millis(80));
        assert_eq!(retry.wait(0, u64::MAX), Span::from_millis(120));
        let middle = retry.wait(0, 1 << 63).0;
        assert!((99_999_999..=100_000_001).contains(&middle), "{middle}");
    }
}
