//! Bodies for the requests of a log, which has none: a file of JSON lines with a key and a body,
//! and how the key of a request is found.
//!
//! All of the file is in memory while the load runs: its bodies once, however often they are sent.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_base::director::METHODS;
use prony_base::feed::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::input;
use crate::record::Record;

/// The methods whose requests usually have a body.
const WITH_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];
/// Stands for the key in a pattern.
const KEY: &str = "{key}";

/// Where the key of a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyKey {
    /// Path and query.
    Target,
    /// The field `body` of a line of JSON.
    Field,
    /// A part of the path: `/orders/{key}/pay`.
    Path(String),
    /// The value of a parameter of the query: `?order={key}`.
    Query(String),
}

impl BodyKey {
    /// A pattern with `{key}` in the place of the key.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "must have {key} in the place of one part of a path (/orders/{key}), \
                             or of the value of a parameter (?order={key})";
        if let Some(rest) = text.strip_prefix('?') {
            return match rest.strip_suffix("={key}") {
                Some(name) if !name.is_empty() && !name.contains(['=', '&', '{', '}']) => {
                    Ok(Self::Query(name.to_owned()))
                }
                _ => Err(SHAPE.to_owned()),
            };
        }
        let parts = || text.split('/').skip(1);
        let keys = parts().filter(|part| *part == KEY).count();
        let is_odd = parts().any(|part| part != KEY && part.contains(['{', '}', '?', ' ']));
        match text.starts_with('/') && keys == 1 && !is_odd {
            true => Ok(Self::Path(text.to_owned())),
            false => Err(SHAPE.to_owned()),
        }
    }

    /// The key of a request, if it has one.
    fn of<'a>(&self, record: &'a Record) -> Option<&'a [u8]> {
        let path = &record.path[..];
        let end = memchr::memchr(b'?', path).unwrap_or(path.len());
        match self {
            Self::Target => Some(path),
            Self::Field => Some(&record.key[..]).filter(|key| !key.is_empty()),
            Self::Path(pattern) => {
                let mut parts = path[..end].split(|byte| *byte == b'/');
                let mut key = None;
                for wanted in pattern.split('/') {
                    let part = parts.next()?;
                    match wanted {
                        KEY => key = Some(part),
                        "*" => {}
                        _ if wanted.as_bytes() == part => {}
                        _ => return None,
                    }
                }
                key.filter(|key| !key.is_empty() && parts.next().is_none())
            }
            Self::Query(name) => {
                let mut pairs = path.get(end + 1..)?.split(|byte| *byte == b'&');
                pairs.find_map(|pair| {
                    let (own, value) = pair.split_at(memchr::memchr(b'=', pair)?);
                    (own == name.as_bytes()).then_some(&value[1..])
                })
            }
        }
    }

    /// A key, as a report names it.
    fn shown(&self, key: &[u8]) -> String {
        let text: String = String::from_utf8_lossy(key).chars().take(80).collect();
        match self {
            Self::Query(name) => format!("?{name}={text}"),
            _ => text,
        }
    }
}

/// The bodies of a file, by their keys.
#[derive(Debug)]
pub struct Bodies {
    key: BodyKey,
    by_key: HashMap<Box<[u8]>, Several>,
    count: u64,
}

/// The bodies of a key: one, or the index of their list.
#[derive(Debug)]
enum Several {
    One(Arc<Body>),
    List(u32, Vec<Arc<Body>>),
}

/// Why a file of bodies cannot be used.
#[derive(Debug)]
pub struct BodiesError {
    path: PathBuf,
    /// The number of the line, from 1; 0: no line.
    line: u64,
    why: String,
}

impl fmt::Display for BodiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, why } = self;
        match line {
            0 => write!(f, "{}: {why}", path.display()),
            _ => write!(f, "{}: line {line}: {why}", path.display()),
        }
    }
}

impl std::error::Error for BodiesError {}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    key: Value,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default, rename = "type")]
    content_type: Option<String>,
}

impl Bodies {
    /// Reads a file. `usual`: the type of texts and bytes without one.
    ///
    /// # Errors
    /// It cannot be read, or a line is none.
    pub fn read(path: &Path, key: BodyKey, usual: Option<&str>) -> Result<Self, BodiesError> {
        let error = |line, why: String| BodiesError { path: path.to_owned(), line, why };
        let bytes = input::open(path).map_err(|e| error(0, e.to_string()))?;
        let mut bodies = Self { key, by_key: HashMap::new(), count: 0 };
        let mut lists = 0;
        for (number, line) in (1..).zip(BufReader::with_capacity(1 << 16, bytes).split(b'\n')) {
            let line = line.map_err(|e| error(number, e.to_string()))?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (key, mut body) = read_line(&line).map_err(|why| error(number, why))?;
            body.content_type = body.content_type.or_else(|| usual.map(str::to_owned));
            bodies.count += 1;
            let body = Arc::new(body);
            match bodies.by_key.get_mut(&key) {
                None => drop(bodies.by_key.insert(key, Several::One(body))),
                Some(Several::List(_, list)) => list.push(body),
                Some(one) => {
                    let list = Several::List(lists, Vec::new());
                    lists += 1;
                    if let (Several::One(first), Several::List(_, list)) =
                        (std::mem::replace(one, list), one)
                    {
                        list.extend([first, body]);
                    }
                }
            }
        }
        match bodies.count {
            0 => {
                Err(error(0, "it has no body; a line is {\"key\": \"...\", \"body\": ...}".into()))
            }
            _ => Ok(bodies),
        }
    }

    /// How many bodies there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many keys they have.
    pub fn keys(&self) -> u64 {
        self.by_key.len() as u64
    }
}

/// The key and the body of a line.
fn read_line(line: &[u8]) -> Result<(Box<[u8]>, Body), String> {
    let line: Line<'_> = serde_json::from_slice(line)
        .map_err(|e| format!("it is not an object with key, body and type: {e}"))?;
    let key = match line.key {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return Err("its key must be a text or a number".into()),
    };
    if key.is_empty() {
        return Err("its key is empty".into());
    }
    let (content_type, bytes) = match (line.body, line.base64) {
        (Some(body), None) if body.get().starts_with('"') => {
            let text: String = serde_json::from_str(body.get()).map_err(|e| e.to_string())?;
            (None, text.into_bytes())
        }
        // Sent unchanged.
        (Some(body), None) => (Some("application/json"), body.get().as_bytes().to_vec()),
        (None, Some(code)) => {
            let bytes = BASE64.decode(code).map_err(|_| "its base64 cannot be decoded")?;
            (None, bytes)
        }
        _ => return Err("it must have either a body or base64".into()),
    };
    if let Some(wrong) = line.content_type.as_deref().filter(|t| t.contains(char::is_control)) {
        return Err(format!("its type is '{}'", wrong.escape_debug()));
    }
    let content_type = line.content_type.or_else(|| content_type.map(str::to_owned));
    Ok((key.into_bytes().into(), Body { content_type, bytes }))
}

/// Gives requests their bodies, in the order of the log.
#[derive(Debug)]
pub(crate) struct Giver {
    bodies: Arc<Bodies>,
    /// How often each key with several bodies has had one.
    turns: Vec<u32>,
    pub(crate) missing: Missing,
}

/// Requests without a body in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// POST, PUT and PATCH without a body: they are sent with an empty one.
    pub requests: u64,
    /// Of these, requests without a key.
    pub no_key: u64,
    /// The first keys that are not in the file, each once.
    pub keys: Vec<String>,
}

impl Missing {
    /// How many keys are shown.
    const SHOWN: usize = 5;
}

impl Giver {
    pub(crate) fn new(bodies: &Arc<Bodies>) -> Self {
        Self { bodies: Arc::clone(bodies), turns: Vec::new(), missing: Missing::default() }
    }

    /// The body of the next request.
    pub(crate) fn next(&mut self, record: &Record) -> Option<Arc<Body>> {
        let key = self.bodies.key.of(record);
        match key.and_then(|key| self.bodies.by_key.get(key)) {
            Some(Several::One(body)) => Some(Arc::clone(body)),
            Some(Several::List(index, list)) => {
                let index = *index as usize;
                if self.turns.len() <= index {
                    self.turns.resize(index + 1, 0);
                }
                let turn = &mut self.turns[index];
                let body = &list[*turn as usize];
                *turn = (*turn + 1) % list.len() as u32;
                Some(Arc::clone(body))
            }
            None => {
                if WITH_BODY.contains(&METHODS[usize::from(record.method)]) {
                    self.miss(record);
                }
                None
            }
        }
    }

    #[cold]
    fn miss(&mut self, record: &Record) {
        let missing = &mut self.missing;
        missing.requests += 1;
        let Some(key) = self.bodies.key.of(record) else {
            missing.no_key += 1;
            return;
        };
        if missing.keys.len() < Missing::SHOWN {
            let shown = self.bodies.key.shown(key);
            if !missing.keys.contains(&shown) {
                missing.keys.push(shown);
            }
        }
    }
}

#[cfg(test)]
mod tests;
