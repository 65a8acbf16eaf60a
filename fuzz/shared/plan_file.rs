//! What the fuzz target of plan files does with its input.

use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_report::phased::Start;
use prony_run::environment::Environment;
use prony_run::phases::Phases;
use prony_run::plan_file::{PlanFile, explain, explain_phases, parse, parse_all};

/// Fuzz target: a plan file. A valid plan can be written and read again; each error is one line.
///
/// # Panics
/// These properties do not hold.
pub(crate) fn plan_file(data: &[u8]) {
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
fn loads(phases: &Phases) -> Vec<(&str, Start, Span, &Plan)> {
    let mut all = Vec::new();
    for phase in phases.list() {
        all.push((phase.name.as_str(), phase.start, phase.delay, &phase.planned.plan));
    }
    all
}
