//! The names of the commands, and the one that a word probably means.

/// The names of the commands.
pub(super) const NAMES: [&str; 23] = [
    "load",
    "llm",
    "capacity",
    "run",
    "check",
    "import",
    "record",
    "compare",
    "replay",
    "report",
    "merge",
    "worker",
    "ray-job",
    "serve",
    "rtt",
    "spectrum",
    "echo",
    "selftest",
    "demo",
    "help",
    "terms",
    "completions",
    "man",
];

/// Whether the word names a command.
pub(super) fn is_command(word: &str) -> bool {
    NAMES.contains(&word)
}

/// The command that an unknown word probably means: one that differs in at most two letters.
pub(crate) fn command_meant(word: &str) -> Option<String> {
    let is_bare = word.len() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase());
    let names = NAMES.into_iter().filter(|_| is_bare);
    nearest(word, names).map(str::to_owned)
}

/// The name that differs from the word in at most two letters.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_ascii_lowercase();
    let distance = |name: &&str| strsim::damerau_levenshtein(name, &lower);
    let nearest = names.min_by_key(distance).filter(|&name| name != word)?;
    let similar = distance(&nearest) <= 2 && strsim::jaro_winkler(nearest, &lower) > 0.8;
    similar.then_some(nearest)
}
