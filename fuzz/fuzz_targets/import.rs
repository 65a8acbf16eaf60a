#![no_main]

use prony_import::{Format, Options, import};

const FORMATS: [Format; 8] = [
    Format::Har,
    Format::Curl,
    Format::OpenApi,
    Format::Postman,
    Format::Vegeta,
    Format::Http,
    Format::Urls,
    Format::Wsesslog,
];

// The first byte chooses the format. The corpus of damaged files is in prony-import's tests.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let format = FORMATS[usize::from(*first) % FORMATS.len()];
    match import(format, "file", bytes, &Options::default()) {
        Ok(found) => assert!(!found.write("x").is_empty()),
        Err(why) => assert!(why.starts_with("file"), "{why}"),
    }
});
