//! The bodies of requests, in the dialects of servers.

use serde_json::{Map, Value, json};

use crate::{Input, Request};

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Chat completions of OpenAI.
    Chat,
    /// Completions of OpenAI.
    Completions,
    /// Messages of Anthropic.
    Messages,
}

/// What all requests have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// The dialect.
    pub api: Api,
    /// The name of the model.
    pub model: String,
    /// Whether replies are streams.
    pub streams: bool,
    /// Further fields. They replace those of the same name.
    pub fields: Map<String, Value>,
}

impl Api {
    /// What a path names, if it is one of the usual ones.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        [Self::Chat, Self::Completions, Self::Messages]
            .into_iter()
            .find(|api| path.ends_with(api.end_of_path()))
    }

    /// The path of a request, where `path` may be that of the server's interface.
    pub fn path(self, path: &str) -> String {
        match path.trim_end_matches('/') {
            "" => format!("/v1{}", self.end_of_path()),
            base if base.ends_with("/v1") => format!("{base}{}", self.end_of_path()),
            _ => path.to_owned(),
        }
    }

    fn end_of_path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Messages => "/messages",
        }
    }
}

impl Format {
    /// The body of a request.
    ///
    /// # Errors
    /// The dialect cannot say that, in one sentence.
    pub fn body(&self, request: &Request) -> Result<Vec<u8>, String> {
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        match (self.api, &request.input) {
            (Api::Completions, Input::Text(text)) => {
                body.insert("prompt".into(), text.clone().into());
            }
            (Api::Completions, Input::Messages(_)) => {
                return Err("a completion takes a text, not messages: use --dialect chat".into());
            }
            (Api::Chat | Api::Messages, Input::Text(text)) => {
                body.insert("messages".into(), json!([{"role": "user", "content": text}]));
            }
            (Api::Chat, Input::Messages(messages)) => {
                body.insert("messages".into(), messages.clone().into());
            }
            (Api::Messages, Input::Messages(messages)) => conversation(messages, &mut body),
        }
        if let Some(output) = request.output {
            body.insert("max_tokens".into(), output.into());
        } else if self.api == Api::Messages && !self.fields.contains_key("max_tokens") {
            return Err("messages of Anthropic need a limit: give --output-tokens".into());
        }
        body.insert("stream".into(), self.streams.into());
        if self.streams && self.api != Api::Messages {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        for (name, value) in &self.fields {
            body.insert(name.clone(), value.clone());
        }
        Ok(Value::Object(body).to_string().into_bytes())
    }
}

/// A conversation of Anthropic has its instructions apart.
fn conversation(messages: &[Value], body: &mut Map<String, Value>) {
    let (system, others): (Vec<&Value>, Vec<&Value>) =
        messages.iter().partition(|message| message["role"] == "system");
    let texts: Vec<&str> = system.iter().filter_map(|m| m["content"].as_str()).collect();
    if !texts.is_empty() {
        body.insert("system".into(), texts.join("\n").into());
    }
    body.insert("messages".into(), others.into_iter().cloned().collect::<Vec<_>>().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(api: Api, streams: bool, input: Input, output: Option<u32>) -> Result<Value, String> {
        let fields = json!({"temperature": 0}).as_object().cloned().unwrap_or_default();
        let format = Format { api, model: "m".into(), streams, fields };
        let bytes = format.body(&Request { input, output })?;
        Ok(serde_json::from_slice(&bytes).expect("JSON"))
    }

    #[test]
    fn bodies_are_those_of_the_dialects() {
        let text = || Input::Text("a \"b\"".into());
        assert_eq!(
            body(Api::Chat, true, text(), Some(7)),
            Ok(json!({"model": "m", "messages": [{"role": "user", "content": "a \"b\""}],
                "max_tokens": 7, "stream": true, "stream_options": {"include_usage": true},
                "temperature": 0}))
        );
        assert_eq!(
            body(Api::Completions, false, text(), None),
            Ok(json!({"model": "m", "prompt": "a \"b\"", "stream": false, "temperature": 0}))
        );
        let messages = || {
            Input::Messages(vec![
                json!({"role": "system", "content": "be brief"}),
                json!({"role": "user", "content": "hi"}),
            ])
        };
        assert_eq!(
            body(Api::Messages, true, messages(), Some(7)),
            Ok(json!({"model": "m", "system": "be brief", "max_tokens": 7, "stream": true,
                "messages": [{"role": "user", "content": "hi"}], "temperature": 0}))
        );
        assert!(body(Api::Completions, true, messages(), Some(7)).is_err());
        assert!(body(Api::Messages, true, messages(), None).is_err());
    }

    #[test]
    fn paths_follow_from_the_dialect_and_the_dialect_from_paths() {
        for (path, full) in [
            ("/", "/v1/chat/completions"),
            ("/v1/", "/v1/chat/completions"),
            ("/api/v1", "/api/v1/chat/completions"),
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/other", "/other"),
        ] {
            assert_eq!(Api::Chat.path(path), full);
        }
        assert_eq!(Api::Messages.path("/v1"), "/v1/messages");
        assert_eq!(Api::of_path("/v1/chat/completions?x=1"), Some(Api::Chat));
        assert_eq!(Api::of_path("/v1/completions"), Some(Api::Completions));
        assert_eq!(Api::of_path("/anthropic/v1/messages"), Some(Api::Messages));
        assert_eq!(Api::of_path("/v1"), None);
    }
}
