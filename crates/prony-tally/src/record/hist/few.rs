//! The bins of a histogram with few times: those that are not empty, in order.

/// Each bin, and how many times are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Few {
    bins: Vec<u16>,
    counts: Vec<u64>,
}

impl Few {
    pub(super) fn add(&mut self, bin: usize, n: u64) {
        // There are fewer bins than a u16 has values.
        let bin = bin as u16;
        match self.bins.binary_search(&bin) {
            Ok(at) => self.counts[at] += n,
            Err(at) => {
                self.bins.insert(at, bin);
                self.counts.insert(at, n);
            }
        }
    }

    pub(super) fn count(&self, bin: usize) -> u64 {
        self.bins.binary_search(&(bin as u16)).map_or(0, |at| self.counts[at])
    }

    /// The bins, in order, with their counts.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bins.iter().zip(&self.counts).map(|(&bin, &n)| (usize::from(bin), n))
    }

    pub(super) fn len(&self) -> usize {
        self.bins.len()
    }
}
