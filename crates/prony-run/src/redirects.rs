//! What a report notes about redirects.

use prony_report::units;
use prony_stats::summary::Summary;
use prony_tally::record::RedirectTally;

/// The notes about redirects, in full sentences.
pub(crate) fn notes(summary: &Summary) -> Vec<String> {
    match summary.main.redirects.as_deref() {
        Some(tally) => [elsewhere(tally), unusable(tally)].into_iter().flatten().collect(),
        None => not_followed(summary).into_iter().collect(),
    }
}

/// The note that many replies were redirects that nobody asked for by their status. A tool that
/// follows them measures other pages.
fn not_followed(summary: &Summary) -> Option<String> {
    let (plan, statuses) = (&summary.plan, &summary.main.statuses);
    let of_calls = plan.calls.iter().filter_map(|call| call.expect.as_deref());
    let asked: Vec<(u16, u16)> =
        of_calls.chain([&plan.expect]).flat_map(|e| e.statuses.iter().copied()).collect();
    let is_asked = |status: u16| asked.contains(&(status, status));
    let redirects = [301, 302, 303, 307, 308].into_iter().filter(|&status| !is_asked(status));
    let redirects: u64 = redirects.filter_map(|status| statuses.get(&status)).sum();
    let replies: u64 = statuses.values().sum();
    (redirects > 0 && redirects * 10 >= replies).then(|| {
        format!(
            "{} of {} were redirects (3xx), which are not followed without --location (-L).",
            units::count(redirects),
            units::counted(replies, "reply", "replies")
        )
    })
}

/// The note that redirects led to servers that the user did not name.
fn elsewhere(tally: &RedirectTally) -> Option<String> {
    let count = tally.led_elsewhere();
    let named = tally.elsewhere.keys().filter(|name| !name.is_empty());
    let names: Vec<&str> = named.map(String::as_str).collect();
    let more = if tally.elsewhere.contains_key("") { " and others" } else { "" };
    let first = names.first()?;
    Some(format!(
        "{} led to other hosts ({}{more}) and {} not followed: name them with --redirect-to {first} \
         (`redirect-to` in a plan file).",
        units::counted(count, "redirect", "redirects"),
        names.join(", "),
        if count == 1 { "was" } else { "were" },
    ))
}

/// The note that redirects led nowhere.
fn unusable(tally: &RedirectTally) -> Option<String> {
    let count = tally.unusable;
    (count > 0).then(|| {
        format!(
            "{} had a Location that is no URL of HTTP, and {} not followed.",
            units::counted(count, "redirect", "redirects"),
            if count == 1 { "was" } else { "were" },
        )
    })
}

#[cfg(test)]
mod tests {
    use prony_base::meter::WorkerStats;
    use prony_stats::summary::RunInfo;
    use prony_tally::record::Tally;

    use super::*;
    use crate::plan_file;

    fn replies(statuses: &[(u16, u64)]) -> Summary {
        let plan = plan_file::tests::plan("url = 'http://h/'\nrate = 100");
        let tally = Tally { statuses: statuses.iter().copied().collect(), ..Tally::default() };
        Summary::from_parts(plan, RunInfo::default(), vec![(None, tally, WorkerStats::default())])
    }

    #[test]
    fn notes_redirects_if_there_are_many() {
        let noted = |statuses: &[(u16, u64)]| not_followed(&replies(statuses));
        let all = "4,000 of 4,000 replies were redirects (3xx), which are not followed without \
                   --location (-L).";
        assert_eq!(noted(&[(302, 4_000)]).as_deref(), Some(all));
        assert!(noted(&[(200, 90), (301, 4), (308, 6)]).is_some());
        assert_eq!(noted(&[(200, 91), (307, 9)]), None);
        // 304 Not Modified is not a redirect.
        assert_eq!(noted(&[(304, 100)]), None);
        assert_eq!(noted(&[]), None);
        let mut form = replies(&[(303, 4_000)]);
        form.plan.expect.statuses = vec![(303, 303)];
        assert_eq!(not_followed(&form), None);
    }

    #[test]
    fn names_the_hosts_to_which_redirects_led() {
        let mut followed = replies(&[(302, 4_000)]);
        let servers = [("http://a", 2), ("https://b:8443", 1)];
        let elsewhere = servers.map(|(name, n)| (name.to_owned(), n)).into();
        let mut tally = RedirectTally { unusable: 1, elsewhere, ..RedirectTally::default() };
        followed.main.redirects = Some(Box::new(tally.clone()));
        let expected = [
            "3 redirects led to other hosts (http://a, https://b:8443) and were not followed: name \
             them with --redirect-to http://a (`redirect-to` in a plan file).",
            "1 redirect had a Location that is no URL of HTTP, and was not followed.",
        ];
        assert_eq!(notes(&followed), expected);
        tally = RedirectTally { followed: 7, ..RedirectTally::default() };
        followed.main.redirects = Some(Box::new(tally));
        assert_eq!(notes(&followed), [""; 0]);
    }
}
