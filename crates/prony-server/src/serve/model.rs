//! Requests to a language model, and replies that look like those of one: chat completions and
//! completions of OpenAI, messages of Anthropic. A token is a word.

use std::io::Write as _;

use serde_json::Value;

/// The most tokens that a request can ask for.
const LIMIT_MAX: u64 = 1_000_000_000_000;

/// The most tokens of a reply that is sent in one piece, and so is in memory as a whole: the
/// context of a large model. Streams are written as they are sent.
const WHOLE_MAX: u64 = 131_072;

/// What a request asks for, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// `.../chat/completions`
    Chat,
    /// `.../completions`
    Completions,
    /// `.../messages`
    Messages,
}

impl Api {
    /// What the path asks for, if it is one of a language model.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/')?;
        match name {
            "completions" if folder.ends_with("/chat") => Some(Self::Chat),
            "completions" => Some(Self::Completions),
            "messages" => Some(Self::Messages),
            _ => None,
        }
    }
}

/// What matters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    api: Api,
    /// Whether the reply is a stream.
    pub(super) streams: bool,
    /// Whether a stream says how many tokens there are.
    has_usage: bool,
    /// The most tokens of the reply.
    limit: Option<u64>,
    /// Whether the reply has this many.
    is_exact: bool,
    /// The tokens of the request.
    input: u64,
}

impl Prompt {
    /// The request with this body; `None` if it is not a JSON object.
    pub(super) fn parse(api: Api, body: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(body).ok()?;
        let object = json.as_object()?;
        let is_set = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
        let limits = ["max_completion_tokens", "max_tokens"];
        let texts = ["prompt", "messages", "system"].into_iter().filter_map(|key| object.get(key));
        Some(Self {
            api,
            streams: is_set(object.get("stream")),
            has_usage: api == Api::Messages
                || is_set(json.pointer("/stream_options/include_usage")),
            limit: limits
                .iter()
                .find_map(|key| object.get(*key)?.as_u64())
                .map(|n| n.clamp(1, LIMIT_MAX)),
            is_exact: is_set(object.get("ignore_eos")),
            input: texts.map(words).sum(),
        })
    }

    /// Whether its reply would be longer than a reply in one piece can be.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_exact && !self.streams && self.limit.is_some_and(|limit| limit > WHOLE_MAX)
    }

    /// The tokens of the reply where the model would write `tokens`.
    pub(super) fn tokens(&self, tokens: u64) -> u64 {
        let tokens = if self.streams { tokens } else { tokens.min(WHOLE_MAX) };
        match self.limit {
            Some(limit) if self.is_exact => limit,
            Some(limit) => tokens.min(limit),
            None => tokens,
        }
    }
}

/// The words in a text, a list of texts or of messages, or the content of one.
fn words(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.split_whitespace().count() as u64,
        Value::Array(parts) => parts.iter().map(words).sum(),
        Value::Object(part) => {
            ["content", "text"].into_iter().filter_map(|key| part.get(key)).map(words).sum()
        }
        _ => 0,
    }
}

/// A reply that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) prompt: Prompt,
    /// The number of the request.
    pub(super) number: u64,
    /// Its tokens.
    pub(super) output: u64,
}

impl Model {
    fn finish(&self) -> &'static str {
        let at_limit = self.prompt.limit == Some(self.output);
        match (self.prompt.api, at_limit) {
            (Api::Messages, true) => "max_tokens",
            (Api::Messages, false) => "end_turn",
            (_, true) => "length",
            (_, false) => "stop",
        }
    }

    /// Appends the events before the first text.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        let Self { number, prompt: Prompt { input, .. }, .. } = self;
        match self.prompt.api {
            Api::Chat => self.chunk(r#""delta":{"role":"assistant","content":""}"#, "null", out),
            Api::Completions => {}
            Api::Messages => {
                put(
                    out,
                    format_args!(
                        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\
                         \"id\":\"msg_{number}\",\"type\":\"message\",\"role\":\"assistant\",\
                         \"model\":\"prony\",\"content\":[],\"stop_reason\":null,\
                         \"stop_sequence\":null,\"usage\":{{\"input_tokens\":{input},\
                         \"output_tokens\":1}}}}}}\n\n\
                         event: content_block_start\ndata: {{\"type\":\"content_block_start\",\
                         \"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"
                    ),
                );
            }
        }
    }

    /// Appends an event with these tokens, by their numbers.
    pub(super) fn text(&self, tokens: std::ops::RangeInclusive<u64>, out: &mut Vec<u8>) {
        let text: String = tokens.map(|k| format!("w{k} ")).collect();
        match self.prompt.api {
            Api::Chat => {
                self.chunk(&format!("\"delta\":{{\"content\":\"{text}\"}}"), "null", out);
            }
            Api::Completions => self.chunk(&format!("\"text\":\"{text}\""), "null", out),
            Api::Messages => put(
                out,
                format_args!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\
                     \"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
                ),
            ),
        }
    }

    /// Appends the events after the last text.
    pub(super) fn end(&self, out: &mut Vec<u8>) {
        let Self { output, prompt: Prompt { has_usage, .. }, .. } = self;
        let finish = self.finish();
        if self.prompt.api == Api::Messages {
            return put(
                out,
                format_args!(
                    "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\
                     \"index\":0}}\n\n\
                     event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\
                     \"stop_reason\":\"{finish}\",\"stop_sequence\":null}},\
                     \"usage\":{{\"output_tokens\":{output}}}}}\n\n\
                     event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
                ),
            );
        }
        let empty = if self.prompt.api == Api::Chat { "\"delta\":{}" } else { "\"text\":\"\"" };
        self.chunk(empty, &format!("\"{finish}\""), out);
        if *has_usage {
            put(
                out,
                format_args!(
                    "data: {{{},\"choices\":[],{}}}\n\n",
                    self.identity(true),
                    self.usage()
                ),
            );
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// Appends the reply in one piece.
    pub(super) fn whole(&self, out: &mut Vec<u8>) {
        let text: String = (1..=self.output).map(|k| format!("w{k} ")).collect();
        let Self { output, number, prompt: Prompt { input, .. } } = self;
        let (finish, identity, usage) = (self.finish(), self.identity(false), self.usage());
        match self.prompt.api {
            Api::Chat => put(
                out,
                format_args!(
                    "{{{identity},\"choices\":[{{\"index\":0,\"message\":{{\"role\":\
                     \"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"{finish}\"}}],\
                     {usage}}}"
                ),
            ),
            Api::Completions => put(
                out,
                format_args!(
                    "{{{identity},\"choices\":[{{\"index\":0,\"text\":\"{text}\",\
                     \"finish_reason\":\"{finish}\"}}],{usage}}}"
                ),
            ),
            Api::Messages => put(
                out,
                format_args!(
                    "{{\"id\":\"msg_{number}\",\"type\":\"message\",\"role\":\"assistant\",\
                     \"model\":\"prony\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\
                     \"stop_reason\":\"{finish}\",\"stop_sequence\":null,\
                     \"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}}}}"
                ),
            ),
        }
    }

    /// Appends a chunk with this part of a choice.
    fn chunk(&self, part: &str, finish: &str, out: &mut Vec<u8>) {
        put(
            out,
            format_args!(
                "data: {{{},\"choices\":[{{\"index\":0,{part},\"finish_reason\":{finish}}}]}}\n\n",
                self.identity(true)
            ),
        );
    }

    fn identity(&self, is_chunk: bool) -> String {
        let (id, object) = match (self.prompt.api, is_chunk) {
            (Api::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
            (Api::Chat, false) => ("chatcmpl", "chat.completion"),
            _ => ("cmpl", "text_completion"),
        };
        let number = self.number;
        format!(
            "\"id\":\"{id}-{number}\",\"object\":\"{object}\",\"created\":0,\"model\":\"prony\""
        )
    }

    fn usage(&self) -> String {
        let (input, output) = (self.prompt.input, self.output);
        format!(
            "\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\
             \"total_tokens\":{}}}",
            input + output
        )
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_models() {
        for (path, api) in [
            ("/v1/chat/completions", Some(Api::Chat)),
            ("/chat/completions", Some(Api::Chat)),
            ("/v1/completions", Some(Api::Completions)),
            ("/messages", Some(Api::Messages)),
            ("/v1/models", None),
            ("/completions", Some(Api::Completions)),
            ("/v1/messages/count", None),
        ] {
            assert_eq!(Api::of(path), api, "{path}");
        }
    }

    #[test]
    fn prompts_have_words_and_limits() {
        let chat = br#"{"messages":[{"role":"user","content":"a b  c"},{"role":"user",
            "content":[{"type":"text","text":"d e"}]}],"max_tokens":9,"stream":true,
            "stream_options":{"include_usage":true}}"#;
        let prompt = Prompt::parse(Api::Chat, chat).expect("a prompt");
        assert_eq!((prompt.input, prompt.limit, prompt.streams), (5, Some(9), true));
        assert!(prompt.has_usage && !prompt.is_exact);
        assert_eq!([prompt.tokens(3), prompt.tokens(30)], [3, 9]);
        let text = br#"{"prompt":["a b","c"],"ignore_eos":true,"max_completion_tokens":4}"#;
        let prompt = Prompt::parse(Api::Completions, text).expect("a prompt");
        assert_eq!((prompt.input, prompt.streams, prompt.has_usage), (3, false, false));
        assert_eq!([prompt.tokens(3), prompt.tokens(30)], [4, 4]);
        assert!(
            Prompt::parse(Api::Chat, b"x").is_none() && Prompt::parse(Api::Chat, b"[]").is_none()
        );
    }

    /// What a client reads of every reply is what the model has written.
    #[test]
    fn replies_are_those_that_clients_read() {
        use prony_plan::events::{Finish, Reader, Rules, Said};
        use prony_plan::plan::{StreamFormat, StreamPlan, TokenDialect, TokenPlan};
        for api in [Api::Chat, Api::Completions, Api::Messages] {
            let dialect =
                if api == Api::Messages { TokenDialect::Anthropic } else { TokenDialect::OpenAi };
            let prompt = Prompt {
                api,
                streams: true,
                has_usage: true,
                limit: Some(6),
                is_exact: false,
                input: 7,
            };
            for output in [4, 6] {
                let model = Model { prompt, number: 3, output };
                let (mut stream, mut whole) = (Vec::new(), Vec::new());
                model.begin(&mut stream);
                model.text(1..=1, &mut stream);
                model.text(2..=output, &mut stream);
                model.end(&mut stream);
                model.whole(&mut whole);
                for (format, body, chunks) in
                    [(StreamFormat::Sse, stream, 2), (StreamFormat::Whole, whole, 1)]
                {
                    let tokens = Some(TokenPlan::new(dialect));
                    let rules = Rules::new(&StreamPlan { tokens, ..StreamPlan::new(format) });
                    let (mut reader, mut n, mut all) = (Reader::default(), 0, Said::default());
                    let mut see = |message: prony_plan::events::Message| {
                        n += u64::from(message.has_content);
                        let said = message.said;
                        all.input = said.input.or(all.input);
                        all.output = said.output.or(all.output);
                        all.finish = said.finish.or(all.finish);
                        assert!(!said.is_error);
                    };
                    reader.read(&rules, &body, &mut see).expect("short");
                    if let prony_plan::events::Ending::Message(message) = reader.end(&rules) {
                        see(message);
                    }
                    let finish = if output == 6 { Finish::Length } else { Finish::Stop };
                    assert_eq!(n, chunks, "{api:?} {}", String::from_utf8_lossy(&body));
                    assert_eq!((all.input, all.output), (Some(7), Some(output as u32)));
                    assert_eq!(all.finish, Some(finish));
                }
            }
        }
    }
}
