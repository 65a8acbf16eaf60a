//! The percentile distribution of the response time in the text format of the HdrHistogram tools
//! and plotters, in milliseconds.

use std::fmt::Write as _;

use prony_stats::summary::Summary;

/// Lines per halving of the distance to 100 %, as in the HdrHistogram tools.
const TICKS: u32 = 5;

pub(super) fn render(summary: &Summary) -> String {
    let hist = &summary.main.times.response;
    let bins = hist.to_hdr();
    let max = hist.max().map_or(0, |t| t.0);
    let ms = |ns: f64| ns / 1e6;
    let mut out = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n".to_owned();
    let mut total = 0;
    for step in bins.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let value = ms(step.value_iterated_to().min(max) as f64);
        let quantile = step.quantile_iterated_to();
        let _ = write!(out, "{value:12.3} {quantile:2.12} {total:10}");
        let _ = if quantile < 1.0 {
            writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile))
        } else {
            writeln!(out)
        };
    }
    let (mean, stdev) = (hist.mean_ns().unwrap_or(0.0), hist.stdev_ns().unwrap_or(0.0));
    let _ = writeln!(out, "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]", ms(mean), ms(stdev));
    let _ =
        writeln!(out, "#[Max     = {:12.3}, Total count    = {:12}]", ms(max as f64), hist.count());
    let _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", bins.buckets(), 2_048);
    out
}
