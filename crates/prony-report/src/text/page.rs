//! Lines of a label and a text, wrapped at the screen's width.

use prony_base::plain;

use super::Style;

/// Width of the label, including indent and the space after it.
pub(super) const LABEL: usize = 14;

/// The meaning of a color; not shown without colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Good,
    Bad,
    Warning,
    Strong,
    Faint,
}

pub(super) struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    pub(super) fn style(&self) -> Style {
        self.style
    }

    /// The width of a line.
    pub(super) fn width(&self) -> usize {
        self.style.width
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// An empty line between two parts; never two in a row.
    pub(super) fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// The page's first line.
    pub(super) fn title(&mut self, text: &str) {
        self.put(&shortened(&plain::line(text), self.width()), Ink::Strong);
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, label: &str, text: &str) {
        self.inked(label, text, Ink::Plain);
    }

    /// The meaning of a sign in a table, unless a table before has explained it.
    pub(super) fn legend(&mut self, sign: &str, meaning: &str) {
        let label = format!("  {sign:<width$}", width = LABEL - 2);
        // Labels are colored.
        let is_here = |line: &str| line.trim_start_matches("\x1b[36m").starts_with(&label);
        if !self.text.lines().any(is_here) {
            self.line(sign, meaning);
        }
    }

    /// Parts joined to one line; nothing if there are none.
    pub(super) fn list(&mut self, label: &str, parts: &[String]) {
        if !parts.is_empty() {
            self.line(label, &parts.join(", "));
        }
    }

    /// A text in a color, wrapped between words.
    pub(super) fn inked(&mut self, label: &str, text: &str, ink: Ink) {
        for (i, line) in wrapped(&plain::line(text), self.width() - LABEL).iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            self.put(&format!("  {label:<width$}", width = LABEL - 2), Ink::Faint);
            self.put(line, ink);
            self.text.push('\n');
        }
    }

    /// A line without wrapping, after its label.
    pub(super) fn row(&mut self, label: &str, cells: &str, ink: Ink) {
        self.wide_row(label, LABEL - 2, cells, ink);
    }

    /// The same, with a label of this width.
    pub(super) fn wide_row(&mut self, label: &str, width: usize, cells: &str, ink: Ink) {
        self.put(&format!("  {:<width$}", plain::line(label)), Ink::Faint);
        self.put(cells, ink);
        self.text.push('\n');
    }

    /// Everything on the page comes through here.
    fn put(&mut self, text: &str, ink: Ink) {
        let text = &*plain::line(text);
        let code = match ink {
            Ink::Plain => "",
            Ink::Good => "1;32",
            Ink::Bad => "1;31",
            Ink::Warning => "33",
            Ink::Strong => "1",
            Ink::Faint => "36",
        };
        if self.style.color && !code.is_empty() && !text.trim().is_empty() {
            self.text.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
        } else {
            self.text.push_str(text);
        }
    }
}

/// The width of a column of names, in front of this number of columns of cells, which have their
/// own space before them. On a narrow screen, their lines wrap.
pub(super) fn column<'a>(names: impl Iterator<Item = &'a str>, cells: usize) -> usize {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    longest.clamp(LABEL - 2, Style::WIDTH - 2 - cells)
}

/// At most `width` characters; the middle is abbreviated.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let head = (width - 3) * 2 / 3;
    let tail = width - 3 - head;
    text.chars().take(head).chain("...".chars()).chain(text.chars().skip(length - tail)).collect()
}

/// Lines of at most `width` characters, broken between words. Runs of spaces inside a line stay,
/// for columns; a word longer than a line is abbreviated.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let word = shortened(word, width);
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() || (word.is_empty() && lines.is_empty()) {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let mut page = Page::new(Style::default());
        page.title(&"t".repeat(300));
        page.line("label", &"word ".repeat(60));
        page.line("label", &"w".repeat(300));
        page.list("list", &vec!["a part of some length".to_owned(); 20]);
        let text = page.finish();
        assert!(text.lines().all(|l| l.chars().count() <= Style::WIDTH), "{text}");
        assert!(text.lines().filter(|l| l.starts_with("  label ")).count() == 2);
        let list = text.split("  list ").nth(1).expect("the list").split_whitespace();
        assert_eq!(list.collect::<Vec<_>>().join(" "), ["a part of some length"; 20].join(", "));
    }

    #[test]
    fn nothing_in_a_text_leaves_its_line() {
        let hostile = "a\x1b[2J\n::error::b\u{202e}##[error]c";
        let mut page = Page::new(Style { color: true, ..Style::default() });
        page.title(hostile);
        page.line(hostile, hostile);
        page.wide_row(hostile, 3, hostile, Ink::Good);
        let text = page.finish();
        assert_eq!(text.lines().count(), 3, "{text}");
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[1;32m"] {
            assert!(text.contains(code), "{text}");
        }
        let rest = ["\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[1;32m", "\n"]
            .iter()
            .fold(text.clone(), |text, own| text.replace(own, ""));
        assert!(rest.chars().all(plain::is_plain), "{text}");
        assert!(!text.contains("::error") && !text.contains("##["), "{text}");
    }

    #[test]
    fn signs_are_explained_once() {
        for color in [false, true] {
            let mut page = Page::new(Style { color, ..Style::default() });
            page.row("p50", "      ?         ?", Ink::Plain);
            page.legend("?", "not known");
            page.legend("?", "not known");
            assert_eq!(page.finish().matches("not known").count(), 1);
        }
    }

    #[test]
    fn wrapping_preserves_columns_and_words() {
        assert_eq!(wrapped("a  bc   d", 20), ["a  bc   d"]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(shortened("0123456789abcdef", 9), "0123...ef");
    }

    #[test]
    fn uses_colors_only_if_enabled() {
        let page = |color| {
            let mut page = Page::new(Style { color, ..Style::default() });
            page.inked("verdict", "VALID", Ink::Good);
            page.finish()
        };
        assert_eq!(page(false), "  verdict     VALID\n");
        assert_eq!(page(true), "\x1b[36m  verdict     \x1b[0m\x1b[1;32mVALID\x1b[0m\n");
    }
}
