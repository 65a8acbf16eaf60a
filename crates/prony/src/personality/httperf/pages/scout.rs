//! One request before the run, whose reply is read.

use std::sync::{Mutex, PoisonError};

use prony_core::fault::Fault;
use prony_core::proto::h1::H1;
use prony_core::proto::{Protocol, Reply, ReplySink};
use prony_core::units::Span;
use prony_io::Control;

use super::super::options::{Opts, Uris, Workload};
use super::super::values::{Period, Refusal};
use super::super::{network, plan};
use super::Fetched;
use crate::personality::pass_on::pass_on;
use crate::run;

/// What is read of a body.
const BODY_MAX: usize = 1 << 20;
/// How long is waited where the command line has no time limit.
const PATIENCE: Span = Span::from_secs(30);

/// Ask for a URI as a session would, with the same headers over the same TLS. The inner error is
/// why there was no reply, in words.
pub(super) fn fetch(o: &Opts, uri: &str) -> Result<Result<Fetched, String>, Refusal> {
    let one = Opts {
        workload: Workload::Sess(1, 1, 0.0),
        uris: Uris::One,
        uri: uri.into(),
        period: Period::Sequential,
        runtime: 0.0,
        ..o.clone()
    };
    let mut plan = plan::plan(&one, &mut |_| {})?.0;
    plan.timeout = plan.timeout.min(PATIENCE);
    plan.connect_timeout = plan.connect_timeout.min(PATIENCE);
    let mut options = network::options(&one, &plan)?;
    options.threads = Some(1);
    let seen = Mutex::new(Fetched::default());
    let proto = |plan: &_| Scout { inner: H1::new(plan), seen: &seen };
    let told = (Vec::new(), Vec::new());
    let ended = run::run_protocol(&plan, &options, &Control::new(), &mut |_| {}, told, &proto);
    let summary = ended.map_err(|e| Refusal::new(e.to_string()))?;
    if summary.main.statuses.is_empty() {
        let faults = Fault::ALL.into_iter().filter(|&f| summary.main.fault(f) > 0);
        let why = faults.map(crate::report::words::sentence).next();
        return Ok(Err(why.unwrap_or("there was no reply").to_owned()));
    }
    Ok(Ok(seen.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// A protocol whose replies are read.
struct Scout<'a> {
    inner: H1,
    seen: &'a Mutex<Fetched>,
}

#[deny(clippy::missing_trait_methods)]
impl Protocol for Scout<'_> {
    type Conn = <H1 as Protocol>::Conn;

    pass_on!(inner: room encode encode_filled deadline);
    pass_on!(inner: greets greet greeted greets_again one_by_one is_lossy gave_up);
    pass_on!(inner through Reading(seen): decode end);
}

struct Reading<'a, S> {
    sink: &'a mut S,
    seen: &'a Mutex<Fetched>,
}

impl<S> Reading<'_, S> {
    fn note(&self, note: impl FnOnce(&mut Fetched)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: ReplySink> ReplySink for Reading<'_, S> {
    pass_on!(sink: awaited outstanding began reply_to odd);

    fn wants_headers(&self) -> bool {
        true
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value.trim_ascii()).into_owned();
        if name.eq_ignore_ascii_case(b"location") {
            self.note(|seen| seen.location = Some(text()));
        } else if name.eq_ignore_ascii_case(b"content-type") {
            let is_html = text().to_ascii_lowercase().starts_with("text/html");
            self.note(|seen| seen.is_html = is_html);
        }
        if self.sink.wants_headers() {
            self.sink.header(name, value);
        }
    }

    fn wants_body(&self) -> bool {
        true
    }

    fn body(&mut self, piece: &[u8]) {
        self.note(|seen| {
            let room = BODY_MAX - seen.body.len();
            seen.body.extend_from_slice(&piece[..piece.len().min(room)]);
        });
        if self.sink.wants_body() {
            self.sink.body(piece);
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.sink.reply(reply);
    }
}
