//! The histograms of response and service time as an HdrHistogram interval log (V2, tagged), in
//! nanoseconds. The warm-up has tags of its own.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};
use prony_base::plain;
use prony_stats::summary::Summary;
use prony_tally::record::Tally;

pub(super) fn render(summary: &Summary) -> Vec<u8> {
    let mut builder = IntervalLogWriterBuilder::new();
    let version = plain::line(&summary.run.version);
    builder
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("[Logged with prony {version}; values in nanoseconds]"))
        // The maximum column is in milliseconds, as in the logs of HdrHistogram's own writer.
        .with_max_value_divisor(1e6);
    let started = summary.run.started_unix.and_then(|s| Duration::try_from_secs_f64(s).ok());
    if let Some(since_1970) = started {
        let start = SystemTime::UNIX_EPOCH + since_1970;
        builder.with_start_time(start).with_base_time(start);
    }
    let (mut out, mut encoder) = (Vec::new(), V2DeflateSerializer::new());
    let mut log =
        builder.begin_log_with(&mut out, &mut encoder).expect("writing to memory does not fail");
    if let Some(warmup) = &summary.warmup {
        write(&mut log, warmup, ["warmup-response", "warmup-service"]);
    }
    write(&mut log, &summary.main, ["response", "service"]);
    out
}

fn write(
    log: &mut IntervalLogWriter<'_, '_, Vec<u8>, V2DeflateSerializer>,
    tally: &Tally,
    tags: [&str; 2],
) {
    let start = Duration::from_nanos(tally.start.0);
    let length = Duration::from_nanos(tally.window().0);
    for (tag, hist) in tags.into_iter().zip([&tally.times.response, &tally.times.service]) {
        log.write_histogram(&hist.to_hdr(), start, length, Tag::new(tag))
            .expect("writing to memory does not fail");
    }
}
