#![no_main]

#[path = "../shared/plan_file.rs"]
mod shared;

libfuzzer_sys::fuzz_target!(|data: &[u8]| shared::plan_file(data));
