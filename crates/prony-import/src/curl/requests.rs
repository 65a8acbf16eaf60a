//! The requests of an operation, as curl sends them.

use super::address::{Address, encoded};
use super::form::{Field, Source as Content};
use super::operation::{Operation, Target};
use super::{Source, glob};
use crate::multipart::{self, Part};
use crate::notes::Notes;
use crate::text::Text;
use crate::url;
use crate::{Body, Request};

/// What curl refuses.
const METHODS: &str = "options for several methods at once, which curl refuses";

/// The headers of a command line.
#[derive(Default)]
struct Headers {
    given: Vec<(String, Text)>,
    /// The names that have no header, in lower case: `-H 'Name:'`.
    removed: Vec<String>,
}

impl Headers {
    /// Adds a header, unless `-H` has one or removes it.
    fn usual(&mut self, name: &str, value: &str) {
        let is_given = self.given.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !is_given && !self.is_removed(name) {
            self.given.push((name.to_owned(), value.into()));
        }
    }

    fn is_removed(&self, name: &str) -> bool {
        self.removed.iter().any(|other| other.eq_ignore_ascii_case(name))
    }

    fn value(&mut self, name: &str) -> Option<&mut Text> {
        let mut all = self.given.iter_mut();
        all.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Operation {
    /// Adds the requests of all URLs.
    ///
    /// # Errors
    /// Why there are none, or no more of them: the note on what is left out.
    pub(super) fn requests(
        &self,
        source: &Source<'_>,
        notes: &mut Notes,
        all: &mut Vec<Request>,
    ) -> Result<(), String> {
        if self.targets.is_empty() {
            return Err("this command line of curl has no URL".into());
        }
        for target in &self.targets {
            self.of_target(target, source, notes, all)?;
        }
        Ok(())
    }

    fn of_target(
        &self,
        target: &Target,
        source: &Source<'_>,
        notes: &mut Notes,
        all: &mut Vec<Request>,
    ) -> Result<(), String> {
        let address = target.url.as_deref().ok_or("-T without a URL for the file")?;
        let patterns = |text: &[u8]| match self.glob_off {
            true => Ok(vec![text.to_vec()]),
            false => glob::expanded(text),
        };
        let uploads = match target.upload.as_deref() {
            None => vec![None],
            Some(b"") => return Err("-T without the name of a file".into()),
            Some(b"-" | b".") => vec![Some(b"-".to_vec())],
            Some(name) => patterns(name)?.into_iter().map(Some).collect(),
        };
        for upload in uploads {
            let bytes = upload.as_deref().map(|name| source.read(name)).transpose()?;
            let is_stream = upload.as_deref() == Some(b"-");
            let (method, headers, body) = self.parts(bytes, is_stream, source, notes)?;
            for address in patterns(address)? {
                let name = upload.as_deref().filter(|_| !is_stream);
                let (origin, path, user) = self.address(&address, name)?;
                let mut headers = headers.given.clone();
                if let Some(user) = user {
                    url::add_credentials(&user, &mut headers);
                }
                let request = Request {
                    place: source.place.clone(),
                    origin,
                    method: method.clone(),
                    path: path.into(),
                    headers,
                    body: body.clone(),
                    ..Request::default()
                };
                // Before there are more: a body can be sent to many URLs.
                source.context.admit(&request)?;
                all.push(request);
            }
        }
        Ok(())
    }

    /// The server and the path of a URL, and the URL if it has a user.
    fn address(
        &self,
        text: &[u8],
        file: Option<&[u8]>,
    ) -> Result<(String, String, Option<String>), String> {
        let mut address = Address::read(text, self.scheme.as_deref(), self.path_as_is)?;
        if let Some(file) = file {
            address.add_file(file);
        }
        let query = match self.data.as_deref().filter(|_| self.get) {
            Some(data) => Some(data.to_vec()),
            None if self.query.is_empty() => None,
            None => Some(self.query.join(&b'&')),
        };
        if let Some(query) = query {
            if query.is_empty() && address.query == "?" {
                address.query.clear();
            }
            if query.iter().any(|&b| b <= b' ' || b == 0x7f) {
                return Err("a URL with spaces or control characters, which curl refuses".into());
            }
            if !(query.is_empty() && address.query.is_empty()) {
                address.add_query(&encoded(&query));
            }
        }
        let (origin, path) =
            url::split(&format!("{}{}{}", address.server, address.path, address.query))?;
        let path = match &self.request_target {
            Some(target) => String::from_utf8(target.clone())
                .map_err(|_| "a --request-target that is no UTF-8 text")?,
            None => path,
        };
        let user = address.server.contains('@').then_some(address.server);
        Ok((origin, path, user))
    }

    /// Method, headers and body.
    fn parts(
        &self,
        upload: Option<Vec<u8>>,
        is_stream: bool,
        source: &Source<'_>,
        notes: &mut Notes,
    ) -> Result<(String, Headers, Body), String> {
        let has_data = self.data.is_some() && !self.get;
        let mut headers = self.given_headers(source, notes)?;
        // What other options set, -H replaces.
        for (name, value) in &self.usual {
            match value.is_empty() {
                // As with -H 'Name:'.
                true => removed(name, &mut headers, source, notes),
                false => headers.usual(name, &text(value, name)?),
            }
        }
        if !self.cookies.is_empty() {
            headers.usual("Cookie", &text(&self.cookies.join(&b';'), "Cookie")?);
        }
        let sent = upload.as_ref().or_else(|| self.data.as_ref().filter(|_| has_data));
        self.add_range(sent.map(Vec::len), &mut headers)?;
        if self.is_json {
            headers.usual("Content-Type", "application/json");
            headers.usual("Accept", "application/json");
        }
        let (usual, body) = match (upload, &self.data) {
            (Some(_), _) if self.head || !self.form.is_empty() => {
                return Err("-T with options for other methods".into());
            }
            (Some(bytes), _) => {
                if is_stream {
                    headers.usual("Transfer-Encoding", "chunked");
                }
                ("PUT", some(bytes))
            }
            _ if !self.form.is_empty() => {
                if has_data || self.get || self.head {
                    return Err(METHODS.into());
                }
                ("POST", self.form(&mut headers, source)?)
            }
            (None, Some(_)) if has_data && self.head => return Err(METHODS.into()),
            (None, Some(data)) if has_data => {
                headers.usual("Content-Type", "application/x-www-form-urlencoded");
                ("POST", some(data.clone()))
            }
            _ => (if self.head { "HEAD" } else { "GET" }, Body::None),
        };
        let method = match &self.method {
            Some(method) => text(method, "-X")?,
            None => usual.to_owned(),
        };
        check_length(&mut headers, &body, source, notes);
        // A length is sent even if there is nothing.
        if is_empty(&body) && !["POST", "PUT", "PATCH"].contains(&&*method) && !is_stream {
            headers.usual("Content-Length", "0");
        }
        Ok((method, headers, body))
    }

    /// Adds the header of a range: for data that is sent, it says which part this is.
    fn add_range(&self, sent: Option<usize>, headers: &mut Headers) -> Result<(), String> {
        let Some(range) = self.range.as_ref().filter(|_| self.form.is_empty()) else {
            return Ok(());
        };
        let dash = if range.contains(&b'-') { "" } else { "-" };
        let range = text(range, "-r")? + dash;
        match sent {
            Some(length) => headers.usual("Content-Range", &format!("bytes {range}/{length}")),
            None => headers.usual("Range", &format!("bytes={range}")),
        }
        Ok(())
    }

    /// The headers of `-H`: `Name: value`, `Name;` for an empty value, and `Name:` for none.
    fn given_headers(&self, source: &Source<'_>, notes: &mut Notes) -> Result<Headers, String> {
        let mut headers = Headers::default();
        for line in &self.headers {
            let colon = line.iter().position(|&b| b == b':');
            let is_empty = |rest: &[u8]| rest.trim_ascii().is_empty();
            let semicolon = line.iter().position(|&b| b == b';');
            let (name, value) = match (colon, semicolon) {
                (Some(at), _) if is_empty(&line[at + 1..]) => {
                    let name = String::from_utf8_lossy(&line[..at]);
                    removed(name.trim(), &mut headers, source, notes);
                    continue;
                }
                (Some(at), _) => (&line[..at], line[at + 1..].trim_ascii()),
                (None, Some(at)) if is_empty(&line[at + 1..]) => (&line[..at], &b""[..]),
                _ => {
                    let what = "-H without a colon, which curl does not send";
                    notes.add(what, &source.place);
                    continue;
                }
            };
            if value.iter().any(|b| b"\r\n\0".contains(b)) {
                return Err("a header with a line break in it".into());
            }
            match (str::from_utf8(name), str::from_utf8(value)) {
                (Ok(name), Ok(value)) => headers.given.push((name.trim().to_owned(), value.into())),
                _ => {
                    let what = "sent without a header that is no UTF-8 text";
                    notes.add(what, &source.place);
                }
            }
        }
        Ok(headers)
    }

    /// The body of a form, whose boundary becomes a part of its type.
    fn form(&self, headers: &mut Headers, source: &Source<'_>) -> Result<Body, String> {
        // Of a type that has been given, curl makes the one of a form.
        let mut is_attached = false;
        match headers.value("Content-Type") {
            Some(value) => {
                let kind = value.literal().unwrap_or_default().to_owned();
                is_attached = !kind.to_ascii_lowercase().starts_with("multipart/form-data");
                *value = format!("{kind}; {}", multipart::boundary()).into();
            }
            None => headers.usual("Content-Type", &multipart::kind()),
        }
        let part = |field| Ok(Part { is_attached, ..self.part(field, source)? });
        multipart::body(self.form.iter().map(part).collect::<Result<_, String>>()?)
    }

    fn part(&self, field: &Field, source: &Source<'_>) -> Result<Part, String> {
        let what = "a part of a form";
        let base = |path: &[u8]| path.rsplit(|&b| b == b'/').next().unwrap_or_default().to_vec();
        let (content, path, file) = match &field.content {
            Content::Text(text) => (text.clone(), None, None),
            Content::TextOf(path) => (source.read(path)?, Some(path), None),
            Content::Upload(path) => (source.read(path)?, Some(path), Some(base(path))),
        };
        let file = field.file.clone().or(file);
        if self.form_escape
            && [Some(&field.name), file.as_ref()]
                .into_iter()
                .flatten()
                .any(|name| name.iter().any(|b| b"\"\\".contains(b)))
        {
            return Err("--form-escape with quotes in a name".into());
        }
        let file = file.map(|file| text(&file, what)).transpose()?;
        let named = |path: &[u8]| kind_of_file(path);
        let kind = match &field.kind {
            Some(kind) => Some(text(kind, what)?),
            None => {
                let usual = file.as_ref().and_then(|file| named(file.as_bytes()));
                let usual = usual.or_else(|| path.and_then(|path| named(path)));
                // curl knows no type of what it reads from its standard input.
                let is_file = file.is_some() && path.is_some_and(|path| path != b"-");
                let usual = usual.or_else(|| is_file.then_some("application/octet-stream"));
                // Fields are text anyway.
                usual.filter(|kind| file.is_some() || *kind != "text/plain").map(str::to_owned)
            }
        };
        let headers = field.headers.iter().map(|line| text(line, what));
        Ok(Part {
            name: text(&field.name, what)?,
            file,
            kind,
            headers: headers.collect::<Result<_, _>>()?,
            content: content.into(),
            ..Part::default()
        })
    }
}

/// No header of this name is sent, but for those of prony.
fn removed(name: &str, headers: &mut Headers, source: &Source<'_>, notes: &mut Notes) {
    if ["host", "user-agent", "accept"].contains(&&*name.to_ascii_lowercase()) {
        let what = format!("-H '{name}:': prony sends a header of its own");
        notes.add(&what, &source.place);
    }
    headers.removed.push(name.to_owned());
}

/// A header with the length of the body says nothing more, and one with another is wrong.
fn check_length(headers: &mut Headers, body: &Body, source: &Source<'_>, notes: &mut Notes) {
    let length = body.len();
    headers.given.retain(|(name, value)| {
        let is_length = name.eq_ignore_ascii_case("content-length");
        let given = value.literal().and_then(|text| text.trim().parse::<usize>().ok());
        if is_length && given != Some(length) {
            notes.add("a Content-Length that is not that of the body", &source.place);
        }
        !is_length
    });
    if headers.is_removed("Content-Length") {
        notes.add("-H 'Content-Length:': prony sends a header of its own", &source.place);
    }
}

/// A body, even if it is empty.
fn some(bytes: Vec<u8>) -> Body {
    match Body::from(bytes) {
        Body::None => Body::Text(Text::default()),
        body => body,
    }
}

fn is_empty(body: &Body) -> bool {
    matches!(body, Body::Text(text) if text.is_empty())
}

fn text(bytes: &[u8], what: &str) -> Result<String, String> {
    let text = str::from_utf8(bytes).map_err(|_| format!("{what}: no UTF-8 text"))?;
    Ok(text.to_owned())
}

/// What curl takes the content of a file for, by the end of its name.
fn kind_of_file(name: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 10] = [
        (b".gif", "image/gif"),
        (b".jpg", "image/jpeg"),
        (b".jpeg", "image/jpeg"),
        (b".png", "image/png"),
        (b".svg", "image/svg+xml"),
        (b".txt", "text/plain"),
        (b".htm", "text/html"),
        (b".html", "text/html"),
        (b".pdf", "application/pdf"),
        (b".xml", "application/xml"),
    ];
    let name = name.to_ascii_lowercase();
    KINDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
}
