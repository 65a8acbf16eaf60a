//! The load of a plan file: rates, stop rules and limits.

use std::fmt::Write as _;
use std::sync::Arc;

use prony_base::units::Span;
use prony_io::ConnectTo;
use prony_plan::plan::{Load, Pick, Plan, Shard, Stop, Think};
use prony_plan::schedule::{self, Arrivals, ArrivalsArg};
use prony_plan::target::Url;
use prony_plan::threshold::Threshold;
use toml::de::DeValue;

use super::counted;
use super::reader::{Item, Problems, Section};
use super::requests::Requests;
use super::words::{HTTP, PICK, TIMEOUT_FROM};
use super::written::{integer, line, quoted, trace};
use crate::builder::{Draft, Instead, LoadDraft, is_rate};
use crate::values;

const TIME: &str = "a time, as \"1m30s\"";
const NUMBER: &str = "a number";
const THRESHOLDS: &str = "a list of thresholds, as [\"p99 < 200ms\"]";
const THRESHOLD: &str = "a threshold, as \"p99 < 200ms\"";
const ARRIVALS: &str = "\"fixed\", \"poisson\", \"gamma:SHAPE\", \"uniform:LOW:HIGH\", \"trace:FILE\" or an array of times";

/// Reads how to choose the next request, in a plan without sessions.
pub(super) fn pick(top: &mut Section<'_>, problems: &mut Problems<'_>) -> Pick {
    let item = top.take("pick").filter(|_| !top.has("session"));
    item.and_then(|i| i.word(problems, PICK)).unwrap_or(Pick::InTurn)
}

impl<'a> Requests<'a> {
    /// Reads the target and the common parts of all requests.
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
                let what = "`url` and `endpoints` exclude each other; omit one of them";
                self.problems.add(item.at, what);
            }
        }
        self.common.host = top.take("host").and_then(|item| self.host(item)).map(Into::into);
        self.own_headers(top);
        let bare = top.take("bare").and_then(|item| item.boolean(&mut self.problems));
        self.common.bare = bare.unwrap_or(false);
    }

    /// Reads the names and the common headers of requests, which replace those of the command line.
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

    /// What the run's figures must be.
    pub(super) fn thresholds(&mut self, top: &mut Section<'a>) -> Vec<Threshold> {
        let Some(item) = top.take("thresholds") else { return Vec::new() };
        let items = item.list(&mut self.problems, THRESHOLDS).into_iter().flatten();
        let each = items.filter_map(|item| {
            let text = item.string(&mut self.problems, THRESHOLD)?;
            let read: Result<Threshold, String> = text.parse();
            read.map_err(|why| self.problems.add(item.at, why)).ok()
        });
        each.collect()
    }

    pub(super) fn load(&mut self, top: &mut Section<'a>, sessions: bool) -> LoadDraft {
        let problems = &mut self.problems;
        let connections = top.take("connections");
        let users = top.take("users");
        let rate = top.take("rate");
        let think = top.take("think");
        let ramp_up = top.take("ramp-up");
        let arrivals = top.take("arrivals");
        let open = rate.or(arrivals);
        if let (Some(open), Some(other)) = (open, think.or(users).or(ramp_up)) {
            let why = format!(
                "`{}` belongs to a closed loop, and `{}` makes the loop an open one; omit one of them",
                other.key, open.key
            );
            problems.add(other.at, why);
        }
        if let (Some(users), Some(_)) = (users, connections) {
            let why = "`users` and `connections` of a closed loop are the same; omit one of them";
            problems.add(users.at, why);
        }
        if let Some(users) = users.filter(|_| !sessions) {
            problems.add(users.at, "`users` needs sessions; write `connections` instead");
        }
        let connections =
            users.or(connections).and_then(|i| i.parse(problems, NUMBER, values::connections));
        if open.is_none() {
            let think = think.and_then(|i| i.parse(problems, TIME, values::think));
            let ramp_up = ramp_up.and_then(|i| i.parse(problems, TIME, values::span));
            return LoadDraft { connections, think, ramp_up, ..LoadDraft::default() };
        }
        let read = rate.and_then(|i| i.parse(problems, "a rate, as \"20k\"", values::rate_plan));
        let drawn = arrivals.map(|item| self.arrivals(item));
        // Invalid arrivals are already reported.
        if let Some(drawn) = drawn.as_ref().map_or(Some(&Arrivals::Fixed), Option::as_ref) {
            self.check_rate(rate, arrivals, drawn);
        }
        LoadDraft { connections, rate: read, arrivals: drawn.flatten(), ..LoadDraft::default() }
    }

    /// Check that rate and arrival process are compatible.
    fn check_rate(
        &mut self,
        rate: Option<Item<'_>>,
        arrivals: Option<Item<'_>>,
        process: &Arrivals,
    ) {
        let needs_rate = !is_rate(process);
        match (rate, arrivals) {
            (Some(rate), Some(_)) if !needs_rate => {
                let why = "`arrivals` also sets the rate; omit `rate`";
                self.problems.add(rate.at, why);
            }
            (None, Some(arrivals)) if needs_rate => {
                let why = "`arrivals` needs a rate; add `rate`";
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
            // Read all of them, to report all errors.
            let times: Vec<_> =
                times.into_iter().map(|time| time.parse(problems, TIME, values::span)).collect();
            let times: Arc<[Span]> = times.into_iter().collect::<Option<_>>()?;
            if let Some(early) = times.windows(2).position(|pair| pair[0] > pair[1]) {
                let what = format!("{} is earlier than the previous time", times[early + 1]);
                problems.add(at[early + 1], what);
            }
            return Some(Arrivals::Trace(times));
        }
        match item.parse(problems, ARRIVALS, values::arrivals)? {
            ArrivalsArg::Process(process) => Some(process),
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

    /// Reads the stop rules.
    pub(super) fn stop(&mut self, top: &mut Section<'a>, sessions: bool) -> Stop {
        let problems = &mut self.problems;
        let requests =
            top.take("requests").and_then(|i| i.parse(problems, NUMBER, values::positive));
        // Without sessions, the key is already reported.
        let wanted = top.take("sessions").filter(|_| sessions);
        let sessions = wanted.and_then(|i| i.parse(problems, NUMBER, values::positive));
        let duration =
            top.take("duration").and_then(|i| i.parse(problems, TIME, values::positive_span));
        Stop { requests, sessions, duration }
    }

    /// Reads the timeouts and the use of connections.
    pub(super) fn limits(&mut self, top: &mut Section<'a>, draft: &mut Draft) {
        let problems = &mut self.problems;
        let mut span = |key, parse: fn(&str) -> Result<Span, String>| {
            top.take(key).and_then(|i| i.parse(problems, TIME, parse))
        };
        draft.warmup = span("warmup", values::span);
        draft.timeout = span("timeout", values::positive_span);
        draft.connect_timeout = span("connect-timeout", values::positive_span);
        let from = top.take("timeout-from").and_then(|i| i.word(problems, TIMEOUT_FROM));
        draft.timeout_from_send = from.unwrap_or(false);
        let replace_lost = top.take("replace-lost").and_then(|i| i.boolean(problems));
        draft.replace_lost = replace_lost.unwrap_or(false);
        draft.pipeline =
            top.take("pipeline").and_then(|i| i.parse(problems, NUMBER, values::pipeline));
        draft.requests_per_connection = top
            .take("requests-per-connection")
            .and_then(|i| i.parse(problems, NUMBER, values::per_connection));
        draft.http = top.take("http").and_then(|i| i.word(problems, HTTP));
    }

    pub(super) fn seed(&mut self, top: &mut Section<'a>) -> Option<u64> {
        top.take("seed").and_then(|i| i.parse(&mut self.problems, "a whole number", values::seed))
    }

    /// Reads the share of a plan: `{ index = 0, of = 4 }`.
    pub(super) fn shard(&mut self, top: &mut Section<'a>) -> Option<Shard> {
        let item = top.take("shard")?;
        let DeValue::Table(table) = item.value else {
            item.wrong_type(&mut self.problems, "{ index = 0, of = 4 }");
            return None;
        };
        let mut section = Section::new("a share", item.at, table);
        let mut number = |key| {
            section.take(key).and_then(|i| i.parse(&mut self.problems, NUMBER, values::number))
        };
        let (index, of) = (number("index").unwrap_or(0), number("of").unwrap_or(1));
        section.finish(&mut self.problems);
        Some(Shard { index, of })
    }

    /// Reads the address that replaces the endpoints: `connect-to` or `unix-socket`.
    pub(super) fn redirect(&mut self, top: &mut Section<'a>) -> Option<Instead> {
        let (unix, tcp) = (top.take("unix-socket"), top.take("connect-to"));
        if let (Some(unix), Some(_)) = (unix, tcp) {
            let what = "`unix-socket` and `connect-to` exclude each other; omit one of them";
            self.problems.add(unix.at, what);
        }
        if let Some(item) = unix.or(tcp).filter(|_| self.listed) {
            let what =
                format!("`{}` and `endpoints` exclude each other; omit one of them", item.key);
            self.problems.add(item.at, what);
        }
        let problems = &mut self.problems;
        let unix = unix.and_then(|i| i.string(problems, "a path"));
        let to =
            tcp.and_then(|i| i.parse(problems, "\"HOST:PORT\"", |text| text.parse::<ConnectTo>()));
        unix.map(|path| Instead::Unix(path.to_owned())).or_else(|| to.map(Instead::Tcp))
    }
}

/// Summarizes the load.
pub(super) fn summary(plan: &Plan) -> String {
    let of = if plan.sessions.is_some() { "user" } else { "connection" };
    match &plan.load {
        Load::Closed { connections, think } => {
            let mut text = format!("closed loop of {}", counted((*connections).into(), of));
            if *think != Think::None {
                let _ = write!(text, ", think time {think}");
            }
            if let Some(ramp) = plan.ramp_up {
                let _ = write!(text, ", started over {ramp}");
            }
            text
        }
        Load::Open { rate, arrivals, .. } if arrivals.has_rate() => {
            format!("open loop, {}/s, {arrivals}", rate.to_string().trim_end_matches("/s"))
        }
        Load::Open { arrivals, .. } => format!("open loop, {arrivals}"),
    }
}

/// Writes the load: what a phase has of its own.
pub(super) fn write(plan: &Plan, out: &mut String) {
    match &plan.load {
        Load::Closed { connections, think } => {
            let key = if plan.sessions.is_some() { "users" } else { "connections" };
            line(out, key, connections);
            if *think != Think::None {
                line(out, "think", quoted(&think.to_string()));
            }
            if let Some(ramp) = plan.ramp_up {
                line(out, "ramp-up", quoted(&ramp.to_string()));
            }
        }
        Load::Open { rate, arrivals, connections } => {
            if arrivals.has_rate() {
                line(out, "rate", quoted(&rate.to_string()));
            }
            match arrivals {
                Arrivals::Fixed => {}
                Arrivals::Trace(times) => line(out, "arrivals", trace(times)),
                process => line(out, "arrivals", quoted(&process.to_string())),
            }
            line(out, "connections", connections);
        }
    }
    let stop = plan.stop;
    for (key, count) in [("requests", stop.requests), ("sessions", stop.sessions)] {
        if let Some(count) = count {
            line(out, key, integer(count));
        }
    }
    if let Some(duration) = stop.duration {
        line(out, "duration", quoted(&duration.to_string()));
    }
    if plan.warmup > Span::ZERO {
        line(out, "warmup", quoted(&plan.warmup.to_string()));
    }
}
