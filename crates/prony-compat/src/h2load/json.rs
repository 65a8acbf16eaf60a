//! The file of `--output-file`: h2load's figures and all samples, as JSON.

use prony_tally::record::Stamps;
use serde_json::{Value, json};

use super::figures::Figures;
use super::options::Edition;
use super::stats::Row;

/// The file's contents. `kept` are the timestamps of all replies.
pub(super) fn file(figures: &Figures, kept: &[Stamps]) -> String {
    let f = figures;
    let [ok, moved, client, server] = f.statuses;
    let requests = kept.iter().map(|stamps| stamps.service().as_secs_f64()).collect();
    json!({
        "version": "v1",
        "metadata": {"generator": format!("h2load {}", Edition::V1_70.name())},
        "measurements": {
            "duration": f.seconds,
            "request_per_second": f.rate,
            "bytes_per_second": f.bytes_per_second,
            "requests": {
                "total": f.total,
                "started": f.started,
                "done": f.done,
                "succeeded": f.succeeded,
                "failed": f.failed,
                "errored": f.errored,
                "timeout": f.timeout,
            },
            "status_codes": {"2xx": ok, "3xx": moved, "4xx": client, "5xx": server},
            "traffic": {
                "total": f.bytes,
                "headers": f.header_bytes,
                "headers_decompressed": f.field_bytes,
                "data": f.data_bytes,
            },
            "performance": {
                "request": row(requests),
                "connect": row(f.connect.clone()),
                "ttfb": row(f.first_byte.clone()),
                "request_per_second": row(f.rates.clone()),
            },
        },
    })
    .to_string()
}

fn row(mut samples: Vec<f64>) -> Value {
    samples.sort_by(f64::total_cmp);
    let row = Row::of(samples.clone());
    json!({
        "min": row.min,
        "max": row.max,
        "median": row.median,
        "p95": row.p95,
        "p99": row.p99,
        "mean": row.mean,
        "sd": row.sd,
        "within_sd": row.within,
        "samples": samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all values, with their kinds.
    fn shape(value: &Value, path: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, v)| shape(v, &format!("{path}/{name}"), out));
            }
            Value::Array(_) => out.push(format!("{path} list")),
            Value::String(text) => out.push(format!("{path} {text}")),
            Value::Number(_) => out.push(format!("{path} number")),
            other => out.push(format!("{path} {other}")),
        }
    }

    /// The expected file is one of h2load 1.70.
    #[test]
    fn has_the_same_values_as_h2load() {
        let of = |text: &str| {
            let mut out = Vec::new();
            shape(&serde_json::from_str(text).expect("JSON"), "", &mut out);
            out.sort();
            out
        };
        let theirs = include_str!("../../tests/data/h2load/1.70-output-file.json");
        assert_eq!(of(&file(&Figures::default(), &[])), of(theirs));
    }
}
