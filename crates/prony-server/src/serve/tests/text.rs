//! Distributions as text.

use expect_test::{Expect, expect};
use prony_base::units::Span;

use crate::serve::{
    BehaviorError, CloseAfter, Latency, ServerBehavior, Share, Stall, Stalls, StatusMix,
};

#[test]
fn behaviors_round_trip_through_text() {
    let ms = Span::from_millis;
    for (text, behavior, canonical) in [
        ("none", Latency::None, "none"),
        ("fixed:2ms", Latency::Fixed(ms(2)), "fixed:2ms"),
        ("2ms", Latency::Fixed(ms(2)), "fixed:2ms"),
        ("exp:1ms", Latency::Exponential(ms(1)), "exp:1ms"),
        (
            "lognormal:1ms:0.5",
            Latency::LogNormal { median: ms(1), sigma: 0.5 },
            "lognormal:1ms:0.5",
        ),
        ("uniform:1ms:3ms", Latency::Uniform(ms(1), ms(3)), "uniform:1ms:3ms"),
        (
            "bimodal:1ms:100ms:1%",
            Latency::Bimodal { fast: ms(1), slow: ms(100), share: Share(0.01) },
            "bimodal:1ms:100ms:0.01",
        ),
    ] {
        assert_eq!(text.parse(), Ok(behavior), "{text}");
        assert_eq!(behavior.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(behavior));
    }
    let stalls = Stalls(vec![
        Stall::Every { length: Span::from_secs(1), period: Span::from_secs(10) },
        Stall::Once { length: ms(200), at: ms(500) },
    ]);
    assert_eq!("1s@10s, 200ms@+500ms".parse(), Ok(stalls.clone()));
    assert_eq!(stalls.to_string(), "1s@10s,200ms@+500ms");
    assert_eq!("none".parse(), Ok(Stalls::default()));
    assert_eq!(Stalls::default().to_string(), "none");
    assert_eq!("503".parse(), Ok(StatusMix(vec![(503, 1)])));
    assert_eq!("200:99,503:1".parse(), Ok(StatusMix(vec![(200, 99), (503, 1)])));
    assert_eq!(StatusMix(vec![(200, 99), (503, 1)]).to_string(), "200:99,503:1");
    assert_eq!("100".parse(), Ok(CloseAfter { requests: 100, silent: false }));
    assert_eq!("1,silent".parse(), Ok(CloseAfter { requests: 1, silent: true }));
    assert_eq!(CloseAfter { requests: 1, silent: true }.to_string(), "1,silent");
    assert_eq!("0.1%".parse(), Ok(Share(0.001)));
    assert_eq!("0.25".parse(), Ok(Share(0.25)));
}

#[test]
fn behavior_round_trips_through_json() {
    let behavior = ServerBehavior {
        latency: "lognormal:1ms:0.5".parse().unwrap(),
        stalls: "1s@10s".parse().unwrap(),
        workers: std::num::NonZeroU32::new(3),
        close_after: Some("9,silent".parse().unwrap()),
        reset: Share(0.125),
        ..ServerBehavior::default()
    };
    let json = serde_json::to_string(&behavior).unwrap();
    assert_eq!(serde_json::from_str::<ServerBehavior>(&json).unwrap(), behavior);
    let of_nothing: ServerBehavior = serde_json::from_str("{}").unwrap();
    assert_eq!(of_nothing, ServerBehavior::default());
    let wrong = serde_json::from_str::<ServerBehavior>(r#"{"stalls":"3s@2s"}"#).unwrap_err();
    assert!(wrong.to_string().contains("a freeze must be shorter than its period"), "{wrong}");
}

fn refused<T: std::str::FromStr<Err = BehaviorError> + std::fmt::Debug>(
    texts: &[&str],
    is: Expect,
) {
    let all: Vec<String> = texts.iter().map(|t| t.parse::<T>().unwrap_err().to_string()).collect();
    let (_, form) = all[0].split_once("; ").unwrap();
    let mut shown = String::new();
    for text in &all {
        shown += text.strip_suffix(form).unwrap().trim_end_matches("; ");
        shown.push('\n');
    }
    is.assert_eq(&(shown + &form.replace(" or ", "\nor ")));
}

#[test]
fn rejects_malformed_latencies() {
    refused::<Latency>(
        &[
            "",
            "soon",
            "fixed:",
            "exp",
            "gamma:1ms",
            "lognormal:1ms",
            "lognormal:1ms:x",
            "lognormal:1ms:11",
            "uniform:3ms",
            "uniform:3ms:1ms",
            "bimodal:1ms:2ms",
            "bimodal:1ms:2ms:150%",
        ],
        expect![[r#"
            '' is not a latency: '' is not a time: a number is missing
            'soon' is not a latency: unknown distribution 'soon'
            'fixed:' is not a latency: '' is not a time: a number is missing
            'exp' is not a latency: '' is not a time: a number is missing
            'gamma:1ms' is not a latency: unknown distribution 'gamma'
            'lognormal:1ms' is not a latency: the form is lognormal:MEDIAN:SIGMA
            'lognormal:1ms:x' is not a latency: SIGMA is not a number
            'lognormal:1ms:11' is not a latency: SIGMA is not between 0 and 10
            'uniform:3ms' is not a latency: the form is uniform:LOW:HIGH
            'uniform:3ms:1ms' is not a latency: 3ms is longer than 1ms
            'bimodal:1ms:2ms' is not a latency: the form is bimodal:FAST:SLOW:SHARE
            'bimodal:1ms:2ms:150%' is not a latency: SHARE is not between 0 and 1
            write none, fixed:2ms, exp:1ms, lognormal:1ms:0.5, uniform:1ms:3ms
            or bimodal:1ms:100ms:1%"#]],
    );
}

#[test]
fn rejects_malformed_behaviors() {
    refused::<Stalls>(
        &["", "1s", "1s@", "x@1s", "0s@1s", "1s@1s", "1s@5s,1s@7s", "1s@+x"],
        expect![[r#"
            '' is not a stall: '@' is missing
            '1s' is not a stall: '@' is missing
            '1s@' is not a stall: a time is malformed
            'x@1s' is not a stall: a time is malformed
            '0s@1s' is not a stall: the length of a freeze is zero
            '1s@1s' is not a stall: a freeze must be shorter than its period
            '1s@5s,1s@7s' is not a stall: only one freeze may repeat
            '1s@+x' is not a stall: a time is malformed
            write 1s@10s (1 s every 10 s)
            or 2s@+4s (once, 4 s after the first request), separated by commas"#]],
    );
    refused::<StatusMix>(
        &["", "100", "ok", "200:x", "200:0"],
        expect![[r#"
            '' is not a list of statuses: a status is not a number
            '100' is not a list of statuses: a status is not between 200 and 599
            'ok' is not a list of statuses: a status is not a number
            '200:x' is not a list of statuses: a weight is not a number
            '200:0' is not a list of statuses: a weight is 0
            write 200,
            or statuses with weights such as 200:99,503:1"#]],
    );
    refused::<CloseAfter>(
        &["", "0", "3,loud", "x"],
        expect![[r#"
            '' is not a number of requests before a close: it is not a number
            '0' is not a number of requests before a close: it must be at least 1
            '3,loud' is not a number of requests before a close: only 'silent' may follow the number
            'x' is not a number of requests before a close: it is not a number
            write 100
            or 100,silent"#]],
    );
    refused::<Share>(
        &["", "x", "101%", "-1%", "NaN"],
        expect![[r#"
            '' is not a share: it is not a number
            'x' is not a share: it is not a number
            '101%' is not a share: it is not between 0 and 1
            '-1%' is not a share: it is not between 0 and 1
            'NaN' is not a share: it is not between 0 and 1
            write 0.1%
            or 0.001"#]],
    );
}
