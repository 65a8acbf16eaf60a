//! P7 where nothing jitters: requests reach the server at the times of the law, to the nanosecond.

use prony_core::plan::Load;
use prony_core::schedule::{Arrivals, RatePlan, Schedule};
use prony_core::serve::{Serve, ServeLaw};
use prony_core::units::{Nanos, Span};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::world::Setup;

use crate::plans::open;

const REQUESTS: u64 = 20_000;

/// When the requests of a load by that law reached a server, over a perfect network.
fn arrived(law: &Arrivals, shares: u32) -> Vec<Nanos> {
    let mut plan = open(1_600.0, law.clone(), REQUESTS);
    if let (Arrivals::Uniform(..), Load::Open { rate, .. }) = (law, &mut plan.load) {
        *rate = RatePlan::default();
    }
    let mut server = Serve::new(ServeLaw::default(), 1);
    server.record_arrivals();
    load(&plan, shares, &Setup::new(Link::default(), 1), &mut [&mut server]);
    let mut schedule = Schedule::new(&plan);
    let intended: Vec<Nanos> =
        std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at).collect();
    assert!(server.arrivals() == intended, "{law:?}: not at the intended times");
    intended
}

/// Kolmogorov and Smirnov: the largest distance of the gaps' distribution from the law's, times the
/// root of their number. One sample of a thousand exceeds 1.95 by chance; these never change.
fn statistic(times: &[Nanos], law: impl Fn(f64) -> f64) -> f64 {
    let mut gaps: Vec<f64> = times.windows(2).map(|w| w[1].since(w[0]).as_secs_f64()).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let far = |(i, gap): (usize, &f64)| {
        let p = law(*gap);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    gaps.iter().enumerate().map(far).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn fixed_arrivals_are_the_grid() {
    for shares in [1, 3] {
        let grid: Vec<Nanos> = (0..REQUESTS).map(|k| Nanos(k * 625_000)).collect();
        assert!(arrived(&Arrivals::Fixed, shares) == grid, "in {shares} shares");
    }
}

#[test]
fn poisson_gaps_are_exponential() {
    for shares in [1, 3] {
        let far =
            statistic(&arrived(&Arrivals::Poisson, shares), |gap| 1.0 - (-gap * 1_600.0).exp());
        assert!(far < 1.95, "in {shares} shares: {far}");
    }
}

#[test]
fn uniform_gaps_are_uniform() {
    let law = Arrivals::Uniform(Span::from_micros(200), Span::from_millis(1));
    for shares in [1, 3] {
        let far = statistic(&arrived(&law, shares), |gap| ((gap - 2e-4) / 8e-4).clamp(0.0, 1.0));
        assert!(far < 1.95, "in {shares} shares: {far}");
    }
}
