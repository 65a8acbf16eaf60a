//! The sum of many exponential draws, with one logarithm for several draws.

use super::Sequence;

/// The number of draws that are multiplied before a logarithm is taken. Each is at least 2^-53, so
/// the product does not underflow.
const BLOCK: u32 = 16;

/// A running sum of exponential draws with mean 1.
///
/// A draw is -ln u, so a sum of draws is -ln of a product. The logarithms are taken at fixed
/// numbers of draws, so the sum after k draws has the same bits regardless of how the draws are
/// batched.
#[derive(Clone, Debug)]
pub struct ExponentialSum {
    draws: Sequence,
    /// The sum of the complete blocks.
    whole: f64,
    /// The product of the uniform draws of the current block.
    product: f64,
    /// The number of draws in the current block.
    drawn: u32,
}

impl ExponentialSum {
    /// An empty sum over these draws.
    pub fn new(draws: Sequence) -> Self {
        Self { draws, whole: 0.0, product: 1.0, drawn: 0 }
    }

    /// Add the next `n` draws.
    #[inline]
    pub fn draw(&mut self, mut n: u64) {
        while n > 0 {
            let now = n.min(u64::from(BLOCK - self.drawn));
            for _ in 0..now {
                // In (0, 1], so that the logarithm is finite.
                self.product *= 1.0 - self.draws.unit();
            }
            self.drawn += now as u32;
            n -= now;
            if self.drawn == BLOCK {
                self.whole -= libm::log(self.product);
                (self.product, self.drawn) = (1.0, 0);
            }
        }
    }

    /// The sum.
    #[inline]
    pub fn value(&self) -> f64 {
        self.whole - libm::log(self.product)
    }

    /// Add `more` in place of draws that are skipped.
    pub fn add(&mut self, more: f64) {
        self.whole += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stream, unit};

    fn sum() -> ExponentialSum {
        ExponentialSum::new(Sequence::new(7, Stream::Arrivals))
    }

    #[test]
    fn sum_does_not_depend_on_the_batch_size() {
        let mut one = sum();
        let values: Vec<f64> = std::iter::repeat_with(|| {
            one.draw(1);
            one.value()
        })
        .take(1_000)
        .collect();
        for step in [2, 3, 5, 16, 17, 100] {
            let mut other = sum();
            for k in (0..1_000 / step).map(|k| k * step) {
                other.draw(step as u64);
                assert_eq!(other.value().to_bits(), values[k + step - 1].to_bits(), "{step}");
            }
        }
    }

    #[test]
    fn sum_is_the_sum_of_the_logarithms() {
        let (mut sum, mut draws, mut plain) = (sum(), Sequence::new(7, Stream::Arrivals), 0.0);
        for k in 1..=100_000 {
            sum.draw(1);
            plain -= (1.0 - unit(draws.next_u64())).ln();
            assert!((sum.value() - plain).abs() <= 1e-12 * plain, "{k}: {} {plain}", sum.value());
        }
    }
}
