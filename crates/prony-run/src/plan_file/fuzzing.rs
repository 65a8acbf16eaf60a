//! The fuzz target for plan files, and the test that replays its corpus.

use super::{explain, parse};
use crate::environment::Environment;

/// Fuzz target: a plan file. A valid plan can be written and read again; each error is one line.
///
/// # Panics
/// These properties do not hold.
pub fn plan_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let around = Environment {
        connections_max: 9,
        connections_why: "a reason".into(),
        seed: 1,
        simulated: false,
    };
    match parse("plan", text, None, &around) {
        Ok(planned) => {
            let written = explain(&planned.plan, &planned.notes);
            let again = parse("again", &written, None, &around);
            let again = again.unwrap_or_else(|why| panic!("{written}\n{}", why.join("\n")));
            assert_eq!(again.plan, planned.plan, "{written}");
        }
        Err(sentences) => {
            assert!(!sentences.is_empty(), "refused without a reason");
            for sentence in sentences {
                assert!(sentence.starts_with("plan:") && !sentence.contains('\n'), "{sentence:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn replays_the_corpus_of_plan_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/plan_file");
        let files = fs::read_dir(&folder).expect("a corpus");
        let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        assert!(files.len() >= 20, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            super::plan_file(&fs::read(&file).expect("a readable file"));
        }
    }
}
