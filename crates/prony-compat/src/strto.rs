//! Parses numbers like C's `strtod` and `strtoul`.

/// Parse the number at the start of a text like `strtod`, and return it with the rest of the text.
/// `None` if there is no number, or one that is out of range.
pub(super) fn float_prefix(text: &str) -> Option<(f64, &str)> {
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let sign = if body.starts_with('-') { -1.0 } else { 1.0 };
    let lower = unsigned.get(..unsigned.len().min(8)).unwrap_or(unsigned).to_ascii_lowercase();
    for word in ["infinity", "inf"] {
        if lower.starts_with(word) {
            return Some((sign * f64::INFINITY, &unsigned[word.len()..]));
        }
    }
    if lower.starts_with("0x")
        && let Some((value, rest)) = hex_prefix(&unsigned[2..])
    {
        return Some((sign * value, rest));
    }
    let length = decimal_length(unsigned.as_bytes())?;
    let value: f64 = unsigned[..length].parse().ok()?;
    value.is_finite().then(|| (sign * value, &unsigned[length..]))
}

/// Parse a number like `strtod`; `None` if text follows it.
pub(super) fn float(text: &str) -> Option<f64> {
    float_prefix(text).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// The length of the decimal number at the start, with or without an exponent.
fn decimal_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    let mut broken = 0;
    if bytes.get(length) == Some(&b'.') {
        broken = digits(length + 1);
        length += 1 + broken;
    }
    if whole + broken == 0 {
        return None;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + signed..).map_or(0, |_| digits(length + 1 + signed));
        if exponent > 0 {
            length += 1 + signed + exponent;
        }
    }
    Some(length)
}

/// A hexadecimal number after its `0x`, with or without a binary exponent.
fn hex_prefix(text: &str) -> Option<(f64, &str)> {
    let (mut value, mut scale, mut seen, mut point) = (0.0_f64, 0_i32, false, false);
    let mut at = 0;
    for (i, c) in text.char_indices() {
        match c.to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                scale -= if point { 4 } else { 0 };
                seen = true;
            }
            None if c == '.' && !point => point = true,
            None => break,
        }
        at = i + 1;
    }
    if !seen {
        return None;
    }
    let rest = &text[at..];
    if let Some(exponent) = rest.strip_prefix(['p', 'P']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let power: i32 = unsigned[..digits].parse().unwrap_or(9_999);
            scale += if exponent.starts_with('-') { -power } else { power };
            let value = value * 2.0_f64.powi(scale);
            return value.is_finite().then_some((value, &unsigned[digits..]));
        }
    }
    let value = value * 2.0_f64.powi(scale);
    value.is_finite().then_some((value, rest))
}

/// Parse the number at the start of a text like `strtoul` with base 0 (decimal, `0x` hexadecimal,
/// `0` octal), and return it with the rest. `None` if there is no number, or one that is negative
/// or
/// out of range.
pub(super) fn whole_prefix(text: &str) -> Option<(u64, &str)> {
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let body = body.strip_prefix('+').unwrap_or(body);
    let hex = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => (hex, 16),
        _ if body.starts_with('0') => (body, 8),
        _ => (body, 10),
    };
    let length = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    let value = u64::from_str_radix(digits.get(..length)?, base).ok()?;
    Some((value, &digits[length..]))
}

/// Parse a number like `strtoul` with base 10; `None` if it is negative or text follows it.
pub(super) fn whole(text: &str) -> Option<u64> {
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let digits = body.strip_prefix('+').unwrap_or(body);
    if digits.starts_with('+') {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_like_strtod() {
        for (text, value, rest) in [
            ("5", 5.0, ""),
            (" \t5.25x", 5.25, "x"),
            (".5", 0.5, ""),
            ("5.", 5.0, ""),
            ("1e3", 1000.0, ""),
            ("1e", 1.0, "e"),
            ("1e+", 1.0, "e+"),
            ("-1.5e-1,", -0.15, ","),
            ("0x1p4", 16.0, ""),
            ("0x.8", 0.5, ""),
            ("0x1.8p+1z", 3.0, "z"),
            ("0xg", 0.0, "xg"),
            ("inf", f64::INFINITY, ""),
            ("-Infinity,", f64::NEG_INFINITY, ","),
            ("1,2", 1.0, ",2"),
        ] {
            assert_eq!(float_prefix(text), Some((value, rest)), "{text}");
        }
        for text in ["", "x", ".", "-", "1e999", "nan", "e5"] {
            assert_eq!(float_prefix(text), None, "{text}");
        }
        assert_eq!((float("1.5"), float("1.5s")), (Some(1.5), None));
    }

    #[test]
    fn parses_like_strtoul() {
        for (text, value, rest) in
            [("12,3", 12, ",3"), ("0x1f/", 31, "/"), ("012", 10, ""), ("0", 0, ""), ("0x", 0, "x")]
        {
            assert_eq!(whole_prefix(text), Some((value, rest)), "{text}");
        }
        for text in ["", "a", "-1", "99999999999999999999999"] {
            assert_eq!(whole_prefix(text), None, "{text}");
        }
        assert_eq!(
            (whole(" +5"), whole("5x"), whole(""), whole("-1")),
            (Some(5), None, None, None)
        );
        assert_eq!((whole("010"), whole("++5")), (Some(10), None));
    }
}
