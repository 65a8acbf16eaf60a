//! Merges the tallies of several workers.

use super::broadcast::Broadcast;
use super::checks::CheckTally;
use super::connections::Connections;
use super::first_failures::FirstFailure;
use super::groups::GroupTally;
use super::hist::Hist;
use super::in_streams::StreamMessages;
use super::messages::Messages;
use super::phases::Phases;
use super::pings::Pings;
use super::proxy::ProxyTally;
use super::redirects::RedirectTally;
use super::series::Series;
use super::sessions::{NameTally, SessionTally};
use super::sum::{
    add, add_by_key, add_each, add_if_both, append, by_key, by_place, greatest, least,
    merge_fields, optional,
};
use super::tls::TlsTally;
use super::tokens::TokenTally;
use super::{StreamSeries, Tally, TimeLowerBound, Times};
use crate::proto::StreamCounts;

impl Tally {
    /// Add the tally of another worker. Exact: the result equals that of one worker that recorded
    /// everything (P10).
    pub fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            started: add,
            sent: add,
            sent_late: add,
            overdue: add,
            replies: add,
            replies_in_drain: add,
            failed: add,
            unfinished: add,
            retries: add,
            faults: add_each,
            stray: add_each,
            statuses: add_by_key,
            statuses_in_drain: add_by_key,
            interim: add,
            connects: add,
            connected: add,
            bytes_sent: add,
            bytes_received: add,
            bytes_head: add,
            bytes_framing: add,
            bytes_footer: add,
            bytes_body: add,
            bytes_in_drain: add,
            in_flight_max: add,
            time_in_drain: add,
            time_unfinished: add,
            time_assumed: add,
            time_in_flight: add_if_both,
            start: least,
            end: greatest,
            times: Times::merge,
            series: Series::merge,
            service_series: optional(Series::merge),
            stream_series: optional(StreamSeries::merge),
            connections: Connections::merge,
            tls: optional(TlsTally::merge),
            proxy: optional(ProxyTally::merge),
            http2: optional(StreamCounts::merge),
            messages: optional(Messages::merge),
            stream_messages: optional(StreamMessages::merge),
            broadcast: optional(Broadcast::merge),
            pings: optional(Pings::merge),
            tokens: optional(TokenTally::merge),
            without_meter: optional(TimeLowerBound::merge),
            streams_without_meter: by_key(TimeLowerBound::merge),
            phases: optional(Phases::merge),
            sessions: optional(SessionTally::merge),
            names: by_place(NameTally::merge),
            checks: by_place(CheckTally::merge),
            groups: by_place(GroupTally::merge),
            redirects: optional(RedirectTally::merge),
            first_failures: by_key(FirstFailure::merge),
            kept: append,
            clients: append,
        });
    }
}

impl Times {
    fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            response: Hist::merge,
            service: Hist::merge,
            first_byte: Hist::merge,
            transfer: Hist::merge,
            lag: Hist::merge,
            queue: Hist::merge,
            stream_wait: Hist::merge,
            flow_wait: Hist::merge,
            message: Hist::merge,
            message_service: Hist::merge,
            message_lag: Hist::merge,
            first_message: Hist::merge,
            first_content: Hist::merge,
            message_gap: Hist::merge,
            reconnect: Hist::merge,
            connect: Hist::merge,
            tunnel: Hist::merge,
            handshake: Hist::merge,
            failed: Hist::merge,
        });
    }
}
