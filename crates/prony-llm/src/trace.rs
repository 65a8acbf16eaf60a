//! Traces: when requests arrived at a service, and how many tokens they and their replies had. CSV
//! with a header line, or JSON lines; the names of the columns are those of published traces.

use prony_base::units::Span;
use serde_json::Value;

use crate::Arrival;

/// Names of the time; in JSON lines `timestamp` is in milliseconds, all others are in seconds.
const TIME: [&str; 3] = ["timestamp", "time", "arrival_time"];
const INPUT: [&str; 5] =
    ["contexttokens", "request tokens", "input_tokens", "input_length", "num_prefill_tokens"];
const OUTPUT: [&str; 5] =
    ["generatedtokens", "response tokens", "output_tokens", "output_length", "num_decode_tokens"];

/// The requests of a trace in the order of their times, the first of which is 0.
///
/// # Errors
/// One sentence with the line.
pub fn read_trace(text: &str) -> Result<Vec<Arrival>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let rows: Vec<Row> = if text.trim_start().starts_with('{') {
        lines.map(|(i, line)| of_json(line).map_err(at(i))).collect::<Result<_, _>>()?
    } else {
        of_csv(lines)?
    };
    let first = rows.iter().map(|row| row.nanos).min().ok_or("has no request")?;
    let mut arrivals: Vec<Arrival> = rows
        .iter()
        .map(|row| Arrival {
            at: Span((row.nanos - first) as u64),
            input: row.input,
            output: row.output,
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    Ok(arrivals)
}

/// One line. The time is in nanoseconds from any start.
struct Row {
    nanos: i64,
    input: u32,
    output: u32,
}

fn at(line: usize) -> impl Fn(String) -> String {
    move |why| format!("line {}: {why}", line + 1)
}

fn tokens(n: Option<u64>, what: &str) -> Result<u32, String> {
    let n = n.and_then(|n| u32::try_from(n).ok());
    // A reply that failed has no token; its request is asked for one.
    n.map(|n| n.max(1)).ok_or_else(|| format!("has no number of {what} tokens"))
}

fn of_json(line: &str) -> Result<Row, String> {
    let value: Value = serde_json::from_str(line).map_err(|_| "is not JSON".to_owned())?;
    let find = |names: &[&str]| names.iter().find_map(|name| value.get(*name));
    let time = |name: &str| value.get(name).and_then(Value::as_f64);
    let seconds = time("timestamp")
        .map(|ms| ms / 1e3)
        .or_else(|| TIME[1..].iter().find_map(|name| time(name)))
        .filter(|s| (0.0..1e9).contains(s))
        .ok_or("has no time: write \"timestamp\" in milliseconds, or \"time\" in seconds")?;
    Ok(Row {
        nanos: (seconds * 1e9).round() as i64,
        input: tokens(find(&INPUT).and_then(Value::as_u64), "input")?,
        output: tokens(find(&OUTPUT).and_then(Value::as_u64), "output")?,
    })
}

fn of_csv<'a>(mut lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Row>, String> {
    let (_, header) = lines.next().ok_or("has no request")?;
    let names: Vec<String> = fields(header).map(str::to_ascii_lowercase).collect();
    let column = |known: &[&str], what: &str| {
        names
            .iter()
            .position(|name| known.contains(&name.as_str()))
            .ok_or_else(|| format!("line 1: no column has {what}; name one {}", known.join(", ")))
    };
    let columns = [
        column(&TIME, "the time")?,
        column(&INPUT, "the input tokens")?,
        column(&OUTPUT, "the output tokens")?,
    ];
    let row = |(i, line): (usize, &str)| {
        let cells: Vec<&str> = fields(line).collect();
        let cell = |k: usize| cells.get(columns[k]).copied().unwrap_or_default();
        let number = |k: usize| cell(k).parse::<f64>().ok().map(|n| n as u64);
        let time = nanos(cell(0)).ok_or_else(|| {
            format!("'{}' is not a time in seconds, or a date and a time", cell(0).escape_debug())
        });
        time.and_then(|nanos| {
            let (input, output) = (tokens(number(1), "input")?, tokens(number(2), "output")?);
            Ok(Row { nanos, input, output })
        })
        .map_err(at(i))
    };
    lines.map(row).collect()
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}

/// Seconds, or a date and a time: `2023-11-16 18:15:46.6805900`, with `T` or a zone if wanted.
fn nanos(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return (0.0..9e9).contains(&seconds).then(|| (seconds * 1e9).round() as i64);
    }
    let (date, clock) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = clock.find(['+', '-', 'Z']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone);
    let mut parts = clock.splitn(3, ':');
    let mut whole = || parts.next()?.parse::<i64>().ok();
    let (hour, minute) = (whole()?, whole()?);
    let second: f64 = parts.next()?.parse().ok()?;
    let is_date = (1970..2200).contains(&year) && (1..=12).contains(&month);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute);
    if !is_date || !(1..=31).contains(&day) || !is_time || !(0.0..61.0).contains(&second) {
        return None;
    }
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset(zone)?;
    Some(minutes * 60_000_000_000 + (second * 1e9).round() as i64)
}

/// The minutes by which a zone is before UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at(1);
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
    Some(if sign == "-" { -minutes } else { minutes })
}

/// The days from 1970 to a date of the Gregorian calendar: full years of 365 days, their leap days,
/// and the days of the months before, where years begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let since_march = (153 * m + 2) / 5 + day - 1;
    365 * y + y / 4 - y / 100 + y / 400 + since_march - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(u64, u32, u32)> {
        let arrivals = read_trace(text).expect(text);
        arrivals.iter().map(|a| (a.at.0 / 1_000, a.input, a.output)).collect()
    }

    #[test]
    fn published_traces_are_read() {
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
        assert_eq!(of(azure), [(0, 374, 44), (4_314_579, 396, 109)]);
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2024-05-10 00:00:00.009930+00:00,2162,5\n\
                     2024-05-09 23:59:59.009930-00:00,1,0\n";
        assert_eq!(of(azure), [(0, 1, 1), (1_000_000, 2162, 5)]);
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,API log\n";
        assert_eq!(of(burst), [(0, 472, 18), (40_000_000, 1087, 230)]);
        let lines = "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \
                     \"hash_ids\": [46]}\n{\"timestamp\": 30535, \"input_length\": 6472, \
                     \"output_length\": 26}\n";
        assert_eq!(of(lines), [(0, 6955, 52), (3_053_000, 6472, 26)]);
        assert_eq!(of("time,input_tokens,output_tokens\n0.5,7,8\n0.25,9,3\n").len(), 2);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (date, expected) in [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2024, 12, 31), 20_088),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days(date.0, date.1, date.2), expected, "{date:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        for (text, why) in [
            ("", "has no request"),
            ("a,b\n1,2", "line 1: no column has the time"),
            ("time,input_tokens\n1,2", "line 1: no column has the output tokens"),
            ("time,input_tokens,output_tokens\nx,2,3", "line 2: 'x' is not a time"),
            ("time,input_tokens,output_tokens\n1,x,3", "line 2: has no number of input tokens"),
            ("time,input_tokens,output_tokens\n1,3", "line 2: has no number of output tokens"),
            ("{\"timestamp\":1}", "line 1: has no number of input tokens"),
            ("{\"input_length\":1,\"output_length\":1}", "line 1: has no time"),
            ("{}\nx", "line 1: has no time"),
        ] {
            let error = read_trace(text).expect_err(text);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
