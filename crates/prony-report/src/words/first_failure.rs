//! What the first failed request of a kind shows: its status, the start of its body, and when.

use prony_core::fault::Fault;
use prony_core::plan::{Plan, status_text};
use prony_core::summary::Summary;
use prony_core::vars::{Extract, Place};

use crate::units;

/// The characters of a body that are shown.
const SHOWN: usize = 100;

/// The first failure of a kind with a reply, as the end of a line:
/// `400 "The plain HTTP ..." after 2 ms`.
pub(crate) fn first_failure(fault: Fault, summary: &Summary) -> Option<String> {
    let first = summary.main.first_failures.get(&fault).filter(|first| first.status.is_some())?;
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
    use prony_core::plan::{CallSpec, Load, Stop, Think};

    use super::*;

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
