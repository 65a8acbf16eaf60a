//! httperf's random periods, identical to the last bit: the 48-bit generator of the C library,
//! seeded with the client's number.

use std::sync::Arc;

use prony_base::units::Span;

use super::values::Period;

/// The generator of `erand48`: 48 bits, linear congruential.
#[derive(Clone, Debug)]
pub(super) struct Rand48(u64);

const MASK: u64 = (1 << 48) - 1;

impl Rand48 {
    /// The generator of a client.
    pub(super) fn of_client(id: u64) -> Self {
        let word = |n: u64| n & 0xffff;
        let words = [word(0x1234 ^ id), word(0x5678 ^ (id << 8)), word(0x9abc ^ !id)];
        Self(words[2] << 32 | words[1] << 16 | words[0])
    }

    /// The next number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        self.0 as f64 / (MASK + 1) as f64
    }
}

/// The inter-arrival times in seconds, an infinite sequence.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    period: Period,
    draws: Rand48,
    /// The index of the current step, and how long it has lasted, in seconds.
    step: (usize, f64),
}

impl Gaps {
    pub(super) fn new(period: &Period, client: u64) -> Self {
        Self { period: period.clone(), draws: Rand48::of_client(client), step: (0, 0.0) }
    }
}

impl Iterator for Gaps {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        Some(match &self.period {
            Period::Sequential => return None,
            Period::Fixed(gap) => *gap,
            Period::Uniform(low, high) => low + (high - low) * self.draws.unit(),
            Period::Exponential(mean) => -mean * (1.0 - self.draws.unit()).ln(),
            Period::Steps(steps) => {
                let (at, lasted) = &mut self.step;
                let (gap, length) = steps[*at];
                *lasted += gap;
                if *lasted >= length {
                    (*at, *lasted) = ((*at + 1) % steps.len(), 0.0);
                }
                gap
            }
        })
    }
}

/// The times of `n` starts. The first is at 0; starts later than `until` (seconds) are omitted.
pub(super) fn times(period: &Period, client: u64, n: u64, until: f64) -> Arc<[Span]> {
    let mut at = 0.0;
    let mut gaps = Gaps::new(period, client);
    let mut next = |at: &mut f64| {
        *at += gaps.next()?.max(0.0);
        (*at <= until).then_some(*at)
    };
    let later = std::iter::from_fn(|| next(&mut at)).take(n.saturating_sub(1) as usize);
    [0.0].into_iter().chain(later).map(Span::from_secs_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(period: Period, client: u64, n: usize) -> Vec<String> {
        Gaps::new(&period, client).take(n).map(|gap| format!("{gap:.4}")).collect()
    }

    /// The expected values are what httperf printed with `-vvv`.
    #[test]
    fn draws_match_httperf() {
        let five = Period::Exponential(0.005);
        assert_eq!(printed(five.clone(), 0, 5), ["0.0083", "0.0016", "0.0005", "0.0028", "0.0051"]);
        assert_eq!(printed(five, 1, 5), ["0.0090", "0.0021", "0.0011", "0.0028", "0.0017"]);
        let fifty = Period::Exponential(0.05);
        assert_eq!(printed(fifty, 0, 6)[1..], ["0.0161", "0.0046", "0.0283", "0.0511", "0.0157"]);
    }

    #[test]
    fn steps_change_when_their_duration_has_passed() {
        // httperf took 1.35 s for twenty starts.
        let steps = Period::Steps(vec![(0.1, 0.5), (0.05, 0.5)]);
        let all = times(&steps, 0, 20, f64::INFINITY);
        assert_eq!((all.len(), all[19]), (20, Span::from_millis(1_350)));
        assert_eq!((all[5], all[16]), (Span::from_millis(500), Span::from_millis(1_050)));
    }

    #[test]
    fn starts_end_with_the_run() {
        let all = times(&Period::Uniform(0.5, 0.5), 0, 1_000_000, 2.0);
        assert_eq!(all.len(), 5);
        assert_eq!(times(&Period::Uniform(1.0, 2.0), 0, 1, 9.0).len(), 1);
    }
}
