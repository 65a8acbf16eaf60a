//! The lines of the hosts in a load on several.

use prony_hosts::view::HostView;
use prony_report::units;

use super::look::Ink;
use super::state::State;

/// A label, and the pieces of its line.
type Line = (String, Vec<(Ink, String)>);

/// At most `most` lines: lost hosts first, then those with the most failures, then the slowest.
pub(super) fn lines(state: &State, most: u16) -> Vec<Line> {
    let most = usize::from(most.max(1));
    let mut hosts: Vec<&HostView> = state.hosts.iter().collect();
    hosts.sort_by(|a, b| {
        let rank = |host: &HostView| {
            (host.lost.is_none(), u64::MAX - host.failed, host.second.as_ref().map(|s| s.replies))
        };
        rank(a).cmp(&rank(b))
    });
    let hidden = hosts.len().saturating_sub(most);
    let shown = if hidden > 0 { most - 1 } else { most };
    let mut lines: Vec<Line> = hosts.iter().take(shown).map(|host| line(host)).collect();
    if hidden > 0 {
        let others = (hidden + 1) as u64;
        let more = units::counted(others, "more host", "more hosts");
        lines.push((String::new(), vec![(Ink::Faint, format!("and {more}"))]));
    }
    lines
}

fn line(host: &HostView) -> Line {
    let mut parts = Vec::new();
    match (&host.lost, &host.second) {
        (Some(cause), _) => parts.push((Ink::Bad, format!("lost: {cause}"))),
        (None, None) => parts.push((Ink::Faint, "no second yet".into())),
        (None, Some(second)) => {
            // Rates are those of whole seconds.
            parts.push((Ink::Plain, units::rate(second.replies as f64)));
            for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
                if let Some(time) = second.quantile(q) {
                    parts.push((Ink::Plain, format!("{name} {}", units::span(time))));
                }
            }
        }
    }
    if host.lost.is_none() && host.lost_hosts > 0 {
        let lost = units::counted(host.lost_hosts as u64, "host", "hosts");
        parts.push((Ink::Bad, format!("{lost} lost")));
    }
    if host.is_done {
        parts.push((Ink::Faint, "done".into()));
    }
    let ink = if host.failed > 0 { Ink::Bad } else { Ink::Plain };
    parts.push((ink, format!("{} failed", units::count(host.failed))));
    (host.name.clone(), parts)
}

/// How many hosts are at work.
pub(super) fn at_work(hosts: &[HostView]) -> Vec<(Ink, String)> {
    let sum = |of: fn(&HostView) -> usize| hosts.iter().map(of).sum::<usize>();
    let (all, lost) = (sum(|host| host.hosts), sum(|host| host.lost_hosts));
    let ink = if lost > 0 { Ink::Bad } else { Ink::Plain };
    let of = units::counted(all as u64, "host", "hosts");
    vec![(ink, format!("{} of {of}", units::count((all - lost) as u64)))]
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;
    use prony_tally::record::series::{Cell, bin_of};

    use super::super::tests::before;
    use super::*;

    fn host(name: &str, replies: u32, failed: u64) -> HostView {
        let bins = vec![(bin_of(Span::from_millis(2)), replies)];
        let second = Cell {
            started: replies.into(),
            replies: replies.into(),
            max: Span::from_millis(2),
            bins,
            ..Cell::default()
        };
        let (name, second) = (name.into(), Some(second));
        HostView { name, hosts: 1, failed, second, ..HostView::default() }
    }

    fn shown(state: &State, most: u16) -> Vec<String> {
        let text = |(label, parts): Line| {
            let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
            format!("{label}: {}", parts.join(", "))
        };
        lines(state, most).into_iter().map(text).collect()
    }

    #[test]
    fn lost_failing_and_slow_hosts_come_first() {
        let mut state = before("-r 100");
        assert!(lines(&state, 4).is_empty());
        let lost = HostView {
            lost: Some("it was silent for 2.5 s".into()),
            lost_hosts: 1,
            ..host("web4", 9, 0)
        };
        state.hosts =
            vec![host("web1", 1_000, 0), host("web2", 900, 0), host("web3", 999, 2), lost];
        assert_eq!(
            shown(&state, 4),
            [
                "web4: lost: it was silent for 2.5 s, 0 failed",
                "web3: 999/s, p50 2.00 ms, 2 failed",
                "web2: 900/s, p50 2.00 ms, 0 failed",
                "web1: 1.00k/s, p50 2.00 ms, p99 2.00 ms, 0 failed",
            ]
        );
        let few = shown(&state, 3);
        assert_eq!((few.len(), few[2].as_str()), (3, ": and 2 more hosts"));
        assert_eq!(at_work(&state.hosts)[0].1, "3 of 4 hosts");
        assert_eq!(at_work(&state.hosts)[0].0, Ink::Bad);
    }
}
