//! The fuzz target for plan files, and the test that replays its corpus.

use prony_core::plan::Plan;
use prony_core::units::Span;
use prony_report::phased::Start;

use super::{PlanFile, explain, explain_phases, parse, parse_all};
use crate::environment::Environment;
use crate::phases::Phases;

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
    match parse_all("plan", text, None, &around) {
        Ok(PlanFile::Phases(phases)) => {
            let written = explain_phases(&phases);
            let again = parse_all("again", &written, None, &around);
            match again.unwrap_or_else(|why| panic!("{written}\n{}", why.join("\n"))) {
                PlanFile::Phases(again) => {
                    assert_eq!(loads(&again), loads(&phases), "{written}");
                }
                PlanFile::Load(_) => panic!("no phases: {written}"),
            }
        }
        Ok(PlanFile::Load(planned)) => {
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

/// What phases are, without the reasons for their defaults.
pub(super) fn loads(phases: &Phases) -> Vec<(&str, Start, Span, &Plan)> {
    let mut all = Vec::new();
    for phase in phases.list() {
        all.push((phase.name.as_str(), phase.start, phase.delay, &phase.planned.plan));
    }
    all
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
