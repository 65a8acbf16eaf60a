//! Waits that the meter's user can tell apart: for a connection, for a stream, for a window.

use super::{Recorder, Stamps};
use crate::units::{Nanos, Span};

impl Recorder {
    /// A request failed that was never sent; its waits are in `stamps`.
    pub fn waited_in_vain(&mut self, stamps: &Stamps) {
        let times = &mut self.section(stamps.intended).tally.times;
        if stamps.queue > Span::ZERO {
            times.queue.record(stamps.queue);
        }
        if stamps.stream > Span::ZERO {
            times.stream_wait.record(stamps.stream);
        }
    }

    /// A request that has ended waited so long for the peer's permission to send more of it.
    #[cold]
    pub fn waited_for_window(&mut self, intended: Nanos, wait: Span) {
        self.section(intended).tally.times.flow_wait.record(wait);
    }
}
