//! The format strings of Apache's `LogFormat` and of Tomcat's `AccessLogValve`.

use super::class::Class;
use super::{MICRO, MILLI, Pattern, Piece};
use crate::escapes::Escapes;
use crate::fields::{Edge, Form, Role};
use crate::format_error::FormatError;
use crate::times::SECOND;

/// A string with the directives of Apache, alone or as the whole `LogFormat`.
pub(crate) fn compile(text: &str) -> Result<Pattern, FormatError> {
    compile_for(&Server::APACHE, text)
}

/// The pattern of Tomcat's `AccessLogValve`.
pub(crate) fn tomcat(text: &str) -> Result<Pattern, FormatError> {
    match text.trim() {
        "common" => compile_for(&Server::TOMCAT, "%h %l %u %t \"%r\" %s %{rest}n"),
        "combined" => {
            compile_for(&Server::TOMCAT, "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" %{rest}n")
        }
        text => compile_for(&Server::TOMCAT, text),
    }
}

/// What differs between servers with such directives.
struct Server {
    /// What happened at the time `%t`.
    time: Edge,
    /// How long the request took, `%D`: Tomcat had milliseconds before version 10, and has
    /// microseconds since.
    took: Role,
    /// Whether it has decoded the path of `%U`.
    decodes: bool,
    escapes: Escapes,
}

impl Server {
    const APACHE: Self = Self {
        time: Edge::Start,
        took: Role::Took(MICRO),
        decodes: true,
        escapes: Escapes::Backslash,
    };
    const TOMCAT: Self =
        Self { time: Edge::End, took: Role::TookUnclear, decodes: false, escapes: Escapes::Tomcat };
}

fn compile_for(server: &Server, text: &str) -> Result<Pattern, FormatError> {
    // As the string stands in the configuration, or between its quotation marks.
    let format = string(text)?.replace("\\\"", "\"").replace("\\t", "\t");
    if !server.decodes && format.contains("%U%q") {
        return Err(FormatError::NoQuery);
    }
    let format = format.replace("%U%q", "%{target}U");
    let mut pieces = Vec::new();
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
                let role = Role::Time(Form::Clf, server.time);
                pieces.push(Piece::Text(b"[".to_vec()));
                pieces.push(Piece::Part(role, Class::Time, "%t".to_owned()));
                pieces.push(Piece::Text(b"]".to_vec()));
            }
            ('t', Some(form)) => {
                let (role, class) = time(form, server.time)?;
                pieces.push(Piece::Part(role, class, format!("%{{{form}}}t")));
            }
            (letter, argument) => {
                let name = match argument {
                    Some(argument) => format!("%{{{argument}}}{letter}"),
                    None => format!("%{letter}"),
                };
                let (role, class) = part(letter, argument, server);
                pieces.push(Piece::Part(role, class, name));
            }
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Pattern::new(pieces, server.escapes)
}

/// The string of `LogFormat "..." name`, or the text itself.
fn string(text: &str) -> Result<&str, FormatError> {
    let Some(rest) = text.trim().strip_prefix("LogFormat") else { return Ok(text) };
    let rest = rest.trim_start().strip_prefix('"').ok_or(FormatError::Directive)?;
    let bytes = rest.as_bytes();
    let end = (0..bytes.len()).find(|&i| bytes[i] == b'"' && !super::is_escaped(bytes, i));
    end.map(|end| &rest[..end]).ok_or(FormatError::Directive)
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

fn time(form: &str, edge: Edge) -> Result<(Role, Class), FormatError> {
    let (plain, edge) = match (form.strip_prefix("begin:"), form.strip_prefix("end:")) {
        (Some(plain), _) => (plain, Edge::Start),
        (_, Some(plain)) => (plain, Edge::End),
        _ => (form, edge),
    };
    let number = |unit| (Role::Time(Form::Epoch(unit), edge), Class::Number);
    Ok(match plain {
        "sec" => number(SECOND),
        "msec" => number(MILLI),
        "usec" => number(MICRO),
        "msec_frac" => (Role::Fraction(MILLI), Class::Number),
        "usec_frac" => (Role::Fraction(MICRO), Class::Number),
        "%d/%b/%Y:%H:%M:%S %z" | "%d/%b/%Y:%T %z" | "dd/MMM/yyyy:HH:mm:ss Z" => {
            (Role::Time(Form::Clf, edge), Class::Time)
        }
        "%Y-%m-%dT%H:%M:%S%z"
        | "%FT%T%z"
        | "%Y-%m-%d %H:%M:%S"
        | "%F %T"
        | "%FT%T"
        | "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
        | "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
        | "yyyy-MM-dd HH:mm:ss.SSS"
        | "yyyy-MM-dd'T'HH:mm:ssZ" => (Role::Time(Form::Iso, edge), Class::Time),
        _ => return Err(FormatError::TimeForm(form.to_owned())),
    })
}

fn part(letter: char, argument: Option<&str>, server: &Server) -> (Role, Class) {
    match (letter, argument) {
        ('h' | 'a', _) => (Role::Client, Class::Word),
        ('r', _) => (Role::Request, Class::Request),
        ('m', _) => (Role::Method, Class::Name),
        ('U', _) if !server.decodes => (Role::RawPath, Class::Target),
        // Path and query side by side; only the path is decoded.
        ('U', Some("target")) => (Role::PathQuery, Class::Text),
        ('U', _) => (Role::Path, Class::Text),
        ('q', _) => (Role::Query, Class::Word),
        ('s', _) => (Role::Status, Class::Number),
        ('D', _) => (server.took, Class::Number),
        ('T', Some("us")) => (Role::Took(MICRO), Class::Number),
        ('T', Some("ms")) => (Role::Took(MILLI), Class::Number),
        ('T', _) => (Role::Took(SECOND), Class::Number),
        ('C', Some(_)) => (Role::Cookie, Class::Text),
        ('i', Some(name)) if name.eq_ignore_ascii_case("cookie") => (Role::Cookie, Class::Text),
        ('b' | 'B' | 'I' | 'O' | 'S' | 'P' | 'p' | 'k' | 'F', _) => (Role::Ignored, Class::Number),
        ('l' | 'v' | 'V' | 'A' | 'H' | 'L' | 'R' | 'X', _) => (Role::Ignored, Class::Word),
        _ => (Role::Ignored, Class::Text),
    }
}
