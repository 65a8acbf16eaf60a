#![no_main]

#[path = "../shared/parts.rs"]
mod shared;

libfuzzer_sys::fuzz_target!(|data: &[u8]| shared::parts(data));
