//! Signals that stop a run, and the message about what the run waits for.

use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_io::signals::{self, EndSignal};
use prony_io::{Control, Live};
use prony_report::units;

use crate::error::Error;
use crate::exit::Exit;
use crate::output;
use crate::target_process;

/// The maximum time to wait until the workers report their drain.
const REPORT_TIMEOUT: Span = Span::from_millis(250);

/// How long an output may take after a signal, before the process ends without it.
const WRITE: Duration = Duration::from_secs(3);
/// How often that is checked.
const WRITE_TURN: Duration = Duration::from_millis(10);

/// Restores the terminal, if a front end has changed its settings.
static RESTORE: OnceLock<fn()> = OnceLock::new();

/// Sets the function to call before a signal ends the process. Only the first call has an effect.
pub fn restore_by(restore: fn()) {
    let _ = RESTORE.set(restore);
}

/// A control that signals set: the first signal drains, within the control's limit, and the second
/// stops at once. A third one ends the process, in case something hangs that does not check the
/// control, such as a name resolution.
pub fn stoppable() -> Result<Arc<Control>, Error> {
    let control = Arc::new(Control::new());
    let handler = Arc::clone(&control);
    catch(Exit::Interrupted.code(), 3, move |_| handler.interrupt())?;
    Ok(control)
}

/// Calls `then` at each stop signal, and ends the process at the signal with the number `last`, or
/// at one while an output that nobody reads holds it up.
pub fn catch(
    code: u8,
    last: u32,
    mut then: impl FnMut(EndSignal) + Send + 'static,
) -> Result<(), Error> {
    let mut seen = 0;
    let handle = move |signal| {
        then(signal);
        seen += 1;
        if seen >= last || is_stuck() {
            if let Some(restore) = RESTORE.get() {
                restore();
            }
            target_process::kill_all();
            output::abandon();
            process::exit(code.into());
        }
    };
    signals::on_end(handle).map_err(|e| Error::Machine(format!("cannot catch signals: {e}")))
}

/// Whether an output is being written, and still is after a while.
fn is_stuck() -> bool {
    let begun = Instant::now();
    while output::is_writing() {
        if begun.elapsed() >= WRITE {
            return true;
        }
        thread::sleep(WRITE_TURN);
    }
    false
}

/// The message about what an interrupted run waits for, shown once.
#[derive(Debug, Default)]
pub struct Ending {
    since: Option<Nanos>,
    said: bool,
}

impl Ending {
    /// The message, once it is known and if there is something to wait for.
    pub fn sentence(&mut self, control: &Control, live: &Live) -> Option<String> {
        let drains = control.stop_request() == Some(StopRequest::Drain);
        if self.said || !drains || !control.is_interrupted() {
            return None;
        }
        let waited = live.now.since(*self.since.get_or_insert(live.now));
        if live.in_flight == 0 || (live.drain_end.is_none() && waited < REPORT_TIMEOUT) {
            return None;
        }
        self.said = true;
        let timeouts = live.drain_end.map_or(Span::MAX, |end| end.since(live.now));
        // The limit counts from the moment at which the workers saw the signal, slightly later.
        let limit = control.drain_limit();
        let most = timeouts.min(if limit == Span::MAX { limit } else { limit - waited });
        let replies = units::counted(live.in_flight, "reply", "replies");
        let at_most = match most {
            Span::MAX => String::new(),
            most => format!(", at most {} s", units::count(most.0.div_ceil(1_000_000_000).max(1))),
        };
        Some(format!("stopping: waiting for {replies}{at_most}; press Ctrl-C to stop at once"))
    }

    /// Prints the message to standard error, for runs without a live view.
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
    fn shows_the_message_once() {
        let (control, mut ending) = (Control::new(), Ending::default());
        assert_eq!(ending.sentence(&control, &live(900, 5, None)), None);
        control.limit_drain(Span::MAX);
        control.interrupt();
        assert_eq!(ending.sentence(&control, &live(1_000, 5, None)), None, "unknown so far");
        let known = live(1_050, 5, Some(28_900));
        let sentence = ending.sentence(&control, &known);
        let wanted = "stopping: waiting for 5 replies, at most 28 s; press Ctrl-C to stop at once";
        assert_eq!(sentence.as_deref(), Some(wanted));
        assert_eq!(ending.sentence(&control, &known), None, "once");
    }

    #[test]
    fn uses_the_shorter_of_timeouts_and_limit() {
        let sentence = |in_flight, end| {
            let (control, mut ending) = (Control::new(), Ending::default());
            control.interrupt();
            ending.sentence(&control, &live(1_000, in_flight, end)).unwrap_or_default()
        };
        assert!(sentence(1, Some(28_000)).contains("for 1 reply, at most 3 s;"));
        assert!(sentence(1_234, Some(2_000)).contains("for 1,234 replies, at most 1 s;"));
        assert_eq!(sentence(0, Some(28_000)), "", "nothing to wait for");
    }

    #[test]
    fn shows_no_message_for_other_stops() {
        let (control, mut ending) = (Control::new(), Ending::default());
        control.stop();
        assert_eq!(ending.sentence(&control, &live(1_000, 5, Some(28_000))), None);
        let (control, mut ending) = (Control::new(), Ending::default());
        control.interrupt();
        control.interrupt();
        assert_eq!(ending.sentence(&control, &live(1_000, 5, Some(28_000))), None);
    }

    #[test]
    fn shows_the_message_without_a_report_from_the_workers() {
        let (control, mut ending) = (Control::new(), Ending::default());
        control.limit_drain(Span::MAX);
        control.interrupt();
        assert_eq!(ending.sentence(&control, &live(1_000, 5, None)), None);
        let sentence = ending.sentence(&control, &live(1_250, 5, None));
        let wanted = "stopping: waiting for 5 replies; press Ctrl-C to stop at once";
        assert_eq!(sentence.as_deref(), Some(wanted));
    }
}
