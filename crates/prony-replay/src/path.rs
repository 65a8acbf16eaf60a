//! The paths of access logs, as they can be sent.

use crate::escapes::{Escapes, Flaw};
use crate::fields::{Aim, Why};

/// Bytes that can stand in a request line. Others than those of a URL (`"`, `\`, `#`, those of
/// UTF-8) can, too: servers read them, and so the log has them.
const fn can_be_sent(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

/// Bytes that stand for themselves in a path that the server has decoded. A `%` or `?` in it was
/// encoded, and so were bytes that no URL has.
const fn is_plain_when_decoded(byte: u8) -> bool {
    can_be_sent(byte)
        && byte < 0x7f
        && !matches!(byte, b'%' | b'?' | b'#' | b'"' | b'\\' | b'<' | b'>' | b'^' | b'`')
        && !matches!(byte, b'{' | b'|' | b'}')
}

/// Appends path and query of a request's target, without the host that it may have. The escapes of
/// the log are undone, and what cannot stand in a request line is encoded with `%`.
///
/// # Errors
/// The target is no path, or has an escape that the format does not have.
pub(crate) fn append(aim: &Aim<'_>, escapes: Escapes, out: &mut Vec<u8>) -> Result<(), Why> {
    let target = without_host(aim.target).ok_or(Why::NoTarget)?;
    if target.first() != Some(&b'/') && target != b"*" {
        // `http://host` and `http://host?query`
        if !(target.is_empty() || target[0] == b'?') {
            return Err(Why::NoTarget);
        }
        out.push(b'/');
    }
    let (path, query) = match memchr::memchr(b'?', target) {
        // What was `?` in the path and what begins the query look the same.
        Some(i) if aim.is_decoded && aim.has_query && target[i + 1..].contains(&b'?') => {
            return Err(Why::Ambiguous);
        }
        Some(i) if aim.is_decoded && aim.has_query => target.split_at(i),
        _ => (target, &b""[..]),
    };
    let is_plain = if aim.is_decoded { is_plain_when_decoded } else { can_be_sent };
    append_text(path, escapes, is_plain, out)?;
    append_text(query, escapes, can_be_sent, out)?;
    // `?-` is a query, `-` is none.
    if !matches!(aim.query, b"" | b"-" | b"?") {
        let query = aim.query.strip_prefix(b"?").unwrap_or(aim.query);
        out.push(b'?');
        append_text(query, escapes, can_be_sent, out)?;
    }
    Ok(())
}

/// The target without scheme and host, or `None` if it is neither a path nor such a URL.
fn without_host(target: &[u8]) -> Option<&[u8]> {
    if matches!(target, [b'/', ..] | [b'*']) {
        return Some(target);
    }
    let is_scheme = |scheme: &[u8]| scheme.eq_ignore_ascii_case(b"http");
    let rest = target.get(4..).filter(|_| is_scheme(&target[..4]))?;
    let rest = rest.strip_prefix(b"s").or_else(|| rest.strip_prefix(b"S")).unwrap_or(rest);
    let rest = rest.strip_prefix(b"://")?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    Some(&rest[end..])
}

fn append_text(
    text: &[u8],
    escapes: Escapes,
    is_plain: fn(u8) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), Why> {
    let undone = escapes.undo(text, |bytes| {
        if bytes.iter().all(|&byte| is_plain(byte)) {
            return out.extend_from_slice(bytes);
        }
        for &byte in bytes {
            if is_plain(byte) {
                out.push(byte);
            } else {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'%', high, low]);
            }
        }
    });
    undone.map_err(|flaw| match flaw {
        Flaw::Escape => Why::Escape,
        Flaw::Replaced => Why::Replaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(aim: &Aim<'_>) -> Result<String, Why> {
        let mut out = Vec::new();
        append(aim, Escapes::Backslash, &mut out)?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    fn path(target: &str, query: &str) -> Result<String, Why> {
        let (target, query) = (target.as_bytes(), query.as_bytes());
        sent(&Aim { target, query, ..Aim::default() })
    }

    #[test]
    fn paths_are_sent_as_they_were() {
        let same = ["/", "/a/b?c=d&e=%20", "*", "/a:b;c=d,e~(f)", "//h/x", "/\"'<>{}|^`#\u{e9}"];
        for target in same {
            assert_eq!(path(target, "-").as_deref(), Ok(target));
        }
        assert_eq!(path("/a", "b=c").as_deref(), Ok("/a?b=c"));
        assert_eq!(path("/a", "?b=c").as_deref(), Ok("/a?b=c"));
        assert_eq!(path("/a", "?-").as_deref(), Ok("/a?-"));
    }

    #[test]
    fn hosts_are_left_out() {
        for (target, expected) in [
            ("http://example.com:80/a?b", "/a?b"),
            ("HTTPS://example.com/a", "/a"),
            ("https://example.com", "/"),
            ("https://example.com?a", "/?a"),
        ] {
            assert_eq!(path(target, "").as_deref(), Ok(expected));
        }
        for target in ["", "-", "example.com:443", "ftp://x/", "httpx://a/", "a"] {
            assert_eq!(path(target, ""), Err(Why::NoTarget), "{target}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_encoded() {
        for (target, expected) in [
            (r"/a\x22b\x5Cc", r#"/a"b\c"#),
            (r#"/\"\\\/"#, r#"/"\/"#),
            (r"/\u0020\u00e9\x7F", "/%20\u{e9}%7F"),
            ("/a b\t", "/a%20b%09"),
            ("/a\r\nX: y", "/a%0D%0AX:%20y"),
        ] {
            assert_eq!(path(target, "").as_deref(), Ok(expected));
        }
        assert_eq!(path(r"/\x\xg1", ""), Err(Why::Escape));
    }

    /// `$uri` and `%U` are what the server has made of the path.
    #[test]
    fn decoded_paths_are_encoded_again() {
        let decoded = |target: &'static str, query: &'static str, has_query| {
            let (target, query) = (target.as_bytes(), query.as_bytes());
            sent(&Aim { target, query, is_decoded: true, has_query })
        };
        let sent = "/a%20b%25%3F%C3%A9?c=%20";
        assert_eq!(decoded("/a b%?\u{e9}", "c=%20", false).as_deref(), Ok(sent));
        assert_eq!(decoded("/a b%?c=%20", "", true).as_deref(), Ok("/a%20b%25?c=%20"));
        assert_eq!(decoded("/a?b?c", "", true), Err(Why::Ambiguous));
    }
}
