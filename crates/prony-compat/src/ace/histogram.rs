//! The histogram of the ACE tests, byte for byte. All times are in microseconds.

use std::fmt::Write as _;

use prony_tally::record::bins::Bins;

use crate::printf::general;

/// The header fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// Bytes of one message, without its length prefix.
    pub message_size: u64,
    /// Whether to print skew and kurtosis, which is version 1.3 of the format. The old programs
    /// never do.
    pub shape: bool,
    /// More fields of the header, in order.
    pub fields: Vec<(String, String)>,
}

/// The complete text.
pub(crate) fn render(bins: &Bins, frame: &Frame) -> String {
    let title = format!(
        "ACE Unmarshalled Msg Synchronous Latency Test\n\
         \t\t\t\t\t(Message Size {}, Message Type octet)",
        frame.message_size
    );
    let mut out = format!("\n\n\t\t\t\tHistogram {title}");
    if bins.count() == 0 {
        out.push_str(" is empty\n\n");
        return out;
    }
    out.push('\n');
    header(&mut out, bins, frame);
    rows(&mut out, bins);
    if !bins.outliers().is_empty() {
        out.push_str("outliers:\n");
        for v in bins.outliers() {
            writeln!(out, "\t{v:12.3}").expect("a string takes all");
        }
    }
    out.push_str("\n\n");
    out
}

fn header(out: &mut String, bins: &Bins, frame: &Frame) {
    let mut field = |name: &str, value: &str| {
        writeln!(out, "{name}: {value}").expect("a string takes all");
    };
    field("version", if frame.shape { "1.3" } else { "1.1" });
    field("minimum", &general(bins.min()));
    field("maximum", &general(bins.max()));
    field("mean", &general(bins.mean()));
    field("variance", &variance(bins));
    if frame.shape {
        let shape = bins.shape();
        field("skew", &general(shape.skew));
        field("kurtosis", &general(shape.kurtosis));
    }
    field("num_points", &bins.count().to_string());
    let (first, last) = (general(bins.first()), general(bins.last()));
    field("num_bins", &format!("{} {first} {last}", bins.bins().len()));
    for (name, value) in &frame.fields {
        field(name, value);
    }
    out.push('\n');
}

/// With a single value, the old programs print `-nan`, the result of 0/0 on their machines; its
/// sign depends on the machine.
fn variance(bins: &Bins) -> String {
    let variance = bins.variance();
    if variance.is_nan() { "-nan".into() } else { general(variance) }
}

fn rows(out: &mut String, bins: &Bins) {
    let n = bins.count() as f64;
    let mut so_far = 0;
    let mut counts = |count: u64| {
        so_far += count;
        // The share is rounded, the sum is truncated: a row can have 0.286 and 0.285.
        let cumulative = (1000.0 * so_far as f64 / n).floor() / 1000.0;
        format!("{count:5}    {:.3}    {cumulative:.3}\n", count as f64 / n)
    };
    out.push_str("\t      Low     -          High     Count  Fraction  Cumulative\n");
    let (first, last) = (bins.first(), bins.last());
    let row = counts(bins.below());
    write!(out, "\t     below    -  {first:12.3}  :  {row}").expect("a string takes all");
    let width = (last - first) / bins.bins().len() as f64;
    let mut low = first;
    for (i, &count) in bins.bins().iter().enumerate() {
        let high = (i + 1) as f64 * width + first;
        let row = counts(count);
        write!(out, "\t{low:12.3}  -  {high:12.3}  :  {row}").expect("a string takes all");
        low = high;
    }
    let row = counts(bins.above());
    writeln!(out, "\t{last:12.3}  -       above    :  {row}").expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::{Bins, Frame, render};

    macro_rules! real {
        ($name:literal) => {
            (
                include_str!(concat!("../../tests/data/ace/", $name, ".args")),
                include_str!(concat!("../../tests/data/ace/", $name, ".values")),
                include_str!(concat!("../../tests/data/ace/", $name, ".out")),
            )
        };
    }

    /// Histograms that the original code printed for known values: parameters, values, text.
    const REAL: [(&str, &str, &str); 12] = [
        real!("01-empty"),
        real!("02-single"),
        real!("03-edges"),
        real!("04-outlier-cap"),
        real!("05-thirds"),
        real!("06-readme-shape"),
        real!("07-min-equals-max"),
        real!("08-fraction-range"),
        real!("09-large-count"),
        real!("10-skew-fields"),
        real!("11-cumulative-floor"),
        real!("12-tiny-and-huge"),
    ];

    #[test]
    fn text_equals_that_of_the_original_code() {
        for (args, values, text) in REAL {
            let words: Vec<&str> =
                args.lines().nth(1).expect("parameters").split_whitespace().collect();
            let number = |i: usize| words[i].parse::<f64>().expect("a number");
            let mut bins = Bins::new(number(0) as usize, number(1), number(2), number(3) as usize);
            for line in values.lines() {
                match line.split_once(" repeated ") {
                    Some((v, times)) => {
                        let times = times.trim_end_matches(" times").parse().expect("a count");
                        for _ in 0..times {
                            bins.record(v.parse().expect("a value"));
                        }
                    }
                    None => bins.record(line.parse().expect("a value")),
                }
            }
            let fields = words[5..].iter().filter_map(|w| w.split_once('='));
            let frame = Frame {
                message_size: 128,
                shape: words[4] == "1",
                fields: fields.map(|(k, v)| (k.into(), v.into())).collect(),
            };
            assert_eq!(render(&bins, &frame), text, "{args}");
        }
    }
}
