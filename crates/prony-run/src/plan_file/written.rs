//! Values as a plan file has them.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_base::plain::{self, Sink};
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Expect};
use prony_plan::vars::Template;

pub(super) fn expectations(expect: &Expect) -> Vec<(&'static str, String)> {
    let key = if expect.is_of_grpc() { "expect-grpc" } else { "expect" };
    let mut all = vec![(key, quoted(&expect.statuses_text()))];
    if let Some(bytes) = &expect.body {
        all.push(("expect-body", text_or_base64(bytes)));
    }
    if let Some(length) = expect.length {
        all.push(("expect-length", integer(length)));
    }
    all
}

/// A body as a plan file has it, and whether it is literal there. Text that starts with `@` would
/// be read as a file name.
pub(super) fn body(call: &CallSpec) -> (String, bool) {
    let bytes = &call.body[..];
    match std::str::from_utf8(bytes) {
        Ok(text) if text.starts_with('@') => (format!("{{ text = {} }}", quoted(text)), false),
        Ok(text) => (quoted(text), false),
        Err(_) if !call.template || call.grpc.is_some() => (text_or_base64(bytes), true),
        Err(_) => match Template::unescaped(bytes) {
            Some(plain) => (text_or_base64(&plain), true),
            None => {
                let code = BASE64.encode(bytes);
                (format!("{{ base64 = \"{code}\", templates = true }}"), false)
            }
        },
    }
}

pub(super) fn text_or_base64(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => quoted(text),
        Err(_) => format!("{{ base64 = \"{}\" }}", BASE64.encode(bytes)),
    }
}

pub(super) fn headers(headers: &[(String, String)]) -> String {
    let lines = headers.iter().map(|(name, value)| {
        if value.trim_matches([' ', '\t']) == value {
            quoted(&format!("{name}: {value}"))
        } else {
            format!("[{}, {}]", quoted(name), quoted(value))
        }
    });
    array(&lines.collect::<Vec<_>>())
}

/// Times in seconds, ten per line.
pub(super) fn trace(times: &[Span]) -> String {
    let seconds = |t: &Span| {
        let text = format!("{}.{:09}", t.0 / 1_000_000_000, t.0 % 1_000_000_000);
        let short = text.trim_end_matches('0');
        if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
    };
    let lines = times.chunks(10).map(|chunk| {
        let texts: Vec<_> = chunk.iter().map(seconds).collect();
        format!("  {},\n", texts.join(", "))
    });
    format!("[\n{}]", lines.collect::<String>())
}

/// TOML supports numbers up to 2^63 - 1; larger ones are written as text.
pub(super) fn integer(n: u64) -> String {
    if i64::try_from(n).is_ok() { n.to_string() } else { quoted(&n.to_string()) }
}

pub(super) fn array(elements: &[String]) -> String {
    format!("[{}]", elements.join(", "))
}

pub(super) fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{key} = {value}");
}

/// A TOML string: a literal string if that avoids escapes.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = !text.contains('\'') && matches!(plain::line(text), Cow::Borrowed(_));
    if is_plain && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    plain::plain(&out, Sink::Toml).into_owned()
}
