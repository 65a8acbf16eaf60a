//! Rules about single lines.

use super::lexer::{COMMENT, LITERAL, Source};
use super::{COLUMNS, Finding, Measures};

/// Unfinished work and debugging aids in code.
const BANNED_CODE: [(&str, &str); 6] = [
    ("dbg!", "leftover of a debugging session"),
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
    ("#[ignore", "a slow test listens to SLOW=1 instead"),
    ("#[allow(", "use #[expect(..., reason = \"...\")]"),
    ("#![allow(", "use #![expect(..., reason = \"...\")]"),
];

/// The same in comments.
const BANNED_NOTES: [&str; 2] = ["FIXME", "XXX:"];

/// Folders of a particular machine.
const MACHINE: [&str; 3] = ["/work/", "/root/", "/Users/"];

/// Rules for every text file.
pub(super) fn check_any(path: &str, text: &str, findings: &mut Vec<Finding>) {
    // The sources of the rules name the words that they forbid.
    if path.starts_with("xtask/src/tidy/") {
        return;
    }
    let mut find = |line: usize, what: String| {
        findings.push(Finding { path: path.to_owned(), line, what });
    };
    let is_ours =
        [".rs", ".md", ".toml", ".yml", ".py", ".sh", ".c", ".h"].iter().any(|e| path.ends_with(e));
    let is_doc = path.ends_with(".md");
    for (i, line) in text.lines().enumerate() {
        let n = i + 1;
        if is_ours && line.trim_end() != line {
            find(n, "space at the end of the line".to_owned());
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            find(n, "a merge was not finished".to_owned());
        }
        for folder in MACHINE.iter().chain(is_doc.then_some(&"/tmp/")) {
            if begins_a_path(line, folder) {
                find(n, format!("a path of one machine: {folder}"));
            }
        }
    }
    if is_ours && !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        find(text.lines().count(), "a file ends with one line feed".to_owned());
    }
}

/// Whether a path in the line starts with `folder`.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}".contains(c)))
}

/// Rules for Rust.
pub(super) fn check_rust(
    path: &str,
    source: &Source<'_>,
    findings: &mut Vec<Finding>,
    measures: &mut Measures,
) {
    for (i, (line, code)) in source.lines.iter().zip(&source.code).enumerate() {
        let mut find = |what: String| {
            findings.push(Finding { path: path.to_owned(), line: i + 1, what });
        };
        if is_too_wide(line, code) {
            *measures.entry(("wide-lines", path.to_owned())).or_default() += 1;
        }
        for (token, why) in BANNED_CODE {
            if code.match_indices(token).any(|(at, _)| !ends_in_word(&code[..at])) {
                find(format!("{token}: {why}"));
            }
        }
        let is_doc = ["///", "//!"].iter().any(|mark| line.trim_start().starts_with(mark));
        if is_doc && line.contains("```") && !path.starts_with("xtask/src/tidy/") {
            find("an example that `cargo xtask ci` does not run: write a test".to_owned());
        }
        if code.contains(COMMENT) && !path.starts_with("xtask/src/tidy/") {
            for note in BANNED_NOTES.iter().filter(|n| line.contains(**n)) {
                find(format!("{note}: do it, or write an issue"));
            }
        }
        if has_word(code, "unsafe") {
            if !may_be_unsafe(path) {
                find("unsafe code lives in prony-io only".to_owned());
            } else if code.contains("unsafe {") && !has_reason(source, i) {
                find("unsafe block without its SAFETY: reason".to_owned());
            }
        }
    }
}

/// Whether a line is too wide without its literals. Lines with a URL never are.
fn is_too_wide(line: &str, code: &str) -> bool {
    let literal = code.chars().filter(|&c| c == LITERAL).count();
    line.chars().count() - literal > COLUMNS && !line.contains("://")
}

/// The test with a counting allocator, which needs unsafe code.
fn may_be_unsafe(path: &str) -> bool {
    path.starts_with("crates/prony-io/") || path.ends_with("/tests/alloc.rs")
}

fn has_reason(source: &Source<'_>, line: usize) -> bool {
    source.lines[line.saturating_sub(8)..=line].iter().any(|l| l.contains("SAFETY:"))
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use crate::tidy::{Measures, check, findings_in, our_walls};

    #[test]
    fn reports_lines_that_break_a_rule() {
        for (path, text, want) in [
            ("a.rs", "fn f() { dbg!(1) }\n", "a.rs:1: dbg!: leftover of a debugging session"),
            ("a.rs", "\nfn f() { todo!() }\n", "a.rs:2: todo!: finish it"),
            ("a.rs", "unimplemented!()\n", "a.rs:1: unimplemented!: finish it"),
            (
                "a.rs",
                "#[ignore = \"slow\"]\n",
                "a.rs:1: #[ignore: a slow test listens to SLOW=1 instead",
            ),
            (
                "a.rs",
                "#[allow(dead_code)]\n",
                "a.rs:1: #[allow(: use #[expect(..., reason = \"...\")]",
            ),
            ("a.rs", "// FIXME later\n", "a.rs:1: FIXME: do it, or write an issue"),
            ("a.rs", "unsafe { x() }\n", "a.rs:1: unsafe code lives in prony-io only"),
            (
                "crates/prony-io/src/a.rs",
                "unsafe { x() }\n",
                "crates/prony-io/src/a.rs:1: unsafe block without its SAFETY: reason",
            ),
            ("a.md", "see /work/x\n", "a.md:1: a path of one machine: /work/"),
            ("a.md", "see `/tmp/x`\n", "a.md:1: a path of one machine: /tmp/"),
            ("a.md", "end \nx\n", "a.md:1: space at the end of the line"),
            ("a.md", "end", "a.md:1: a file ends with one line feed"),
            ("a.txt", "<<<<<<< HEAD\n", "a.txt:1: a merge was not finished"),
        ] {
            assert_eq!(findings_in(path, text), [want], "{text}");
        }
    }

    #[test]
    fn accepts_lines_that_break_no_rule() {
        for (path, text) in [
            ("a.rs", "// dbg!(1)\nlet s = \"todo!()\";\n"),
            ("a.rs", "#[expect(dead_code, reason = \"x\")]\n#![forbid(unsafe_code)]\n"),
            ("crates/prony-io/src/a.rs", "// SAFETY: x is alive.\nlet y =\n    unsafe { x() };\n"),
            ("crates/prony-core/tests/alloc.rs", "unsafe impl A for B {}\n"),
            ("a.md", "https://host/work/x, target/tmp/x, $TMPDIR/tmp/x\n"),
            ("a.rs", "let p = \"/tmp/x\";\n"),
        ] {
            assert_eq!(findings_in(path, text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn reports_large_files() {
        let text = "x".repeat(100 * 1024) + "\n";
        assert_eq!(findings_in("a.bin", &text).len(), 1);
        assert_eq!(findings_in("docs/schema/a.json", &text), Vec::<String>::new());
    }

    #[test]
    fn counts_wide_lines_without_literals_and_urls() {
        let wide = format!("// {}\n", "x".repeat(98));
        let literal = format!("let x = \"{}\";\n", "x".repeat(98));
        let url = format!("// https://{}\n", "x".repeat(98));
        let mut measures = Measures::new();
        let text = format!("{wide}{literal}{url}{wide}");
        check("a.rs", text.as_bytes(), &our_walls(), &mut Vec::new(), &mut measures);
        assert_eq!(measures.get(&("wide-lines", "a.rs".to_owned())), Some(&2));
    }
}
