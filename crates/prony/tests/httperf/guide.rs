//! The guide on testing a POST service is correct: its commands run, and their output is that in
//! the guide.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::program::have;
use crate::reserved::reserved_port;
use crate::stolen::{STOLEN_MIN, stolen};

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

/// The state of the machine during the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// Every verdict must be that of the guide.
    Quiet,
    /// The kernel reports that CPU time was stolen: any verdict is allowed, the rest must be as in
    /// the guide.
    Taken,
}

impl Host {
    /// The line for the comparison.
    fn compared(self, line: &str) -> String {
        match self {
            Self::Taken if line.trim_start().starts_with("verdict ") => "verdict".into(),
            _ => masked(line),
        }
    }
}

/// The output of each block, and the state of the machine. If a verdict is not `VALID`, all
/// commands are repeated, as a reader would do.
fn typed(steps: &[Step], root: &Path) -> (Host, Vec<String>) {
    let mut out = None;
    for _ in 0..3 {
        let before = stolen();
        let this = typed_once(Host::Quiet, steps, root);
        let taken = stolen() - before;
        if this.status.code() == Some(98) && taken >= STOLEN_MIN {
            return (Host::Taken, printed(&typed_once(Host::Taken, steps, root)));
        }
        let again = this.status.code() == Some(98);
        out = Some(this);
        if !again {
            break;
        }
    }
    (Host::Quiet, printed(&out.expect("there was a first time")))
}

fn printed(out: &Output) -> Vec<String> {
    let (text, errors) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}: {text}\n{errors}", out.status);
    text.split(&format!("{MARK}\n")).map(str::to_owned).collect()
}

/// Run all commands in one shell, like a reader.
fn typed_once(host: Host, steps: &[Step], root: &Path) -> Output {
    let folder = TempDir::new().expect("a folder");
    symlink(root.join("examples"), folder.path().join("examples")).expect("a link");
    let port = reserved_port().to_string();
    // The service that it starts is always stopped with it.
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) || true' EXIT\n");
    if host == Host::Taken {
        script += "prony() { command prony \"$@\" || [ $? = 98 ]; }\n";
    }
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
    let (host, printed) = typed(&steps, &root);
    for (step, printed) in steps.iter().zip(&printed) {
        let lines: Vec<String> = printed.lines().map(|line| host.compared(line)).collect();
        for line in &step.shown {
            assert!(
                lines.contains(&host.compared(line)),
                "`{line}` is not in what was printed: {printed}"
            );
        }
    }
    // The conclusions in the guide. The service takes 200 ms, then at least 50 ms.
    let before = figure(&printed[2], "Reply time [ms]: response ");
    let after = figure(&printed[5], "Reply time [ms]: response ");
    assert!(before > 200.0 && after > 50.0 && after < 0.7 * before, "{before} and {after} ms");
    for (block, queue) in [(4, true), (6, false)] {
        let mean = figure(&printed[block], "replies 24, response mean ");
        assert_eq!(mean > 600.0, queue, "{mean} ms: {}", printed[block]);
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
    assert_eq!(Host::Taken.compared(verdict), Host::Taken.compared("verdict CLIENT-LIMITED"));
    assert_ne!(Host::Quiet.compared(verdict), Host::Quiet.compared("verdict CLIENT-LIMITED"));
}
