//! The texts of `grpc-message` and `grpc-timeout`.

/// The longest text of a timeout, in bytes.
pub const TIMEOUT_TEXT: usize = 9;

/// The units, with their length in nanoseconds.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// The most that eight digits can say.
const MOST: u64 = 99_999_999;

/// Append the text of a timeout: in the finest unit in which it has at most eight digits, rounded
/// up.
pub fn timeout_text(nanos: u64, out: &mut Vec<u8>) {
    let fits = |&&(_, unit): &&(u8, u64)| nanos.div_ceil(unit) <= MOST;
    let (letter, unit) = UNITS.iter().find(fits).copied().unwrap_or(UNITS[5]);
    let mut rest = nanos.div_ceil(unit).min(MOST);
    let (mut digits, mut first) = ([0; TIMEOUT_TEXT - 1], TIMEOUT_TEXT - 1);
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
    out.push(letter);
}

/// A timeout in nanoseconds; `None` if the text is malformed.
pub fn parse_timeout(text: &[u8]) -> Option<u64> {
    let (letter, digits) = text.split_last()?;
    let (_, unit) = UNITS.iter().find(|(known, _)| known == letter)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let number = digits.iter().fold(0, |n, d| 10 * n + u64::from(d.wrapping_sub(b'0')));
    is_number.then(|| number.saturating_mul(*unit))
}

/// Append a message, with bytes outside printable ASCII (and `%`) as `%XX`.
pub fn encode_message(message: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in message.as_bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => {
                out.push(b'%');
                out.push(DIGITS[usize::from(byte >> 4)]);
                out.push(DIGITS[usize::from(byte & 15)]);
            }
        }
    }
}

/// The message behind a text. Never fails: an invalid `%` stays, invalid UTF-8 is replaced.
pub fn decode_message(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, beyond @ ..]) if digit(*high).is_some() && digit(*low).is_some() => {
                let value = digit(*high).unwrap_or(0) << 4 | digit(*low).unwrap_or(0);
                bytes.push(value);
                rest = beyond;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The most characters of a message that are shown.
const SHOWN_MAX: usize = 200;

/// The message behind a text as a report shows it: shortened, with control characters escaped.
pub fn shown_message(text: &[u8]) -> String {
    shown(&decode_message(text))
}

/// A text of a peer as a report shows it: shortened, with control characters escaped.
pub fn shown_text(text: &[u8]) -> String {
    shown(&String::from_utf8_lossy(text))
}

fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == SHOWN_MAX {
            shown.push_str("...");
            break;
        }
        match crate::plain::is_plain(c) {
            true => shown.push(c),
            false => shown.extend(c.escape_default()),
        }
    }
    shown
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(nanos: u64) -> String {
        let mut out = Vec::new();
        timeout_text(nanos, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn writes_timeouts_in_the_finest_unit() {
        assert_eq!(text(0), "0n");
        assert_eq!(text(99_999_999), "99999999n");
        assert_eq!(text(100_000_001), "100001u");
        assert_eq!(text(1_000_000_000), "1000000u");
        assert_eq!(text(100_000_000_000), "100000m");
        assert_eq!(text(100_000_000_000_000), "100000S");
        assert_eq!(text(u64::MAX), "5124096H");
    }

    proptest! {
        #[test]
        fn a_timeout_survives(nanos in any::<u64>()) {
            let read = parse_timeout(text(nanos).as_bytes()).expect("a timeout");
            prop_assert!(read >= nanos);
            prop_assert!((read - nanos) as f64 <= nanos as f64 * 1e-3, "{} for {}", read, nanos);
        }

        #[test]
        fn a_message_survives(message in any::<String>()) {
            let mut out = Vec::new();
            encode_message(&message, &mut out);
            prop_assert!(out.iter().all(|b| (b' '..=b'~').contains(b)));
            prop_assert_eq!(decode_message(&out), message);
        }
    }

    #[test]
    fn messages_are_shown_on_one_short_line() {
        assert_eq!(shown_message(b"100 %25 sold out"), "100 % sold out");
        assert_eq!(shown_message(b"%1b[31mred%0a%e2%80%ae"), "\\u{1b}[31mred\\n\\u{202e}");
        let long = shown_message(&b"%c3%a4".repeat(201));
        assert_eq!(long, "\u{e4}".repeat(200) + "...");
        assert_eq!(shown_message(&b"%c3%a4".repeat(200)), "\u{e4}".repeat(200));
    }

    #[test]
    fn refuses_malformed_timeouts() {
        for text in ["", "1", "S", "1s", "123456789S", "-1S", "+1S", "1 S", "1.5S"] {
            assert_eq!(parse_timeout(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_timeout(b"1H"), Some(3_600_000_000_000));
    }

    #[test]
    fn reads_malformed_messages_as_well_as_it_can() {
        assert_eq!(decode_message(b"100%"), "100%");
        assert_eq!(decode_message(b"%zz%4"), "%zz%4");
        assert_eq!(decode_message(b"a%20b%e2%82%ac"), "a b\u{20ac}");
        assert_eq!(decode_message(b"%ff"), "\u{fffd}");
    }
}
