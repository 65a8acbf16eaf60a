//! Compiles wrk's options to a plan: keep-alive, HTTP/1.1, wrk's short request.

use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Plan, Stop};
use prony_plan::target::{Url, parse_header};
use prony_run::error::Error;

use super::options::Options;
use crate::plan::{closed, unverified};

/// Added to the duration, this timeout is never reached: wrk counts slow replies and keeps waiting
/// for them.
const PATIENT: Span = Span::from_secs(3_600);

/// The plan, and the target as `HOST:PORT`.
pub(super) fn of(options: &Options) -> Result<(Plan, String), Error> {
    let url =
        Url::parse_http(options.url.split('#').next().unwrap_or_default()).map_err(Error::Url)?;
    let authority = url.authority();
    let mut headers = Vec::new();
    for line in &options.headers {
        headers.push(parse_header(line).map_err(|e| Error::Value {
            what: "-H",
            value: line.clone(),
            why: e.to_string(),
        })?);
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("Host".into(), authority.clone()));
    }
    let (endpoint, tls) = (url.endpoint(), url.tls);
    let at = format!("{}:{}", url.host, url.port);
    let call = CallSpec {
        method: "GET".into(),
        path: url.path,
        authority: authority.into(),
        headers: headers.into(),
        bare: true,
        ..CallSpec::default()
    };
    let timeout = Span::from_secs(options.duration) + PATIENT;
    let plan = Plan {
        stop: Stop { duration: Some(Span::from_secs(options.duration)), ..Stop::default() },
        timeout,
        tls: tls.then(unverified),
        ..closed(endpoint, call, options.connections)
    };
    plan.check().map_err(Error::Plan)?;
    Ok((plan, at))
}
