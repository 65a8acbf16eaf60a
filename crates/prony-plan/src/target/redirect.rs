//! Where redirects lead: `Location` headers, resolved against the request that they answer.

/// The destination of a redirect, apart from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectTo<'a> {
    /// The server of the request.
    Same,
    /// The server that the header names.
    Origin(Origin<'a>),
}

/// Scheme, host and port.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Whether the scheme is https; `None`: that of the request.
    pub tls: Option<bool>,
    /// Name or address, without brackets; its case does not matter.
    pub host: &'a [u8],
    /// The port, if it is given.
    pub port: Option<u16>,
}

impl PartialEq for Origin<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.tls, self.port) == (other.tls, other.port)
            && self.host.eq_ignore_ascii_case(other.host)
    }
}

impl Eq for Origin<'_> {}

impl<'a> Origin<'a> {
    /// The origin that an authority (`host`, `host:port`) names. `None` if it is malformed.
    pub fn of(authority: &'a [u8], tls: Option<bool>) -> Option<Self> {
        let (host, port) = match authority.strip_prefix(b"[") {
            Some(rest) => {
                let end = rest.iter().position(|&byte| byte == b']')?;
                (&rest[..end], &rest[end + 1..])
            }
            None => {
                let end = authority.iter().position(|&byte| byte == b':');
                authority.split_at(end.unwrap_or(authority.len()))
            }
        };
        let port = match port {
            b"" | b":" => None,
            _ => {
                let digits = port.strip_prefix(b":")?;
                let is_number = digits.iter().all(u8::is_ascii_digit);
                let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
                Some(text.parse().ok().filter(|&port: &u16| port > 0)?)
            }
        };
        let is_of_host = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:%".contains(&byte);
        (!host.is_empty() && host.iter().all(is_of_host)).then_some(Self { tls, host, port })
    }

    /// The same with scheme and port, for a request over TLS or without it.
    #[must_use]
    pub fn complete(self, tls: bool) -> Self {
        let tls = self.tls.unwrap_or(tls);
        let port = self.port.unwrap_or(if tls { 443 } else { 80 });
        Self { tls: Some(tls), port: Some(port), ..self }
    }
}

impl std::fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tls = self.tls == Some(true);
        let host = String::from_utf8_lossy(self.host).to_ascii_lowercase();
        f.write_str(if tls { "https://" } else { "http://" })?;
        match host.contains(':') {
            true => write!(f, "[{host}]")?,
            false => f.write_str(&host)?,
        }
        let usual = if tls { 443 } else { 80 };
        match self.port.filter(|&port| port != usual) {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Resolve the value of a `Location` header against the path of its request (RFC 3986, 5.2), and
/// write the path of the next request to `path`. A fragment is dropped. Bytes that a request line
/// cannot have are escaped. `None`: nothing can be requested there (another scheme, a malformed
/// authority, a control character).
pub fn resolve_redirect<'a>(
    location: &'a [u8],
    base: &[u8],
    path: &mut Vec<u8>,
) -> Option<RedirectTo<'a>> {
    path.clear();
    let location = before(location.trim_ascii(), b"#");
    if location.iter().any(u8::is_ascii_control) {
        return None;
    }
    let (tls, rest) = match scheme(location) {
        Some((name, rest)) => {
            let tls = name.eq_ignore_ascii_case(b"https");
            if !tls && !name.eq_ignore_ascii_case(b"http") {
                return None;
            }
            // Without an authority, a URL of HTTP names nothing.
            (Some(tls), Some(rest.strip_prefix(b"//")?))
        }
        None => (None, location.strip_prefix(b"//")),
    };
    let Some(rest) = rest else {
        relative(location, base, path);
        return Some(RedirectTo::Same);
    };
    let authority = before(rest, b"/?");
    let target = &rest[authority.len()..];
    // User and password are never sent.
    let host = authority.iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let origin = Origin::of(&authority[host..], tls)?;
    absolute(target, path);
    Some(RedirectTo::Origin(origin))
}

/// The text before the first of these bytes.
fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| ends.contains(byte));
    &text[..end.unwrap_or(text.len())]
}

/// Scheme and rest of a URL that has a scheme.
fn scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = before(text, b":/?");
    let is_scheme = name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let rest = text[name.len()..].strip_prefix(b":").filter(|_| is_scheme)?;
    Some((name, rest))
}

/// Resolve a reference without scheme and authority.
fn relative(reference: &[u8], base: &[u8], path: &mut Vec<u8>) {
    // As in `OPTIONS *`.
    let base = if base.starts_with(b"/") { base } else { b"/" };
    let base_path = before(base, b"?");
    match reference.first() {
        None => append(base, path),
        Some(b'?') => {
            append(base_path, path);
            append(reference, path);
        }
        Some(b'/') => absolute(reference, path),
        Some(_) => {
            let folder = base_path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            let merged = [&base_path[..folder], reference].concat();
            absolute(&merged, path);
        }
    }
}

/// Append an absolute path with its query, without dot segments (RFC 3986, 5.2.4).
fn absolute(target: &[u8], out: &mut Vec<u8>) {
    let target_path = before(target, b"?");
    let query = &target[target_path.len()..];
    let start = out.len();
    let mut segments = target_path.split(|&byte| byte == b'/').peekable();
    // What is before the first slash is empty.
    segments.next();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    let parent = out[start..].iter().rposition(|&byte| byte == b'/');
                    out.truncate(start + parent.unwrap_or(0));
                }
                if is_last {
                    out.push(b'/');
                }
            }
            _ => {
                out.push(b'/');
                append(segment, out);
            }
        }
    }
    if out.len() == start {
        out.push(b'/');
    }
    append(query, out);
}

/// Append bytes, with escapes for those that a request line cannot have.
fn append(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            let (high, low) = (byte >> 4, byte & 15);
            out.extend_from_slice(&[b'%', DIGITS[high as usize], DIGITS[low as usize]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(location: &str, base: &str) -> Option<String> {
        let mut path = Vec::new();
        let to = resolve_redirect(location.as_bytes(), base.as_bytes(), &mut path)?;
        let path = String::from_utf8(path).expect("ASCII");
        Some(match to {
            RedirectTo::Same => path,
            RedirectTo::Origin(origin) => format!("{} {path}", origin.complete(false)),
        })
    }

    /// The examples of RFC 3986, 5.4, that have no other scheme, and the fragments of which are
    /// dropped.
    #[test]
    fn resolves_the_examples_of_the_rfc() {
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("//g", "http://g /"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x?y#s", "/b/c/g;x?y"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            assert_eq!(resolved(reference, "/b/c/d;p?q").as_deref(), Some(expected), "{reference}");
        }
    }

    #[test]
    fn resolves_urls_with_a_host() {
        for (location, expected) in [
            ("http://h/a", "http://h /a"),
            ("HTTP://Host:80/", "http://host /"),
            ("https://h:8443?q=/../x", "https://h:8443 /?q=/../x"),
            ("https://h", "https://h /"),
            ("//h:81/a/../b", "http://h:81 /b"),
            ("http://ann:secret@h/a@b", "http://h /a@b"),
            ("http://[::1]:8080/a", "http://[::1]:8080 /a"),
            ("  /a b\u{e9}\t", "/a%20b%C3%A9"),
            ("a:b", ""),
            ("./a:b", "/a:b"),
            ("/x:y", "/x:y"),
        ] {
            let expected = Some(expected).filter(|text| !text.is_empty());
            assert_eq!(resolved(location, "*").as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn rejects_what_cannot_be_requested() {
        for location in [
            "ftp://h/",
            "mailto:ann@h",
            "javascript:alert(1)",
            "http:/a",
            "http:a",
            "http://",
            "http:///a",
            "http://h:0/",
            "http://h:65536/",
            "http://h:8o/",
            "http://[::1/",
            "http://a b/",
            "//h\u{e9}/",
            "/a\r\nX: y",
            "/\0",
        ] {
            assert_eq!(resolved(location, "/"), None, "{location}");
        }
    }

    #[test]
    fn origins_differ_by_scheme_host_and_port() {
        let of = |text: &'static str, tls| Origin::of(text.as_bytes(), tls).expect(text);
        let http = of("h", None).complete(false);
        assert_eq!(http, of("H:80", Some(false)).complete(true));
        for other in [of("h", Some(true)), of("g", None), of("h:81", None)] {
            assert_ne!(http, other.complete(false), "{other}");
        }
    }
}
