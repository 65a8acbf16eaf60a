//! Sessions: the requests of one user from start to finish, as bursts with pauses between them.

use serde::{Deserialize, Serialize};

use super::{Control, Pick, Shared, Think};

/// The sessions of a plan. With them, [`super::Load`] starts sessions instead of requests: in the
/// open loop each arrival starts one; in the closed loop each of `connections` users runs one after
/// another, with the load's think time between two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// The kinds of sessions. Never empty. Shared by the shares of the plan.
    pub kinds: Shared<SessionKind>,
    /// How the kind of the k-th session of the whole run is picked: k modulo their number (weights
    /// are ignored), or at random by the weights, depending only on the seed and k.
    pub pick: Pick,
    /// Connections that one session may have open at once to one endpoint. A request takes the
    /// first of them that has room ([`super::Plan::pipeline`]); another one is opened only if all
    /// are full.
    pub connections: u32,
    /// How cookies are handled.
    #[serde(default)]
    pub cookies: Cookies,
    /// What happens to the unanswered requests of a lost connection.
    #[serde(default)]
    pub lost: Lost,
    /// What a failed request means for its session.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How often a request is sent again if its reply is not as expected, before it fails.
    #[serde(default)]
    pub retries: u32,
    /// Whether a program decides the steps of the sessions ([`prony_base::director`]); the bursts
    /// are meaningless then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub directed: bool,
}

/// One kind of session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionKind {
    /// Its name in reports; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How often it is picked, relative to the others.
    pub weight: u32,
    /// Its bursts, in order. Never empty.
    pub bursts: Vec<Burst>,
}

/// Requests that start together, and the pause after their last reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Indices into [`super::Plan::calls`]. Never empty.
    #[serde(rename = "requests")]
    pub calls: Vec<u32>,
    /// Whether the first request is sent alone and the others together after its reply (a page and
    /// the files that it embeds), instead of all at once.
    pub lead: bool,
    /// The pause after the last reply of the burst; none after the last burst of a session.
    pub think: Think,
    /// How often the burst is repeated, at least once.
    pub repeat: u32,
    /// What decides whether it is made, and how often; `None`: always, `repeat` times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Box<Control>>,
}

/// What a session does with the cookies of its replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cookies {
    /// Nothing.
    #[default]
    Off,
    /// A jar for each session (RFC 6265).
    Session,
    /// One jar for all sessions. It belongs to one worker, so the plan is not split.
    Shared,
    /// The cookies of the session by name, sent with every later request; path and domain are
    /// ignored.
    Always,
}

/// What happens to requests on a connection that was lost before their replies arrived. If the last
/// reply announced the close, they were not processed and are always sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// Idempotent requests are sent again, a limited number of times, if the connection had
    /// delivered a reply before. This is the rule of HTTP clients.
    #[default]
    Idempotent,
    /// All are sent again on a new connection, if the lost one had delivered a reply before.
    Resend,
    /// They fail.
    Fail,
}

/// What a failed request means for its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The session fails at once; its other requests are not sent.
    #[default]
    End,
    /// The session continues, and counts as failed when it ends.
    Continue,
}

impl Sessions {
    /// Whether something decides which steps a session makes.
    pub fn has_control(&self) -> bool {
        self.kinds.iter().flat_map(|kind| &kind.bursts).any(|burst| burst.control.is_some())
    }

    /// Sessions of these kinds, with default options.
    pub fn plain(kinds: Vec<SessionKind>) -> Self {
        Self {
            kinds: kinds.into(),
            pick: Pick::InTurn,
            connections: 1,
            cookies: Cookies::default(),
            lost: Lost::default(),
            on_failure: OnFailure::default(),
            retries: 0,
            directed: false,
        }
    }
}

impl Burst {
    /// These calls, all at once, and this pause.
    pub fn of(calls: Vec<u32>, think: Think) -> Self {
        Self { calls, lead: false, think, repeat: 1, control: None }
    }

    /// The number of its requests, with all repetitions.
    fn len(&self) -> u64 {
        self.calls.len() as u64 * u64::from(self.repeat)
    }
}

impl SessionKind {
    /// The number of its requests; with conditions and switches, all that it has.
    pub fn len(&self) -> u64 {
        self.bursts.iter().map(Burst::len).sum()
    }

    /// The largest number of requests that one session can make, with retries.
    pub(crate) fn most(&self) -> u64 {
        let retries = |b: &Burst| b.control.as_ref()?.retry.as_ref().map(|r| u64::from(r.times));
        let most = |b: &Burst| b.len().saturating_mul(1 + retries(b).unwrap_or(0));
        self.bursts.iter().map(most).fold(0, u64::saturating_add)
    }

    /// Whether it has no requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
