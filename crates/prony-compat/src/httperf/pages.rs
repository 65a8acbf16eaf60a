//! `--wsesspage`: a page and its embedded objects.
//!
//! A plan must have all requests before the run. So the page is read once before the run, with its
//! redirects and frames, and every session then fetches the URIs that were found.

mod html;
mod scout;

use std::collections::BTreeSet;

use super::options::Opts;
use super::values::{Levels, Refusal};
use html::embedded;

/// The maximum number of URIs of a page, itself included.
const MOST: usize = 1_000;

/// The relevant parts of a reply.
#[derive(Clone, Debug, Default)]
struct Fetched {
    /// The target of a redirect.
    location: Option<String>,
    /// Whether the body is HTML.
    is_html: bool,
    body: Vec<u8>,
}

/// The origin of a page, which absolute URIs may name.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    scheme: &'a str,
    host: &'a str,
    port: u16,
}

/// Fetch the page of `--uri` from this server now; `warn` receives the problems.
pub(super) fn page(o: &Opts, server: &str, warn: &mut dyn FnMut(&str)) -> Result<Levels, Refusal> {
    if !o.uri.contains('/') {
        return Err(Refusal::new("URI specified with --uri must be absolute"));
    }
    let scheme = if o.ssl.on { "https" } else { "http" };
    let origin = Origin { scheme, host: server.trim(), port: o.port() };
    let (mut asked, mut failed) = (0_u64, None);
    let levels = walk(&o.uri, origin, &mut |uri| {
        asked += 1;
        match scout::fetch(o, uri)? {
            Ok(fetched) => Ok(Some(fetched)),
            Err(why) => {
                failed.get_or_insert_with(|| format!("{uri} could not be read beforehand: {why}"));
                Ok(None)
            }
        }
    })?;
    let n = levels.iter().map(Vec::len).sum::<usize>();
    let most = if n == MOST { ", where it is cut off" } else { "" };
    let reported = failed.unwrap_or_else(|| {
        let requests = if asked == 1 { "request" } else { "requests" };
        format!("{} and {} more, found by {asked} {requests} before the run{most}", o.uri, n - 1)
    });
    warn(&format!("{}: --wsesspage: {reported}", o.program));
    Ok(levels)
}

/// Follow the embedded URIs and redirects of a page. Only pages that can embed something are
/// fetched, each URI once.
fn walk(
    uri: &str,
    origin: Origin<'_>,
    fetch: &mut dyn FnMut(&str) -> Result<Option<Fetched>, Refusal>,
) -> Result<Levels, Refusal> {
    let mut seen = BTreeSet::from([uri.to_owned()]);
    let (mut levels, mut to_read) = (vec![vec![uri.to_owned()]], vec![uri.to_owned()]);
    while !to_read.is_empty() {
        let (mut level, mut pages) = (Vec::new(), Vec::new());
        for from in to_read {
            let Some(fetched) = fetch(&from)? else { continue };
            let moved = fetched.location.iter().map(|uri| (true, uri.clone()));
            let inside = if fetched.is_html { embedded(&fetched.body) } else { Vec::new() };
            for (is_page, text) in moved.chain(inside) {
                let Some(uri) = resolve(&text, &from, origin) else { continue };
                if seen.len() < MOST && seen.insert(uri.clone()) {
                    if is_page {
                        pages.push(uri.clone());
                    }
                    level.push(uri);
                }
            }
        }
        if !level.is_empty() {
            levels.push(level);
        }
        to_read = pages;
    }
    Ok(levels)
}

/// The path of a URI in a page; `None` if it belongs to another server.
fn resolve(text: &str, from: &str, origin: Origin<'_>) -> Option<String> {
    let text = text.trim().split('#').next().unwrap_or_default();
    let own = origin.scheme.len() + 1;
    let text = match text.get(..own) {
        Some(start)
            if start.strip_suffix(':').is_some_and(|s| s.eq_ignore_ascii_case(origin.scheme)) =>
        {
            &text[own..]
        }
        _ => text,
    };
    if text.is_empty() {
        return None;
    }
    let path = |from: &str| from.split('?').next().unwrap_or_default().to_owned();
    let whole = if let Some(rest) = text.strip_prefix("//") {
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let with_port = format!("{}:{}", origin.host, origin.port);
        if ![origin.host, &with_port].iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return None;
        }
        if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
    } else if text.starts_with('/') {
        text.to_owned()
    } else if text.starts_with('?') {
        path(from) + text
    } else if text.find(':').is_some_and(|at| !text[..at].contains(['/', '?'])) {
        // Another scheme means another server, or none.
        return None;
    } else {
        let from = path(from);
        let folder = from.rfind('/').map_or("/", |at| &from[..=at]);
        format!("{folder}{text}")
    };
    Some(escaped(&without_dots(&whole)))
}

/// The path with `.` and `..` resolved; the query stays unchanged.
fn without_dots(uri: &str) -> String {
    let (path, query) = uri.split_at(uri.find('?').unwrap_or(uri.len()));
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(part) = rest.next() {
        let is_last = rest.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// Percent-encode bytes that are invalid in a request line.
fn escaped(uri: &str) -> String {
    let mut out = String::new();
    for byte in uri.bytes() {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ORIGIN: Origin<'_> = Origin { scheme: "http", host: "h", port: 80 };

    #[test]
    fn resolves_uris_to_paths_of_the_server() {
        for (text, path) in [
            ("a.gif", Some("/d/e/a.gif")),
            (" a b.gif ", Some("/d/e/a%20b.gif")),
            ("../a.gif", Some("/d/a.gif")),
            ("../../../../a.gif", Some("/a.gif")),
            ("./", Some("/d/e/")),
            ("..", Some("/d/")),
            ("/a/./b/../c?x=../y", Some("/a/c?x=../y")),
            ("?q=1", Some("/d/e/f?q=1")),
            ("a.gif?x=http://y/#z", Some("/d/e/a.gif?x=http://y/")),
            ("http://h/a", Some("/a")),
            ("HTTP://H:80/a", Some("/a")),
            ("//h", Some("/")),
            ("http:a.gif", Some("/d/e/a.gif")),
            ("\u{e4}.gif", Some("/d/e/%C3%A4.gif")),
            ("http://other/a", None),
            ("https://h/a", None),
            ("http://h:81/a", None),
            ("data:image/gif;base64,x", None),
            ("javascript:void(0)", None),
            ("#top", None),
            ("", None),
        ] {
            assert_eq!(resolve(text, "/d/e/f?g=/h", ORIGIN).as_deref(), path, "{text}");
        }
        assert_eq!(resolve("a", "f", ORIGIN).as_deref(), Some("/a"));
    }

    fn walked(pages: &[(&str, &str)]) -> (Levels, Vec<String>) {
        let pages: BTreeMap<_, _> = pages.iter().copied().collect();
        let mut asked = Vec::new();
        let levels = walk("/", ORIGIN, &mut |uri| {
            asked.push(uri.to_owned());
            Ok(pages.get(uri).map(|text| match text.strip_prefix("to ") {
                Some(uri) => Fetched { location: Some(uri.into()), ..Fetched::default() },
                None => Fetched { is_html: true, body: text.as_bytes().to_vec(), location: None },
            }))
        });
        (levels.unwrap(), asked)
    }

    #[test]
    fn follows_pages_by_level_and_fetches_each_uri_once() {
        let (levels, asked) = walked(&[
            ("/", "to /index"),
            ("/index", "<img src=a><img src='a'><iframe src=/f></iframe><img src=http://o/b>"),
            ("/f", "<img src=a><img src=g/c><frame src=/index><frame src=/gone>"),
        ]);
        let expected: [&[&str]; 4] = [&["/"], &["/index"], &["/a", "/f"], &["/g/c", "/gone"]];
        assert_eq!(levels, expected);
        assert_eq!(asked, ["/", "/index", "/f", "/gone"]);
        assert_eq!(walked(&[]).0, [["/"]]);
    }

    #[test]
    fn limits_the_number_of_uris() {
        let images: String = (0..2_000).map(|i| format!("<img src=/{i}>")).collect();
        let (levels, asked) = walked(&[("/", &images)]);
        assert_eq!((levels[1].len(), asked.len()), (MOST - 1, 1));
        // Each leads to the next, without end.
        let mut asked = 0;
        let levels = walk("/", ORIGIN, &mut |_| {
            asked += 1;
            let location = Some(format!("/{asked}"));
            Ok(Some(Fetched { location, ..Fetched::default() }))
        });
        assert_eq!((levels.unwrap().len(), asked), (MOST, MOST));
    }
}
