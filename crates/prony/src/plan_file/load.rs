//! The load of a plan file: how much, when, how long, within which limits.

use std::sync::Arc;

use prony_core::plan::{HttpVersion, Load, Pick, Shard, Stop, Think};
use prony_core::schedule::{self, Arrivals, ArrivalsArg};
use prony_core::target::Url;
use prony_core::units::Span;
use prony_io::ConnectTo;
use toml::de::DeValue;

use super::reader::{Item, Problems, Section};
use super::request::Requests;
use super::words::{HTTP, PICK, TIMEOUT_FROM};
use crate::cli::plan::{self as cli, Surroundings};
use crate::cli::values;

const TIME: &str = "a time, as \"1m30s\"";
const NUMBER: &str = "a number";
const ARRIVALS: &str =
    "\"fixed\", \"poisson\", \"uniform:LO..HI\", \"trace:FILE\" or an array of times";

/// What a run keeps to, whatever its load.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) warmup: Span,
    pub(super) pipeline: u32,
    pub(super) requests_per_connection: Option<u32>,
    pub(super) timeout: Span,
    pub(super) timeout_from_send: bool,
    pub(super) replace_lost: bool,
    pub(super) connect_timeout: Span,
    pub(super) http: HttpVersion,
}

/// How requests are picked where there are no sessions.
pub(super) fn pick(top: &mut Section<'_>, problems: &mut Problems<'_>) -> Pick {
    let item = top.take("pick").filter(|_| !top.has("session"));
    item.and_then(|i| i.word(problems, PICK)).unwrap_or(Pick::InTurn)
}

impl<'a> Requests<'a> {
    /// The target and what all requests have in common.
    pub(super) fn common(&mut self, top: &mut Section<'a>) {
        if let Some(item) = top.take("endpoints") {
            self.listed = true;
            let items = item.list(&mut self.problems, "a list of endpoints");
            for item in items.into_iter().flatten() {
                let endpoint = self.listed_endpoint(item);
                self.endpoints.extend(endpoint);
            }
        }
        if let Some(item) = top.take("url") {
            let parse = |text: &str| Url::parse(text).map_err(|e| e.to_string());
            let text = item.string(&mut self.problems, "a URL");
            let url = text.and_then(|_| item.parse(&mut self.problems, "a URL", parse));
            self.common.url = url;
            if self.listed {
                let what = "`url` and `endpoints` exclude each other; leave one out";
                self.problems.add(item.at, what);
            }
        }
        self.common.host = top.take("host").and_then(|item| self.host(item)).map(Into::into);
        self.own_headers(top);
        let bare = top.take("bare").and_then(|item| item.boolean(&mut self.problems));
        self.common.bare = bare.unwrap_or(false);
    }

    /// The headers of all requests and the names that some have, after those of a command line.
    pub(super) fn own_headers(&mut self, top: &mut Section<'a>) {
        if let Some(item) = top.take("names") {
            let names = item.list(&mut self.problems, "a list of names").into_iter().flatten();
            for name in names {
                if let Some(name) = name.string(&mut self.problems, "a name") {
                    self.names.intern(name);
                }
            }
        }
        if let Some(item) = top.take("headers") {
            let headers = self.headers(item);
            let own = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
            let kept = self.common.headers.iter().filter(|(name, _)| !own(name)).cloned();
            self.common.headers = kept.chain(headers.iter().cloned()).collect();
        }
    }

    pub(super) fn load(
        &mut self,
        top: &mut Section<'a>,
        sessions: bool,
        around: &Surroundings,
        cap: &mut Option<String>,
    ) -> Option<Load> {
        let problems = &mut self.problems;
        let connections = top.take("connections");
        let users = top.take("users");
        let rate = top.take("rate");
        let think = top.take("think");
        let arrivals = top.take("arrivals");
        let open = rate.or(arrivals);
        if let (Some(open), Some(other)) = (open, think.or(users)) {
            let why = format!(
                "`{}` belongs to a closed loop, and `{}` makes the loop an open one; leave one out",
                other.key, open.key
            );
            problems.add(other.at, why);
        }
        if let (Some(users), Some(_)) = (users, connections) {
            let why = "`users` and `connections` of a closed loop are the same; leave one out";
            problems.add(users.at, why);
        }
        if let Some(users) = users.filter(|_| !sessions) {
            problems.add(users.at, "`users` needs sessions; write `connections` instead");
        }
        let connections =
            users.or(connections).and_then(|i| i.parse(problems, NUMBER, values::connections));
        if open.is_none() {
            let think = think.and_then(|i| i.parse(problems, TIME, values::think));
            let connections = connections.unwrap_or(cli::CONNECTIONS);
            return Some(Load::Closed { connections, think: think.unwrap_or(Think::None) });
        }
        let read = rate.and_then(|i| i.parse(problems, "a rate, as \"20k\"", values::rate_plan));
        let law = match arrivals {
            Some(item) => self.arrivals(item)?,
            None => Arrivals::Fixed,
        };
        self.check_rate(rate, arrivals, &law);
        let connections = connections.unwrap_or_else(|| cli::most_connections(around, cap));
        Some(Load::Open { rate: read.unwrap_or_default(), arrivals: law, connections })
    }

    /// Whether rate and law of arrivals go together.
    fn check_rate(&mut self, rate: Option<Item<'_>>, arrivals: Option<Item<'_>>, law: &Arrivals) {
        let needs_rate = matches!(law, Arrivals::Fixed | Arrivals::Poisson);
        match (rate, arrivals) {
            (Some(rate), Some(_)) if !needs_rate => {
                let why = "`arrivals` says the rate as well; leave `rate` out";
                self.problems.add(rate.at, why);
            }
            (None, Some(arrivals)) if needs_rate => {
                let why = "`arrivals` says how arrivals fall, but not how many; add `rate`";
                self.problems.add(arrivals.at, why);
            }
            _ => {}
        }
    }

    fn arrivals(&mut self, item: Item<'a>) -> Option<Arrivals> {
        let problems = &mut self.problems;
        if let DeValue::Array(_) = item.value {
            let times: Vec<_> = item.list(problems, ARRIVALS)?.collect();
            let at: Vec<_> = times.iter().map(|time| time.at).collect();
            // All are read, so that everything that is wrong is told.
            let times: Vec<_> =
                times.into_iter().map(|time| time.parse(problems, TIME, values::span)).collect();
            let times: Arc<[Span]> = times.into_iter().collect::<Option<_>>()?;
            if let Some(early) = times.windows(2).position(|pair| pair[0] > pair[1]) {
                let what = format!("{} is earlier than the time before it", times[early + 1]);
                problems.add(at[early + 1], what);
            }
            return Some(Arrivals::Trace(times));
        }
        match item.parse(problems, ARRIVALS, values::arrivals)? {
            ArrivalsArg::Law(law) => Some(law),
            ArrivalsArg::TraceFile(file) => self.trace(item, &file),
        }
    }

    fn trace(&mut self, item: Item<'a>, file: &str) -> Option<Arrivals> {
        let (name, bytes) = self.file(item, file)?;
        let trace = match String::from_utf8(bytes) {
            Ok(text) => schedule::parse_trace(&text).map_err(|e| e.to_string()),
            Err(_) => Err("this is not UTF-8 text".into()),
        };
        let wrong = |why| self.problems.add(item.at, format!("`arrivals`: {name}: {why}"));
        trace.map_err(wrong).ok()
    }

    /// The stop rules; 10 s where neither they nor the load itself end the run.
    pub(super) fn stop(
        &mut self,
        top: &mut Section<'a>,
        sessions: bool,
        load: Option<&Load>,
    ) -> Stop {
        let problems = &mut self.problems;
        let requests =
            top.take("requests").and_then(|i| i.parse(problems, NUMBER, values::positive));
        // Without sessions the key has been refused already.
        let wanted = top.take("sessions").filter(|_| sessions);
        let sessions = wanted.and_then(|i| i.parse(problems, NUMBER, values::positive));
        let duration =
            top.take("duration").and_then(|i| i.parse(problems, TIME, values::positive_span));
        let stop = Stop { requests, sessions, duration };
        match load {
            Some(load) => cli::ended(stop, load, cli::DURATION),
            None => stop,
        }
    }

    /// How connections are used, and for how long something is waited for.
    pub(super) fn limits(&mut self, top: &mut Section<'a>) -> Limits {
        let problems = &mut self.problems;
        let mut span = |key, default, parse: fn(&str) -> Result<Span, String>| {
            let given = top.take(key).and_then(|i| i.parse(problems, TIME, parse));
            given.unwrap_or(default)
        };
        let warmup = span("warmup", Span::ZERO, values::span);
        let timeout = span("timeout", Span::from_secs(30), values::positive_span);
        let connect_timeout = span("connect-timeout", Span::from_secs(5), values::positive_span);
        let from = top.take("timeout-from").and_then(|i| i.word(problems, TIMEOUT_FROM));
        let replace_lost = top.take("replace-lost").and_then(|i| i.boolean(problems));
        let pipeline =
            top.take("pipeline").and_then(|i| i.parse(problems, NUMBER, values::pipeline));
        let requests_per_connection = top
            .take("requests-per-connection")
            .and_then(|i| i.parse(problems, NUMBER, values::per_connection));
        let http = top.take("http").and_then(|i| i.word(problems, HTTP));
        Limits {
            warmup,
            pipeline: pipeline.unwrap_or(1),
            requests_per_connection,
            timeout,
            timeout_from_send: from.unwrap_or(false),
            replace_lost: replace_lost.unwrap_or(false),
            connect_timeout,
            http: http.unwrap_or(HttpVersion::Http11),
        }
    }

    pub(super) fn seed(&mut self, top: &mut Section<'a>) -> Option<u64> {
        top.take("seed").and_then(|i| i.parse(&mut self.problems, "a whole number", values::seed))
    }

    /// `{ index = 0, of = 4 }`.
    pub(super) fn shard(&mut self, top: &mut Section<'a>) -> Shard {
        let Some(item) = top.take("shard") else { return Shard::WHOLE };
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "{ index = 0, of = 4 }");
            return Shard::WHOLE;
        };
        let mut section = Section::new("a share", item.at, table);
        let mut number = |key| {
            section.take(key).and_then(|i| i.parse(&mut self.problems, NUMBER, values::number))
        };
        let (index, of) = (number("index").unwrap_or(0), number("of").unwrap_or(1));
        section.finish(&mut self.problems);
        Shard { index, of }
    }

    /// `connect-to` and `unix-socket`: where the bytes go instead.
    pub(super) fn redirect(&mut self, top: &mut Section<'a>) {
        let (unix, tcp) = (top.take("unix-socket"), top.take("connect-to"));
        if let (Some(unix), Some(_)) = (unix, tcp) {
            let what = "`unix-socket` and `connect-to` exclude each other; leave one out";
            self.problems.add(unix.at, what);
        }
        if let Some(item) = unix.or(tcp).filter(|_| self.listed) {
            let what = format!("`{}` and `endpoints` exclude each other; leave one out", item.key);
            self.problems.add(item.at, what);
        }
        let problems = &mut self.problems;
        let unix = unix.and_then(|i| i.string(problems, "a path")).map(str::to_owned);
        let to =
            tcp.and_then(|i| i.parse(problems, "\"HOST:PORT\"", |text| text.parse::<ConnectTo>()));
        if unix.is_none() && to.is_none() {
            return;
        }
        let endpoints = std::mem::take(&mut self.endpoints);
        let (moved, indices) = cli::moved(endpoints, unix.as_deref(), to.as_ref());
        self.endpoints = moved;
        self.calls.for_each_mut(|call| call.endpoint = indices[call.endpoint as usize]);
    }
}

/// The load in a few words.
pub(super) fn summary(load: &Load) -> String {
    match load {
        Load::Closed { connections, think: Think::None } => {
            format!("closed loop of {connections}")
        }
        Load::Closed { connections, think } => {
            format!("closed loop of {connections}, think {think}")
        }
        Load::Open { rate, arrivals: law @ (Arrivals::Fixed | Arrivals::Poisson), .. } => {
            format!("open loop, {}/s, {law}", rate.to_string().trim_end_matches("/s"))
        }
        Load::Open { arrivals, .. } => format!("open loop, {arrivals}"),
    }
}
