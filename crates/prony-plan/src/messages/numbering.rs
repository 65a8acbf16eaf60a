//! The numbers of streams with messages in a whole run.

use crate::plan::{Deal, Plan};

/// Numbers the streams of one share in the order in which they start. All shares together have each
/// number once, from 0: the streams of connection k, of which each has up to `per` at once, have
/// those from k * `per`.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    started: u64,
    deal: Deal,
    per: u64,
}

impl Numbering {
    /// The numbers of this share's streams.
    pub fn new(plan: &Plan) -> Self {
        let per = if plan.websocket.is_some() { plan.pipeline.max(1) } else { 1 };
        Self { started: 0, deal: plan.deal(), per: per.into() }
    }

    /// The number of the next stream.
    pub fn take(&mut self) -> u64 {
        let (round, place) = (self.started / self.per, self.started % self.per);
        self.started += 1;
        self.deal.nth(round) * self.per + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Shard;

    /// Five connections with three streams each, on two threads: 0 to 14, each once.
    #[test]
    fn shares_have_each_number_once() {
        let shares = [(0, 9), (1, 6)];
        let numbers = shares.map(|(index, streams)| {
            let deal = Deal::new(Shard { index, of: 2 }, 5);
            let mut numbers = Numbering { started: 0, deal, per: 3 };
            (0..streams).map(|_| numbers.take()).collect::<Vec<_>>()
        });
        assert_eq!(numbers[0], [0, 1, 2, 6, 7, 8, 12, 13, 14]);
        assert_eq!(numbers[1], [3, 4, 5, 9, 10, 11]);
        let deal = Deal::new(Shard { index: 1, of: 4 }, 8);
        let mut single = Numbering { started: 0, deal, per: 1 };
        assert_eq!([single.take(), single.take()], [1, 5]);
    }
}
