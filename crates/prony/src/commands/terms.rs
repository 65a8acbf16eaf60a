//! `prony terms`: what the words of reports mean, from docs/terms.md.

use std::fmt::Write as _;

use prony_report::terms::{Entry, Piece, names, read};
use prony_run::error::Error;

use crate::cli::names;

/// The width of the text.
const WIDTH: usize = 79;
/// The most entries of one answer.
const MOST: usize = 8;

/// The definition of a term; without one, the list of all terms.
///
/// # Errors
/// The page does not have the term.
pub(super) fn page(words: &[String]) -> Result<String, Error> {
    let (entries, pieces) = read();
    if words.is_empty() {
        return Ok(list(entries));
    }
    let asked = words.join(" ").trim().to_lowercase();
    let named = |entry: &&Entry<'_>| entry.is_of(&asked);
    let has_word = |text: &str| contains(&text.to_lowercase(), &asked);
    let mut found: Vec<&Entry<'_>> = entries.iter().filter(named).collect();
    if found.is_empty() {
        found = entries.iter().filter(|entry| has_word(&entry.names)).collect();
    }
    let of_heading = pieces.iter().filter(|piece| piece.section.to_lowercase() == asked);
    let mut texts: Vec<&Piece<'_>> = of_heading.collect();
    if found.is_empty() && texts.is_empty() {
        texts = pieces.iter().filter(|piece| has_word(&piece.text)).collect();
        let in_cells = |entry: &&Entry<'_>| entry.cells.iter().any(|(_, cell)| has_word(cell));
        found = entries.iter().filter(in_cells).collect();
    }
    if asked.is_empty() || found.is_empty() && texts.is_empty() {
        let all: Vec<String> = entries.iter().flat_map(|entry| names(&entry.names)).collect();
        let near = names::nearest(&asked, all.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean '{near}'? ")).unwrap_or_default();
        return Err(Error::Argument(format!(
            "no term '{}'; {near}`prony terms` lists all",
            asked.escape_debug()
        )));
    }
    Ok(shown(&found, &texts))
}

fn shown(found: &[&Entry<'_>], texts: &[&Piece<'_>]) -> String {
    let mut out = String::new();
    for entry in found.iter().take(MOST) {
        let _ = writeln!(out, "{} ({})", entry.names, entry.section);
        for (head, cell) in entry.cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            // One column needs no head.
            let is_plain = ["definition", "meaning"].contains(head) || entry.cells.len() == 1;
            let text = if is_plain { cell.clone() } else { format!("{head}: {cell}") };
            out += &wrapped(&text);
        }
        out.push('\n');
    }
    let left = MOST.saturating_sub(found.len());
    let mut section = "";
    for piece in texts.iter().take(left.max(1)) {
        if piece.section != section {
            section = piece.section;
            let _ = writeln!(out, "{section}");
        }
        out += &wrapped(&piece.text);
        out.push('\n');
    }
    let more = (found.len() + texts.len()).saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(out, "and {more} more places of docs/terms.md\n");
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn list(entries: &[Entry<'_>]) -> String {
    let mut out = String::from("`prony terms NAME` defines one of these, or any word of them.\n");
    let mut section = "";
    let mut names: Vec<&str> = Vec::new();
    let mut end = |section: &str, names: &mut Vec<&str>| {
        if !names.is_empty() {
            let _ = write!(out, "\n{section}\n{}", wrapped(&names.join(", ")));
            names.clear();
        }
    };
    for entry in entries {
        if entry.section != section {
            end(section, &mut names);
            section = entry.section;
        }
        names.push(&entry.names);
    }
    end(section, &mut names);
    out
}

/// Whether a text has these words, not only as a part of others; the last may have a plural `s`.
fn contains(text: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric();
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        let after =
            after.strip_prefix('s').filter(|rest| !rest.starts_with(is_word)).unwrap_or(after);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && 2 + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "  {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    let _ = writeln!(out, "  {line}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        page(&words).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn terms_have_their_definitions() {
        for (word, parts) in [
            ("p99", &["p50 to p99.99", "at least this share"][..]),
            ("Send Lag", &["send lag (Times)\n  lateness of the meter itself", "formula: sent - "]),
            ("ttft", &["TTFT (Language models)\n  time to the first token"]),
            ("stolen", &["stolen"]),
            ("CLIENT-LIMITED", &["CLIENT-LIMITED"]),
            ("what the meter added", &["What the meter added"]),
            ("effective sample size", &["effective sample size"]),
            ("connect", &["connect (Times)"]),
        ] {
            let text = of(word);
            for part in parts {
                assert!(text.contains(part), "{word}: {part}\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(!text.contains("**") && !text.contains("]("), "{text}");
        }
    }

    /// The labels of a text report.
    #[test]
    fn every_word_of_a_report_is_defined() {
        for word in [
            "response",
            "service",
            "first byte",
            "transfer",
            "send lag",
            "queue",
            "stream wait",
            "flow wait",
            "message",
            "first message",
            "message gap",
            "delivery",
            "ping",
            "itl",
            "chunk gap",
            "goodput",
            "handshake",
            "overdue",
            "dropped",
            "backlog",
            "mean",
            "stdev",
            "dispersion",
            "stationary",
            "in the drain",
            "run-queue delay",
            "event-loop stall",
            "throttled",
            "meter added",
            "bottleneck",
            "undecided",
            "warm-up",
            "little's law",
            "completed rate",
            "round trip",
            "meter",
            "woke late",
            "kind",
            "expecting",
            "valid",
            "too-short",
            "95 % +-",
            "?",
            "truncated",
            "window",
        ] {
            assert!(!of(word).is_empty(), "{word}");
        }
    }

    #[test]
    fn all_terms_are_listed() {
        let all = page(&[]).expect("a list");
        let (entries, _) = read();
        assert!(entries.len() > 150, "{}", entries.len());
        let joined = all.split_whitespace().collect::<Vec<_>>().join(" ");
        for entry in entries {
            let name = entry.names.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(&name), "{name}");
        }
    }

    #[test]
    fn rejects_words_without_a_definition() {
        let why = page(&["handshake2".to_owned()]).unwrap_err().to_string();
        assert_eq!(why, "no term 'handshake2'; did you mean 'handshake'? `prony terms` lists all");
    }
}
