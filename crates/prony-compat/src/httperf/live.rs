//! The output during a run.

use std::io::{self, IsTerminal as _, Write as _};

use prony_io::{Control, Live};
use prony_run::output;

use super::numbers::{SAMPLE, first_sample};
use super::options::Opts;
use super::random::Gaps;
use super::tap::Taps;

/// Watches a run and prints its progress.
pub(super) struct Watch<'a> {
    opts: &'a Opts,
    control: &'a Control,
    taps: Option<&'a Taps>,
    /// When the next line of periodic statistics is due, and the counts of the last one.
    next_stats: f64,
    stats: [u64; 2],
    /// When the next sample is due, in seconds; the replies and sessions at the last sample, and
    /// its time.
    next_sample: f64,
    last: (u64, u64, f64),
    /// The delays that are not printed yet, and when the next one is due.
    delays: Option<(Gaps, f64, u64)>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        opts: &'a Opts,
        control: &'a Control,
        taps: Option<&'a Taps>,
        starts: u64,
    ) -> Self {
        // The delays after the second start and later ones are printed.
        let mut gaps = Gaps::new(&opts.period, opts.client.0);
        let second = gaps.next().filter(|_| opts.verbose >= 3);
        let delays = second.map(|at| (gaps, at, starts.saturating_sub(1)));
        Self {
            opts,
            control,
            taps: taps.filter(|_| opts.periodic_stats),
            next_stats: 1.0,
            stats: [0; 2],
            next_sample: first_sample(opts.client),
            last: (0, 0, 0.0),
            delays,
        }
    }

    /// Update with the progress of the run.
    pub(super) fn see(&mut self, live: &Live) {
        let now = live.now.as_secs_f64();
        if self.opts.runtime > 0.0 && now >= self.opts.runtime {
            // Requests in flight are given up, as after Ctrl-C.
            self.control.stop_now();
        }
        self.report_delays(now);
        self.report_statuses(now);
        if self.opts.verbose > 0 && now >= self.next_sample {
            let replies = live.answered();
            let (replies_before, sessions_before, then) = self.last;
            let rate = |n: u64, before: u64| n.saturating_sub(before) as f64 / (now - then);
            say(&format!("reply-rate = {:<8.1}", rate(replies, replies_before)));
            if self.opts.has_sessions() {
                let rate = rate(live.sessions, sessions_before);
                say(&format!("session-rate = {rate:<8.1}"));
            }
            self.last = (replies, live.sessions, now);
            self.next_sample += SAMPLE;
        }
    }

    /// The run has ended after this number of seconds.
    pub(super) fn finish(mut self, duration: f64) {
        self.report_delays(duration);
    }

    fn report_statuses(&mut self, now: f64) {
        let Some(taps) = self.taps.filter(|_| now >= self.next_stats) else { return };
        let [ok, moved] = taps.statuses();
        let [ok_before, moved_before] = std::mem::replace(&mut self.stats, [ok, moved]);
        let (ok, moved) = (ok - ok_before, moved - moved_before);
        say(&format!("[{now:.6} s] 200={ok}, 302={moved}"));
        self.next_stats += 1.0;
    }

    fn report_delays(&mut self, now: f64) {
        let Some((gaps, at, left)) = &mut self.delays else { return };
        while *left > 0
            && *at <= now
            && let Some(gap) = gaps.next()
        {
            output::lines_to_stderr(&format!("next arrival delay = {gap:.4}"));
            *at += gap;
            *left -= 1;
        }
    }
}

/// Print a line and flush.
pub(super) fn say(line: &str) {
    show(format!("{line}\n").as_bytes());
}

/// Print and flush. A closed standard output is not an error.
pub(super) fn show(text: &[u8]) {
    let mut out = io::stdout().lock();
    let shown = crate::copied(text, out.is_terminal());
    let _ = out.write_all(&shown).and_then(|()| out.flush());
}
