//! The definitions of all words of reports, from docs/terms.md.

use std::sync::LazyLock;

/// The page. Its tables have one row for each term.
const PAGE: &str = include_str!("../../../docs/terms.md");

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Entry<'p> {
    /// The heading above it.
    pub section: &'p str,
    /// What it defines: names with commas between them.
    pub names: String,
    /// The other columns, each with its head.
    pub cells: Vec<(&'p str, String)>,
}

/// A piece of text below a heading: a paragraph, or an item of a list.
#[derive(Clone, Debug)]
pub struct Piece<'p> {
    /// That heading.
    pub section: &'p str,
    /// Without marks of Markdown.
    pub text: String,
}

impl Entry<'_> {
    /// Whether it defines this name (in small letters), or a range of percentiles that has it.
    pub fn is_of(&self, asked: &str) -> bool {
        names(&self.names).any(|name| name == asked || is_within(asked, &name))
    }
}

/// The entries of the tables, and the other texts.
pub fn read() -> &'static (Vec<Entry<'static>>, Vec<Piece<'static>>) {
    static ALL: LazyLock<(Vec<Entry<'static>>, Vec<Piece<'static>>)> = LazyLock::new(parsed);
    &ALL
}

fn parsed() -> (Vec<Entry<'static>>, Vec<Piece<'static>>) {
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
pub fn names(all: &str) -> impl Iterator<Item = String> {
    let each = all.split([',', '(', ')', ';']).map(|name| name.trim().to_lowercase());
    each.filter(|name| !name.is_empty())
}

/// Whether a percentile is in a range of them, such as `p50 to p99.99`.
fn is_within(asked: &str, range: &str) -> bool {
    let number = |name: &str| name.strip_prefix('p').and_then(|n| n.parse::<f64>().ok());
    let ends = range.split_once(" to ").map(|(from, to)| (number(from), number(to)));
    let (Some((Some(from), Some(to))), Some(asked)) = (ends, number(asked)) else { return false };
    (from..=to).contains(&asked)
}
