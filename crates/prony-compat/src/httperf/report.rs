//! Renders the classic report, byte for byte, from its numbers.

use std::fmt::Write as _;

/// All numbers of the classic report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Numbers {
    pub(super) connect_burst: u64,
    /// Middle of a bin of 1 ms, in ms, and the connections in it; `None`: not printed.
    pub(super) lifetimes: Option<Vec<(f64, u64)>>,
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) replies: u64,
    /// In seconds.
    pub(super) duration: f64,
    pub(super) connection_rate: Rate,
    pub(super) concurrent: u64,
    /// In ms.
    pub(super) lifetime: Spread,
    /// In ms.
    pub(super) lifetime_median: f64,
    /// In ms.
    pub(super) connect: f64,
    /// Replies per connection.
    pub(super) connection_length: f64,
    pub(super) request_rate: Rate,
    /// In bytes.
    pub(super) request_size: f64,
    /// Per second.
    pub(super) reply_rate: Spread,
    pub(super) samples: u64,
    /// In ms.
    pub(super) response: f64,
    /// In ms.
    pub(super) transfer: f64,
    /// Header, content, footer and their sum, in bytes.
    pub(super) reply_size: [f64; 4],
    /// 1xx to 5xx.
    pub(super) statuses: [u64; 5],
    /// The number of replies with status 200, and with 302; `None`: not printed.
    pub(super) periodic: Option<(u64, u64)>,
    /// User and system, in seconds.
    pub(super) cpu: [f64; 2],
    /// User, system and both, in percent.
    pub(super) cpu_share: [f64; 3],
    /// KB/s, and Mbit/s.
    pub(super) net: [f64; 2],
    pub(super) errors: Errors,
    pub(super) sessions: Option<SessionNumbers>,
}

/// A rate, and the mean time between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    pub(super) ms: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) avg: f64,
    pub(super) max: f64,
    pub(super) stddev: f64,
}

/// The connections that ended in an error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Errors {
    pub(super) client_timo: u64,
    pub(super) socket_timo: u64,
    pub(super) connrefused: u64,
    pub(super) connreset: u64,
    pub(super) fd_unavail: u64,
    pub(super) addrunavail: u64,
    pub(super) ftab_full: u64,
    pub(super) other: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SessionNumbers {
    /// Completed sessions per second.
    pub(super) rate: Spread,
    pub(super) completed: u64,
    /// Completed and failed.
    pub(super) ended: u64,
    pub(super) connections: f64,
    /// In seconds.
    pub(super) lifetime: f64,
    /// In seconds.
    pub(super) failtime: f64,
    /// Sessions by the number of their replies, from 0.
    pub(super) lengths: Lengths,
}

/// The session length histogram.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lengths {
    /// One number for each length, from 0.
    Classic(Vec<u64>),
    /// (Length, sessions) for the lengths that occurred.
    Compact(Vec<(u64, u64)>),
}

impl Default for Lengths {
    fn default() -> Self {
        Self::Classic(vec![0])
    }
}

impl Errors {
    pub(super) fn total(&self) -> u64 {
        self.client_timo
            + self.socket_timo
            + self.connrefused
            + self.connreset
            + self.fd_unavail
            + self.addrunavail
            + self.ftab_full
            + self.other
    }
}

impl Numbers {
    /// The classic lines, each with its newline.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.connection_group(&mut out);
        let _ = self.request_and_reply_groups(&mut out);
        let _ = self.rest(&mut out);
        if let Some(sessions) = &self.sessions {
            let _ = sessions.render(&mut out);
        }
        out
    }

    fn connection_group(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Maximum connect burst length: {}", self.connect_burst)?;
        if let Some(bins) = &self.lifetimes {
            lifetime_histogram(bins, out)?;
        }
        writeln!(
            out,
            "\nTotal: connections {} requests {} replies {} test-duration {:.3} s",
            self.connections, self.requests, self.replies, self.duration
        )?;
        let Rate { per_second, ms } = self.connection_rate;
        writeln!(
            out,
            "\nConnection rate: {per_second:.1} conn/s ({ms:.1} ms/conn, <={} concurrent \
             connections)",
            self.concurrent
        )?;
        let Spread { min, avg, max, stddev } = self.lifetime;
        writeln!(
            out,
            "Connection time [ms]: min {min:.1} avg {avg:.1} max {max:.1} median {:.1} stddev \
             {stddev:.1}",
            self.lifetime_median
        )?;
        writeln!(out, "Connection time [ms]: connect {:.1}", self.connect)?;
        writeln!(out, "Connection length [replies/conn]: {:.3}", self.connection_length)
    }

    fn request_and_reply_groups(&self, out: &mut String) -> std::fmt::Result {
        let Rate { per_second, ms } = self.request_rate;
        writeln!(out, "\nRequest rate: {per_second:.1} req/s ({ms:.1} ms/req)")?;
        writeln!(out, "Request size [B]: {:.1}", self.request_size)?;
        let Spread { min, avg, max, stddev } = self.reply_rate;
        writeln!(
            out,
            "\nReply rate [replies/s]: min {min:.1} avg {avg:.1} max {max:.1} stddev {stddev:.1} \
             ({} samples)",
            self.samples
        )?;
        let (response, transfer) = (self.response, self.transfer);
        writeln!(out, "Reply time [ms]: response {response:.1} transfer {transfer:.1}")?;
        let [header, content, footer, total] = self.reply_size;
        writeln!(
            out,
            "Reply size [B]: header {header:.1} content {content:.1} footer {footer:.1} (total \
             {total:.1})"
        )?;
        let [s1, s2, s3, s4, s5] = self.statuses;
        writeln!(out, "Reply status: 1xx={s1} 2xx={s2} 3xx={s3} 4xx={s4} 5xx={s5}")
    }

    fn rest(&self, out: &mut String) -> std::fmt::Result {
        if let Some((ok, moved)) = self.periodic {
            writeln!(out, "\nPeriodic stats: 200={ok} 302={moved}")?;
        }
        let ([user, system], [u, s, both]) = (self.cpu, self.cpu_share);
        writeln!(
            out,
            "\nCPU time [s]: user {user:.2} system {system:.2} (user {u:.1}% system {s:.1}% total \
             {both:.1}%)"
        )?;
        writeln!(out, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)", self.net[0], self.net[1])?;
        let e = &self.errors;
        writeln!(
            out,
            "\nErrors: total {} client-timo {} socket-timo {} connrefused {} connreset {}",
            e.total(),
            e.client_timo,
            e.socket_timo,
            e.connrefused,
            e.connreset
        )?;
        writeln!(
            out,
            "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}",
            e.fd_unavail, e.addrunavail, e.ftab_full, e.other
        )
    }
}

impl SessionNumbers {
    fn render(&self, out: &mut String) -> std::fmt::Result {
        let Spread { min, avg, max, stddev } = self.rate;
        writeln!(
            out,
            "\nSession rate [sess/s]: min {min:.2} avg {avg:.2} max {max:.2} stddev {stddev:.2} \
             ({}/{})",
            self.completed, self.ended
        )?;
        writeln!(out, "Session: avg {:.2} connections/session", self.connections)?;
        writeln!(out, "Session lifetime [s]: {:.1}", self.lifetime)?;
        writeln!(out, "Session failtime [s]: {:.1}", self.failtime)?;
        out.push_str("Session length histogram:");
        match &self.lengths {
            Lengths::Classic(all) => all.iter().try_for_each(|n| write!(out, " {n}"))?,
            Lengths::Compact(all) => {
                all.iter().try_for_each(|(length, n)| write!(out, " {length}:{n}"))?;
            }
        }
        writeln!(out)
    }
}

fn lifetime_histogram(bins: &[(f64, u64)], out: &mut String) -> std::fmt::Result {
    writeln!(out, "\nConnection lifetime histogram (time in ms):")?;
    let mut next = 0.5;
    for &(middle, n) in bins {
        if middle > next {
            writeln!(out, "{:>14}", ":")?;
        }
        writeln!(out, "{middle:>16.1} {n}")?;
        next = middle + 1.0;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Read the numbers of a report, line by line.
    pub(in super::super) fn parse(report: &str) -> Numbers {
        let mut n = Numbers::default();
        for line in report.lines() {
            let v = figures(line);
            let spread = |v: &[f64]| Spread { min: v[0], avg: v[1], max: v[2], stddev: v[3] };
            if line.starts_with("Maximum") {
                n.connect_burst = v[0] as u64;
            } else if line.starts_with("Connection lifetime histogram") {
                n.lifetimes = Some(Vec::new());
            } else if line.starts_with(' ') && v.len() == 2 {
                n.lifetimes.as_mut().unwrap().push((v[0], v[1] as u64));
            } else if line.starts_with("Total:") {
                (n.connections, n.requests, n.replies) = (v[0] as u64, v[1] as u64, v[2] as u64);
                n.duration = v[3];
            } else if line.starts_with("Connection rate:") {
                n.connection_rate = Rate { per_second: v[0], ms: v[1] };
                n.concurrent = v[2] as u64;
            } else if line.starts_with("Connection time [ms]: min") {
                n.lifetime = Spread { min: v[0], avg: v[1], max: v[2], stddev: v[4] };
                n.lifetime_median = v[3];
            } else if line.starts_with("Connection time [ms]: connect") {
                n.connect = v[0];
            } else if line.starts_with("Connection length") {
                n.connection_length = v[0];
            } else if line.starts_with("Request rate:") {
                n.request_rate = Rate { per_second: v[0], ms: v[1] };
            } else if line.starts_with("Request size") {
                n.request_size = v[0];
            } else if line.starts_with("Reply rate") {
                (n.reply_rate, n.samples) = (spread(&v), v[4] as u64);
            } else if line.starts_with("Reply time") {
                (n.response, n.transfer) = (v[0], v[1]);
            } else if line.starts_with("Reply size") {
                n.reply_size.copy_from_slice(&v);
            } else if line.starts_with("Reply status") {
                n.statuses = [1, 3, 5, 7, 9].map(|i| v[i] as u64);
            } else if line.starts_with("Periodic stats") {
                n.periodic = Some((v[1] as u64, v[3] as u64));
            } else if line.starts_with("CPU time") {
                (n.cpu, n.cpu_share) = ([v[0], v[1]], [v[2], v[3], v[4]]);
            } else if line.starts_with("Net I/O") {
                n.net = [v[0], v[1]];
            } else {
                parse_end(line, &v, &mut n);
            }
        }
        n
    }

    fn parse_end(line: &str, v: &[f64], n: &mut Numbers) {
        let c = |i: usize| v[i] as u64;
        if line.starts_with("Errors: total") {
            (n.errors.client_timo, n.errors.socket_timo) = (c(1), c(2));
            (n.errors.connrefused, n.errors.connreset) = (c(3), c(4));
        } else if line.starts_with("Errors: fd-unavail") {
            (n.errors.fd_unavail, n.errors.addrunavail) = (c(0), c(1));
            (n.errors.ftab_full, n.errors.other) = (c(2), c(3));
        } else if line.starts_with("Session") {
            let s = n.sessions.get_or_insert_default();
            if line.starts_with("Session rate") {
                s.rate = Spread { min: v[0], avg: v[1], max: v[2], stddev: v[3] };
                (s.completed, s.ended) = (c(4), c(5));
            } else if line.starts_with("Session:") {
                s.connections = v[0];
            } else if line.starts_with("Session lifetime") {
                s.lifetime = v[0];
            } else if line.starts_with("Session failtime") {
                s.failtime = v[0];
            } else {
                s.lengths = Lengths::Classic(v.iter().map(|&x| x as u64).collect());
            }
        }
    }

    /// The numbers after the colon of a line, without units that contain digits.
    fn figures(line: &str) -> Vec<f64> {
        let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
        let line = line.replace("*10^6", "").replace(")", "").replace("%", "");
        let words = line.split(|c: char| " ,=/(<".contains(c));
        words.filter_map(|w| w.trim_end_matches("xx").parse().ok()).collect()
    }

    /// Real reports of httperf, each rendered from the numbers in it.
    #[test]
    fn recorded_reports_are_reproduced_byte_for_byte() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/httperf");
        let mut seen = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let Some(start) = text.find("Maximum connect burst length") else { continue };
            let report = &text[start..];
            let numbers = parse(report);
            assert_eq!(numbers.render(), report, "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 25, "{seen} recorded reports");
    }

    #[test]
    fn the_length_histogram_has_a_compact_form() {
        let lengths = Lengths::Compact(vec![(5, 1), (10_000, 2)]);
        let n = Numbers {
            sessions: Some(SessionNumbers { lengths, ..SessionNumbers::default() }),
            ..Numbers::default()
        };
        assert!(n.render().ends_with("\nSession length histogram: 5:1 10000:2\n"));
    }
}
