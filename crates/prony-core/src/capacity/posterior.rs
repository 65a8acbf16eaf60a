//! What the trials say of the capacity: its posterior distribution, on a grid of logarithms.
//!
//! Each trial has an excess: its share of requests beyond the limit over the share that the
//! threshold allows (for a mean, the mean over its limit). The mean of the excess at a rate is
//! `(rate / capacity)^slope`, 1 at the capacity. A share is without bias however short the trial
//! is, unlike the percentile of a trial. Its variance between trials is `dispersion` times its mean
//! (the times beyond a limit come in bursts, whose number is nearly Poisson): the double Poisson
//! distribution of Efron (JASA 81, 1986). Slope and dispersion are unknown, and summed out.

/// An excess outside of these is evidence of its side only: so far from the limit, the power of the
/// rate need not hold.
pub(super) const EXCESS_MIN: f64 = 0.25;
const EXCESS_MAX: f64 = 10.0;
/// The slopes: 1 to 512.
const SLOPE_MIN: f64 = 1.0;
const SLOPES: usize = 19;
/// The dispersions of a trial of usual length.
const DISPERSIONS: [f64; 10] = [0.004, 0.009, 0.02, 0.045, 0.09, 0.18, 0.36, 0.7, 1.4, 2.5];
/// The logarithm of the probability that a trial is disturbed and says nothing.
const DISTURBED: f64 = 10.0;
/// The same for the side that a trial shows; and for a short trial of the bracketing.
const DISTURBED_SIDE: f64 = 8.0;
const DISTURBED_SHORT: f64 = 3.0;
/// Cells of the grid within the range of interest, and on each side of it.
const FINE: usize = 64;
const OUTER: usize = 12;
/// The power of the likelihood. The bursts differ in size, so that the distribution is only nearly
/// a double Poisson: below 1, this widens the intervals, by 1 / sqrt of it. Set so that they cover
/// 95 % for the queues of the tests.
const CAUTION: f64 = 0.75;
/// The same of short trials: more of the bursts are cut off, or have not begun.
const CAUTION_SHORT: f64 = 0.5;
/// The same where the tail is heavy: the sizes of bursts vary far more, and the largest are rare.
const CAUTION_HEAVY: f64 = 0.4;
/// Of the share *q* of requests beyond the limit, an exponential tail leaves *q* beyond twice the
/// limit. A tail is heavy if it leaves more than *q* to this power.
const HEAVY: f64 = 0.5;
/// How many times as many bursts a search with a heavy tail must see.
const HEAVY_BURSTS: f64 = 4.0;
/// The drifts of the capacity during the search that are considered, on each side of none.
const DRIFTS: i32 = 24;
const DRIFT_STEP: f64 = 0.025;
/// How often the range of interest is moved until it holds most of the mass.
const ROUNDS: usize = 12;

/// The power of the likelihood of trials without a heavy tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Caution(f64);

impl Caution {
    /// By whether the trials are long.
    pub(super) fn of(is_long: bool) -> Self {
        Self(if is_long { CAUTION } else { CAUTION_SHORT })
    }
}

/// What one trial says of one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Datum {
    /// The logarithm of the rate.
    pub(super) rate: f64,
    /// The excess, at least 0.
    pub(super) excess: f64,
    /// The excess at twice the limit of a time, at least 0.
    pub(super) twice: f64,
    /// The share of requests that the threshold allows beyond its limit.
    pub(super) allowed: f64,
    /// The requests of the trial, as a share of those of a usual one.
    pub(super) weight: f64,
    /// Whether it is a short trial of the bracketing.
    pub(super) short: bool,
}

/// The posterior of the smallest capacity of several thresholds. Rates are logarithms.
#[derive(Clone, Debug)]
pub(super) struct Posterior {
    edges: Vec<f64>,
    mass: Vec<f64>,
    /// The threshold with the smallest capacity.
    pub(super) binding: usize,
    /// The change of the logarithm of its excess with that of the rate.
    pub(super) slope: f64,
    /// How many independent bursts of times beyond its limit the trials should contain, if the
    /// capacity is where it seems to be; `None` if no trial was near it.
    bursts: Option<f64>,
    caution: Caution,
}

/// One threshold's posterior on a grid.
struct Weighed {
    mass: Vec<f64>,
    slope: f64,
    /// The logarithm of the probability of the data, but for a constant.
    evidence: f64,
}

impl Posterior {
    /// The posterior from the data of each threshold; the prior is uniform over `range`. `window`
    /// is where most of the mass is expected.
    pub(super) fn of(
        data: &[Vec<Datum>],
        range: (f64, f64),
        window: (f64, f64),
        caution: Caution,
    ) -> Self {
        let active: Vec<usize> = (0..data.len()).filter(|&k| is_active(&data[k])).collect();
        let active = if active.is_empty() { (0..data.len()).collect() } else { active };
        let (low, high) = range;
        let even = |from: f64, to: f64, n: usize| {
            (0..n).map(move |i| from + (to - from) * i as f64 / n as f64)
        };
        let mut window = window;
        let mut rounds = 0;
        loop {
            let from = window.0.clamp(low + 1e-6, high - 2e-4);
            let to = window.1.clamp(from + 1e-4, high - 1e-6);
            let edges = even(low, from, OUTER)
                .chain(even(from, to, FINE))
                .chain(even(to, high, OUTER))
                .chain([high])
                .collect();
            let found = Self::on(data, &active, edges, caution);
            rounds += 1;
            let (least, most) = (found.quantile(0.005), found.quantile(0.995));
            let cell = (to - from) / FINE as f64;
            let is_inside = least > from && most < to;
            let is_fine = most - least > 10.0 * cell;
            if rounds == ROUNDS || (is_inside && is_fine) {
                let data = data.get(found.binding);
                let bursts = data.and_then(|data| found.bursts_of(data));
                return Self { bursts, ..found };
            }
            window = found.window();
        }
    }

    /// The relative error of the capacity that the skewness of few bursts can cause: the median of
    /// their sum lies below its mean by about a share of one burst.
    pub(super) fn skew(&self) -> f64 {
        self.bursts.map_or(0.0, |bursts| 1.0 / (bursts * self.slope))
    }

    /// The sum of the expected excesses over Pearson's dispersion: bursts whose number is Poisson.
    fn bursts_of(&self, data: &[Datum]) -> Option<f64> {
        let center = self.quantile(0.5);
        let (mut dispersion, mut sum, mut n) = (0.0, 0.0, 0.0);
        for datum in data.iter().filter(|datum| !datum.short) {
            let mean = (self.slope * (datum.rate - center)).exp();
            if !(EXCESS_MIN..=EXCESS_MAX).contains(&mean) {
                continue;
            }
            let excess = datum.excess.min(EXCESS_MAX);
            dispersion += datum.weight * (excess - mean).powi(2) / mean;
            sum += datum.weight * mean;
            n += 1.0;
        }
        let heavy = if is_heavy(data) { HEAVY_BURSTS } else { 1.0 };
        (dispersion > 0.0).then(|| sum * n / dispersion / heavy)
    }

    /// Where the next trial will leave most of the mass.
    pub(super) fn window(&self) -> (f64, f64) {
        let (least, most) = (self.quantile(0.005), self.quantile(0.995));
        let more = (most - least) * 0.4 + 1e-4;
        (least - more, most + more)
    }

    /// The drift of the capacity during the search and its standard error, as a logarithm: the
    /// posterior under trials whose rates are shifted in proportion to their time. `times` are
    /// those of the trials of the binding threshold, from -0.5 to 0.5.
    pub(super) fn drift(&self, data: &[Datum], times: &[f64]) -> (f64, f64) {
        let (low, high) = (self.edges[0], self.edges[self.edges.len() - 1]);
        let window = self.window();
        let (from, to) = ((window.0 - 0.15).max(low), (window.1 + 0.15).min(high));
        let edges: Vec<f64> =
            (0..=FINE).map(|i| from + (to - from) * i as f64 / FINE as f64).collect();
        let shifts: Vec<f64> = (-DRIFTS..=DRIFTS).map(|i| f64::from(i) * DRIFT_STEP).collect();
        let evidence = |drift: &f64| {
            let shifted =
                |(datum, time): (&Datum, &f64)| Datum { rate: datum.rate - drift * time, ..*datum };
            let shifted: Vec<Datum> = data.iter().zip(times).map(shifted).collect();
            weigh(&shifted, &edges, self.caution).evidence
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

    fn on(data: &[Vec<Datum>], active: &[usize], edges: Vec<f64>, caution: Caution) -> Self {
        let each: Vec<Weighed> = active.iter().map(|&k| weigh(&data[k], &edges, caution)).collect();
        let cells = edges.len() - 1;
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
        let slope = each.get(least).map_or(1.0, |w| w.slope);
        let binding = active.get(least).copied().unwrap_or(0);
        Self { edges, mass, binding, slope, bursts: None, caution }
    }

    /// The rate (its logarithm) below which the capacity lies with that probability.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let wanted = q * self.mass.iter().sum::<f64>();
        let mut sum = 0.0;
        for (i, &mass) in self.mass.iter().enumerate() {
            if sum + mass >= wanted && mass > 0.0 {
                let part = (wanted - sum) / mass;
                return self.edges[i] + part * (self.edges[i + 1] - self.edges[i]);
            }
            sum += mass;
        }
        self.edges[self.edges.len() - 1]
    }

    /// Half of the distance between the 16 % and the 84 % quantile: a standard deviation that far
    /// tails do not change.
    pub(super) fn deviation(&self) -> f64 {
        (self.quantile(0.84) - self.quantile(0.16)) / 2.0
    }
}

/// Whether a threshold was ever near its limit: one that holds everywhere by far says nothing of
/// where it would be missed.
fn is_active(data: &[Datum]) -> bool {
    data.iter().any(|datum| datum.excess > EXCESS_MIN)
}

/// Whether the times beyond the limit have a heavy tail.
fn is_heavy(data: &[Datum]) -> bool {
    let near = data.iter().filter(|datum| !datum.short && datum.excess <= EXCESS_MAX);
    let sums = near.map(|datum| [1.0, datum.excess, datum.twice].map(|x| x * datum.weight));
    let [all, once, twice] = sums.fold([0.0; 3], |sum, each| [0, 1, 2].map(|i| sum[i] + each[i]));
    let share = data.first().map_or(0.0, |datum| datum.allowed) * once / all.max(1e-9);
    twice > once * share.powf(HEAVY)
}

fn weigh(data: &[Datum], edges: &[f64], caution: Caution) -> Weighed {
    let cells = edges.len() - 1;
    let middles: Vec<f64> = edges.windows(2).map(|e| f64::midpoint(e[0], e[1])).collect();
    let slopes: Vec<f64> = (0..SLOPES).map(|i| SLOPE_MIN * 2_f64.powf(i as f64 / 2.0)).collect();
    let rows = DISPERSIONS.len();
    let mut logs = vec![0.0; SLOPES * rows * cells];
    for (n, &slope) in slopes.iter().enumerate() {
        let block = &mut logs[n * rows * cells..(n + 1) * rows * cells];
        for datum in data {
            add(datum, slope, &middles, block);
        }
    }
    let caution = if is_heavy(data) { CAUTION_HEAVY.min(caution.0) } else { caution.0 };
    logs.iter_mut().for_each(|log| *log *= caution);
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut mass = vec![0.0; cells];
    let (mut slope, mut total) = (0.0, 0.0);
    for (n, block) in logs.chunks(rows * cells).enumerate() {
        let mut weight = 0.0;
        for row in block.chunks(cells) {
            for (i, log) in row.iter().enumerate() {
                if *log > most - 30.0 {
                    let w = (log - most).exp() * (edges[i + 1] - edges[i]);
                    mass[i] += w;
                    weight += w;
                }
            }
        }
        total += weight;
        slope += weight * slopes[n].ln();
    }
    mass.iter_mut().for_each(|m| *m /= total);
    Weighed { mass, slope: (slope / total).exp(), evidence: most + total.ln() }
}

/// Adds the logarithm of the likelihood of a trial, for each dispersion and capacity.
fn add(datum: &Datum, slope: f64, capacities: &[f64], block: &mut [f64]) {
    let least = EXCESS_MIN;
    let is_side = datum.excess < least || datum.excess > EXCESS_MAX;
    let most = match (datum.short, is_side) {
        (true, _) => DISTURBED_SHORT,
        (false, true) => DISTURBED_SIDE,
        (false, false) => DISTURBED,
    };
    let excess = datum.excess.min(EXCESS_MAX);
    let deviance = |ln_mean: f64| {
        let own = if excess > 0.0 { excess * (excess.ln() - ln_mean) } else { 0.0 };
        own - excess + ln_mean.exp()
    };
    // Beyond its bounds, an excess agrees with any mean on the same side.
    let at_bound = if datum.excess < least { deviance(least.ln()) } else { 0.0 };
    let deviances = capacities.iter().map(|c| {
        let ln_mean = (slope * (datum.rate - c)).clamp(-20.0, 20.0);
        let agrees = (datum.excess < least && ln_mean <= least.ln())
            || (datum.excess > EXCESS_MAX && ln_mean >= EXCESS_MAX.ln());
        if agrees { 0.0 } else { (deviance(ln_mean) - at_bound).max(0.0) }
    });
    let deviances: Vec<f64> = deviances.collect();
    for (row, dispersion) in block.chunks_mut(capacities.len()).zip(DISPERSIONS) {
        let dispersion = dispersion / datum.weight;
        let scale = if is_side { 0.0 } else { -0.5 * dispersion.ln() };
        for (sum, deviance) in row.iter_mut().zip(&deviances) {
            *sum += scale - (deviance / dispersion).min(most - scale.min(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Sequence, Stream};

    const RANGE: (f64, f64) = (4.0, 9.0);

    fn datum(rate: f64, excess: f64) -> Datum {
        Datum { rate, excess, twice: 0.0, allowed: 0.01, weight: 1.0, short: false }
    }

    /// Trials in each of which a Poisson number of bursts lies beyond the limit, four at the
    /// capacity.
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
            datum(rate, f64::from(bursts) / 4.0)
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn interval_covers_the_capacity() {
        for slope in [2.0, 40.0] {
            let (runs, mut covered) = (100, 0);
            for seed in 0..runs {
                let found = Posterior::of(
                    &[trials(700.0, slope, 15, seed)],
                    RANGE,
                    RANGE,
                    Caution::of(true),
                );
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
        let mut found = Posterior::of(&[data.clone()], RANGE, RANGE, Caution::of(true));
        for i in 0..24 {
            let apart = found.deviation() * 0.8;
            let rate = found.quantile(0.5) + apart * (f64::from(i % 3) - 1.0);
            data.push(datum(rate, if rate < capacity.ln() { 0.0 } else { 50.0 }));
            found = Posterior::of(&[data.clone()], RANGE, RANGE, Caution::of(true));
        }
        let (lo, hi) = (found.quantile(0.025).exp(), found.quantile(0.975).exp());
        assert!(lo < capacity * 1.01 && capacity < hi * 1.01 && hi / lo < 1.05, "{lo} {hi}");
    }

    #[test]
    fn smallest_capacity_binds() {
        let both = [trials(900.0, 20.0, 12, 1), trials(600.0, 20.0, 12, 2)];
        let found = Posterior::of(&both, RANGE, RANGE, Caution::of(true));
        assert_eq!(found.binding, 1);
        assert!((found.quantile(0.5).exp() / 600.0 - 1.0).abs() < 0.04);
    }

    /// The same trials with the tail of a Pareto distribution give a wider interval.
    #[test]
    fn heavy_tail_widens_the_interval() {
        let width = |twice: &dyn Fn(f64) -> f64| {
            let mut data = trials(700.0, 4.0, 30, 1);
            data.iter_mut().for_each(|datum| datum.twice = twice(datum.excess));
            let found = Posterior::of(&[data.clone()], RANGE, RANGE, Caution::of(true));
            (is_heavy(&data), found.quantile(0.975) - found.quantile(0.025))
        };
        // Of 1 % beyond the limit, 1 % is beyond twice the limit.
        let (heavy, exponential) = width(&|excess| 0.01 * excess);
        assert!(!heavy);
        let (heavy, noisy) = width(&|excess| 0.08 * excess);
        assert!(!heavy);
        let (heavy, power) = width(&|excess| 0.5 * excess);
        assert!(heavy);
        assert_eq!(exponential, noisy);
        assert!((1.2..2.0).contains(&(power / exponential)), "{}", power / exponential);
    }
}
