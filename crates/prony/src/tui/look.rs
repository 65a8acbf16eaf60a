//! What the terminal can show: colours, and which marks.

use std::env;

use ratatui_core::style::{Color, Modifier, Style};

/// How the screen may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether colours are wanted: never more than the sixteen that every terminal has.
    pub colour: bool,
    /// Whether there are more marks than ASCII has.
    pub unicode: bool,
}

/// What a part of the screen says by its looks. Never by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    /// A heading.
    Title,
    /// What helps to read and is no figure.
    Faint,
    /// What has been answered.
    Good,
    /// What has gone wrong.
    Bad,
    /// What is asked of the user's attention.
    Notice,
    /// What the plan asks for.
    Asked,
    /// How many times fall into a cell of the heat map: 1 to 4.
    Heat(usize),
}

impl Look {
    /// What the environment says: `NO_COLOR`, `TERM`, and the locale's character set.
    pub(crate) fn of_environment() -> Self {
        Self::of(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// The same of any environment; `get` has no empty values.
    fn of(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let term = get("TERM").unwrap_or_default();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(get).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        Self {
            colour: get("NO_COLOR").is_none() && !term.starts_with("vt1") && !term.contains("mono"),
            // The kernel's own console has a font of 256 marks, and few of these.
            unicode: utf8 && term != "linux",
        }
    }

    pub(super) fn style(self, ink: Ink) -> Style {
        let style = Style::new();
        let bold = style.add_modifier(Modifier::BOLD);
        if !self.colour {
            return match ink {
                Ink::Title | Ink::Bad | Ink::Notice => bold,
                _ => style,
            };
        }
        match ink {
            Ink::Plain => style,
            Ink::Title => bold,
            Ink::Faint => style.fg(Color::DarkGray),
            Ink::Good => style.fg(Color::Green),
            Ink::Bad => bold.fg(Color::Red),
            Ink::Notice => bold.fg(Color::Yellow),
            Ink::Asked => style.fg(Color::Cyan),
            Ink::Heat(level) => {
                let colours = [Color::Blue, Color::Cyan, Color::Yellow, Color::Red];
                style.fg(colours[level.clamp(1, 4) - 1])
            }
        }
    }

    /// A column filled to that many eighths, 1 to 8.
    pub(super) fn bar(self, eighths: usize) -> char {
        if self.unicode {
            [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.min(8)]
        } else {
            [' ', '.', '.', '.', ':', ':', ':', '|', '|'][eighths.min(8)]
        }
    }

    /// A cell of the heat map: 0 is nothing, 4 the most.
    pub(super) fn heat(self, level: usize) -> char {
        let marks = if self.unicode {
            ['·', '░', '▒', '▓', '█']
        } else {
            [' ', '.', ':', '*', '#']
        };
        if level == 0 { ' ' } else { marks[level.min(4)] }
    }

    /// The level that is asked for.
    pub(super) fn level(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// A rule behind a heading.
    pub(super) fn rule(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// A column of failures.
    pub(super) fn failures(self) -> char {
        if self.unicode { '▒' } else { 'x' }
    }

    /// What is done of a gauge, and what is left.
    pub(super) fn gauge(self) -> [char; 2] {
        if self.unicode { ['━', '─'] } else { ['=', '-'] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> (bool, bool) {
        let look = Look::of(&|name| {
            environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        });
        (look.colour, look.unicode)
    }

    #[test]
    fn the_environment_says_what_can_be_shown() {
        let utf8 = ("LANG", "en_GB.UTF-8");
        assert_eq!(of(&[utf8, ("TERM", "xterm")]), (true, true));
        assert_eq!(of(&[utf8, ("NO_COLOR", "1")]), (false, true));
        assert_eq!(of(&[utf8, ("LC_ALL", "C")]), (true, false), "LC_ALL counts before LANG");
        assert_eq!(of(&[("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")]), (true, true));
        assert_eq!(of(&[utf8, ("TERM", "linux")]), (true, false));
        assert_eq!(of(&[utf8, ("TERM", "vt100")]), (false, true));
        assert_eq!(of(&[]), (true, false));
    }

    #[test]
    fn without_unicode_all_marks_are_ascii() {
        let look = Look { colour: false, unicode: false };
        let bars = (0..=8).map(|n| look.bar(n)).chain((0..=4).map(|n| look.heat(n)));
        let rest = look.gauge().into_iter().chain([look.level(), look.rule(), look.failures()]);
        assert!(bars.chain(rest).all(|mark| mark.is_ascii()));
    }
}
