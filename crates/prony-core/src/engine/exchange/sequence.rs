//! Whether the messages of a stream came twice or were missed, by their IDs.

/// The IDs of the messages of a stream, as far as they are numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    /// The greatest one.
    last: Option<u64>,
    order: Order,
    /// The stream was opened again, and no later message than before has arrived yet.
    pub(super) is_behind: bool,
}

/// How the IDs of successive messages of one connection differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// There was no second one.
    #[default]
    Unknown,
    /// Each is greater by one than that before it.
    ByOne,
    /// Each is greater than that before it.
    Rising,
    /// They have no order, or are no numbers.
    None,
}

impl Sequence {
    /// A message has arrived. Returns whether it came before, and how many were missed before it.
    pub(super) fn arrived(&mut self, id: Option<u64>) -> (bool, u64) {
        let Some(id) = id else {
            self.order = Order::None;
            return (false, 0);
        };
        let Some(last) = self.last else {
            (self.last, self.is_behind) = (Some(id), false);
            return (false, 0);
        };
        if self.is_behind && id <= last {
            return (self.order != Order::None, 0);
        }
        self.last = Some(id);
        let missed = match id.checked_sub(last) {
            Some(step) if step > 0 => step - 1,
            _ => {
                self.order = Order::None;
                0
            }
        };
        if std::mem::take(&mut self.is_behind) {
            return (false, if self.order == Order::ByOne { missed } else { 0 });
        }
        self.order = match (self.order, missed) {
            (Order::Unknown | Order::ByOne, 0) => Order::ByOne,
            (Order::Unknown | Order::ByOne | Order::Rising, _) => Order::Rising,
            (Order::None, _) => Order::None,
        };
        (false, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repeated and the missed messages of a stream; 0 is an end of its connection.
    fn counts(ids: &[u64]) -> (u64, u64) {
        let (mut sequence, mut repeated, mut missed) = (Sequence::default(), 0, 0);
        for &id in ids {
            if id == 0 {
                sequence.is_behind = true;
                continue;
            }
            let id = (id != u64::MAX).then_some(id);
            let (again, between) = sequence.arrived(id);
            repeated += u64::from(again);
            missed += between;
        }
        (repeated, missed)
    }

    #[test]
    fn messages_that_came_twice_or_were_missed_are_counted() {
        for (expected, ids) in [
            ((0, 0), &[1, 2, 3, 0, 4, 5][..]),
            ((2, 0), &[1, 2, 3, 0, 2, 3, 4]),
            ((0, 3), &[1, 2, 3, 0, 7, 8]),
            ((1, 2), &[1, 2, 3, 0, 3, 0, 6, 7]),
            ((3, 0), &[1, 2, 3, 0, 1, 2, 3, 0, 4]),
            // Nobody knows what was between them.
            ((0, 0), &[10, 20, 30, 0, 50]),
            ((1, 0), &[10, 20, 30, 0, 30, 40]),
            ((0, 0), &[1, 0, 5]),
            // They are no numbers, or have no order.
            ((0, 0), &[1, 2, u64::MAX, 3, 0, 2, 3, 9]),
            ((0, 0), &[5, 3, 4, 0, 3, 9]),
        ] {
            assert_eq!(counts(ids), expected, "{ids:?}");
        }
    }
}
