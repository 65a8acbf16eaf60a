#![no_main]

use prony_base::plain::{Sink, is_plain, plain};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for sink in [Sink::Line, Sink::Json, Sink::Toml] {
        let shown = plain(&text, sink);
        assert!(shown.chars().all(is_plain) && !shown.contains("##["), "{shown}");
        assert_eq!(plain(&shown, sink), shown);
    }
});
