//! Replies that have ended well.

use super::{CHAT, Case, Good, MESSAGES, Right, TEXTS, check, counted, event, good};

/// A chunk of a chat with this text.
const A: &str = r#"{"choices":[{"index":0,"delta":{"content":"a "},"finish_reason":null}]}"#;
const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const THREE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,
"total_tokens":12}}"#;
const DONE: &str = "[DONE]";

/// A chunk whose delta has these members.
fn delta(members: &str) -> String {
    event(&format!(r#"{{"choices":[{{"index":0,"delta":{{{members}}}}}]}}"#))
}

/// A chat whose deltas have these members, and its end with that many tokens.
fn chat(name: &'static str, deltas: &[&str], tokens: u64, right: Right) -> Case {
    let mut parts: Vec<String> = deltas.iter().map(|members| delta(members)).collect();
    let usage = format!(r#"{{"choices":[],"usage":{{"completion_tokens":{tokens}}}}}"#);
    parts.extend([event(STOP), event(&usage), event(DONE)]);
    Case { name, path: CHAT, parts, right }
}

#[test]
fn chats() {
    let usage = |usage: &str| THREE.replace(r#""completion_tokens":3"#, usage);
    check(&[
        Case::events("usual", CHAT, &[ROLE, A, A, A, STOP, THREE, DONE], counted(3, 3, 9)),
        Case::events("no mark at the end", CHAT, &[ROLE, A, A, A, STOP], good(3, None)),
        Case::events("the mark alone", CHAT, &[ROLE, A, A, DONE], good(2, None)),
        Case::events("the number of tokens alone", CHAT, &[A, A, A, THREE], counted(3, 3, 9)),
        Case::events("no output", CHAT, &[ROLE, STOP, DONE], good(0, None)),
        Case::events(
            "no output, and no tokens",
            CHAT,
            &[ROLE, STOP, r#"{"choices":[],"usage":{"completion_tokens":0}}"#, DONE],
            counted(0, 0, 0),
        ),
        Case::events(
            "a whole number with a fraction",
            CHAT,
            &[A, A, A, STOP, &usage(r#""completion_tokens":3.0"#), DONE],
            counted(3, 3, 9),
        ),
        Case::events(
            "no number of the reply's tokens",
            CHAT,
            &[A, A, A, STOP, &usage(r#""x":0"#), DONE],
            counted(3, 3, 9),
        ),
        Case::events(
            "values of errors that say nothing",
            CHAT,
            &[
                r#"{"error":false,"choices":[{"delta":{"content":"a"}}]}"#,
                r#"{"error":null,"choices":[{"delta":{"content":"a"},"error":{}}]}"#,
                r#"{"error":0,"choices":[{"delta":{"content":"a"}}],"x_groq":{"error":""}}"#,
                STOP,
                DONE,
            ],
            good(3, None),
        ),
        Case::events(
            "reasons that say nothing",
            CHAT,
            &[
                r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}"#,
                r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"null"}]}"#,
                STOP,
            ],
            good(2, None),
        ),
    ]);
}

/// Deltas whose output is not in `content`.
#[test]
fn kinds_of_output() {
    let name = r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]"#;
    let part = r#""tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]"#;
    let empty = r#""tool_calls":[{"index":0,"function":{"arguments":""}}]"#;
    check(&[
        chat("a call of a tool", &[name, part, part], 3, counted(3, 3, 0)),
        chat("a call of a tool with an empty part", &[name, empty], 2, good(1, 2)),
        chat(
            "a call of a function",
            &[r#""function_call":{"name":"f"}"#, r#""function_call":{"arguments":"a"}"#],
            2,
            good(2, 2),
        ),
        chat(
            "reasoning under two names",
            &[r#""reasoning":"a","reasoning_content":"a""#, r#""content":"b""#],
            2,
            good(2, 2),
        ),
        chat(
            "parts of reasoning",
            &[
                r#""reasoning_details":[{"type":"reasoning.text","text":"a"}]"#,
                r#""reasoning_details":[{"type":"reasoning.summary","summary":"a"}]"#,
                r#""reasoning_details":[{"type":"reasoning.encrypted","data":"gA=="}]"#,
            ],
            2,
            good(2, 2),
        ),
        chat("a refusal", &[r#""refusal":"No""#, r#""refusal":".""#], 2, good(2, 2)),
        chat(
            "speech",
            &[
                r#""audio":{"id":"a"}"#,
                r#""audio":{"transcript":"Hi"}"#,
                r#""audio":{"data":"U="}"#,
            ],
            2,
            good(2, 2),
        ),
        chat(
            "blocks",
            &[
                r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]"#,
                r#""content":[{"type":"text","text":"a"}]"#,
            ],
            2,
            good(2, 2),
        ),
    ]);
}

/// Numbers of tokens that cannot be: less than half as many as chunks.
#[test]
fn numbers_of_tokens_that_cannot_be() {
    let reply = |usage: &str| {
        let usage = format!(r#"{{"choices":[],"usage":{{{usage}}}}}"#);
        let mut data = vec![A; 20];
        data.extend([STOP, &usage, DONE]);
        data.iter().map(|data| event(data)).collect::<Vec<_>>()
    };
    let right = |output, by_total| {
        let Right::Good(all) = good(20, output) else { unreachable!() };
        Right::Good(Good { doubted: output != Some(10), by_total, ..all })
    };
    let case = |name, usage, right| Case { name, path: CHAT, parts: reply(usage), right };
    let with_input = |right, input| match right {
        Right::Good(good) => Right::Good(Good { input, ..good }),
        other => other,
    };
    check(&[
        case("a tenth", r#""completion_tokens":2"#, right(None, false)),
        case("none", r#""completion_tokens":0"#, right(None, false)),
        case("half", r#""completion_tokens":10"#, right(Some(10), false)),
        case(
            "a tenth, and the rest in the total",
            r#""completion_tokens":2,"prompt_tokens":9,"total_tokens":29"#,
            with_input(right(Some(20), true), 9),
        ),
        case(
            "a tenth, and in the total, too",
            r#""completion_tokens":2,"prompt_tokens":9,"total_tokens":11"#,
            right(None, false),
        ),
    ]);
}

/// The forms in which servers write events.
#[test]
fn forms_of_events() {
    let (a, stop, done) = (event(A), event(STOP), event(DONE));
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let tight = |text: &str| text.replace("data: ", "data:");
    check(&[
        Case::new("no space", CHAT, &[&tight(&a), &tight(&stop), &tight(&done)], good(1, None)),
        Case::new("CRLF", CHAT, &[&crlf(&a), &crlf(&a), &crlf(&stop), &crlf(&done)], good(2, None)),
        Case::new("CR", CHAT, &[&a.replace('\n', "\r"), &stop.replace('\n', "\r")], good(1, None)),
        Case::new("a byte order mark", CHAT, &["\u{feff}", &a, &stop], good(1, None)),
        Case::new(
            "comments",
            CHAT,
            &[": PROCESSING\n\n", &a, ": keep-alive\n\n", ":\n\n", &stop, ": bye\n\n", &done],
            good(1, None),
        ),
        Case::new(
            "types, IDs and times",
            CHAT,
            &[&format!("id: 1\nevent: message\nretry: 5\n{a}"), &format!("event:\n{stop}")],
            good(1, None),
        ),
        Case::new(
            "pings with data",
            CHAT,
            &[&event("ping"), &a, &event("{}"), &stop],
            good(1, None),
        ),
        Case::new(
            "data in several lines",
            CHAT,
            &["data: {\"choices\":[{\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n", &stop, &done],
            good(1, None),
        ),
        Case::new(
            "a type that another one follows",
            CHAT,
            &[&format!("event: error\nevent: message\n{a}"), &format!("event: errors\n{stop}")],
            good(1, None),
        ),
        Case::new("no line end after the mark", CHAT, &[&a, &stop, "data: [DONE]"], {
            let Right::Good(all) = good(1, None) else { unreachable!() };
            Right::Good(Good { incomplete: true, ..all })
        }),
    ]);
}

/// What servers add, or do otherwise, each in the form of one that does.
#[test]
fn chunks_of_servers() {
    check(&[
        Case::events(
            "results of filters before and beside the text, as Azure",
            CHAT,
            &[
                r#"{"choices":[],"id":"","prompt_filter_results":[{"prompt_index":0}]}"#,
                r#"{"choices":[{"content_filter_results":{},"delta":{"content":"a"}}]}"#,
                r#"{"choices":[{"content_filter_offsets":{},"delta":{}}]}"#,
                STOP,
                DONE,
            ],
            good(1, None),
        ),
        Case::events(
            "times beside the end, as llama.cpp",
            CHAT,
            &[
                ROLE,
                A,
                r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],
                   "timings":{"predicted_n":1}}"#,
                DONE,
            ],
            good(1, None),
        ),
        Case::events(
            "a role in each chunk, as Ollama",
            CHAT,
            &[
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},
                   "finish_reason":"stop"}]}"#,
                DONE,
            ],
            good(1, None),
        ),
        Case::events(
            "text, delta and message at once",
            CHAT,
            &[r#"{"choices":[{"text":"a","delta":{"content":"a"},"message":null}]}"#, STOP],
            good(1, None),
        ),
    ]);
}

/// The places at which servers have their numbers of tokens.
#[test]
fn numbers_of_servers() {
    let so_far = |n: u32| {
        let usage = format!(r#""usage":{{"prompt_tokens":9,"completion_tokens":{n}}}"#);
        format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a"}}}}],{usage}}}"#)
    };
    check(&[
        Case::events(
            "the number so far in each chunk, as vLLM",
            CHAT,
            &[&so_far(1), &so_far(2), &so_far(3), STOP, THREE, DONE],
            counted(3, 3, 9),
        ),
        Case::events(
            "a first number of nothing",
            CHAT,
            &[r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}"#, A, STOP, DONE],
            // The number of the beginning is not that of the end.
            {
                let Right::Good(all) = good(1, None) else { unreachable!() };
                Right::Good(Good { doubted: true, ..all })
            },
        ),
        Case::events(
            "the number beside the reason, as Mistral and DeepSeek",
            CHAT,
            &[
                A,
                A,
                r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],
                   "usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2}}"#,
                DONE,
            ],
            counted(2, 2, 9),
        ),
        Case::events(
            "the number in the choice, as Moonshot",
            CHAT,
            &[
                A,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop",
                   "usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}]}"#,
                DONE,
            ],
            counted(1, 1, 9),
        ),
        Case::events(
            "the number elsewhere, as Groq",
            CHAT,
            &[
                A,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],
                   "x_groq":{"id":"r","usage":{"prompt_tokens":9,"completion_tokens":1}}}"#,
                DONE,
            ],
            counted(1, 1, 9),
        ),
        Case::events(
            "a number after a chunk without text, as OpenRouter",
            CHAT,
            &[
                A,
                STOP,
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},
                   "finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#,
                DONE,
            ],
            counted(1, 1, 9),
        ),
    ]);
}

#[test]
fn completions() {
    let text = |text: &str| format!(r#"{{"choices":[{{"text":"{text}","index":0}}]}}"#);
    let end = r#"{"choices":[{"text":"","index":0,"finish_reason":"length"}]}"#;
    let last = r#"{"choices":[{"text":"a","index":0,"finish_reason":"stop"}]}"#;
    let (a, b) = (&*text("a"), &*text("b"));
    check(&[
        Case::events("usual", TEXTS, &[a, b, end, DONE], good(2, None)),
        Case::events("the last has text", TEXTS, &[a, b, last, THREE, DONE], counted(3, 3, 9)),
        Case::events("no mark", TEXTS, &[a, end], good(1, None)),
        Case::events("no reason", TEXTS, &[a, b, a, THREE], counted(3, 3, 9)),
    ]);
}

/// Chunks of several choices do not follow one another, so that there is no ITL.
#[test]
fn several_choices() {
    let of = |i: u32, delta: &str, finish: &str| {
        format!(r#"{{"choices":[{{"index":{i},"delta":{delta},"finish_reason":{finish}}}]}}"#)
    };
    let a = |i| of(i, r#"{"content":"a"}"#, "null");
    let stop = |i| of(i, "{}", r#""stop""#);
    let data = [a(0), a(1), a(0), stop(1), stop(0)];
    let mut data: Vec<&str> = data.iter().map(|data| &**data).collect();
    data.extend([THREE, DONE]);
    let Right::Good(all) = counted(3, 3, 9) else { unreachable!() };
    let right = Right::Good(Good { several: true, ..all });
    check(&[Case::events("two", CHAT, &data, right)]);
}

#[test]
fn messages() {
    let named = |data: &str| {
        let name = data.split('"').nth(3).expect("a type");
        format!("event: {name}\n{}", event(data))
    };
    let start = r#"{"type":"message_start","message":{"content":[],"usage":
{"input_tokens":9,"output_tokens":1}}}"#;
    let text = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#;
    let thinking =
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}"#;
    let signature =
        r#"{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}}"#;
    let tool = r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":{}}}"#;
    let input =
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#;
    let block = r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#;
    let ping = r#"{"type":"ping"}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let case = |name, data: &[&str], right| {
        let parts = data.iter().map(|data| named(data)).collect();
        Case { name, path: MESSAGES, parts, right }
    };
    let done = &event(DONE);
    let mut with_mark = case("a mark", &[start, text, text, end, stop], counted(2, 2, 9));
    with_mark.parts.push(done.clone());
    check(&[
        case("usual", &[start, block, ping, text, text, end, stop], counted(2, 2, 9)),
        case("no last event", &[start, block, text, text, end], counted(2, 2, 9)),
        case("no reason", &[start, text, text, stop], good(2, None)),
        case("thinking", &[start, thinking, signature, end, stop], counted(1, 2, 9)),
        case("a tool", &[start, tool, input, end, stop], counted(2, 2, 9)),
        with_mark,
    ]);
}
