//! Finds the embedded objects of an HTML page, as browsers did when httperf was written.

/// The URIs of images, frames and objects in their order, as written, and whether each is a page (a
/// frame).
pub(super) fn embedded(html: &[u8]) -> Vec<(bool, String)> {
    let text = String::from_utf8_lossy(html);
    let (mut rest, mut found) = (&*text, Vec::new());
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let name_end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = rest[..name_end].to_ascii_lowercase();
        rest = &rest[name_end..];
        let (wanted, is_page) = match name.as_str() {
            "img" => ("src", false),
            "frame" | "iframe" => ("src", true),
            "object" => ("data", false),
            // Skip content that is not markup.
            "script" | "style" => {
                let end = format!("</{name}");
                rest = find_ignoring_case(rest, &end).map_or("", |at| &rest[at..]);
                continue;
            }
            _ => continue,
        };
        let value;
        (value, rest) = attribute(rest, wanted);
        found.extend(value.map(|uri| (is_page, uri)));
    }
    found
}

/// The value of this attribute in the text after a tag's name, and the text after the tag.
fn attribute<'a>(mut rest: &'a str, wanted: &str) -> (Option<String>, &'a str) {
    let mut found = None;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (found, rest);
        }
        let ends_name = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
        // An `=` without a name is skipped, to avoid an endless loop.
        let end = rest.find(ends_name).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = rest[end..].trim_start();
        let Some(value) = rest.strip_prefix('=') else { continue };
        let value = value.trim_start();
        let (text, after) = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            Some(quote) => {
                let inside = &value[1..];
                inside.split_once(quote).unwrap_or((inside, ""))
            }
            None => {
                let ends = |c: char| c.is_ascii_whitespace() || c == '>';
                value.split_at(value.find(ends).unwrap_or(value.len()))
            }
        };
        if name.eq_ignore_ascii_case(wanted) && found.is_none() && !text.trim().is_empty() {
            found = Some(text.replace("&amp;", "&"));
        }
        rest = after;
    }
}

fn find_ignoring_case(text: &str, what: &str) -> Option<usize> {
    text.as_bytes().windows(what.len()).position(|w| w.eq_ignore_ascii_case(what.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_images_frames_and_objects_in_any_notation() {
        for (html, expected) in [
            ("<img src=/a.gif>", "/a.gif"),
            ("<IMG ALT='x > y' SRC = \"/a b.gif\"/>", "/a b.gif"),
            ("<img data-src=no src='a?b=1&amp;c=2'>", "a?b=1&c=2"),
            ("<img src><img src=><img src=''><img alt=src><img =x src=y>", "y"),
            ("<frame src=f><iframe\nsrc='g'></iframe>", "page f, page g"),
            ("<object data=o></object><embed src=no><a href=no>", "o"),
            ("<!-- <img src=no> --><img src=yes>", "yes"),
            ("<script>'<img src=no>'</SCRIPT><style>x</style><img src=yes>", "yes"),
            ("<imgs src=no><im src=no>< img src=no>", ""),
            ("<img src=a src=b>", "a"),
            ("<img src='never ends", "never ends"),
            ("<img src=a", "a"),
            ("<!-- never ends <img src=no>", ""),
            ("<script><img src=no>", ""),
        ] {
            let found = embedded(html.as_bytes()).into_iter();
            let found = found.map(|(page, uri)| if page { format!("page {uri}") } else { uri });
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{html}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_server_sends_is_read_to_its_end(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "<img", " src", "=", "'", "\"", ">", "<", "a", "/", " ", "<!--", "-->",
                    "<script", "</script", "\u{e4}", "&amp;", "<iframe", "\u{0}",
                ]),
                0..60,
            ),
        ) {
            let html = pieces.concat();
            prop_assert!(embedded(html.as_bytes()).len() <= html.matches('<').count());
        }
    }
}
