//! Filters on the value of a field: `{{name | url}}`.

use base64::Engine as _;

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Percent-encoding of all but the unreserved characters (RFC 3986, 2.3).
    Url,
    /// The escapes of a JSON string, without the quotes around it.
    Json,
    Base64,
    /// Path and query of a URL; any other text stays unchanged.
    Path,
}

/// The filter with that name.
pub(super) fn parse(name: &str) -> Result<Filter, String> {
    match name {
        "url" => Ok(Filter::Url),
        "json" => Ok(Filter::Json),
        "base64" => Ok(Filter::Base64),
        "path" => Ok(Filter::Path),
        _ => Err(format!(
            "'{}' is not a known filter; use url, json, base64 or path",
            name.escape_debug()
        )),
    }
}

impl Filter {
    pub(super) fn apply(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Url => url(value, out),
            Self::Json => json(value, out),
            Self::Base64 => {
                let start = out.len();
                out.resize(start + value.len().div_ceil(3) * 4, 0);
                base64::engine::general_purpose::STANDARD
                    .encode_slice(value, &mut out[start..])
                    .expect("the buffer has this length");
            }
            Self::Path => path(value, out),
        }
    }
}

fn url(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        }
    }
}

fn json(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in value {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[high], DIGITS[low]]);
            }
            _ => out.push(byte),
        }
    }
}

fn path(value: &[u8], out: &mut Vec<u8>) {
    let rest = value.windows(3).position(|w| w == b"://").map(|at| &value[at + 3..]);
    // Only a scheme may precede it, neither a path nor a query.
    let scheme = value.iter().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b));
    let rest = match rest {
        Some(rest) if scheme.count() + 3 + rest.len() == value.len() => rest,
        _ => {
            out.extend_from_slice(value);
            return;
        }
    };
    let begins = rest.iter().position(|b| b"/?#".contains(b)).unwrap_or(rest.len());
    if rest.get(begins) != Some(&b'/') {
        out.push(b'/');
    }
    let end = rest.iter().position(|&b| b == b'#').unwrap_or(rest.len()).max(begins);
    out.extend_from_slice(&rest[begins..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(name: &str, value: &[u8]) -> String {
        let mut out = b"<".to_vec();
        parse(name).expect("a filter").apply(value, &mut out);
        String::from_utf8(out).expect("text").split_off(1)
    }

    #[test]
    fn filters_encode_values() {
        for (name, value, encoded) in [
            ("url", "a b&c=d/ü~", "a%20b%26c%3Dd%2F%C3%BC~"),
            ("url", "", ""),
            ("json", "\"a\\b\"\n\r\t\u{1}ü", "\\\"a\\\\b\\\"\\n\\r\\t\\u0001ü"),
            ("base64", "user:pass", "dXNlcjpwYXNz"),
            ("base64", "", ""),
            ("path", "http://h:8080/a/b?c=d#e", "/a/b?c=d"),
            ("path", "http://h", "/"),
            ("path", "http://h?q=1", "/?q=1"),
            ("path", "http://h#f", "/"),
            ("path", "/a?next=http://h/b", "/a?next=http://h/b"),
            ("path", "/plain", "/plain"),
            ("path", "", ""),
        ] {
            assert_eq!(filtered(name, value.as_bytes()), encoded, "{value} | {name}");
        }
        let value: String = (0..=127).map(char::from).collect();
        let text = format!("\"{}\"", filtered("json", value.as_bytes()));
        assert_eq!(serde_json::from_str::<String>(&text).expect("a JSON string"), value);
    }

    #[test]
    fn an_unknown_filter_is_refused_with_the_known_ones() {
        assert_eq!(
            parse("html"),
            Err("'html' is not a known filter; use url, json, base64 or path".into())
        );
    }
}
