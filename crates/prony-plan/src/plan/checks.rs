//! Checks of replies: what they say, and their grammar. A failed check does not fail its request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Expect, Plan};
use crate::vars::check_expression;
use prony_base::units::{Span, parse_size};

/// The checks of a plan: first those of all requests, then those of single requests, in the order
/// of their first use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// All checks, each once.
    pub list: Vec<Check>,
    /// How many of them apply to all requests.
    pub of_all: u32,
}

/// A check of a reply, as `time < 200ms` or `logged in: body contains 'Welcome'`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Check {
    /// Its name, by which thresholds refer to it.
    pub name: Option<String>,
    /// The part of the reply.
    pub subject: Subject,
    /// What it must be.
    pub condition: Condition,
    /// The check as it was written, without its name.
    text: String,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The status.
    Status,
    /// The headers with this name.
    Header(String),
    /// The value in the body at this JSON pointer (RFC 6901).
    Json(String),
    /// The length of the body in bytes, as it was transferred.
    Length,
    /// The body, decoded.
    Body,
    /// The response time, in nanoseconds.
    Time,
}

/// What a part of a reply must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// It is there.
    Present,
    /// A status in one of these inclusive ranges, or in none.
    Statuses(Vec<(u16, u16)>, bool),
    /// A number in that order to the limit.
    Number(Order, f64),
    /// A number between the two, both included.
    Within(f64, f64),
    /// A text that passes the test, or does not.
    Text(TextTest, String, bool),
}

/// An order of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `=`
    Equal,
    /// `!=`
    Different,
}

/// A test of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTest {
    /// It is the same.
    Equals,
    /// It contains the other.
    Contains,
    /// A regular expression matches a part of it.
    Matches,
}

const FORM: &str = "write what is checked and what it must be, as in 'status = 200', \
                    'header Content-Type = application/json', 'json /items/0/id > 0', \
                    'length < 10k', 'body contains ok' or 'time < 200ms'";
const SUBJECTS: [&str; 6] = ["status", "header", "json", "length", "body", "time"];
const TEXT_FORM: &str = "write = TEXT, != TEXT, contains TEXT, matches 'REGEX', or the last two \
                         with not before them";
/// The longest first, so that none is taken for the beginning of another.
const ORDERS: [(&str, Order); 7] = [
    ("<=", Order::AtMost),
    (">=", Order::AtLeast),
    ("!=", Order::Different),
    ("==", Order::Equal),
    ("<", Order::Below),
    (">", Order::Above),
    ("=", Order::Equal),
];

impl Order {
    /// Whether the number has that order to the limit.
    pub fn holds(self, number: f64, limit: f64) -> bool {
        match self {
            Self::Below => number < limit,
            Self::AtMost => number <= limit,
            Self::Above => number > limit,
            Self::AtLeast => number >= limit,
            Self::Equal => number == limit,
            Self::Different => number != limit,
        }
    }
}

impl Checks {
    /// Checks of all requests.
    pub fn of_all(list: Vec<Check>) -> Self {
        let mut checks = Self::default();
        for check in list {
            checks.intern(check);
        }
        checks.of_all = checks.list.len() as u32;
        checks
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The index of the check, which is added if it is new.
    pub fn intern(&mut self, check: Check) -> u32 {
        let known = self.list.iter().position(|other| *other == check);
        known.unwrap_or_else(|| {
            self.list.push(check);
            self.list.len() - 1
        }) as u32
    }

    /// Whether two checks have the same name.
    ///
    /// # Errors
    /// They do: one sentence.
    pub fn check_names(&self) -> Result<(), String> {
        for (i, check) in self.list.iter().enumerate() {
            let same = |other: &&Check| other.name.is_some() && other.name == check.name;
            if let Some(other) = self.list[..i].iter().find(same) {
                return Err(format!(
                    "two checks have the name '{}': '{}' and '{}'; give one of them another name",
                    check.title(),
                    other.text,
                    check.text
                ));
            }
        }
        Ok(())
    }
}

impl Check {
    /// The name of the check in reports.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.text)
    }

    /// The check without its name.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Plan {
    /// Check whether the checks of replies can be made.
    pub(crate) fn check_checks(&self) -> Result<(), String> {
        let Checks { list, of_all } = &self.checks;
        if *of_all as usize > list.len() {
            return Err(format!("there are {} checks, and {of_all} of all requests", list.len()));
        }
        self.checks.check_names()?;
        if !list.is_empty() && (self.exchange.is_some() || self.websocket.is_some()) {
            return Err("only replies of HTTP can be checked (`checks`)".into());
        }
        let mut seen = *of_all;
        for (i, call) in self.calls.iter().enumerate() {
            for &check in call.checks.iter() {
                if check < *of_all || check > seen || check as usize >= list.len() {
                    return Err(format!(
                        "request {}: check {check} is not in the order of the checks",
                        i + 1
                    ));
                }
                seen = seen.max(check + 1);
            }
        }
        match list.get(seen as usize) {
            Some(unused) => Err(format!("no request has the check '{unused}'")),
            None => Ok(()),
        }
    }
}

impl FromStr for Check {
    type Err = String;

    /// # Errors
    /// One sentence that says what is wrong, and what to write instead.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let starts = |text: &str| SUBJECTS.contains(&word(text).0);
        let (name, text) = match text.split_once(':') {
            Some((name, rest)) if !starts(text) => (Some(name_of(name)?), rest.trim()),
            _ => (None, text),
        };
        let (subject, rest) = word(text);
        let rest = rest.trim();
        let (subject, condition) = match subject {
            "status" => (Subject::Status, status(rest)?),
            "header" => header(rest)?,
            "json" => json(rest)?,
            "length" => (Subject::Length, number("length", rest, size)?),
            "time" => (Subject::Time, number("time", rest, time)?),
            "body" => match text_condition(rest)? {
                Some(condition) => (Subject::Body, condition),
                None => return Err(format!("what must the body be? {TEXT_FORM}")),
            },
            _ => return Err(format!("'{text}' is not a check: {FORM}")),
        };
        Ok(Self { name, subject, condition, text: text.to_owned() })
    }
}

/// The letters at the start, and what follows them.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    text.split_at(end)
}

fn name_of(name: &str) -> Result<String, String> {
    let name = name.trim();
    let wrong = |c: char| c.is_control() || "<>=!,'\"".contains(c);
    if name.is_empty() || name.contains(wrong) {
        return Err(format!(
            "'{}' is not a name of a check; it must have no quotes and none of < > = ! ,",
            name.escape_debug()
        ));
    }
    Ok(name.to_owned())
}

/// The order at the start, and what follows it.
fn order(text: &str) -> Option<(Order, &str)> {
    let (sign, order) = ORDERS.into_iter().find(|(sign, _)| text.starts_with(sign))?;
    Some((order, text[sign.len()..].trim()))
}

fn status(text: &str) -> Result<Condition, String> {
    match order(text) {
        Some((order @ (Order::Equal | Order::Different), statuses)) => {
            let ranges = Expect::parse_statuses(statuses).map_err(|e| e.to_string())?;
            Ok(Condition::Statuses(ranges, order == Order::Different))
        }
        _ => number("status", text, |text| {
            let status: Option<u16> = text.parse().ok();
            let status = status.filter(|status| (100..=599).contains(status));
            status.map(f64::from).ok_or_else(|| format!("'{text}' is not a status from 100 to 599"))
        }),
    }
}

fn header(text: &str) -> Result<(Subject, Condition), String> {
    let end = text.find(|c: char| c.is_whitespace() || "<>=!".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err("which header? Write its name, as in 'header Content-Type = text/html'".into());
    }
    crate::target::check_header(name, "")?;
    let condition = text_condition(rest.trim())?.unwrap_or(Condition::Present);
    Ok((Subject::Header(name.to_owned()), condition))
}

fn json(text: &str) -> Result<(Subject, Condition), String> {
    let (pointer, rest) = match quoted_at_start(text)? {
        Some((pointer, rest)) => (pointer, rest),
        None => {
            let is_end = |c: char| c.is_whitespace() || "<>=!".contains(c);
            let end = text.find(is_end).unwrap_or(text.len());
            (&text[..end], &text[end..])
        }
    };
    if !(pointer.starts_with('/') || pointer.is_empty() && text.starts_with(['\'', '"'])) {
        return Err(format!(
            "'{pointer}' is not a JSON pointer: write '/' before each key or index, as in \
             '/items/0/id'"
        ));
    }
    let subject = Subject::Json(pointer.to_owned());
    let rest = rest.trim();
    let is_number = match order(rest) {
        Some((Order::Equal | Order::Different, _)) => false,
        Some(_) => true,
        None => word(rest).0 == "in",
    };
    let condition = match is_number {
        true => number(pointer, rest, |text| match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(format!("'{text}' is not a number")),
        })?,
        false => text_condition(rest)?.unwrap_or(Condition::Present),
    };
    Ok((subject, condition))
}

fn size(text: &str) -> Result<f64, String> {
    parse_size(text).map(|size| size as f64).map_err(|e| e.to_string())
}

fn time(text: &str) -> Result<f64, String> {
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(format!("the time '{text}' lacks its unit: write {text}ms"));
    }
    text.parse::<Span>().map(|span| span.0 as f64).map_err(|e| e.to_string())
}

/// `< 3`, `in 3..5`.
fn number(
    what: &str,
    text: &str,
    read: impl Fn(&str) -> Result<f64, String>,
) -> Result<Condition, String> {
    if let Some((order, limit)) = order(text) {
        return Ok(Condition::Number(order, read(limit)?));
    }
    let range = text.strip_prefix("in").filter(|rest| rest.starts_with(char::is_whitespace));
    let Some((low, high)) = range.and_then(|range| range.split_once("..")) else {
        return Err(format!("what must {what} be? Write {what} < LIMIT or {what} in LOW..HIGH"));
    };
    let (low, high) = (read(low.trim())?, read(high.trim())?);
    if low > high {
        return Err(format!("the range '{}' is in the wrong order", text[2..].trim()));
    }
    Ok(Condition::Within(low, high))
}

/// `= text`, `contains text`, `not matches 'regex'`. `None` if the text is empty.
fn text_condition(text: &str) -> Result<Option<Condition>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some((order, wanted)) = order(text) {
        let negated = match order {
            Order::Equal => false,
            Order::Different => true,
            _ => return Err(format!("'{text}': a text has no order; {TEXT_FORM}")),
        };
        return Ok(Some(Condition::Text(TextTest::Equals, unquoted(wanted)?, negated)));
    }
    let (negated, rest) = match word(text) {
        ("not", rest) => (true, rest.trim()),
        _ => (false, text),
    };
    let (test, wanted) = match word(rest) {
        ("contains", wanted) => (TextTest::Contains, wanted),
        ("matches", wanted) => (TextTest::Matches, wanted),
        _ => return Err(format!("'{text}' is not a condition for a text; {TEXT_FORM}")),
    };
    let wanted = unquoted(wanted.trim())?;
    if wanted.is_empty() {
        return Err(format!("'{text}' lacks its text; {TEXT_FORM}"));
    }
    if test == TextTest::Matches {
        check_expression(&wanted)?;
    }
    Ok(Some(Condition::Text(test, wanted, negated)))
}

/// A text between quotes, and what follows it; `None` without a quote at the start.
fn quoted_at_start(text: &str) -> Result<Option<(&str, &str)>, String> {
    let Some(quote) = text.chars().next().filter(|c| ['\'', '"'].contains(c)) else {
        return Ok(None);
    };
    match text[1..].split_once(quote) {
        Some(parts) => Ok(Some(parts)),
        None => Err(format!("{text} lacks its closing quote")),
    }
}

/// The text without the quotes around it, if it has some.
fn unquoted(text: &str) -> Result<String, String> {
    match quoted_at_start(text)? {
        Some((inside, "")) => Ok(inside.to_owned()),
        Some((_, rest)) => Err(format!("there is more text after the closing quote: '{rest}'")),
        None => Ok(text.to_owned()),
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        f.write_str(&self.text)
    }
}

impl From<Check> for String {
    fn from(check: Check) -> Self {
        check.to_string()
    }
}

impl TryFrom<String> for Check {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Check {
        text.parse().expect(text)
    }

    #[test]
    fn checks_are_read_back_as_they_are_written() {
        for text in [
            "status = 200",
            "status != 5xx,404",
            "status < 400",
            "header Content-Type = application/json",
            "header X-Cache",
            "header Link not contains 'rel=\"next\"'",
            "json /items/0/id > 0",
            "json /name matches '^a'",
            "json '/a b' in 1..2.5",
            "json '' != null",
            "length < 10k",
            "body matches 'ok'",
            "body matches '\\b(?i)zo\\w\\b'",
            "body not contains error",
            "time < 200ms",
            "logged in: body contains 'Welcome: you'",
        ] {
            let check = read(text);
            assert_eq!(check.to_string(), text);
            assert_eq!(read(&check.to_string()), check);
        }
    }

    #[test]
    fn conditions_are_those_of_the_text() {
        let condition = |text: &str| read(text).condition;
        assert_eq!(condition("length<10k"), Condition::Number(Order::Below, 10_240.0));
        assert_eq!(condition("time in 1ms..2s"), Condition::Within(1e6, 2e9));
        assert_eq!(condition("status = 2xx"), Condition::Statuses(vec![(200, 299)], false));
        assert_eq!(condition("header A"), Condition::Present);
        let text = |test, text: &str, negated| Condition::Text(test, text.to_owned(), negated);
        assert_eq!(condition("body contains a 'b'"), text(TextTest::Contains, "a 'b'", false));
        assert_eq!(condition("header A = 'b c'"), text(TextTest::Equals, "b c", false));
        assert_eq!(condition("body not matches \"^<\""), text(TextTest::Matches, "^<", true));
        assert_eq!(condition("json /a = 3"), text(TextTest::Equals, "3", false));
        assert_eq!(read("json '/a b' > 3").subject, Subject::Json("/a b".into()));
        assert_eq!(read("a b: time < 3s").name.as_deref(), Some("a b"));
        assert_eq!(read("header A = b: c").name, None);
    }

    #[test]
    fn malformed_checks_are_refused_in_one_sentence() {
        for (wrong, why) in [
            ("", "'' is not a check: write what is checked"),
            ("statuz = 200", "'statuz = 200' is not a check"),
            ("status = 99", "'99' is not a status"),
            ("status < x", "'x' is not a status from 100 to 599"),
            ("status", "what must status be? Write status < LIMIT"),
            ("header", "which header?"),
            ("header A > 3", "'> 3': a text has no order"),
            ("header A like b", "'like b' is not a condition for a text"),
            ("json a = 3", "'a' is not a JSON pointer"),
            ("json /a > x", "'x' is not a number"),
            ("json /a in 3..1", "the range '3..1' is in the wrong order"),
            ("length < x", "'x' is not a"),
            ("time < 200", "the time '200' lacks its unit: write 200ms"),
            ("body", "what must the body be?"),
            ("body contains", "'contains' lacks its text"),
            ("body contains 'x", "'x lacks its closing quote"),
            ("body contains 'x' y", "there is more text after the closing quote: ' y'"),
            ("body matches '('", "invalid regular expression"),
            (" : status = 200", "'' is not a name of a check"),
            ("a, b: status = 200", "'a, b' is not a name of a check"),
        ] {
            let error = wrong.parse::<Check>().expect_err(wrong);
            assert!(error.starts_with(why), "{wrong}: {error}");
        }
    }
}
