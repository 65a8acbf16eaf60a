//! Plan files: a whole run in TOML, as users write it and as `--explain` prints it.
//!
//! Everything that is wrong with a file is found in one go, each with its place. docs/plan-files.md
//! tells users of all keys.

mod dynamic;
mod explain;
mod load;
mod reader;
mod request;
mod session;
mod words;

use std::path::Path;

use prony_core::plan::{Calls, Plan, Sessions};
use toml::de::DeTable;

use crate::cli::plan::{Planned, Surroundings, read_text};
use crate::error::Error;
use reader::{Problems, Section};
use request::{Common, Names, Requests};

pub use explain::explain;

/// Read a plan file.
///
/// # Errors
/// The file cannot be read, or everything that is wrong with it.
pub fn read(path: &Path, around: &Surroundings) -> Result<Planned, Error> {
    let text = read_text("plan", path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&path.display().to_string(), &text, folder, around).map_err(Error::PlanFile)
}

/// The plan that a text tells of. `name` is the file's in errors, `folder` where the files lie that
/// it names.
///
/// # Errors
/// Everything that is wrong with it, each as `NAME:LINE:COLUMN: sentence`.
pub fn parse(
    name: &str,
    text: &str,
    folder: &Path,
    around: &Surroundings,
) -> Result<Planned, Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::new(name, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            problems.add(at, format!("this is not TOML: {}", error.message()));
        }
        return Err(problems.into_sentences());
    }
    let mut requests = Requests {
        problems,
        folder,
        common: Common::default(),
        endpoints: Vec::new(),
        listed: false,
        calls: Calls::default(),
        places: Vec::new(),
        names: Names::default(),
    };
    let mut top = Section::new("a plan", 0, document.get_ref());
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

impl<'a> Requests<'a> {
    fn plan(&mut self, top: &mut Section<'a>, around: &Surroundings) -> Option<Planned> {
        self.common(top);
        let listed = top.take("request");
        if let Some(list) = listed {
            let items: Vec<_> = list.list(&mut self.problems, "a list of requests")?.collect();
            items.into_iter().for_each(|item| self.listed_call(item));
        }
        let has_sessions = top.has("session");
        let sessions = self.sessions(top);
        let data = self.data(top);
        let pick = load::pick(top, &mut self.problems);
        if listed.is_none() && !has_sessions {
            self.call_of_url();
        }
        let expect = self.expect(top);
        let mut notes = Vec::new();
        let load = self.load(top, has_sessions, around, &mut notes);
        let stop = self.stop(top, has_sessions, load.as_ref());
        let limits = self.limits(top);
        let seed = self.seed(top);
        let shard = self.shard(top);
        self.redirect(top);
        // What is missing has been told of; with it, sentences on the whole would mislead.
        if !self.problems.is_empty() || (has_sessions && sessions.is_none()) {
            return None;
        }
        let plan = Plan {
            endpoints: std::mem::take(&mut self.endpoints),
            calls: std::mem::take(&mut self.calls).into_vec(),
            pick,
            sessions,
            data,
            names: std::mem::take(&mut self.names).into_vec(),
            load: load?,
            stop,
            warmup: limits.warmup,
            pipeline: limits.pipeline,
            requests_per_connection: limits.requests_per_connection,
            timeout: limits.timeout,
            timeout_from_send: limits.timeout_from_send,
            connect_timeout: limits.connect_timeout,
            expect: expect.unwrap_or_default(),
            http: limits.http,
            tls: None,
            seed: seed.unwrap_or(around.seed),
            shard,
        };
        if self.check_script(&plan) {
            return None;
        }
        match plan.check() {
            Ok(()) => Some(Planned { plan, notes }),
            Err(why) => {
                self.problems.add(0, format!("this run cannot be made: {why}"));
                None
            }
        }
    }
}

/// What a plan is, in one line for `prony check`.
pub fn summary(plan: &Plan) -> String {
    let requests = |n: u64| if n == 1 { "1 request".to_owned() } else { format!("{n} requests") };
    let what = match &plan.sessions {
        None => requests(plan.calls.len() as u64),
        Some(Sessions { kinds, .. }) => {
            let total = kinds.iter().map(|kind| kind.len()).sum();
            let kinds = match kinds.len() {
                1 => "1 session".to_owned(),
                n => format!("{n} sessions"),
            };
            format!("{kinds} of {} in all", requests(total))
        }
    };
    let servers = match plan.endpoints.len() {
        1 => "1 server".to_owned(),
        n => format!("{n} servers"),
    };
    format!("{what} to {servers}, {}", load::summary(&plan.load))
}

#[cfg(test)]
mod tests;
