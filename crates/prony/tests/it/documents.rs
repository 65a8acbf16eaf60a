//! The command lines in the documentation are valid.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The pages with commands.
fn pages() -> Vec<PathBuf> {
    let folder = |path: &str| {
        let entries = fs::read_dir(Path::new(ROOT).join(path)).expect("a folder of documents");
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    // Design notes are historical.
    ["", "docs", "docs/coming-from", "docs/guide"].into_iter().flat_map(folder).collect()
}

/// The commands in the `sh` blocks of a page, with their line numbers.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut open: Option<(usize, String)> = None;
    for (i, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        if fence {
            inside = !inside && line.trim() == "```sh";
            continue;
        }
        if !inside {
            continue;
        }
        let (number, mut so_far) = open.take().unwrap_or((i + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                so_far += part;
                open = Some((number, so_far));
            }
            None => found.push((number, so_far + line)),
        }
    }
    found
}

/// The calls of prony in a line of a shell script, without pipes and redirections.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("quotes are not closed: {line}"));
    let ends = |word: &String| ["|", "&&", "||", ";", "&"].contains(&word.as_str());
    words
        .split(ends)
        .filter_map(|part| {
            let (name, rest) = part.split_first()?;
            let redirected = |word: &&String| !word.starts_with('>') && !word.starts_with("2>");
            let rest: Vec<String> = rest.iter().take_while(redirected).cloned().collect();
            (name == "prony").then_some(rest)
        })
        .collect()
}

/// These commands read options in order, so that an unknown option at the end is refused last.
const NO_EXPLAIN: [&str; 12] = [
    "capacity",
    "compare",
    "serve",
    "echo",
    "rtt",
    "spectrum",
    "report",
    "merge",
    "selftest",
    "demo",
    "completions",
    "man",
];

/// The error message of a call, if it is invalid.
fn refusal(call: &[String]) -> Option<String> {
    const UNKNOWN: &str = "--no-such-option";
    let command = call.first().map_or("", String::as_str);
    if prony_compat::is_known(command) || ["--help", "-h", "--version"].contains(&command) {
        return None;
    }
    let by_unknown = NO_EXPLAIN.contains(&command);
    let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
    prony.current_dir(ROOT).args(call).env("XDG_STATE_HOME", "/nowhere");
    if by_unknown {
        prony.arg(UNKNOWN);
    } else if command != "check" && !call.iter().any(|word| word == "--explain") {
        prony.arg("--explain");
    }
    let out = prony.output().expect("prony starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    // Files of the reader do not exist here.
    let is_right = if by_unknown { said.contains(UNKNOWN) } else { out.status.success() };
    (!is_right && !said.contains("no such file or directory")).then_some(said)
}

#[test]
fn accepts_the_commands_in_the_documentation() {
    let mut checked = 0;
    let mut refused = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for (number, line) in commands(&text) {
            for call in calls(line.split(" # ").next().unwrap_or_default()) {
                checked += 1;
                if let Some(said) = refusal(&call) {
                    refused.push(format!("{}:{number}: {line}\n{said}", page.display()));
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(checked > 50, "only {checked} commands were found");
}

#[test]
fn rejects_invalid_commands() {
    let call = |line: &str| refusal(&calls(line)[0]);
    assert!(call("prony http://127.0.0.1:1/ -c 5 -d 1s > out.txt").is_none());
    assert!(call("prony http://127.0.0.1:1/ --connectoins 5").is_some());
    assert!(call("prony serve --latency exp:1ms 127.0.0.1:0 &").is_none());
    assert!(call("prony serve --latensy exp:1ms 127.0.0.1:0").is_some());
    assert_eq!(calls("curl x | prony a && prony b && prony 'c d'").len(), 3);
}
