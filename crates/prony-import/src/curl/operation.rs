//! What a command line of curl asks for: its URLs, and the options for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Source;
use super::form::{self, Field};
use super::options::{self, CurlOption, Does, Setting};
use crate::notes::Notes;
use crate::url;

/// URLs with the options for them.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub(super) targets: Vec<Target>,
    pub(super) method: Option<Vec<u8>>,
    /// The lines of `-H`.
    pub(super) headers: Vec<Vec<u8>>,
    /// Headers that other options set.
    pub(super) usual: Vec<(&'static str, Vec<u8>)>,
    pub(super) cookies: Vec<Vec<u8>>,
    pub(super) range: Option<Vec<u8>>,
    pub(super) data: Option<Vec<u8>>,
    pub(super) is_json: bool,
    /// The parameters of `--url-query`.
    pub(super) query: Vec<Vec<u8>>,
    pub(super) form: Vec<Field>,
    pub(super) request_target: Option<Vec<u8>>,
    pub(super) scheme: Option<String>,
    pub(super) get: bool,
    pub(super) head: bool,
    pub(super) glob_off: bool,
    pub(super) path_as_is: bool,
    pub(super) form_escape: bool,
    pub(super) insecure: bool,
    pub(super) http2: bool,
}

/// A URL, and the file that is sent to it.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) url: Option<Vec<u8>>,
    pub(super) upload: Option<Vec<u8>>,
}

impl Operation {
    /// Reads the words after `curl`.
    ///
    /// # Errors
    /// curl refuses them, or they need something that is not here: the note on what is left out.
    pub(super) fn read_all(
        words: &[Vec<u8>],
        source: &Source<'_>,
        notes: &mut Notes,
    ) -> Result<Vec<Self>, String> {
        let mut all = vec![Self::default()];
        let mut words = words.iter();
        let mut has_options = true;
        while let Some(word) = words.next() {
            let current = all.last_mut().expect("there is one");
            if word == b"--" && has_options {
                has_options = false;
            } else if !has_options || !word.starts_with(b"-") || word == b"-" {
                current.add_url(word.clone());
            } else {
                let is_next = current.words(word, &mut words, source, notes)?;
                if is_next {
                    if current.targets.iter().all(|target| target.url.is_none()) {
                        return Err("--next without a URL before it, which curl refuses".into());
                    }
                    all.push(Self::default());
                }
            }
        }
        Ok(all)
    }

    /// Applies the options of a word. Returns whether others are for other URLs.
    fn words<'w>(
        &mut self,
        word: &[u8],
        words: &mut impl Iterator<Item = &'w Vec<u8>>,
        source: &Source<'_>,
        notes: &mut Notes,
    ) -> Result<bool, String> {
        let unknown = |name: &str| format!("the option {name} of curl is not supported");
        if let Some(name) = word.strip_prefix(b"--") {
            let name = String::from_utf8_lossy(name);
            let shown = format!("--{name}");
            let (option, is_off) = options::of_name(&name).ok_or_else(|| unknown(&shown))?;
            let value = match option.has_value {
                true => Some(words.next().ok_or_else(|| format!("{shown} has no value"))?.clone()),
                false => None,
            };
            return self.apply(option, value, is_off, &shown, source, notes);
        }
        // Several options in one word, of which the last may have its value attached.
        let mut is_next = false;
        for (at, &letter) in word.iter().enumerate().skip(1) {
            let shown = format!("-{}", char::from(letter));
            let option = options::of_letter(char::from(letter)).ok_or_else(|| unknown(&shown))?;
            if !option.has_value {
                is_next |= self.apply(option, None, false, &shown, source, notes)?;
                continue;
            }
            let rest = &word[at + 1..];
            let value = match rest.is_empty() {
                true => words.next().ok_or_else(|| format!("{shown} has no value"))?.clone(),
                false => rest.to_vec(),
            };
            self.apply(option, Some(value), false, &shown, source, notes)?;
            break;
        }
        Ok(is_next)
    }

    /// Applies an option. Returns whether others are for other URLs.
    fn apply(
        &mut self,
        option: &CurlOption,
        value: Option<Vec<u8>>,
        is_off: bool,
        shown: &str,
        source: &Source<'_>,
        notes: &mut Notes,
    ) -> Result<bool, String> {
        match option.does {
            Does::Nothing => {}
            Does::Note(why) if !is_off => notes.add(&format!("{shown}: {why}"), &source.place),
            Does::Note(_) => {}
            Does::Next => return Ok(true),
            Does::Stop => return Err(format!("{shown}: curl sends nothing")),
            Does::Set(setting) => match value {
                Some(value) => self.set(setting, value, source, notes)?,
                None => self.switch(setting, !is_off),
            },
        }
        Ok(false)
    }

    fn switch(&mut self, setting: Setting, on: bool) {
        match setting {
            Setting::Get => self.get = on,
            Setting::Head => self.head = on,
            Setting::GlobOff => self.glob_off = on,
            Setting::Insecure => self.insecure = on,
            Setting::Http2 => self.http2 = on,
            Setting::PathAsIs => self.path_as_is = on,
            Setting::FormEscape => self.form_escape = on,
            Setting::Compressed => {
                self.usual.retain(|(name, _)| *name != "Accept-Encoding");
                if on {
                    self.usual("Accept-Encoding", b"deflate, gzip, br, zstd".to_vec());
                }
            }
            other => unreachable!("{other:?} has a value"),
        }
    }

    fn set(
        &mut self,
        setting: Setting,
        value: Vec<u8>,
        source: &Source<'_>,
        notes: &mut Notes,
    ) -> Result<(), String> {
        match setting {
            Setting::Method => self.method = Some(value),
            Setting::Url => self.add_url(value),
            Setting::Header => self.header(value, source)?,
            Setting::Agent => self.usual("User-Agent", value),
            Setting::Referer => self.referer(&value, source, notes),
            Setting::Range => self.range = Some(value),
            Setting::Continue if value == b"-" => {
                let what = "-C -: what is here of a file is not looked at";
                notes.add(what, &source.place);
            }
            Setting::Continue => self.range = Some([&value[..], b"-"].concat()),
            Setting::User => self.user(&value, source, notes),
            Setting::Bearer => self.usual("Authorization", [b"Bearer ", &value[..]].concat()),
            Setting::Cookie if value.contains(&b'=') => self.cookies.push(value),
            Setting::Cookie => notes.add("-b: files of cookies are not read", &source.place),
            Setting::Data | Setting::Raw | Setting::Binary | Setting::Encoded | Setting::Json => {
                let bytes = data(setting, &value, source)?;
                self.add_data(setting, bytes);
            }
            Setting::Query => {
                let value = match value.strip_prefix(b"+") {
                    Some(plain) => plain.to_vec(),
                    None => encoded(&value, source)?,
                };
                self.query.push(value);
            }
            Setting::Form => {
                let shown = String::from_utf8_lossy(&value).into_owned();
                let field = form::field(&value).map_err(|why| format!("-F {shown}: {why}"))?;
                for unknown in &field.unknown {
                    let unknown = String::from_utf8_lossy(unknown);
                    notes.add(&format!("-F: ;{unknown} means nothing to curl"), &source.place);
                }
                self.form.push(field);
            }
            Setting::FormText => {
                let equals = value.iter().position(|&b| b == b'=');
                let equals = equals.ok_or("--form-string without =, which curl refuses")?;
                let (name, text) = (value[..equals].to_vec(), value[equals + 1..].to_vec());
                let content = form::Source::Text(text);
                self.form.push(Field { name, content, ..Field::default() });
            }
            Setting::Upload => match self.targets.iter_mut().find(|t| t.upload.is_none()) {
                Some(target) => target.upload = Some(value),
                None => self.targets.push(Target { url: None, upload: Some(value) }),
            },
            Setting::Target => self.request_target = Some(value),
            Setting::Scheme => self.scheme = String::from_utf8(value).ok(),
            other => unreachable!("{other:?} has no value"),
        }
        Ok(())
    }

    fn add_url(&mut self, url: Vec<u8>) {
        match self.targets.iter_mut().find(|target| target.url.is_none()) {
            Some(target) => target.url = Some(url),
            None => self.targets.push(Target { url: Some(url), upload: None }),
        }
    }

    /// A header of an option. The last one counts.
    fn usual(&mut self, name: &'static str, value: Vec<u8>) {
        self.usual.retain(|(other, _)| *other != name);
        self.usual.push((name, value));
    }

    fn header(&mut self, line: Vec<u8>, source: &Source<'_>) -> Result<(), String> {
        let Some(file) = line.strip_prefix(b"@") else {
            self.headers.push(line);
            return Ok(());
        };
        for line in source.read(file)?.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                self.headers.push(line.to_vec());
            }
        }
        Ok(())
    }

    fn referer(&mut self, value: &[u8], source: &Source<'_>, notes: &mut Notes) {
        let auto = value.strip_suffix(b";auto");
        if auto.is_some() {
            notes.add("-e: ;auto is about redirects, which are not followed", &source.place);
        }
        let value = auto.unwrap_or(value);
        if !value.is_empty() {
            self.usual("Referer", value.to_vec());
        }
    }

    fn user(&mut self, value: &[u8], source: &Source<'_>, notes: &mut Notes) {
        let mut user = value.to_vec();
        if !user.contains(&b':') {
            notes.add("-u without a password, for which curl asks: it is empty", &source.place);
            user.push(b':');
        }
        let code = format!("Basic {}", STANDARD.encode(user));
        self.usual("Authorization", code.into_bytes());
    }

    /// Adds data after that of earlier options.
    fn add_data(&mut self, setting: Setting, bytes: Vec<u8>) {
        let is_json = setting == Setting::Json;
        self.is_json |= is_json;
        match &mut self.data {
            Some(data) => {
                data.extend((!is_json).then_some(b'&'));
                data.extend(bytes);
            }
            None => self.data = Some(bytes),
        }
    }
}

/// The data of an option.
fn data(setting: Setting, value: &[u8], source: &Source<'_>) -> Result<Vec<u8>, String> {
    match (setting, value.strip_prefix(b"@")) {
        (Setting::Encoded, _) => encoded(value, source),
        (Setting::Raw, _) | (_, None) => Ok(value.to_vec()),
        (Setting::Data, Some(file)) => {
            let mut bytes = source.read(file)?;
            bytes.retain(|b| !b"\r\n\0".contains(b));
            Ok(bytes)
        }
        (_, Some(file)) => source.read(file),
    }
}

/// `content`, `=content`, `name=content`, `@file` or `name@file`; spaces become `+`.
fn encoded(value: &[u8], source: &Source<'_>) -> Result<Vec<u8>, String> {
    let escaped = |bytes: &[u8]| url::escaped(bytes).replace("%20", "+").into_bytes();
    let find = |wanted: u8| value.iter().position(|&b| b == wanted);
    let Some(at) = find(b'=').or_else(|| find(b'@')) else { return Ok(escaped(value)) };
    let (name, content) = (&value[..at], &value[at + 1..]);
    let content = match value[at] {
        b'@' => source.read(content)?,
        _ => content.to_vec(),
    };
    // Of an empty file, not even the name is sent.
    if name.is_empty() || value[at] == b'@' && content.is_empty() {
        return Ok(escaped(&content));
    }
    Ok([name, b"=", &escaped(&content)].concat())
}
