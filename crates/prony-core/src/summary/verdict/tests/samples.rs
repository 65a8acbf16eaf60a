//! Too few samples.

use super::*;

/// Two replies are no sample, unless two requests are what was asked for.
#[test]
fn a_load_by_time_needs_enough_replies_for_a_percentile() {
    let judged = |n: u64, requests| {
        let mut plan = open();
        plan.stop = Stop { requests, duration: Some(Span::from_secs(1)), sessions: None };
        let mut t = Tally { started: n, sent: n, replies: n, ..Tally::default() };
        t.times.response.record_n(Span::from_millis(2), n);
        summary(plan, t, meter(0)).verdict()
    };
    let few = Reason::TooFewSamples { percentile: 50.0, needs: 20, samples: 2 };
    let two = judged(2, None);
    assert_eq!((two.verdict, two.reasons), (Verdict::TooShort, vec![few]));
    assert!(judged(20, None).is_valid() && judged(2, Some(2)).is_valid());
}
