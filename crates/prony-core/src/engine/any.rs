//! The engine of a plan, whatever its carrier is. All engines are compiled here, once: what runs
//! them knows none of their types.

use std::sync::Arc;

use super::{Contact, Engine, Peak, Tap};
use prony_base::director::Director;
use prony_base::feed::Feed;
use prony_base::machine::Machine;
use prony_base::units::Nanos;
use prony_plan::plan::Plan;
use prony_plan::rate::RateChange;
use prony_plan::tokenizer::CountTokens;
use prony_proto::layer::TlsContext;
use prony_proto::proto::Carrier;
use prony_proto::proto::echo::Echo;
use prony_proto::proto::h1::H1;
use prony_proto::proto::http::Http;
use prony_tally::record::{Observer, Recorder, Tally};

/// An engine with any carrier. The methods are those of [`Engine`].
pub trait AnyEngine: Machine {
    /// See [`Engine::limit_backlog`].
    fn limit_backlog(&mut self, bytes: u64);

    /// See [`Engine::expect_stamps`].
    fn expect_stamps(&mut self);

    /// See [`Engine::expect_rate_changes`].
    fn expect_rate_changes(&mut self);

    /// See [`Engine::change_rate`].
    fn change_rate(&mut self, change: RateChange);

    /// See [`Engine::keep_requests`].
    fn keep_requests(&mut self);

    /// See [`Engine::keep_service`].
    fn keep_service(&mut self);

    /// See [`Engine::observe`].
    fn observe(&mut self, observer: Observer);

    /// See [`Engine::direct`].
    fn direct(&mut self, director: Box<dyn Director>);

    /// See [`Engine::replay`].
    fn replay(&mut self, feed: Box<dyn Feed>);

    /// See [`Engine::count_tokens`].
    fn count_tokens(&mut self, tokenizer: Arc<dyn CountTokens>);

    /// See [`Engine::tap`].
    fn tap(&mut self, tap: Box<dyn Tap>);

    /// See [`Engine::share_peak`].
    fn share_peak(&mut self, peak: Arc<Peak>);

    /// See [`Engine::share_contact`].
    fn share_contact(&mut self, contact: Arc<Contact>);

    /// See [`Engine::recorder`].
    fn recorder(&self) -> &Recorder;

    /// See [`Engine::connections`].
    fn connections(&self) -> usize;

    /// See [`Engine::drain_end`].
    fn drain_end(&self) -> Option<Nanos>;

    /// See [`Engine::finish`].
    fn finish(self: Box<Self>) -> (Option<Tally>, Tally);
}

/// The engine of a valid plan (or a share of one). A plan with TLS endpoints needs `tls`.
pub fn of_plan(plan: &Plan, tls: Option<TlsContext>) -> Box<dyn AnyEngine + Send> {
    let is_http2 = plan.http.is_http2();
    let has_sockets = plan.websocket.is_some() || plan.has_sockets();
    match plan.exchange {
        None if is_http2 || has_sockets => over(plan, Http::new(plan), tls),
        None => over(plan, H1::new(plan), tls),
        Some(_) => over(plan, Echo::new(plan), tls),
    }
}

fn over<P>(plan: &Plan, carrier: P, tls: Option<TlsContext>) -> Box<dyn AnyEngine + Send>
where
    P: Carrier<Conn: Send> + Send + 'static,
{
    Box::new(Engine::new(plan, carrier).with_tls(tls))
}

impl<P: Carrier> AnyEngine for Engine<P> {
    fn limit_backlog(&mut self, bytes: u64) {
        self.limit_backlog(bytes);
    }

    fn expect_stamps(&mut self) {
        self.expect_stamps();
    }

    fn expect_rate_changes(&mut self) {
        self.expect_rate_changes();
    }

    fn change_rate(&mut self, change: RateChange) {
        self.change_rate(change);
    }

    fn keep_requests(&mut self) {
        self.keep_requests();
    }

    fn keep_service(&mut self) {
        self.keep_service();
    }

    fn observe(&mut self, observer: Observer) {
        self.observe(observer);
    }

    fn direct(&mut self, director: Box<dyn Director>) {
        self.direct(director);
    }

    fn replay(&mut self, feed: Box<dyn Feed>) {
        self.replay(feed);
    }

    fn count_tokens(&mut self, tokenizer: Arc<dyn CountTokens>) {
        self.count_tokens(tokenizer);
    }

    fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tap(tap);
    }

    fn share_peak(&mut self, peak: Arc<Peak>) {
        self.share_peak(peak);
    }

    fn share_contact(&mut self, contact: Arc<Contact>) {
        self.share_contact(contact);
    }

    fn recorder(&self) -> &Recorder {
        self.recorder()
    }

    fn connections(&self) -> usize {
        self.connections()
    }

    fn drain_end(&self) -> Option<Nanos> {
        self.drain_end()
    }

    fn finish(self: Box<Self>) -> (Option<Tally>, Tally) {
        Self::finish(*self)
    }
}
