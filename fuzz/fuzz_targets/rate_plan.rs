#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| prony_proto::fuzzing::rate_plan(data));
