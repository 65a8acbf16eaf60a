//! What reports say about the last self-test on their host.

use prony_stats::summary::SelfTested;

use crate::units;

/// The days after which a self-test says nothing about its host any more.
const SELF_TEST_DAYS: u64 = 7;
/// The share of CPU time of other processes above which a self-test says nothing.
const SELF_TEST_OTHERS: f64 = 0.2;

/// The result of the last self-test on the host of a run that began at this time, in one line.
pub fn self_test(tested: &SelfTested, run_unix: f64) -> String {
    let SelfTested { started_unix, host, kernel, checks, checks_passed, passed, .. } = tested;
    let SelfTested { changed, others, .. } = tested;
    let date = units::date(*started_unix);
    let day = date.split(' ').next().unwrap_or_default();
    if !changed.is_empty() {
        return format!("stale, from {day} ({changed} changed since): run `prony selftest` again");
    }
    let days = ((run_unix - started_unix).max(0.0) / 86_400.0) as u64;
    let age = units::counted(days, "day ago", "days ago");
    if days >= SELF_TEST_DAYS {
        return format!("stale, from {day} ({age}): run `prony selftest` again");
    }
    let others = others.map(|share| (share, units::percent(share)));
    if let Some((share, shown)) = &others
        && *share > SELF_TEST_OTHERS
    {
        return format!(
            "on {day} on this host ({host}, Linux {kernel}), other processes used {shown} of the CPU \
             time: run `prony selftest` again when the machine is idle"
        );
    }
    let load = others.map_or_else(String::new, |(_, shown)| {
        format!("; other processes used {shown} of the CPU time")
    });
    let word = if *passed { "passed" } else { "failed" };
    format!(
        "{word} on {day} ({age}) on this host ({host}, Linux {kernel}): {checks_passed} of {checks} \
         checks passed{load}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    fn said(days: f64, others: Option<f64>, changed: &str) -> String {
        let tested = SelfTested {
            started_unix: 1_000.0 * DAY,
            host: "h".into(),
            kernel: "6.1".into(),
            checks: 6,
            checks_passed: 5,
            passed: false,
            changed: changed.into(),
            others,
        };
        self_test(&tested, (1_000.0 + days) * DAY)
    }

    #[test]
    fn a_self_test_has_an_age_and_a_load() {
        let wanted =
            "failed on 1972-09-27 (0 days ago) on this host (h, Linux 6.1): 5 of 6 checks passed";
        assert_eq!(said(0.5, None, ""), wanted);
        let wanted = "failed on 1972-09-27 (1 day ago) on this host (h, Linux 6.1): 5 of 6 checks \
                      passed; other processes used 20.0 % of the CPU time";
        assert_eq!(said(1.9, Some(0.2), ""), wanted);
    }

    #[test]
    fn a_self_test_that_is_old_or_of_a_busy_hour_says_nothing() {
        let old = said(7.1, Some(0.01), "");
        assert_eq!(old, "stale, from 1972-09-27 (7 days ago): run `prony selftest` again");
        assert!(said(6.9, Some(0.01), "").starts_with("failed on"));
        let busy = said(0.1, Some(0.21), "");
        assert!(
            busy.contains("Linux 6.1), other processes used 21.0 % of the CPU time: "),
            "{busy}"
        );
        assert!(said(0.1, Some(0.21), "the kernel").starts_with("stale, from 1972-09-27 (the"));
    }
}
