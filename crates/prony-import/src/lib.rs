//! Recordings and collections of requests in the formats of other tools, as plans of prony.
//!
//! Each format has a room of its own, which reads a file into an [`Import`]: sessions of requests,
//! and notes on what is not in them. `secrets` replaces what nobody should read by variables, and
//! [`write`](Import::write) makes a plan file of it. Nothing here opens a socket.

#[cfg(test)]
mod accounted;
pub mod archive;
mod blanks;
mod conceal;
mod context;
mod correlate;
mod curl;
mod fit;
mod har;
mod http_file;
mod http_parts;
mod json;
mod ledger;
mod list;
mod multipart;
mod needles;
mod notes;
mod openapi;
mod postman;
mod progress;
mod scripts;
mod secrets;
pub mod session_log;
mod shape;
mod shell;
mod text;
mod unique;
mod url;
mod values;
mod vegeta;
mod write;
mod wsesslog;
mod yaml;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use context::Context;
use correlate::Reply;
use notes::Notes;
use prony_base::plain;
use prony_plan::plan::Think;
use text::Text;

pub use conceal::conceal;
pub use correlate::looks_generated;
pub use notes::Note;
pub use progress::Progress;

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HTTP Archive 1.2, as browsers save it.
    Har,
    /// Command lines of curl, in the syntax of a POSIX shell or of bash.
    Curl,
    /// Descriptions of interfaces: OpenAPI 3.0 to 3.2, Swagger 2.0, as JSON or YAML.
    OpenApi,
    /// Postman's collections, version 2.0 or 2.1.
    Postman,
    /// vegeta's targets, as text or as JSON lines.
    Vegeta,
    /// The `.http` or `.rest` files of editors.
    Http,
    /// A URL per line, as siege and similar tools read them.
    Urls,
    /// httperf's session files.
    Wsesslog,
}

/// How many variables to fill in are named.
const NAMED: usize = 50;

/// How to import.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Where paths without a server go: a URL without a path.
    pub to: Option<&'a str>,
    /// Write secrets as they are, and not as variables.
    pub with_secrets: bool,
    /// Make requests use the values of earlier replies, where the file has the replies.
    pub correlate: bool,
    /// The folder of the files that the input names; others are not read.
    pub folder: &'a Path,
    /// Keep requests of an archive to other sites than that of its first page.
    pub all_sites: bool,
    /// Other folders whose files the input may name.
    pub files_from: &'a [PathBuf],
    /// Draws the values of descriptions; without it they are the least ones.
    pub seed: Option<u64>,
    /// Tags of operations, and how often these are made; others have the weight 1.
    pub weights: &'a [(String, u32)],
    /// Where to count how far the import is.
    pub progress: Option<&'a Progress>,
}

/// Requests in one go, and the pause after them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) requests: Vec<Request>,
    /// The first one is sent alone.
    pub(crate) lead: bool,
    pub(crate) think: Think,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            to: None,
            with_secrets: false,
            correlate: true,
            folder: Path::new(""),
            all_sites: false,
            files_from: &[],
            seed: None,
            weights: &[],
            progress: None,
        }
    }
}

impl Options<'_> {
    /// The URL of an address, which may be a path.
    pub(crate) fn at(&self, address: &str) -> Result<String, String> {
        match (address.starts_with('/'), self.to) {
            (true, Some(to)) => Ok(format!("{}{address}", to.trim_end_matches('/'))),
            (true, None) => Err("this is a path; name its server with --to URL".into()),
            (false, _) => Ok(address.to_owned()),
        }
    }
}

impl From<Request> for Step {
    fn from(request: Request) -> Self {
        Self { requests: vec![request], lead: false, think: Think::None }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// How often it is made, compared with others.
    pub(crate) weight: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Body {
    #[default]
    None,
    Text(Text),
    Bytes(Vec<u8>),
    /// Texts, which may have fields, and bytes, which have none, one after the other.
    Mixed(Vec<Piece>),
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(Text),
    Bytes(Vec<u8>),
}

impl Body {
    /// The body of these parts in its simplest form.
    fn of(pieces: Vec<Piece>) -> Self {
        let mut text = Text::default();
        let (mut bytes, mut has_fields, mut is_text) = (Vec::new(), false, true);
        for piece in &pieces {
            match piece {
                Piece::Text(more) => {
                    has_fields |= more.has_fields();
                    bytes.extend(more.literals().into_bytes());
                    text.append(more.clone());
                }
                Piece::Bytes(more) => {
                    bytes.extend_from_slice(more);
                    match str::from_utf8(more) {
                        Ok(more) => text.push(more),
                        Err(_) => is_text = false,
                    }
                }
            }
        }
        match (is_text, has_fields) {
            (true, _) if text.is_empty() => Self::None,
            (true, _) => Self::Text(text),
            (false, false) => Self::Bytes(bytes),
            (false, true) => Self::Mixed(pieces),
        }
    }

    /// Its texts.
    fn texts(&self) -> impl Iterator<Item = &Text> {
        let (text, pieces) = match self {
            Self::Text(text) => (Some(text), &[][..]),
            Self::Mixed(pieces) => (None, &pieces[..]),
            Self::None | Self::Bytes(_) => (None, &[][..]),
        };
        let of_pieces = pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Bytes(_) => None,
        });
        text.into_iter().chain(of_pieces)
    }

    fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Text(text) => vec![text],
            Self::Mixed(pieces) => {
                let texts = pieces.iter_mut().filter_map(|piece| match piece {
                    Piece::Text(text) => Some(text),
                    Piece::Bytes(_) => None,
                });
                texts.collect()
            }
            Self::None | Self::Bytes(_) => Vec::new(),
        }
    }

    /// Its bytes, with what stands between the braces of fields.
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Mixed(pieces) => {
                let length = |piece: &Piece| match piece {
                    Piece::Text(text) => text.len(),
                    Piece::Bytes(bytes) => bytes.len(),
                };
                pieces.iter().map(length).sum()
            }
        }
    }

    /// Whether nothing is sent.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) if text.is_empty() => Self::None,
            Ok(text) => Self::Text(text.into()),
            Err(e) => Self::Bytes(e.into_bytes()),
        }
    }
}

/// A value of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extract {
    /// A header, or the part of it that an expression finds.
    Header(String, Option<String>),
    Json(String),
    /// What is in the body between two texts.
    Between(String, String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Request {
    /// Where it is in the file, for notes.
    pub(crate) place: String,
    /// `http://host` or `https://host:port`.
    pub(crate) origin: String,
    pub(crate) method: String,
    pub(crate) path: Text,
    pub(crate) headers: Vec<(String, Text)>,
    pub(crate) body: Body,
    pub(crate) name: String,
    /// The status that it must have; 0 if any success will do.
    pub(crate) expect: u16,
    pub(crate) extract: Vec<(String, Extract)>,
    /// The reply, until it has been searched.
    pub(crate) reply: Reply,
}

impl Request {
    /// What stands between the braces of its fields.
    fn fields(&self) -> impl Iterator<Item = &str> {
        let texts = self.headers.iter().map(|(_, value)| value);
        texts.chain([&self.path]).chain(self.body.texts()).flat_map(Text::fields)
    }
}

/// What a file has.
#[derive(Clone, Debug, Default)]
pub struct Import {
    sessions: Vec<Session>,
    /// Requests that are sent in turn, without sessions.
    is_list: bool,
    /// Sessions are those of httperf: with one connection, and at an end when a request fails.
    is_of_httperf: bool,
    /// Replies have set cookies, which later requests return.
    has_jar: bool,
    /// Servers need not prove who they are.
    insecure: bool,
    /// A file of CA certificates to trust instead of the system's.
    cacert: Option<String>,
    /// HTTP/2 was asked for.
    http2: bool,
    /// Variables to be filled in: name, and what it stands for.
    variables: Vec<(String, String)>,
    /// Values of replies that later requests use.
    extracted: usize,
    notes: Notes,
}

/// Reads a file. `name` is its name in errors.
///
/// # Errors
/// It is not a file of this format, or nothing in it can be sent: one sentence with the place.
pub fn import(
    format: Format,
    name: &str,
    bytes: &[u8],
    options: &Options<'_>,
) -> Result<Import, String> {
    let context = &Context::new(options);
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = || {
        str::from_utf8(bytes).map_err(|e| {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            format!(":{line}: this is not UTF-8 text")
        })
    };
    let read = match format {
        Format::Har => text().and_then(|text| har::read(text, options.all_sites)),
        // Words of a shell, and bodies, may be any bytes.
        Format::Curl => curl::read(bytes, context),
        Format::Wsesslog => wsesslog::read(bytes, context),
        Format::OpenApi => text().and_then(|text| openapi::read(text, context)),
        Format::Postman => text().and_then(|text| postman::read(text, context)),
        Format::Vegeta => text().and_then(|text| vegeta::read(text, context)),
        Format::Http => text().and_then(|text| http_file::read(text, context)),
        Format::Urls => text().and_then(|text| list::read(text, context)),
    };
    let mut import = read.map_err(|e| format!("{name}{e}"))?;
    context.check().map_err(|e| format!("{name}: {e}"))?;
    context.note_files(&mut import);
    // A description has no secrets: its credentials are variables from the start.
    let with_secrets = options.with_secrets || format == Format::OpenApi;
    finished(import, name, &Options { with_secrets, ..*options })
}

/// Reads an archive. `name` is its name in errors.
///
/// # Errors
/// Nothing in it can be sent.
pub fn import_archive(
    name: &str,
    archive: archive::Archive,
    options: &Options<'_>,
) -> Result<Import, String> {
    let import = har::of(archive, options.all_sites).map_err(|e| format!("{name}{e}"))?;
    finished(import, name, options)
}

/// What all formats have in common.
fn finished(mut import: Import, name: &str, options: &Options<'_>) -> Result<Import, String> {
    fit::leave_out(&mut import);
    import.drop_empty();
    if import.sessions.is_empty() {
        return Err(format!("{name}: there is no request in it that can be sent{}", import.why()));
    }
    if let Some(progress) = options.progress {
        progress.read_all(import.requests());
    }
    if options.correlate {
        correlate::correlate(&mut import, options.progress);
    }
    if !options.with_secrets {
        secrets::replace(&mut import).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(import)
}

impl Import {
    /// How many requests there are.
    pub fn requests(&self) -> usize {
        self.all().count()
    }

    /// How many sessions there are; none if the requests are sent in turn.
    pub fn sessions(&self) -> usize {
        if self.is_list { 0 } else { self.sessions.len() }
    }

    /// How many values of replies later requests use.
    pub fn extracted(&self) -> usize {
        self.extracted
    }

    /// What was left out or changed, and why.
    pub fn notes(&self) -> Vec<Note<'_>> {
        self.notes.all()
    }

    /// The names of the variables that must be filled in.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// What a user should know of the import, after a sentence with the numbers of its requests and
    /// sessions: the values of replies, the notes, and the variables to fill in.
    pub fn remarks(&self) -> String {
        let mut text = match self.extracted() {
            0 => String::new(),
            1 => "; 1 value of replies for later requests".to_owned(),
            n => format!("; {n} values of replies for later requests"),
        };
        for note in self.notes() {
            let (count, places) = (note.count, note.shown_places());
            let line = format!("{count} x {}: {places}", note.what);
            let _ = write!(text, "\n  {}", plain::line(&line));
        }
        let variables: Vec<&str> = self.variables().collect();
        if !variables.is_empty() {
            let (shown, rest) = variables.split_at(variables.len().min(NAMED));
            let mut names = shown.join(", ");
            if !rest.is_empty() {
                let _ = write!(names, ", and {} more", rest.len());
            }
            let _ = write!(text, "\n  fill in under [variables]: {}", plain::line(&names));
        }
        text
    }

    /// What the plan says about TLS: not to verify servers, or the file of other CA certificates.
    pub fn trust(&mut self, insecure: bool, cacert: Option<&str>) {
        self.insecure |= insecure;
        self.cacert = cacert.map(str::to_owned);
    }

    fn all(&self) -> impl Iterator<Item = &Request> {
        self.sessions.iter().flat_map(|s| &s.steps).flat_map(|step| &step.requests)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.sessions.iter_mut().flat_map(|s| &mut s.steps).flat_map(|step| &mut step.requests)
    }

    /// The first reason for leaving out, as the end of a sentence.
    fn why(&self) -> String {
        let first = self.notes.all().into_iter().next();
        first.map_or_else(String::new, |note| format!(" ({}: {})", note.what, note.shown_places()))
    }
}
