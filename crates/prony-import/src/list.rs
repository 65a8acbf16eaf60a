//! A URL per line, as siege and similar tools read them: `URL`, or `URL POST DATA`. `NAME = value`
//! sets a variable for `$NAME` and `$(NAME)`.

use std::collections::{BTreeSet, HashMap};

use crate::context::{Context, DEPTH};
use crate::notes::Notes;
use crate::url;
use crate::vegeta::alone;
use crate::{Body, Import, Request};

/// The most bytes of a variable's name.
const NAME: usize = 256;

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    let mut import = Import { is_list: true, ..Import::default() };
    let mut variables = Variables::default();
    for (line, text) in text.lines().map(str::trim).enumerate() {
        let at = line + 1;
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(text) {
            if name.len() > NAME {
                return Err(format!(":{at}: the name of a variable has more than {NAME} bytes"));
            }
            variables.lengths.insert(name.len());
            variables.by_name.insert(name, value);
            continue;
        }
        let mut filled = String::new();
        variables.fill(text, &mut filled, context, &mut Vec::new());
        context.check().map_err(|e| format!(":{at}: {e}"))?;
        let address = match filled.starts_with('/') {
            true => context.options.at(&filled).map_err(|e| format!(":{at}: {e}"))?,
            false => filled,
        };
        match request(&address, at, context, &mut import.notes) {
            Ok(request) => {
                context.admit(&request).map_err(|e| format!(":{at}: {e}"))?;
                import.sessions.push(alone(request));
            }
            Err(why) => {
                context.check().map_err(|e| format!(":{at}: {e}"))?;
                import.notes.add(&why, &format!("line {at}"));
            }
        }
    }
    Ok(import)
}

fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    (starts && name.bytes().all(|b| is_letter(&b))).then(|| (name, value.trim()))
}

/// The variables so far.
#[derive(Default)]
struct Variables<'a> {
    by_name: HashMap<&'a str, &'a str>,
    /// The lengths of their names.
    lengths: BTreeSet<usize>,
}

impl<'a> Variables<'a> {
    /// Adds the text with the values of variables, which may have others. `within` are those whose
    /// value it is; in it, they stand for themselves.
    fn fill(&self, text: &str, out: &mut String, context: &Context<'_>, within: &mut Vec<&'a str>) {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            let Some((name, value, length)) = self.named(after) else {
                out.push('$');
                rest = after;
                continue;
            };
            rest = &after[length..];
            if within.contains(&name) {
                out.push('$');
                out.push_str(&after[..length]);
            } else if within.len() == DEPTH {
                context.fail("its variables are more than 64 deep in each other");
            } else if context.spend_field(value) {
                within.push(name);
                self.fill(value, out, context, within);
                within.pop();
            }
        }
        out.push_str(rest);
    }

    /// The variable at the start of a text after `$`: its name, its value, and how many bytes name
    /// it. One name may start with another: the longest one is meant.
    fn named(&self, text: &str) -> Option<(&'a str, &'a str, usize)> {
        let found = |name: &str| self.by_name.get_key_value(name);
        for (open, close) in [('(', ')'), ('{', '}')] {
            if let Some(inner) = text.strip_prefix(open) {
                let name = inner.bytes().take(NAME).take_while(is_letter).count();
                let (name, after) = inner.split_at(name);
                let (name, value) = found(name).filter(|_| after.starts_with(close))?;
                return Some((name, value, name.len() + 2));
            }
        }
        let letters = text.bytes().take(NAME).take_while(is_letter).count();
        self.lengths.range(..=letters).rev().find_map(|&length| {
            let (name, value) = found(&text[..length])?;
            Some((*name, *value, length))
        })
    }
}

fn is_letter(b: &u8) -> bool {
    b.is_ascii_alphanumeric() || *b == b'_'
}

/// The request of a line, or why it is left out.
fn request(
    text: &str,
    at: usize,
    context: &Context<'_>,
    notes: &mut Notes,
) -> Result<Request, String> {
    let (address, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let address = match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    };
    let (origin, path) = url::split(&address)?;
    let rest = rest.trim();
    let (method, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let method = match method.to_ascii_uppercase() {
        method if method.is_empty() => "GET".to_owned(),
        method => method,
    };
    let data = data.trim();
    let body = match data.strip_prefix('<') {
        _ if data.is_empty() => Body::None,
        Some(file) => context.read(file, &format!("line {at}"))?.into(),
        None => Body::Text(data.into()),
    };
    if !data.is_empty() && ["GET", "HEAD"].contains(&&*method) {
        notes.add(&format!("a {method} with data: they are its body"), &format!("line {at}"));
    }
    let kind = ("Content-Type".to_owned(), "application/x-www-form-urlencoded".into());
    let mut headers = if body == Body::None { Vec::new() } else { vec![kind] };
    url::add_credentials(&address, &mut headers);
    Ok(Request {
        place: format!("line {at}"),
        origin,
        path: path.into(),
        method,
        headers,
        body,
        ..Request::default()
    })
}
