//! What the first failed request of a kind shows: its status, the start of its body, and when.

use prony_base::fault::Fault;
use prony_plan::plan::{Plan, status_text};
use prony_plan::vars::{Extract, Place};
use prony_stats::summary::Summary;

use crate::units;

/// The characters of a body that are shown.
const SHOWN: usize = 100;

/// What speaks at a port where no reply of HTTP/1 or HTTP/2 came, and what to do, if the first
/// bytes say so, or if each "reply" has the size of a TLS alert: a header of 5 bytes, a level and a
/// description (RFC 8446, sections 5.1 and 6).
pub(crate) fn other_protocol(fault: Fault, summary: &Summary) -> Option<&'static str> {
    const TLS: &str = "the server speaks TLS at this port: use https://";
    const HTTP2: &str = "the server speaks HTTP/2 without TLS at this port: use --h2c";
    let (t, is_plain) = (&summary.main, summary.plan.tls.is_none());
    if !is_plain || !matches!(fault, Fault::BadStatusLine | Fault::NotHttp2) {
        return None;
    }
    let bytes = t.first_failures.get(&fault).map_or("", |first| &first.body);
    // A frame of settings: its length is a multiple of 6 below 256, and its stream is 0.
    let is_settings =
        |bytes: &str| bytes.starts_with(r"\x00\x00") && bytes.contains(r"\x04\x00\x00\x00\x00\x00");
    let has_size = fault == Fault::BadStatusLine && t.bytes_received() == 7 * t.fault(fault);
    match () {
        () if [r"\x15\x03", r"\x16\x03"].iter().any(|record| bytes.starts_with(record)) => {
            Some(TLS)
        }
        () if is_settings(bytes) => Some(HTTP2),
        () if has_size => Some(TLS),
        () => None,
    }
}

/// The first failure of a kind with a reply, or with something in place of one, as the end of a
/// line: `400 "The plain HTTP ..." after 2 ms`.
pub(crate) fn first_failure(fault: Fault, summary: &Summary) -> Option<String> {
    let first = summary.main.first_failures.get(&fault)?;
    if first.status.is_none() {
        let after = units::span(first.after);
        return (!first.body.is_empty()).then(|| format!("\"{}\" after {after}", first.body));
    }
    let mut parts = Vec::new();
    if fault == Fault::ExtractMissing {
        parts.extend(first.request.and_then(|request| missing(request, &summary.plan)));
    }
    parts.extend(first.status.map(status_text));
    let body = readable(&first.body);
    let more = if body.chars().count() > SHOWN { "..." } else { "" };
    let body: String = body.chars().take(SHOWN).collect();
    if !body.is_empty() {
        parts.push(format!("\"{body}{more}\""));
    }
    parts.push(format!("after {}", units::span(first.after)));
    Some(parts.join(" "))
}

/// What a request extracts, one of which its reply lacks, and its place in the plan.
fn missing(request: u32, plan: &Plan) -> Option<String> {
    let call = plan.calls.get(request as usize)?;
    let needed: Vec<String> =
        call.extract.iter().filter(|e| e.default.is_none()).map(described).collect();
    let name = call.name.and_then(|name| plan.names.get(name as usize));
    let step = name.map_or_else(|| format!("{} {}", call.method, call.path), Clone::clone);
    (!needed.is_empty()).then(|| format!("{} in the reply to {step}:", needed.join(" or ")))
}

fn described(extract: &Extract) -> String {
    let place = match &extract.place {
        Place::Header { name, .. } => format!("header {name}"),
        Place::Regex(text) => format!("regex {text}"),
        Place::Json(pointer) => format!("json {pointer}"),
        Place::Between(from, to) => format!("between \"{from}\" and \"{to}\""),
    };
    format!("no {} ({place})", extract.variable)
}

/// A text on one line, without the tags of a page.
fn readable(body: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in body.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => {
                is_tag = false;
                text.push(' ');
            }
            _ if is_tag => {}
            c => text.push(c),
        }
    }
    // A text with a lone `<` is no page.
    let text = if text.trim().is_empty() { body } else { &text };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use prony_base::meter::WorkerStats;
    use prony_base::units::Span;
    use prony_plan::plan::{CallSpec, Load, Stop, Think};
    use prony_stats::summary::RunInfo;
    use prony_tally::record::{FirstFailure, Tally};

    use super::*;

    /// A run whose requests fail in this way, as these bytes come in place of replies.
    fn failed(fault: Fault, bytes: &str) -> Summary {
        let load = Load::Closed { connections: 1, think: Think::None };
        let plan = Plan::new(Vec::new(), vec![CallSpec::default()], load, Stop::default());
        let mut tally = Tally { started: 5, failed: 5, ..Tally::default() };
        tally.faults[fault as usize] = 5;
        let after = Span::from_millis(2);
        let first = FirstFailure { after, request: None, status: None, body: bytes.into() };
        tally.first_failures.insert(fault, first);
        Summary::from_parts(plan, RunInfo::default(), vec![(None, tally, WorkerStats::default())])
    }

    #[test]
    fn another_protocol_is_named_by_its_first_bytes() {
        let tls = Some("the server speaks TLS at this port: use https://");
        let h2 = Some("the server speaks HTTP/2 without TLS at this port: use --h2c");
        for (fault, bytes, said) in [
            (Fault::BadStatusLine, r"\x15\x03\x03\x00\x02\x02(", tls),
            (Fault::BadStatusLine, r"\x15\x03\x01\x00\x02\x02F\x15\x03\x01", tls),
            (Fault::NotHttp2, r"\x15\x03\x03\x00\x02\x02(", tls),
            (Fault::BadStatusLine, r"\x00\x00$\x04\x00\x00\x00\x00\x00\x00\x03", h2),
            (Fault::BadStatusLine, r"\x00\x00\x00\x04\x00\x00\x00\x00\x00", h2),
            (Fault::BadStatusLine, r"SSH-2.0-OpenSSH_9.6\r\n", None),
            (Fault::NotHttp2, r"HTTP/1.1 400 Bad Request\r\n", None),
            (Fault::BadStatus, r"\x15\x03\x03\x00\x02\x02(", None),
        ] {
            let summary = failed(fault, bytes);
            assert_eq!(other_protocol(fault, &summary), said, "{bytes}");
            let line = format!("\"{bytes}\" after 2.00 ms");
            assert_eq!(first_failure(fault, &summary), Some(line));
        }
        assert_eq!(first_failure(Fault::Reset, &failed(Fault::Reset, "")), None);
    }

    #[test]
    fn a_missing_extract_is_named_with_its_place_and_its_step() {
        let extract = |variable: &str, default: Option<&str>| Extract {
            variable: variable.into(),
            place: Place::Json(format!("/{variable}")),
            default: default.map(Into::into),
        };
        let call = CallSpec {
            method: "POST".into(),
            path: "/login".into(),
            extract: vec![extract("token", None), extract("name", Some("x"))],
            ..CallSpec::default()
        };
        let load = Load::Closed { connections: 1, think: Think::None };
        let mut plan = Plan::new(Vec::new(), vec![call], load, Stop::default());
        let said = missing(0, &plan);
        let of = |step| Some(format!("no token (json /token) in the reply to {step}:"));
        assert_eq!(said, of("POST /login"));
        plan.names = vec!["log in".into()];
        plan.calls[0].name = Some(0);
        assert_eq!(missing(0, &plan), of("log in"));
        assert_eq!(missing(1, &plan), None);
    }

    #[test]
    fn a_page_is_a_line_of_text() {
        let page = "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port\
                    </title></head>\r\n<body>\r\n<center><h1>400 Bad";
        assert_eq!(readable(page), "400 The plain HTTP request was sent to HTTPS port 400 Bad");
        assert_eq!(readable("{\"error\": \"no\n such\"}"), "{\"error\": \"no such\"}");
        assert_eq!(readable("<3"), "<3");
    }
}
