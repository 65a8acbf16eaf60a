//! The sum of many gamma draws.

use super::Sequence;

/// A running sum of gamma draws with mean 1, divided by which a rate gives the inter-arrival times
/// of a gamma renewal process: their squared coefficient of variation is 1 / shape.
///
/// Draws by the method of Marsaglia and Tsang ("A simple method for generating gamma variables",
/// 2000), which is exact. A draw takes as many numbers of the sequence as it needs, so a draw
/// cannot be skipped without making it; the draws are added one by one, so the sum after k draws
/// has the same bits regardless of how the draws are batched.
#[derive(Clone, Debug)]
pub struct GammaSum {
    draws: Sequence,
    shape: f64,
    /// The shape less a third; of shape + 1 if the shape is below 1.
    d: f64,
    /// 1 / sqrt(9 d).
    c: f64,
    /// The sum, times the shape.
    sum: f64,
}

impl GammaSum {
    /// An empty sum over these draws. The shape must be above 0.
    pub fn new(draws: Sequence, shape: f64) -> Self {
        let d = if shape < 1.0 { shape + 2.0 / 3.0 } else { shape - 1.0 / 3.0 };
        Self { draws, shape, d, c: 1.0 / (9.0 * d).sqrt(), sum: 0.0 }
    }

    /// Add the next `n` draws.
    pub fn draw(&mut self, n: u64) {
        for _ in 0..n {
            self.sum += self.one();
        }
    }

    /// The sum.
    pub fn value(&self) -> f64 {
        self.sum / self.shape
    }

    /// Add `more` in place of draws that are skipped.
    pub fn add(&mut self, more: f64) {
        self.sum += more * self.shape;
    }

    /// A gamma draw whose mean is the shape.
    fn one(&mut self) -> f64 {
        let draw = self.at_least_1();
        if self.shape >= 1.0 {
            return draw;
        }
        // In (0, 1], so that the logarithm is finite.
        let unit = 1.0 - self.draws.unit();
        draw * libm::exp(libm::log(unit) / self.shape)
    }

    /// A gamma draw of the shape, or of the shape + 1 if it is below 1.
    fn at_least_1(&mut self) -> f64 {
        loop {
            let x = self.draws.normal();
            let root = 1.0 + self.c * x;
            if root <= 0.0 {
                continue;
            }
            let cube = root * root * root;
            let unit = 1.0 - self.draws.unit();
            let square = x * x;
            // The first test, which needs no logarithm, decides in about 98 % of the cases.
            let is_inside = unit < 1.0 - 0.0331 * square * square
                || libm::log(unit) < 0.5 * square + self.d * (1.0 - cube + libm::log(cube));
            if is_inside {
                return self.d * cube;
            }
        }
    }
}

#[cfg(test)]
mod tests;
