//! A terminal emulator with the features that the live view needs, and its screen as SVG.

use std::fmt::Write as _;

/// The size of a character, in pixels.
const WIDTH: f64 = 8.0;
const HEIGHT: f64 = 17.0;
/// The baseline of text, from the top of its row.
const BASE: f64 = 13.0;
const MARGIN: f64 = 12.0;

/// One character on the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cell {
    mark: char,
    ink: Ink,
}

/// How a character is drawn. The color is that of `ESC [ N m`; 0 is the default.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ink {
    color: u8,
    bold: bool,
}

const PLAIN: Ink = Ink { color: 0, bold: false };
const BLANK: Cell = Cell { mark: ' ', ink: PLAIN };

/// The screen of a terminal.
pub(super) struct Screen {
    cells: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    ink: Ink,
}

impl Screen {
    /// An empty screen of this size in characters.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        Self { cells: vec![vec![BLANK; columns]; rows], row: 0, column: 0, ink: PLAIN }
    }

    /// Show `text` until a frame is complete for which `done` returns true. Frames are drawn from
    /// top to bottom, so a frame is complete when the next character goes to a row further up.
    pub(super) fn play(&mut self, text: &str, done: impl Fn(&Self) -> bool) -> bool {
        let mut rest = text;
        while let Some(mark) = rest.chars().next() {
            rest = &rest[mark.len_utf8()..];
            let row = self.row;
            if mark == '\x1b' {
                rest = self.escape(rest);
            } else if !mark.is_control() {
                self.put(mark);
            }
            if self.row < row && done(self) {
                return true;
            }
        }
        false
    }

    /// The text of a row, from 0.
    pub(super) fn line(&self, row: usize) -> String {
        self.cells[row].iter().map(|cell| cell.mark).collect()
    }

    fn put(&mut self, mark: char) {
        let ink = self.ink;
        if let Some(cell) = self.cells.get_mut(self.row).and_then(|r| r.get_mut(self.column)) {
            *cell = Cell { mark, ink };
        }
        self.column += 1;
    }

    /// Apply the sequence after an ESC, and return the text after the sequence.
    fn escape<'a>(&mut self, text: &'a str) -> &'a str {
        let Some(sequence) = text.strip_prefix('[') else { return text };
        let Some(end) = sequence.find(|c: char| c.is_ascii_alphabetic()) else { return "" };
        let (numbers, rest) = sequence.split_at(end);
        let numbers: Vec<usize> = numbers.split(';').map(|n| n.parse().unwrap_or(0)).collect();
        match rest.as_bytes()[0] {
            b'H' => {
                let at = |i: usize| numbers.get(i).map_or(0, |n| n.saturating_sub(1));
                (self.row, self.column) = (at(0), at(1));
            }
            b'J' => self.cells.iter_mut().for_each(|row| row.fill(BLANK)),
            b'm' => numbers.iter().for_each(|n| self.ink.change(*n)),
            _ => {}
        }
        &rest[1..]
    }

    /// The screen as a picture.
    pub(super) fn svg(&self, title: &str) -> String {
        let columns = self.cells.first().map_or(0, Vec::len);
        let wide = 2.0f64.mul_add(MARGIN, WIDTH * columns as f64);
        let high = 2.0f64.mul_add(MARGIN, HEIGHT * self.cells.len() as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {wide} {high}\" \
             width=\"{wide}\" height=\"{high}\"><title>{title}</title><style>\
             text{{font:13px ui-monospace,monospace;white-space:pre}}.b{{font-weight:600}}</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#15181c\"/>\n"
        );
        for (row, cells) in self.cells.iter().enumerate() {
            let top = HEIGHT.mul_add(row as f64, MARGIN);
            let mut left = 0;
            while left < cells.len() {
                let end = left + alike(&cells[left..]);
                draw(&mut svg, &cells[left..end], WIDTH.mul_add(left as f64, MARGIN), top);
                left = end;
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Ink {
    /// Apply one number of `ESC [ ... m`.
    fn change(&mut self, number: usize) {
        match number {
            0 => *self = PLAIN,
            1 => self.bold = true,
            30..=37 | 90..=97 => self.color = u8::try_from(number).unwrap_or(0),
            39 => self.color = 0,
            _ => {}
        }
    }

    fn fill(self) -> &'static str {
        match self.color {
            31 | 91 => "#ff8f87",
            32 | 92 => "#57cf9f",
            33 | 93 => "#e2bd4f",
            34 | 94 => "#6cb0f5",
            35 | 95 => "#cfa2f7",
            36 | 96 => "#5dd0df",
            90 => "#7d8590",
            _ => "#d7dae0",
        }
    }
}

/// The number of cells, from the first on, that can be drawn together: the same block, or text in
/// the same style.
fn alike(cells: &[Cell]) -> usize {
    let first = cells[0];
    let is_like = |cell: &Cell| match block(first.mark) {
        Some(_) => *cell == first,
        None => cell.ink == first.ink && block(cell.mark).is_none(),
    };
    cells.iter().take_while(|cell| is_like(cell)).count()
}

/// The part of a cell that a block element fills: its top and bottom as shares of the height, and
/// its opacity. Fonts draw these characters with gaps, so they become rectangles.
fn block(mark: char) -> Option<(f64, f64, f64)> {
    let eighths = |n: u32| f64::from(n) / 8.0;
    Some(match mark {
        '\u{2581}'..='\u{2588}' => (1.0 - eighths(mark as u32 - 0x2580), 1.0, 1.0),
        '░' => (0.0, 1.0, 0.25),
        '▒' => (0.0, 1.0, 0.5),
        '▓' => (0.0, 1.0, 0.75),
        '─' => (0.47, 0.53, 1.0),
        '━' => (0.42, 0.58, 1.0),
        _ => return None,
    })
}

/// Draw cells that belong together.
fn draw(svg: &mut String, cells: &[Cell], left: f64, top: f64) {
    let (first, wide) = (cells[0], WIDTH * cells.len() as f64);
    let fill = first.ink.fill();
    let written = if let Some((from, to, opacity)) = block(first.mark) {
        let (y, high) = (HEIGHT.mul_add(from, top), HEIGHT * (to - from));
        writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{y:.1}\" width=\"{wide}\" height=\"{high:.1}\" fill=\"{fill}\" \
             opacity=\"{opacity}\"/>"
        )
    } else {
        let text: String = cells.iter().map(|cell| cell.mark).collect();
        if text.trim().is_empty() {
            return;
        }
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let (y, class) = (top + BASE, if first.ink.bold { " class=\"b\"" } else { "" });
        writeln!(
            svg,
            "<text x=\"{left}\" y=\"{y}\" textLength=\"{wide}\" fill=\"{fill}\"{class} \
             xml:space=\"preserve\">{text}</text>"
        )
    };
    written.expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_terminal_shows() {
        let mut screen = Screen::new(6, 2);
        let text = "\x1b[?25l\x1b[2J\x1b[1;1Hab\x1b[2;3H\x1b[0;1;32mcd\x1b[0m!\x1b[1;2HX";
        assert!(!screen.play(text, |_| false));
        assert_eq!(screen.line(0), "aX    ");
        assert_eq!(screen.line(1), "  cd! ");
        assert!(screen.cells[1][2].ink == Ink { color: 32, bold: true });
        assert!(screen.cells[1][4].ink == PLAIN);
    }

    #[test]
    fn stops_at_the_end_of_a_complete_frame() {
        let mut screen = Screen::new(3, 2);
        let frames = "\x1b[1;1H1\x1b[2;1Ha\x1b[1;1H2\x1b[2;1Hb\x1b[1;1H3";
        assert!(screen.play(frames, |screen| screen.line(0).starts_with('2')));
        assert_eq!(screen.line(1), "b  ");
    }

    #[test]
    fn draws_blocks_as_rectangles_and_escapes_text() {
        let mut screen = Screen::new(4, 1);
        screen.play("<&\u{2584}\u{2584}", |_| false);
        let svg = screen.svg("t");
        assert!(svg.contains(">&lt;&amp;</text>"), "{svg}");
        assert!(svg.contains("x=\"28\" y=\"20.5\" width=\"16\" height=\"8.5\""), "{svg}");
    }
}
