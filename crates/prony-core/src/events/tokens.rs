//! The messages of a model's reply: whether one has output, how many tokens the reply has, why it
//! ended, and whether it failed. Reads the JSON text of a message once, and copies nothing of it
//! but output that is kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Error, Visitor};

use super::json::{elements, is_content, is_key, members};
use crate::plan::TokenDialect;

/// What a message of a model says besides its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// How many tokens the request has.
    pub input: Option<u32>,
    /// How many tokens the reply has so far.
    pub output: Option<u32>,
    /// Why the reply ends.
    pub finish: Option<Finish>,
    /// Whether it reports an error, which ends the reply.
    pub is_error: bool,
}

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

/// Appends the texts in a value: a string, or the texts of blocks and of calls of tools.
fn texts(value: &[u8], output: &mut Vec<u8>) {
    match value {
        [b'"', inner @ .., b'"'] => output.extend_from_slice(inner),
        [b'[', ..] => elements(value).for_each(|element| texts(element, output)),
        [b'{', ..] => {
            let names = ["text", "thinking", "function", "name", "arguments", "input"];
            named(value, &names, |_, value| texts(value, output));
        }
        _ => {}
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
        if is_content(value) {
            self.has_output = true;
            if let Some(output) = self.output.as_deref_mut() {
                texts(value, output);
            }
        }
    }

    /// A chat completion or a completion of text: the whole reply, or a chunk of it.
    fn openai(&mut self, json: &[u8]) {
        named(json, &["choices", "usage", "error", "object"], |i, value| match i {
            0 => elements(value).for_each(|choice| self.choice(choice)),
            1 => named(value, &["prompt_tokens", "completion_tokens"], |i, value| {
                let of = if i == 0 { &mut self.said.input } else { &mut self.said.output };
                *of = number(value).or(*of);
            }),
            2 => self.said.is_error |= is_content(value),
            _ => self.said.is_error |= value == br#""error""#,
        });
    }

    fn choice(&mut self, json: &[u8]) {
        named(json, &["delta", "message", "text", "finish_reason"], |i, value| match i {
            0 | 1 => {
                let output = ["content", "reasoning_content", "reasoning", "tool_calls", "refusal"];
                named(value, &output, |_, value| self.says(value));
            }
            2 => self.says(value),
            _ => self.finishes(value),
        });
    }

    /// An event of a message, or a whole message.
    fn anthropic(&mut self, json: &[u8]) {
        let names = ["message", "delta", "usage", "error", "content", "stop_reason"];
        named(json, &names, |i, value| match i {
            0 => named(value, &["usage"], |_, value| self.usage(value)),
            1 => {
                let output = ["text", "thinking", "partial_json", "stop_reason"];
                named(value, &output, |i, value| match i {
                    3 => self.finishes(value),
                    _ => self.says(value),
                });
            }
            2 => self.usage(value),
            3 => self.said.is_error |= is_content(value),
            4 => self.says(value),
            _ => self.finishes(value),
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
        if is_content(value) {
            self.said.finish = Some(match value {
                br#""stop""# | br#""end_turn""# | br#""stop_sequence""# => Finish::Stop,
                br#""length""# | br#""max_tokens""# => Finish::Length,
                br#""tool_calls""# | br#""tool_use""# | br#""function_call""# => Finish::Tool,
                br#""content_filter""# | br#""refusal""# => Finish::Filter,
                _ => Finish::Other,
            });
        }
    }
}

fn number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(json: &str) -> (bool, Said) {
        read(TokenDialect::OpenAi, json.as_bytes(), None)
    }

    fn anthropic(json: &str) -> (bool, Said) {
        read(TokenDialect::Anthropic, json.as_bytes(), None)
    }

    const NOTHING: Said = Said { input: None, output: None, finish: None, is_error: false };

    fn finish(finish: Finish) -> Said {
        Said { finish: Some(finish), ..NOTHING }
    }

    fn used(input: u32, output: u32) -> Said {
        Said { input: Some(input), output: Some(output), ..NOTHING }
    }

    #[test]
    fn chunks_of_chats_and_completions() {
        for (json, has_output) in [
            (r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#, false),
            (r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}"#, true),
            (r#"{"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#, true),
            (r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}"#, true),
            (r#"{"choices":[{"text":" a","index":0}]}"#, true),
            (r#"{"choices":[{"delta":{"content":" "}},{"delta":{}}]}"#, true),
            (r#"{"choices":[]}"#, false),
            ("[DONE]", false),
            ("", false),
            (r#"{"choices":[{"delta":{"content":"Hi"#, false),
        ] {
            assert_eq!(openai(json), (has_output, NOTHING), "{json}");
        }
        let last = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
        assert_eq!(openai(last), (false, finish(Finish::Length)));
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":7,"total_tokens":12,
            "completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#;
        assert_eq!(openai(usage), (false, used(7, 5)));
        let whole = r#"{"choices":[{"message":{"role":"assistant","content":"Hi"},
            "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
        assert_eq!(openai(whole), (true, Said { finish: Some(Finish::Stop), ..used(1, 2) }));
        for error in [r#"{"error":{"message":"x"}}"#, r#"{"object":"error","message":"x"}"#] {
            assert!(openai(error).1.is_error, "{error}");
        }
        assert!(!openai(r#"{"error":null,"object":"chat.completion.chunk"}"#).1.is_error);
    }

    #[test]
    fn events_of_messages() {
        for (json, has_output, said) in [
            (
                r#"{"type":"message_start","message":{"content":[],"stop_reason":null,"usage":
                   {"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}"#,
                false,
                used(7, 1),
            ),
            (r#"{"type":"content_block_start","content_block":{"text":""}}"#, false, NOTHING),
            (r#"{"type":"ping"}"#, false, NOTHING),
            (r#"{"delta":{"type":"text_delta","text":"Hi"}}"#, true, NOTHING),
            (r#"{"delta":{"type":"thinking_delta","thinking":"Hm"}}"#, true, NOTHING),
            (r#"{"delta":{"type":"signature_delta","signature":"x"}}"#, false, NOTHING),
            (
                r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},
                   "usage":{"output_tokens":15}}"#,
                false,
                Said { output: Some(15), ..finish(Finish::Length) },
            ),
            (r#"{"type":"message_stop"}"#, false, NOTHING),
            (
                r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
                false,
                Said { is_error: true, ..NOTHING },
            ),
            (
                r#"{"type":"message","content":[{"type":"text","text":"Hi"}],
                   "stop_reason":"end_turn","usage":{"input_tokens":2,"output_tokens":3}}"#,
                true,
                Said { finish: Some(Finish::Stop), ..used(2, 3) },
            ),
        ] {
            assert_eq!(anthropic(json), (has_output, said), "{json}");
        }
    }

    #[test]
    fn names_may_have_escapes_and_numbers_must_fit() {
        assert!(openai(r#"{"\u0063hoices":[{"text":"a"}]}"#).0);
        for wrong in ["-1", "1.5", "4294967296", "\"7\"", "null", "{}"] {
            let json = format!(r#"{{"usage":{{"completion_tokens":{wrong}}}}}"#);
            assert_eq!(openai(&json), (false, NOTHING), "{json}");
        }
    }

    fn kept(dialect: TokenDialect, messages: &[&str]) -> String {
        let mut output = Vec::new();
        for json in messages {
            read(dialect, json.as_bytes(), Some(&mut output));
        }
        output_text(&output).into_owned()
    }

    #[test]
    fn output_is_kept_as_text() {
        let chunks = [
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"Well. "}}]}"#,
            r#"{"choices":[{"delta":{"content":"A \"b\" \u00fc\n"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"text":"c","finish_reason":"stop"}],"usage":{"completion_tokens":9}}"#,
        ];
        assert_eq!(kept(TokenDialect::OpenAi, &chunks), "Well. A \"b\" \u{fc}\nf{}c");
        let events = [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}"#,
            r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":" so"}}"#,
        ];
        assert_eq!(kept(TokenDialect::Anthropic, &events), "Hi so");
        let whole = r#"{"content":[{"type":"text","text":"all"},{"type":"text","text":" of it"}]}"#;
        assert_eq!(kept(TokenDialect::Anthropic, &[whole]), "all of it");
    }

    #[test]
    fn kept_output_may_have_half_characters() {
        let text = |text: &str| format!(r#"{{"choices":[{{"text":"{text}"}}]}}"#);
        let two = [text(r"a \ud83d"), text(r"\ude00 b")];
        assert_eq!(kept(TokenDialect::OpenAi, &[&two[0], &two[1]]), "a \u{1f600} b");
        // Half a character, and an escape that JSON does not have.
        let half = kept(TokenDialect::OpenAi, &[&text(r"a \ud83d b")]);
        assert!(half.starts_with("a \u{fffd}") && half.ends_with(" b"), "{half}");
        assert_eq!(kept(TokenDialect::OpenAi, &[&text(r"a \x b")]), r"a \x b");
    }
}
