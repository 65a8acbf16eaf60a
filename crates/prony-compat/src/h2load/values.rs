//! The values of h2load's options: counts, sizes and durations.

use prony_base::units::Span;

/// A whole number: digits only.
pub(super) fn count(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A size in bytes: a number, and K, M or G (powers of 1024).
pub(super) fn size(text: &str) -> Option<u64> {
    let factor = match text.as_bytes().last()? {
        b'k' | b'K' => 1 << 10,
        b'm' | b'M' => 1 << 20,
        b'g' | b'G' => 1 << 30,
        _ => return count(text),
    };
    count(&text[..text.len() - 1])?.checked_mul(factor)
}

/// A duration: a number, and h, m, s or ms; seconds without a unit.
pub(super) fn duration(text: &str) -> Option<Span> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let nanos = match text[end..].to_ascii_lowercase().as_str() {
        "" | "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    count(&text[..end])?.checked_mul(nanos).map(Span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes() {
        for (text, value) in [
            ("0", Some(0)),
            ("16384", Some(16_384)),
            ("16K", Some(16_384)),
            ("1g", Some(1 << 30)),
            ("", None),
            ("K", None),
            ("1.5K", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("9999999999G", Some(9_999_999_999 << 30)),
            ("99999999999G", None),
        ] {
            assert_eq!(size(text), value, "{text}");
        }
    }

    #[test]
    fn parses_durations() {
        for (text, millis) in [
            ("1", Some(1_000)),
            ("1s", Some(1_000)),
            ("500ms", Some(500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0", Some(0)),
            ("", None),
            ("x", None),
            ("-1", None),
            ("1.5", None),
            ("1d", None),
        ] {
            assert_eq!(duration(text), millis.map(Span::from_millis), "{text}");
        }
    }
}
