//! `prony terms`: what the words of reports mean, from docs/terms.md.

use std::fmt::Write as _;

use prony_run::error::Error;

use crate::cli::refusal;

/// The page. Its tables have one row for each term.
const PAGE: &str = include_str!("../../../../docs/terms.md");
/// The width of the text.
const WIDTH: usize = 79;
/// The most entries of one answer.
const MOST: usize = 8;

/// A row of a table.
struct Entry<'p> {
    /// The heading above it.
    section: &'p str,
    /// What it defines: names with commas between them.
    names: String,
    /// The other columns, each with its head.
    cells: Vec<(&'p str, String)>,
}

/// A piece of text below a heading: a paragraph, or an item of a list.
struct Piece<'p> {
    section: &'p str,
    text: String,
}

/// The definition of a term; without one, the list of all terms.
///
/// # Errors
/// The page does not have the term.
pub(super) fn page(words: &[String]) -> Result<String, Error> {
    let (entries, pieces) = read();
    if words.is_empty() {
        return Ok(list(&entries));
    }
    let asked = words.join(" ").trim().to_lowercase();
    let named = |entry: &&Entry<'_>| {
        names(&entry.names).any(|name| name == asked || is_within(&asked, &name))
    };
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
        let near = refusal::nearest(&asked, all.iter().map(String::as_str));
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

/// The entries of the tables, and the other texts.
fn read() -> (Vec<Entry<'static>>, Vec<Piece<'static>>) {
    let (mut entries, mut pieces) = (Vec::new(), Vec::<Piece<'static>>::new());
    let (mut section, mut heads): (&str, Vec<&str>) = ("", Vec::new());
    let mut is_code = false;
    let mut is_open = false;
    for line in PAGE.lines() {
        is_code ^= line.starts_with("```");
        if let Some(heading) =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        {
            (section, is_open) = (heading, false);
        } else if line.starts_with('|') {
            is_open = false;
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            if cells.iter().all(|cell| cell.chars().all(|c| "-: ".contains(c))) {
                continue;
            }
            if heads.is_empty() {
                heads = cells;
            } else {
                let rest = heads.iter().zip(&cells).skip(1);
                let cells_of = rest.map(|(head, cell)| (*head, plain(cell))).collect();
                entries.push(Entry { section, names: plain(cells[0]), cells: cells_of });
            }
            continue;
        } else if line.is_empty() || line.starts_with("```") {
            is_open = false;
        } else if !is_code {
            let starts = line.starts_with("- ") || !is_open;
            let text = plain(line.trim_start_matches("- ").trim());
            match pieces.last_mut().filter(|_| !starts) {
                Some(piece) => {
                    piece.text.push(' ');
                    piece.text += &text;
                }
                None => pieces.push(Piece { section, text }),
            }
            is_open = true;
        }
        heads.clear();
    }
    (entries, pieces)
}

/// A text without the marks of Markdown.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let link =
            after.split_once("](").and_then(|(name, end)| Some((name, end.split_once(')')?.1)));
        out += before;
        match link.filter(|(name, _)| !name.contains(']')) {
            Some((name, end)) => {
                out += name;
                rest = end;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    (out + rest).replace("**", "").replace(['`', '*'], "")
}

/// The single names of an entry, in small letters.
fn names(all: &str) -> impl Iterator<Item = String> {
    let each = all.split([',', '(', ')', ';']).map(|name| name.trim().to_lowercase());
    each.filter(|name| !name.is_empty())
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

/// Whether a percentile is in a range of them, such as `p50 to p99.99`.
fn is_within(asked: &str, range: &str) -> bool {
    let number = |name: &str| name.strip_prefix('p').and_then(|n| n.parse::<f64>().ok());
    let ends = range.split_once(" to ").map(|(from, to)| (number(from), number(to)));
    let (Some((Some(from), Some(to))), Some(asked)) = (ends, number(asked)) else { return false };
    (from..=to).contains(&asked)
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
