//! A grid of capacities (logarithms), fine where they are likely.

/// Cells within the range of interest, and on each side of it.
const FINE: usize = 48;
const OUTER: usize = 10;

/// The edges and the middles of the cells.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) edges: Vec<f64>,
    pub(super) middles: Vec<f64>,
    /// The width of a fine cell.
    pub(super) fine: f64,
}

impl Grid {
    /// A grid over `range` that is fine within `window`.
    pub(super) fn around(range: (f64, f64), window: (f64, f64)) -> Self {
        let (low, high) = range;
        let even = |from: f64, to: f64, n: usize| {
            (0..n).map(move |i| from + (to - from) * i as f64 / n as f64)
        };
        let from = window.0.clamp(low + 1e-6, high - 2e-4);
        let to = window.1.clamp(from + 1e-4, high - 1e-6);
        let outer = even(low, from, OUTER).chain(even(from, to, FINE));
        let edges = outer.chain(even(to, high, OUTER)).chain([high]).collect();
        Self::of(edges, (to - from) / FINE as f64)
    }

    /// An even grid.
    pub(super) fn even(from: f64, to: f64) -> Self {
        let edge = |i: usize| from + (to - from) * i as f64 / FINE as f64;
        Self::of((0..=FINE).map(edge).collect(), (to - from) / FINE as f64)
    }

    fn of(edges: Vec<f64>, fine: f64) -> Self {
        let middles = edges.windows(2).map(|e| f64::midpoint(e[0], e[1])).collect();
        Self { edges, middles, fine }
    }

    pub(super) fn width(&self, cell: usize) -> f64 {
        self.edges[cell + 1] - self.edges[cell]
    }

    pub(super) fn ends(&self) -> (f64, f64) {
        (self.edges[0], self.edges[self.edges.len() - 1])
    }
}
