#![no_main]

#[path = "../shared/cookies.rs"]
mod shared;

libfuzzer_sys::fuzz_target!(|data: &[u8]| shared::cookies(data));
