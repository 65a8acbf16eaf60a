//! The command lines in the documentation and in the help texts are valid, and those for users of
//! other load generators run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::llm::WORDS;
use crate::rig::{Serve, side_by_side};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The documents of a folder and of those in it.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    // Design notes are historical.
    const SKIPPED: [&str; 4] = ["target", "design", "golden", "node_modules"];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.starts_with('.') || SKIPPED.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The pages that can have commands.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    documents(Path::new(ROOT), &mut found);
    found.sort();
    found
}

/// The commands in the shell blocks of a page, with their line numbers.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let lines = text.lines().enumerate().filter_map(|(i, line)| {
        if line.trim_start().starts_with("```") {
            inside = !inside && ["```sh", "```bash"].contains(&line.trim());
            return None;
        }
        inside.then_some((i + 1, line))
    });
    joined(lines)
}

/// The example commands of a help text.
fn examples(help: &str) -> Vec<(usize, String)> {
    let mut continued = false;
    let lines = help.lines().enumerate().filter_map(|(i, line)| {
        let line = line.trim_start_matches("Examples:");
        let is_usage = line.contains("[OPTIONS]");
        let is_command = continued || (line.trim_start().starts_with("prony ") && !is_usage);
        // Text in paragraphs is not indented.
        let is_command = is_command && line.starts_with(' ');
        continued = is_command && line.ends_with('\\');
        is_command.then_some((i + 1, line))
    });
    joined(lines)
}

/// Lines with a `\` at the end, joined with the next ones.
fn joined<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in lines {
        let (number, so_far) = open.take().unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => open = Some((number, so_far + part)),
            None => found.push((number, so_far + line)),
        }
    }
    found
}

/// A line with values instead of its shell variables and arithmetic, of which there are none in
/// single quotes.
fn with_values(line: &str) -> String {
    let parts = line.split('\'').enumerate();
    let parts = parts.map(|(i, part)| if i % 2 == 1 { part.to_owned() } else { valued(part) });
    parts.collect::<Vec<_>>().join("'")
}

fn valued(part: &str) -> String {
    let mut out = String::new();
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        if let Some(sum) = after.strip_prefix("((") {
            out += "1";
            rest = sum.split_once("))").map_or("", |(_, rest)| rest);
            continue;
        }
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        out += match &after[..end] {
            "" => "$",
            "at" => "4000000000",
            _ => "4",
        };
        rest = &after[end..];
    }
    out + rest
}

/// The calls of prony in a line of a shell script, without pipes and redirections. Another program
/// may start prony (`ssh HOST prony ...`, `sh -c 'prony ...'`).
fn calls(line: &str) -> Vec<Vec<String>> {
    let words =
        shlex::split(&with_values(line)).unwrap_or_else(|| panic!("quotes are not closed: {line}"));
    let ends = |word: &String| ["|", "&&", "||", ";", "&"].contains(&word.as_str());
    let mut found = Vec::new();
    for part in words.split(ends) {
        let redirected = |word: &&String| !word.starts_with('>') && !word.starts_with("2>");
        if let Some(at) = part.iter().position(|word| word == "prony") {
            found.push(part[at + 1..].iter().take_while(redirected).cloned().collect());
        } else {
            let nested = part.iter().filter(|word| word.starts_with("prony "));
            found.extend(nested.flat_map(|word| calls(word)));
        }
    }
    found
}

/// These commands read options in order, so that an unknown option at the end is refused last.
const NO_EXPLAIN: [&str; 17] = [
    "import",
    "record",
    "replay",
    "capacity",
    "compare",
    "serve",
    "echo",
    "rtt",
    "spectrum",
    "report",
    "merge",
    "worker",
    "ray-job",
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
    if !cfg!(feature = "grpc") && call.iter().any(|word| word.starts_with("grpc://")) {
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

/// The calls in these lines, with the place of each.
fn placed(source: &str, lines: Vec<(usize, String)>) -> Vec<(String, Vec<String>)> {
    let all = lines.into_iter().flat_map(|(number, line)| {
        let code = line.split(" # ").next().unwrap_or_default().to_owned();
        let calls = if code.contains("prony") { calls(&code) } else { Vec::new() };
        calls.into_iter().map(move |call| (format!("{source}:{number}: {line}"), call))
    });
    all.collect()
}

fn refused(calls: &[(String, Vec<String>)]) -> Vec<String> {
    let refused = calls.iter().filter_map(|(place, call)| Some((place, refusal(call)?)));
    refused.map(|(place, said)| format!("{place}\n{said}")).collect()
}

/// All calls of a page.
pub(crate) fn calls_of(page: &Path) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(page).expect("a page");
    placed(&page.display().to_string(), commands(&text))
}

#[test]
fn accepts_the_commands_in_the_documentation() {
    let calls: Vec<_> = pages().iter().flat_map(|page| calls_of(page)).collect();
    let refused = refused(&calls);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(calls.len() > 90, "only {} commands were found", calls.len());
}

#[test]
fn accepts_the_examples_in_the_help_texts() {
    let mut all = Vec::new();
    for command in ["", "run", "selftest", "echo", "rtt", "spectrum", "report", "merge", "serve"]
        .into_iter()
        .chain(["capacity", "compare", "llm"])
    {
        let words = [command, "--help"].into_iter().filter(|word| !word.is_empty());
        let out = Command::new(env!("CARGO_BIN_EXE_prony")).args(words).output();
        let help = String::from_utf8(out.expect("prony starts").stdout).expect("text");
        let found = placed(&format!("prony {command} --help"), examples(&help));
        assert!(!found.is_empty(), "the help of '{command}' has no example");
        // An ellipsis stands for the rest of a command line.
        all.extend(found.into_iter().filter(|(_, call)| !call.iter().any(|word| word == "...")));
    }
    let refused = refused(&all);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// A call that takes at most a few seconds: in virtual time, or (with options of another program)
/// for a shorter time and against the server at this address.
fn quick(call: &[String], address: &str) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    if prony_compat::is_known(&call[0]) {
        let port = address.split_once(':').map_or("", |(_, port)| port);
        let here = |word: &String| match word.as_str() {
            "8080" => port.to_owned(),
            "-d30s" => "-d1s".to_owned(),
            "2000" => "200".to_owned(),
            word => word.replace("127.0.0.1:8080", address),
        };
        return call.iter().map(here).collect();
    }
    let virtual_time = owned(&["--simulate", "1", "--simulate-latency", "exp:50ms"]);
    let files = call.iter().position(|word| word == "-o").unwrap_or(call.len());
    match call[0].as_str() {
        "check" => call.to_vec(),
        _ => [&call[..files], &virtual_time, &owned(&["--accept-invalid"])].concat(),
    }
}

/// Runs every command on the pages for users of other load generators.
#[test]
fn runs_the_commands_for_users_of_other_load_generators() {
    let server = Serve::start(&[]);
    let url = server.url("");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut pages = pages();
    pages.retain(|page| page.parent().is_some_and(|folder| folder.ends_with("coming-from")));
    assert_eq!(pages.len(), 9);
    side_by_side(&pages, |page| {
        let calls = calls_of(page);
        assert!(!calls.is_empty(), "{} has no command", page.display());
        for (place, call) in calls {
            let words = quick(&call, address);
            let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
            let out = prony.current_dir(ROOT).args(&words).output().expect("prony starts");
            let said = String::from_utf8_lossy(&out.stderr);
            let said = format!("{}{said}", String::from_utf8_lossy(&out.stdout));
            assert!(out.status.success() && !said.is_empty(), "{place}\n{words:?}\n{said}");
        }
    });
}

/// Runs the walk-through for language models, with shorter loads, against its own server.
#[test]
fn runs_the_walk_through_for_language_models() {
    let calls = calls_of(&Path::new(ROOT).join("docs/llm.md"));
    let (server, others): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|(_, call)| call[0] == "serve");
    let [(_, server)] = &server[..] else { panic!("one server: {server:?}") };
    let options: Vec<&str> = server[2..].iter().map(String::as_str).collect();
    let server = Serve::start(&options);
    let url = server.url("");
    assert!(others.len() >= 5, "{others:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let tokenizer = folder.path().join("tokenizer.json").display().to_string();
    fs::write(&tokenizer, WORDS).expect("a file");
    // Tokenizers are a feature.
    let others: Vec<_> = others
        .into_iter()
        .filter(|(_, call)| cfg!(feature = "tokenizer") || !call.contains(&"--tokenizer".into()))
        .collect();
    side_by_side(&others, |(place, call)| {
        let mut words: Vec<String> = call
            .iter()
            .map(|word| match word.as_str() {
                "5s" | "10s" | "30s" => "2s".to_owned(),
                // A search lasts at least 1,500 times the limit. This one is never kept.
                "ttft.p90 < 500ms" => "ttft.p90 < 10ms".to_owned(),
                "13m" => "15s".to_owned(),
                "llama/tokenizer.json" => tokenizer.clone(),
                word => word.replace("http://127.0.0.1:8080", url.trim_end_matches('/')),
            })
            .collect();
        if call[0] != "capacity" {
            words.push("--accept-invalid".into());
        }
        let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
        let begun = Instant::now();
        let out = prony.current_dir(ROOT).args(&words).output().expect("prony starts");
        assert!(begun.elapsed() < Duration::from_secs(60), "{place}: make {words:?} shorter");
        let said = String::from_utf8_lossy(&out.stdout);
        let is_right = match &call[..] {
            call if call.iter().any(|word| word == "--explain") => said.contains("tokens = "),
            // Too short a search has no number.
            call if call[0] == "capacity" => said.contains("trial") || said.contains("ttft.p90"),
            _ => said.contains("TTFT") && said.contains("ITL") && said.contains("per user"),
        };
        assert!(is_right, "{place}\n{words:?}\n{said}{}", String::from_utf8_lossy(&out.stderr));
    });
}

/// The commands and the plan on the page on gRPC have a schema here, so that their messages and
/// methods are checked, too; what can be simulated runs.
#[cfg(feature = "grpc")]
#[test]
fn runs_the_commands_of_the_page_on_grpc() {
    const SCHEMA: &str = "syntax = \"proto3\";\npackage shop;\n\
        message Item { string name = 1; int32 count = 2; }\n\
        message Answer { string name = 1; }\n\
        service Shop {\n\
            rpc Buy(Item) returns (Answer);\n\
            rpc Chat(stream Answer) returns (stream Answer);\n\
        }\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("shop.proto"), SCHEMA).expect("a file");
    let run = |words: &[&str], place: &str| {
        let mut prony = Command::new(env!("CARGO_BIN_EXE_prony"));
        let out = prony.current_dir(folder.path()).args(words).output().expect("prony starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{place}\n{words:?}\n{said}");
        String::from_utf8(out.stdout).expect("text")
    };
    let page = Path::new(ROOT).join("docs/grpc.md");
    let mut seen = Vec::new();
    for (place, call) in calls_of(&page) {
        let mut words: Vec<&str> = call.iter().map(String::as_str).collect();
        let runs = words.contains(&"--simulate");
        words.extend(if runs { &["--accept-invalid", "-v"][..] } else { &["--explain"] });
        let said = run(&words, &place);
        // What is sent is encoded, so the schema was read.
        assert!(said.contains(if runs { "OK" } else { "encoded = true" }), "{place}\n{said}");
        seen.push(runs);
    }
    assert_eq!(seen, [false, false, true]);
    let text = fs::read_to_string(&page).expect("a page");
    let plans: Vec<&str> = text.split("```toml\n").skip(1).collect();
    assert_eq!(plans.len(), 1);
    let plan = plans[0].split("```").next().expect("the end of a block");
    fs::write(folder.path().join("plan.toml"), plan).expect("a file");
    let said = run(&["check", "plan.toml"], "the plan");
    assert!(said.contains("1 session") && said.contains("1 server"), "{said}");
}

#[test]
fn rejects_invalid_commands() {
    let call = |line: &str| refusal(&calls(line)[0]);
    assert!(call("prony http://127.0.0.1:1/ -c 5 -d 1s > out.txt").is_none());
    assert!(call("prony http://127.0.0.1:1/ --connectoins 5").is_some());
    assert!(call("prony serve --latency exp:1ms 127.0.0.1:0 &").is_none());
    assert!(call("prony serve --latensy exp:1ms 127.0.0.1:0").is_some());
    assert_eq!(calls("curl x | prony a && prony b && prony 'c d'").len(), 3);
    let nested = calls("srun sh -c 'prony run a.toml --shard $((ID + 1))/$ALL --start-at $at'");
    let words = ["run", "a.toml", "--shard", "1/4", "--start-at", "4000000000"];
    assert_eq!(nested, [words.map(str::to_owned)]);
    assert_eq!(examples("  prony a \\\n     b\n      text\nExamples: prony c\n").len(), 2);
}
