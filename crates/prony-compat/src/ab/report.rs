//! ab's report, its two kinds of files, and prony's additions.

use std::fmt::Write as _;
use std::net::IpAddr;

use prony_base::fault::{Fault, FaultClass};
use prony_base::units::Span;
use prony_plan::plan::openssl_name;
use prony_stats::summary::Summary;
use prony_tally::record::Stamps;

use super::observe::Seen;
use super::options::Options;
use super::plan::Planned;
use crate::plan::temporary_key;

/// The percentages of the table.
const PERCENTS: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// A finished run, with ab's figures.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) planned: &'a Planned,
    pub(super) summary: &'a Summary,
    pub(super) seen: &'a Seen,
    /// Successes within the time limit, the fastest first.
    pub(super) rows: Vec<Row>,
}

/// One request, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Since the start of the run.
    start: u64,
    /// The connect time; 0 if the connection was open already.
    connect: u64,
    total: u64,
    /// From the send to the first byte.
    wait: u64,
}

impl Row {
    fn of(s: &Stamps) -> Self {
        Self {
            start: s.intended.0,
            connect: s.connect.0,
            total: s.response().0,
            wait: s.first_byte().0,
        }
    }

    pub(super) fn connect(&self) -> u64 {
        self.connect
    }

    pub(super) fn processing(&self) -> u64 {
        self.total - self.connect
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        options: &'a Options,
        planned: &'a Planned,
        summary: &'a Summary,
        seen: &'a Seen,
    ) -> Self {
        let end = summary.main.end;
        let kept = summary.main.kept.iter().filter(|s| s.done <= end);
        let mut rows: Vec<Row> = kept.map(Row::of).collect();
        rows.sort_by_key(|r| r.total);
        Self { options, planned, summary, seen, rows }
    }

    /// Finished requests, failed ones included.
    pub(super) fn done(&self) -> u64 {
        self.rows.len() as u64 + self.summary.main.failed
    }

    /// Seconds.
    pub(super) fn taken(&self) -> f64 {
        self.summary.main.window().as_secs_f64()
    }

    fn other_lengths(&self) -> u64 {
        // Replies after the time limit are seen, too.
        let most = self.rows.len() as u64;
        if self.options.variable_length { 0 } else { self.seen.other_lengths().min(most) }
    }

    /// The report.
    pub(super) fn text(&self) -> String {
        let mut out = self.target();
        self.counts(&mut out);
        self.rates(&mut out);
        let nothing;
        let timed = if self.rows.is_empty() {
            nothing = self.without_replies();
            &nothing
        } else {
            self
        };
        if !timed.rows.is_empty() {
            timed.times(&mut out);
            if self.options.percentiles && self.done() > 1 {
                timed.percentiles(&mut out);
            }
        }
        out
    }

    /// The times of a run without a reply are zeros, as in ab.
    fn without_replies(&self) -> Self {
        let Self { options, planned, summary, seen, .. } = *self;
        let failed = usize::from(summary.main.failed > 0);
        Self { options, planned, summary, seen, rows: vec![Row::default(); failed] }
    }

    pub(super) fn document_length(&self) -> String {
        if self.options.variable_length {
            "Variable".to_owned()
        } else {
            format!("{} bytes", self.seen.length())
        }
    }

    fn target(&self) -> String {
        let (url, length) = (&self.planned.url, self.document_length());
        format!(
            "\n\n\
             Server Software:        {}\n\
             Server Hostname:        {}\n\
             Server Port:            {}\n\
             {}\n\
             Document Path:          {}\n\
             Document Length:        {length}\n\
             \n",
            self.seen.server(),
            url.host,
            url.port,
            self.tls(),
            url.path
        )
    }

    /// The TLS parameters of the first connection.
    fn tls(&self) -> String {
        let tally = self.summary.main.tls.as_ref();
        let Some(first) = tally.and_then(|tls| tls.first.as_ref()) else { return String::new() };
        let suite = openssl_name(&first.suite);
        let mut out = format!(
            "SSL/TLS Protocol:       TLSv{},{suite},{},{}\n",
            first.version,
            first.key_bits.unwrap_or(0),
            if suite.contains("128") { 128 } else { 256 },
        );
        if let Some(group) = &first.group {
            let _ = writeln!(out, "Server Temp Key:        {}", temporary_key(group));
        }
        let host = &self.planned.url.host;
        if host.parse::<IpAddr>().is_err() {
            let _ = writeln!(out, "TLS Server Name:        {host}");
        }
        out
    }

    fn counts(&self, out: &mut String) {
        let t = &self.summary.main;
        let mut line = |name: &str, value: String| {
            let name = format!("{name}:");
            let _ = writeln!(out, "{name:<23} {value}");
        };
        line("Concurrency Level", self.options.concurrency.to_string());
        line("Time taken for tests", format!("{:.3} seconds", self.taken()));
        line("Complete requests", self.done().to_string());
        line("Failed requests", self.failed().to_string());
        if self.failed() > 0 {
            let [connect, receive, length, other] = self.failures();
            let _ = writeln!(
                out,
                "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {other})"
            );
        }
        let mut line = |name: &str, value: String| {
            let name = format!("{name}:");
            let _ = writeln!(out, "{name:<23} {value}");
        };
        if self.other_statuses() > 0 {
            line("Non-2xx responses", self.other_statuses().to_string());
        }
        if self.options.keep_alive {
            line("Keep-Alive requests", self.kept_alive().to_string());
        }
        line("Total transferred", format!("{} bytes", self.received()));
        if self.options.body.is_some() {
            line("Total body sent", t.bytes_sent.to_string());
        }
        line("HTML transferred", format!("{} bytes", t.bytes_body));
    }

    /// Replies after which the connection could be used again.
    pub(super) fn kept_alive(&self) -> u64 {
        // Replies after the time limit are seen, too.
        self.seen.kept_alive().min(self.done())
    }

    /// Bytes that arrived before the time limit.
    pub(super) fn received(&self) -> u64 {
        let t = &self.summary.main;
        t.bytes_received() - t.bytes_in_drain
    }

    /// Failed requests, by ab's definition.
    pub(super) fn failed(&self) -> u64 {
        self.summary.main.failed + self.other_lengths()
    }

    /// Replies with a status outside of 200 to 299.
    pub(super) fn other_statuses(&self) -> u64 {
        let t = &self.summary.main;
        t.statuses_inside(..200) + t.statuses_inside(300..)
    }

    /// Failed requests by ab's four names: connect, receive, length (a truncated body, or another
    /// length than the first), exceptions (the rest).
    pub(super) fn failures(&self) -> [u64; 4] {
        let mut kinds = [0, 0, self.other_lengths(), 0];
        for fault in Fault::ALL {
            let kind = match fault {
                Fault::ConnectTimeout => 0,
                Fault::Truncated | Fault::ShortBody => 2,
                _ => match fault.class() {
                    FaultClass::Connect => 0,
                    FaultClass::Connection => 1,
                    _ => 3,
                },
            };
            kinds[kind] += self.summary.main.fault(fault);
        }
        kinds
    }

    /// The rates; `None` if no request finished.
    pub(super) fn rates_of(&self) -> Option<Rates> {
        let (taken, done) = (self.taken(), self.done() as f64);
        let kbytes = |bytes: u64| bytes as f64 / 1024.0 / taken;
        let t = &self.summary.main;
        (taken > 0.0 && done > 0.0).then(|| Rates {
            requests: done / taken,
            received: kbytes(self.received()),
            sent: kbytes(t.bytes_sent),
        })
    }

    fn rates(&self, out: &mut String) {
        let Some(Rates { requests, received, sent }) = self.rates_of() else { return };
        let each = 1e3 / requests;
        let _ = write!(
            out,
            "Requests per second:    {requests:.2} [#/sec] (mean)\n\
             Time per request:       {:.3} [ms] (mean)\n\
             Time per request:       {each:.3} [ms] (mean, across all concurrent requests)\n\
             Transfer rate:          {received:.2} [Kbytes/sec] received\n",
            each * f64::from(self.options.concurrency),
        );
        if self.options.body.is_some() {
            let _ = writeln!(out, "                        {sent:.2} kb/s sent");
            let _ = writeln!(out, "                        {:.2} kb/s total", received + sent);
        }
    }

    fn times(&self, out: &mut String) {
        let kinds: [(&str, &str, Figures); 4] = [
            ("Connect:", "the initial connection time", self.figures(Row::connect)),
            ("Processing:", "the processing time", self.figures(Row::processing)),
            ("Waiting:", "the waiting time", self.figures(|r| r.wait)),
            ("Total:", "the total time", self.figures(Row::total)),
        ];
        out.push_str("\nConnection Times (ms)\n");
        if !self.options.confidence {
            out.push_str("              min   avg   max\n");
            for (name, _, f) in &kinds {
                let _ = writeln!(out, "{name:<12}{:>5} {:>5}{:>5}", f.min, f.mean, f.max);
            }
            return;
        }
        out.push_str("              min  mean[+/-sd] median   max\n");
        for (name, _, f) in &kinds {
            let _ = writeln!(
                out,
                "{name:<12}{:>5} {:>4} {:>5.1} {:>6} {:>7}",
                f.min, f.mean, f.stdev, f.median, f.max
            );
        }
        for (_, what, f) in &kinds {
            out.push_str(&f.warning(what));
        }
    }

    pub(super) fn figures(&self, of: impl Fn(&Row) -> u64) -> Figures {
        let mut all: Vec<u64> = self.rows.iter().map(of).collect();
        all.sort_unstable();
        Figures::of(&all)
    }

    fn percentiles(&self, out: &mut String) {
        out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
        for percent in PERCENTS {
            let n = self.rows.len() as u64;
            let (at, note) = match percent {
                100 => (n - 1, " (longest request)"),
                p => (n * p / 100, ""),
            };
            let _ = writeln!(out, "{percent:>4}%  {:>5}{note}", ms(self.rows[at as usize].total));
        }
    }

    /// The file of `-e`: the time within which each percentage of the requests was served.
    pub(super) fn csv(&self) -> String {
        let mut out = "Percentage served,Time in ms\n".to_owned();
        let last = self.rows.len().saturating_sub(1);
        for percent in 0..=100 {
            let at = (0.5 + self.rows.len() as f64 * f64::from(percent) / 100.0) as usize;
            let at = if percent == 0 { 0 } else { at.min(last) };
            let Some(row) = self.rows.get(at) else { break };
            let _ = writeln!(out, "{percent},{:.3}", row.total as f64 / 1e6);
        }
        out
    }

    /// The file of `-g`: every request, the fastest first; times of day in UTC.
    pub(super) fn gnuplot(&self) -> String {
        let mut out = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
        let begun = self.summary.run.started_unix.unwrap_or(0.0);
        for r in &self.rows {
            let seconds = (begun + r.start as f64 / 1e9) as u64;
            let _ = writeln!(
                out,
                "{}\t{seconds}\t{}\t{}\t{}\t{}",
                day_and_time(seconds),
                ms(r.connect),
                ms(r.processing()),
                ms(r.total),
                ms(r.wait)
            );
        }
        out
    }

    /// Remarks on what ab's lines omit or distort.
    pub(super) fn remarks(&self) -> Vec<String> {
        let t = &self.summary.main;
        let mut remarks = Vec::new();
        if self.options.concurrency > 1 {
            remarks.push(
                "\"Time per request (mean, across all concurrent requests)\" is one over the rate; \
                 no request took that time."
                    .into(),
            );
        }
        let reused = self.rows.iter().filter(|r| r.connect == 0).count();
        if self.options.keep_alive && reused > 0 && t.connected > 0 {
            remarks.push(format!(
                "The row \"Connect\" counts the {reused} requests on a connection that was open \
                 already as 0 ms; the row \"connect\" below is of the {} that were opened.",
                t.connected
            ));
        }
        let errors: u64 = t.statuses.range(400..).map(|(_, n)| n).sum();
        if errors > 0 {
            remarks.push(format!(
                "{errors} replies have a status of 400 or above; they are \"Complete\" and not \
                 \"Failed\", and their times are among the others."
            ));
        }
        if self.other_lengths() > 0 {
            remarks.push(format!(
                "The {} under \"Length\" are whole replies whose bodies are not as long as the \
                 first one's; -l lets them differ.",
                self.other_lengths()
            ));
        }
        remarks
    }
}

/// The rates per second.
pub(super) struct Rates {
    pub(super) requests: f64,
    /// In KiB.
    pub(super) received: f64,
    pub(super) sent: f64,
}

/// ab's figures of one kind of time, in milliseconds.
pub(super) struct Figures {
    pub(super) min: u64,
    pub(super) mean: u64,
    stdev: f64,
    median: u64,
    pub(super) max: u64,
}

impl Figures {
    /// From sorted times; there must be at least one.
    fn of(all: &[u64]) -> Self {
        let n = all.len();
        let mean = all.iter().map(|&t| t as f64).sum::<f64>() / n as f64;
        let squares: f64 = all.iter().map(|&t| (t as f64 - mean).powi(2)).sum();
        let stdev = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let median = if n > 1 && n.is_multiple_of(2) {
            u64::midpoint(all[n / 2 - 1], all[n / 2])
        } else {
            all[n / 2]
        };
        Self {
            min: ms(all[0]),
            mean: ms(mean as u64),
            stdev: stdev / 1e6,
            median: ms(median),
            max: ms(all[n - 1]),
        }
    }

    fn warning(&self, what: &str) -> String {
        let apart = self.mean.abs_diff(self.median) as f64;
        if apart > 2.0 * self.stdev {
            format!(
                "ERROR: The median and mean for {what} are more than twice the standard\n\
                 \x20      deviation apart. These results are NOT reliable.\n"
            )
        } else if apart > self.stdev {
            format!(
                "WARNING: The median and mean for {what} are not within a normal deviation\n\
                 \x20       These results are probably not that reliable.\n"
            )
        } else {
            String::new()
        }
    }
}

/// Nanoseconds to the nearest millisecond.
fn ms(ns: u64) -> u64 {
    (ns + 500_000) / 1_000_000
}

/// `Sun Nov 22 02:00:54 2026`, in UTC.
fn day_and_time(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut rest) = (1970, days);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        rest + 1,
        time / 3_600,
        time / 60 % 60,
        time % 60
    )
}

/// ab's message when it gives up: the sentence and the system's error number.
pub(super) fn last_words(fault: Fault) -> (&'static str, u32) {
    match fault {
        Fault::ConnectRefused => ("apr_socket_recv: Connection refused", 111),
        Fault::ConnectUnreachable => ("apr_socket_connect(): No route to host", 113),
        Fault::ConnectReset | Fault::Reset => ("apr_socket_recv: Connection reset by peer", 104),
        Fault::ConnectTimeout | Fault::RequestTimeout => {
            ("apr_pollset_poll: The timeout specified has expired", 70_007)
        }
        Fault::NoDescriptors => ("socket: Too many open files", 24),
        Fault::NoPorts | Fault::NoAddress => {
            ("apr_socket_connect(): Cannot assign requested address", 99)
        }
        Fault::NoBuffers => ("apr_socket_connect(): No buffer space available", 105),
        _ => ("apr_socket_connect(): Input/output error", 5),
    }
}

/// The number of requests between two lines of progress; `None`: there are none.
pub(super) fn heartbeat(options: &Options) -> Option<u64> {
    (options.progress && options.requests > 150).then(|| (options.requests / 10).max(100))
}

/// Whether the time limit ended the run.
pub(super) fn time_is_over(options: &Options, since: Span) -> bool {
    options.time_limit.is_some_and(|limit| since >= Span::from_secs(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        let cases = [
            (0, "Thu Jan 01 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_312_854, "Sun Nov 22 02:00:54 2026"),
            (4_107_542_399, "Sun Feb 28 23:59:59 2100"),
            (4_107_542_400, "Mon Mar 01 00:00:00 2100"),
        ];
        for (seconds, text) in cases {
            assert_eq!(day_and_time(seconds), text);
        }
    }

    #[test]
    fn figures_of_times() {
        let ms = |list: &[u64]| {
            let ns: Vec<u64> = list.iter().map(|t| t * 1_000_000).collect();
            let f = Figures::of(&ns);
            (f.min, f.mean, (f.stdev * 10.0).round() / 10.0, f.median, f.max)
        };
        assert_eq!(ms(&[7]), (7, 7, 0.0, 7, 7));
        assert_eq!(ms(&[1, 2, 3, 10]), (1, 4, 4.1, 3, 10));
        assert_eq!(ms(&[1, 2, 9]), (1, 4, 4.4, 2, 9));
        // Half a millisecond is rounded up, as in ab.
        assert_eq!(Figures::of(&[499_999, 500_000]).max, 1);
    }

    #[test]
    fn warnings() {
        let warning = |mean, median, stdev| {
            let f = Figures { min: 0, mean, stdev, median, max: 9 };
            f.warning("the total time").split(':').next().unwrap_or_default().to_owned()
        };
        assert_eq!(warning(5, 4, 1.0), "");
        assert_eq!(warning(5, 3, 1.0), "WARNING");
        assert_eq!(warning(3, 6, 1.4), "ERROR");
    }
}
