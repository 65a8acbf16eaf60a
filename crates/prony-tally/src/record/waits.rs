//! The waits that are recorded apart: for a connection, for a stream, for a flow-control window.

use super::{Recorder, Stamps};
use prony_base::units::{Nanos, Span};

impl Recorder {
    /// Record the waits of a request that failed before it was sent.
    pub fn record_unsent_waits(&mut self, stamps: &Stamps) {
        let times = &mut self.section(stamps.intended).tally.times;
        if stamps.queue > Span::ZERO {
            times.queue.record(stamps.queue);
        }
        if stamps.stream > Span::ZERO {
            times.stream_wait.record(stamps.stream);
        }
    }

    /// A request that has ended waited `wait` for the peer's flow-control window.
    #[cold]
    pub fn waited_for_window(&mut self, intended: Nanos, wait: Span) {
        self.section(intended).tally.times.flow_wait.record(wait);
    }
}
