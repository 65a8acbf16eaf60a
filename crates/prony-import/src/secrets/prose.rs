//! Secrets in texts of any kind: XML, GraphQL, lines of a file, and what JSON has within its
//! strings.

use super::{Variables, is_secret_name};
use crate::text::Text;

/// What ends a value without quotes.
const ENDS: [char; 15] =
    ['&', ';', ',', '<', '>', '(', ')', '{', '}', '[', ']', '"', '\'', '\\', '`'];

/// The text with a field for the value of each secret name: `name=value`, `name: "value"`,
/// `name: value` (not within JSON, where it is prose), and `<name>value</name>`.
pub(crate) fn prose(text: &str, is_json: bool, variables: &mut Variables) -> Text {
    let mut all = Text::default();
    let (mut done, mut at) = (0, 0);
    while let Some((name, end)) = next_name(text, at) {
        at = end;
        if !is_secret_name(local(name)) {
            continue;
        }
        let is_tag = text[..end - name.len()].ends_with('<');
        let found = if is_tag { element(text, end) } else { assigned(text, end, is_json) };
        if let Some((from, to)) = found {
            all.push(&text[done..from]);
            variables.push(local(name), &text[from..to], &mut all);
            (done, at) = (to, to);
        }
    }
    all.push(&text[done..]);
    all
}

/// The next name from here on, and where it ends.
fn next_name(text: &str, from: usize) -> Option<(&str, usize)> {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_other = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let start = from + text[from..].find(is_first)?;
    let mut end = text[start..].find(|c| !is_other(c)).map_or(text.len(), |n| start + n);
    // The sign after a name, unless it is a prefix of XML.
    if !text[..start].ends_with(['<', '/'])
        && let Some(colon) = text[start..end].find(':')
    {
        end = start + colon;
    }
    Some((&text[start..end], end))
}

/// The name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The contents of an element whose name ends here.
fn element(text: &str, end: usize) -> Option<(usize, usize)> {
    const CDATA: &str = "<![CDATA[";
    let tag = end + text[end..].find(['<', '>'])?;
    let start = tag + 1;
    if !text[tag..].starts_with('>') || text[..tag].ends_with('/') {
        return None;
    }
    let (from, until) = match text[start..].starts_with(CDATA) {
        true => (start + CDATA.len(), "]]>"),
        false => (start, "<"),
    };
    let to = from + text[from..].find(until)?;
    (!text[from..to].trim().is_empty()).then_some((from, to))
}

/// The value after a name that ends here, if it has one.
fn assigned(text: &str, end: usize, is_json: bool) -> Option<(usize, usize)> {
    let rest = text[end..].trim_start_matches([' ', '\t']);
    let sign = rest.chars().next().filter(|c| matches!(c, '=' | ':'))?;
    let value = rest[1..].trim_start_matches([' ', '\t']);
    let from = text.len() - value.len();
    // `==` compares, `://` belongs to a URL.
    if value.starts_with(['=', '/']) {
        return None;
    }
    for quote in ["\\\"", "\"", "'"] {
        if let Some(inner) = value.strip_prefix(quote) {
            let from = from + quote.len();
            let to = from + inner.find(quote)?;
            return (to > from).then_some((from, to));
        }
    }
    if sign == ':' && is_json {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || ENDS.contains(&c);
    let to = value.find(ends).map_or(text.len(), |n| from + n);
    // A variable of GraphQL or of a shell is no value.
    (to > from && !value.starts_with('$')).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, is_json: bool) -> String {
        prose(text, is_json, &mut Variables::default()).template()
    }

    #[test]
    fn finds_the_secrets_of_texts() {
        for (text, wanted) in [
            ("user=ann\npassword=hush hush\n", "user=ann\npassword={{password}} hush\n"),
            ("a=1&pw=x&b=2", "a=1&pw={{pw}}&b=2"),
            ("token : abc, rest", "token : {{token}}, rest"),
            ("password == x", "password == x"),
            ("see auth://host/", "see auth://host/"),
            (
                "<soap:Body><ns:Password type=\"a\">hush</ns:Password><b>1</b></soap:Body>",
                "<soap:Body><ns:Password type=\"a\">{{password}}</ns:Password><b>1</b></soap:Body>",
            ),
            ("<pin><![CDATA[12<34]]></pin>", "<pin><![CDATA[{{pin}}]]></pin>"),
            ("<login password='hush' user='ann'/>", "<login password='{{password}}' user='ann'/>"),
            ("<password/><b>1</b>", "<password/><b>1</b>"),
            (
                "mutation { login(user: \"ann\", password: \"hush\") { token } }",
                "mutation { login(user: \"ann\", password: \"{{password}}\") { token } }",
            ),
            ("login(password: $password)", "login(password: $password)"),
            ("no value: password", "no value: password"),
            ("password=", "password="),
            ("\u{e4}pw=\u{fc}\u{e9}.", "\u{e4}pw={{pw}}"),
        ] {
            assert_eq!(shown(text, false), wanted, "{text}");
        }
    }

    #[test]
    fn finds_what_strings_of_json_have_in_them() {
        let text = r#"{"query": "mutation { in(password: \"hush\") }", "url": "/a?token=t1&b"}"#;
        let wanted = r#"{"query": "mutation { in(password: \"{{password}}\") }", "url": "/a?token={{token}}&b"}"#;
        assert_eq!(shown(text, true), wanted);
        let prose = r#"{"text": "the password: none"}"#;
        assert_eq!(shown(prose, true), prose);
    }
}
