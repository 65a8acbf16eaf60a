//! Filters on the value of a field: `{{name | url}}`, `{{name | hmac-sha256 env KEY base64}}`.

use base64::Engine as _;

use super::quotes::{quoted, split};
use super::sign::{self, Encoding};
use super::value::{Scope, What, environment_name, parse_value};
use super::{Source, Unsent};

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Percent-encoding of all but the unreserved characters (RFC 3986, 2.3).
    Url,
    /// The escapes of a JSON string, without the quotes around it.
    Json,
    Base64,
    /// Path and query of a URL; any other text stays unchanged.
    Path,
    /// Another value after this one.
    Append(Box<What>),
    Sha256(Encoding),
    /// HMAC-SHA-256 with a key.
    HmacSha256(Box<What>, Encoding),
    /// A JSON Web Token of these claims, signed with a key (HS256).
    Jwt(Box<What>),
}

/// A filter as it is written.
struct Written<'a> {
    name: &'a str,
    /// The value after its name; may be empty.
    value: &'a str,
    encoding: Option<Encoding>,
}

impl<'a> Written<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut written = Self { name, value: rest.trim(), encoding: None };
        match name {
            "sha256" => written.encoding = Encoding::named(written.value),
            // A value that is called as an encoding is a value.
            "hmac-sha256" => {
                if let Some((value, last)) = written.value.rsplit_once(char::is_whitespace)
                    && let Some(encoding) = Encoding::named(last)
                {
                    written.value = value.trim_end();
                    written.encoding = Some(encoding);
                }
            }
            _ => {}
        }
        written
    }

    /// The value that it signs with.
    fn key(&self, scope: &Scope, draws: &mut u64) -> Result<Box<What>, String> {
        let name = self.name;
        if self.value.is_empty() {
            return Err(format!("'{name}' needs a key: write '{name} env NAME'"));
        }
        if quoted(self.value).is_some() {
            return Err(format!(
                "the key of '{name}' must not be in the plan, where others can read it: write \
                 '{name} env NAME', or use a column of a table or a variable"
            ));
        }
        parse_value(self.value, scope, draws).map(Box::new)
    }
}

/// Parse a filter. `draws` counts the random fields.
pub(super) fn parse(text: &str, scope: &Scope, draws: &mut u64) -> Result<Filter, String> {
    let written = Written::new(text);
    let name = written.name;
    let encoding = written.encoding.unwrap_or(Encoding::Hex);
    match name {
        "append" => parse_value(written.value, scope, draws).map(|v| Filter::Append(Box::new(v))),
        "hmac-sha256" => Ok(Filter::HmacSha256(written.key(scope, draws)?, encoding)),
        "jwt" => Ok(Filter::Jwt(written.key(scope, draws)?)),
        "sha256" if written.value.is_empty() || written.encoding.is_some() => {
            Ok(Filter::Sha256(encoding))
        }
        "sha256" => Err(format!(
            "'{}' is not an encoding; write 'sha256', or with hex, base64 or base64url",
            written.value.escape_debug()
        )),
        "url" | "json" | "base64" | "path" if !written.value.is_empty() => {
            Err(format!("'{name}' takes no value, but has '{}'", written.value.escape_debug()))
        }
        "url" => Ok(Filter::Url),
        "json" => Ok(Filter::Json),
        "base64" => Ok(Filter::Base64),
        "path" => Ok(Filter::Path),
        _ => Err(format!(
            "'{}' is not a known filter; use url, json, base64, path, append VALUE, sha256, \
             hmac-sha256 KEY or jwt KEY",
            name.escape_debug()
        )),
    }
}

/// The environment variables in a field: `env NAME`, alone or as the value of a filter.
pub(super) fn environment(field: &str) -> impl Iterator<Item = &str> {
    let parts = split(field, '|').into_iter().enumerate();
    parts.filter_map(|(index, part)| match index {
        0 => environment_name(part.trim()),
        _ => environment_name(Written::new(part).value),
    })
}

impl Filter {
    /// The value that it contains, if it has one.
    pub(super) fn value(&self) -> Option<&What> {
        match self {
            Self::Append(value) | Self::HmacSha256(value, _) | Self::Jwt(value) => Some(value),
            Self::Url | Self::Json | Self::Base64 | Self::Path | Self::Sha256(_) => None,
        }
    }

    /// Convert what follows `start` in `out`. `scratch` is overwritten.
    ///
    /// # Errors
    /// A variable has no value.
    pub(super) fn apply(
        &self,
        source: Source<'_>,
        start: usize,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        if let Self::Append(value) = self {
            return value.write(source, out);
        }
        scratch.clear();
        scratch.extend_from_slice(&out[start..]);
        out.truncate(start);
        match self.value() {
            None => self.convert(scratch, out),
            Some(key) => {
                key.write(source, out)?;
                let key = sign::key(&out[start..]);
                out.truncate(start);
                match self {
                    Self::HmacSha256(_, encoding) => {
                        sign::hmac_sha256(&key, scratch, *encoding, out);
                    }
                    _ => sign::jwt(&key, scratch, out),
                }
            }
        }
        Ok(())
    }

    /// The conversions without a value of their own.
    fn convert(&self, value: &[u8], out: &mut Vec<u8>) {
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
            Self::Sha256(encoding) => sign::sha256(value, *encoding, out),
            Self::Append(_) | Self::HmacSha256(..) | Self::Jwt(_) => {}
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
        parse(name, &Scope::default(), &mut 0).expect("a filter").convert(value, &mut out);
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
    fn invalid_filters_are_refused_with_a_reason() {
        for (text, why) in [
            ("html", "'html' is not a known filter; use url, json, base64, path, append VALUE"),
            ("url x", "'url' takes no value, but has 'x'"),
            ("sha256 md5", "'md5' is not an encoding; write 'sha256', or with hex"),
            ("hmac-sha256", "'hmac-sha256' needs a key: write 'hmac-sha256 env NAME'"),
            ("hmac-sha256 'k'", "the key of 'hmac-sha256' must not be in the plan"),
            ("jwt \"k\"", "the key of 'jwt' must not be in the plan"),
            ("jwt env NONE", "the environment variable 'NONE' is not set"),
            ("append", "the field is empty"),
        ] {
            let refused = parse(text, &Scope::default(), &mut 0).expect_err(text);
            assert!(refused.starts_with(why), "{text}: {refused}");
        }
    }
}
