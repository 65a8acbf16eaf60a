//! Finds the paths in a source file, with their lines.
//!
//! Paths in a macro's output and in literals (such as serde's `with = "…"`) are not found. Names
//! that are qualified with an imported module are not needed, because the `use` of the module
//! counts.

use std::ops::Range;

use super::lexer::Source;

/// A path. A group is split into its paths: `use a::{b, c}` is two.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Its segments, from `crate`, `self`, `super` or a name; never a trailing `self` or `*`.
    pub(super) path: Vec<String>,
    /// The name that a `use` gives it.
    pub(super) known_as: Option<String>,
    /// Whether that is a `pub use`, for other modules.
    pub(super) is_passed_on: bool,
    /// The enclosing inline modules, outermost first.
    pub(super) within: Vec<String>,
    /// From 1.
    pub(super) line: usize,
}

/// The paths in a file.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) named: Vec<Named>,
    /// Submodules that are declared for tests only (`#[cfg(test)] mod x;`).
    pub(super) test_modules: Vec<Vec<String>>,
}

/// Whether the whole file belongs to the tests.
pub(super) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

/// All paths in a file, except in items that are compiled for tests only.
pub(super) fn read(source: &Source<'_>) -> Imports {
    let code = source.code.join("\n");
    let tests = test_items(&code);
    let inline = inline_modules(&code);
    let within = |at: usize| -> Vec<String> {
        inline.iter().filter(|(span, _)| span.contains(&at)).map(|(_, n)| n.clone()).collect()
    };
    let mut imports = Imports::default();
    for span in &tests {
        if let Some(name) = declared_module(&code[span.clone()]) {
            let mut module = within(span.start);
            module.push(name.to_owned());
            imports.test_modules.push(module);
        }
    }
    for (at, is_use, leaves) in paths(&code) {
        let is_passed_on = is_use && is_public(&code[..at]);
        if tests.iter().any(|span| span.contains(&at)) {
            continue;
        }
        for leaf in leaves {
            let known_as = if is_use { leaf.known_as() } else { None };
            let mut path = leaf.path;
            if path.len() > 1 && path.last().is_some_and(|s| s == "self" || s == "*") {
                path.pop();
            }
            let at = at + leaf.offset;
            let line = 1 + code[..at].matches('\n').count();
            imports.named.push(Named { path, known_as, is_passed_on, within: within(at), line });
        }
    }
    imports
}

/// Whether the `use` at the end of this code is public.
fn is_public(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with("pub")
}

/// A path of a group.
#[derive(Debug)]
struct Leaf {
    path: Vec<String>,
    alias: Option<String>,
    /// The offset of its last segment from the start of the group, in bytes.
    offset: usize,
}

impl Leaf {
    fn known_as(&self) -> Option<String> {
        if self.alias.is_some() {
            return self.alias.clone();
        }
        self.path.iter().rev().find(|s| *s != "self").filter(|s| *s != "*").cloned()
    }
}

/// Every path with two segments or in a `use`: its offset, whether it is in a `use`, and its
/// leaves.
fn paths(code: &str) -> Vec<(usize, bool, Vec<Leaf>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let len = word_len(&code[at..]);
        if len == 0 {
            at += code[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let is_use = &code[at..at + len] == "use" && code[at + len..].starts_with([' ', '\n']);
        let is_path = code[at + len..].starts_with("::");
        // Skip fields, methods, the rest of `<T as Trait>::name`, and visibilities.
        let before = &code[..at];
        let goes_on = before.ends_with("::") || before.ends_with('.') && !before.ends_with("..");
        if !(is_use || is_path) || goes_on || before.ends_with("pub(in ") {
            at += len;
            continue;
        }
        let begin = if is_use { at + len } else { at };
        let mut leaves = Vec::new();
        let length = expand(code, begin, is_use, &mut Vec::new(), &mut leaves) - begin;
        for leaf in &mut leaves {
            leaf.offset -= begin;
        }
        found.push((begin, is_use, leaves));
        at = begin + length.max(1);
    }
    found
}

/// The length of the word at the start of a text, `r#` included.
fn word_len(text: &str) -> usize {
    let raw = if text.starts_with("r#") { 2 } else { 0 };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text[raw..].find(|c| !is_word(c)).map_or(text.len(), |n| raw + n)
}

fn skip_space(code: &str, at: usize) -> usize {
    let is_space = |c: char| c.is_whitespace() || c == super::lexer::COMMENT;
    code.len() - code[at..].trim_start_matches(is_space).len()
}

/// Parse the path or the group of paths at `at`; returns its end. Outside a `use`, a type follows
/// `as`.
fn expand(
    code: &str,
    at: usize,
    is_use: bool,
    prefix: &mut Vec<String>,
    out: &mut Vec<Leaf>,
) -> usize {
    let depth = prefix.len();
    let mut at = skip_space(code, at);
    if code[at..].starts_with('{') {
        at += 1;
        loop {
            at = skip_space(code, expand(code, at, is_use, prefix, out));
            let stopped = code[at..].chars().next();
            at += stopped.map_or(0, char::len_utf8);
            if stopped != Some(',') {
                return at;
            }
        }
    }
    let len = if code[at..].starts_with('*') { 1 } else { word_len(&code[at..]) };
    if len == 0 {
        return at;
    }
    prefix.push(code[at..at + len].to_owned());
    let offset = at;
    at += len;
    if code[at..].starts_with("::") && !code[at + 2..].starts_with('<') {
        at = expand(code, at + 2, is_use, prefix, out);
    } else {
        let next = skip_space(code, at);
        let mut alias = None;
        if is_use && code[next..].starts_with("as ") {
            let begin = skip_space(code, next + 3);
            at = begin + word_len(&code[begin..]);
            alias = Some(code[begin..at].to_owned());
        }
        out.push(Leaf { path: prefix.clone(), alias, offset });
    }
    prefix.truncate(depth);
    at
}

/// The ranges of the items with `#[cfg(test)]`, attributes included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (at, _) in code.match_indices(attribute) {
            found.push(at..item_end(code, at));
        }
    }
    found
}

/// The end of the item with its first attribute at `at`: after its `;`, its body, or (of a field or
/// a match arm) its comma.
fn item_end(code: &str, at: usize) -> usize {
    let mut at = at;
    while code[at..].starts_with("#[") {
        at = skip_space(code, closing(code, at + 1));
    }
    let item = &code[at..];
    let is_use = item.split_whitespace().take(2).any(|w| w == "use");
    let is_item =
        item.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).take(4).any(|w| {
            matches!(w, "fn" | "mod" | "impl" | "struct" | "enum" | "const" | "static" | "trait")
        });
    let mut i = at;
    while i < code.len() {
        match code.as_bytes()[i] {
            b';' => return i + 1,
            b',' if !is_use && !is_item => return i + 1,
            b'}' | b')' | b']' => return i,
            b'{' if !is_use => return closing(code, i),
            b'{' | b'(' | b'[' => i = closing(code, i),
            _ => i += 1,
        }
    }
    code.len()
}

/// The offset after the bracket that closes the one at `at`.
fn closing(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, b) in code.bytes().enumerate().skip(at) {
        match b {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return i + 1;
        }
    }
    code.len()
}

/// The name in `mod x;` at the end of an item.
fn declared_module(item: &str) -> Option<&str> {
    let (_, name) = item.strip_suffix(';')?.rsplit_once("mod ")?;
    (word_len(name) == name.len()).then_some(name)
}

/// The ranges of inline modules with their names, outer ones first.
fn inline_modules(code: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("mod ") {
        let name = &code[at + 4..];
        let name = &name[..word_len(name)];
        let open = at + 4 + name.len();
        let is_keyword = at == 0 || code[..at].ends_with(|c: char| c.is_whitespace());
        if is_keyword && !name.is_empty() && code[open..].starts_with(" {") {
            found.push((open + 1..closing(code, open + 1), name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        read(&Source::new(text)).named.iter().map(|n| n.path.join("::")).collect()
    }

    #[test]
    fn splits_paths_and_groups() {
        for (text, want) in [
            (
                "use crate::{a, b::C as D, e::{self, f::G}};\nfn f() { x(crate::h::i(1), crate::j::K::<u8>::new()); }",
                &[
                    "crate::a",
                    "crate::b::C",
                    "crate::e",
                    "crate::e::f::G",
                    "crate::h::i",
                    "crate::j::K",
                ][..],
            ),
            ("use {crate::a, super::b::{c}};", &["crate::a", "super::b::c"]),
            ("pub(crate) use self::a::*;", &["self::a"]),
            ("let n = crate::a::N as crate::b::T;", &["crate::a::N", "crate::b::T"]),
            ("pub(in crate::a) fn f() {}\npub(super) fn g() {}", &[]),
            ("use crate::{\n    // crate::no\n    a, /* b, */ c,\n};", &["crate::a", "crate::c"]),
            ("let s = \"crate::a\"; // crate::b", &[]),
            (
                "$crate::a::f!(x.crate_::y); T::a; 0..crate::b::N",
                &["crate::a::f", "T::a", "crate::b::N"],
            ),
            ("<T as crate::a::B>::c()", &["crate::a::B"]),
        ] {
            let found: Vec<String> = shown(text).into_iter().filter(|p| p != "crate_::y").collect();
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn ignores_items_for_tests() {
        let text = "use crate::a::A;\n#[cfg(test)]\nuse crate::b::{B, C};\n#[cfg(test)]\nmod tests;\n\
                    #[cfg(test)]\npub(crate) fn f<A, B>(x: [u8; 3]) {\n    crate::c::d();\n}\nfn g() { crate::e::f() }\n\
                    struct S {\n    #[cfg(test)]\n    x: crate::h::X,\n    y: crate::i::Y,\n}\n\
                    #[cfg(test)]\n#[expect(dead_code)]\nmod more {\n    use crate::j;\n}\nuse crate::k;\n";
        let imports = read(&Source::new(text));
        assert_eq!(shown(text), ["crate::a::A", "crate::e::f", "crate::i::Y", "crate::k"]);
        assert_eq!(imports.test_modules, [["tests"]]);
    }

    #[test]
    fn keeps_lines_modules_and_aliases() {
        let text = "mod inner {\n    use super::super::{\n        a::A as B,\n        c,\n    };\n}\nuse crate::d;\n";
        let named = read(&Source::new(text)).named;
        let seen: Vec<_> = named
            .iter()
            .map(|n| (n.line, n.within.join("::"), n.known_as.clone().unwrap_or_default()))
            .collect();
        let want = [(3, "inner", "B"), (4, "inner", "c"), (7, "", "d")];
        assert_eq!(seen, want.map(|(l, w, k)| (l, w.to_owned(), k.to_owned())));
    }
}
