//! Where requests come from: the users of a closed loop, the arrivals of an open loop, or sessions.
//! Knows nothing of connections.

mod arrivals;
mod backlog;
mod clients;
mod cycle;
mod decisions;
mod groups;
mod held;
mod logged;
mod ramp;
mod session_run;
mod sessions;
#[cfg(test)]
mod tests;
mod users;

use arrivals::Arrivals;
pub(super) use backlog::Backlog;
use logged::Logged;
use prony_base::fault::{Fault, FaultClass};
use prony_base::feed::Feed;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{self, Lost, Plan};
use prony_plan::rate::RateChange;
use prony_plan::schedule::Skipped;
use prony_tally::record::ClientTally;
use sessions::Sessions;
use users::Users;

/// Where requests come from.
#[derive(Debug)]
pub(super) struct Load {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Closed(Users),
    Open(Arrivals),
    Logged(Box<Logged>),
    Sessions(Box<Sessions>),
}

impl Load {
    pub(super) fn new(plan: &Plan) -> Self {
        let kind = match (&plan.sessions, &plan.load) {
            (Some(wanted), _) => Kind::Sessions(Box::new(Sessions::new(plan, wanted))),
            (None, plan::Load::Closed { connections, think }) => {
                Kind::Closed(Users::new(plan, *connections, *think))
            }
            (None, plan::Load::Open { .. }) if plan.is_logged() => {
                Kind::Logged(Box::new(Logged::new(plan)))
            }
            (None, plan::Load::Open { .. }) => Kind::Open(Arrivals::new(plan)),
        };
        Self { kind }
    }

    /// The requests of a log come from this feed.
    pub(super) fn replay(&mut self, feed: Box<dyn Feed>) {
        if let Kind::Logged(logged) = &mut self.kind {
            logged.replay(feed);
        }
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed(_))
    }

    /// When the load ends, if that is known.
    pub(super) fn end_of(&self, plan: &Plan) -> Option<Nanos> {
        match &self.kind {
            Kind::Closed(_) => plan.stop.duration.map(|d| Nanos::ZERO + plan.warmup + d),
            Kind::Open(a) => a.schedule.end(),
            Kind::Logged(_) => None,
            Kind::Sessions(s) => s.load_end(plan),
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        match &self.kind {
            Kind::Closed(u) => u.has_begun(),
            Kind::Open(a) => a.has_begun(),
            // A share without requests must get one tick to finish.
            Kind::Logged(_) => false,
            Kind::Sessions(s) => s.has_begun(),
        }
    }

    /// The number of users in a closed loop of sessions.
    pub(super) fn users(&self) -> Option<usize> {
        match &self.kind {
            Kind::Sessions(s) => s.users(),
            Kind::Closed(_) | Kind::Open(_) | Kind::Logged(_) => None,
        }
    }

    /// Users of a closed loop who have not started.
    pub(super) fn not_started(&self) -> u32 {
        match &self.kind {
            Kind::Closed(u) => u.not_started(),
            Kind::Open(_) | Kind::Logged(_) => 0,
            Kind::Sessions(s) => s.not_started(),
        }
    }

    /// Start nothing that is intended for `at` or later.
    pub(super) fn end(&mut self, at: Nanos) {
        match &mut self.kind {
            Kind::Closed(u) => u.end(),
            Kind::Open(a) => a.end(at),
            Kind::Logged(a) => a.end(at),
            Kind::Sessions(s) => s.end(at),
        }
    }

    /// Prepare for changes of the rate during the run.
    pub(super) fn expect_rate_changes(&mut self) {
        match &mut self.kind {
            Kind::Open(a) => a.schedule.expect_rate_changes(),
            Kind::Sessions(s) => s.expect_rate_changes(),
            Kind::Closed(_) | Kind::Logged(_) => {}
        }
    }

    /// Change the rate of an open loop from a future instant on.
    pub(super) fn change_rate(&mut self, change: RateChange) {
        match &mut self.kind {
            Kind::Open(a) => a.schedule.change_rate(change),
            Kind::Sessions(s) => s.change_rate(change),
            Kind::Closed(_) | Kind::Logged(_) => {}
        }
    }

    /// When the next arrival is due.
    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        match &self.kind {
            Kind::Closed(_) => None,
            Kind::Open(a) => a.next(),
            Kind::Logged(a) => a.next(),
            Kind::Sessions(s) => s.next_arrival(),
        }
    }

    #[inline]
    fn arrival_is_due(&self, now: Nanos) -> bool {
        self.next_arrival().is_some_and(|at| at <= now)
    }

    /// How many arrivals that have not started are due before `limit`.
    fn due_before(&self, limit: Nanos) -> u64 {
        match &self.kind {
            Kind::Closed(_) => 0,
            Kind::Open(a) => a.due_before(limit),
            Kind::Logged(a) => a.due_before(limit),
            Kind::Sessions(s) => s.due_before(limit),
        }
    }

    /// Whether an open loop has no more arrivals.
    fn has_no_more_arrivals(&self) -> bool {
        match &self.kind {
            Kind::Closed(_) => false,
            Kind::Open(a) => a.is_over(),
            Kind::Logged(a) => a.is_over(),
            Kind::Sessions(s) => s.are_all_begun(),
        }
    }

    /// Skip the arrivals before `limit`; see [`prony_plan::schedule::Schedule::skip_before`].
    fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        match &mut self.kind {
            Kind::Closed(_) => None,
            Kind::Open(a) => a.skip_before(limit),
            Kind::Logged(a) => a.skip_before(limit),
            Kind::Sessions(s) => s.skip_before(limit),
        }
    }

    /// Whether nothing new will start.
    pub(super) fn is_done(&self) -> bool {
        match &self.kind {
            Kind::Closed(u) => u.is_done(),
            Kind::Open(a) => a.is_over(),
            Kind::Logged(a) => a.is_over(),
            Kind::Sessions(s) => s.is_done(),
        }
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        match &self.kind {
            Kind::Closed(u) => u.is_used_up(),
            Kind::Open(a) => a.ended_by_count(),
            Kind::Logged(a) => a.ended_by_count(),
            Kind::Sessions(s) => s.ended_by_count(),
        }
    }

    /// What to do with the requests of a lost connection.
    pub(super) fn lost(&self) -> Lost {
        match &self.kind {
            Kind::Closed(_) | Kind::Open(_) | Kind::Logged(_) => Lost::Idempotent,
            Kind::Sessions(s) => s.lost(),
        }
    }

    /// How often a request is sent again when its reply is not as expected.
    #[inline]
    pub(super) fn retries(&self) -> u32 {
        match &self.kind {
            Kind::Sessions(s) => s.retries(),
            Kind::Closed(_) | Kind::Open(_) | Kind::Logged(_) => 0,
        }
    }

    /// The reply to a request of this session was not as expected.
    #[inline]
    pub(super) fn reply_missed(&mut self, session: u32) {
        if let Kind::Sessions(s) = &mut self.kind {
            s.request_failed(session);
        }
    }

    /// A request of this user, or session, has failed.
    #[inline]
    pub(super) fn request_failed(&mut self, user: u32, fault: Fault, now: Nanos) {
        match &mut self.kind {
            Kind::Closed(users) => {
                let group = users.group(user);
                if let Some(clients) = users.clients() {
                    let left = clients.failed(group, fault.class() == FaultClass::Timeout, now);
                    users.abandon(left);
                }
            }
            Kind::Open(_) | Kind::Logged(_) => {}
            Kind::Sessions(s) => s.request_failed(user),
        }
    }

    /// The connection of the group of users, with a connect that started at `began`, is ready.
    #[inline]
    pub(super) fn client_ready(&mut self, group: u32, began: Nanos, now: Nanos) {
        if let Some(clients) = self.clients() {
            clients.ready(group, began, now);
        }
    }

    /// Bytes have arrived on the connection of the group of users.
    pub(super) fn client_heard(&mut self, group: u32, now: Nanos) {
        if let Some(clients) = self.clients() {
            clients.heard(group, now);
        }
    }

    /// A client's time is over. Returns whether it was to continue.
    pub(super) fn client_expired(&mut self, group: u32) -> bool {
        let Kind::Closed(users) = &mut self.kind else { return false };
        let Some(clients) = users.clients().filter(|clients| !clients.has_given_up(group)) else {
            return false;
        };
        let left = clients.give_up(group, true);
        users.abandon(left);
        true
    }

    /// What the independent clients of a closed loop have done, if there are any.
    pub(super) fn client_tallies(&mut self) -> Vec<ClientTally> {
        self.clients().map_or_else(Vec::new, |clients| clients.tallies().collect())
    }

    fn clients(&mut self) -> Option<&mut clients::Clients> {
        match &mut self.kind {
            Kind::Closed(users) => users.clients(),
            Kind::Open(_) | Kind::Logged(_) | Kind::Sessions(_) => None,
        }
    }

    /// Whether a request is followed by another one as soon as it has ended: its rate is not given.
    pub(super) fn restarts(&self) -> bool {
        matches!(self.kind, Kind::Closed(_) | Kind::Sessions(_))
    }

    /// A connection of the group of users, or of the session, has opened or failed to open.
    pub(super) fn connected(&mut self, owner: u32, opened: bool) {
        match &mut self.kind {
            Kind::Closed(users) if opened => users.connected(owner),
            Kind::Closed(_) | Kind::Open(_) | Kind::Logged(_) => {}
            Kind::Sessions(s) => s.connected(owner, opened),
        }
    }

    /// A connection of the session is closed, after `replies` replies.
    #[inline]
    pub(super) fn lost_connection(&mut self, session: u32, replies: u64) {
        if let Kind::Sessions(s) = &mut self.kind {
            s.replied(session, replies);
        }
    }

    /// A request of a closed loop that was intended for `intended` does not count. Its user, who is
    /// about to be released, may make another one.
    #[cold]
    pub(super) fn refund(&mut self, intended: Nanos, warmup: Span) {
        if let Kind::Closed(users) = &mut self.kind
            && intended >= Nanos::ZERO + warmup
        {
            users.refund();
        }
    }

    /// Whether the user, or session, stops because a request has failed.
    #[inline]
    pub(super) fn gives_up(&self, user: u32) -> bool {
        match &self.kind {
            Kind::Closed(users) => users.has_given_up(user),
            Kind::Open(_) | Kind::Logged(_) => false,
            Kind::Sessions(s) => s.gives_up(user),
        }
    }

    /// Whether the session still runs.
    pub(super) fn is_live(&self, session: u32) -> bool {
        matches!(&self.kind, Kind::Sessions(s) if s.is_live(session))
    }

    fn sessions(&mut self) -> Option<&mut Sessions> {
        match &mut self.kind {
            Kind::Sessions(sessions) => Some(sessions),
            Kind::Closed(_) | Kind::Open(_) | Kind::Logged(_) => None,
        }
    }
}
