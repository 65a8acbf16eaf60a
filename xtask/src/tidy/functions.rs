//! The lengths of functions and files.

use super::lexer::Source;
use super::{FILE_LINES, FUNCTION_LINES, Measures};

/// Measure functions and files that are over the limits.
pub(super) fn measure(path: &str, source: &Source<'_>, measures: &mut Measures) {
    if source.lines.len() > FILE_LINES {
        measures.insert(("file-lines", path.to_owned()), source.lines.len());
    }
    for (name, lines) in functions(source) {
        if lines > FUNCTION_LINES {
            // Of functions with the same name in a file, the longest counts.
            let entry = measures.entry(("function-lines", format!("{path}:{name}"))).or_default();
            *entry = lines.max(*entry);
        }
    }
}

/// Every function with a body, and its length. Relies on rustfmt: a body ends at the first closing
/// brace with the same indentation as its `fn`.
fn functions<'a>(source: &'a Source<'_>) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (i, line) in source.code.iter().enumerate() {
        let Some(name) = name_of(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closes = |l: &str| {
            l.len() > indent && l[..indent].trim().is_empty() && l[indent..].starts_with('}')
        };
        let ends_here = |l: &str| l.trim_end().ends_with(';') || l.trim_end().ends_with('}');
        if ends_here(line) {
            continue;
        }
        if let Some(n) = source.code[i + 1..].iter().position(|l| closes(l)) {
            found.push((name, n + 2));
        }
    }
    found
}

/// The name of the function that starts on this line.
fn name_of(line: &str) -> Option<&str> {
    let at = line.find("fn ")?;
    let before_is_modifiers = line[..at].split_whitespace().all(|w| {
        w.starts_with("pub")
            || w.ends_with(')')
            || matches!(w, "const" | "async" | "unsafe" | "extern" | "in")
            || w.chars().all(|c| c == super::lexer::LITERAL)
    });
    let rest = &line[at + 3..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (before_is_modifiers && end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        let source = Source::new(text);
        functions(&source).into_iter().map(|(n, l)| (n.to_owned(), l)).collect()
    }

    #[test]
    fn counts_lines_from_fn_to_closing_brace() {
        let text = "impl A {\n    pub(crate) const fn a(\n        x: u8,\n    ) -> u8 {\n        x\n    }\n\n    fn one() {}\n\
                    \n    unsafe extern \"C\" fn b() {\n        if x {\n        }\n    }\n}\ntrait T {\n    fn c();\n}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 5), ("b".to_owned(), 4)]);
        assert_eq!(lengths("// fn no() {\n// }\nlet f: fn (u8) = g;\n"), []);
    }

    #[test]
    fn measures_functions_and_files_over_the_limits() {
        let body = "    x();\n".repeat(FUNCTION_LINES - 1);
        let text = format!("fn long() {{\n{body}}}\n");
        let mut measures = Measures::new();
        measure("a.rs", &Source::new(&text), &mut measures);
        assert_eq!(
            measures.get(&("function-lines", "a.rs:long".to_owned())),
            Some(&(FUNCTION_LINES + 1))
        );
        let text = "\n".repeat(FILE_LINES + 1);
        let mut measures = Measures::new();
        measure("a.rs", &Source::new(&text), &mut measures);
        assert_eq!(measures.get(&("file-lines", "a.rs".to_owned())), Some(&(FILE_LINES + 1)));
    }
}
