//! The format strings of nginx's `log_format`.

use super::{Pattern, Piece};
use crate::fields::Role;
use crate::format_error::FormatError;
use crate::times::SECOND;

/// A string with the variables of nginx.
pub(crate) fn compile(format: &str) -> Result<Pattern, FormatError> {
    // The parts of a target that stand side by side are one.
    let format = format.replace("$uri$is_args$args", "$request_uri");
    let has_uri = format.contains("$request_uri") || format.contains("${request_uri}");
    let mut pieces = Vec::new();
    let mut rest = format.as_str();
    while let Some(i) = rest.find('$') {
        if i > 0 {
            pieces.push(Piece::Text(rest[..i].into()));
        }
        let after = &rest[i + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, end) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(FormatError::NoName);
        }
        let role = match role(name) {
            // What nginx has made of it.
            Role::Target | Role::Query if has_uri && name != "request_uri" => Role::Ignored,
            role => role,
        };
        pieces.push(Piece::Part(role, format!("${name}")));
        rest = &after[end..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    // nginx writes a line when the request has ended.
    Pattern::new(pieces, true)
}

fn role(name: &str) -> Role {
    match name {
        "time_local" => Role::ClfTime,
        "time_iso8601" => Role::IsoTime,
        "msec" => Role::Epoch(SECOND),
        "remote_addr" => Role::Client,
        "request" => Role::Request,
        "request_method" => Role::Method,
        "request_uri" | "uri" | "document_uri" => Role::Target,
        "args" | "query_string" => Role::Query,
        "status" => Role::Status,
        "request_time" => Role::Took(SECOND),
        _ if name == "http_cookie" || name.starts_with("cookie_") => Role::Cookie,
        _ => Role::Ignored,
    }
}
