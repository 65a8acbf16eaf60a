//! Targets that cannot be reached: what to say, and what to do about it.

use prony_base::fault::{Fault, FaultClass};
use prony_base::units::{Nanos, Span};
use prony_core::engine::PATIENCE;
use prony_io::Live;
use prony_plan::plan::Plan;
use prony_report::units;
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

use crate::error::Error;
use crate::target_process::endpoint_name;

/// The note about a run in which no connection has opened; `has_ended`: it ended for that reason.
pub fn note(summary: &Summary, has_ended: bool) -> Option<String> {
    let (what, advice) = failed(summary)?;
    if !has_ended {
        let mut letters = what.chars();
        let first = letters.next().map_or_else(String::new, |c| c.to_uppercase().collect());
        return Some(format!("{first}{}. {advice}.", letters.as_str()));
    }
    let time = units::exact(PATIENCE);
    Some(format!("Ended early: for {time}, {what}. {advice}; --keep-trying goes on."))
}

/// Checks that a run of several has reached its target.
///
/// # Errors
/// No connection has opened; the sentence says why, and what to do.
pub fn check(summary: &Summary) -> Result<(), Error> {
    let (what, advice) = failed(summary).map_or((None, ""), |(what, advice)| (Some(what), advice));
    let sentence = |what: String| format!("{what}. {advice}; --keep-trying goes on");
    what.map_or(Ok(()), |what| Err(Error::Server(sentence(what))))
}

/// Why no connection of the run has opened, and what to do; `None` if one has, or if nothing is
/// known about it.
fn failed(summary: &Summary) -> Option<(String, &'static str)> {
    let tallies = || summary.warmup.iter().chain([&summary.main]);
    let of_requests = |fault: Fault| tallies().map(|t| t.fault(fault)).sum::<u64>();
    let is_connect = |fault: &Fault| fault.class() == FaultClass::Connect;
    let failed = |fault: &Fault| *fault != Fault::GivenUp && of_requests(*fault) > 0;
    let mut others = Fault::ALL.into_iter().filter(|fault| failed(fault) && !is_connect(fault));
    if tallies().any(|t| t.replies > 0 || !t.statuses.is_empty()) || others.next().is_some() {
        return None;
    }
    let of_connections = |fault: Fault| tallies().map(|t| t.connections.fault(fault)).sum::<u64>();
    let all = Fault::ALL.into_iter().filter(|f| is_connect(f) && failed(f));
    let fault = all.max_by_key(|&fault| of_connections(fault))?;
    let to = target(&summary.plan);
    Some(match fault {
        Fault::ConnectRefused => (
            format!("every connection to {to} was refused"),
            "Start the server, or correct the address",
        ),
        Fault::ConnectReset => (
            format!("every connection to {to} was reset while it was being opened"),
            "Check what listens at the address",
        ),
        Fault::NoTunnel => {
            let reasons = |t: &Tally| t.proxy.as_ref().and_then(|proxy| most(&proxy.reasons));
            let why = tallies().find_map(reasons).unwrap_or_default();
            (format!("the proxy opened no tunnel{why}"), "Check the proxy, and what it allows")
        }
        Fault::TlsHandshake => {
            let reasons = |t: &Tally| t.tls.as_ref().and_then(|tls| most(&tls.reasons));
            let why = tallies().find_map(reasons).unwrap_or_default();
            let advice = of_tls(&why);
            (format!("no TLS handshake with {to} succeeded{why}"), advice)
        }
        _ => (
            format!("{to} could not be reached over the network"),
            "Check the address, and the route to it",
        ),
    })
}

/// The most frequent reason, as the end of a sentence.
fn most(reasons: &std::collections::BTreeMap<String, u64>) -> Option<String> {
    let most = reasons.iter().max_by_key(|&(_, &n)| n);
    most.map(|(reason, _)| format!(": {reason}"))
}

/// What to do about this reason of TLS.
fn of_tls(why: &str) -> &'static str {
    if why.contains("does not speak TLS") {
        "Use http://, or the port on which the server speaks TLS"
    } else if why.contains("server's certificate") {
        "Correct the certificate or the name, or accept any certificate with -k"
    } else {
        "Check the TLS settings of both sides"
    }
}

/// Where the connections of the plan go.
fn target(plan: &Plan) -> String {
    match &plan.endpoints[..] {
        _ if plan.proxy.is_some() => "the proxy".to_owned(),
        [one] => endpoint_name(one),
        all => format!("each of the {} targets", units::count(all.len() as u64)),
    }
}

/// The message about a load that waits for its first connection, shown once.
#[derive(Debug, Default)]
pub struct Silence {
    said: bool,
}

impl Silence {
    /// The message, if no connection has opened or failed for a while.
    pub fn sentence(&mut self, plan: &Plan, live: &Live) -> Option<String> {
        let is_silent = live.connected == Some(0) && live.started > 0 && live.failed == 0;
        if self.said || !is_silent || live.now < Nanos::ZERO + PATIENCE {
            return None;
        }
        self.said = true;
        let timeout = plan.connect_timeout;
        Some(match timeout {
            Span::MAX => "no connection has opened yet, and they wait without a limit".to_owned(),
            _ => format!(
                "no connection has opened yet; each waits up to {} (--connect-timeout)",
                units::exact(timeout)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use prony_base::meter::WorkerStats;
    use prony_stats::summary::RunInfo;

    use super::*;
    use crate::plan_file;

    /// A run of this plan, all of whose requests failed with these faults.
    fn run(plan: &str, faults: &[(Fault, u64)], change: impl FnOnce(&mut Tally)) -> Summary {
        let mut tally = Tally::default();
        for &(fault, n) in faults {
            (tally.started, tally.failed) = (tally.started + n, tally.failed + n);
            tally.faults[fault as usize] = n;
            tally.connections.faults[fault as usize] = n;
        }
        change(&mut tally);
        let parts = vec![(None, tally, WorkerStats::default())];
        Summary::from_parts(plan_file::tests::plan(plan), RunInfo::default(), parts)
    }

    const ONE: &str = "url = 'http://h:81/'";

    #[test]
    fn says_why_nothing_was_reached_and_what_to_do() {
        let refused = run(ONE, &[(Fault::ConnectRefused, 7), (Fault::GivenUp, 9)], |_| {});
        assert_eq!(
            note(&refused, true).as_deref(),
            Some(
                "Ended early: for 2 s, every connection to h:81 was refused. Start the server, or \
                 correct the address; --keep-trying goes on."
            )
        );
        assert_eq!(
            note(&refused, false).as_deref(),
            Some("Every connection to h:81 was refused. Start the server, or correct the address.")
        );
        let error = check(&refused).expect_err("it was not reached");
        assert_eq!(
            error.to_string(),
            "every connection to h:81 was refused. Start the server, or correct the address; \
             --keep-trying goes on"
        );
        assert_eq!(error.exit(), crate::exit::Exit::NoAnswer);
    }

    #[test]
    fn the_most_frequent_reason_of_tls_decides_the_advice() {
        let of = |reasons: &[(&str, u64)]| {
            let summary = run("url = 'https://h/'", &[(Fault::TlsHandshake, 5)], |tally| {
                let reasons = reasons.iter().map(|&(why, n)| (why.to_owned(), n)).collect();
                tally.tls.get_or_insert_default().reasons = reasons;
            });
            note(&summary, false).expect("a note")
        };
        assert_eq!(
            of(&[("the server's certificate has expired", 4), ("the connection was reset", 1)]),
            "No TLS handshake with h:443 succeeded: the server's certificate has expired. Correct \
             the certificate or the name, or accept any certificate with -k."
        );
        assert_eq!(
            of(&[("the server does not speak TLS on this port", 5)]),
            "No TLS handshake with h:443 succeeded: the server does not speak TLS on this port. Use \
             http://, or the port on which the server speaks TLS."
        );
    }

    #[test]
    fn a_run_that_reached_something_has_no_note() {
        let faults = [(Fault::ConnectRefused, 7)];
        let replied = run(ONE, &faults, |tally| tally.replies = 1);
        let unexpected = run(ONE, &faults, |tally| {
            tally.statuses.insert(503, 1);
        });
        let timed_out = run(ONE, &[(Fault::ConnectRefused, 7), (Fault::ConnectTimeout, 1)], |_| {});
        let nothing = run(ONE, &[], |_| {});
        for summary in [replied, unexpected, timed_out, nothing] {
            assert_eq!(note(&summary, false), None);
            assert!(check(&summary).is_ok());
        }
    }

    #[test]
    fn says_once_how_long_it_waits_for_a_black_hole() {
        let plan = plan_file::tests::plan(ONE);
        let live = |ms, connected, failed| Live {
            now: Nanos::ZERO + Span::from_millis(ms),
            started: 5,
            connected,
            failed,
            ..Live::default()
        };
        let said = |all: &[Live]| {
            let mut silence = Silence::default();
            all.iter().filter_map(|live| silence.sentence(&plan, live)).collect::<Vec<_>>()
        };
        let sentence = "no connection has opened yet; each waits up to 5 s (--connect-timeout)";
        assert_eq!(said(&[live(1_950, Some(0), 0)]), [""; 0]);
        assert_eq!(said(&[live(2_000, Some(0), 0), live(2_050, Some(0), 0)]), [sentence]);
        assert_eq!(said(&[live(2_000, Some(1), 0), live(2_000, Some(0), 1)]), [""; 0]);
        assert_eq!(said(&[live(2_000, None, 0)]), [""; 0], "several hosts do not report it");
    }
}
