//! Retired words, which are replaced by plainer ones or by the standard term.

use super::Measures;
use super::lexer::{COMMENT, LITERAL, Source};

/// The rule's name in the ratchet.
const RULE: &str = "retired-words";

/// The retired words in lower case, and what to write instead. Only whole words match.
const RETIRED: [(&str, &str); 58] = [
    ("a law of", "a distribution of"),
    ("answered rate", "completed rate"),
    ("as it likes", "any number of times"),
    ("as it stands", "unchanged"),
    ("as they stand", "unchanged"),
    ("asked rate", "target rate"),
    ("begin and end", "start and end"),
    ("begin of", "start of"),
    ("by the further end", "by the farther end"),
    ("each further nine", "90, 99, 99.9 ..."),
    ("farewell", "close"),
    ("foreign datagram", "unexpected datagram"),
    ("gap of arrivals", "inter-arrival time"),
    ("gaps of arrivals", "inter-arrival times"),
    ("goes out", "is sent"),
    ("hang together", "autocorrelated"),
    ("hangs together", "autocorrelated"),
    ("has come", "has arrived"),
    ("hears out", "drains"),
    ("heed", "apply, or follow"),
    ("heeds", "applies, or follows"),
    ("held against", "compared with"),
    ("it is told", "it is reported"),
    ("just there", "at that address"),
    ("lane", "user, or connection"),
    ("lanes", "users, or connections"),
    ("lately", "recently"),
    ("law", "distribution"),
    ("laws", "distributions"),
    ("leave one out", "omit one of them"),
    ("lets go of", "closes"),
    ("mended", "fixed"),
    ("mending", "fixing"),
    ("nobody answers", "the server does not reply"),
    ("nobody says", "by default"),
    ("on its way", "in flight"),
    ("one a line", "one per line"),
    ("overtaken", "reordered"),
    ("primer", "warm-up exchange"),
    ("primers", "warm-up exchanges"),
    ("so many", "this many, or `n`"),
    ("so many times", "`n` times"),
    ("spelt out", "listed"),
    ("spoilt", "invalid"),
    ("spoken here", "supported"),
    ("take the place of", "replace"),
    ("takes the place of", "replaces"),
    ("tells", "reports"),
    ("that are none", "invalid"),
    ("that is none", "invalid"),
    (
        "the figures are not the target's alone",
        "these figures measure this machine as well as the target",
    ),
    ("told", "reported"),
    ("under way", "in flight"),
    ("what becomes", "what happens to"),
    ("what came of it", "results"),
    ("where to read on", "documentation"),
    ("whoever", "those who"),
    ("withheld", "throttled or stolen"),
];

/// Phrases of other meaning, in which a retired word may occur.
const ALLOWED: [&str; 6] = [
    "scalability law",
    "little's law",
    "littles law",
    "littles-law",
    "law and kelton",
    "response time law",
];

/// Words that names in the code must not have, between its `_` or capitals.
const RETIRED_NAMES: [&str; 16] = [
    "farewell",
    "heed",
    "lane",
    "lanes",
    "lately",
    "law",
    "laws",
    "mended",
    "mending",
    "overtaken",
    "primer",
    "primers",
    "spoilt",
    "tells",
    "told",
    "withheld",
];

/// Count the retired words of a document. Notes on decisions stay as they are.
pub(super) fn measure(path: &str, text: &str, measures: &mut Measures) {
    if !path.starts_with("docs/design/") {
        let n = text.lines().map(found).sum();
        note(path, n, measures);
    }
}

/// Count the retired words in the comments, literals and names of a Rust file.
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
        n += names(code).filter(|name| is_retired(name)).count();
    }
    note(path, n, measures);
}

/// The names in a line of code.
fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// Whether a name has a retired word.
fn is_retired(name: &str) -> bool {
    let mut words = String::new();
    let has_humps = name.chars().any(char::is_lowercase);
    for c in name.chars() {
        if c == '_' || has_humps && c.is_uppercase() {
            words.push(' ');
        }
        words.extend(c.to_lowercase().filter(|&c| c != '_'));
    }
    without_allowed(&words).split(' ').any(|word| RETIRED_NAMES.contains(&word))
}

/// A text in lower case without the phrases in which a retired word may occur.
fn without_allowed(text: &str) -> String {
    ALLOWED.iter().fold(text.to_owned(), |text, phrase| text.replace(phrase, ""))
}

fn note(path: &str, n: usize, measures: &mut Measures) {
    if n > 0 {
        measures.insert((RULE, path.to_owned()), n);
    }
}

/// The number of retired words in a line.
fn found(line: &str) -> usize {
    retired(line).map(|(_, times)| times).sum()
}

/// The retired words in a line, each with what to write instead, and how often it is there.
fn retired(line: &str) -> impl Iterator<Item = ((&'static str, &'static str), usize)> {
    let line = without_allowed(&line.to_lowercase());
    let is_alone = |line: &str, at: usize, length: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + length..].chars().next();
        [before, after].iter().flatten().all(|c| !c.is_alphanumeric() && *c != '_')
    };
    RETIRED.iter().filter_map(move |&(word, instead)| {
        let all = line.match_indices(word);
        let times = all.filter(|&(at, _)| is_alone(&line, at, word.len())).count();
        (times > 0).then_some(((word, instead), times))
    })
}

/// Print each retired word of a file with what to write instead.
pub(super) fn explain(path: &str, text: &str) {
    let code = if path.ends_with(".rs") { Source::new(text).code } else { Vec::new() };
    for (i, line) in text.lines().enumerate() {
        for ((word, instead), _) in retired(line) {
            println!("{path}:{}: `{word}`: write `{instead}`", i + 1);
        }
        let code = code.get(i).map_or("", String::as_str);
        for name in names(code).filter(|name| is_retired(name)) {
            println!("{path}:{}: the name `{name}` has a retired word", i + 1);
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
        let rust = "// It lets go of it.\nlet close = under(way);\nlet s = \"spoilt\";\n";
        measure_rust("c.rs", &Source::new(rust), &mut measures);
        measure_rust("xtask/src/tidy/d.rs", &Source::new(rust), &mut measures);
        let rust =
            "fn littles_law() {}\nfn what_is_told() {}\nstruct LawOfTimes;\nconst TOLD: u8;\n";
        measure_rust("e.rs", &Source::new(rust), &mut measures);
        measure("f.md", "Little's law, and a law of times\n", &mut measures);
        let counts: Vec<_> = measures.iter().map(|((_, path), n)| (path.as_str(), *n)).collect();
        assert_eq!(counts, [("a.md", 4), ("c.rs", 2), ("e.rs", 3), ("f.md", 2)]);
    }
}
