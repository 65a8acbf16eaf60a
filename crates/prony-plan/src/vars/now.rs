//! The field `{{now}}`: the time at which a request is filled in, in UTC, in any format.

use std::io::Write as _;

use time::UtcDateTime;
use time::format_description::{OwnedFormatItem, parse_strftime_owned};

use super::quotes::quoted;
use prony_base::units::Span;

/// The time zero of a run in virtual time, in nanoseconds since 1970: 2026-01-01T00:00:00Z.
pub const VIRTUAL_EPOCH: u64 = 1_767_225_600_000_000_000;

/// What a field writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Now {
    /// What is added to the time, in nanoseconds.
    offset: i128,
    format: Format,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Format {
    /// `2026-01-31T09:00:00.123Z` (RFC 3339).
    Rfc3339,
    /// `Sat, 31 Jan 2026 09:00:00 GMT`, as in headers of HTTP.
    Http,
    /// A number since 1970: how many nanoseconds its unit has.
    Unix(i128),
    /// A format of strftime.
    Custom(OwnedFormatItem),
}

/// The forms of the field, for messages.
const FORMS: &str = "write 'now [+TIME|-TIME] [FORMAT]', with FORMAT one of rfc3339, http, unix, \
                     unix-ms, unix-us, unix-ns, or a quoted one as \"%Y-%m-%d\"";

/// Parse the words of a field, the first of which is `now`.
pub(super) fn parse(words: &[&str]) -> Result<Now, String> {
    let mut now = Now { offset: 0, format: Format::Rfc3339 };
    let mut rest = &words[1..];
    if let Some((first, more)) = rest.split_first()
        && let Some(sign) = first.chars().next().filter(|&sign| sign == '+' || sign == '-')
    {
        let span: Span = first[1..].parse().map_err(|why| format!("'{first}': {why}"))?;
        now.offset = if sign == '+' { i128::from(span.0) } else { -i128::from(span.0) };
        rest = more;
    }
    match rest {
        [] => {}
        [format] => now.format = parse_format(format)?,
        _ => return Err(FORMS.to_owned()),
    }
    Ok(now)
}

fn parse_format(word: &str) -> Result<Format, String> {
    Ok(match word {
        "rfc3339" => Format::Rfc3339,
        "http" => Format::Http,
        "unix" => Format::Unix(1_000_000_000),
        "unix-ms" => Format::Unix(1_000_000),
        "unix-us" => Format::Unix(1_000),
        "unix-ns" => Format::Unix(1),
        _ => {
            let Some(text) = quoted(word) else {
                return Err(format!("'{}' is unknown; {FORMS}", word.escape_debug()));
            };
            let wrong = || format!("'{}' is not a format of strftime for UTC", text.escape_debug());
            let item = parse_strftime_owned(text).map_err(|_| wrong())?;
            // Not all that can be parsed can be written.
            let format = Format::Custom(item);
            let sample = Now { offset: 0, format: format.clone() };
            if !sample.put(i128::from(VIRTUAL_EPOCH), &mut Vec::new()) {
                return Err(wrong());
            }
            format
        }
    })
}

impl Now {
    /// Append the time, which is `unix_ns` nanoseconds after 1970. Times that the format cannot
    /// write (a year above 9999) are empty.
    pub(super) fn write(&self, unix_ns: u64, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.put(i128::from(unix_ns) + self.offset, out) {
            out.truncate(start);
        }
    }

    fn put(&self, ns: i128, out: &mut Vec<u8>) -> bool {
        if let Format::Unix(unit) = self.format {
            return write!(out, "{}", ns.div_euclid(unit)).is_ok();
        }
        let Ok(at) = UtcDateTime::from_unix_timestamp_nanos(ns) else { return false };
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second) = at.as_hms();
        let month = u8::from(month);
        match &self.format {
            Format::Rfc3339 => {
                let ms = at.millisecond();
                let date = format_args!("{year:04}-{month:02}-{day:02}");
                write!(out, "{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z").is_ok()
            }
            Format::Http => {
                const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
                const MONTHS: [&str; 12] = [
                    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                    "Dec",
                ];
                let weekday = DAYS[usize::from(at.weekday().number_days_from_monday())];
                let month = MONTHS[usize::from(month - 1)];
                let date = format_args!("{weekday}, {day:02} {month} {year:04}");
                write!(out, "{date} {hour:02}:{minute:02}:{second:02} GMT").is_ok()
            }
            Format::Custom(item) => at.format_into(out, item).is_ok(),
            Format::Unix(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26T07:30:05.678901234Z.
    const AT: u64 = 1_795_678_205_678_901_234;

    fn shown(words: &[&str], at: u64) -> String {
        let mut out = b">".to_vec();
        parse(words).expect("a field").write(at, &mut out);
        String::from_utf8(out).expect("text").split_off(1)
    }

    #[test]
    fn formats_by_table() {
        for (words, expected) in [
            (&["now"][..], "2026-11-26T07:30:05.678Z"),
            (&["now", "rfc3339"], "2026-11-26T07:30:05.678Z"),
            (&["now", "http"], "Thu, 26 Nov 2026 07:30:05 GMT"),
            (&["now", "unix"], "1795678205"),
            (&["now", "unix-ms"], "1795678205678"),
            (&["now", "unix-us"], "1795678205678901"),
            (&["now", "unix-ns"], "1795678205678901234"),
            (&["now", "'%Y-%m-%d'"], "2026-11-26"),
            (&["now", "\"%d %b %Y %H:%M:%S\""], "26 Nov 2026 07:30:05"),
            (&["now", "+1h", "'%H:%M'"], "08:30"),
            (&["now", "-1d", "'%Y-%m-%d'"], "2026-11-25"),
            (&["now", "+36h30m"], "2026-11-27T20:00:05.678Z"),
            (&["now", "-5s", "unix"], "1795678200"),
        ] {
            assert_eq!(shown(words, AT), expected, "{words:?}");
        }
        assert_eq!(shown(&["now"], VIRTUAL_EPOCH), "2026-01-01T00:00:00.000Z");
        assert_eq!(shown(&["now", "-21000d", "unix"], AT), "-18721795", "before 1970");
    }

    #[test]
    fn refuses_unknown_words() {
        for (words, why) in [
            (&["now", "later"][..], "'later' is unknown; write 'now"),
            (&["now", "unix", "+1h"], "write 'now [+TIME|-TIME] [FORMAT]'"),
            (&["now", "+1x"], "'+1x': "),
            (&["now", "'%Q'"], "not a format of strftime"),
            (&["now", "''", "''"], "write 'now"),
        ] {
            let refused = parse(words).expect_err("it is refused");
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }
}
