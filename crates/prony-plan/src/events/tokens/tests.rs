use super::*;

fn openai(json: &str) -> (bool, Said) {
    read(TokenDialect::OpenAi, json.as_bytes(), None)
}

fn anthropic(json: &str) -> (bool, Said) {
    read(TokenDialect::Anthropic, json.as_bytes(), None)
}

impl Said {
    /// The default as a constant.
    pub(in crate::events) const NOTHING: Self = Self {
        input: None,
        output: None,
        by_total: None,
        finish: None,
        choices: 0,
        finished: 0,
        is_end: false,
        is_error: false,
    };
}

const NOTHING: Said = Said::NOTHING;
/// What a message of one choice says that has nothing but output.
const CHOICE: Said = Said { choices: 1, ..NOTHING };

fn finish(finish: Finish) -> Said {
    Said { finish: Some(finish), ..NOTHING }
}

fn used(input: u32, output: u32) -> Said {
    Said { input: Some(input), output: Some(output), ..NOTHING }
}

/// The end of a reply of one choice.
fn finished(why: Finish) -> Said {
    Said { finished: 1, choices: 1, ..finish(why) }
}

#[test]
fn chunks_of_chats_and_completions() {
    for (json, has_output) in [
        (r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#, false),
        (r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}"#, true),
        (r#"{"choices":[{"delta":{"reasoning_content":"Hm"}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"function_call":{"arguments":"{"}}}]}"#, true),
        (r#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":""}}}]}"#, true),
        (r#"{"choices":[{"delta":{"function_call":{"arguments":""}}}]}"#, false),
        (r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":""}}]}}]}"#, false),
        (r#"{"choices":[{"delta":{"tool_calls":[{"custom":{"input":"x"}}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"reasoning_details":[{"text":"Hm"}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"reasoning_details":[{"summary":"Hm"}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"reasoning_details":[{"text":"","signature":"x"}]}}]}"#, false),
        (r#"{"choices":[{"delta":{"reasoning_details":[{"data":"gAAA"}]}}]}"#, false),
        (r#"{"choices":[{"delta":{"content":[{"type":"text","text":"Hi"}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":[{"type":"text","text":""}]}}]}"#, false),
        (
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":
               [{"type":"text","text":"Hm"}]}]}}]}"#,
            true,
        ),
        (r#"{"choices":[{"delta":{"refusal":"No"}}]}"#, true),
        (r#"{"choices":[{"delta":{"audio":{"id":"a","transcript":"Hi"}}}]}"#, true),
        (r#"{"choices":[{"delta":{"audio":{"data":"UklGRg=="}}}]}"#, true),
        (r#"{"choices":[{"delta":{"audio":{"id":"a","expires_at":3}}}]}"#, false),
        (r#"{"choices":[{"text":" a","index":0}]}"#, true),
        (r#"{"choices":[{"delta":{"content":" "}},{"delta":{}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":""}]}"#, true),
        (r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"null"}]}"#, true),
    ] {
        assert_eq!(openai(json), (has_output, CHOICE), "{json}");
    }
    for json in [
        r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
        r#"{"choices":[],"usage":null}"#,
        "",
        r#"{"choices":[{"delta":{"content":"Hi"#,
    ] {
        assert_eq!(openai(json), (false, NOTHING), "{json}");
    }
    let whole = r#"{"choices":[{"message":{"role":"assistant","content":"Hi"},
        "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let said = Said { input: Some(1), output: Some(2), ..finished(Finish::Stop) };
    assert_eq!(openai(whole), (true, said));
    let cut = br#"{"choices":[{"delta":{"content":[[[[[[[[[[[["x"]]]]]]]]]]]]}}]}"#;
    let mut output = Vec::new();
    assert!(read(TokenDialect::OpenAi, cut, Some(&mut output)).0 && output.is_empty());
}

/// A reply is complete with its reason to end, its mark, or its number of tokens after all choices.
#[test]
fn replies_end_with_each_of_their_marks() {
    for (json, said) in [
        (r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#, finished(Finish::Length)),
        (r#"{"choices":[{"delta":{},"finish_reason":"MAX_TOKENS"}]}"#, finished(Finish::Length)),
        (r#"{"choices":[{"text":"","finish_reason":"eos_token"}]}"#, finished(Finish::Stop)),
        (
            r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"},{"index":2}]}"#,
            Said { finished: 0b10, choices: 0b110, ..finish(Finish::Stop) },
        ),
        (
            r#"{"choices":[{"index":99,"finish_reason":"stop"}]}"#,
            Said { finished: 1 << 31, choices: 1 << 31, ..finish(Finish::Stop) },
        ),
        ("[DONE]", Said { is_end: true, ..NOTHING }),
        (" [DONE]\n", Said { is_end: true, ..NOTHING }),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":7,"total_tokens":12,
               "completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#,
            Said { is_end: true, by_total: Some(5), ..used(7, 5) },
        ),
        // A number of tokens before the first of them, and one so far.
        (r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":0}}"#, used(7, 0)),
        (
            r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
            Said { input: Some(7), output: Some(3), ..CHOICE },
        ),
        // Without the number itself, and with it elsewhere.
        (
            r#"{"choices":[],"usage":{"total_tokens":12.0,"prompt_tokens":7}}"#,
            Said { is_end: true, by_total: Some(5), ..used(7, 5) },
        ),
        (
            r#"{"choices":[{"finish_reason":"stop","usage":{"completion_tokens":3}}]}"#,
            Said { output: Some(3), ..finished(Finish::Stop) },
        ),
        (
            r#"{"choices":[{"delta":{}}],"x_groq":{"usage":{"completion_tokens":3}}}"#,
            Said { output: Some(3), ..CHOICE },
        ),
    ] {
        assert_eq!(openai(json), (false, said), "{json}");
    }
}

/// An error is one only if it says that there is one.
#[test]
fn errors_are_values_that_are_real() {
    for error in [
        r#""error":{"message":"x"}"#,
        r#""error":"out of memory""#,
        r#""error":true"#,
        r#""error":500"#,
        r#""error":[{"code":5}]"#,
        r#""object":"error","message":"x""#,
        r#""type":"error","message":"x""#,
        r#""x_groq":{"error":"over_capacity"}"#,
        r#""choices":[{"delta":{},"error":{"code":502}}]"#,
        r#""choices":[{"delta":{},"finish_reason":"error"}]"#,
        r#""choices":[{"delta":{},"finish_reason":"abort"}]"#,
        r#""choices":[{"text":"","finish_reason":"Timeout"}]"#,
    ] {
        assert!(openai(&format!("{{{error}}}")).1.is_error, "{error}");
    }
    for none in ["null", "false", "0", "0.0", "-0", "\"\"", "{}", "[]", "[null]"] {
        assert!(!openai(&format!(r#"{{"error":{none}}}"#)).1.is_error, "{none}");
        assert!(!anthropic(&format!(r#"{{"error":{none}}}"#)).1.is_error, "{none}");
    }
    assert!(!openai(r#"{"error":{"code":0,"message":""}}"#).1.is_error);
    assert!(!openai(r#"{"object":"chat.completion.chunk","type":"text"}"#).1.is_error);
    // The depth to which values are looked at is bounded.
    let deep = format!("{{\"error\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(openai(&deep).1.is_error);
}

#[test]
fn events_of_messages() {
    for (json, has_output, said) in [
        (
            r#"{"type":"message_start","message":{"content":[],"stop_reason":null,"usage":
               {"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}"#,
            false,
            Said { input: Some(7), ..NOTHING },
        ),
        (r#"{"type":"content_block_start","content_block":{"text":""}}"#, false, NOTHING),
        (
            r#"{"type":"content_block_start","content_block":
               {"type":"tool_use","id":"t","name":"f","input":{}}}"#,
            true,
            NOTHING,
        ),
        (r#"{"delta":{"type":"input_json_delta","partial_json":""}}"#, false, NOTHING),
        (r#"{"delta":{"type":"input_json_delta","partial_json":"{"}}"#, true, NOTHING),
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
        (r#"{"type":"message_stop"}"#, false, Said { is_end: true, ..NOTHING }),
        ("[DONE]", false, Said { is_end: true, ..NOTHING }),
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
    let tokens = |number: &str| {
        let json = format!(r#"{{"usage":{{"completion_tokens":{number}}}}}"#);
        openai(&json).1.output
    };
    for wrong in ["-1", "1.5", "4294967296", "4294967296.0", "\"7\"", "null", "{}", "inf"] {
        assert_eq!(tokens(wrong), None, "{wrong}");
    }
    assert_eq!([tokens("12"), tokens("12.0"), tokens("1.2e1")], [Some(12); 3]);
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

/// Some servers send the same text under two names; others send two texts.
#[test]
fn the_same_text_in_two_fields_counts_once() {
    for (delta, text) in [
        (r#""reasoning":"Hm","reasoning_content":"Hm""#, "Hm"),
        (r#""reasoning":"Hm","reasoning_details":[{"text":"Hm"}],"content":"""#, "Hm"),
        (r#""reasoning_content":"Hm","content":"Hi""#, "HmHi"),
        (r#""reasoning_details":[{"text":"a"},{"text":"a"}]"#, "aa"),
    ] {
        let json = format!(r#"{{"choices":[{{"delta":{{{delta}}}}}]}}"#);
        assert_eq!(kept(TokenDialect::OpenAi, &[&json]), text, "{delta}");
    }
    let both = r#"{"choices":[{"text":"Hi","delta":{"content":"Hi"},"message":null}]}"#;
    assert_eq!(kept(TokenDialect::OpenAi, &[both]), "Hi");
    // Not those of two choices, nor of two messages.
    let two = r#"{"choices":[{"text":"Hi"},{"text":"Hi"}]}"#;
    assert_eq!(kept(TokenDialect::OpenAi, &[two, two]), "HiHiHiHi");
}
