//! What several workers have counted, in one.

use super::{NameTally, Tally, Times};

impl Tally {
    /// Add what another worker counted. Exact: equal to one worker having counted all (P10).
    pub fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.sent += other.sent;
        self.sent_late += other.sent_late;
        self.overdue += other.overdue;
        self.replies += other.replies;
        self.replies_in_drain += other.replies_in_drain;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.retries += other.retries;
        for (a, b) in self.faults.iter_mut().zip(other.faults) {
            *a += b;
        }
        for (a, b) in self.stray.iter_mut().zip(other.stray) {
            *a += b;
        }
        for (&status, &n) in &other.statuses {
            *self.statuses.entry(status).or_default() += n;
        }
        self.interim += other.interim;
        self.connects += other.connects;
        self.connected += other.connected;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.bytes_head += other.bytes_head;
        self.bytes_framing += other.bytes_framing;
        self.bytes_footer += other.bytes_footer;
        self.bytes_body += other.bytes_body;
        self.bytes_in_drain += other.bytes_in_drain;
        self.in_flight_max += other.in_flight_max;
        self.time_in_drain += other.time_in_drain;
        self.time_unfinished += other.time_unfinished;
        self.time_assumed += other.time_assumed;
        self.time_under_way = match (self.time_under_way, other.time_under_way) {
            (Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        self.times.merge(&other.times);
        self.series.merge(&other.series);
        match (&mut self.served, &other.served) {
            (Some(all), Some(part)) => all.merge(part),
            (all @ None, Some(part)) => *all = Some(part.clone()),
            (_, None) => {}
        }
        self.links.merge(&other.links);
        if let Some(part) = &other.tls {
            self.tls.get_or_insert_default().merge(part);
        }
        if let Some(part) = &other.messages {
            self.messages.get_or_insert_default().merge(part);
        }
        if let Some(part) = &other.phases {
            self.phases.get_or_insert_default().merge(part);
        }
        match (&mut self.sessions, &other.sessions) {
            (Some(all), Some(part)) => all.merge(part),
            (all @ None, Some(part)) => *all = Some(part.clone()),
            (_, None) => {}
        }
        if self.names.len() < other.names.len() {
            self.names.resize_with(other.names.len(), NameTally::default);
        }
        for (all, part) in self.names.iter_mut().zip(&other.names) {
            all.merge(part);
        }
        self.kept.extend_from_slice(&other.kept);
    }
}

impl Times {
    fn merge(&mut self, other: &Self) {
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
        self.transfer.merge(&other.transfer);
        self.lag.merge(&other.lag);
        self.queue.merge(&other.queue);
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        self.failed.merge(&other.failed);
    }
}
