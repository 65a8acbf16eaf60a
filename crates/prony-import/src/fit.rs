//! Requests that no plan can have: they are left out, and named with their place in the input.

use prony_plan::plan::CallSpec;
use prony_plan::target::Url;

use crate::text::Text;
use crate::{Body, Import, Request, url};

/// Leaves out the requests that prony cannot send.
pub(crate) fn leave_out(import: &mut Import) {
    let Import { sessions, notes, .. } = import;
    for step in sessions.iter_mut().flat_map(|session| &mut session.steps) {
        step.requests.retain(|request| match why_not(request) {
            None => true,
            Some(why) => {
                notes.add(&format!("left out: {why}"), &request.place);
                false
            }
        });
    }
}

/// Why prony cannot send a request, if it cannot.
fn why_not(request: &Request) -> Option<String> {
    if let Err(why) = Url::parse(&format!("{}/", request.origin)) {
        return Some(why.to_string());
    }
    let template = crate::write::has_fields(request);
    let text = |text: &Text| match (template, text.literal()) {
        (false, Some(literal)) => literal.to_owned(),
        _ => text.template(),
    };
    let header = |(name, value): &(String, Text)| (name.clone(), text(value));
    let body = match &request.body {
        Body::Text(body) => text(body).into_bytes(),
        Body::Bytes(bytes) => bytes.clone(),
        Body::None | Body::Mixed(_) => Vec::new(),
    };
    let spec = CallSpec {
        method: request.method.clone().into(),
        path: text(&request.path),
        authority: url::host(&request.origin).into(),
        headers: request.headers.iter().map(header).collect(),
        body,
        template,
        ..CallSpec::default()
    };
    spec.check().err()
}

impl Import {
    /// Leaves out the request on a line of its plan, which was refused there. Returns false if
    /// there is none. `why` is the reason, as a sentence.
    pub fn leave_out(&mut self, plan: &str, line: usize, why: &str) -> bool {
        // Each request has a line, in order.
        let starts = |line: &&str| {
            let line = line.trim_start();
            ["{ path = ", "{ url = "].iter().any(|start| line.starts_with(start))
        };
        if !plan.lines().nth(line.saturating_sub(1)).as_ref().is_some_and(starts) {
            return false;
        }
        let nth = plan.lines().take(line - 1).filter(starts).count();
        let Some(place) = self.all().nth(nth).map(|request| request.place.clone()) else {
            return false;
        };
        let mut at = 0;
        for step in self.sessions.iter_mut().flat_map(|session| &mut session.steps) {
            step.requests.retain(|_| {
                at += 1;
                at != nth + 1
            });
        }
        self.notes.add(&format!("left out: {why}"), &place);
        self.drop_empty();
        true
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Drops steps without requests, and sessions without steps.
    pub(crate) fn drop_empty(&mut self) {
        self.sessions.retain_mut(|session| {
            session.steps.retain(|step| !step.requests.is_empty());
            !session.steps.is_empty()
        });
    }
}
