#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| prony_run::plan_file::fuzzing::plan_file(data));
