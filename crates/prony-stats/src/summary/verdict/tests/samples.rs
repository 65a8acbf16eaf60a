//! Too few samples.

use prony_tally::record::TokenTally;

use super::*;
use crate::summary::Weight;

/// Two replies are no sample. If two requests were asked for, that is no error.
#[test]
fn a_load_needs_enough_replies_for_a_percentile() {
    let run = |n: u64, requests| {
        let mut plan = open();
        plan.stop = Stop { requests, duration: Some(Span::from_secs(1)), sessions: None };
        let mut t = Tally { started: n, sent: n, replies: n, ..Tally::default() };
        t.times.response.record_n(Span::from_millis(2), n);
        summary(plan, t, meter(0))
    };
    let few = Reason::TooFewSamples { percentile: 50.0, needs: 20, samples: 2 };
    // By time, by number, and by number until the time was over.
    for (requests, weight) in
        [(None, Weight::Failed), (Some(2), Weight::Fine), (Some(3), Weight::Failed)]
    {
        let two = run(2, requests).conclusion();
        let found = (two.judgment.verdict, two.judgment.reasons, two.weight);
        assert_eq!(found, (Verdict::TooShort, vec![few.clone()], weight), "{requests:?}");
        assert!(run(20, requests).verdict().is_valid());
    }
    // A percentile that was asked for is missing.
    let mut two = run(2, Some(2));
    two.run.percentile = Some(99.0);
    assert_eq!(two.conclusion().weight, Weight::Failed);
}

/// A reply of a language model has many times between its messages, but is one reply.
#[test]
fn tokens_of_few_replies_are_no_sample() {
    let reply = |replies, tokens: Option<Box<TokenTally>>| {
        let mut t = Tally { started: replies, replies, tokens, ..tally() };
        t.stream_messages = Some(Box::default());
        t.times.message_lag = Hist::new();
        (0..1_000).for_each(|_| t.times.message_lag.record(Span::from_millis(1)));
        summary(closed(), t, meter(0)).verdict().reasons
    };
    let short = Reason::TooFewSamples { percentile: 50.0, needs: 20, samples: 4 };
    assert_eq!(reply(4, Some(Box::default())), [short]);
    assert_eq!(reply(4, None), [], "of a stream of events, its messages are samples");
}
