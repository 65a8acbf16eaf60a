//! The checks of a plan, compiled: which parts of a reply they need, and what they say of it.

use memchr::memmem;
use regex_automata::meta::Regex;
use serde_json::Value;

use super::Capture;
use crate::plan::{self, Condition, Order, Plan, Subject, TextTest};
use crate::vars::{Body, expression};

/// The compiled checks of a plan.
#[derive(Clone, Debug)]
pub struct Checker {
    tests: Vec<Test>,
    /// Which checks the replies to each call get.
    calls: Vec<Call>,
}

/// A reply, without its headers and its body.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Its status.
    pub status: u16,
    /// The length of its body as transferred, in bytes.
    pub length: u64,
    /// Its response time, in nanoseconds.
    pub time: u64,
}

#[derive(Clone, Debug)]
struct Call {
    tests: Box<[u32]>,
    /// The text that its body must contain after decoding.
    text: Option<Vec<u8>>,
    headers: bool,
    body: bool,
}

#[derive(Clone, Debug)]
struct Test {
    subject: Subject,
    must: Must,
}

#[derive(Clone, Debug)]
enum Must {
    BePresent,
    HaveStatus(Vec<(u16, u16)>, bool),
    Have(Order, f64),
    BeWithin(f64, f64),
    Be(TextMatch, bool),
}

#[derive(Clone, Debug)]
enum TextMatch {
    Equals(String),
    Contains(Vec<u8>),
    Matches(Regex),
}

impl Checker {
    /// Compile the checks of a plan. `None`: it has none, and expects no text in bodies that may be
    /// encoded.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Option<Self> {
        let is_encoded = |spec: &plan::CallSpec| spec.encoded_text(plan).is_some();
        if plan.checks.is_empty() && !plan.calls.iter().any(is_encoded) {
            return None;
        }
        let tests: Vec<Test> = plan.checks.list.iter().map(Test::new).collect();
        let call = |spec: &plan::CallSpec| {
            let all = (0..plan.checks.of_all).chain(spec.checks.iter().copied());
            let own: Box<[u32]> = all.collect();
            let has =
                |is: fn(&Subject) -> bool| own.iter().any(|&i| is(&tests[i as usize].subject));
            let text = spec.encoded_text(plan).map(<[u8]>::to_vec);
            let looks = has(|s| matches!(s, Subject::Json(_) | Subject::Body));
            let body = looks || text.is_some();
            // How a body is encoded is in a header.
            let headers = body || has(|s| matches!(s, Subject::Header(_)));
            Call { headers, body, text, tests: own }
        };
        Some(Self { calls: plan.calls.iter().map(call).collect(), tests })
    }

    /// How many checks there are.
    pub fn count(&self) -> usize {
        self.tests.len()
    }

    /// Whether the headers of the reply to a call are needed.
    #[inline]
    pub fn wants_headers(&self, call: u32) -> bool {
        self.calls[call as usize].headers
    }

    /// Whether the body of the reply to a call is needed.
    #[inline]
    pub fn wants_body(&self, call: u32) -> bool {
        self.calls[call as usize].body
    }

    /// Handle a header of the reply to `call`.
    pub fn header(&self, capture: &mut Capture, call: u32, name: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        if self.wants_body(call) {
            capture.encoding(name, value);
        }
        for &index in &self.calls[call as usize].tests {
            let Test { subject: Subject::Header(wanted), must } = &self.tests[index as usize]
            else {
                continue;
            };
            if name.eq_ignore_ascii_case(wanted.as_bytes()) {
                let matches = match must {
                    Must::Be(text, _) => text.matches(value),
                    _ => true,
                };
                capture.note(index, matches);
            }
        }
    }

    /// Whether the body of a complete reply to `call` contains the text that it must contain.
    pub fn finds_text(&self, call: u32, capture: Option<&mut Capture>) -> bool {
        let Some(text) = &self.calls[call as usize].text else { return true };
        let Some(capture) = capture else { return text.is_empty() };
        capture.decode() && memmem::find(capture.searched(), text).is_some()
    }

    /// Give the result of each check of a complete reply to `call`, with the index of the check:
    /// whether the reply passes; `None` if its body could not be read.
    pub fn judge(
        &self,
        call: u32,
        capture: Option<&mut Capture>,
        reply: Figures,
        mut give: impl FnMut(u32, Option<bool>),
    ) {
        let mut nothing = Capture::default();
        let capture = capture.unwrap_or(&mut nothing);
        let Call { tests, body: wants_body, .. } = &self.calls[call as usize];
        let is_readable = !wants_body || capture.decode();
        let mut body = Body::new(capture.searched());
        for &index in tests {
            let Test { subject, must } = &self.tests[index as usize];
            let passed = match subject {
                Subject::Status => Some(must.holds(f64::from(reply.status))),
                Subject::Length => Some(must.holds(reply.length as f64)),
                Subject::Time => Some(must.holds(reply.time as f64)),
                Subject::Header(_) => {
                    let matches = capture.noted(index);
                    Some(matches.is_some_and(|matches| must.holds_for_match(matches)))
                }
                Subject::Json(_) | Subject::Body if !is_readable => None,
                Subject::Json(pointer) => {
                    Some(body.value(pointer).is_some_and(|value| must.holds_for_value(value)))
                }
                Subject::Body => Some(match must {
                    Must::Be(text, _) => must.holds_for_match(text.matches(body.bytes)),
                    _ => true,
                }),
            };
            give(index, passed);
        }
    }
}

impl Test {
    fn new(check: &plan::Check) -> Self {
        let must = match &check.condition {
            Condition::Present => Must::BePresent,
            Condition::Statuses(ranges, negated) => Must::HaveStatus(ranges.clone(), *negated),
            Condition::Number(order, limit) => Must::Have(*order, *limit),
            Condition::Within(low, high) => Must::BeWithin(*low, *high),
            Condition::Text(test, text, negated) => Must::Be(TextMatch::new(*test, text), *negated),
        };
        Self { subject: check.subject.clone(), must }
    }
}

impl Must {
    fn holds(&self, number: f64) -> bool {
        match self {
            Self::HaveStatus(ranges, negated) => {
                let is_in = |&(low, high): &(u16, u16)| {
                    (f64::from(low)..=f64::from(high)).contains(&number)
                };
                ranges.iter().any(is_in) != *negated
            }
            Self::Have(order, limit) => order.holds(number, *limit),
            Self::BeWithin(low, high) => (*low..=*high).contains(&number),
            Self::BePresent | Self::Be(..) => true,
        }
    }

    fn holds_for_match(&self, matches: bool) -> bool {
        match self {
            Self::Be(_, negated) => matches != *negated,
            _ => true,
        }
    }

    fn holds_for_value(&self, value: &Value) -> bool {
        match self {
            Self::BePresent => !value.is_null(),
            Self::Be(text, negated) => text.matches_value(value) != *negated,
            _ => value.as_f64().is_some_and(|number| self.holds(number)),
        }
    }
}

impl TextMatch {
    fn new(test: TextTest, text: &str) -> Self {
        match test {
            TextTest::Equals => Self::Equals(text.to_owned()),
            TextTest::Contains => Self::Contains(text.as_bytes().to_vec()),
            TextTest::Matches => Self::Matches(expression(text).expect("a checked expression")),
        }
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Equals(wanted) => text == wanted.as_bytes(),
            Self::Contains(wanted) => memmem::find(text, wanted).is_some(),
            Self::Matches(regex) => regex.is_match(text),
        }
    }

    /// The same for a JSON value: a string without its quotes; a number equals one that is written
    /// differently.
    fn matches_value(&self, value: &Value) -> bool {
        match (value, self) {
            (Value::String(text), _) => self.matches(text.as_bytes()),
            (Value::Number(number), Self::Equals(wanted)) => {
                let wanted: Option<f64> = wanted.parse().ok();
                number.as_f64().zip(wanted).is_some_and(|(number, wanted)| number == wanted)
            }
            (other, _) => self.matches(other.to_string().as_bytes()),
        }
    }
}
