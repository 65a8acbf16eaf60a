#![no_main]

use prony_llm::{Turns, read_prompts, read_trace};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = read_prompts(text, Turns::First);
    let _ = read_prompts(text, Turns::All);
    let _ = read_trace(text);
});
