//! The format strings of nginx's `log_format`.

use super::class::Class;
use super::{Pattern, Piece};
use crate::escapes::Escapes;
use crate::fields::{Edge, Form, Role};
use crate::format_error::FormatError;
use crate::times::SECOND;

/// A string with the variables of nginx, alone or as the whole directive: `escape=none $msec ...`,
/// `log_format main escape=json '...' '...';`.
pub(crate) fn compile(text: &str) -> Result<Pattern, FormatError> {
    let (escapes, format) = directive(text)?;
    // The parts of a target that stand side by side are one.
    let format = format.replace("$uri$is_args$args", "${uri_is_args_args}");
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
        let (role, class) = variable(name);
        pieces.push(Piece::Part(role, class, format!("${name}")));
        rest = &after[end..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Pattern::new(pieces, escapes)
}

/// The escapes, and the string itself.
fn directive(text: &str) -> Result<(Escapes, String), FormatError> {
    let mut rest = text.trim();
    let directive = rest.strip_prefix("log_format").filter(|rest| rest.starts_with([' ', '\t']));
    if let Some(named) = directive {
        let name = named.trim_start();
        rest = name.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
    }
    // Without it, the escapes of `default` and `json` are both undone: they differ in their text.
    let mut escapes = Escapes::Backslash;
    if let Some(escape) = rest.strip_prefix("escape=") {
        let (kind, after) = escape.split_once(char::is_whitespace).unwrap_or((escape, ""));
        escapes = match kind {
            "default" | "json" => Escapes::Backslash,
            "none" => Escapes::None,
            _ => return Err(FormatError::Escape(kind.to_owned())),
        };
        rest = after.trim_start();
    }
    if directive.is_none() {
        return Ok((escapes, rest.to_owned()));
    }
    // The strings of a directive are one.
    let mut format = String::new();
    while let Some(mark @ ('\'' | '"')) = rest.chars().next() {
        let mut end = None;
        let mut chars = rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c @ ('\'' | '"' | '\\'))) => format.push(c),
                    Some((_, 't')) => format.push('\t'),
                    Some((_, c)) => format.extend(['\\', c]),
                    None => return Err(FormatError::Directive),
                },
                c if c == mark => {
                    end = Some(i + 1);
                    break;
                }
                c => format.push(c),
            }
        }
        rest = rest[end.ok_or(FormatError::Directive)?..].trim_start();
    }
    match rest.trim() {
        "" | ";" if !format.is_empty() => Ok((escapes, format)),
        _ => Err(FormatError::Directive),
    }
}

/// What a variable is. nginx writes a line when its request has ended.
fn variable(name: &str) -> (Role, Class) {
    match name {
        "time_local" => (Role::Time(Form::Clf, Edge::End), Class::Time),
        "time_iso8601" => (Role::Time(Form::Iso, Edge::End), Class::Time),
        "msec" => (Role::Time(Form::Epoch(SECOND), Edge::End), Class::Number),
        "remote_addr" => (Role::Client, Class::Name),
        "request" => (Role::Request, Class::Request),
        "request_method" => (Role::Method, Class::Name),
        "request_uri" => (Role::Target, Class::Target),
        "uri" | "document_uri" => (Role::Path, Class::Text),
        "uri_is_args_args" => (Role::PathQuery, Class::Text),
        "args" | "query_string" => (Role::Query, Class::Word),
        "status" => (Role::Status, Class::Number),
        "request_time" => (Role::Took(SECOND), Class::Number),
        // From the connection to the upstream to the last byte of its reply, of each attempt.
        "upstream_response_time" => (Role::TookList(SECOND), Class::List),
        "upstream_addr"
        | "upstream_status"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "upstream_first_byte_time"
        | "upstream_session_time"
        | "upstream_queue_time"
        | "upstream_response_length"
        | "upstream_bytes_received"
        | "upstream_bytes_sent" => (Role::Ignored, Class::List),
        "body_bytes_sent"
        | "bytes_sent"
        | "request_length"
        | "connection"
        | "connection_requests"
        | "connection_time"
        | "pid"
        | "remote_port"
        | "server_port"
        | "gzip_ratio"
        | "content_length" => (Role::Ignored, Class::Number),
        "host" | "server_name" | "hostname" | "server_addr" | "realip_remote_addr" | "scheme"
        | "request_id" | "pipe" | "https" => (Role::Ignored, Class::Name),
        "server_protocol" | "ssl_protocol" | "ssl_cipher" | "upstream_cache_status" => {
            (Role::Ignored, Class::Word)
        }
        _ if name == "http_cookie" || name.starts_with("cookie_") => (Role::Cookie, Class::Text),
        _ => (Role::Ignored, Class::Text),
    }
}
