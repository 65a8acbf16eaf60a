//! Files of prompts: JSON lines, or a list of conversations as of ShareGPT.

use serde_json::{Value, json};

use crate::{Input, Request};

const FORM: &str = "an object with \"prompt\" (a text), \"messages\" or \"conversations\", and \
                    \"output_tokens\" if wanted";

/// Which turns of a conversation are requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// The first.
    First,
    /// All, each with what was said before it.
    All,
}

/// The prompts of a file: one JSON object per line, or one list of them. Each has a text
/// (`prompt`), messages (`messages`), or a conversation (`conversations`), and the most tokens of
/// the reply if wanted (`output_tokens` or `max_tokens`). Each object becomes a list of requests,
/// one for each turn of the user.
///
/// # Errors
/// One sentence with the line or the number of the object.
pub fn read_prompts(text: &str, turns: Turns) -> Result<Vec<Vec<Request>>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let request = |value: &Value| requests(value, turns);
    let mut requests = Vec::new();
    if text.trim_start().starts_with('[') {
        let all: Vec<Value> = serde_json::from_str(text)
            .map_err(|e| format!("is not a list of JSON objects: {e}"))?;
        for (i, value) in all.iter().enumerate() {
            let read = request(value).map_err(|why| format!("object {}: {why}", i + 1))?;
            requests.extend(read);
        }
    } else {
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value = serde_json::from_str(line)
                .map_err(|_| format!("line {}: is not JSON; write {FORM}", i + 1))?;
            let read = request(&value).map_err(|why| format!("line {}: {why}", i + 1))?;
            requests.extend(read);
        }
    }
    match requests.is_empty() {
        true => Err(format!("has no prompt; each line must be {FORM}")),
        false => Ok(requests),
    }
}

/// The requests of an object; `None` if it is a conversation without a turn of the user at its
/// start.
fn requests(value: &Value, turns: Turns) -> Result<Option<Vec<Request>>, String> {
    let inputs = if let Some(text) = value["prompt"].as_str() {
        vec![Input::Text(text.to_owned())]
    } else if let Some(messages) = value["messages"].as_array() {
        let is_message = |m: &Value| m["role"].is_string() && !m["content"].is_null();
        if messages.is_empty() || !messages.iter().all(is_message) {
            return Err("each of its messages needs a role and a content".into());
        }
        match turns {
            Turns::First => vec![Input::Messages(messages.clone())],
            Turns::All => of_turns(messages),
        }
    } else if let Some(all) = value["conversations"].as_array() {
        let Some(messages) = conversation(all) else { return Ok(None) };
        match (turns, &messages[..]) {
            (Turns::First, [first, ..]) if first["role"] == "user" => {
                vec![Input::Text(first["content"].as_str().unwrap_or_default().to_owned())]
            }
            (Turns::First, _) => of_turns(&messages).into_iter().take(1).collect(),
            (Turns::All, _) => of_turns(&messages),
        }
    } else {
        return Err(format!("is no prompt; write {FORM}"));
    };
    let output = ["output_tokens", "max_tokens"].into_iter().find_map(|key| value.get(key));
    let output = match output.filter(|n| !n.is_null()) {
        None => None,
        Some(n) => Some(
            n.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{n} is not a number of tokens"))?,
        ),
    };
    let request = |input| Request { input, output };
    Ok((!inputs.is_empty()).then(|| inputs.into_iter().map(request).collect()))
}

/// A request for each turn of the user, with all messages up to it.
fn of_turns(messages: &[Value]) -> Vec<Input> {
    let of_user = messages.iter().enumerate().filter(|(_, message)| message["role"] == "user");
    of_user.map(|(i, _)| Input::Messages(messages[..=i].to_vec())).collect()
}

/// The messages of a conversation of ShareGPT, if the user begins it, after instructions if there
/// are any. It ends before a turn of somebody else.
fn conversation(turns: &[Value]) -> Option<Vec<Value>> {
    let message = |turn: &Value| {
        let role = match turn["from"].as_str().or_else(|| turn["role"].as_str())? {
            "human" | "user" => "user",
            "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => "assistant",
            "system" => "system",
            _ => return None,
        };
        let text = turn["value"].as_str().or_else(|| turn["content"].as_str())?;
        Some(json!({"role": role, "content": text}))
    };
    let messages: Vec<Value> = turns.iter().map_while(message).collect();
    let begins = messages.iter().find(|message| message["role"] != "system")?;
    (begins["role"] == "user").then_some(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_lists_have_the_same_prompts() {
        let objects = [
            r#"{"prompt": "a b", "output_tokens": 9}"#,
            r#"{"messages": [{"role": "user", "content": "c"}], "max_tokens": 3}"#,
            r#"{"id": "x", "conversations": [{"from": "human", "value": "d"}, {"from": "gpt", "value": "e"}]}"#,
            r#"{"conversations": [{"from": "gpt", "value": "no question"}]}"#,
            r#"{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}]}"#,
        ];
        let user = |text: &str| json!({"role": "user", "content": text});
        let expected = [
            Request { input: Input::Text("a b".into()), output: Some(9) },
            Request { input: Input::Messages(vec![user("c")]), output: Some(3) },
            Request { input: Input::Text("d".into()), output: None },
            Request {
                input: Input::Messages(vec![json!({"role": "system", "content": "s"}), user("q")]),
                output: None,
            },
        ];
        let expected: Vec<Vec<Request>> = expected.into_iter().map(|one| vec![one]).collect();
        let list = format!("[{}]", objects.join(","));
        for text in [&objects.join("\n\n"), &list] {
            assert_eq!(read_prompts(text, Turns::First).as_deref(), Ok(&expected[..]));
        }
    }

    #[test]
    fn later_turns_have_what_was_said_before() {
        let turns = r#"[{"from": "system", "value": "s"}, {"from": "human", "value": "a"},
            {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"},
            {"from": "nobody", "value": "d"}, {"from": "human", "value": "e"}]"#;
        let text = format!("[{{\"conversations\": {turns}}}, {{\"prompt\": \"p\"}}]");
        let all = read_prompts(&text, Turns::All).expect("prompts");
        let lengths: Vec<Vec<usize>> = all
            .iter()
            .map(|requests| {
                let length = |request: &Request| match &request.input {
                    Input::Text(_) => 0,
                    Input::Messages(messages) => messages.len(),
                };
                requests.iter().map(length).collect()
            })
            .collect();
        assert_eq!(lengths, [vec![2, 4], vec![0]]);
        let Input::Messages(second) = &all[0][1].input else { panic!("messages") };
        let said: Vec<_> = second.iter().filter_map(|m| m["content"].as_str()).collect();
        assert_eq!(said, ["s", "a", "b", "c"]);
        let roles: Vec<_> = second.iter().filter_map(|m| m["role"].as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
    }

    #[test]
    fn what_is_no_prompt_is_refused_with_its_place() {
        for (text, why) in [
            ("", "has no prompt"),
            ("{\"prompt\":\"a\"}\nb", "line 2: is not JSON"),
            ("{\"text\":\"a\"}", "line 1: is no prompt"),
            ("[{\"prompt\":\"a\"},{}]", "object 2: is no prompt"),
            ("{\"prompt\":\"a\",\"output_tokens\":0}", "line 1: 0 is not a number of tokens"),
            ("{\"messages\":[{\"role\":\"user\"}]}", "line 1: each of its messages"),
            ("[1", "is not a list"),
        ] {
            let error = read_prompts(text, Turns::First).expect_err(text);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
