//! The messages of a model's reply: whether one has output, how many tokens the reply has, why it
//! ended, and whether it failed. Reads the JSON text of a message once, and copies nothing of it
//! but output that is kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Error, Visitor};

use super::json::{elements, is_content, is_key, is_real, members};
use crate::plan::TokenDialect;

/// What a message of a model says besides its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How many tokens the request has.
    pub input: Option<u32>,
    /// How many tokens the reply has so far.
    pub output: Option<u32>,
    /// How many it has by all tokens without those of the request, if both are there.
    pub by_total: Option<u32>,
    /// Why the reply ends.
    pub finish: Option<Finish>,
    /// The choices of which it has a part.
    pub choices: Choices,
    /// Those among them that end with it.
    pub finished: Choices,
    /// Whether nothing follows it: the reply is complete.
    pub is_end: bool,
    /// Whether it reports an error, which ends the reply.
    pub is_error: bool,
}

/// A set of choices of a reply: bit k is that of choice k, and the last bit that of all further
/// ones.
pub type Choices = u32;

/// Why a model ended its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The reply is complete, or the model wrote a text at which it must stop.
    Stop,
    /// The reply has the most tokens that were asked for, or that fit.
    Length,
    /// The model calls a tool.
    Tool,
    /// The content is not allowed.
    Filter,
    /// Another reason.
    Other,
}

/// Whether a message has output, and what else it says. One that is not JSON says nothing. Appends
/// the texts of its output to `output`, with the escapes of JSON.
pub(super) fn read(
    dialect: TokenDialect,
    json: &[u8],
    output: Option<&mut Vec<u8>>,
) -> (bool, Said) {
    let mut part = Part { output, ..Part::default() };
    // Some servers of Anthropic's dialect end with it, too.
    part.said.is_end = json.trim_ascii() == b"[DONE]";
    match dialect {
        TokenDialect::OpenAi => part.openai(json),
        TokenDialect::Anthropic => part.anthropic(json),
    }
    (part.has_output, part.said)
}

#[derive(Default)]
struct Part<'a> {
    has_output: bool,
    said: Said,
    /// The texts of the output, if they are kept.
    output: Option<&'a mut Vec<u8>>,
}

/// The text of kept output. Characters of which a server has sent one half in each of two messages
/// are whole again.
pub fn output_text(output: &[u8]) -> Cow<'_, str> {
    if !output.contains(&b'\\') {
        return String::from_utf8_lossy(output);
    }
    let quoted = [b"\"", output, b"\""].concat();
    let text = serde_json::Deserializer::from_slice(&quoted).deserialize_bytes(Text);
    text.map_or_else(|_| String::from_utf8_lossy(output), Cow::Owned)
}

/// A string that may have half characters.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The members of blocks and of calls of tools that have text of the model.
const WITH_TEXT: [&str; 9] =
    ["text", "thinking", "summary", "function", "custom", "name", "arguments", "input", "refusal"];

/// How deep texts are in a value at most: blocks in reasoning have three levels of each kind.
const DEPTH: u8 = 8;

/// Appends the texts in a value: a string, or the texts of blocks and of calls of tools.
fn texts(value: &[u8], output: &mut Vec<u8>, depth: u8) {
    match value {
        [b'"', inner @ .., b'"'] => output.extend_from_slice(inner),
        _ if depth == 0 => {}
        [b'[', ..] => elements(value).for_each(|element| texts(element, output, depth - 1)),
        [b'{', ..] => named(value, &WITH_TEXT, |_, value| texts(value, output, depth - 1)),
        _ => {}
    }
}

/// Whether a value has text of the model, or output of a kind that is not known here: a call of a
/// tool whose arguments are still empty, for example, has none.
fn has_text(value: &[u8], depth: u8) -> bool {
    match value {
        [b'[', ..] if depth > 0 => elements(value).any(|element| has_text(element, depth - 1)),
        [b'{', ..] if depth > 0 => {
            let (mut has_any, mut is_known) = (false, false);
            named(value, &WITH_TEXT, |_, value| {
                has_any |= has_text(value, depth - 1);
                is_known = true;
            });
            has_any || !is_known && is_content(value)
        }
        _ => is_content(value),
    }
}

/// Calls `each` with the value of every member of an object whose name is one of `names`, and with
/// its index there.
fn named<'a>(json: &'a [u8], names: &[&str], mut each: impl FnMut(usize, &'a [u8])) {
    for (name, value) in members(json) {
        if let Some(i) = names.iter().position(|known| is_key(name, known.as_bytes())) {
            each(i, value);
        }
    }
}

impl Part<'_> {
    /// A value of output.
    fn says(&mut self, value: &[u8]) {
        if has_text(value, DEPTH) {
            self.has_output = true;
            if let Some(output) = self.output.as_deref_mut() {
                texts(value, output, DEPTH);
            }
        }
    }

    /// A chat completion or a completion of text: the whole reply, or a chunk of it.
    fn openai(&mut self, json: &[u8]) {
        let names = ["choices", "usage", "error", "x_groq", "object", "type"];
        named(json, &names, |i, value| match i {
            0 => elements(value).for_each(|choice| self.choice(choice)),
            1 => self.openai_usage(value),
            2 => self.said.is_error |= is_real(value),
            3 => named(value, &["usage", "error"], |i, value| match i {
                0 => self.openai_usage(value),
                _ => self.said.is_error |= is_real(value),
            }),
            _ => self.said.is_error |= value == br#""error""#,
        });
        // The number of tokens comes last, and alone. (The first message of some servers has one of
        // nothing.) Others send the number so far with each chunk.
        let has_tokens = self.said.output.is_some_and(|n| n > 0);
        self.said.is_end |= self.said.choices == 0 && has_tokens;
    }

    fn openai_usage(&mut self, json: &[u8]) {
        let mut total = None;
        let names = ["prompt_tokens", "completion_tokens", "total_tokens"];
        named(json, &names, |i, value| {
            let of = match i {
                0 => &mut self.said.input,
                1 => &mut self.said.output,
                _ => &mut total,
            };
            *of = number(value).or(*of);
        });
        if let (Some(total), Some(input)) = (total, self.said.input) {
            self.said.by_total = total.checked_sub(input);
        }
        self.said.output = self.said.output.or(self.said.by_total);
    }

    fn choice(&mut self, json: &[u8]) {
        let mut index = 0;
        let mut texts = Texts::default();
        let finish = self.said.finish.take();
        let names = ["delta", "message", "text", "finish_reason", "index", "usage", "error"];
        named(json, &names, |i, value| match i {
            0 | 1 => self.delta(value, &mut texts),
            2 => self.once(&mut texts, |part| part.says(value)),
            3 => self.finishes(value),
            4 => index = number(value).unwrap_or(0),
            5 => self.openai_usage(value),
            _ => self.said.is_error |= is_real(value),
        });
        let choice: Choices = 1 << index.min(Choices::BITS - 1);
        self.said.choices |= choice;
        if self.said.finish.is_some() {
            self.said.finished |= choice;
        }
        self.said.finish = self.said.finish.or(finish);
    }

    /// What is new of a message, or a whole one.
    fn delta(&mut self, json: &[u8], texts: &mut Texts) {
        let names = [
            "content",
            "reasoning_content",
            "reasoning",
            "reasoning_details",
            "thinking",
            "tool_calls",
            "function_call",
            "refusal",
            "audio",
        ];
        named(json, &names, |i, value| {
            self.once(texts, |part| match i {
                3 => elements(value).for_each(|detail| part.detail(detail)),
                8 => part.audio(value),
                _ => part.says(value),
            });
        });
    }

    /// A part of the reasoning. Its signature, and what is encrypted, are no text.
    fn detail(&mut self, json: &[u8]) {
        named(json, &["text", "summary"], |_, value| self.says(value));
    }

    /// A part of the speech: its words, and its sound.
    fn audio(&mut self, json: &[u8]) {
        named(json, &["transcript", "data"], |i, value| match i {
            0 => self.says(value),
            _ => self.has_output |= is_content(value),
        });
    }

    /// Adds the texts of a field, unless another field of the same choice has the same text: some
    /// servers send it under two names.
    fn once(&mut self, texts: &mut Texts, says: impl FnOnce(&mut Self)) {
        let start = self.output.as_ref().map_or(0, |output| output.len());
        says(self);
        if let Some(output) = self.output.as_deref_mut()
            && texts.has(output, start)
        {
            output.truncate(start);
        }
    }

    /// An event of a message, or a whole message.
    fn anthropic(&mut self, json: &[u8]) {
        let names = [
            "message",
            "delta",
            "usage",
            "error",
            "content",
            "stop_reason",
            "type",
            "content_block",
        ];
        named(json, &names, |i, value| match i {
            // What it has of the reply's tokens is there before the first of them.
            0 => named(value, &["usage"], |_, value| {
                let output = self.said.output;
                self.usage(value);
                self.said.output = output;
            }),
            1 => {
                let output = ["text", "thinking", "partial_json", "stop_reason"];
                named(value, &output, |i, value| match i {
                    3 => self.finishes(value),
                    _ => self.says(value),
                });
            }
            2 => self.usage(value),
            3 => self.said.is_error |= is_real(value),
            4 => self.says(value),
            5 => self.finishes(value),
            6 => {
                self.said.is_end |= value == br#""message_stop""#;
                self.said.is_error |= value == br#""error""#;
            }
            _ => named(value, &["text", "thinking", "name"], |_, value| self.says(value)),
        });
    }

    /// The tokens of a request are those that were read from a cache, written to one, and others.
    fn usage(&mut self, json: &[u8]) {
        let names = [
            "output_tokens",
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        let mut input: Option<u32> = None;
        named(json, &names, |i, value| match (i, number(value)) {
            (0, n) => self.said.output = n.or(self.said.output),
            (_, Some(n)) => input = Some(input.unwrap_or(0).saturating_add(n)),
            (_, None) => {}
        });
        self.said.input = input.or(self.said.input);
    }

    fn finishes(&mut self, value: &[u8]) {
        if let [b'"', reason @ .., b'"'] = value
            && !reason.is_empty()
            && !reason.eq_ignore_ascii_case(b"null")
        {
            let is = |names: &[&[u8]]| names.iter().any(|name| reason.eq_ignore_ascii_case(name));
            self.said.is_error |= is(&BROKEN);
            self.said.finish =
                Some(if is(&[b"stop", b"end_turn", b"stop_sequence", b"eos", b"eos_token"]) {
                    Finish::Stop
                } else if is(&[b"length", b"max_tokens", b"model_length"]) {
                    Finish::Length
                } else if is(&[b"tool_calls", b"tool_use", b"function_call"]) {
                    Finish::Tool
                } else if is(&[b"content_filter", b"refusal"]) {
                    Finish::Filter
                } else {
                    Finish::Other
                });
        }
    }
}

/// The reasons with which a server says that it has broken a reply off.
const BROKEN: [&[u8]; 8] = [
    b"error",
    b"abort",
    b"aborted",
    b"cancelled",
    b"canceled",
    b"timeout",
    b"network_error",
    b"insufficient_system_resource",
];

/// Where the texts of the fields of a choice are in the output.
#[derive(Default)]
struct Texts {
    ranges: [(usize, usize); 6],
    count: usize,
}

impl Texts {
    /// Whether another field had the text from `start`. Otherwise it is one that later fields may
    /// repeat.
    fn has(&mut self, output: &[u8], start: usize) -> bool {
        let text = &output[start..];
        if text.is_empty() {
            return false;
        }
        let is_it = |&(from, to): &(usize, usize)| &output[from..to] == text;
        let has = self.ranges[..self.count].iter().any(is_it);
        if !has && self.count < self.ranges.len() {
            self.ranges[self.count] = (start, output.len());
            self.count += 1;
        }
        has
    }
}

/// A whole number that fits, also if it is written with a fraction of zero.
fn number(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?;
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    // The grammar of JSON, and not that of Rust, which also reads words.
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let number: f64 = text.parse().ok().filter(|_| is_number)?;
    (number.fract() == 0.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
}

#[cfg(test)]
mod tests;
