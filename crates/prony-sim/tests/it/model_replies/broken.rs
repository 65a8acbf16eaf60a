//! Replies that were cut, or report an error.

use super::{CHAT, Case, MESSAGES, Right, TEXTS, check, event};

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const A: &str = r#"{"choices":[{"index":0,"delta":{"content":"a "},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const START: &str = r#"{"type":"message_start","message":{"usage":{"output_tokens":1}}}"#;
const TEXT: &str = r#"{"type":"content_block_delta","delta":{"text":"a"}}"#;

fn cut(name: &'static str, path: usize, data: &[&str]) -> Case {
    Case::events(name, path, data, Right::Truncated)
}

#[test]
fn replies_without_an_end() {
    let so_far = r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":3}}"#;
    let nothing = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}"#;
    let one = r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#;
    let unsaid = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}"#;
    let text = r#"{"choices":[{"text":"a","index":0,"finish_reason":null}]}"#;
    let block = r#"{"type":"content_block_stop","index":0}"#;
    let open =
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":2}}"#;
    check(&[
        cut("after chunks", CHAT, &[ROLE, A, A, A]),
        cut("after the role", CHAT, &[ROLE]),
        cut("nothing", CHAT, &[]),
        Case::new("comments", CHAT, &[": PROCESSING\n\n", ":\n\n"], Right::Truncated),
        cut("the number so far", CHAT, &[so_far, so_far]),
        cut("a first number of nothing", CHAT, &[nothing, A, A]),
        cut("another choice", CHAT, &[A, one, STOP]),
        cut("an empty reason", CHAT, &[unsaid, unsaid]),
        Case::new(
            "within its last event",
            CHAT,
            &[&event(A), &format!("data: {STOP}\n")],
            Right::Truncated,
        ),
        Case::new("within a line", CHAT, &[&event(A), "data: {\"choi"], Right::Truncated),
        cut("texts", TEXTS, &[text, text]),
        cut("no texts", TEXTS, &[]),
        cut("the number before the message", MESSAGES, &[START]),
        cut("after texts", MESSAGES, &[START, TEXT, TEXT]),
        cut("after a block", MESSAGES, &[START, TEXT, block]),
        cut("a delta without a reason", MESSAGES, &[START, TEXT, open]),
        cut("pings", MESSAGES, &[START, r#"{"type":"ping"}"#]),
    ]);
}

#[test]
fn errors_in_streams() {
    let a = &event(A);
    let stop = &event(STOP);
    let events = |name, parts: &[&str]| Case::new(name, CHAT, parts, Right::Error);
    check(&[
        events("JSON", &[a, "event: error\ndata: {\"message\":\"died\",\"code\":500}\n\n"]),
        events("a text", &[a, "event: error\ndata: died\n\n"]),
        events("empty data", &[a, "event: error\ndata\n\n"]),
        events("a comment", &[a, "event: error\n: died\n\n"]),
        events("nothing else", &[a, "event: error\n\n"]),
        events("first", &["event: error\n\n"]),
        events("the type after the data", &[a, "data: x\nevent:error\n\n"]),
        events("CRLF", &[a, "event: error\r\ndata: x\r\n\r\n"]),
        events("before the mark", &[a, "event: error\ndata: x\n\n", "data: [DONE]\n\n"]),
        events("after the reason", &[a, stop, "event: error\ndata: x\n\n"]),
    ]);
    let messages = |name, data: &str| {
        let parts = [event(START), event(TEXT), event(data)];
        Case { name, path: MESSAGES, parts: parts.into(), right: Right::Error }
    };
    check(&[
        messages("overloaded", r#"{"type":"error","error":{"type":"overloaded_error"}}"#),
        messages("the type alone", r#"{"type":"error"}"#),
        messages("a reason", r#"{"type":"message_delta","delta":{"stop_reason":"error"}}"#),
    ]);
}

#[test]
fn errors_in_messages() {
    for path in [CHAT, TEXTS] {
        let error = |name, data: &str| {
            let parts = [event(A), event(data), event("[DONE]")];
            Case { name, path, parts: parts.into(), right: Right::Error }
        };
        check(&[
            error("an object", r#"{"error":{"message":"out of memory"}}"#),
            error("a text", r#"{"error":"overloaded","error_type":"overloaded"}"#),
            error("the object is one", r#"{"object":"error","message":"died","code":400}"#),
            error("beside a choice", r#"{"error":{"code":1},"choices":[{"delta":{}}]}"#),
            error("in a choice", r#"{"choices":[{"delta":{},"error":{"code":502}}]}"#),
            error("elsewhere", r#"{"choices":[],"x_groq":{"error":"over_capacity"}}"#),
            error("a reason", r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#),
            error("abort", r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#),
            error("cancelled", r#"{"choices":[{"text":"","finish_reason":"CANCELLED"}]}"#),
            error("timeout", r#"{"choices":[{"text":"","finish_reason":"timeout"}]}"#),
        ]);
    }
}
