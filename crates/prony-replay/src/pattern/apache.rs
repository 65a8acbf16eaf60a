//! The format strings of Apache's `LogFormat`.

use super::{MICRO, MILLI, Pattern, Piece};
use crate::fields::Role;
use crate::format_error::FormatError;
use crate::times::SECOND;

/// A string with the directives of Apache.
pub(crate) fn compile(format: &str) -> Result<Pattern, FormatError> {
    // As the string stands in the configuration, or between its quotation marks.
    let format = format.replace("\\\"", "\"").replace("\\t", "\t").replace("%U%q", "%{target}U");
    let mut pieces = Vec::new();
    let mut ends = false;
    let mut rest = format.as_str();
    while let Some(i) = rest.find('%') {
        if i > 0 {
            pieces.push(Piece::Text(rest[..i].into()));
        }
        let directive = Directive::read(&rest[i + 1..])?;
        rest = &rest[i + 1 + directive.len..];
        match (directive.letter, directive.argument) {
            ('%', _) => pieces.push(Piece::Text(b"%".to_vec())),
            ('t', None) => {
                pieces.push(Piece::Text(b"[".to_vec()));
                pieces.push(Piece::Part(Role::ClfTime, "%t".to_owned()));
                pieces.push(Piece::Text(b"]".to_vec()));
            }
            ('t', Some(form)) => {
                ends |= form.starts_with("end:");
                pieces.push(Piece::Part(time(form)?, format!("%{{{form}}}t")));
            }
            (letter, argument) => {
                let name = match argument {
                    Some(argument) => format!("%{{{argument}}}{letter}"),
                    None => format!("%{letter}"),
                };
                pieces.push(Piece::Part(role(letter, argument), name));
            }
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Pattern::new(pieces, ends)
}

/// A directive after its `%`.
struct Directive<'a> {
    letter: char,
    argument: Option<&'a str>,
    len: usize,
}

impl<'a> Directive<'a> {
    fn read(text: &'a str) -> Result<Self, FormatError> {
        // Conditions: `!200,304`, `<`, `>`.
        let is_condition = |c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>');
        let mut rest = text.trim_start_matches(is_condition);
        let mut argument = None;
        if let Some(braced) = rest.strip_prefix('{') {
            let (inner, after) = braced.split_once('}').ok_or(FormatError::NoName)?;
            (argument, rest) = (Some(inner), after);
        }
        // `%^FB`, `%^ti` and others.
        let carets = rest.strip_prefix('^').map_or(0, |rest| 1 + usize::from(rest.len() > 1));
        let letters = rest.get(carets..).ok_or(FormatError::NoName)?;
        let letter = letters.chars().next().ok_or(FormatError::NoName)?;
        if letter != '%' && !letter.is_ascii_alphabetic() {
            return Err(FormatError::NoName);
        }
        let len = text.len() - rest.len() + carets + 1;
        Ok(Self { letter: if carets > 0 { '^' } else { letter }, argument, len })
    }
}

fn time(form: &str) -> Result<Role, FormatError> {
    let plain = form.strip_prefix("begin:").or_else(|| form.strip_prefix("end:")).unwrap_or(form);
    Ok(match plain {
        "sec" => Role::Epoch(SECOND),
        "msec" => Role::Epoch(MILLI),
        "usec" => Role::Epoch(MICRO),
        "msec_frac" => Role::Fraction(MILLI),
        "usec_frac" => Role::Fraction(MICRO),
        "%d/%b/%Y:%H:%M:%S %z" | "%d/%b/%Y:%T %z" => Role::ClfTime,
        "%Y-%m-%dT%H:%M:%S%z" | "%FT%T%z" | "%Y-%m-%d %H:%M:%S" | "%F %T" | "%FT%T" => {
            Role::IsoTime
        }
        _ => return Err(FormatError::TimeForm(form.to_owned())),
    })
}

fn role(letter: char, argument: Option<&str>) -> Role {
    match (letter, argument) {
        ('h' | 'a', _) => Role::Client,
        ('r', _) => Role::Request,
        ('m', _) => Role::Method,
        ('U', _) => Role::Target,
        ('q', _) => Role::Query,
        ('s', _) => Role::Status,
        ('D', _) | ('T', Some("us")) => Role::Took(MICRO),
        ('T', Some("ms")) => Role::Took(MILLI),
        ('T', _) => Role::Took(SECOND),
        ('C', Some(_)) => Role::Cookie,
        ('i', Some(name)) if name.eq_ignore_ascii_case("cookie") => Role::Cookie,
        _ => Role::Ignored,
    }
}
