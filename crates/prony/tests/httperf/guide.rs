//! The guide on testing a POST service is correct: its commands run, and their output is that in
//! the guide.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::program::have;
use crate::reserved::reserved_port;

/// The marker after the output of a block of commands.
const MARK: &str = "---- end of a block";

/// A block of commands, and their output in the guide.
#[derive(Debug, Default)]
struct Step {
    commands: String,
    shown: Vec<String>,
}

fn steps(guide: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = None;
    for line in guide.lines() {
        match (inside, line) {
            (None, "```sh") => {
                steps.push(Step::default());
                inside = Some("sh");
            }
            (None, "```text") => inside = Some("text"),
            (Some(_), "```") => inside = None,
            (Some(kind), line) => {
                let step = steps.last_mut().expect("commands come before what they print");
                match kind {
                    "sh" => step.commands += &format!("{line}\n"),
                    _ => step.shown.push(line.to_owned()),
                }
            }
            _ => {}
        }
    }
    steps
}

/// The line with the figures of the run masked.
fn masked(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        let mut number = false;
        for c in word.chars() {
            if !(c.is_ascii_digit() || number && c == '.') {
                out.push(c);
            } else if !number {
                out.push('#');
            }
            number = c.is_ascii_digit() || number && c == '.';
        }
        out.push(' ');
    }
    out
}

/// The line for the comparison. Whether the client has enough processor time depends on the other
/// load of the machine, and with it the verdict.
fn compared(line: &str) -> String {
    if line.trim_start().starts_with("verdict ") { "verdict".into() } else { masked(line) }
}

fn printed(out: &Output) -> Vec<String> {
    let (text, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}: {text}\n{errors}", out.status);
    text.split(&format!("{MARK}\n")).map(str::to_owned).collect()
}

/// Run all commands in one shell, like a reader, who goes on after a verdict.
fn typed(steps: &[Step], root: &Path) -> Output {
    let folder = TempDir::new().expect("a folder");
    symlink(root.join("examples"), folder.path().join("examples")).expect("a link");
    let port = reserved_port().to_string();
    // The service that it starts is always stopped with it.
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) || true' EXIT\n");
    script += "prony() { command prony \"$@\" || [ $? = 98 ]; }\n";
    for step in steps {
        script += &step.commands.replace("5000", &port);
        script += &format!("echo '{MARK}'\n");
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_prony")).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    Command::new("timeout")
        .args(["80", "bash", "-c", &script])
        .env("PATH", path)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash")
}

#[test]
fn the_guide_on_post_services_is_correct() {
    if !["python3", "curl", "bash"].into_iter().all(have) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a path");
    let file = root.join("docs/guide/testing-a-post-service.md");
    let steps = steps(&fs::read_to_string(file).expect("the guide"));
    assert_eq!(steps.len(), 7);
    let printed = printed(&typed(&steps, &root));
    for (step, printed) in steps.iter().zip(&printed) {
        let lines: Vec<String> = printed.lines().map(compared).collect();
        for line in &step.shown {
            assert!(
                lines.contains(&compared(line)),
                "`{line}` is not in what was printed: {printed}"
            );
        }
    }
    // The conclusions in the guide. The service takes 200 ms, then at least 50 ms.
    let before = figure(&printed[2], "Reply time [ms]: response ");
    let after = figure(&printed[5], "Reply time [ms]: response ");
    assert!(before > 200.0 && after > 50.0, "{before} and {after} ms");
    // At first, requests queue. How long they take afterwards depends on the machine.
    for (block, least) in [(4, 600.0), (6, 50.0)] {
        let mean = figure(&printed[block], "replies 24, response mean ");
        assert!(mean > least, "{mean} ms: {}", printed[block]);
    }
}

/// The number after a text.
fn figure(printed: &str, text: &str) -> f64 {
    let rest = printed.split(text).nth(1).unwrap_or_else(|| panic!("no `{text}` in {printed}"));
    let word = rest.split_whitespace().next().expect("a word");
    word.parse().unwrap_or_else(|e| panic!("{word}: {e}"))
}

#[test]
fn masks_figures_only() {
    assert_eq!(masked("  a 12.5 ms, 3/4:  x9"), "a # ms, #/#: x# ");
    assert_eq!(masked("2xx=10."), "#xx=# ");
    assert_ne!(masked("2xx=10 a"), masked("2xx=10 b"));
    let verdict = "  verdict       VALID";
    assert_eq!(compared(verdict), compared("verdict CLIENT-LIMITED"));
}
