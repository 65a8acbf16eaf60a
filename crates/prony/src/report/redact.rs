//! Secrets do not go into files that people pass on: credentials and cookies are struck out of the
//! saved plan and command line. They stay out of the other formats by not being told there at all.

use std::sync::Arc;

use prony_core::plan::Plan;

const HIDDEN: &str = "(hidden)";

/// The plan without the values of headers that authenticate, the rows of tables, and the client's
/// key.
pub(super) fn plan(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for (name, value) in plan.calls.iter_mut().flat_map(|call| &mut call.headers) {
        if is_secret(name) {
            HIDDEN.clone_into(value);
        }
    }
    for table in &mut plan.data.tables {
        *table = Arc::new(table.hidden(HIDDEN));
    }
    if let Some(key) = plan.tls.as_mut().and_then(|tls| tls.key.as_mut()) {
        HIDDEN.clone_into(key);
    }
    plan
}

/// The command line without names and passwords, in options and in URLs.
pub(super) fn command(words: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(words.len());
    let mut option = "";
    for word in words {
        shown.push(match option {
            "-u" | "--user" => HIDDEN.to_owned(),
            "-H" | "--header" => header(word),
            _ => self::word(word),
        });
        option = word;
    }
    shown
}

fn word(word: &str) -> String {
    if let Some((option @ ("--user" | "--header"), value)) = word.split_once('=') {
        let value = if option == "--user" { HIDDEN.to_owned() } else { header(value) };
        return format!("{option}={value}");
    }
    match word.get(..2) {
        Some("-u") if word.len() > 2 => format!("-u{HIDDEN}"),
        Some("-H") if word.len() > 2 => format!("-H{}", header(&word[2..])),
        _ => url(word),
    }
}

fn header(line: &str) -> String {
    match line.split_once(':') {
        Some((name, _)) if is_secret(name) => format!("{name}: {HIDDEN}"),
        _ => line.to_owned(),
    }
}

fn url(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host_ends].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => word.to_owned(),
    }
}

fn is_secret(header: &str) -> bool {
    let secrets = ["authorization", "proxy-authorization", "cookie", "x-api-key"];
    secrets.iter().any(|s| header.trim().eq_ignore_ascii_case(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_struck_out_of_a_command_line() {
        let shown = |line: &str| {
            let words: Vec<String> = line.split('|').map(str::to_owned).collect();
            command(&words).join("|")
        };
        let cases = [
            ("prony|-c|5|http://h/", "prony|-c|5|http://h/"),
            ("-u|me:pw|http://h/", "-u|(hidden)|http://h/"),
            ("-ume:pw", "-u(hidden)"),
            ("--user=me:pw|--urls|f", "--user=(hidden)|--urls|f"),
            ("-H|Authorization: Basic x", "-H|Authorization: (hidden)"),
            ("-HCookie: a=b|--header=X-A: b", "-HCookie: (hidden)|--header=X-A: b"),
            ("http://me:p@w@h:80/a@b", "http://(hidden)@h:80/a@b"),
            ("http://h/a@b|a@b", "http://h/a@b|a@b"),
        ];
        for (line, expected) in cases {
            assert_eq!(shown(line), expected);
        }
    }
}
