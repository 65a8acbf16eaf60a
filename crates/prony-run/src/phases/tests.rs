use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prony_base::machine::StopRequest;
use prony_server::serve::ServerBehavior;

use super::*;
use crate::plan_file::tests::phases::phases;
use crate::run::{Provenance, simulate};

fn plan() -> Phases {
    phases(
        "url = 'http://h/'\nrate = 10\nduration = '1s'\n[[phases]]\nname = 'a'\n\
         [[phases]]\nname = 'b'\n[[phases]]\nname = 'c'\nstart = 'with'\n\
         [[phases]]\nname = 'd'\n",
    )
}

fn one(phase: &Phase) -> Summary {
    let server = ServerBehavior::default();
    simulate(&phase.planned.plan, 1, 1, &server, &[], Provenance::default())
}

/// The names of the phases that ran, and the reasons of the others.
fn outcomes(outcomes: &[Outcome]) -> Vec<String> {
    let of = |outcome: &Outcome| match outcome {
        Outcome::Ran(_) => "ran".to_owned(),
        Outcome::NotStarted(why) => why.clone(),
    };
    outcomes.iter().map(of).collect()
}

#[test]
fn groups_run_in_the_order_of_the_plan() {
    let (all, mut order) = (plan(), Vec::new());
    let (ended, error) = run(&all, &|| false, &|_, _| None, &mut |number, group| {
        order.push((number, group.iter().map(|p| p.name.clone()).collect::<String>()));
        group.iter().map(|phase| Ok(Some(one(phase)))).collect()
    });
    assert!(error.is_none());
    assert_eq!(outcomes(&ended), ["ran"; 4]);
    assert_eq!(order, [(0, "a".into()), (1, "bc".into()), (2, "d".into())]);
}

#[test]
fn later_phases_do_not_start_after_a_stop_an_abort_or_an_error() {
    let all = plan();
    let ran = std::cell::Cell::new(0);
    let (ended, _) = run(&all, &|| ran.get() > 0, &|_, _| None, &mut |_, group| {
        ran.set(ran.get() + 1);
        group.iter().map(|phase| Ok(Some(one(phase)))).collect()
    });
    let stopped = "the user stopped the plan before";
    assert_eq!(outcomes(&ended), ["ran", stopped, stopped, stopped]);

    let (ended, _) = run(&all, &|| false, &|_, _| None, &mut |_, group| {
        let abort = |phase: &Phase| {
            let mut summary = one(phase);
            summary.run.ended_by =
                (phase.name == "b").then(|| "p99 < 1ms, abort".parse().expect("a threshold"));
            Ok(Some(summary))
        };
        group.iter().map(abort).collect()
    });
    let aborted = outcomes(&ended);
    assert_eq!(aborted[..3], ["ran"; 3], "those beside it end by themselves");
    assert!(aborted[3].starts_with("phase 'b' has missed 'p99 < 1ms"), "{aborted:?}");

    let (ended, error) = run(&all, &|| false, &|_, _| None, &mut |_, group| {
        let fails = |phase: &Phase| match phase.name.as_str() {
            "c" => Err(Error::Machine("no room".into())),
            _ => Ok(Some(one(phase))),
        };
        group.iter().map(fails).collect()
    });
    assert_eq!(error.map(|e| e.to_string()).as_deref(), Some("no room"));
    assert_eq!(outcomes(&ended), ["ran", "ran", "no room", "phase 'c' could not run"]);
}

#[test]
fn a_signal_reaches_all_loads_that_run_and_ends_waits() {
    let stops = Stops::default();
    let all = phases(
        "url = 'http://h/'\nduration = '1s'\n[[phases]]\nname = 'a'\n\
         [[phases]]\nname = 'b'\nstart = 'with'\n[[phases]]\nname = 'c'\nstart = 'with'\n\
         delay = '1h'\n",
    );
    let begun = AtomicUsize::new(0);
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| {
            side_by_side(all.list(), &stops, &|phase, control| {
                begun.fetch_add(1, Ordering::Relaxed);
                while control.stop_request() != Some(StopRequest::Now) {
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(control.is_interrupted(), "{}", phase.name);
                Ok(one(phase))
            })
        });
        while begun.load(Ordering::Relaxed) < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!stops.is_interrupted());
        stops.interrupt();
        stops.interrupt();
        running.join().expect("no panic")
    });
    let ran: Vec<bool> = ended.into_iter().map(|run| run.expect("no error").is_some()).collect();
    assert_eq!(ran, [true, true, false], "the third one still waited");
    assert!(stops.is_interrupted());
}

#[test]
fn a_delay_counts_from_the_start_of_the_phase_before() {
    let all = phases(
        "url = 'http://h/'\n[[phases]]\nname = 'a'\ndelay = '1s'\n\
         [[phases]]\nname = 'b'\nstart = 'with'\ndelay = '2s'\n\
         [[phases]]\nname = 'c'\nstart = 'with'\n",
    );
    assert_eq!(offsets(all.list()), [1, 3, 3].map(Span::from_secs));
}

#[test]
fn threads_are_shared_out_in_equal_parts() {
    let each = |all, phases| threads_of_each(all, phases);
    assert_eq!([each(8, 1), each(8, 2), each(8, 3), each(2, 5)], [8, 4, 2, 1]);
}

#[test]
fn closed_loops_side_by_side_must_fit_together() {
    let two = |connections: u32| {
        let all = phases(&format!(
            "url = 'http://h/'\nconnections = {connections}\n[[phases]]\nname = 'a'\n\
             [[phases]]\nname = 'b'\nstart = 'with'\n"
        ));
        check_group(all.list(), 1).map_err(|e| e.to_string())
    };
    assert_eq!(two(2), Ok(()));
    let why = two(1_000_000).expect_err("too many");
    assert!(why.starts_with("the phases 'a', 'b' run side by side with 2,000,000 conn"), "{why}");
}
