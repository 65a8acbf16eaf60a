//! The pressure on the processors of a meter, in a summary.

use prony_base::meter::LATE;
use prony_base::units::Span;

use super::Summary;

impl Summary {
    /// The longest wall time of a worker.
    pub fn wall(&self) -> Span {
        self.workers.iter().map(|m| m.wall).max().unwrap_or_default()
    }

    /// The longest stall of any worker's event loop; `None` if none was longer than 1 ms.
    pub fn longest_stall(&self) -> Option<Span> {
        self.workers.iter().map(|m| m.stalls.longest).max().filter(|&t| t >= LATE)
    }

    /// The worker with the longest run-queue delay, and its share of the wall time.
    pub fn most_waiting(&self) -> Option<(usize, f64)> {
        let shares = self.workers.iter().enumerate().filter_map(|(i, m)| Some((i, m.waited()?)));
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
