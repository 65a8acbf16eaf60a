//! What the user wants of the rate: the keys that pause and change it.

use prony_core::units::{Nanos, Span};

/// Between two changes that are passed on: a key that is held down makes one of many.
const APART: Span = Span::from_millis(250);
/// The most steps away from the plan: a hundredth of its rate, and over a hundred times it.
const STEPS_MAX: i32 = 50;

/// Where the keys have brought the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wheel {
    /// Each makes the rate a tenth larger.
    steps: i32,
    pub(super) paused: bool,
}

/// The wheel, and what of it was passed on.
#[derive(Debug, Default)]
pub(super) struct Helm {
    pub(super) wheel: Wheel,
    told: Wheel,
    /// When the next change may be passed on.
    next: Nanos,
}

impl Wheel {
    /// Take in a key; whether it was one of these.
    pub(super) fn press(&mut self, key: u8) -> bool {
        match key {
            b'p' | b'P' | b' ' => self.paused = !self.paused,
            // Both marks of the keys without shift, too.
            b'+' | b'=' => self.steps = (self.steps + 1).min(STEPS_MAX),
            b'-' | b'_' => self.steps = (self.steps - 1).max(-STEPS_MAX),
            _ => return false,
        }
        true
    }

    /// By what the planned rate is multiplied when nothing is paused; 1 exactly after as many steps
    /// up as down.
    pub(super) fn pace(self) -> f64 {
        (1.1_f64.powi(self.steps) * 1e4).round() / 1e4
    }

    /// By what the planned rate is multiplied.
    fn factor(self) -> f64 {
        if self.paused { 0.0 } else { self.pace() }
    }
}

impl Helm {
    /// The factor that is to be passed on now, if it is a new one.
    pub(super) fn turned(&mut self, now: Nanos) -> Option<f64> {
        if self.wheel.factor() == self.told.factor() || now < self.next {
            return None;
        }
        self.told = self.wheel;
        self.next = now + APART;
        Some(self.told.factor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn keys_that_are_held_down_are_one_change() {
        let mut helm = Helm::default();
        assert_eq!(helm.turned(at(0)), None);
        assert!(helm.wheel.press(b'+'));
        assert_eq!(helm.turned(at(0)), Some(1.1));
        for _ in 0..3 {
            helm.wheel.press(b'=');
        }
        assert_eq!(helm.turned(at(200)), None);
        assert_eq!(helm.turned(at(250)), Some(1.4641));
        for _ in 0..4 {
            helm.wheel.press(b'-');
        }
        assert_eq!(helm.turned(at(900)), Some(1.0));
        assert!(!helm.wheel.press(b'x'));
        assert_eq!(helm.turned(at(2_000)), None);
    }

    #[test]
    fn a_pause_keeps_the_steps() {
        let mut helm = Helm::default();
        helm.wheel.press(b'-');
        helm.wheel.press(b'p');
        assert_eq!(helm.turned(at(0)), Some(0.0));
        // Steps of a pause count from its end on.
        helm.wheel.press(b'-');
        assert_eq!(helm.turned(at(1_000)), None);
        helm.wheel.press(b'p');
        assert_eq!(helm.turned(at(2_000)), Some(0.8264));
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut wheel = Wheel::default();
        for _ in 0..1_000 {
            wheel.press(b'-');
        }
        assert!(wheel.pace() > 0.008);
        for _ in 0..1_000 {
            wheel.press(b'+');
        }
        assert!((117.0..118.0).contains(&wheel.pace()));
    }
}
