//! A minimal lexer for Rust that separates code from comments and literals.

/// A source file, and a copy with comments and literals replaced.
pub(crate) struct Source<'a> {
    /// The lines of the text.
    pub(crate) lines: Vec<&'a str>,
    /// The same lines, with `COMMENT` for each character of a comment and `LITERAL` for each of a
    /// literal.
    pub(crate) code: Vec<String>,
}

/// Replaces a character of a comment.
pub(crate) const COMMENT: char = '\u{1}';
/// Replaces a character of a string, character or byte literal, quotes included.
pub(crate) const LITERAL: char = '\u{2}';

impl<'a> Source<'a> {
    /// Separate code from the rest.
    pub(crate) fn new(text: &'a str) -> Self {
        let code = blank(text);
        Self { lines: text.lines().collect(), code: code.lines().map(str::to_owned).collect() }
    }
}

fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (end, mark) = token(&chars, at);
        for &c in &chars[at..end] {
            out.push(match mark {
                Some(mark) if c != '\n' => mark,
                _ => c,
            });
        }
        at = end;
    }
    out
}

/// The end of the token at `at`, and the replacement of its characters.
fn token(chars: &[char], at: usize) -> (usize, Option<char>) {
    let next = chars.get(at + 1);
    match chars[at] {
        '/' if next == Some(&'/') => {
            let len = chars[at..].iter().position(|&c| c == '\n');
            (len.map_or(chars.len(), |n| at + n), Some(COMMENT))
        }
        '/' if next == Some(&'*') => (block_comment(chars, at), Some(COMMENT)),
        '"' => (quoted(chars, at, '"'), Some(LITERAL)),
        '\'' => match char_literal(chars, at) {
            Some(end) => (end, Some(LITERAL)),
            None => (at + 1, None),
        },
        c if c.is_alphabetic() || c == '_' => word(chars, at),
        _ => (at + 1, None),
    }
}

/// A word, or a literal with a prefix (`b"`, `c"`, `r#"`, `br"`, `b'`).
fn word(chars: &[char], at: usize) -> (usize, Option<char>) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut end = at;
    while end < chars.len() && is_word(chars[end]) {
        end += 1;
    }
    let prefix: String = chars[at..end].iter().collect();
    let after = chars.get(end);
    match (prefix.as_str(), after) {
        ("b" | "c", Some('"')) => (quoted(chars, end, '"'), Some(LITERAL)),
        ("b", Some('\'')) => (quoted(chars, end, '\''), Some(LITERAL)),
        ("r" | "br" | "cr", Some('"' | '#')) => match raw(chars, end) {
            Some(end) => (end, Some(LITERAL)),
            None => (end, None),
        },
        _ => (end, None),
    }
}

fn block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => {
                depth += 1;
                i += 2;
            }
            ('*', '/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn quoted(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `'x'` and `'\n'` are literals, `'a` is a lifetime.
fn char_literal(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1)?, chars.get(at + 2)?) {
        ('\\', _) => Some(quoted(chars, at, '\'')),
        (_, '\'') => Some(at + 3),
        _ => None,
    }
}

/// A raw string with its hashes at `at`; `None` for a raw identifier.
fn raw(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let mut i = at + hashes + 1;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
        {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        blank(text).replace(COMMENT, "/").replace(LITERAL, "~")
    }

    #[test]
    fn separates_code_from_comments_and_literals() {
        for (text, want) in [
            ("a // b\nc", "a ////\nc"),
            ("a /* b /* c */ d */ e", "a ///////////////// e"),
            (r#"f("a\"b", x)"#, "f(~~~~~~, x)"),
            (r##"f(r#"a"b"#, x)"##, "f(~~~~~~~~, x)"),
            ("r#type = 1", "r#type = 1"),
            ("&'a str; 'x'; '\\''; b'\"'; b\"y\"", "&'a str; ~~~; ~~~~; ~~~~; ~~~~"),
            ("\"// no\" // \"yes\"", "~~~~~~~ ////////"),
            ("\"a\nb\" c", "~~\n~~ c"),
        ] {
            assert_eq!(shown(text), want, "{text}");
        }
    }
}
