//! The fuzz target for patterns of URLs, and the tests that replay its corpus.

use prony_plan::script::{Locals, Moment, Scope, Sent, Source, Template};
use prony_plan::target::Url;

use super::{Choice, template};

/// Fuzz target: the path of a URL with patterns. What they become is a valid template without
/// variables, and every refusal is one sentence.
///
/// # Panics
/// These properties do not hold.
pub fn glob(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(url) = Url::parse(&format!("http://h{text}")) else { return };
    let plain = !url.path.contains(['[', ']', '{', '}', '\\']);
    for choice in [Choice::InTurn(1), Choice::InTurn(3), Choice::Random] {
        match template(&url.path, choice) {
            Err(why) => assert!(!plain && !why.is_empty() && !why.contains('\n'), "{why:?}"),
            Ok(None) => {}
            Ok(Some(fields)) => {
                assert!(!plain, "{fields} from a path without patterns");
                let parsed = Template::parse(fields.as_bytes(), &Scope::default(), &mut 0);
                let parsed = parsed.unwrap_or_else(|why| panic!("{fields}: {why:?}"));
                assert!(Template::has_fields(fields.as_bytes()), "{fields}");
                assert!(parsed.variables().next().is_none(), "{fields}");
                let first = filled(&parsed);
                assert!(first.is_some(), "{fields} cannot be filled in");
                assert_eq!(first, filled(&parsed), "{fields}: the same moment, another text");
            }
        }
    }
}

/// The text of a template for the first request.
fn filled(template: &Template) -> Option<Vec<u8>> {
    let moment = Moment { seed: 9, session: 0, request: 0, counter: 0 };
    let locals = Locals::default();
    let source = Source { moment, tables: &[], locals: &locals, sent: Sent::default() };
    let mut out = Vec::new();
    template.fill(source, &mut out, &mut Vec::new()).is_ok().then_some(out)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    #[test]
    fn replays_the_corpus_of_globs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/glob");
        let files = fs::read_dir(&folder).expect("a corpus");
        let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        assert!(files.len() >= 20, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            super::glob(&fs::read(&file).expect("a readable file"));
        }
    }

    /// Texts of the signs of patterns, of whole patterns, and of others.
    const ANY: &str = concat!(
        r"/([\[\]{}]|[0-9a-cA-C]|[-:,|'\\]|\u{e9}|[?&=%/.]|\[[0-9]{1,3}-[0-9]{1,3}\]",
        r"|\{[a-c|,=]{0,5}\}){0,12}"
    );

    proptest! {
        #[test]
        fn any_pattern_is_a_template_or_refused(path in ANY) {
            super::glob(path.as_bytes());
        }
    }
}
