//! Pausing and changing the rate with keys.

use prony_base::units::{Nanos, Span};

/// The minimum interval between changes. It merges the repetitions of a key that is held down.
const INTERVAL_MIN: Span = Span::from_millis(250);
/// The maximum number of steps: to a hundredth of the planned rate, or to over 100 times it.
const STEPS_MAX: i32 = 50;

/// The rate change that the keys have selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RateKeys {
    /// Each step raises the rate by a tenth.
    steps: i32,
    pub(super) paused: bool,
}

/// The selected and the applied rate change.
#[derive(Debug, Default)]
pub(super) struct RateControl {
    pub(super) keys: RateKeys,
    applied: RateKeys,
    /// When the next change may be applied.
    next: Nanos,
}

impl RateKeys {
    /// Processes a key. Returns whether it is one of these keys.
    pub(super) fn press(&mut self, key: u8) -> bool {
        match key {
            b'p' | b'P' | b' ' => self.paused = !self.paused,
            // The same keys without or with shift.
            b'+' | b'=' => self.steps = (self.steps + 1).min(STEPS_MAX),
            b'-' | b'_' => self.steps = (self.steps - 1).max(-STEPS_MAX),
            _ => return false,
        }
        true
    }

    /// The factor of the planned rate without a pause; exactly 1 after equal steps up and down.
    pub(super) fn pace(self) -> f64 {
        (1.1_f64.powi(self.steps) * 1e4).round() / 1e4
    }

    /// The factor of the planned rate.
    fn factor(self) -> f64 {
        if self.paused { 0.0 } else { self.pace() }
    }
}

impl RateControl {
    /// The new factor, if it changed and a change is due.
    pub(super) fn changed(&mut self, now: Nanos) -> Option<f64> {
        if self.keys.factor() == self.applied.factor() || now < self.next {
            return None;
        }
        self.applied = self.keys;
        self.next = now + INTERVAL_MIN;
        Some(self.applied.factor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn merges_repetitions_of_a_held_key() {
        let mut rate_control = RateControl::default();
        assert_eq!(rate_control.changed(at(0)), None);
        assert!(rate_control.keys.press(b'+'));
        assert_eq!(rate_control.changed(at(0)), Some(1.1));
        for _ in 0..3 {
            rate_control.keys.press(b'=');
        }
        assert_eq!(rate_control.changed(at(200)), None);
        assert_eq!(rate_control.changed(at(250)), Some(1.4641));
        for _ in 0..4 {
            rate_control.keys.press(b'-');
        }
        assert_eq!(rate_control.changed(at(900)), Some(1.0));
        assert!(!rate_control.keys.press(b'x'));
        assert_eq!(rate_control.changed(at(2_000)), None);
    }

    #[test]
    fn keeps_the_steps_during_a_pause() {
        let mut rate_control = RateControl::default();
        rate_control.keys.press(b'-');
        rate_control.keys.press(b'p');
        assert_eq!(rate_control.changed(at(0)), Some(0.0));
        // Steps during a pause apply after it.
        rate_control.keys.press(b'-');
        assert_eq!(rate_control.changed(at(1_000)), None);
        rate_control.keys.press(b'p');
        assert_eq!(rate_control.changed(at(2_000)), Some(0.8264));
    }

    #[test]
    fn limits_the_factor() {
        let mut keys = RateKeys::default();
        for _ in 0..1_000 {
            keys.press(b'-');
        }
        assert!(keys.pace() > 0.008);
        for _ in 0..1_000 {
            keys.press(b'+');
        }
        assert!((117.0..118.0).contains(&keys.pace()));
    }
}
