//! The posterior distribution of the capacity: the smallest of those of several thresholds.

use super::grid::Grid;
use super::likelihood::{Datum, Prior, Weighed, is_active};

/// The drifts of the capacity during the search that are considered, on each side of none.
const DRIFTS: i32 = 24;
const DRIFT_STEP: f64 = 0.025;
/// How often the range of interest is moved until it holds most of the mass.
const ROUNDS: usize = 8;

/// The data of a threshold, and what is known of its slope.
pub(super) type Known = (Vec<Datum>, Prior);

/// The posterior of the smallest capacity of several thresholds. Rates are logarithms.
#[derive(Clone, Debug)]
pub(super) struct Posterior {
    grid: Grid,
    mass: Vec<f64>,
    /// The threshold with the smallest capacity.
    pub(super) binding: usize,
    /// The change of the logarithm of its excess with that of the rate.
    pub(super) slope: f64,
    /// Its own posterior.
    own: Weighed,
}

impl Posterior {
    /// The posterior from the data of each threshold (at least one); the prior is uniform over
    /// `range`. `window` is where most of the mass is expected.
    pub(super) fn of(known: &[Known], range: (f64, f64), window: (f64, f64)) -> Self {
        let mut active: Vec<usize> = (0..known.len()).filter(|&k| is_active(&known[k].0)).collect();
        if active.is_empty() {
            active = (0..known.len()).collect();
        }
        let mut window = window;
        let mut rounds = 0;
        loop {
            let found = Self::on(known, &active, Grid::around(range, window));
            rounds += 1;
            let (least, most) = (found.quantile(0.005), found.quantile(0.995));
            let is_inside = least > window.0 && most < window.1;
            let is_fine = most - least > 8.0 * found.grid.fine;
            if rounds == ROUNDS || (is_inside && is_fine) {
                return found;
            }
            window = found.window();
        }
    }

    /// Where the next trial will leave most of the mass.
    pub(super) fn window(&self) -> (f64, f64) {
        let (least, most) = (self.quantile(0.005), self.quantile(0.995));
        let more = (most - least) * 0.4 + 1e-4;
        (least - more, most + more)
    }

    /// The drift of the capacity during the search and its standard error, as a logarithm: the
    /// posterior under trials whose rates are shifted in proportion to their time. `known` is that
    /// of the binding threshold, `times` are those of its trials, from -0.5 to 0.5.
    pub(super) fn drift(&self, known: &Known, times: &[f64]) -> (f64, f64) {
        let ends = self.grid.ends();
        let window = self.window();
        let grid = Grid::even((window.0 - 0.15).max(ends.0), (window.1 + 0.15).min(ends.1));
        let shifts: Vec<f64> = (-DRIFTS..=DRIFTS).map(|i| f64::from(i) * DRIFT_STEP).collect();
        let evidence = |drift: &f64| {
            let shifted =
                |(datum, time): (&Datum, &f64)| Datum { rate: datum.rate - drift * time, ..*datum };
            let shifted: Vec<Datum> = known.0.iter().zip(times).map(shifted).collect();
            Weighed::of(&shifted, known.1, &grid, Some(self.own.burst)).evidence
        };
        let logs: Vec<f64> = shifts.iter().map(evidence).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mean = weights.iter().zip(&shifts).map(|(w, d)| w * d).sum::<f64>() / total;
        let variance =
            weights.iter().zip(&shifts).map(|(w, d)| w * (d - mean).powi(2)).sum::<f64>() / total;
        (mean, variance.sqrt().max(DRIFT_STEP / 2.0))
    }

    fn on(known: &[Known], active: &[usize], grid: Grid) -> Self {
        let weigh = |&k: &usize| Weighed::of(&known[k].0, known[k].1, &grid, None);
        let mut each: Vec<Weighed> = active.iter().map(weigh).collect();
        let cells = grid.middles.len();
        // The probabilities that the capacity of each is above each edge.
        let above = |weighed: &Weighed| {
            let mut left = 1.0;
            let step = |m: &f64| {
                let before = left;
                left = (left - m).max(0.0);
                before
            };
            weighed.mass.iter().map(step).collect::<Vec<f64>>()
        };
        let survival: Vec<Vec<f64>> = each.iter().map(above).collect();
        let at = |k: usize, i: usize| survival[k].get(i).copied().unwrap_or(0.0);
        let all = |i: usize| (0..each.len()).map(|k| at(k, i)).product::<f64>();
        let mass: Vec<f64> = (0..cells).map(|i| (all(i) - all(i + 1)).max(0.0)).collect();
        let first = |k: usize| {
            let others = |i: usize| {
                let others = (0..each.len()).filter(|&l| l != k);
                others.map(|l| f64::midpoint(at(l, i), at(l, i + 1))).product::<f64>()
            };
            (0..cells).map(|i| each[k].mass[i] * others(i)).sum::<f64>()
        };
        let least = (0..each.len()).max_by(|&a, &b| first(a).total_cmp(&first(b))).unwrap_or(0);
        let binding = active.get(least).copied().unwrap_or(0);
        let own = each.swap_remove(least);
        Self { grid, mass, binding, slope: own.slope, own }
    }

    /// The rate (its logarithm) below which the capacity lies with that probability.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let wanted = q * self.mass.iter().sum::<f64>();
        let edges = &self.grid.edges;
        let mut sum = 0.0;
        for (i, &mass) in self.mass.iter().enumerate() {
            if sum + mass >= wanted && mass > 0.0 {
                return edges[i] + (wanted - sum) / mass * self.grid.width(i);
            }
            sum += mass;
        }
        self.grid.ends().1
    }

    /// Half of the distance between the 16 % and the 84 % quantile: a standard deviation that far
    /// tails do not change.
    pub(super) fn deviation(&self) -> f64 {
        (self.quantile(0.84) - self.quantile(0.16)) / 2.0
    }

    /// The excess of the binding threshold at a rate (a logarithm): the ends of its 95 % interval,
    /// and its median between them.
    pub(super) fn excess_at(&self, rate: f64) -> [f64; 3] {
        self.own.excess_at(rate, &self.grid, [0.025, 0.5, 0.975]).map(f64::exp)
    }
}

#[cfg(test)]
mod tests {
    use prony_base::rng::{Sequence, Stream};

    use super::super::likelihood::PARTS;
    use super::*;

    const RANGE: (f64, f64) = (4.0, 9.0);
    const PRIOR: Prior = Prior { saturation: None, depth: 4.6 };

    fn datum(rate: f64, excess: f64) -> Datum {
        Datum { rate, excess, allowed: 100.0, parts: None, short: false }
    }

    fn found(data: &[Datum]) -> Posterior {
        Posterior::of(&[(data.to_vec(), PRIOR)], RANGE, RANGE)
    }

    /// Trials in each of which a Poisson number of bursts of 25 requests lies beyond the limit,
    /// four at the capacity.
    fn trials(capacity: f64, slope: f64, n: usize, seed: u64) -> Vec<Datum> {
        let mut rng = Sequence::new(seed, Stream::Pick);
        let one = |i: usize| {
            let rate = capacity.ln() + 0.7 / slope * ((i % 3) as f64 - 1.0);
            let mean = (slope * (rate - capacity.ln())).exp() * 4.0;
            let (mut bursts, mut left) = (0_u32, (-mean).exp());
            let mut drawn = rng.unit();
            while drawn > left && bursts < 100 {
                drawn -= left;
                bursts += 1;
                left *= mean / f64::from(bursts);
            }
            let mut parts = [0.0; PARTS];
            (0..bursts).for_each(|_| parts[rng.below(PARTS as u64) as usize] += 25.0);
            Datum { parts: Some(parts), ..datum(rate, f64::from(bursts) / 4.0) }
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn interval_covers_the_capacity() {
        for slope in [4.0, 40.0] {
            let (runs, mut covered) = (100, 0);
            for seed in 0..runs {
                let found = found(&trials(700.0, slope, 15, seed));
                let (lo, hi) = (found.quantile(0.025).exp(), found.quantile(0.975).exp());
                covered += u64::from(lo <= 700.0 && 700.0 <= hi);
            }
            // 95 % of 100; the standard deviation is 2.2.
            assert!((88..=100).contains(&covered), "slope {slope}: {covered} of {runs}");
        }
    }

    #[test]
    fn step_is_found_by_its_sides() {
        let capacity = 812.0_f64;
        let mut data = Vec::new();
        let mut so_far = found(&data);
        for i in 0..24 {
            // As a search that is accurate enough ends.
            if so_far.quantile(0.975) - so_far.quantile(0.025) < 0.04 {
                break;
            }
            let apart = so_far.deviation() * 0.8;
            let rate = so_far.quantile(0.5) + apart * (f64::from(i % 3) - 1.0);
            data.push(datum(rate, if rate < capacity.ln() { 0.0 } else { 50.0 }));
            so_far = found(&data);
        }
        let (lo, hi) = (so_far.quantile(0.025).exp(), so_far.quantile(0.975).exp());
        assert!(lo < capacity * 1.01 && capacity < hi * 1.01 && hi / lo < 1.05, "{lo} {hi}");
    }

    #[test]
    fn smallest_capacity_binds() {
        let both = [(trials(900.0, 20.0, 12, 1), PRIOR), (trials(600.0, 20.0, 12, 2), PRIOR)];
        let found = Posterior::of(&both, RANGE, RANGE);
        assert_eq!(found.binding, 1);
        assert!((found.quantile(0.5).exp() / 600.0 - 1.0).abs() < 0.04);
    }

    /// The same excesses in larger bursts say less.
    #[test]
    fn bursts_widen_the_interval() {
        let width = |of: &dyn Fn(f64) -> [f64; PARTS]| {
            let mut data = trials(700.0, 10.0, 30, 1);
            data.iter_mut().for_each(|datum| datum.parts = Some(of(datum.excess * 100.0)));
            let found = found(&data);
            found.quantile(0.975) - found.quantile(0.025)
        };
        let even = width(&|beyond| [beyond / 4.0; PARTS]);
        let bursts = width(&|beyond| [0.0, beyond, 0.0, 0.0]);
        assert!((2.0..6.0).contains(&(bursts / even)), "{bursts} {even}");
    }

    /// The excess of the curve is 1 at the capacity, and its band holds it there.
    #[test]
    fn curve_goes_through_the_limit_at_the_capacity() {
        let found = found(&trials(700.0, 10.0, 30, 1));
        let [lo, at, hi] = found.excess_at(found.quantile(0.5));
        assert!((at - 1.0).abs() < 0.05 && lo < 1.0 && 1.0 < hi, "{lo} {at} {hi}");
        let [.., above] = found.excess_at(found.quantile(0.5) + 0.1);
        assert!(above > hi);
    }
}
