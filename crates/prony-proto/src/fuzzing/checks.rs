//! Fuzz target: checks of replies.

use super::plan;
use prony_plan::plan::{Check, Checks};
use prony_plan::script::{Capture, Checker, Figures};

/// Fuzz target: a check on the first line, and a reply: the value of a header on the second line,
/// and the body. The name of a coding is the value of Content-Encoding, anything else that of
/// Content-Type. A check that was read is read back from its text, gives one result for each
/// reply, and this does not depend on how the body is split.
///
/// # Panics
/// If a guarantee is violated.
pub fn checks(data: &[u8]) {
    let line = |data: &'_ [u8]| data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (text, rest) = data.split_at(line(data));
    let rest = rest.get(1..).unwrap_or_default();
    let (header, body) = rest.split_at(line(rest));
    let body = body.get(1..).unwrap_or_default();
    let Ok(text) = std::str::from_utf8(text) else { return };
    let check: Check = match text.parse() {
        Ok(check) => check,
        Err(why) => {
            let why: String = why;
            assert!(!why.is_empty());
            return;
        }
    };
    assert_eq!(check.to_string().parse().as_ref(), Ok(&check));
    let mut plan = plan(&["GET"]);
    plan.checks = Checks::of_all(vec![check]);
    plan.check().expect("the plan is valid");
    let checker = Checker::new(&plan).expect("there is a check");
    let status = u16::from(body.first().copied().unwrap_or(0)) + 200;
    let is_coding = |name: &&[u8]| header.trim_ascii().starts_with(name);
    let name: &[u8] = match [&b"gzip"[..], b"deflate", b"br", b"zstd"].iter().any(is_coding) {
        true => b"Content-Encoding",
        false => b"Content-Type",
    };
    let figures = Figures { status, length: body.len() as u64, time: 3_000_000 };
    let mut results = [1, 7, body.len().max(1)].map(|piece| {
        let mut capture = Capture::default();
        checker.header(&mut capture, 0, name, header);
        body.chunks(piece).for_each(|piece| capture.body(piece));
        let mut results = Vec::new();
        checker.judge(0, Some(&mut capture), figures, |check, passed| {
            results.push((check, passed));
        });
        assert_eq!(results.len(), 1);
        results
    });
    results.sort();
    assert_eq!(results[0], results[2]);
}
