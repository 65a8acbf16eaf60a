//! A tally in which nothing is counted yet.

use std::collections::BTreeMap;

use super::connections::Connections;
use super::{Series, Tally, Times};
use crate::fault::Fault;
use crate::units::{Nanos, Span};

impl Tally {
    /// An empty tally that starts at `start`.
    pub fn new(start: Nanos) -> Self {
        Self {
            started: 0,
            sent: 0,
            sent_late: 0,
            overdue: 0,
            replies: 0,
            replies_in_drain: 0,
            failed: 0,
            unfinished: 0,
            retries: 0,
            faults: [0; Fault::COUNT],
            stray: [0; Fault::COUNT],
            statuses: BTreeMap::new(),
            statuses_in_drain: BTreeMap::new(),
            interim: 0,
            connects: 0,
            connected: 0,
            bytes_sent: 0,
            bytes_received: 0,
            bytes_head: 0,
            bytes_framing: 0,
            bytes_footer: 0,
            bytes_body: 0,
            bytes_in_drain: 0,
            in_flight_max: 0,
            time_in_drain: Span::ZERO,
            time_unfinished: Span::ZERO,
            time_assumed: Span::ZERO,
            time_in_flight: None,
            start,
            end: start,
            times: Times::default(),
            series: Series::new(start),
            service_series: None,
            stream_series: None,
            connections: Connections::default(),
            tls: None,
            proxy: None,
            http2: None,
            messages: None,
            stream_messages: None,
            broadcast: None,
            pings: None,
            tokens: None,
            without_meter: None,
            streams_without_meter: BTreeMap::new(),
            phases: None,
            sessions: None,
            names: Vec::new(),
            checks: Vec::new(),
            groups: Vec::new(),
            redirects: None,
            first_failures: BTreeMap::new(),
            kept: Vec::new(),
            clients: Vec::new(),
        }
    }
}
