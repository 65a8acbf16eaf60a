//! Bodies of requests in a plan file: texts, files, and multi-part forms.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_base::grpc::Gzip;
use prony_plan::plan::CallSpec;
use prony_plan::vars::Template;
use toml::de::DeValue;

use super::dynamic;
use super::reader::{Item, Problems, Section};
use super::requests::Requests;
use super::words::COMPRESS;
use crate::files::{self, Body};
use crate::form::{Form, Part, PartArg, checked_kind};

const BODY: &str = "a string, \"@FILE\", { text = ... }, { file = ... } or { base64 = ... }";

/// A body that was read.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) body: Body,
    /// What looks like fields in it is none: it was given as bytes.
    pub(super) is_literal: bool,
}
const FORM: &str =
    "{ name = \"text\", file = \"@FILE\", ... } or [\"name=text\", \"file=@FILE\", ...]";
const PART: &str =
    "a string, \"@FILE\", { text = ... } or { file = ... }, with `type` and `filename`";

impl<'a> Requests<'a> {
    /// Reads the body of a request, or its form.
    pub(super) fn content(&mut self, section: &mut Section<'a>) -> (Content, Option<Form>) {
        let (body, form) = (section.take("body"), section.take("form"));
        if let (Some(_), Some(form)) = (&body, &form) {
            self.problems.add(form.at, "`form` is a body of its own; omit `body`");
        }
        let body = body.and_then(|item| self.body_of_request(item)).unwrap_or_default();
        (body, form.and_then(|item| self.form(item)))
    }

    /// Compress the body of the request, or have it compressed each time if it varies.
    pub(super) fn compress(&mut self, item: Option<Item<'a>>, call: &mut CallSpec) {
        const CODING: &str = "Content-Encoding";
        let Some(item) = item else { return };
        if item.word(&mut self.problems, COMPRESS).is_none() {
            return;
        }
        let known = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(CODING));
        let why = match known {
            _ if self.is_grpc || self.is_websocket || call.grpc.is_some() => {
                Some("messages are not bodies; use [http2] or [websocket]".to_owned())
            }
            _ if call.bare => Some("a `bare` request is sent as it is written".to_owned()),
            _ if call.file.is_some() => {
                Some("a body over 64 MiB is sent from its file, as it is".to_owned())
            }
            _ if call.body.is_empty() => Some("the request has no body".to_owned()),
            Some((_, value)) if value != "gzip" => {
                Some(format!("the header {CODING} is '{}'", value.escape_debug()))
            }
            _ => None,
        };
        if let Some(why) = why {
            return self.problems.add(item.at, format!("`compress`: {why}"));
        }
        if known.is_none() {
            call.headers.push((CODING.to_owned(), "gzip".to_owned()));
        }
        match call.template {
            true => call.gzip = true,
            false => {
                let plain = std::mem::take(&mut call.body);
                Gzip::default().pack_bytes(&plain, &mut call.body);
            }
        }
    }

    /// The headers with the type of the form, if it is one.
    pub(super) fn with_type(
        &mut self,
        mut headers: Vec<(String, String)>,
        form: Option<&Form>,
        at: usize,
    ) -> Vec<(String, String)> {
        let Some(form) = form else { return headers };
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            let what = "`form` has its own Content-Type, with its boundary; omit the header";
            self.problems.add(at, what);
        } else {
            headers.push(("Content-Type".to_owned(), form.content_type()));
        }
        headers
    }

    /// Reads the body of a request in any form. A file over 64 MiB is only opened.
    fn body_of_request(&mut self, item: Item<'a>) -> Option<Content> {
        let Some((item, file)) = self.file_of_body(item)? else {
            let (bytes, is_literal) = self.bytes_of_body(item)?;
            return Some(Content { body: Body::Bytes(bytes), is_literal });
        };
        let path = self.path(item, file)?;
        let body = files::body("the file", &path);
        let body = body.map_err(|why| self.problems.add(item.at, format!("`{}`: {why}", item.key)));
        body.ok().map(|body| Content { body, is_literal: false })
    }

    /// Reads a body in any form, and whether what looks like fields in it is none.
    pub(super) fn body(&mut self, item: Item<'a>) -> Option<(Vec<u8>, bool)> {
        match self.file_of_body(item)? {
            Some((item, file)) => self.file(item, file).map(|(_, bytes)| (bytes, false)),
            None => self.bytes_of_body(item),
        }
    }

    /// Reads a body that is no file. Bytes in base64 have no fields, unless they say so.
    fn bytes_of_body(&mut self, item: Item<'a>) -> Option<(Vec<u8>, bool)> {
        let DeValue::Table(table) = item.value else {
            return bytes(&mut self.problems, item, BODY).map(|bytes| (bytes, false));
        };
        if let (2, Some(code), Some(templates)) =
            (table.len(), table.get("base64"), table.get("templates"))
        {
            let templates = Item::new("templates", templates).boolean(&mut self.problems);
            let bytes = decoded(&mut self.problems, Item::new(item.key, code));
            return Some((bytes?, !templates?));
        }
        let bytes = bytes(&mut self.problems, item, BODY)?;
        Some((bytes, table.contains_key("base64")))
    }

    /// The file that a body names, if it names one. `None`: its name is no text.
    fn file_of_body(&mut self, item: Item<'a>) -> Option<Option<(Item<'a>, &'a str)>> {
        if let DeValue::String(text) = item.value
            && let Some(file) = text.strip_prefix('@')
        {
            return Some(Some((item, file)));
        }
        if let DeValue::Table(table) = item.value
            && let Some((_, file)) = table.get_key_value("file").filter(|_| table.len() == 1)
        {
            let item = Item::new(item.key, file);
            let file = item.string(&mut self.problems, "a file's name")?;
            return Some(Some((item, file)));
        }
        Some(None)
    }

    /// Reads a file relative to the plan's directory. Returns its name for messages and its
    /// contents.
    pub(super) fn file(&mut self, item: Item<'_>, name: &str) -> Option<(String, Vec<u8>)> {
        let path = self.path(item, name)?;
        match files::read("the file", &path) {
            Ok(bytes) => Some((path.display().to_string(), bytes)),
            Err(why) => {
                self.problems.add(item.at, format!("`{}`: {why}", item.key));
                None
            }
        }
    }

    /// Where a file of this name is, if files are read for the plan.
    fn path(&mut self, item: Item<'_>, name: &str) -> Option<PathBuf> {
        let path = self.folder.map(|folder| folder.join(name));
        if path.is_none() {
            let what = format!("`{}`: no files are read for this plan", item.key);
            self.problems.add(item.at, what);
        }
        path
    }

    /// Reads the parts of a form, in order.
    fn form(&mut self, item: Item<'a>) -> Option<Form> {
        let parts: Vec<Option<Part>> = match item.value {
            DeValue::Table(_) => {
                let entries = self.entries(item, FORM)?;
                entries.into_iter().map(|(name, item)| self.form_part(name, item)).collect()
            }
            DeValue::Array(_) => {
                let lines: Vec<_> = item.list(&mut self.problems, FORM)?.collect();
                lines.into_iter().map(|line| self.form_line(line)).collect()
            }
            _ => {
                item.wrong_type(&mut self.problems, FORM);
                return None;
            }
        };
        if parts.is_empty() {
            self.problems.add(item.at, "the form has no parts");
            return None;
        }
        parts.into_iter().collect::<Option<Vec<_>>>().map(Form::new)
    }

    /// Reads a part as curl's `-F` has it.
    fn form_line(&mut self, item: Item<'a>) -> Option<Part> {
        let part = item.parse(&mut self.problems, "a part, as \"name=text\"", PartArg::parse)?;
        let bytes = match part.file().map(str::to_owned) {
            Some(file) => Some(self.file(item, &file)?.1),
            None => None,
        };
        Some(part.part(bytes))
    }

    /// Reads a part with this name.
    fn form_part(&mut self, name: &str, item: Item<'a>) -> Option<Part> {
        let name = name.to_owned();
        let DeValue::Table(table) = item.value else {
            let Some(text) = item.scalar() else {
                item.wrong_type(&mut self.problems, PART);
                return None;
            };
            return match text.strip_prefix('@') {
                Some(file) => {
                    let (_, bytes) = self.file(item, file)?;
                    Some(Part::of_file(name, file, None, bytes))
                }
                None => Some(Part::of_text(name, text.into_owned(), None)),
            };
        };
        let mut section = Section::new("a part of a form", item.at, table);
        let mut text = |key: &'static str| {
            section.take(key).and_then(|i| Some((i, i.string(&mut self.problems, "a string")?)))
        };
        let (file, plain, file_name) = (text("file"), text("text"), text("filename"));
        let kind = section.take("type").and_then(|i| {
            i.parse(&mut self.problems, "a media type, as \"text/plain\"", checked_kind)
        });
        section.finish(&mut self.problems);
        let part = match (file, plain) {
            (Some((item, file)), None) => {
                let (_, bytes) = self.file(item, file)?;
                Part::of_file(name, file, kind, bytes)
            }
            (None, Some((_, plain))) => Part::of_text(name, plain.to_owned(), kind),
            _ => {
                self.problems.add(item.at, format!("`{name}`: a part of a form is {PART}"));
                return None;
            }
        };
        let file_name = file_name.map(|(_, name)| name.to_owned());
        Some(Part { file_name: file_name.or(part.file_name), ..part })
    }
}

/// Give the request its form, if it has one, and decide whether it is a template. In one, a literal
/// body has no fields.
pub(super) fn fill(
    call: &mut CallSpec,
    form: Option<Form>,
    is_literal: bool,
    templates: Option<bool>,
) {
    let has_fields = form.as_ref().is_some_and(Form::has_fields);
    let is_template = has_fields || dynamic::looks_like_template(call, is_literal);
    call.template = templates.unwrap_or(is_template);
    // Messages of gRPC that are encoded have no fields anyway.
    if is_literal && call.template && call.grpc.is_none() {
        let plain = std::mem::take(&mut call.body);
        Template::escape(&plain, &mut call.body);
    }
    if let Some(form) = form {
        call.body = form.body(call.template);
    }
}

/// Reads text, or bytes in base64.
pub(super) fn bytes(
    problems: &mut Problems<'_>,
    item: Item<'_>,
    expected: &str,
) -> Option<Vec<u8>> {
    let table = match item.value {
        DeValue::String(text) => return Some(text.as_bytes().to_vec()),
        DeValue::Table(table) if table.len() == 1 => table,
        _ => {
            item.wrong_type(problems, expected);
            return None;
        }
    };
    if let Some(text) = table.get("text") {
        let text = Item::new(item.key, text).string(problems, "a string")?;
        return Some(text.as_bytes().to_vec());
    }
    let Some(code) = table.get("base64") else {
        item.wrong_type(problems, expected);
        return None;
    };
    decoded(problems, Item::new(item.key, code))
}

/// The bytes of a text in base64.
fn decoded(problems: &mut Problems<'_>, item: Item<'_>) -> Option<Vec<u8>> {
    let decode = |text: &str| {
        let text: String = text.split_ascii_whitespace().collect();
        let wrong = |_| "this is not base64: letters, digits, + and /, padded with =".to_owned();
        BASE64.decode(text).map_err(wrong)
    };
    item.parse(problems, "a string in base64", decode)
}
