#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| prony_server::fuzzing::serve(data));
