//! A request before the run, to read its reply.

use std::sync::{Arc, Mutex, PoisonError};

use prony_base::fault::Fault;
use prony_base::units::{ConnId, RequestId, Span};
use prony_core::engine::Tap;
use prony_io::{Control, Taps};
use prony_run::run::{self, Provenance};

use super::super::options::Opts;
use super::super::values::{Period, Refusal, Uris, Workload};
use super::super::{network, plan};
use super::Fetched;

/// The maximum size of a body.
const BODY_MAX: usize = 1 << 20;
/// The timeout if the command line has none.
const PATIENCE: Span = Span::from_secs(30);

/// Request a URI as a session does, with the same headers and TLS settings. The inner error is the
/// reason for a missing reply.
pub(super) fn fetch(o: &Opts, uri: &str) -> Result<Result<Fetched, String>, Refusal> {
    let one = Opts {
        workload: Workload::Sess(1, 1, 0.0),
        uris: Uris::One,
        uri: uri.into(),
        period: Period::Sequential,
        runtime: 0.0,
        ..o.clone()
    };
    let mut plan = plan::plan(&one, super::page, &mut |_| {})?.0;
    plan.timeout = plan.timeout.min(PATIENCE);
    plan.connect_timeout = plan.connect_timeout.min(PATIENCE);
    let mut options = network::options(&one, &plan)?;
    options.threads = Some(1);
    let seen = Arc::new(Mutex::new(Fetched::default()));
    let shared = Arc::clone(&seen);
    options.taps = Some(Taps::new(move || Scout { seen: Arc::clone(&shared) }));
    let typed = Provenance::default();
    let ended = run::run(&plan, &options, &Control::new(), &mut |_| {}, typed);
    let summary = ended.map_err(|e| Refusal::new(e.to_string()))?;
    if summary.main.statuses.is_empty() {
        let faults = Fault::ALL.into_iter().filter(|&f| summary.main.fault(f) > 0);
        let why = faults.map(prony_report::words::sentence).next();
        return Ok(Err(why.unwrap_or("there was no reply").to_owned()));
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Ok(seen))
}

/// Records the replies.
struct Scout {
    seen: Arc<Mutex<Fetched>>,
}

impl Scout {
    fn note(&self, note: impl FnOnce(&mut Fetched)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Tap for Scout {
    fn wants_headers(&self) -> bool {
        true
    }

    fn header(&mut self, _: ConnId, _: RequestId, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value.trim_ascii()).into_owned();
        if name.eq_ignore_ascii_case(b"location") {
            self.note(|seen| seen.location = Some(text()));
        } else if name.eq_ignore_ascii_case(b"content-type") {
            let is_html = text().to_ascii_lowercase().starts_with("text/html");
            self.note(|seen| seen.is_html = is_html);
        }
    }

    fn wants_body(&self) -> bool {
        true
    }

    fn body(&mut self, _: ConnId, _: RequestId, piece: &[u8]) {
        self.note(|seen| {
            let room = BODY_MAX - seen.body.len();
            seen.body.extend_from_slice(&piece[..piece.len().min(room)]);
        });
    }
}
