//! The index of dispersion of arrivals: how bursty they are, at several scales of time.
//!
//! For windows of a length that follow each other without gaps, it is the variance of the numbers
//! of arrivals in them, divided by the mean. It is 1 for a Poisson process at every length, 0 for
//! arrivals at equal distances that divide the window, and above 1 for bursts.

/// The lengths of the windows, in nanoseconds: 1 ms, 10 ms, 100 ms, 1 s, 10 s, 100 s.
pub const WINDOWS: [u64; 6] =
    [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000];
/// Of fewer windows no figure is made.
const WINDOWS_MIN: u64 = 10;

/// Counts arrivals in windows of each length.
#[derive(Clone, Debug, Default)]
pub struct Dispersion {
    counts: [Counts; WINDOWS.len()],
    last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Windows that are complete.
    windows: u64,
    mean: f64,
    /// The sum of the squares of the distances from the mean.
    squares: f64,
    /// Arrivals in the window that is not complete.
    open: u64,
}

impl Counts {
    /// The open window is number `window` now.
    #[inline]
    fn move_to(&mut self, window: u64) {
        if window > self.windows {
            let arrivals = std::mem::take(&mut self.open);
            self.add(arrivals as f64, 1);
            // Windows without an arrival.
            self.add(0.0, window - self.windows);
        }
    }

    /// Several windows with this number of arrivals each.
    fn add(&mut self, arrivals: f64, windows: u64) {
        if windows == 0 {
            return;
        }
        let (before, n) = (self.windows as f64, windows as f64);
        let distance = arrivals - self.mean;
        self.windows += windows;
        let all = self.windows as f64;
        self.mean += distance * n / all;
        self.squares += distance * distance * before * n / all;
    }
}

impl Dispersion {
    /// An arrival at this time since the first, in nanoseconds. One that is earlier than the one
    /// before counts at the time of that.
    #[inline]
    pub fn add(&mut self, at: u64) {
        self.last = self.last.max(at);
        for (counts, length) in self.counts.iter_mut().zip(WINDOWS) {
            counts.move_to(self.last / length);
            counts.open += 1;
        }
    }

    /// The index for each length of [`WINDOWS`], from the windows that are complete at `end`;
    /// `None` if they are fewer than 10, or have no arrival.
    pub fn indices(&self, end: u64) -> [Option<f64>; WINDOWS.len()] {
        let mut indices = [None; WINDOWS.len()];
        for ((index, counts), length) in indices.iter_mut().zip(self.counts).zip(WINDOWS) {
            let mut counts = counts;
            counts.move_to(end / length);
            if counts.windows >= WINDOWS_MIN && counts.mean > 0.0 {
                *index = Some(counts.squares / (counts.windows - 1) as f64 / counts.mean);
            }
        }
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_base::rng::{Stream, keyed, uniform};
    use prony_base::units::Span;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_definition(gaps in prop::collection::vec(0_u64..4_000_000, 1..200)) {
            let mut dispersion = Dispersion::default();
            let mut times = Vec::new();
            let mut at = 0;
            for gap in gaps {
                at += gap;
                times.push(at);
                dispersion.add(at);
            }
            let end = at + 1_500_000;
            for (index, length) in dispersion.indices(end).into_iter().zip(WINDOWS) {
                let n = end / length;
                let mut counts = vec![0.0; n as usize];
                for time in &times {
                    if let Some(count) = counts.get_mut((time / length) as usize) {
                        *count += 1.0;
                    }
                }
                let mean = counts.iter().sum::<f64>() / n as f64;
                let squares: f64 = counts.iter().map(|c| (c - mean) * (c - mean)).sum();
                let expected = (n >= 10 && mean > 0.0).then(|| squares / (n - 1) as f64 / mean);
                prop_assert_eq!(index.is_some(), expected.is_some());
                let distance = (index.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs();
                prop_assert!(distance < 1e-9, "{:?} {:?}", index, expected);
            }
        }
    }

    #[test]
    fn is_1_for_poisson_arrivals_0_for_even_ones_and_the_size_of_bursts() {
        let n = 200_000;
        // Uniform draws on 200 s, sorted, are Poisson arrivals given their number.
        let mut poisson: Vec<u64> = (0..n)
            .map(|i| uniform(keyed(1, Stream::Arrivals, i, 0), Span(0), Span(200_000_000_000)).0)
            .collect();
        poisson.sort_unstable();
        let even: Vec<u64> = (0..n).map(|i| i * 1_000_000).collect();
        // The same Poisson arrivals, as bursts of five.
        let bursts: Vec<u64> =
            poisson.iter().map(|at| at - at % 5).flat_map(|at| [at; 5]).collect();
        for (times, expected) in [(poisson, 1.0), (even, 0.0), (bursts, 5.0)] {
            let mut dispersion = Dispersion::default();
            times.iter().for_each(|at| dispersion.add(*at));
            let indices = dispersion.indices(200_000_000_000);
            // A standard deviation of sqrt(2 / windows), and 4 of them, for up to 1 s.
            for (index, windows) in indices.into_iter().zip([200_000.0, 20_000.0, 2000.0, 200.0]) {
                let bound = expected * 4.0 * f64::sqrt(2.0 / windows) + 1e-9;
                let index = index.expect("enough windows");
                assert!((index - expected).abs() <= bound, "{index} {expected}");
            }
            assert_eq!((indices[4].is_some(), indices[5]), (true, None));
        }
    }
}
