//! The subscribers of a broadcast: what each has received.

use super::messages::Messages;
use prony_base::units::{Nanos, RequestId};
use prony_plan::messages::{Stamp, Subscription};
use prony_tally::record::Recorder;

impl Messages {
    /// The intended times of the messages that became due last, if they are stamped.
    pub(in crate::engine) fn due_times(&self) -> &[Nanos] {
        self.stamped.as_deref().unwrap_or_default()
    }

    /// The connection of a subscriber is open.
    pub(in crate::engine) fn subscribed(&mut self, id: RequestId, now: Nanos) {
        let Some(broadcast) = self.broadcast.as_deref() else { return };
        let (publishers, awaits) = (broadcast.plan.publishers, broadcast.awaits);
        let stopped = self.stopped.map(|at| broadcast.after_stop(at)[0]);
        let stream = self.stream(id.slot);
        if stream.id == id {
            let until = (stream.intended + awaits).min(stopped.unwrap_or(Nanos::MAX));
            stream.subscription = Some(Box::new(Subscription::new(now, until, publishers)));
        }
    }

    /// A subscriber has received a message; `None`: without a stamp of this run.
    pub(in crate::engine) fn delivered(
        &mut self,
        id: RequestId,
        stamp: Option<Stamp>,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        let stream = self.stream(id.slot);
        let Some(subscription) = stream.subscription.as_deref_mut() else { return };
        match stamp {
            None => recorder.unstamped(),
            Some(stamp) => recorder.delivered(&stamp, subscription.arrived(&stamp), now),
        }
    }

    /// The exchange has ended: if it was a subscriber, it awaits nothing any more.
    pub(super) fn unsubscribed(&mut self, id: RequestId, now: Nanos, recorder: &mut Recorder) {
        if self.broadcast.is_none() {
            return;
        }
        let stream = self.stream(id.slot);
        if stream.id == id
            && let Some(subscription) = stream.subscription.take()
        {
            recorder.subscriber_ended(subscription.awaited(now));
        }
    }

    /// The run ends before the exchange.
    pub(in crate::engine) fn given_up(
        &mut self,
        id: RequestId,
        now: Nanos,
        recorder: &mut Recorder,
    ) {
        self.unsubscribed(id, now, recorder);
        if let Some(broadcast) = self.broadcast.as_deref() {
            // Deliveries may be in flight.
            let before = broadcast.plan.wait / 2;
            recorder.broadcast_given_up(Nanos(now.0.saturating_sub(before.0)));
        }
    }
}
