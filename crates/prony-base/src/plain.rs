//! Texts from elsewhere as they may be shown: of servers, and in the files of others. Each sink of
//! texts (a terminal, a report, a log of a build server) passes all of them through [`plain`], so
//! that none can move a cursor, reorder a line, or give a build server a command.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Where a text is shown, which decides how characters are escaped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// One line.
    Line,
    /// Complete lines: tabs and the ends of lines stay.
    Lines,
    /// A complete document in HTML or XML: line feeds stay.
    Markup,
    /// Inside a string of JSON: the reader gets the text unchanged.
    Json,
    /// The same in TOML.
    Toml,
}

/// The text with all that is not plain escaped; the text itself if all of it is.
///
/// It stays the same when it is passed through the same sink again.
pub fn plain(text: &str, sink: Sink) -> Cow<'_, str> {
    let mut out = String::new();
    // All before this place is in `out`.
    let mut done = 0;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'#' | b':' if is_command(text, at) => {
                out.push_str(&text[done..=at]);
                done = at + 2;
                bytes.next();
                split(&mut out, char::from(byte), sink);
            }
            b' '..=b'~' => {}
            b'\n' if matches!(sink, Sink::Lines | Sink::Markup) => {}
            b'\t' if sink == Sink::Lines => {}
            b'\r' if sink == Sink::Lines && text[at..].starts_with("\r\n") => {}
            // The other bytes of a character.
            0x80..=0xbf => {}
            _ => {
                let c = text[at..].chars().next().unwrap_or_default();
                if !is_plain(c) {
                    out.push_str(&text[done..at]);
                    done = at + c.len_utf8();
                    escape(&mut out, c, sink);
                }
            }
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// The text as part of a line.
pub fn line(text: &str) -> Cow<'_, str> {
    plain(text, Sink::Line)
}

/// Whether a character changes nothing but its own place, and can be seen: it is no control
/// character, ends no line, does not change the direction of the text, and has a width.
pub fn is_plain(c: char) -> bool {
    !matches!(c,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The words behind `::` that GitHub's runner takes for commands. Others are known from where they
/// are: at the start of a line, or behind a space, where a line may be wrapped.
const COMMANDS: [&str; 16] = [
    "add-mask",
    "add-matcher",
    "add-path",
    "debug",
    "echo",
    "endgroup",
    "error",
    "group",
    "internal-set-repo-path",
    "notice",
    "remove-matcher",
    "save-state",
    "set-env",
    "set-output",
    "stop-commands",
    "warning",
];

/// Whether the text has a command of a build server at this place: `##[error]`, `##vso[`,
/// `##teamcity[`, `::error`.
fn is_command(text: &str, at: usize) -> bool {
    let (before, rest) = text.split_at(at);
    if let Some(rest) = rest.strip_prefix("##") {
        let name =
            rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_.".contains(c));
        return name.starts_with('[');
    }
    let Some(rest) = rest.strip_prefix("::") else { return false };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    let word = &rest[..end.unwrap_or(rest.len())];
    let is_known = COMMANDS.iter().any(|command| {
        let head = word.get(..command.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(command))
    });
    // Not the end of an IPv6 address.
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && !word.chars().all(|c| c.is_ascii_hexdigit());
    let is_first = before.chars().next_back().is_none_or(|c| c.is_whitespace() || !is_plain(c));
    is_known || (is_word && is_first)
}

/// Append the second character of a command, so that it is none.
fn split(out: &mut String, c: char, sink: Sink) {
    match sink {
        Sink::Line | Sink::Lines => out.extend([' ', c]),
        Sink::Markup => out.push_str(if c == '#' { "&#35;" } else { "&#58;" }),
        Sink::Json | Sink::Toml => unit(out, c as u16),
    }
}

/// Append a character that is not plain.
fn escape(out: &mut String, c: char, sink: Sink) {
    match sink {
        Sink::Line | Sink::Lines | Sink::Markup => out.extend(c.escape_default()),
        Sink::Json => c.encode_utf16(&mut [0; 2]).iter().for_each(|&part| unit(out, part)),
        Sink::Toml => match u16::try_from(u32::from(c)) {
            Ok(c) => unit(out, c),
            Err(_) => _ = write!(out, "\\U{:08x}", u32::from(c)),
        },
    }
}

/// Append `\u0000`.
fn unit(out: &mut String, value: u16) {
    let _ = write!(out, "\\u{value:04x}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SINKS: [Sink; 5] = [Sink::Line, Sink::Lines, Sink::Markup, Sink::Json, Sink::Toml];

    #[test]
    fn plain_texts_stay_as_they_are() {
        for text in [
            "",
            "GET http://[fe80::abcd]:80/a?b=c#d",
            "::1 [::]:80 ::ffff:1.2.3.4 a::b std::vec",
            "# heading ## two ###",
            "\u{e4}\u{20ac}\u{1f600} \u{4e2d}",
            "a\\n\\u{1b}",
        ] {
            for sink in SINKS {
                assert!(matches!(plain(text, sink), Cow::Borrowed(same) if same == text), "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_plain_can_be_seen() {
        let text = "a\x1b[31m\r\nb\t\u{9b}\u{202e}\u{200b}\u{2028}\u{e0041}";
        let seen = r"a\u{1b}[31m\r\nb\t\u{9b}\u{202e}\u{200b}\u{2028}\u{e0041}";
        assert_eq!(line(text), seen);
        let lines = seen.replace("\\r\\n", "\r\n").replace("\\t", "\t");
        assert_eq!(plain(text, Sink::Lines), lines);
        assert_eq!(plain("a\rb\n", Sink::Lines), "a\\rb\n");
        assert_eq!(plain("\u{e0041}\u{7f}", Sink::Json), r"\udb40\udc41\u007f");
        assert_eq!(plain("\u{e0041}\u{7f}", Sink::Toml), r"\U000e0041\u007f");
    }

    #[test]
    fn no_build_server_finds_a_command() {
        for (text, shown) in [
            ("##[error]x", "# #[error]x"),
            ("x ##vso[task.x]", "x # #vso[task.x]"),
            ("##teamcity[x]", "# #teamcity[x]"),
            ("###[x", "## #[x"),
            ("::stop-commands::x", ": :stop-commands::x"),
            ("a::ERROR file=b::c", "a: :ERROR file=b::c"),
            (":::error::x", ":: :error::x"),
            ("a   ::new-command::", "a   : :new-command::"),
            ("::error::error", ": :error: :error"),
        ] {
            assert_eq!(line(text), shown, "{text}");
        }
        assert_eq!(plain("##[a] ::error", Sink::Markup), "#&#35;[a] :&#58;error");
        assert_eq!(plain("##[a] ::error", Sink::Json), r"#\u0023[a] :\u003aerror");
    }

    /// Whether nothing in a text is harmful at this sink.
    fn is_harmless(text: &str, sink: Sink) -> bool {
        let kept = |c| match sink {
            Sink::Lines => matches!(c, '\n' | '\r' | '\t'),
            Sink::Markup => c == '\n',
            Sink::Line | Sink::Json | Sink::Toml => false,
        };
        let found = |word: &str| text.to_ascii_lowercase().contains(word);
        text.chars().all(|c| is_plain(c) || kept(c))
            && !["##[", "##vso[", "::error", "::stop-commands"].into_iter().any(found)
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left(text in "([#:\\[ ]|vso|error|ERROR|stop-commands|\\PC|\\pC){0,12}") {
            for sink in SINKS {
                let once = plain(&text, sink);
                prop_assert!(is_harmless(&once, sink), "{:?} {}", sink, once);
                prop_assert_eq!(plain(&once, sink), &*once, "again");
            }
        }

        #[test]
        fn readers_of_json_get_the_same_text(text in "([#:\\[ ]|error|\\PC|\\pC){0,12}") {
            let quoted = serde_json::to_string(&text).expect("JSON");
            let shown = plain(&quoted, Sink::Json);
            prop_assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
        }
    }
}
