//! How the requests, sessions and arrivals of a run are dealt to the shares of its plan.

use super::{Load, Plan, Shard};

/// The most connections of an open loop over which its arrivals are dealt. With more, the shares'
/// connections differ by less than a thousandth, and arrival k belongs to share k modulo their
/// number, which is simpler to compute.
const DEALT_MAX: u32 = 1_000;

/// Deals what a run numbers from 0 (requests, sessions, arrivals) to its shares: number k belongs
/// to connection k modulo their number, and connection c to share c modulo theirs. Each connection,
/// or user, has its part of the load then, whatever the number of shares: of three users on two
/// threads, the thread with two of them makes two thirds of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    shard: Shard,
    /// After how many numbers the deal repeats.
    round: u64,
    /// How many of these are this share's.
    own: u64,
}

impl Deal {
    /// The deal over this number of connections.
    pub fn new(shard: Shard, connections: u32) -> Self {
        let (connections, of) = (u64::from(connections), u64::from(shard.of));
        // Equal shares, as those of any multiple of their number.
        let round = if connections.is_multiple_of(of) { of } else { connections };
        Self { shard, round, own: shard.share_of(round) }
    }

    /// How many of the first `total` numbers are this share's.
    pub fn count(&self, total: u64) -> u64 {
        total / self.round * self.own + self.shard.share_of(total % self.round)
    }

    /// The share's number `k`, counted from 0. A share without connections has none: `u64::MAX`.
    pub fn nth(&self, k: u64) -> u64 {
        let (Some(rounds), Some(place)) = (k.checked_div(self.own), k.checked_rem(self.own)) else {
            return u64::MAX;
        };
        let place = place * u64::from(self.shard.of) + u64::from(self.shard.index);
        rounds.saturating_mul(self.round).saturating_add(place)
    }

    /// The share's first number that is not below `number`.
    pub fn next_from(&self, number: u64) -> u64 {
        self.nth(self.count(number))
    }

    /// Whether the number is this share's.
    pub fn has(&self, number: u64) -> bool {
        number % self.round % u64::from(self.shard.of) == u64::from(self.shard.index)
    }

    /// The distance between any two neighboring numbers of the share; `None` if it varies.
    pub fn step(&self) -> Option<u64> {
        let of = u64::from(self.shard.of);
        (self.round == of).then_some(of)
    }

    /// After how many numbers the deal repeats.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The share's part of the whole, 0 to 1.
    pub fn part(&self) -> f64 {
        self.own as f64 / self.round as f64
    }
}

impl Plan {
    /// How requests, sessions and arrivals are dealt to this share.
    pub fn deal(&self) -> Deal {
        self.deal_of(self.shard)
    }

    /// How they are dealt to that share of the whole plan.
    pub fn deal_of(&self, shard: Shard) -> Deal {
        let connections = match &self.load {
            Load::Closed { connections, .. } => *connections,
            // A log deals its requests by itself.
            Load::Open { .. } if self.is_logged() => shard.of,
            Load::Open { connections, .. } => {
                let planned = self.connections_planned.unwrap_or(*connections);
                if planned <= DEALT_MAX { planned } else { shard.of }
            }
        };
        Deal::new(shard, connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All shares of a deal.
    fn deals(connections: u32, of: u32) -> Vec<Deal> {
        (0..of).map(|index| Deal::new(Shard { index, of }, connections)).collect()
    }

    #[test]
    fn each_number_belongs_to_one_share_and_each_connection_has_its_part() {
        for (connections, of) in (1..14).flat_map(|c| (1..9).map(move |of| (c, of))) {
            let deals = deals(connections, of);
            for total in 0..40_u64 {
                let what = format!("{total} over {connections} connections in {of} shares");
                let counts: Vec<u64> = deals.iter().map(|deal| deal.count(total)).collect();
                assert_eq!(counts.iter().sum::<u64>(), total, "{what}");
                // Connection c of the whole makes the requests c, c + C, c + 2C, ...
                let of_connection =
                    |c: u64| Shard { index: c as u32, of: connections }.share_of(total);
                for (index, count) in counts.iter().enumerate() {
                    let own = (index as u64..connections.into()).step_by(of as usize);
                    assert_eq!(*count, own.map(of_connection).sum::<u64>(), "{what}, {index}");
                }
            }
            for (index, deal) in deals.iter().enumerate() {
                let own: Vec<u64> = (0..200).filter(|&number| deal.has(number)).collect();
                let listed = (0..own.len() as u64).map(|k| deal.nth(k));
                assert_eq!(listed.collect::<Vec<_>>(), own, "{connections} {of} {index}");
                for from in 0..100 {
                    let next = own.iter().copied().find(|&number| number >= from);
                    let found = Some(deal.next_from(from)).filter(|&n| n < u64::MAX);
                    assert_eq!(found, next, "{connections} {of} {index} {from}");
                }
                let steps = own.windows(2).map(|pair| pair[1] - pair[0]);
                if let Some(step) = deal.step() {
                    assert!(steps.into_iter().all(|other| other == step));
                }
            }
            let whole: f64 = deals.iter().map(Deal::part).sum();
            assert!((whole - 1.0).abs() < 1e-9);
        }
    }

    /// Processes with different numbers of threads: what one deals to its threads is what it has.
    #[test]
    fn a_share_that_is_split_again_keeps_its_numbers() {
        for connections in 1..20 {
            let shares = [Shard { index: 0, of: 3 }, Shard { index: 4, of: 6 }];
            for (shard, again) in shares.into_iter().zip([4, 2]) {
                let whole = Deal::new(shard, connections);
                let parts = (0..again)
                    .map(|i| Shard { index: shard.index + i * shard.of, of: shard.of * again });
                let parts: Vec<Deal> = parts.map(|part| Deal::new(part, connections)).collect();
                for number in 0..100 {
                    let having = parts.iter().filter(|part| part.has(number)).count();
                    assert_eq!(having, usize::from(whole.has(number)), "{connections} {number}");
                }
            }
        }
    }

    #[test]
    fn two_of_three_users_make_two_thirds_of_the_requests() {
        assert_eq!(deals(3, 2).iter().map(|deal| deal.count(60)).collect::<Vec<_>>(), [40, 20]);
        assert_eq!(deals(5, 2).iter().map(|deal| deal.count(7)).collect::<Vec<_>>(), [4, 3]);
    }
}
