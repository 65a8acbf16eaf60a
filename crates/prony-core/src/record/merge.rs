//! Merges the tallies of several workers.

use std::collections::BTreeMap;

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
use super::tls::TlsTally;
use super::tokens::TokenTally;
use super::{StreamSeries, Tally, TimeLowerBound, Times};
use crate::proto::StreamCounts;
use crate::units::Span;

/// Merge `$part` into `$all` field by field, each with the function after its name. The pattern
/// names all fields of the structure, so a forgotten field does not compile.
macro_rules! merge_fields {
    ($all:ident, $part:ident, { $($field:ident: $merge:expr),+ $(,)? }) => {
        let Self { $($field),+ } = $part;
        $($merge(&mut $all.$field, $field);)+
    };
}
pub(super) use merge_fields;

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

/// What is added up when tallies are merged. Sums stop at the greatest value: counts may come from
/// a file of unknown origin.
pub(super) trait Sum: Copy {
    fn plus(self, other: Self) -> Self;
}

impl Sum for u64 {
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sum for Span {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

pub(super) fn add<T: Sum>(all: &mut T, part: &T) {
    *all = all.plus(*part);
}

pub(super) fn add_each<const N: usize>(all: &mut [u64; N], part: &[u64; N]) {
    for (all, part) in all.iter_mut().zip(part) {
        add(all, part);
    }
}

pub(super) fn add_by_key<K: Clone + Ord>(all: &mut BTreeMap<K, u64>, part: &BTreeMap<K, u64>) {
    for (key, n) in part {
        add(all.entry(key.clone()).or_default(), n);
    }
}

/// Merge what has the same key.
fn by_key<K: Copy + Ord, T: Clone>(
    merge: impl Fn(&mut T, &T),
) -> impl Fn(&mut BTreeMap<K, T>, &BTreeMap<K, T>) {
    move |all, part| {
        for (key, part) in part {
            match all.get_mut(key) {
                Some(all) => merge(all, part),
                None => drop(all.insert(*key, part.clone())),
            }
        }
    }
}

pub(super) fn least<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).min(*part);
}

pub(super) fn greatest<T: Copy + Ord>(all: &mut T, part: &T) {
    *all = (*all).max(*part);
}

/// The sum is unknown if a part is unknown.
fn add_if_both(all: &mut Option<Span>, part: &Option<Span>) {
    *all = all.zip(*part).map(|(all, part)| all + part);
}

/// Merge if both are present; otherwise take the one that is.
pub(super) fn optional<T: Clone>(
    merge: impl Fn(&mut T, &T),
) -> impl Fn(&mut Option<Box<T>>, &Option<Box<T>>) {
    move |all, part| match (all, part) {
        (Some(all), Some(part)) => merge(all, part),
        (all @ None, Some(part)) => *all = Some(part.clone()),
        (_, None) => {}
    }
}

/// Merge what has a place in the plan, in that order.
pub(super) fn by_place<T: Default>(merge: impl Fn(&mut T, &T)) -> impl Fn(&mut Vec<T>, &Vec<T>) {
    move |all, part| {
        if all.len() < part.len() {
            all.resize_with(part.len(), T::default);
        }
        for (all, part) in all.iter_mut().zip(part) {
            merge(all, part);
        }
    }
}

fn append<T: Copy>(all: &mut Vec<T>, part: &[T]) {
    all.extend_from_slice(part);
}
