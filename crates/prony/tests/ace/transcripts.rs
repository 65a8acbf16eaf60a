//! Fifty calls of the original programs, with their output and exit codes.

use crate::program;

/// The recorded calls, standard error and exit codes of the original programs.
const REAL: &str = include_str!("../data/ace/options-and-errors.txt");

/// Calls with intended differences, and the reasons.
const OTHERWISE: [&str; 4] = [
    // The original could not resolve its own default host.
    "SOCK_STREAM_clt -t tcp -s 17",
    "SOCK_STREAM_clt -t tcp -s abc",
    "SOCK_STREAM_clt -t tcp -s 5 -p 70000",
    // Dashes are supported.
    "SOCK_STREAM_clt -t tcp --payload-size-power-of-2 5",
];

struct Case {
    line: String,
    stderr: String,
    code: i32,
}

fn cases() -> Vec<Case> {
    let blocks = REAL.split("\n$ ./").chain(REAL.strip_prefix("$ ./").into_iter().take(0));
    let blocks: Vec<&str> = blocks.collect();
    let mut cases = Vec::new();
    for block in blocks {
        let block = block.strip_prefix("$ ./").unwrap_or(block);
        let Some((line, rest)) = block.split_once('\n') else { continue };
        let Some((said, end)) = rest.rsplit_once("[exit ") else { continue };
        let code = end.split(']').next().and_then(|c| c.parse().ok()).expect("an exit code");
        let stderr = said.strip_prefix("[stderr]\n").unwrap_or(said).to_owned();
        // Servers that were stopped have their own tests.
        if code != 124 {
            cases.push(Case { line: line.to_owned(), stderr, code });
        }
    }
    cases
}

/// A line with the numbers of process and thread masked.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let rest = line.strip_prefix('(').and_then(|l| l.split_once(") "));
        let is_ids = |ids: &str| ids.chars().all(|c| c.is_ascii_digit() || c == '|');
        match rest {
            Some((ids, rest)) if is_ids(ids) => out += &format!("(P|T) {rest}\n"),
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

#[test]
fn messages_and_exit_codes_match_the_original_programs() {
    let has_sctp = crate::sctp::kernel_has();
    let mut compared = 0;
    for case in cases() {
        let words: Vec<&str> = case.line.split(' ').collect();
        let (name, args) = (words[0], &words[1..]);
        let is_refused = case.stderr.contains("SCTP was NOT installed");
        if OTHERWISE.contains(&case.line.as_str()) || (is_refused && has_sctp) {
            continue;
        }
        let ended = program::run(name, args);
        assert_eq!(ended.code, Some(case.code), "{}: {ended:?}", case.line);
        assert_eq!(ended.stdout, "", "{}", case.line);
        let said = without_numbers(&ended.stderr);
        // Our message continues with the reason.
        let said = said.split("prony: ").next().unwrap_or_default();
        assert_eq!(said, without_numbers(&case.stderr), "{}", case.line);
        compared += 1;
    }
    assert!(compared >= if has_sctp { 30 } else { 35 }, "only {compared} calls");
}

#[test]
fn a_kernel_without_sctp_is_reported_with_alternatives() {
    if crate::sctp::kernel_has() {
        return;
    }
    for (name, way) in [("SOCK_STREAM_clt", "use TCP"), ("SOCK_SEQPACK_srv", "SOCK_STREAM_srv -t")]
    {
        let said = program::run(name, &["-s", "5"]).stderr;
        assert!(said.contains("this kernel has no SCTP") && said.contains("modprobe"), "{said}");
        assert!(said.contains(way), "{said}");
    }
}
