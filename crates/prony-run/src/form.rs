//! Multi-part forms (RFC 7578): their parts as curl writes them, and the body of the request.

use std::path::Path;

use prony_plan::script::Template;
use ring::digest;

use crate::error::Error;
use crate::files;

/// A multi-part form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    parts: Vec<Part>,
    boundary: String,
}

/// A part of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The name of the field.
    pub name: String,
    /// The name of the file, if it is one.
    pub file_name: Option<String>,
    /// Its media type. Files without one have that of their name's extension.
    pub kind: Option<String>,
    /// Its content.
    pub content: Vec<u8>,
    /// Whether the content is sent unchanged, even if it looks like a template.
    pub is_literal: bool,
}

/// A part as curl's `-F` has it: `name=text`, `name=@file` or `name=<file`, then perhaps
/// `;type=...` and `;filename=...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartArg {
    name: String,
    content: Content,
    kind: Option<String>,
    file_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// A file that is uploaded.
    File(String),
    /// A text that is in a file.
    TextOf(String),
}

const FORMS: &str = "write NAME=TEXT, NAME=@FILE or NAME=<FILE, then perhaps ;type=TYPE";

impl PartArg {
    /// Parse a part as curl does. A text with `;` can be in double quotes.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or(FORMS)?;
        if name.is_empty() {
            return Err(format!("the field has no name; {FORMS}"));
        }
        let (sign, rest) = match rest.chars().next() {
            Some(sign @ ('@' | '<')) => (Some(sign), &rest[1..]),
            _ => (None, rest),
        };
        let (value, attributes) = match rest.strip_prefix('"') {
            Some(inner) => unquoted(inner)?,
            None => unattributed(rest),
        };
        let (mut kind, mut file_name) = (None, None);
        for attribute in attributes {
            let attribute = attribute.trim();
            if let Some(text) = attribute.strip_prefix("type=") {
                kind = Some(checked_kind(text)?);
            } else if let Some(text) = attribute.strip_prefix("filename=") {
                let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
                file_name = Some(inner.unwrap_or(text).to_owned());
            } else {
                return Err(format!(
                    "'{}' is neither type= nor filename=",
                    attribute.escape_debug()
                ));
            }
        }
        let content = match sign {
            None => Content::Text(value),
            Some(_) if value.is_empty() => return Err(format!("the file has no name; {FORMS}")),
            Some('@') => Content::File(value),
            Some(_) => Content::TextOf(value),
        };
        Ok(Self { name: name.to_owned(), content, kind, file_name })
    }

    /// The file that it names.
    pub fn file(&self) -> Option<&str> {
        match &self.content {
            Content::Text(_) => None,
            Content::File(file) | Content::TextOf(file) => Some(file),
        }
    }

    /// The part, with the bytes of its file if it names one.
    pub fn part(self, bytes: Option<Vec<u8>>) -> Part {
        let Self { name, content, kind, file_name } = self;
        match content {
            Content::Text(text) => {
                Part { name, file_name, kind, content: text.into_bytes(), is_literal: false }
            }
            Content::File(file) => {
                let part = Part::of_file(name, &file, kind, bytes.unwrap_or_default());
                Part { file_name: file_name.or(part.file_name), ..part }
            }
            Content::TextOf(_) => {
                let content = bytes.unwrap_or_default();
                Part { name, file_name, kind, content, is_literal: true }
            }
        }
    }

    /// The part; reads the file that it names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self, what: &'static str) -> Result<Part, Error> {
        let bytes = self.file().map(|file| files::read(what, Path::new(file))).transpose()?;
        Ok(self.part(bytes))
    }
}

/// The text up to a closing quote, and the attributes after it. `\"` and `\\` are escapes.
fn unquoted(inner: &str) -> Result<(String, Vec<&str>), String> {
    let mut text = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let mut rest = inner[at + 1..].split(';');
                let before = rest.next().unwrap_or_default();
                if !before.trim().is_empty() {
                    let before = before.trim().escape_debug();
                    return Err(format!("'{before}' follows the quoted text"));
                }
                return Ok((text, rest.collect()));
            }
            '\\' if inner[at + 1..].starts_with(['"', '\\']) => {
                text.extend(chars.next().map(|(_, c)| c));
            }
            c => text.push(c),
        }
    }
    Err("the quoted text has no end".to_owned())
}

/// The text without the attributes at its end. Other semicolons belong to it.
fn unattributed(text: &str) -> (String, Vec<&str>) {
    let (mut value, mut attributes) = (text, Vec::new());
    while let Some((before, last)) = value.rsplit_once(';') {
        let trimmed = last.trim_start();
        if !trimmed.starts_with("type=") && !trimmed.starts_with("filename=") {
            break;
        }
        attributes.insert(0, last);
        value = before;
    }
    (value.to_owned(), attributes)
}

/// A media type, which becomes the value of a header.
pub fn checked_kind(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_fit = |c: char| c == ' ' || c.is_ascii_graphic();
    match text.split_once('/') {
        Some((_, kind)) if !kind.is_empty() && text.chars().all(is_fit) => Ok(text.to_owned()),
        _ => Err(format!("'{}' is not a media type, as text/plain", text.escape_debug())),
    }
}

/// The media type of a file, by the extension of its name. The same list as curl's.
fn kind_of(file: &str) -> &'static str {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "htm" | "html" => "text/html",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        _ => "application/octet-stream",
    }
}

impl Part {
    /// A field with this text.
    pub fn of_text(name: String, text: String, kind: Option<String>) -> Self {
        Self { name, kind, content: text.into_bytes(), ..Self::default() }
    }

    /// A file with these bytes, called as the file without its folder.
    pub fn of_file(name: String, file: &str, kind: Option<String>, content: Vec<u8>) -> Self {
        let kind = kind.or_else(|| Some(kind_of(file).to_owned()));
        let base = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
        Self { name, kind, content, is_literal: true, file_name: base }
    }
}

impl Form {
    /// The form of these parts. Its boundary depends only on them, so that the same form always has
    /// the same bytes.
    pub fn new(parts: Vec<Part>) -> Self {
        let mut boundary = String::new();
        for round in 0_u32.. {
            let mut sum = digest::Context::new(&digest::SHA256);
            sum.update(&round.to_be_bytes());
            for part in &parts {
                sum.update(part.name.as_bytes());
                sum.update(&(part.content.len() as u64).to_be_bytes());
                sum.update(&part.content);
            }
            let sum = sum.finish();
            let hex: String = sum.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
            boundary = format!("----prony-{hex}");
            let text = boundary.as_bytes();
            let is_inside = |part: &Part| part.content.windows(text.len()).any(|w| w == text);
            if !parts.iter().any(is_inside) {
                break;
            }
        }
        Self { parts, boundary }
    }

    /// The value of its header `Content-Type`.
    pub fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// Whether a part has the fields of a template.
    pub fn has_fields(&self) -> bool {
        self.parts.iter().any(|part| {
            let names = [&part.name].into_iter().chain(&part.file_name);
            let content = (!part.is_literal).then_some(&part.content[..]);
            names.map(String::as_bytes).chain(content).any(Template::has_fields)
        })
    }

    /// Its bytes. In a template, contents that are sent unchanged have no fields.
    pub fn body(&self, is_template: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.parts {
            let mut head = format!(
                "--{}\r\nContent-Disposition: form-data; name=\"{}\"",
                self.boundary,
                escaped(&part.name)
            );
            if let Some(file) = &part.file_name {
                head += &format!("; filename=\"{}\"", escaped(file));
            }
            if let Some(kind) = &part.kind {
                head += &format!("\r\nContent-Type: {kind}");
            }
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
            match is_template && part.is_literal {
                true => Template::escape(&part.content, &mut out),
                false => out.extend_from_slice(&part.content),
            }
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        out
    }
}

/// A name as it is written in quotes (as browsers do it).
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> PartArg {
        PartArg::parse(text).expect(text)
    }

    #[test]
    fn parts_are_parsed_as_curl_does() {
        let part = |text: &str| {
            let arg = parsed(text);
            let bytes = arg.file().map(|file| format!("<{file}>").into_bytes());
            let Part { name, file_name, kind, content, .. } = arg.part(bytes);
            let content = String::from_utf8(content).expect("text");
            [name, content, kind.unwrap_or_default(), file_name.unwrap_or_default()].join("|")
        };
        for (text, expected) in [
            ("name=daniel", "name|daniel||"),
            ("empty=", "empty|||"),
            ("a=b=c;d", "a|b=c;d||"),
            ("a=x;type=text/foo", "a|x|text/foo|"),
            ("a=\"x;type=\\\"\\\\\";type=text/foo; filename=n", "a|x;type=\"\\|text/foo|n"),
            ("web=@dir/index.html", "web|<dir/index.html>|text/html|index.html"),
            ("web=@a.PNG;type=image/x;filename=b.bin", "web|<a.PNG>|image/x|b.bin"),
            ("web=@\"a;b.txt\"", "web|<a;b.txt>|text/plain|a;b.txt"),
            ("story=<tale.txt", "story|<tale.txt>||"),
            ("story=<tale.txt;type=text/x", "story|<tale.txt>|text/x|"),
        ] {
            assert_eq!(part(text), expected, "{text}");
        }
        for (text, why) in [
            ("name", "write NAME=TEXT"),
            ("=x", "the field has no name"),
            ("a=@", "the file has no name"),
            ("a=x;type=plain", "'plain' is not a media type"),
            ("a=x;type=text/a\r\nEvil: 1", "is not a media type"),
            ("a=\"x", "the quoted text has no end"),
            ("a=\"x\"y", "'y' follows the quoted text"),
            ("a=\"x\";size=3", "'size=3' is neither type= nor filename="),
        ] {
            let refused = PartArg::parse(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn bodies_have_the_parts_between_boundaries() {
        let parts = || {
            vec![
                Part::of_text("a\"b".into(), "x{{y}}".into(), None),
                Part::of_file("f".into(), "d/b.txt", None, b"{{{\0}}".to_vec()),
            ]
        };
        let form = Form::new(parts());
        assert_eq!(form, Form::new(parts()), "the same parts, the same boundary");
        assert!(form.has_fields());
        let boundary = &form.boundary;
        let kind = format!("multipart/form-data; boundary={boundary}");
        assert_eq!(form.content_type(), kind);
        let expected = |file: &str| {
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"a%22b\"\r\n\r\nx{{{{y}}}}\r\n\
                 --{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"b.txt\"\r\n\
                 Content-Type: text/plain\r\n\r\n{file}\r\n--{boundary}--\r\n"
            )
        };
        assert_eq!(String::from_utf8(form.body(false)).expect("text"), expected("{{{\0}}"));
        let template = String::from_utf8(form.body(true)).expect("text");
        assert_eq!(template, expected("{{\"{{\"}}{\0}}"));
        assert!(!Form::new(parts()[1..].to_vec()).has_fields(), "files are no templates");
    }
}
