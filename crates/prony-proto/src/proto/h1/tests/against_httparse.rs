//! Compares the parser of heads with another implementation.

use httparse::{EMPTY_HEADER, ParserConfig, Status};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::head::{Head, Line, Section, split_field};
use prony_base::fault::Fault;

/// Status, fields (without the whitespace around and the folds in their values), and length of a
/// complete head.
type Whole = (u16, Vec<(String, Vec<u8>)>, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_parsers_agree(head in head()) {
        prop_assert_eq!(ours(&head), theirs(&head), "{:?}", String::from_utf8_lossy(&head));
    }
}

/// Heads that are mostly well formed.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let pick = |words: &'static [&'static str]| prop::sample::select(words);
    let start = pick(&["HTTP/1.1 ", "HTTP/1.1 ", "HTTP/1.1 ", "HTTP/1.0 ", "HTTP/1.1", "HTP/1.1 "]);
    let status = pick(&["200", "404", "599", "100", "20", "2000", "0x1"]);
    let reason = pick(&[" OK", " OK", "", " ", " Not Found", "OK", " \u{fc}\t", " a\0", " a\x7f"]);
    let end = || pick(&["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"]);
    let name =
        pick(&["Content-Length", "X", "x-!#$%&'*+-.^_`|~", "", "a b", "a\t", "\u{fc}", "a("]);
    let good = pick(&["Server", "Date", "ETag", "X"]);
    let name = prop_oneof![4 => good, 1 => name];
    let colon = pick(&[":", ": ", ": ", ":\t ", " :", ""]);
    let value =
        pick(&["5", "", "a b", " x ", "\"\u{fc}\"", "a\tb", "a\0", "\x7f", "a:b", "a\r\n b"]);
    let any_value = vec(any::<u8>().prop_filter("line ends", |b| !b"\r\n".contains(b)), 0..20);
    let value = prop_oneof![
        4 => value.prop_map(|v| v.as_bytes().to_vec()),
        1 => any_value,
    ];
    let field = (name, colon, value, end())
        .prop_map(|(n, c, v, e)| [n.as_bytes(), c.as_bytes(), &v, e.as_bytes()].concat());
    (start, status, reason, end(), vec(field, 0..6)).prop_map(|(start, status, reason, e, f)| {
        let line = [start, status, reason, e].concat().into_bytes();
        [line, f.concat(), b"\r\n".to_vec()].concat()
    })
}

fn ours(mut data: &[u8]) -> Option<Whole> {
    let all = data.len();
    let mut section = Section::default();
    let Ok(Line::Text(line, n)) = section.status_line(data) else { return None };
    let status = Head::status_line(line).ok()?.status;
    data = &data[n..];
    let mut fields = Vec::new();
    loop {
        match section.field_line(data) {
            Ok(Line::Text(line, n)) => {
                let (name, value) = split_field(line).ok()?;
                let name = String::from_utf8(name.to_vec()).expect("a token");
                fields.push((name, plain(value)));
                data = &data[n..];
            }
            Ok(Line::End(n)) => return Some((status, fields, all - data.len() + n)),
            Ok(Line::NeedsMore) | Err(Fault::HeaderTooLarge) => return None,
            Err(fault) => panic!("{fault:?}"),
        }
    }
}

fn theirs(data: &[u8]) -> Option<Whole> {
    let mut headers = [EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    match config.parse_response(&mut response, data) {
        Ok(Status::Complete(n)) => {
            let field = |h: &httparse::Header<'_>| (h.name.to_owned(), plain(h.value));
            Some((response.code?, response.headers.iter().map(field).collect(), n))
        }
        Ok(Status::Partial) | Err(_) => None,
    }
}

/// A value with each run of whitespace and line ends as one space, and none at its ends.
fn plain(value: &[u8]) -> Vec<u8> {
    let words = value.split(|b| b" \t\r\n".contains(b)).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}
