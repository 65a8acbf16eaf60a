//! URLs as curl reads them: what it adds to them, and what it takes from them.

/// A URL of a command line, read.
#[derive(Debug, PartialEq)]
pub(super) struct Address {
    /// `http://user:password@host:port`.
    pub(super) server: String,
    pub(super) path: String,
    /// With its `?`, or empty.
    pub(super) query: String,
}

impl Address {
    /// Reads a URL. Bytes beyond ASCII are percent-encoded. `scheme` is that of a URL without one,
    /// if an option sets it.
    ///
    /// # Errors
    /// It cannot be sent: why, as the note on a request that is left out.
    pub(super) fn read(
        text: &[u8],
        scheme: Option<&str>,
        path_as_is: bool,
    ) -> Result<Self, String> {
        if text.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err("a URL with spaces or control characters, which curl refuses".into());
        }
        let text = encoded(text);
        let (scheme, rest) = schemed(&text, scheme)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (server, rest) = rest.split_at(end);
        if server.rsplit('@').next().is_some_and(|host| host.contains('%') && !host.contains('[')) {
            return Err("a URL whose host is not a name or an address".into());
        }
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            server: format!("{scheme}://{server}"),
            path: if path_as_is { path.to_owned() } else { without_dots(path) },
            query: query.to_owned(),
        })
    }

    /// Adds the name of a file that is sent to a folder.
    pub(super) fn add_file(&mut self, file: &[u8]) {
        if self.path.ends_with('/') {
            let name = file.rsplit(|b| b"/\\".contains(b)).next().unwrap_or_default();
            self.path.push_str(&crate::url::escaped(name));
        }
    }

    /// Adds parameters.
    pub(super) fn add_query(&mut self, parameters: &str) {
        let join = match self.query.as_str() {
            "" => "?",
            query if query.ends_with(['?', '&']) => "",
            _ => "&",
        };
        self.query.push_str(join);
        self.query.push_str(parameters);
    }
}

/// The scheme of a URL, and what follows its slashes.
fn schemed<'t>(text: &'t str, default: Option<&str>) -> Result<(String, &'t str), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let length = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    let after = text[length..].strip_prefix(':').filter(|rest| rest.starts_with('/'));
    if let Some(after) = after.filter(|_| text.starts_with(|c: char| c.is_ascii_alphabetic())) {
        let rest = after.trim_start_matches('/');
        return match after.len() - rest.len() {
            1..=3 => Ok((text[..length].to_ascii_lowercase(), rest)),
            _ => Err("a URL with more than three slashes, which curl refuses".into()),
        };
    }
    let starts = |name: &&str| {
        let start = text.get(..name.len()).unwrap_or_default();
        start.eq_ignore_ascii_case(name) && text[name.len()..].starts_with('.')
    };
    let guessed = ["ftp", "dict", "ldap", "imap", "smtp", "pop3"].into_iter().find(starts);
    Ok((default.or(guessed).unwrap_or("http").to_ascii_lowercase(), text))
}

/// The path without `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            ".." => drop(all.pop()),
            "." => {}
            segment => {
                all.push(segment);
                continue;
            }
        }
        if is_last {
            all.push("");
        }
    }
    format!("/{}", all.join("/"))
}

/// The text with `%` and two digits for bytes beyond ASCII.
pub(super) fn encoded(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &b in text {
        match b {
            0x80.. => out.push_str(&format!("%{b:02X}")),
            b => out.push(char::from(b)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls_as_curl_does() {
        for (text, server, path, query) in [
            ("h", "http://h", "/", ""),
            ("HTTP://u:p@H:80/a/../b/./c/..?x=/../#y", "http://u:p@H:80", "/b/", "?x=/../"),
            ("http:/h?x", "http://h", "/", "?x"),
            ("h:80/\u{e9}", "http://h:80", "/%C3%A9", ""),
            ("http://h/../../a//b/.", "http://h", "/a//b/", ""),
            ("ftp.h/x", "ftp://ftp.h", "/x", ""),
        ] {
            let wanted = Address {
                server: server.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
            };
            assert_eq!(Address::read(text.as_bytes(), None, false), Ok(wanted), "{text}");
        }
        let mut address = Address::read(b"http://h/../a/", None, true).expect("a URL");
        assert_eq!(address.path, "/../a/");
        address.add_file(b"dir/my file");
        address.add_query("a");
        address.add_query("b=c");
        assert_eq!((&*address.path, &*address.query), ("/../a/my%20file", "?a&b=c"));
        for text in ["http://h/a b", "http:////h", "http://\u{e9}/"] {
            assert!(Address::read(text.as_bytes(), None, false).is_err(), "{text}");
        }
    }
}
