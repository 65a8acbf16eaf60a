//! Clients of a closed loop that do not share their work.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use prony_base::units::Span;

/// The clients of a closed loop: each is a connection with its [`super::Plan::pipeline`] requests
/// in flight. Each has its own equal part of [`super::Stop::requests`], makes all calls in turn
/// from the first one, and gives up when its connect fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// How many clients start together, and how long after them the next ones do; `None`: all
    /// start at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<(u32, Span)>,
    /// When a client's requests may start.
    pub pace: Pace,
    /// How long after its start a client gives up; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// Whether a client starts no more requests after one of its requests has timed out.
    pub ends_on_timeout: bool,
}

/// When a client's requests may start. A request that is due while all of the client's requests in
/// flight are unanswered starts late, with its intended start kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the client has room for it.
    Free,
    /// At this rate per second; the first one at the client's start.
    Rate(f64),
    /// At these times after the client's start, ascending.
    Times(Arc<[Span]>),
}

impl Clients {
    /// Whether requests start at times of their own, and not only when others have ended.
    pub fn is_timed(&self) -> bool {
        self.pace != Pace::Free || self.starts.is_some()
    }
}

impl Pace {
    /// When request `k` of a client, counted from 0, is due after the client's start; `None`: at
    /// any time.
    pub fn due(&self, k: u64) -> Option<Span> {
        match self {
            Self::Free => None,
            Self::Rate(rate) => Some(Span((k as f64 / rate * 1e9) as u64)),
            Self::Times(times) => usize::try_from(k).ok().and_then(|k| times.get(k)).copied(),
        }
    }
}
