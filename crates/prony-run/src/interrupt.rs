//! How a user or a supervisor ends a run: signals, what they do, and what prony says of it.

use std::process;
use std::sync::{Arc, OnceLock};

use prony_core::machine::StopRequest;
use prony_core::units::{Nanos, Span};
use prony_io::signals::{self, EndSignal};
use prony_io::{Control, Live};
use prony_report::units;

use crate::error::Error;
use crate::exit::Exit;
use crate::output;

/// How long replies are waited for after SIGTERM or SIGHUP. Who sends them kills the process before
/// long (`docker stop` after 10 s), and there is nobody to press Ctrl-C again.
pub const TERM_DRAIN: Span = Span::from_secs(3);
/// How long a worker may take to report its drain.
const PATIENCE: Span = Span::from_millis(250);

/// What gives the terminal back, where a front end has taken it.
static RESTORE: OnceLock<fn()> = OnceLock::new();

/// Have that called before a signal ends the process. Only the first call counts.
pub fn restore_by(restore: fn()) {
    let _ = RESTORE.set(restore);
}

/// A control that signals set: once to drain, twice to end at once. A third one ends the process:
/// then something hangs that knows nothing of the control, such as a name's resolution.
pub fn stoppable() -> Result<Arc<Control>, Error> {
    let control = Arc::new(Control::new());
    let handler = Arc::clone(&control);
    catch(Exit::Interrupted.code(), 3, move |signal| {
        handler.interrupt(match signal {
            // Somebody is there who reads what is waited for, and can press it again.
            EndSignal::Interrupt => Span::MAX,
            EndSignal::Terminate | EndSignal::Hangup => TERM_DRAIN,
        });
    })?;
    Ok(control)
}

/// Do that at each signal that asks for the end; at the one of that number, end the process.
pub fn catch(
    code: u8,
    last: u32,
    mut then: impl FnMut(EndSignal) + Send + 'static,
) -> Result<(), Error> {
    let mut seen = 0;
    let handle = move |signal| {
        then(signal);
        seen += 1;
        if seen >= last {
            if let Some(restore) = RESTORE.get() {
                restore();
            }
            output::abandon();
            process::exit(code.into());
        }
    };
    signals::on_end(handle).map_err(|e| Error::Machine(format!("signals cannot be caught: {e}")))
}

/// Says once what an interrupted run waits for.
#[derive(Debug, Default)]
pub struct Ending {
    since: Option<Nanos>,
    said: bool,
}

impl Ending {
    /// The sentence, once, as soon as it is known what is waited for; none where it is nothing.
    pub fn sentence(&mut self, control: &Control, live: &Live) -> Option<String> {
        let drains = control.stop_request() == Some(StopRequest::Drain);
        if self.said || !drains || !control.is_interrupted() {
            return None;
        }
        let waited = live.now.since(*self.since.get_or_insert(live.now));
        if live.in_flight == 0 || (live.drain_end.is_none() && waited < PATIENCE) {
            return None;
        }
        self.said = true;
        let timeouts = live.drain_end.map_or(Span::MAX, |end| end.since(live.now));
        // The limit runs since the workers heard of the signal, a little later than that.
        let limit = control.drain_limit();
        let most = timeouts.min(if limit == Span::MAX { limit } else { limit - waited });
        let replies = units::counted(live.in_flight, "reply", "replies");
        let at_most = match most {
            Span::MAX => String::new(),
            most => format!(", at most {} s", units::count(most.0.div_ceil(1_000_000_000).max(1))),
        };
        Some(format!("ending: waiting for {replies}{at_most}; once more ends at once"))
    }

    /// Say it on standard error, where no view of the run does.
    pub fn say(&mut self, control: &Control, live: &Live) {
        if let Some(sentence) = self.sentence(control, live) {
            output::to_stderr(&format!("prony: {sentence}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(ms: u64, in_flight: u64, drain_end_ms: Option<u64>) -> Live {
        let at = |ms| Nanos::ZERO + Span::from_millis(ms);
        Live { now: at(ms), in_flight, drain_end: drain_end_ms.map(at), ..Live::default() }
    }

    #[test]
    fn says_once_what_is_waited_for() {
        let (control, mut ending) = (Control::new(), Ending::default());
        assert_eq!(ending.sentence(&control, &live(900, 5, None)), None);
        control.interrupt(Span::MAX);
        assert_eq!(ending.sentence(&control, &live(1_000, 5, None)), None, "not known yet");
        let known = live(1_050, 5, Some(28_900));
        let sentence = ending.sentence(&control, &known);
        let wanted = "ending: waiting for 5 replies, at most 28 s; once more ends at once";
        assert_eq!(sentence.as_deref(), Some(wanted));
        assert_eq!(ending.sentence(&control, &known), None, "once");
    }

    #[test]
    fn the_limit_of_sigterm_counts_where_it_is_less() {
        let sentence = |in_flight, end| {
            let (control, mut ending) = (Control::new(), Ending::default());
            control.interrupt(TERM_DRAIN);
            ending.sentence(&control, &live(1_000, in_flight, end)).unwrap_or_default()
        };
        assert!(sentence(1, Some(28_000)).contains("for 1 reply, at most 3 s;"));
        assert!(sentence(1_234, Some(2_000)).contains("for 1,234 replies, at most 1 s;"));
        assert_eq!(sentence(0, Some(28_000)), "", "nothing is waited for");
    }

    #[test]
    fn what_a_rule_of_the_run_ends_says_nothing() {
        let (control, mut ending) = (Control::new(), Ending::default());
        control.stop();
        assert_eq!(ending.sentence(&control, &live(1_000, 5, Some(28_000))), None);
        let (control, mut ending) = (Control::new(), Ending::default());
        control.interrupt(Span::MAX);
        control.interrupt(Span::MAX);
        assert_eq!(ending.sentence(&control, &live(1_000, 5, Some(28_000))), None);
    }

    #[test]
    fn workers_that_do_not_answer_are_not_waited_for() {
        let (control, mut ending) = (Control::new(), Ending::default());
        control.interrupt(Span::MAX);
        assert_eq!(ending.sentence(&control, &live(1_000, 5, None)), None);
        let sentence = ending.sentence(&control, &live(1_250, 5, None));
        let wanted = "ending: waiting for 5 replies; once more ends at once";
        assert_eq!(sentence.as_deref(), Some(wanted));
    }
}
