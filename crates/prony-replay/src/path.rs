//! The paths of access logs, as they can be sent.

/// Bytes that stand for themselves in a request line.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        plain[byte] = byte != b'#' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Appends path and query of a request's target, without the host that it may have. Escapes of the
/// log (`\x22`, `\"`, `\u0022`) are undone, and what cannot stand in a request line is encoded with
/// `%`. Returns false if the target is no path.
pub(crate) fn append(target: &[u8], query: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(target) = without_host(target) else { return false };
    if target.first() != Some(&b'/') && target != b"*" {
        // `http://host` and `http://host?query`
        if !(target.is_empty() || target[0] == b'?') {
            return false;
        }
        out.push(b'/');
    }
    append_text(target, out);
    let query = query.strip_prefix(b"?").unwrap_or(query);
    if !query.is_empty() && query != b"-" {
        out.push(b'?');
        append_text(query, out);
    }
    true
}

/// The target without scheme and host, or `None` if it is neither a path nor such a URL.
fn without_host(target: &[u8]) -> Option<&[u8]> {
    if matches!(target, [b'/', ..] | [b'*']) {
        return Some(target);
    }
    let rest = target.strip_prefix(b"http")?;
    let rest = rest.strip_prefix(b"s").unwrap_or(rest).strip_prefix(b"://")?;
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    Some(&rest[end..])
}

fn append_text(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().all(|&byte| PLAIN[usize::from(byte)]) {
        return out.extend_from_slice(text);
    }
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = if byte == b'\\' { unescaped(after) } else { (byte, after) };
        rest = after;
        if PLAIN[usize::from(byte)] {
            out.push(byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

/// The byte of an escape after its backslash, and what follows. A backslash that escapes nothing
/// stands for itself.
fn unescaped(text: &[u8]) -> (u8, &[u8]) {
    let hex = |digits: &[u8]| {
        let mut value = 0;
        for digit in digits {
            value = value * 16 + char::from(*digit).to_digit(16)?;
        }
        u8::try_from(value).ok()
    };
    match text {
        [b'x', h, l, rest @ ..] if let Some(byte) = hex(&[*h, *l]) => (byte, rest),
        [b'u', a, b, c, d, rest @ ..]
            if let Some(byte) = hex(&[*a, *b, *c, *d])
                && byte < 0x80 =>
        {
            (byte, rest)
        }
        [byte @ (b'"' | b'\\' | b'/'), rest @ ..] => (*byte, rest),
        _ => (b'\\', text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: &str, query: &str) -> Option<String> {
        let mut out = Vec::new();
        append(target.as_bytes(), query.as_bytes(), &mut out)
            .then(|| String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn paths_are_sent_as_they_were() {
        let same = ["/", "/a/b?c=d&e=%20", "*", "/a:b;c=d,e~(f)", "//h/x", "/\"'<>{}|^`"];
        for target in same {
            assert_eq!(path(target, "-").as_deref(), Some(target));
        }
        assert_eq!(path("/a", "b=c").as_deref(), Some("/a?b=c"));
        assert_eq!(path("/a", "?b=c").as_deref(), Some("/a?b=c"));
    }

    #[test]
    fn hosts_are_left_out() {
        for (target, expected) in [
            ("http://example.com:80/a?b", "/a?b"),
            ("https://example.com", "/"),
            ("https://example.com?a", "/?a"),
        ] {
            assert_eq!(path(target, "").as_deref(), Some(expected));
        }
        for target in ["", "-", "example.com:443", "ftp://x/", "httpx://a/", "a"] {
            assert_eq!(path(target, ""), None, "{target}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_encoded() {
        for (target, expected) in [
            (r"/a\x22b\x5Cc", "/a\"b%5Cc"),
            (r#"/\"\\\/"#, "/\"%5C/"),
            (r"/\u0020\u00e9", "/%20%5Cu00e9"),
            (r"/\x\xg1", r"/%5Cx%5Cxg1"),
            ("/a b\t#é", "/a%20b%09%23%C3%A9"),
            ("/a\r\nX: y", "/a%0D%0AX:%20y"),
        ] {
            assert_eq!(path(target, "").as_deref(), Some(expected));
        }
    }
}
