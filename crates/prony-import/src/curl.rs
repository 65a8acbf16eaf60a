//! Command lines of curl.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::context::Context;
use crate::multipart::{self, Part};
use crate::notes::Notes;
use crate::shell_words::{self, Line};
use crate::text::Text;
use crate::url;
use crate::{Body, Import, Request, Session, Step};

/// Options with a value that change nothing that a plan has, and those whose meaning is left out.
const WITH_VALUE: [(&str, &str); 34] = [
    ("-o", ""),
    ("--output", ""),
    ("-w", ""),
    ("--write-out", ""),
    ("-D", ""),
    ("--dump-header", ""),
    ("--stderr", ""),
    ("-c", ""),
    ("--cookie-jar", ""),
    ("--trace", ""),
    ("--trace-ascii", ""),
    ("-m", "time limits are options of the load (--timeout)"),
    ("--max-time", "time limits are options of the load (--timeout)"),
    ("--connect-timeout", "time limits are options of the load (--timeout)"),
    ("--retry", "failed requests are counted, not retried"),
    ("--retry-delay", "failed requests are counted, not retried"),
    ("--retry-max-time", "failed requests are counted, not retried"),
    ("-x", "a proxy is an option of the load (--proxy)"),
    ("--proxy", "a proxy is an option of the load (--proxy)"),
    ("-U", "a proxy is an option of the load (--proxy)"),
    ("--proxy-user", "a proxy is an option of the load (--proxy)"),
    ("--noproxy", ""),
    ("--max-redirs", "redirects are not followed"),
    ("--resolve", "other addresses are an option of the load (--connect-to)"),
    ("--connect-to", "other addresses are an option of the load (--connect-to)"),
    ("--interface", "the local address is not that of the machine that recorded"),
    ("--limit-rate", "the rate of a connection is not limited"),
    ("-E", "client certificates are options of the load (--cert, --key)"),
    ("--cert", "client certificates are options of the load (--cert, --key)"),
    ("--key", "client certificates are options of the load (--cert, --key)"),
    ("--cacert", "certificates of authorities are an option of the load (--cacert)"),
    ("--capath", "certificates of authorities are an option of the load (--cacert)"),
    ("--ciphers", "TLS settings are options of the load"),
    ("-K", "configuration files are not read"),
];

/// Those without a value.
const FLAGS: [(&str, &str); 26] = [
    ("-s", ""),
    ("--silent", ""),
    ("-S", ""),
    ("--show-error", ""),
    ("-v", ""),
    ("--verbose", ""),
    ("-i", ""),
    ("--include", ""),
    ("--show-headers", ""),
    ("-f", ""),
    ("--fail", ""),
    ("--fail-with-body", ""),
    ("-#", ""),
    ("--progress-bar", ""),
    ("-N", ""),
    ("--no-buffer", ""),
    ("-O", ""),
    ("--remote-name", ""),
    ("-J", ""),
    ("-g", ""),
    ("--globoff", ""),
    ("--path-as-is", ""),
    ("--no-progress-meter", ""),
    ("--http1.1", ""),
    ("-L", "redirects are not followed"),
    ("--location", "redirects are not followed"),
];

/// One session: the command lines one after another.
pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    if text.contains("^\"") && text.contains("^\r\n") || text.contains("^\n") {
        return Err(": these are command lines for Windows' cmd; copy them as cURL (bash)".into());
    }
    let mut import = Import::default();
    let mut session = Session::default();
    for line in shell_words::lines(text) {
        let Line { at, words } = line?;
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        if name.strip_suffix(".exe").unwrap_or(name) != "curl" {
            import.notes.add(&format!("the program {name} is not curl"), &format!("line {at}"));
            continue;
        }
        let place = format!("line {at}");
        let wrong = |e: String| format!(":{at}: {e}");
        let mut command = Command::new(place.clone(), context);
        command.read(words, &mut import.notes).map_err(wrong)?;
        import.insecure |= command.insecure;
        import.http2 |= command.http2;
        if command.urls.is_empty() {
            return Err(wrong("this command line of curl has no URL".into()));
        }
        let (method, headers, body) = command.parts();
        for address in &command.urls {
            match command.request(address, &method, &headers, &body) {
                Ok(request) => {
                    context.admit(&request).map_err(wrong)?;
                    session.steps.push(Step::from(request));
                }
                Err(why) => import.notes.add(&why, &place),
            }
        }
    }
    import.sessions.push(session);
    Ok(import)
}

/// A command line that was read.
struct Command<'a> {
    place: String,
    context: &'a Context<'a>,
    urls: Vec<String>,
    method: Option<String>,
    /// Those of `-H`, and those that other options set.
    headers: Vec<(String, String)>,
    usual: Vec<(String, String)>,
    data: Vec<u8>,
    has_data: bool,
    form: Vec<Part>,
    upload: Option<Vec<u8>>,
    get: bool,
    head: bool,
    is_json: bool,
    insecure: bool,
    http2: bool,
}

impl<'a> Command<'a> {
    fn new(place: String, context: &'a Context<'a>) -> Self {
        Self {
            place,
            context,
            urls: Vec::new(),
            method: None,
            headers: Vec::new(),
            usual: Vec::new(),
            data: Vec::new(),
            has_data: false,
            form: Vec::new(),
            upload: None,
            get: false,
            head: false,
            is_json: false,
            insecure: false,
            http2: false,
        }
    }

    /// A file that an option names.
    fn file(&self, name: &str) -> Result<Vec<u8>, String> {
        self.context.read(name, &self.place).map_err(String::from)
    }

    fn read(
        &mut self,
        words: impl Iterator<Item = String>,
        notes: &mut Notes,
    ) -> Result<(), String> {
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if word == "--next" || word == "-:" {
                return Err("--next is not supported; write a command line for each request".into());
            }
            if matches!(word.as_str(), ">" | "2>" | ">>" | "<") {
                words.next();
                continue;
            }
            if word.starts_with("2>") || word.starts_with('>') {
                continue;
            }
            let is_short = word.len() > 2 && word.starts_with('-') && !word.starts_with("--");
            if !is_short {
                self.option(&word, None, &mut words, notes)?;
                continue;
            }
            // Several options in one word, of which the last may have its value attached.
            for (at, letter) in word[1..].char_indices() {
                let rest = &word[1 + at + letter.len_utf8()..];
                let attached = (!rest.is_empty()).then_some(rest);
                if self.option(&format!("-{letter}"), attached, &mut words, notes)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes an option, and returns whether it has used the attached value.
    fn option(
        &mut self,
        word: &str,
        attached: Option<&str>,
        words: &mut impl Iterator<Item = String>,
        notes: &mut Notes,
    ) -> Result<bool, String> {
        if !word.starts_with('-') || word == "-" {
            self.urls.push(word.to_owned());
            return Ok(false);
        }
        if self.flag(word) {
            return Ok(false);
        }
        if let Some((_, why)) = FLAGS.iter().find(|(flag, _)| *flag == word) {
            if !why.is_empty() {
                notes.add(&format!("{word}: {why}"), &self.place);
            }
            return Ok(false);
        }
        let mut value = || match attached {
            Some(text) => Ok(text.to_owned()),
            None => words.next().ok_or_else(|| format!("{word} has no value")),
        };
        if let Some((_, why)) = WITH_VALUE.iter().find(|(option, _)| *option == word) {
            value()?;
            if !why.is_empty() {
                notes.add(&format!("{word}: {why}"), &self.place);
            }
            return Ok(true);
        }
        match word {
            "-X" | "--request" => self.method = Some(value()?),
            "--url" => self.urls.push(value()?),
            "-H" | "--header" => self.header(&value()?, notes),
            "-A" | "--user-agent" => self.set("User-Agent", value()?),
            "-e" | "--referer" => self.set("Referer", value()?),
            "-r" | "--range" => self.set("Range", format!("bytes={}", value()?)),
            "-u" | "--user" => {
                self.set("Authorization", format!("Basic {}", STANDARD.encode(value()?)));
            }
            "--oauth2-bearer" => self.set("Authorization", format!("Bearer {}", value()?)),
            "-b" | "--cookie" => match value()? {
                text if text.contains('=') => self.set("Cookie", text),
                _ => notes.add(&format!("{word}: files of cookies are not read"), &self.place),
            },
            "-d" | "--data" | "--data-ascii" => self.data(&value()?, Kind::Text)?,
            "--data-raw" => self.data(&value()?, Kind::Raw)?,
            "--data-binary" => self.data(&value()?, Kind::Binary)?,
            "--data-urlencode" => self.data(&value()?, Kind::Encoded)?,
            "--url-query" => self.data(&value()?, Kind::Encoded).map(|()| self.get = true)?,
            "--json" => self.data(&value()?, Kind::Binary).map(|()| self.is_json = true)?,
            "-F" | "--form" => self.form(&value()?, true)?,
            "--form-string" => self.form(&value()?, false)?,
            "-T" | "--upload-file" => self.upload = Some(self.file(&value()?)?),
            _ => return Err(format!("the option {word} of curl is not supported")),
        }
        Ok(true)
    }

    fn flag(&mut self, word: &str) -> bool {
        match word {
            "-G" | "--get" => self.get = true,
            "-I" | "--head" => self.head = true,
            "-k" | "--insecure" => self.insecure = true,
            "--http2" | "--http2-prior-knowledge" => self.http2 = true,
            "--compressed" => self.set("Accept-Encoding", "deflate, gzip, br, zstd".into()),
            _ => return false,
        }
        true
    }

    fn set(&mut self, name: &str, value: String) {
        self.usual.push((name.to_owned(), value));
    }

    /// `Name: value`, `Name;` for an empty value, and `Name:` for none.
    fn header(&mut self, line: &str, notes: &mut Notes) {
        if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match value.is_empty() {
                true => notes.add(&format!("-H '{name}:': prony's default stays"), &self.place),
                // Its framing is that of the body.
                false if name.trim().eq_ignore_ascii_case("content-length") => {}
                false => self.headers.push((name.trim().to_owned(), value.to_owned())),
            }
        } else if let Some(name) = line.strip_suffix(';') {
            self.headers.push((name.to_owned(), String::new()));
        } else {
            notes.add("-H without a colon, or with a file", &self.place);
        }
    }

    fn data(&mut self, value: &str, kind: Kind) -> Result<(), String> {
        if self.has_data {
            self.data.extend((!self.is_json).then_some(b'&'));
        }
        self.has_data = true;
        let bytes = match (kind, value.strip_prefix('@')) {
            (Kind::Raw, _) | (Kind::Text | Kind::Binary, None) => value.as_bytes().to_vec(),
            (Kind::Binary, Some(file)) => self.file(file)?,
            (Kind::Text, Some(file)) => {
                let mut bytes = self.file(file)?;
                bytes.retain(|b| !b"\r\n\0".contains(b));
                bytes
            }
            (Kind::Encoded, _) => self.encoded(value)?.into_bytes(),
        };
        self.data.extend(bytes);
        Ok(())
    }

    /// `content`, `=content`, `name=content`, `@file` or `name@file`; spaces become `+`.
    fn encoded(&self, value: &str) -> Result<String, String> {
        let escaped = |bytes: &[u8]| url::escaped(bytes).replace("%20", "+");
        let at = value.find(['=', '@']);
        let Some(at) = at else { return Ok(escaped(value.as_bytes())) };
        let (name, content) = (&value[..at], &value[at + 1..]);
        let content = match value.as_bytes()[at] {
            b'@' => self.file(content)?,
            _ => content.as_bytes().to_vec(),
        };
        let equals = if name.is_empty() { "" } else { "=" };
        Ok(format!("{name}{equals}{}", escaped(&content)))
    }

    /// `name=content`, `name=@file` or `name=<file`, with `;type=` and `;filename=`.
    fn form(&mut self, value: &str, reads_files: bool) -> Result<(), String> {
        let (name, content) =
            value.split_once('=').ok_or_else(|| format!("-F {value}: there is no = in it"))?;
        let mut part = Part { name: name.to_owned(), ..Part::default() };
        let at = reads_files.then(|| content.chars().next()).flatten();
        let mut fields = match reads_files {
            true => content.split(';').collect::<Vec<_>>(),
            false => vec![content],
        };
        let first = fields.remove(0);
        match at {
            Some('@') => {
                part.content = self.file(&first[1..])?.into();
                let name = first[1..].rsplit('/').next().unwrap_or_default();
                part.file = Some(name.to_owned());
            }
            Some('<') => part.content = self.file(&first[1..])?.into(),
            _ => part.content = first.trim_matches('"').as_bytes().to_vec().into(),
        }
        for field in fields {
            match field.trim().split_once('=') {
                Some(("type", kind)) => part.kind = Some(kind.to_owned()),
                Some(("filename", name)) => part.file = Some(name.trim_matches('"').to_owned()),
                _ => return Err(format!("-F {value}: '{field}' is not understood")),
            }
        }
        if at == Some('@') && part.kind.is_none() {
            let names = [part.file.as_deref().unwrap_or_default(), first];
            let kind = names.into_iter().find_map(kind_of_file);
            part.kind = Some(kind.unwrap_or("application/octet-stream").to_owned());
        }
        self.form.push(part);
        Ok(())
    }

    /// The request for a URL, or why it cannot be sent.
    fn request(
        &self,
        address: &str,
        method: &str,
        headers: &[(String, Text)],
        body: &Body,
    ) -> Result<Request, String> {
        let scheme = if address.contains("://") { "" } else { "http://" };
        let (origin, mut path) = url::split(&format!("{scheme}{address}"))?;
        if self.get && self.has_data {
            let join = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{join}{}", String::from_utf8_lossy(&self.data));
        }
        let mut headers = headers.to_vec();
        url::add_credentials(&format!("{scheme}{address}"), &mut headers);
        Ok(Request {
            place: self.place.clone(),
            origin,
            method: method.to_owned(),
            path: path.into(),
            headers,
            body: body.clone(),
            ..Request::default()
        })
    }

    /// The data; with an option for data there is a body, even if it is empty.
    fn body(&self) -> Body {
        match self.data.is_empty() {
            true => Body::Text(Text::default()),
            false => self.data.clone().into(),
        }
    }

    fn parts(&self) -> (String, Vec<(String, Text)>, Body) {
        let mut headers: Vec<(String, Text)> = Vec::new();
        for (name, value) in &self.headers {
            headers.push((name.clone(), value.as_str().into()));
        }
        let mut default = |name: &str, value: &str| {
            if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                headers.push((name.into(), value.into()));
            }
        };
        // What other options set, -H replaces.
        self.usual.iter().for_each(|(name, value)| default(name, value));
        let (usual, body) = if let Some(bytes) = &self.upload {
            ("PUT", bytes.clone().into())
        } else if !self.form.is_empty() {
            default("Content-Type", &multipart::kind());
            // As curl does with a type that has been given.
            let mut all = headers.iter_mut();
            if let Some((_, value)) = all.find(|(n, _)| n.eq_ignore_ascii_case("content-type"))
                && let Some(kind) = value.literal()
            {
                *value = multipart::with_boundary(kind).into();
            }
            ("POST", multipart::body(self.form.clone()).expect("no part has fields"))
        } else if self.has_data && !self.get {
            if self.is_json {
                default("Content-Type", "application/json");
                default("Accept", "application/json");
            }
            default("Content-Type", "application/x-www-form-urlencoded");
            ("POST", self.body())
        } else {
            (if self.head { "HEAD" } else { "GET" }, Body::None)
        };
        (self.method.clone().unwrap_or_else(|| usual.to_owned()), headers, body)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Raw,
    Binary,
    Encoded,
}

/// What curl takes the content of a file for, by the end of its name.
fn kind_of_file(name: &str) -> Option<&'static str> {
    const KINDS: [(&str, &str); 10] = [
        (".gif", "image/gif"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".png", "image/png"),
        (".svg", "image/svg+xml"),
        (".txt", "text/plain"),
        (".htm", "text/html"),
        (".html", "text/html"),
        (".pdf", "application/pdf"),
        (".xml", "application/xml"),
    ];
    let name = name.to_ascii_lowercase();
    KINDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
}
