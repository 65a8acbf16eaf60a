use super::*;
use crate::plan::tests::plan as any_plan;
use crate::plan::{Alternative, Control, SessionKind, Sessions, Think, Until};
use crate::script::Script;

fn gate(when: &str, unless: &str) -> Gate {
    let condition = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Gate { when: condition(when), unless: condition(unless) }
}

fn switch(weights_and_bursts: &[(u32, u32)]) -> Switch {
    let alternatives =
        weights_and_bursts.iter().map(|&(weight, bursts)| Alternative { weight, bursts });
    Switch { gate: Gate::default(), alternatives: alternatives.collect() }
}

/// A plan with one kind of session, of a burst for each of these decisions.
fn plan(controls: Vec<Control>) -> Plan {
    let burst = |control: Control| {
        let control = (!control.is_empty()).then(|| Box::new(control));
        Burst { control, ..Burst::of(vec![0], Think::None) }
    };
    let bursts = controls.into_iter().map(burst).collect();
    let kind = SessionKind { name: String::new(), weight: 1, bursts };
    let mut plan = Plan { sessions: Some(Sessions::plain(vec![kind])), ..any_plan() };
    plan.data.variables = [("v", "7"), ("empty", "")].map(|(n, v)| (n.into(), v.into())).to_vec();
    plan.check().expect("a valid plan");
    plan
}

fn control(gate: Gate) -> Control {
    Control { gate, ..Control::default() }
}

fn with(switches: &[Switch]) -> Control {
    Control { switches: switches.to_vec(), ..Control::default() }
}

/// The bursts that a session makes, and how many steps it skips.
fn path(plan: &Plan, session: u64) -> (Vec<u32>, u64) {
    let script = Script::new(plan).expect("a script").expect("decisions");
    let flow = script.flow().expect("a flow");
    let (mut locals, mut scratch) = (Locals::default(), Scratch::default());
    script.begin(session, &mut locals);
    let end = flow.nodes.len() as u32;
    let (mut made, mut skipped, mut from) = (Vec::new(), 0, 0);
    loop {
        let mut deciding = script.deciding(made.len() as u64, &locals, &mut scratch);
        let (burst, more) = flow.arrive(from, end, &mut deciding);
        skipped += more;
        if burst == end {
            return (made, skipped);
        }
        made.push(burst);
        from = flow.next(burst);
    }
}

#[test]
fn sessions_make_the_steps_whose_conditions_hold() {
    let none = || Control::default();
    for (controls, made, skipped) in [
        (vec![none(), control(gate("{{v}} == 7", ""))], vec![0, 1], 0),
        (vec![control(gate("{{v}} == 8", "")), none()], vec![1], 1),
        (vec![control(gate("", "{{v}} == 8")), none()], vec![0, 1], 0),
        (vec![none(), control(gate("{{v}} > 1", "{{v}} > 2"))], vec![0], 1),
        (vec![control(gate("{{empty}}", "")), control(gate("", "{{empty}}"))], vec![1], 1),
        (vec![control(gate("{{empty}}", "")); 3], vec![], 3),
        // Without a reply there is no status.
        (vec![control(gate("{{status}}", "")), control(gate("", "{{status}}"))], vec![1], 1),
    ] {
        let plan = plan(controls);
        assert_eq!(path(&plan, 0), (made, skipped), "{:?}", plan.sessions);
    }
}

#[test]
fn sessions_make_one_alternative_of_each_switch() {
    let none = || Control::default();
    let skipped = Switch { gate: gate("{{empty}}", ""), ..switch(&[(1, 2)]) };
    for (controls, made, skips) in [
        (
            vec![none(), with(&[switch(&[(1, 1), (0, 2)])]), none(), none(), none()],
            vec![0, 1, 4],
            0,
        ),
        (
            vec![none(), with(&[switch(&[(0, 1), (1, 2)])]), none(), none(), none()],
            vec![0, 2, 3, 4],
            0,
        ),
        // An empty alternative makes nothing.
        (vec![with(&[switch(&[(1, 0), (0, 1)])]), none()], vec![1], 0),
        (vec![with(&[switch(&[(0, 1), (1, 0)])])], vec![], 0),
        // Switches within alternatives.
        (
            vec![
                with(&[switch(&[(1, 2), (0, 1)]), switch(&[(0, 1), (1, 1)])]),
                none(),
                none(),
                none(),
            ],
            vec![1, 3],
            0,
        ),
        (
            vec![
                with(&[switch(&[(0, 1), (1, 3)])]),
                with(&[switch(&[(1, 1), (0, 1)])]),
                none(),
                none(),
            ],
            vec![1, 3],
            0,
        ),
        // The last burst of an inner switch continues after the outer one.
        (
            vec![
                with(&[switch(&[(1, 2), (0, 2)]), switch(&[(1, 1), (0, 1)])]),
                none(),
                none(),
                none(),
                none(),
            ],
            vec![0, 4],
            0,
        ),
        // A switch with a condition, and one right after another.
        (vec![with(&[skipped]), none(), with(&[switch(&[(0, 1), (1, 1)])]), none()], vec![3], 1),
        // The condition of a burst applies after the choice.
        (
            vec![Control { gate: gate("{{empty}}", ""), ..with(&[switch(&[(1, 2)])]) }, none()],
            vec![1],
            1,
        ),
    ] {
        let plan = plan(controls);
        assert_eq!(path(&plan, 3), (made, skips), "{:?}", plan.sessions);
    }
}

#[test]
fn choices_depend_on_seed_session_and_switch_only() {
    let forks = || switch(&[(1, 1), (1, 1)]);
    let two = [with(&[forks()]), Control::default(), with(&[forks()]), Control::default()].to_vec();
    let plan = plan(two);
    let paths = |seed| {
        let plan = Plan { seed, ..plan.clone() };
        (0..64).map(|session| path(&plan, session).0).collect::<Vec<_>>()
    };
    assert_eq!(paths(1), paths(1));
    assert_ne!(paths(1), paths(2));
    for pair in [[0, 2], [0, 3], [1, 2], [1, 3]] {
        assert!(paths(1).iter().any(|path| path[..] == pair), "{pair:?}");
    }
}

#[test]
fn bursts_are_repeated_until_their_condition_holds() {
    let until = |text: &str, at_limit| Control {
        until: Some(Until { condition: text.into(), at_limit }),
        ..Control::default()
    };
    let plan = plan(vec![
        until("{{v}} == 7", AtLimit::Fail),
        until("{{v}} == 8", AtLimit::Fail),
        until("{{v}} == 8", AtLimit::Continue),
        Control::default(),
    ]);
    let script = Script::new(&plan).expect("a script").expect("decisions");
    let flow = script.flow().expect("a flow");
    let (mut locals, mut scratch) = (Locals::default(), Scratch::default());
    script.begin(0, &mut locals);
    let mut after = |burst, round| {
        flow.repeats(burst, round, 3, &mut script.deciding(1, &locals, &mut scratch))
    };
    assert_eq!([1, 2, 3].map(|round| after(0, round)), [Repetition::Over; 3]);
    let limit = Repetition::Limit;
    assert_eq!(
        [1, 2, 3].map(|round| after(1, round)),
        [Repetition::Again, Repetition::Again, limit(AtLimit::Fail)]
    );
    assert_eq!(after(2, 3), limit(AtLimit::Continue));
    assert_eq!(
        [1, 2, 3].map(|round| after(3, round)),
        [Repetition::Again, Repetition::Again, Repetition::Over]
    );
}

#[test]
fn a_variable_of_the_plan_called_status_comes_first() {
    let mut plan = plan(vec![control(gate("{{status}} == mine", ""))]);
    assert_eq!(path(&plan, 0), (vec![], 1));
    plan.data.variables.push(("status".into(), "mine".into()));
    assert_eq!(path(&plan, 0), (vec![0], 0));
    let script = Script::new(&plan).expect("a script").expect("decisions");
    assert_eq!(script.flow().expect("a flow").status(), None);
}

#[test]
fn random_fields_of_conditions_do_not_share_draws() {
    let half = || control(gate("{{random.int 1 2}} == 1", ""));
    let plan = plan(vec![half(), half()]);
    let paths: Vec<_> = (0..64).map(|session| path(&plan, session).0).collect();
    for made in [&[][..], &[0], &[1], &[0, 1]] {
        assert!(paths.iter().any(|path| path[..] == *made), "{made:?}");
    }
}

#[test]
fn invalid_conditions_are_reported_with_their_place() {
    let mut plan = plan(vec![Control::default()]);
    let sessions = plan.sessions.as_mut().expect("sessions");
    let mut wrong = control(gate("{{nobody}} == 1", "{{v}} = 1"));
    wrong.switches = vec![Switch { gate: gate("1", ""), ..switch(&[(1, 1)]) }];
    wrong.until = Some(Until { condition: String::new(), at_limit: AtLimit::Fail });
    sessions.kinds[0].bursts[0].control = Some(Box::new(wrong));
    let problems = Script::problems(&plan);
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (line, text) in shown.iter().zip([
        "session 1: burst 1: `when`: at byte 1: it has no field",
        "session 1: burst 1: `when`: at byte 3: 'nobody' is unknown",
        "session 1: burst 1: `unless`: at byte 7: '=' is not an operator",
        "session 1: burst 1: `until`: at byte 1: the condition is empty",
    ]) {
        assert!(line.starts_with(text), "{line}");
    }
    assert_eq!(shown.len(), 4);
    let texts = problems.iter().map(|p| match p.part {
        Part::Condition(place) => place.text(&plan),
        _ => None,
    });
    let all = [Some("1"), Some("{{nobody}} == 1"), Some("{{v}} = 1"), Some("")];
    assert_eq!(texts.collect::<Vec<_>>(), all);
}

#[test]
fn each_failure_belongs_to_one_group() {
    for (fault, on) in [
        (Fault::UnexpectedStatus, Some(RetryOn::Status)),
        (Fault::GrpcStatus, Some(RetryOn::Status)),
        (Fault::BodyMismatch, Some(RetryOn::Reply)),
        (Fault::ExtractMissing, Some(RetryOn::Reply)),
        (Fault::RequestTimeout, Some(RetryOn::Timeout)),
        (Fault::WaitTimeout, Some(RetryOn::Timeout)),
        (Fault::Reset, Some(RetryOn::Lost)),
        (Fault::ClosedEarly, Some(RetryOn::Lost)),
        (Fault::ConnectRefused, Some(RetryOn::Connect)),
        (Fault::ConnectTimeout, Some(RetryOn::Connect)),
        (Fault::GivenUp, None),
        (Fault::NoValue, None),
        (Fault::NoSocket, None),
        (Fault::BadHeader, None),
        (Fault::NoPorts, None),
    ] {
        assert_eq!(group(fault), on, "{fault:?}");
    }
}
