//! P7 without jitter: requests reach the server at the times of the schedule, to the nanosecond.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::Load;
use prony_plan::schedule::{Arrivals, RatePlan, Schedule};
use prony_server::serve::{Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::world::Setup;

use crate::plans::open;

const REQUESTS: u64 = 20_000;

/// When the requests of an open loop reach a server, over a perfect network.
fn arrived(arrivals: &Arrivals, shares: u32) -> Vec<Nanos> {
    let mut plan = open(1_600.0, arrivals.clone(), REQUESTS);
    if let (Arrivals::Uniform(..), Load::Open { rate, .. }) = (arrivals, &mut plan.load) {
        *rate = RatePlan::default();
    }
    let mut server = Serve::new(ServerBehavior::default(), 1);
    server.record_arrivals();
    load(&plan, shares, &Setup::new(Link::default(), 1), &mut [&mut server]);
    let mut schedule = Schedule::new(&plan);
    let intended: Vec<Nanos> =
        std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at).collect();
    assert!(server.arrivals() == intended, "{arrivals:?}: not at the intended times");
    intended
}

/// The Kolmogorov-Smirnov statistic of the inter-arrival times: the largest distance of their
/// distribution function from the expected one, times the square root of their number. One random
/// sample in a thousand exceeds 1.95; the samples here are always the same.
fn kolmogorov_smirnov(times: &[Nanos], expected: impl Fn(f64) -> f64) -> f64 {
    let mut gaps: Vec<f64> = times.windows(2).map(|w| w[1].since(w[0]).as_secs_f64()).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = |(i, gap): (usize, &f64)| {
        let p = expected(*gap);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    };
    gaps.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn fixed_arrivals_are_evenly_spaced() {
    for shares in [1, 3] {
        let grid: Vec<Nanos> = (0..REQUESTS).map(|k| Nanos(k * 625_000)).collect();
        assert!(arrived(&Arrivals::Fixed, shares) == grid, "in {shares} shares");
    }
}

#[test]
fn poisson_inter_arrival_times_are_exponential() {
    for shares in [1, 3] {
        let distance = kolmogorov_smirnov(&arrived(&Arrivals::Poisson, shares), |gap| {
            1.0 - (-gap * 1_600.0).exp()
        });
        assert!(distance < 1.95, "in {shares} shares: {distance}");
    }
}

#[test]
fn uniform_inter_arrival_times_are_uniform() {
    let uniform = Arrivals::Uniform(Span::from_micros(200), Span::from_millis(1));
    for shares in [1, 3] {
        let distance = kolmogorov_smirnov(&arrived(&uniform, shares), |gap| {
            ((gap - 2e-4) / 8e-4).clamp(0.0, 1.0)
        });
        assert!(distance < 1.95, "in {shares} shares: {distance}");
    }
}

/// With a whole shape, the distribution function has a closed form (Erlang's).
#[test]
fn gamma_inter_arrival_times_have_the_shape() {
    for shares in [1, 3] {
        for shape in [1_u32, 2, 4] {
            let arrived = arrived(&Arrivals::Gamma(f64::from(shape)), shares);
            let distance = kolmogorov_smirnov(&arrived, |gap| {
                let x = gap * 1_600.0 * f64::from(shape);
                let terms = (1..shape).scan(1.0, |term, k| {
                    *term *= x / f64::from(k);
                    Some(*term)
                });
                1.0 - (-x).exp() * (1.0 + terms.sum::<f64>())
            });
            assert!(distance < 1.95, "shape {shape} in {shares} shares: {distance}");
        }
    }
}
