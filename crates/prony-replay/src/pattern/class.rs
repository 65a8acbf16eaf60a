//! What the parts of a line may contain.

use crate::times;

/// What a part may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Anything.
    Text,
    /// No blanks.
    Word,
    /// Digits, and the signs of numbers.
    Number,
    /// An address, the name of a host, a method or another name.
    Name,
    /// A date with its time, in the Common Log Format or ISO 8601.
    Time,
    /// Values for several attempts, as nginx has those of upstreams: `0.100, 0.500 : 0.2`.
    List,
    /// Method, target and version.
    Request,
    /// A path, a query or a URL.
    Target,
}

/// How strictly a request is read: as servers accept them, with blanks in its target, and as
/// anything that may have arrived.
pub(super) const LEVELS: usize = 3;

/// The longest time of fixed form.
const TIME_MAX: usize = 40;

impl Class {
    /// Whether such a part never contains this byte.
    pub(super) fn excludes(self, byte: u8) -> bool {
        match self {
            Self::Text | Self::Request | Self::Target => false,
            Self::Word => matches!(byte, b' ' | b'\t'),
            Self::Number => !(byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')),
            Self::Name => !(byte.is_ascii_alphanumeric() || b".:-_[]%*".contains(&byte)),
            Self::Time => !(byte.is_ascii_alphanumeric() || b"/:+- .".contains(&byte)),
            Self::List => matches!(byte, b'"' | b'|' | b';' | b'\t'),
        }
    }

    /// Calls `found` with each place up to `limit` at which a part from `start` on may end.
    pub(super) fn ends(
        self,
        text: &[u8],
        (start, limit): (usize, usize),
        level: usize,
        found: &mut dyn FnMut(usize),
    ) {
        let whole = &text[start..limit];
        let run = || whole.iter().position(|b| self.excludes(*b)).unwrap_or(whole.len());
        match self {
            Self::Text => (start..=limit).for_each(found),
            Self::Word | Self::Number | Self::Name => (start..=start + run()).for_each(found),
            Self::Time => {
                let is_time = |len: &usize| {
                    let time = &whole[..*len];
                    times::clf(time).is_some() || times::iso(time).is_some()
                };
                // A zone belongs to it.
                let len = (19..=whole.len().min(TIME_MAX)).rev().find(is_time);
                len.into_iter().for_each(|len| found(start + len));
            }
            Self::List => list(whole, &mut |len| found(start + len)),
            Self::Request => request(whole, level, &mut |len| found(start + len)),
            Self::Target if level == 0 => {
                let is_target = matches!(whole, [b'/' | b'*' | b'?' | b'-', ..])
                    || whole.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"));
                if is_target {
                    Self::Word.ends(text, (start, limit), level, found);
                }
                if !is_target || whole.starts_with(b"-") {
                    found(start);
                }
            }
            Self::Target => Self::Text.ends(text, (start, limit), level, found),
        }
    }
}

/// The end of each item of a list.
fn list(text: &[u8], found: &mut dyn FnMut(usize)) {
    let mut at = 0;
    loop {
        let is_item = |b: &&u8| !matches!(b, b' ' | b',') && !Class::List.excludes(**b);
        at += text[at..].iter().take_while(is_item).count();
        found(at);
        at += match &text[at..] {
            [b',', b' ', ..] => 2,
            [b' ', b':', b' ', ..] => 3,
            _ => return,
        };
    }
}

/// The ends of a request.
fn request(text: &[u8], level: usize, found: &mut dyn FnMut(usize)) {
    if level == 2 {
        return (0..=text.len()).for_each(found);
    }
    if level == 0 {
        // A connection without a request.
        found(0);
        if text.starts_with(b"-") {
            found(1);
        }
    }
    let method = text.iter().take_while(|b| !Class::Name.excludes(**b)).count();
    let Some(rest) = text[method..].strip_prefix(b" ").filter(|_| method > 0) else { return };
    let target = method + 1;
    for at in memchr::memmem::find_iter(rest, b" HTTP/") {
        let is_version = |b: &&u8| b.is_ascii_digit() || **b == b'.';
        let version = rest[at + 6..].iter().take_while(is_version).count();
        let has_blank = rest[..at].contains(&b' ');
        if version > 0 && has_blank == (level == 1) {
            found(target + at + 6 + version);
        }
    }
    if level == 1 {
        // HTTP/0.9 has no version.
        found(target + rest.iter().take_while(|b| **b != b' ').count());
    }
}
