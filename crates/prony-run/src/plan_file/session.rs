//! Sessions of a plan file: bursts of requests with think times between them.

use prony_import::session_log::{self, Dialect};
use prony_plan::plan::{Burst, CallSpec, Control, Pick, SessionKind, Sessions, Think};
use toml::de::{DeTable, DeValue};

use super::reader::{Item, Section};
use super::requests::Requests;
use super::words::{COOKIES, LOST, ON_FAILURE, PICK};
use crate::values;

const STEP: &str = "a request, an array of them or { burst = [...], ... }";
const SESSION: &str = "a session: [[session]], or the name of a session file";

/// Where a step is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// In how many switches.
    pub(super) depth: usize,
    /// The number of its first burst in its session.
    pub(super) first: usize,
}

impl Place {
    /// The place after these bursts.
    pub(super) fn after(self, bursts: &[Burst]) -> Self {
        Self { first: self.first + bursts.len(), ..self }
    }
}

/// The keys that need sessions.
const NEED_SESSIONS: [&str; 8] = [
    "sessions",
    "session-connections",
    "session-think",
    "cookies",
    "lost",
    "on-failure",
    "retries",
    "retry",
];

impl<'a> Requests<'a> {
    /// Reads the sessions, and all keys that concern them.
    pub(super) fn sessions(&mut self, top: &mut Section<'a>) -> Option<Sessions> {
        let Some(session) = top.take("session") else {
            for key in NEED_SESSIONS {
                if let Some(item) = top.take(key) {
                    let what = format!("`{key}` needs sessions; add [[session]], or omit it");
                    self.problems.add(item.at, what);
                }
            }
            return None;
        };
        let problems = &mut self.problems;
        let think = top
            .take("session-think")
            .and_then(|i| i.parse(problems, "a time, as \"2s\" or \"exp:2s\"", values::think))
            .unwrap_or(Think::None);
        let connections = top
            .take("session-connections")
            .and_then(|i| i.parse(problems, "a number", values::connections))
            .unwrap_or(1);
        let cookies = top.take("cookies").and_then(|i| i.word(problems, COOKIES));
        let lost = top.take("lost").and_then(|i| i.word(problems, LOST));
        let on_failure = top.take("on-failure").and_then(|i| i.word(problems, ON_FAILURE));
        let retries = top
            .take("retries")
            .and_then(|i| i.parse(problems, "a number", values::number))
            .unwrap_or(0);
        let retry = top.take("retry");
        let pick = top.take("pick").and_then(|i| i.word(problems, PICK));
        self.retry = retry.and_then(|item| self.retry(item));
        let kinds = self.kinds(session, think)?;
        let weighted = kinds.iter().any(|kind| kind.weight != 1);
        Some(Sessions {
            pick: pick.unwrap_or(if weighted { Pick::Random } else { Pick::InTurn }),
            kinds: kinds.into(),
            connections,
            cookies: cookies.unwrap_or_default(),
            lost: lost.unwrap_or_default(),
            on_failure: on_failure.unwrap_or_default(),
            retries,
            directed: false,
        })
    }

    fn kinds(&mut self, item: Item<'a>, think: Think) -> Option<Vec<SessionKind>> {
        if let DeValue::String(file) = item.value {
            return self.log_file(item, file, think);
        }
        let kinds: Vec<_> = item.list(&mut self.problems, SESSION)?.collect();
        if kinds.is_empty() {
            self.problems.add(item.at, "there is no session in the list");
        }
        // Read all of them, to report all errors.
        let kinds = (0..).zip(kinds).map(|(number, kind)| {
            self.kind = number;
            self.kind(kind, think)
        });
        let kinds: Vec<_> = kinds.collect();
        kinds.into_iter().collect()
    }

    fn kind(&mut self, item: Item<'a>, think: Think) -> Option<SessionKind> {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, SESSION);
            return None;
        };
        self.in_session = true;
        self.sockets.clear();
        let mut section = Section::new("a session", item.at, table);
        let problems = &mut self.problems;
        let name = section.take("name").and_then(|i| i.string(problems, "a name"));
        let weight = section
            .take("weight")
            .and_then(|i| i.parse(problems, "a number", values::per_connection))
            .unwrap_or(1);
        let steps = section.take("request");
        if steps.is_none() {
            let what = "the session has no request; add [[session.request]] or request = [...]";
            problems.add(item.at, what);
        }
        section.finish(problems);
        let steps: Vec<_> = steps?.list(problems, "an array of requests")?.collect();
        if steps.is_empty() {
            problems.add(item.at, "the session has no request");
        }
        let bursts = self.steps(steps, think, Place::default())?;
        Some(SessionKind { name: name.unwrap_or_default().to_owned(), weight, bursts })
    }

    /// Reads steps. All of them are read, to report all errors.
    pub(super) fn steps(
        &mut self,
        items: Vec<Item<'a>>,
        think: Think,
        place: Place,
    ) -> Option<Vec<Burst>> {
        let (mut bursts, mut is_valid) = (Vec::new(), true);
        for item in items {
            let read = self.step(item, think, place.after(&bursts));
            is_valid &= read.is_some();
            bursts.extend(read.into_iter().flatten());
        }
        is_valid.then_some(bursts)
    }

    /// Reads one request, burst, switch or group, with the think time after it.
    fn step(&mut self, item: Item<'a>, think: Think, place: Place) -> Option<Vec<Burst>> {
        let calls = match item.value {
            DeValue::Table(table) if table.contains_key("switch") => {
                return self.switch(item, table, think, place);
            }
            DeValue::Table(table) if table.contains_key("group") => {
                return self.group(item, table, think, place);
            }
            DeValue::Table(table) => {
                return self.table_step(item, table, think).map(|burst| vec![burst]);
            }
            DeValue::Array(_) => self.burst(item)?,
            _ => vec![self.call(item)?],
        };
        let mut burst = Burst::of(calls, think);
        self.retry_by_default(&mut burst);
        Some(vec![burst])
    }

    fn table_step(
        &mut self,
        item: Item<'a>,
        table: &'a DeTable<'a>,
        think: Think,
    ) -> Option<Burst> {
        let what = if table.contains_key("burst") { "a burst" } else { "a request" };
        let mut section = Section::new(what, item.at, table);
        let problems = &mut self.problems;
        let own = section
            .take("think")
            .and_then(|i| i.parse(problems, "a time, as \"2s\" or \"exp:2s\"", values::think));
        let repeat = section
            .take("repeat")
            .and_then(|i| i.parse(problems, "a number", values::per_connection))
            .unwrap_or(1);
        let mut control = Control { gate: self.gate(&mut section), ..Control::default() };
        control.until = self.until(&mut section, repeat);
        let retry = section.take("retry");
        let mut lead = None;
        let calls = match section.take("burst") {
            Some(burst) => {
                lead = section.take("lead").and_then(|i| i.boolean(&mut self.problems));
                self.burst(burst)
            }
            None => self.spec(&mut section).map(|call| vec![self.intern(call, item.at)]),
        };
        section.finish(&mut self.problems);
        if let Some(retry) = retry {
            control.retry = self.retry(retry);
            if calls.as_ref().is_some_and(|calls| calls.len() > 1) {
                let what = "`retry` belongs to a step of one request; this burst has several";
                self.problems.add(retry.at, what);
            }
        }
        let mut burst = Burst {
            lead: lead.unwrap_or(false),
            repeat,
            ..Burst::of(calls?, own.unwrap_or(think))
        };
        burst.control = (!control.is_empty()).then(|| Box::new(control));
        self.retry_by_default(&mut burst);
        Some(burst)
    }

    fn burst(&mut self, item: Item<'a>) -> Option<Vec<u32>> {
        let parts: Vec<_> = item.list(&mut self.problems, STEP)?.collect();
        if parts.is_empty() {
            self.problems.add(item.at, "the burst has no request");
            return None;
        }
        let calls: Vec<_> = parts.into_iter().map(|part| self.call(part)).collect();
        calls.into_iter().collect()
    }

    /// Reads the sessions of a file in httperf's format.
    fn log_file(&mut self, item: Item<'a>, file: &str, think: Think) -> Option<Vec<SessionKind>> {
        let (name, text) = self.file(item, file)?;
        self.log(&name, &text, think)
    }

    /// Reads the sessions of a text in httperf's format.
    pub(super) fn log(
        &mut self,
        name: &str,
        text: &[u8],
        think: Think,
    ) -> Option<Vec<SessionKind>> {
        let mut calls = std::mem::take(&mut self.calls);
        let mut wrong = Vec::new();
        // Check all requests, whatever the errors in others.
        let kinds = session_log::add_to(&mut calls, (text, Dialect::Prony), think, |request| {
            self.logged(request).unwrap_or_else(|why| {
                wrong.push(format!("{name}:{}:{}: {why}", request.line, request.column));
                CallSpec::default()
            })
        });
        self.calls = calls;
        let kinds = kinds.map_err(|errors| {
            // Syntax errors hide all others.
            let all = errors.iter().map(|e| format!("{name}:{}:{}: {}", e.line, e.column, e.kind));
            wrong = all.collect();
        });
        wrong.into_iter().for_each(|sentence| self.problems.add_foreign(sentence));
        kinds.ok()
    }
}
