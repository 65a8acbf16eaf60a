//! An exchange as a block of text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use prony_base::fault::Fault;
use prony_base::plain;
use prony_base::secret::{HIDDEN, shown_path};
use prony_base::units::Span;
use prony_core::engine::EndedRequest;
use prony_plan::plan::{CallSpec, Plan, SocketStep, status_text};
use prony_proto::proto::Reply;
use prony_report::redact::may_repeat_secret;
use prony_report::{units, words};
use prony_tally::record::Stamps;

/// How many bytes of a body are shown.
const BODY_MAX: usize = 200;
/// How many characters of a value are shown.
const VALUE_MAX: usize = 100;

/// An exchange that has not ended.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The index of its request in the plan.
    pub(super) call: u32,
    /// The first line of its request; `None` if it is not of HTTP, or was not sent.
    line: Option<String>,
    /// How often it was sent again.
    pub(super) again: u32,
    body: Vec<u8>,
    body_bytes: u64,
}

/// How it ended.
#[derive(Debug, Default)]
pub(super) struct Result {
    pub(super) fault: Option<Fault>,
    /// The trace ended before it did.
    pub(super) is_unfinished: bool,
    stamps: Option<Stamps>,
    was_sent: bool,
    reply: Option<Reply>,
    /// What was extracted, in the order of the plan; `None`: nothing was found.
    pub(super) values: Vec<Option<String>>,
    /// The checks that it has failed.
    pub(super) checks: Vec<String>,
}

impl Result {
    pub(super) fn of(request: &EndedRequest) -> Self {
        Self {
            fault: request.fault,
            stamps: Some(request.stamps),
            was_sent: request.was_sent,
            reply: request.reply,
            ..Self::default()
        }
    }

    pub(super) fn unfinished() -> Self {
        Self { is_unfinished: true, ..Self::default() }
    }
}

impl Exchange {
    pub(super) fn new(call: u32, line: Option<String>, again: u32) -> Self {
        Self { call, line, again, ..Self::default() }
    }

    /// A piece of the body of its reply.
    pub(super) fn body(&mut self, piece: &[u8]) {
        let room = BODY_MAX - self.body.len();
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
        self.body_bytes += piece.len() as u64;
    }

    /// The lines about it, with an empty one at the end. Possible secrets are hidden, and the
    /// values `hidden`; `None`: nothing is.
    pub(super) fn block(
        &self,
        number: u64,
        ended: &Result,
        plan: &Plan,
        hidden: Option<&BTreeSet<String>>,
    ) -> String {
        let call = &plan.calls[self.call as usize];
        let name = call.name.and_then(|name| plan.names.get(name as usize));
        let mut lines =
            vec![format!("#{number}{}", name.map_or_else(String::new, |n| format!(" {n}")))];
        lines.push(format!("> {}", self.request(call, plan, hidden)));
        if self.again > 0 {
            let times = units::counted(self.again.into(), "time", "times");
            lines.push(format!("  sent again {times}: only the last reply is shown"));
        }
        lines.push(format!("< {}", answer(ended)));
        for (extract, value) in call.extract.iter().zip(&ended.values) {
            let text = match value {
                None => "not found".to_owned(),
                Some(value) if hidden.is_none() => quoted(value, VALUE_MAX),
                Some(value) => {
                    let length = value.chars().count() as u64;
                    format!("{HIDDEN}, {}", units::counted(length, "character", "characters"))
                }
            };
            lines.push(format!("  {} = {text}", extract.variable));
        }
        lines.extend(ended.checks.iter().map(|check| format!("  failed check: {check}")));
        if let Some(fault) = ended.fault.filter(|_| ended.reply.is_some()) {
            lines.push(format!("  {}: {}", words::name(fault), words::meaning(fault, plan)));
        }
        lines.extend(self.shown_body(call, plan, hidden));
        lines.iter().fold(String::new(), |mut block, line| {
            let _ = writeln!(block, "{}", plain::line(line));
            block
        }) + "\n"
    }

    /// The first line of the request, and where it goes if there are several targets.
    fn request(&self, call: &CallSpec, plan: &Plan, hidden: Option<&BTreeSet<String>>) -> String {
        let shown = |line: &str| {
            // A path may have blanks.
            let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
            let version = rest.rfind(" HTTP/").unwrap_or(rest.len());
            let (path, version) = rest.split_at(version);
            let path = match hidden {
                None => path.into(),
                // The template has the name of the value.
                Some(hidden) if repeats(path, hidden) => shown_path(&call.path),
                Some(_) => shown_path(path),
            };
            format!("{method} {path}{version}").trim_end().to_owned()
        };
        let line = match (&self.line, &call.socket) {
            (Some(line), _) => shown(line),
            (None, Some(step)) => step_text(step).to_owned(),
            (None, None) => shown(&format!("{} {}", call.method, call.path)),
        };
        match plan.endpoints.len() {
            0 | 1 => line,
            _ => format!("{line} to {}", call.authority),
        }
    }

    /// The start of the body. It is hidden where it may have a secret: of the request, or one that
    /// the plan extracts.
    fn shown_body(
        &self,
        call: &CallSpec,
        plan: &Plan,
        hidden: Option<&BTreeSet<String>>,
    ) -> Option<String> {
        if self.body.is_empty() {
            return None;
        }
        let text = match std::str::from_utf8(&self.body) {
            Ok(text) => text.to_owned(),
            // The last character may be cut.
            Err(e) if e.error_len().is_none() => {
                String::from_utf8_lossy(&self.body[..e.valid_up_to()]).into_owned()
            }
            Err(_) => self.body.escape_ascii().to_string(),
        };
        let is_secret = |hidden| {
            !call.extract.is_empty()
                || repeats(&text, hidden)
                || may_repeat_secret(plan, &plan.size(), &text)
        };
        if hidden.is_some_and(is_secret) {
            return Some(format!("  {HIDDEN} (--show-secrets shows it)"));
        }
        let more = if self.body_bytes > self.body.len() as u64 { "..." } else { "" };
        Some(format!("  {}{more}", text.replace("\r\n", "\n").replace('\n', "\\n")))
    }
}

/// Whether a text has one of these values, the start of one at its end, or one in the escapes of
/// URLs.
fn repeats(text: &str, values: &BTreeSet<String>) -> bool {
    let starts = |value: &str| {
        let ends = value.char_indices().skip(1).map(|(at, _)| &value[..at]);
        ends.filter(|start| start.len() >= super::VALUE_MIN).any(|start| text.ends_with(start))
    };
    let escaped = |value: &str| {
        let same = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        let byte = |b: u8| if same(b) { char::from(b).into() } else { format!("%{b:02X}") };
        value.bytes().map(byte).collect::<String>()
    };
    values.iter().any(|v| text.contains(v.as_str()) || starts(v) || text.contains(&escaped(v)))
}

/// The status, the times and the size of the reply, or why there is none.
fn answer(ended: &Result) -> String {
    let Some(stamps) = ended.stamps else {
        return "no reply before the end of the trace".to_owned();
    };
    let took = units::span(stamps.response());
    let Some(reply) = ended.reply else {
        let fault = ended.fault.unwrap_or(Fault::Internal);
        let (name, why) = (words::name(fault), words::sentence(fault));
        let what = if ended.was_sent { "no reply" } else { "not sent" };
        return format!("{what} after {took}: {name}: {why}");
    };
    let mut times = Vec::new();
    if stamps.connect > Span::ZERO {
        times.push(format!("connected in {}", units::span(stamps.connect)));
    }
    times.push(format!("first byte after {}", units::span(stamps.first.since(stamps.intended))));
    let size = units::counted(reply.body_bytes, "byte", "bytes");
    let status = status_text(reply.status);
    format!("{status} after {took} ({}), body of {size}", times.join(", "))
}

fn step_text(step: &SocketStep) -> &'static str {
    match step {
        SocketStep::Open { .. } => "WebSocket: open",
        SocketStep::Send { wait: Some(_), .. } => "WebSocket: send a message, and wait for one",
        SocketStep::Send { wait: None, .. } => "WebSocket: send a message",
        SocketStep::Wait(_) => "WebSocket: wait for a message",
        SocketStep::Close { .. } => "WebSocket: close",
    }
}

/// A value on one line, shortened.
fn quoted(value: &str, most: usize) -> String {
    let start: String = value.chars().take(most).collect();
    let more = if value.chars().count() > most { "..." } else { "" };
    format!("{start}{more}")
}
