//! The colors and characters that the terminal can show.

use std::env;

use ratatui_core::style::{Color, Modifier, Style};

/// The appearance of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether to use colors: at most the sixteen that every terminal has.
    pub color: bool,
    /// Whether to use characters beyond ASCII.
    pub unicode: bool,
}

/// The role of a part of the screen. Color is never its only mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    /// A heading.
    Title,
    /// Labels and decoration.
    Faint,
    /// Successful requests.
    Good,
    /// Failures.
    Bad,
    /// Notices.
    Notice,
    /// The target rate.
    Target,
    /// The level of a cell of the heat map: 1 to 4.
    Heat(usize),
}

impl Look {
    /// From the environment: `NO_COLOR`, `TERM`, and the character set of the locale.
    pub(crate) fn of_environment() -> Self {
        Self::of(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// From the variables that `get` returns, which are not empty.
    fn of(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let term = get("TERM").unwrap_or_default();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(get).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        Self {
            color: get("NO_COLOR").is_none() && !term.starts_with("vt1") && !term.contains("mono"),
            // The font of the Linux console lacks most of these characters.
            unicode: utf8 && term != "linux",
        }
    }

    pub(super) fn style(self, ink: Ink) -> Style {
        let style = Style::new();
        let bold = style.add_modifier(Modifier::BOLD);
        if !self.color {
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
            Ink::Target => style.fg(Color::Cyan),
            Ink::Heat(level) => {
                let colors = [Color::Blue, Color::Cyan, Color::Yellow, Color::Red];
                style.fg(colors[level.clamp(1, 4) - 1])
            }
        }
    }

    /// A column filled to this number of eighths, 1 to 8.
    pub(super) fn bar(self, eighths: usize) -> char {
        if self.unicode {
            [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.min(8)]
        } else {
            [' ', '.', '.', '.', ':', ':', ':', '|', '|'][eighths.min(8)]
        }
    }

    /// A cell of the heat map: 0 is empty, 4 the highest level.
    pub(super) fn heat(self, level: usize) -> char {
        let marks = if self.unicode {
            ['·', '░', '▒', '▓', '█']
        } else {
            [' ', '.', ':', '*', '#']
        };
        if level == 0 { ' ' } else { marks[level.min(4)] }
    }

    /// The line of the target rate.
    pub(super) fn level(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// A rule after a heading.
    pub(super) fn rule(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// A column of failures.
    pub(super) fn failures(self) -> char {
        if self.unicode { '▒' } else { 'x' }
    }

    /// The completed and the remaining part of a progress bar.
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
        (look.color, look.unicode)
    }

    #[test]
    fn detects_colors_and_unicode_from_the_environment() {
        let utf8 = ("LANG", "en_GB.UTF-8");
        assert_eq!(of(&[utf8, ("TERM", "xterm")]), (true, true));
        assert_eq!(of(&[utf8, ("NO_COLOR", "1")]), (false, true));
        assert_eq!(
            of(&[utf8, ("LC_ALL", "C")]),
            (true, false),
            "LC_ALL takes precedence over LANG"
        );
        assert_eq!(of(&[("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")]), (true, true));
        assert_eq!(of(&[utf8, ("TERM", "linux")]), (true, false));
        assert_eq!(of(&[utf8, ("TERM", "vt100")]), (false, true));
        assert_eq!(of(&[]), (true, false));
    }

    #[test]
    fn uses_only_ascii_without_unicode() {
        let look = Look { color: false, unicode: false };
        let bars = (0..=8).map(|n| look.bar(n)).chain((0..=4).map(|n| look.heat(n)));
        let rest = look.gauge().into_iter().chain([look.level(), look.rule(), look.failures()]);
        assert!(bars.chain(rest).all(|mark| mark.is_ascii()));
    }
}
