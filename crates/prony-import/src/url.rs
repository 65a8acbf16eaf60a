//! URLs of recordings: the server, and the path that is sent to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::text::Text;

/// Splits a URL into the server's part and path with query, in the form in which they are sent.
///
/// # Errors
/// It cannot be sent: why, as the note on a request that is left out.
pub(crate) fn split(url: &str) -> Result<(String, String), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        return Err(match scheme {
            "data" | "blob" | "about" | "javascript" => format!("{scheme}: URLs are not requests"),
            _ => "no URL with http:// or https://".into(),
        });
    };
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" => {}
        "ws" | "wss" => return Err("a WebSocket, whose messages are not imported".into()),
        _ => return Err(format!("{scheme}:// is not HTTP")),
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
    let default = if scheme == "http" { ":80" } else { ":443" };
    let host = host.strip_suffix(default).unwrap_or(&host);
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]%".contains(&b);
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err("a URL whose host is not a name or an address".into());
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((format!("{scheme}://{host}"), encoded(&format!("{slash}{path}"))))
}

/// The host of the server's part of a URL, without its port.
pub(crate) fn host(origin: &str) -> &str {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    let end = host.rfind(']').unwrap_or(0);
    host[end..].find(':').map_or(host, |port| &host[..end + port])
}

/// What servers of one owner have in common: the end of their names that somebody has registered,
/// or else the whole host.
pub(crate) fn site(origin: &str) -> &str {
    const SHARED: [&str; 10] = ["co", "com", "org", "net", "gov", "edu", "ac", "or", "ne", "go"];
    let host = host(origin);
    let labels: Vec<&str> = host.split('.').collect();
    let is_address = |label: &&str| label.bytes().all(|b| b.is_ascii_digit());
    let count = match labels.as_slice() {
        _ if host.starts_with('[') || labels.last().is_some_and(is_address) => return host,
        // As in `example.co.uk`.
        [.., _, shared, country] if country.len() == 2 && SHARED.contains(shared) => 3,
        [.., _, _] => 2,
        _ => return host,
    };
    let length = labels[labels.len() - count..].iter().map(|label| label.len() + 1).sum::<usize>();
    &host[host.len() + 1 - length..]
}

/// The note on a request that goes to the server of `--to`.
pub(crate) const MOVED: &str = "its host is a variable without a value: sent to that of --to";

/// The URL with this server in place of its own, if fields that are not known say which it is.
pub(crate) fn at_server(url: &str, to: &str, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let mut fields = url[..end].split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let is_moved = fields.any(|(field, _)| !is_known(field.trim()));
    is_moved.then(|| format!("{}{}", to.trim_end_matches('/'), &url[end..]))
}

/// User and password of a URL.
pub(crate) fn user(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    host.rsplit_once('@').map(|(user, _)| user)
}

/// Sends user and password of a URL as other tools do, unless a header has credentials already.
pub(crate) fn add_credentials(url: &str, headers: &mut Vec<(String, Text)>) {
    let has_one = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if let (false, Some(user)) = (has_one, user(url).filter(|user| !user.contains("{{"))) {
        // Without a colon, the password is empty.
        let colon = if user.contains(':') { "" } else { ":" };
        let value = format!("Basic {}", STANDARD.encode(unescaped(&format!("{user}{colon}"))));
        headers.push(("Authorization".to_owned(), value.into()));
    }
}

/// The bytes of a text with `%` and two digits for some of them.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|two| str::from_utf8(two).ok());
        let is_hex = |two: &&str| two.bytes().all(|b| b.is_ascii_hexdigit());
        let byte = digits.filter(is_hex).and_then(|two| u8::from_str_radix(two, 16).ok());
        let escaped = byte.filter(|_| *first == b'%');
        out.push(escaped.unwrap_or(*first));
        rest = &after[if escaped.is_some() { 2 } else { 0 }..];
    }
    out
}

/// Percent-encodes what no request line can have.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for b in path.bytes() {
        match b {
            0..=b' ' | 0x7f.. => out.push_str(&format!("%{b:02X}")),
            b => out.push(char::from(b)),
        }
    }
    out
}

/// The same for the literal parts of a path.
pub(crate) fn encode_literals(path: &mut Text) {
    path.map_literals(|text| encoded(text).into());
}

/// Percent-encodes all but letters, digits and `-._~`.
pub(crate) fn escaped(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &b in text {
        match b {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(b)),
            b if b.is_ascii_alphanumeric() => out.push(char::from(b)),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_urls() {
        for (url, origin, path) in [
            ("http://h", "http://h", "/"),
            ("HTTP://H:80/a?b#c", "http://h", "/a?b"),
            ("https://h:443?x=1", "https://h", "/?x=1"),
            ("https://u:p@h:8443/a b/\u{e9}", "https://h:8443", "/a%20b/%C3%A9"),
            ("http://[::1]:80/", "http://[::1]", "/"),
        ] {
            assert_eq!(split(url), Ok((origin.into(), path.into())), "{url}");
        }
        for (url, why) in [
            ("data:text/plain,x", "data: URLs are not requests"),
            ("/path", "no URL with http:// or https://"),
            ("wss://h/", "a WebSocket, whose messages are not imported"),
            ("chrome-extension://x/y", "chrome-extension:// is not HTTP"),
            ("http:///x", "a URL whose host is not a name or an address"),
            ("http://a b/x", "a URL whose host is not a name or an address"),
        ] {
            assert_eq!(split(url), Err(why.into()), "{url}");
        }
        let moved = |url: &str| at_server(url, "http://t/", |name| name == "known");
        for (url, wanted) in [
            ("{{base}}/a?{{b}}", Some("http://t/a?{{b}}")),
            ("https://{{host}}:{{known}}/a", Some("http://t/a")),
            ("{{scheme}}://h", Some("http://t")),
            ("http://{{ known }}/{{a}}", None),
            ("/{{a}}", None),
            ("http://h/{{a}}://b", None),
        ] {
            assert_eq!(moved(url).as_deref(), wanted, "{url}");
        }
        for (origin, wanted) in [
            ("http://h", "h"),
            ("https://www.shop.example:8443", "shop.example"),
            ("https://shop.example", "shop.example"),
            ("http://a.b.example.co.uk", "example.co.uk"),
            ("http://example.co.uk", "example.co.uk"),
            ("http://co.uk", "co.uk"),
            ("http://127.0.0.1:80", "127.0.0.1"),
            ("http://[::1]:80", "[::1]"),
        ] {
            assert_eq!(site(origin), wanted, "{origin}");
        }
        assert_eq!(user("http://u:p@h/x@y"), Some("u:p"));
        assert_eq!(user("http://h/x@y"), None);
        assert_eq!(escaped(b"a b&\xff"), "a%20b%26%FF");
    }

    #[test]
    fn users_of_urls_are_a_header() {
        let added = |url: &str| {
            let mut headers = Vec::new();
            add_credentials(url, &mut headers);
            headers.pop().and_then(|(_, value)| value.literal().map(str::to_owned))
        };
        for (url, value) in [
            ("http://me:secret@h/", Some("Basic bWU6c2VjcmV0")),
            ("http://me@h/", Some("Basic bWU6")),
            // me:p@s%
            ("http://me:p%40s%@h/", Some("Basic bWU6cEBzJQ==")),
            ("http://{{user}}@h/", None),
            ("http://h/a@b", None),
        ] {
            assert_eq!(added(url).as_deref(), value, "{url}");
        }
        let mut headers = vec![("authorization".to_owned(), Text::from("Bearer t"))];
        add_credentials("http://me@h/", &mut headers);
        assert_eq!(headers.len(), 1, "the header of the request stays");
    }
}
