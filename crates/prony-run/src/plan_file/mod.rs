//! Plan files: a whole run in TOML, as users write it and as `--explain` prints it.
//!
//! Reading a file reports all its errors with their positions. docs/plan-files.md describes all
//! keys.

mod body;
mod checks;
mod control;
mod dynamic;
mod explain;
mod follow;
mod grpc;
mod http2;
mod keyed;
mod load;
mod phases;
mod proxy;
mod reader;
mod request;
mod requests;
mod session;
mod sigv4;
mod socket;
mod stream;
mod tls;
mod websocket;
mod words;
mod writer;
mod written;

use std::path::Path;

use prony_io::Options;
use prony_plan::plan::{Calls, Checks, Plan, Sessions, Think};
use prony_plan::target::Url;
use toml::Spanned;
use toml::de::DeTable;

use crate::builder::{Draft, Planned, Targets};
use crate::environment::Environment;
use crate::error::Error;
use crate::files::{read, read_text};
use crate::grpc::prepare;
use crate::phases::Phases;
use reader::{Problems, Section};
use requests::{Names, Requests};

pub use dynamic::{LINE, table_of_lines};
pub use explain::explain;
pub use phases::explain_phases;
pub use requests::Common;
pub use sigv4::{aws_signing, read_key};

/// What a plan file describes.
#[derive(Debug)]
pub enum PlanFile {
    /// One load.
    Load(Box<Planned>),
    /// Several loads, one after the other or side by side.
    Phases(Phases),
}

/// Reads a plan file of one load.
///
/// # Errors
/// The file cannot be read, or all errors in it.
pub fn open(path: &Path, around: &Environment) -> Result<Planned, Error> {
    let text = read_text("plan", path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&path.display().to_string(), &text, Some(folder), around).map_err(Error::PlanFile)
}

/// Reads a plan file, which may have phases.
///
/// # Errors
/// The same as those of [`open`].
pub fn open_all(path: &Path, around: &Environment) -> Result<PlanFile, Error> {
    let text = read_text("plan", path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse_all(&path.display().to_string(), &text, Some(folder), around).map_err(Error::PlanFile)
}

/// Parses the text of a plan file of one load. `name` is the name of the file in error messages.
/// `folder` is the base of the file names in the plan; without it, the plan must not name files.
///
/// # Errors
/// All errors, each as `NAME:LINE:COLUMN: sentence`.
pub fn parse(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    around: &Environment,
) -> Result<Planned, Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = document(name, text)?;
    if let Some(phases) = document.get_ref().get(phases::PHASES) {
        let what = "`phases`: this command runs one load; `prony run` runs a plan with phases";
        let mut problems = Problems::new(name, text);
        problems.add(phases.span().start, what);
        return Err(problems.into_sentences());
    }
    parse_one(name, text, document.get_ref(), folder, around)
}

/// Reads a plan of one load.
fn parse_one(
    name: &str,
    text: &str,
    document: &DeTable<'_>,
    folder: Option<&Path>,
    around: &Environment,
) -> Result<Planned, Vec<String>> {
    let problems = Problems::new(name, text);
    let mut requests = Requests::new(problems, folder, Common::default());
    let mut top = Section::new("a plan", 0, document);
    let planned = requests.plan(&mut top, around);
    top.finish(&mut requests.problems);
    match planned {
        Some(planned) if requests.problems.is_empty() => Ok(planned),
        _ => {
            debug_assert!(!requests.problems.is_empty(), "no plan and no reason");
            Err(requests.problems.into_sentences())
        }
    }
}

/// Parses the text of a plan file, which may have phases.
///
/// # Errors
/// The same as those of [`parse`].
pub fn parse_all(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    around: &Environment,
) -> Result<PlanFile, Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = document(name, text)?;
    let document = document.get_ref();
    if document.contains_key(phases::PHASES) {
        return phases::parse(name, text, document, folder, around).map(PlanFile::Phases);
    }
    let planned = parse_one(name, text, document, folder, around)?;
    Ok(PlanFile::Load(Box::new(planned)))
}

/// Reads a session file: the session part of a plan file, or httperf's format. `connections`
/// overrides `session-connections` in the file.
///
/// # Errors
/// The file cannot be read, or all errors in it.
pub fn session_file(
    path: &Path,
    common: Common,
    connections: Option<u32>,
) -> Result<Targets, Error> {
    let bytes = read("--session", path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let name = path.display().to_string();
    let mut targets =
        parse_sessions(&name, &bytes, Some(folder), common).map_err(Error::PlanFile)?;
    if let (Some(connections), Some(sessions)) = (connections, &mut targets.sessions) {
        sessions.connections = connections;
    }
    Ok(targets)
}

/// Parses the text of a session file, in either format.
fn parse_sessions(
    name: &str,
    bytes: &[u8],
    folder: Option<&Path>,
    common: Common,
) -> Result<Targets, Vec<String>> {
    if !is_text(bytes) {
        let what = "this is not text; expected a plan file (TOML) or a session file";
        return Err(vec![format!("{name}: {what}")]);
    }
    let toml = std::str::from_utf8(bytes).ok().filter(|text| is_toml(name, text));
    let Some(text) = toml else {
        let mut requests = Requests::new(Problems::new(name, ""), folder, common);
        let kinds = requests.log(name, bytes, Think::None);
        let sessions = kinds.map(Sessions::plain);
        return requests.targets(sessions);
    };
    let document = document(name, text)?;
    let mut requests = Requests::new(Problems::new(name, text), folder, common);
    let mut top = Section::new("a file of sessions", 0, document.get_ref());
    requests.own_headers(&mut top);
    requests.list(&mut top);
    let sessions = requests.sessions(&mut top);
    let data = requests.data(&mut top);
    for key in keys_of_plans() {
        if !top.asked(key)
            && let Some(item) = top.take(key)
        {
            let what = format!(
                "`{key}` belongs to a plan, not to sessions; give it as an option, or carry the \
                 file out with `prony run`"
            );
            requests.problems.add(item.at, what);
        }
    }
    if sessions.is_none() && requests.problems.is_empty() {
        requests.problems.add(0, "there is no session in the file; add [[session]]");
    }
    top.finish(&mut requests.problems);
    let mut targets = Targets { data, ..requests.targets(sessions)? };
    dynamic::read_environment(&mut targets);
    Ok(targets)
}

/// The keys of a plan: those that its reader asks for.
fn keys_of_plans() -> Vec<&'static str> {
    let nothing = DeTable::new();
    let mut plan = Section::new("a plan", 0, &nothing);
    let mut requests = Requests::new(Problems::new("", ""), None, Common::default());
    requests.plan(&mut plan, &Environment::default());
    plan.into_known_keys()
}

/// Whether the bytes can be text in an ASCII-compatible encoding.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.iter().any(|&b| b.is_ascii_control() && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c))
}

/// Whether a session file is TOML, judging by its name or by its first line with content.
fn is_toml(name: &str, text: &str) -> bool {
    if let Some((_, ending)) = name.rsplit_once('.')
        && ["toml", "wsesslog"].contains(&ending)
    {
        return ending == "toml";
    }
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let key = first.split_once('=').map(|(key, _)| key.trim_end());
    let is_key = |key: &str| key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    first.is_empty() || first.starts_with('[') || key.is_some_and(is_key)
}

/// Parses the file as TOML.
fn document<'a>(name: &str, text: &'a str) -> Result<Spanned<DeTable<'a>>, Vec<String>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(document);
    }
    let mut problems = Problems::new(name, text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.add(at, format!("this is not TOML: {}", error.message()));
    }
    Err(problems.into_sentences())
}

impl<'a> Requests<'a> {
    fn new(problems: Problems<'a>, folder: Option<&'a Path>, common: Common) -> Self {
        Self {
            problems,
            folder,
            common,
            base: None,
            endpoints: Vec::new(),
            listed: false,
            calls: Calls::default(),
            places: Vec::new(),
            names: Names::default(),
            checks: Checks::default(),
            groups: Vec::new(),
            kind: 0,
            is_grpc: false,
            is_http: false,
            is_websocket: false,
            has_requests: false,
            has_sockets: false,
            in_group: false,
            in_session: false,
            sockets: Vec::new(),
            is_redirected: false,
            retry: None,
        }
    }

    /// The parsed targets, if there are no errors.
    fn targets(self, sessions: Option<Sessions>) -> Result<Targets, Vec<String>> {
        match sessions {
            Some(sessions) if self.problems.is_empty() => Ok(Targets {
                endpoints: self.endpoints,
                calls: self.calls.into_vec(),
                names: self.names.into_vec(),
                sessions: Some(sessions),
                checks: self.checks,
                groups: self.groups,
                ..Targets::default()
            }),
            _ => Err(self.problems.into_sentences()),
        }
    }

    /// Reads the list of requests at the top level. Returns whether there is one.
    fn list(&mut self, top: &mut Section<'a>) -> bool {
        let Some(list) = top.take("request") else { return false };
        let items = list.list(&mut self.problems, "a list of requests");
        let items: Vec<_> = items.into_iter().flatten().collect();
        items.into_iter().for_each(|item| self.listed_call(item));
        true
    }

    /// The requests so far, and what belongs to them.
    fn take_targets(&mut self) -> Targets {
        Targets {
            endpoints: std::mem::take(&mut self.endpoints),
            calls: std::mem::take(&mut self.calls).into_vec(),
            names: std::mem::take(&mut self.names).into_vec(),
            checks: std::mem::take(&mut self.checks),
            groups: std::mem::take(&mut self.groups),
            ..Targets::default()
        }
    }

    fn plan(&mut self, top: &mut Section<'a>, around: &Environment) -> Option<Planned> {
        // Its readers take it before this.
        top.take(phases::PHASES);
        self.common(top);
        self.checks_of_all(top);
        let listed = self.list(top);
        let has_sessions = top.has("session");
        let sessions = self.sessions(top);
        let data = self.data(top);
        let pick = load::pick(top, &mut self.problems);
        if !listed && !has_sessions {
            self.call_of_url();
        }
        let expect = self.expect(top);
        let load = self.load(top, has_sessions);
        let stop = self.stop(top, has_sessions);
        let mut draft = Draft { pick: Some(pick), expect, load, stop, ..Draft::default() };
        self.limits(top, &mut draft);
        draft.redirects = self.redirects(top);
        let redirect_to = self.redirect_to(top);
        draft.seed = self.seed(top);
        draft.shard = self.shard(top);
        draft.thresholds = self.thresholds(top);
        (draft.instead, draft.proxy) = (self.redirect(top), self.proxy(top));
        draft.aws_sigv4 = self.aws_sigv4(top);
        self.tls(top, &mut draft);
        let grpc = self.grpc(top, &mut draft);
        self.http2(top, &mut draft);
        let websocket = self.websocket(top);
        self.stream(top, &mut draft);
        // The errors so far are reported; errors about the whole plan could mislead.
        let refused = !self.problems.is_empty() || (has_sessions && sessions.is_none());
        draft.targets = Targets { sessions, data, redirect_to, ..self.take_targets() };
        dynamic::read_environment(&mut draft.targets);
        read_key(draft.aws_sigv4.as_deref(), &mut draft.targets.data);
        let mut planned = draft.plan(around);
        if refused {
            self.check_fields(&planned.plan);
            return None;
        }
        if let Some(mut grpc) = grpc {
            grpc.simulated = around.simulated;
            match prepare(&mut planned.plan, &grpc, &Options::default()) {
                Ok(note) => planned.notes.extend(note),
                Err(why) => {
                    self.problems.add(0, why);
                    return None;
                }
            }
        }
        if let Some(websocket) = websocket
            && let Err(why) = crate::websocket::prepare(&mut planned.plan, websocket)
        {
            self.problems.add(0, why);
            return None;
        }
        let plan = &planned.plan;
        if self.check_script(plan) {
            return None;
        }
        match plan.check() {
            Ok(()) => Some(planned),
            Err(why) => {
                self.problems.add(0, format!("this plan cannot be run: {why}"));
                None
            }
        }
    }
}

/// Checks a plan file, or a session file in httperf's format, and summarizes it in one line.
///
/// # Errors
/// The file cannot be read, or all errors in it.
pub fn check(path: &Path, around: &Environment) -> Result<String, Error> {
    let bytes = read("plan", path)?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    match std::str::from_utf8(&bytes) {
        Ok(text) if is_toml(&name, text) => {
            check_text(&name, text, Some(folder), around).map_err(Error::PlanFile)
        }
        _ => {
            let url = Url::parse("http://localhost/").ok();
            let common = Common { url, ..Common::default() };
            let targets = parse_sessions(&name, &bytes, Some(folder), common);
            let targets = targets.map_err(Error::PlanFile)?;
            Ok(targets.sessions.as_ref().map_or_else(String::new, of_sessions))
        }
    }
}

/// Checks the text of a plan file, and summarizes it in one line.
///
/// # Errors
/// All errors, as those of [`parse`].
pub fn check_text(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    around: &Environment,
) -> Result<String, Vec<String>> {
    Ok(match parse_all(name, text, folder, around)? {
        PlanFile::Load(planned) => summary(&planned.plan),
        PlanFile::Phases(all) => phases::summary(&all),
    })
}

/// Summarizes a plan in one line.
pub fn summary(plan: &Plan) -> String {
    let what = match &plan.sessions {
        None => counted(plan.calls.len() as u64, "request"),
        Some(sessions) => of_sessions(sessions),
    };
    let servers = match plan.has_sockets() {
        true => plan.with_merged_endpoints().endpoints.len(),
        false => plan.endpoints.len(),
    };
    let servers = counted(servers as u64, "server");
    format!("{what}, {servers}, {}", load::summary(plan))
}

fn of_sessions(sessions: &Sessions) -> String {
    let total = sessions.kinds.iter().map(|kind| kind.len()).sum();
    let kinds = counted(sessions.kinds.len() as u64, "session");
    format!("{kinds} with {} in total", counted(total, "request"))
}

fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

#[cfg(test)]
pub(crate) mod tests;
