//! Retired words, which are replaced by plainer ones or by the standard term.

use super::Measures;
use super::lexer::{COMMENT, LITERAL, Source};

/// The rule's name in the ratchet.
const RULE: &str = "retired-words";

/// The retired words in lower case, and what to write instead. Only whole words match.
const RETIRED: [(&str, &str); 35] = [
    ("as it likes", "any number of times"),
    ("as it stands", "unchanged"),
    ("asked rate", "target rate"),
    ("begin of", "start of"),
    ("farewell", "close"),
    ("foreign datagram", "unexpected datagram"),
    ("goes out", "is sent"),
    ("hang together", "autocorrelated"),
    ("hangs together", "autocorrelated"),
    ("has come", "has arrived"),
    ("hears out", "drains"),
    ("held against", "compared with"),
    ("laws", "distributions"),
    ("leave one out", "omit one of them"),
    ("lets go of", "closes"),
    ("mended", "fixed"),
    ("mending", "fixing"),
    ("nobody answers", "the server does not reply"),
    ("nobody says", "by default"),
    ("on its way", "in flight"),
    ("one a line", "one per line"),
    ("primers", "warm-up exchanges"),
    ("so many times", "`n` times"),
    ("spelt out", "listed"),
    ("spoilt", "invalid"),
    ("spoken here", "supported"),
    ("tells", "reports"),
    ("that are none", "invalid"),
    ("that is none", "invalid"),
    ("told", "reported"),
    ("under way", "in flight"),
    ("what becomes", "what happens to"),
    ("where to read on", "documentation"),
    ("whoever", "those who"),
    ("withheld", "throttled or stolen"),
];

/// Count the retired words of a document. Notes on decisions stay as they are.
pub(super) fn measure(path: &str, text: &str, measures: &mut Measures) {
    if !path.starts_with("docs/design/") {
        let n = text.lines().map(found).sum();
        note(path, n, measures);
    }
}

/// Count the retired words in the comments and literals of a Rust file.
pub(super) fn measure_rust(path: &str, source: &Source<'_>, measures: &mut Measures) {
    // The sources of the rule name the words that it forbids.
    if path.starts_with("xtask/src/tidy/") {
        return;
    }
    let mut n = 0;
    for (line, code) in source.lines.iter().zip(&source.code) {
        let is_prose = |kind: char| kind == COMMENT || kind == LITERAL;
        let prose = line.chars().zip(code.chars());
        let prose = prose.map(|(c, kind)| if is_prose(kind) { c } else { '\n' });
        n += found(&prose.collect::<String>());
    }
    note(path, n, measures);
}

fn note(path: &str, n: usize, measures: &mut Measures) {
    if n > 0 {
        measures.insert((RULE, path.to_owned()), n);
    }
}

/// The number of retired words in a line.
fn found(line: &str) -> usize {
    let line = line.to_lowercase();
    let is_alone = |at: usize, length: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + length..].chars().next();
        [before, after].iter().flatten().all(|c| !c.is_alphanumeric() && *c != '_')
    };
    let times =
        |word: &str| line.match_indices(word).filter(|&(at, _)| is_alone(at, word.len())).count();
    RETIRED.iter().map(|(word, _)| times(word)).sum()
}

/// Print each retired word of a file with what to write instead.
pub(super) fn explain(path: &str, text: &str) {
    for (i, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (word, instead) in RETIRED.iter().filter(|(word, _)| line.contains(word)) {
            println!("{path}:{}: `{word}`: write `{instead}`", i + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_retired_words_in_prose_only() {
        let mut measures = Measures::new();
        measure(
            "a.md",
            "Requests under way, a farewell\nUnder way; farewells, on its way\n",
            &mut measures,
        );
        measure("docs/design/b.md", "under way\n", &mut measures);
        let rust = "// It lets go of it.\nlet farewell = under(way);\nlet s = \"spoilt\";\n";
        measure_rust("c.rs", &Source::new(rust), &mut measures);
        measure_rust("xtask/src/tidy/d.rs", &Source::new(rust), &mut measures);
        let counts: Vec<_> = measures.iter().map(|((_, path), n)| (path.as_str(), *n)).collect();
        assert_eq!(counts, [("a.md", 4), ("c.rs", 2)]);
    }
}
