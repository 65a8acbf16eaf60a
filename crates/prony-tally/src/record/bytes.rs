//! Counts received bytes in the section in which they arrive.

use super::Recorder;
use prony_base::units::{Nanos, Span};

impl Recorder {
    /// Bytes were passed to the kernel.
    #[inline]
    pub fn bytes_sent(&mut self, now: Nanos, n: u64) {
        self.section(now).tally.bytes_sent += n;
    }

    /// Bytes have arrived.
    #[inline]
    pub fn bytes_received(&mut self, now: Nanos, n: u64) {
        if now >= self.bytes_until {
            self.sort_bytes(now);
        }
        self.bytes += n;
    }

    /// Assign the bytes so far to their section. Bytes that arrive from `now` to the next boundary
    /// (start of the measurement, end of the load) belong together.
    #[cold]
    pub(super) fn sort_bytes(&mut self, now: Nanos) {
        let n = std::mem::take(&mut self.bytes);
        let late = self.bytes_since > self.load_end;
        let t = &mut self.section(self.bytes_since).tally;
        t.bytes_received += n;
        t.bytes_in_drain += if late { n } else { 0 };
        let borders = [self.start, self.load_end + Span(1)];
        let next = borders.into_iter().filter(|&border| border > now).min();
        (self.bytes_since, self.bytes_until) = (now, next.unwrap_or(Nanos::MAX));
    }
}
