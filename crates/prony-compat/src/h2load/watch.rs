//! The lines that h2load prints before and during a run.

use std::fmt::Write as _;

use prony_base::units::{Nanos, Span};
use prony_io::Live;
use prony_plan::plan::{HttpVersion, Plan};

use super::options::Options;
use crate::say;

/// The lines before the load, one per thread.
pub(super) fn head(options: &Options, plan: &Plan) -> String {
    let mut out = String::from("starting benchmark...\n");
    let threads = u64::from(options.threads);
    let share = |n: u64, thread: u64| n / threads + u64::from(n % threads > thread);
    for thread in 0..threads {
        let clients = share(options.clients.into(), thread);
        let rate = options.rate.map(|rate| {
            let each = share(rate.into(), thread);
            let period = options.rate_period;
            format!("Up to {each} client(s) will be created every {} ", short(period.as_secs_f64()))
        });
        let work = match (plan.stop.requests, options.duration) {
            (_, Some(main)) => format!(
                "Timing-based test with {}s of warm-up time and {}s of main duration for \
                 measurements.",
                options.warmup.as_secs_f64(),
                main.as_secs_f64()
            ),
            (n, None) => format!("{} total requests", share(n.unwrap_or(0), thread)),
        };
        let rate = rate.unwrap_or_default();
        out += &format!("spawning thread #{thread}: {clients} total client(s). {rate}{work}\n");
    }
    out
}

/// A period, in the largest unit in which it is a whole number.
fn short(seconds: f64) -> String {
    let ms = (seconds * 1e3).round() as u64;
    match ms {
        0 => "0s".into(),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// The clients of a run with a rate of clients (`-r`), whose progress is that of their starts.
#[derive(Debug)]
struct Starts {
    all: u64,
    /// How many start together, and how long after them the next ones do.
    each: u64,
    period: Span,
    /// How many starts were reported.
    seen: u64,
}

impl Starts {
    /// Clients that have started by `now`.
    fn until(&self, now: Nanos) -> u64 {
        let periods = now.0.checked_div(self.period.0).unwrap_or(u64::MAX);
        periods.saturating_add(1).saturating_mul(self.each).min(self.all)
    }

    /// The lines that are due: one for each tenth of the clients, or for each one if there are
    /// fewer than ten.
    fn lines(&mut self, now: Nanos) -> String {
        let (step, started) = ((self.all / 10).max(1), self.until(now));
        let mut lines = String::new();
        for nth in (self.seen + 1..=started).filter(|nth| nth % step == 0) {
            let _ = writeln!(lines, "progress: {}% of clients started", nth * 100 / self.all);
        }
        self.seen = started;
        lines
    }

    fn say(&mut self, now: Nanos) {
        let lines = self.lines(now);
        if !lines.is_empty() {
            say(&lines);
        }
    }
}

/// Prints the progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    starts: Option<Starts>,
    /// All requests, if their number is known; else the phases of a run by time.
    total: Option<u64>,
    threads: u32,
    warmup_end: Nanos,
    end: Option<Nanos>,
    /// Steps or phases that were printed.
    printed: u64,
    /// The protocol, if it is known before a connection is open, until it is printed.
    protocol: Option<&'static str>,
    has_named: bool,
}

impl Progress {
    pub(super) fn new(options: &Options, plan: &Plan) -> Self {
        let warmup_end = Nanos::ZERO + plan.warmup;
        let starts = options.rate.map(|each| Starts {
            all: options.clients.into(),
            each: each.into(),
            period: options.rate_period,
            seen: 0,
        });
        Self {
            starts,
            total: plan.stop.requests,
            threads: options.threads,
            warmup_end,
            end: options.duration.map(|main| warmup_end + main),
            printed: 0,
            has_named: false,
            protocol: match plan.http {
                _ if super::plan::is_tls(plan) => None,
                HttpVersion::Http11 => Some("http/1.1"),
                _ => Some("h2c"),
            },
        }
    }

    /// Whether the protocol has been printed.
    pub(super) fn has_named_protocol(&self) -> bool {
        self.has_named
    }

    pub(super) fn see(&mut self, live: &Live) {
        if let Some(starts) = &mut self.starts {
            starts.say(live.now);
        }
        if let Some(end) = self.end {
            self.phases(live.now, end);
        }
        if live.answered() > 0
            && let Some(protocol) = self.protocol.take()
        {
            self.has_named = true;
            say(&format!("Application protocol: {protocol}\n"));
        }
        if let (Some(total), None, None) = (self.total, self.end, &self.starts) {
            self.steps(live.answered(), total);
        }
    }

    /// The run is over, after `done` replies.
    pub(super) fn finish(&mut self, done: u64) {
        if let Some(starts) = &mut self.starts {
            // All have started when the run is over, unless its time has ended it.
            starts.say(self.end.unwrap_or(Nanos::MAX));
        }
        match (self.total, self.end) {
            (_, Some(end)) => self.phases(end, end),
            (Some(total), None) if self.starts.is_none() => self.steps(done, total),
            (Some(_) | None, None) => {}
        }
    }

    /// A line for each tenth of the requests; for each one if there are fewer than ten.
    fn steps(&mut self, done: u64, total: u64) {
        let step = (total / 10).max(1);
        while (self.printed + 1) * step <= done.min(total) {
            self.printed += 1;
            say(&format!("progress: {}% done\n", self.printed * step * 100 / total));
        }
    }

    fn phases(&mut self, now: Nanos, end: Nanos) {
        let due = [Nanos::ZERO, self.warmup_end, end];
        while let Some(&at) = due.get(self.printed as usize)
            && at <= now
        {
            for thread in 0..self.threads {
                say(&phase(self.printed, thread));
            }
            self.printed += 1;
        }
    }
}

fn phase(phase: u64, thread: u32) -> String {
    match phase {
        0 => format!("Warm-up started for thread #{thread}.\n"),
        1 => format!(
            "Warm-up phase is over for thread #{thread}.\n\
             Main benchmark duration is started for thread #{thread}.\n"
        ),
        _ => format!(
            "Main benchmark duration is over for thread #{thread}. Stopping all clients.\n\
             Stopped all clients for thread #{thread}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(all: u64, each: u64) -> Starts {
        Starts { all, each, period: Span::from_secs(1), seen: 0 }
    }

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO + Span::from_millis(ms)
    }

    /// Two clients start at once, and two after each second.
    #[test]
    fn progress_of_a_rate_is_that_of_the_started_clients() {
        let mut few = starts(4, 2);
        let line = |percent: u64| format!("progress: {percent}% of clients started\n");
        assert_eq!(few.lines(at(0)), line(25) + &line(50));
        assert_eq!(few.lines(at(999)), "");
        assert_eq!(few.lines(at(1_000)), line(75) + &line(100));
        assert_eq!(few.lines(Nanos::MAX), "");
        // A line for each tenth of the clients.
        let mut many = starts(40, 3);
        assert_eq!(many.lines(at(0)), "");
        assert_eq!(many.lines(at(1_500)), line(10));
        assert_eq!(many.lines(at(2_500)), line(20));
        let rest: String = (3..=10).map(|tenth| line(10 * tenth)).collect();
        assert_eq!(many.lines(Nanos::MAX), rest);
    }
}
