#![no_main]

#[path = "../shared/wsesslog.rs"]
mod shared;

libfuzzer_sys::fuzz_target!(|data: &[u8]| shared::wsesslog(data));
