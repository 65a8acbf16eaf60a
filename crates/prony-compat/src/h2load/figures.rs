//! h2load's figures of a run, by its definitions.

use prony_base::fault::Fault;
use prony_base::units::Nanos;
use prony_stats::summary::Summary;
use prony_tally::record::ClientTally;

use super::stats::Row;

/// The figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// The whole run, warm-up included, in seconds.
    pub(super) seconds: f64,
    pub(super) rate: f64,
    pub(super) bytes_per_second: u64,
    pub(super) total: u64,
    pub(super) started: u64,
    pub(super) done: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) errored: u64,
    pub(super) timeout: u64,
    /// Replies by hundreds of their status: 2xx to 5xx.
    pub(super) statuses: [u64; 4],
    pub(super) bytes: u64,
    pub(super) header_bytes: u64,
    /// The same after decompression.
    pub(super) field_bytes: u64,
    pub(super) data_bytes: u64,
    pub(super) request: Row,
    pub(super) connect: Vec<f64>,
    pub(super) first_byte: Vec<f64>,
    /// Requests per second of each client.
    pub(super) rates: Vec<f64>,
}

impl Figures {
    /// Of a run; `h1_fields` are the names and values of headers of HTTP/1.1, in bytes.
    pub(super) fn of(summary: &Summary, h1_fields: u64) -> Self {
        let t = &summary.main;
        let timed = summary.plan.stop.duration.is_some();
        let seconds = t.window().as_secs_f64();
        let statuses = [2, 3, 4, 5].map(|hundreds| {
            let all = t.statuses.range(hundreds * 100..hundreds * 100 + 100);
            all.map(|(_, n)| n).sum::<u64>()
        });
        let done = t.replies;
        let succeeded = statuses[0] + statuses[1];
        // Requests in flight at the end of the duration are in no figure.
        let total = match summary.plan.stop.requests {
            Some(n) if !timed => n,
            _ => done + t.failed,
        };
        let http2 = t.http2.as_deref();
        let (blocks, fields) = match http2 {
            // All connections fell back to HTTP/1.1: the heads, as nothing counted their fields.
            Some(counts) if counts.connections == 0 => (t.bytes_head, t.bytes_head),
            Some(counts) => (counts.received_blocks, counts.received_fields),
            None => (0, 0),
        };
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let clients = Clients { all: &t.clients, from: t.start, seconds: timed.then_some(seconds) };
        Self {
            seconds: seconds + summary.plan.warmup.as_secs_f64(),
            rate: per_second(done),
            bytes_per_second: per_second(t.bytes_received) as u64,
            total,
            started: t.sent,
            done,
            succeeded,
            failed: total.saturating_sub(succeeded),
            errored: total.saturating_sub(done),
            timeout: [Fault::RequestTimeout, Fault::FlowTimeout, Fault::ConnectTimeout]
                .map(|fault| t.fault(fault))
                .into_iter()
                .sum(),
            statuses,
            bytes: t.bytes_received,
            header_bytes: blocks + h1_fields,
            field_bytes: fields + h1_fields,
            data_bytes: t.bytes_body,
            request: Row::of_times(&t.times.service),
            connect: clients.times(|client| client.ready),
            first_byte: clients.times(|client| client.first_byte),
            rates: clients.rates(),
        }
    }

    /// The space that the compression of headers saves, in percent.
    pub(super) fn savings(&self) -> f64 {
        match self.field_bytes {
            0 => 0.0,
            all => (1.0 - self.header_bytes as f64 / all as f64) * 100.0,
        }
    }
}

/// The clients of a run.
struct Clients<'a> {
    all: &'a [ClientTally],
    /// The start of the measurement.
    from: Nanos,
    /// Its length, if the time ended it.
    seconds: Option<f64>,
}

impl Clients<'_> {
    /// Times since the start of the connect, of clients that connected in the measurement.
    fn times(&self, end: impl Fn(&ClientTally) -> Option<Nanos>) -> Vec<f64> {
        let time = |client: &ClientTally| {
            let began = client.began.filter(|&began| began >= self.from)?;
            Some(end(client)?.since(began).as_secs_f64())
        };
        self.all.iter().filter_map(time).collect()
    }

    /// Clients that gave up because of a timeout have no rate.
    fn rates(&self) -> Vec<f64> {
        let timed_out = |client: &&ClientTally| client.gave_up == Some(true);
        let rate = |client: &ClientTally| {
            let own = client.began.map_or(0.0, |began| client.last.since(began).as_secs_f64());
            let seconds = self.seconds.unwrap_or(own);
            if seconds > 0.0 { client.replies as f64 / seconds } else { 0.0 }
        };
        self.all.iter().filter(|client| !timed_out(client)).map(rate).collect()
    }
}
