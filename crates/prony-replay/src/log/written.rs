//! Logs that are written here line by line, in the form and with the escapes of each server: what
//! is read is what was written.

use std::fmt::Write as _;

use prony_base::director::METHODS;
use prony_base::rng::{Sequence, Stream};

use super::Record;
use super::tests::read;
use crate::{Format, Options};

/// The lines of a log, without `SLOW=1` and with it.
const LINES: [u64; 2] = [300, 30_000];
/// The logs of each format.
const SEEDS: [u64; 2] = [3, 60];

const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;

/// A request, as it was sent.
#[derive(Clone, Debug)]
struct Sent {
    /// In nanoseconds since 1970, in whole steps of the format.
    at: i64,
    took: i64,
    method: u8,
    target: String,
    status: u16,
}

/// How a server writes its log.
struct Writer {
    /// `--log-format`.
    format: &'static str,
    /// Lines before those of requests.
    head: &'static str,
    /// The steps of times, and of durations.
    steps: (i64, i64),
    /// Characters that its targets do not have.
    without: &'static str,
    line: fn(&Sent) -> String,
}

fn method(sent: &Sent) -> &'static str {
    METHODS[usize::from(sent.method)]
}

/// Year, month and day, and the time of the day as `10:20:30`.
fn date(ns: i64) -> (i64, usize, i64, String) {
    let seconds = ns.div_euclid(SECOND);
    let (mut days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        (days, month) = (days - length, month + 1);
    }
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    (year, month, days + 1, time)
}

fn iso(ns: i64) -> String {
    let (year, month, day, time) = date(ns);
    let fraction = ns.rem_euclid(SECOND) / MILLI;
    format!("{year}-{:02}-{day:02}T{time}.{fraction:03}Z", month + 1)
}

fn common_date(ns: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, time) = date(ns);
    format!("{day:02}/{}/{year}:{time}", MONTHS[month])
}

/// With the characters that `is_escaped` names as `mark` and two digits.
fn escaped(text: &str, mark: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !is_escaped(c) {
            out.push(c);
            continue;
        }
        for byte in c.to_string().bytes() {
            let _ = write!(out, "{mark}{byte:02X}");
        }
    }
    out
}

fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out + "\""
}

const WRITERS: [Writer; 9] = [
    Writer {
        format: "[$msec] \"$request\" $status $request_time",
        head: "",
        steps: (MILLI, MILLI),
        without: "",
        line: |sent| {
            let (end, took) = (sent.at + sent.took, sent.took / MILLI);
            let target = escaped(&sent.target, "\\x", |c| c == '"' || c == '\\' || !c.is_ascii());
            format!(
                "[{}.{:03}] \"{} {target} HTTP/1.1\" {} {}.{:03}",
                end / SECOND,
                end % SECOND / MILLI,
                method(sent),
                sent.status,
                took / 1000,
                took % 1000
            )
        },
    },
    Writer {
        format: "%{usec}t %D \"%r\" %>s",
        head: "",
        steps: (1_000, 1_000),
        without: "",
        line: |sent| {
            let target = sent.target.replace('\\', "\\\\").replace('"', "\\\"");
            let target = escaped(&target, "\\x", |c| !c.is_ascii());
            format!(
                "{} {} \"{} {target} HTTP/1.1\" {}",
                sent.at / 1_000,
                sent.took / 1_000,
                method(sent),
                sent.status
            )
        },
    },
    Writer {
        format: "haproxy",
        head: "",
        steps: (MILLI, MILLI),
        without: "",
        line: |sent| {
            let target = escaped(&sent.target, "#", |c| c == '"' || c == '#' || !c.is_ascii());
            format!(
                "10.0.1.2:33317 [{}.{:03}] in be/s 0/0/0/0/{} {} 27 - - ---- 1/1/1/1/0 0/0 {{a|b}} \
                 \"{} {target} HTTP/1.1\"",
                common_date(sent.at),
                sent.at % SECOND / MILLI,
                sent.took / MILLI,
                sent.status,
                method(sent)
            )
        },
    },
    Writer {
        format: "caddy",
        head: "",
        steps: (1_000, 1_000),
        without: "",
        line: |sent| {
            let (end, took) = (sent.at + sent.took, sent.took);
            format!(
                "{{\"ts\":{}.{:06},\"request\":{{\"remote_ip\":\"::1\",\"method\":\"{}\",\"uri\":{},\
                 \"headers\":{{\"A\":[\"uri\"]}}}},\"duration\":{}.{:06},\"status\":{}}}",
                end / SECOND,
                end % SECOND / 1_000,
                method(sent),
                json(&sent.target),
                took / SECOND,
                took % SECOND / 1_000,
                sent.status
            )
        },
    },
    Writer {
        format: "traefik",
        head: "",
        steps: (MILLI, 1),
        without: "",
        line: |sent| {
            format!(
                "{{\"ClientHost\":\"::1\",\"DownstreamStatus\":{},\"Duration\":{},\"RequestMethod\":\
                 \"{}\",\"RequestPath\":{},\"StartUTC\":\"{}\",\"time\":\"{}\"}}",
                sent.status,
                sent.took,
                method(sent),
                json(&sent.target),
                iso(sent.at),
                iso(sent.at + SECOND)
            )
        },
    },
    Writer {
        format: "envoy",
        head: "",
        steps: (MILLI, MILLI),
        without: "",
        line: |sent| {
            format!(
                "{{\"method\":\"{}\",\"path\":{},\"response_code\":{},\"start_time\":\"{}\",\
                 \"duration\":{}}}",
                method(sent),
                json(&sent.target),
                sent.status,
                iso(sent.at),
                sent.took / MILLI
            )
        },
    },
    Writer {
        format: "envoy-text",
        head: "",
        steps: (MILLI, MILLI),
        // It escapes nothing.
        without: "\"",
        line: |sent| {
            format!(
                "[{}] \"{} {} HTTP/1.1\" {} - 0 154 {} 11 \"-\" \"a b\" \"-\" \"h\" \"10.0.0.1:80\"",
                iso(sent.at),
                method(sent),
                sent.target,
                sent.status,
                sent.took / MILLI
            )
        },
    },
    Writer {
        format: "alb",
        head: "",
        steps: (MILLI, MILLI),
        without: "",
        line: |sent| {
            let target = escaped(&sent.target, "\\x", |c| c == '"' || c == '\\' || !c.is_ascii());
            let took = sent.took / MILLI;
            format!(
                "http {} app/l/50 10.0.0.3:2817 10.0.0.1:80 0.000 {}.{:03} 0.000 {} 200 0 57 \
                 \"{} http://h:80{target} HTTP/1.1\" \"a\" - - arn:x \"Root=1\" \"-\" \"-\" 0 {} \
                 \"forward\"",
                iso(sent.at + sent.took),
                took / 1000,
                took % 1000,
                sent.status,
                method(sent),
                iso(sent.at)
            )
        },
    },
    Writer {
        format: "w3c",
        head: "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
               #Fields: date time cs-method cs-uri-stem sc-status time-taken\n",
        steps: (SECOND, SECOND),
        // Its path is decoded, and blanks are `+`.
        without: "+%?\"\\#|^`<>{}[] éü",
        line: |sent| {
            let (year, month, day, time) = date(sent.at + sent.took);
            format!(
                "{year}-{:02}-{day:02} {time} {} {} {} {}",
                month + 1,
                method(sent),
                sent.target,
                sent.status,
                sent.took / MILLI
            )
        },
    },
];

/// The requests of a log, in order.
fn requests(writer: &Writer, lines: u64, seed: u64) -> Vec<Sent> {
    const PIECES: [&str; 24] = [
        "a", "b0", "/", "//", ".", "-", "_", "~", "?", "&x=", "%20", "%25", "\"", "\\", "#", "|",
        "{", "}", "[", "]", "+", "é", "ü", "GET",
    ];
    let rng = &mut Sequence::new(seed, Stream::Serve);
    let (step, took_step) = writer.steps;
    let mut at = 1_700_000_000 * SECOND;
    let one = |_| {
        at += rng.below(40) as i64 * step;
        let mut target = String::from("/");
        for _ in 0..rng.below(12) {
            let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
            if !piece.contains(|c| writer.without.contains(c)) {
                target += piece;
            }
        }
        let took =
            rng.below(if took_step == SECOND { 5 } else { 900 * MILLI as u64 / took_step as u64 });
        let took = took as i64 * took_step;
        Sent {
            at,
            took,
            method: rng.below(METHODS.len() as u64) as u8,
            target,
            status: 200 + rng.below(300) as u16,
        }
    };
    (0..lines).map(one).collect()
}

#[test]
fn what_is_read_is_what_was_written() {
    let slow = usize::from(std::env::var_os("SLOW").is_some());
    for writer in WRITERS {
        let mut count = 0;
        for seed in 0..SEEDS[slow] {
            let mut sent = requests(&writer, LINES[slow], seed);
            // A log has the order of the ends.
            sent.sort_by_key(|sent| sent.at + sent.took);
            let lines: String = sent.iter().map(|sent| (writer.line)(sent) + "\n").collect();
            sent.sort_by_key(|sent| sent.at);
            let format = Format::parse(writer.format).expect("a format");
            let options = Options { format: Some(format), methods: 0x7f, ..Options::default() };
            let (records, facts) =
                read(&(writer.head.to_owned() + &lines), options).expect("a log");
            let what = writer.format;
            assert_eq!((facts.bad, facts.moved), (0, 0), "{what}, seed {seed}: {facts:?}");
            assert_eq!(records.len(), sent.len(), "{what}, seed {seed}");
            // Within a second, times are spread.
            let step = writer.steps.0;
            let key = |at: i64, method, target: &[u8], status, took| {
                (
                    at.div_euclid(step),
                    method,
                    String::from_utf8_lossy(target).into_owned(),
                    status,
                    took,
                )
            };
            let of_record = |r: &Record| key(r.at, r.method, &r.path, r.status, r.took);
            let of_sent = |s: &Sent| {
                let took = u64::try_from(s.took).expect("a duration");
                key(s.at, s.method, s.target.as_bytes(), Some(s.status), Some(took))
            };
            let mut read: Vec<_> = records.iter().map(of_record).collect();
            let mut written: Vec<_> = sent.iter().map(of_sent).collect();
            read.sort();
            written.sort();
            for (read, written) in read.iter().zip(&written) {
                assert_eq!(read, written, "{what}, seed {seed}");
            }
            count += sent.len();
        }
        println!("{}: {count} lines, all equal", writer.format);
    }
}
