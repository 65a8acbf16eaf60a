//! Parses httperf's report strictly: every line and number, to the last blank.

use std::collections::BTreeMap;

/// The lines of a report, in order. `{name:u}` is a whole number, `{name:2}` a number with two
/// decimals.
const CLASSIC: [&str; 27] = [
    "",
    "Total: connections {connections:u} requests {requests:u} replies {replies:u} \
     test-duration {duration:3} s",
    "",
    "Connection rate: {conn_rate:1} conn/s ({conn_ms:1} ms/conn, \
     <={concurrent:u} concurrent connections)",
    "Connection time [ms]: min {life_min:1} avg {life_avg:1} max {life_max:1} \
     median {life_median:1} stddev {life_stddev:1}",
    "Connection time [ms]: connect {connect:1}",
    "Connection length [replies/conn]: {conn_length:3}",
    "",
    "Request rate: {req_rate:1} req/s ({req_ms:1} ms/req)",
    "Request size [B]: {req_size:1}",
    "",
    "Reply rate [replies/s]: min {rate_min:1} avg {rate_avg:1} max {rate_max:1} \
     stddev {rate_stddev:1} ({samples:u} samples)",
    "Reply time [ms]: response {response:1} transfer {transfer:1}",
    "Reply size [B]: header {header:1} content {content:1} footer {footer:1} \
     (total {reply_size:1})",
    "Reply status: 1xx={s1xx:u} 2xx={s2xx:u} 3xx={s3xx:u} 4xx={s4xx:u} 5xx={s5xx:u}",
    "",
    "CPU time [s]: user {cpu_user:2} system {cpu_system:2} (user {user_percent:1}% \
     system {system_percent:1}% total {cpu_percent:1}%)",
    "Net I/O: {net_kb:1} KB/s ({net_mbps:1}*10^6 bps)",
    "",
    "Errors: total {errors:u} client-timo {client_timo:u} socket-timo {socket_timo:u} \
     connrefused {connrefused:u} connreset {connreset:u}",
    "Errors: fd-unavail {fd_unavail:u} addrunavail {addrunavail:u} ftab-full {ftab_full:u} \
     other {other:u}",
    // Sessions only, from here on.
    "",
    "Session rate [sess/s]: min {sess_rate_min:2} avg {sess_rate_avg:2} max {sess_rate_max:2} \
     stddev {sess_rate_stddev:2} ({sess_good:u}/{sess_all:u})",
    "Session: avg {sess_connections:2} connections/session",
    "Session lifetime [s]: {sess_life:1}",
    "Session failtime [s]: {sess_fail:1}",
    "Session length histogram: {histogram:h}",
];
/// The number of lines for sessions.
const SESSION_LINES: usize = 6;
const BURST: &str = "Maximum connect burst length: {burst:u}";

/// The parsed standard output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printed {
    /// The first line.
    pub(crate) echo: String,
    /// The lines between the echo and the report.
    pub(crate) before: Vec<String>,
    /// The lines of `-vv`.
    pub(crate) lifetimes: Vec<String>,
    /// Every number of the report.
    pub(crate) values: BTreeMap<&'static str, f64>,
    /// Sessions by their replies, if there were sessions.
    pub(crate) histogram: Option<Vec<u64>>,
    /// The lines after the last classic one.
    pub(crate) after: Vec<String>,
}

impl Printed {
    /// Parse a complete standard output; the error has the malformed line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        let lines: Vec<&str> = text.lines().collect();
        let mut this = Self::default();
        let begin = lines.iter().position(|l| this.line(BURST, l).is_ok());
        let begin = begin.ok_or_else(|| format!("no line like `{BURST}`: {text}"))?;
        this.echo = (*lines.first().ok_or("no line")?).to_owned();
        this.before = lines[1..begin.max(1)].iter().map(|l| (*l).to_owned()).collect();
        let mut rest = &lines[begin + 1..];
        if rest.get(1).is_some_and(|l| l.starts_with("Connection lifetime histogram")) {
            let end = rest[1..].iter().position(|l| l.is_empty()).ok_or("a histogram's end")? + 1;
            this.lifetimes = rest[2..end].iter().map(|l| (*l).to_owned()).collect();
            rest = &rest[end..];
        }
        let all = CLASSIC.len() - SESSION_LINES;
        rest = this.lines(&CLASSIC[..all], rest)?;
        if rest.get(1).is_some_and(|l| l.starts_with("Session rate")) {
            rest = this.lines(&CLASSIC[all..], rest)?;
        }
        this.after = rest.iter().map(|l| (*l).to_owned()).collect();
        Ok(this)
    }

    /// A number of the report.
    pub(crate) fn get(&self, name: &str) -> f64 {
        *self.values.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    fn lines<'a, 'b>(
        &mut self,
        templates: &[&'static str],
        lines: &'a [&'b str],
    ) -> Result<&'a [&'b str], String> {
        for (i, template) in templates.iter().enumerate() {
            let line = lines.get(i).ok_or_else(|| format!("no line like `{template}`"))?;
            self.line(template, line)?;
        }
        Ok(&lines[templates.len()..])
    }

    /// Parse a line by its template.
    fn line(&mut self, template: &'static str, line: &str) -> Result<(), String> {
        let wrong = |why: &str| format!("`{line}` is not like `{template}`: {why}");
        let (mut left, mut line_left) = (template, line);
        while let Some((literal, more)) = left.split_once('{') {
            let (field, more) = more.split_once('}').ok_or("a template")?;
            let (name, form) = field.split_once(':').ok_or("a template")?;
            line_left = line_left.strip_prefix(literal).ok_or_else(|| wrong(literal))?;
            if form == "h" {
                let cells = line_left.split(' ').map(str::parse);
                self.histogram = Some(cells.collect::<Result<_, _>>().map_err(|_| wrong(name))?);
                return Ok(());
            }
            let end = line_left.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, rest) = line_left.split_at(end.unwrap_or(line_left.len()));
            let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
            if decimals != form.parse().unwrap_or(0) || number.starts_with('.') {
                return Err(wrong(name));
            }
            self.values.insert(name, number.parse().map_err(|_| wrong(name))?);
            (left, line_left) = (more, rest);
        }
        if left == line_left { Ok(()) } else { Err(wrong("its end")) }
    }
}

#[test]
fn parses_all_numbers_of_a_report() {
    let text = include_str!("sample.txt");
    let printed = Printed::parse(text).expect("a report");
    assert!(printed.echo.starts_with("httperf --client=0/1 --server=127.0.0.1"));
    assert_eq!(printed.values.len(), 59);
    assert_eq!((printed.get("requests"), printed.get("rate_stddev")), (12.0, 0.2));
    assert_eq!(printed.histogram, Some(vec![0, 0, 2]));
    assert_eq!(printed.after, ["", "more"]);
}

#[test]
fn rejects_reports_with_small_differences() {
    let text = include_str!("sample.txt");
    for (what, by) in [
        ("Request size [B]: 66.0", "Request size [B]: 66"),
        ("Request size [B]: 66.0", "Request size [B]: nan"),
        ("Request size [B]: 66.0", "Request size [B]: 66.0 "),
        ("Reply status: 1xx=0", "Reply status: 1xx=-1"),
        ("\nCPU time", "CPU time"),
        ("Session: avg 1.00", "Session: avg 1.0"),
        ("histogram: 0 0 2", "histogram: 0 0 2 "),
        ("burst length: 1\n", "burst length: 1 \n"),
        (" (1 samples)", " (1 sample)"),
        ("\nmore\n", "\nmore"),
    ] {
        assert!(text.contains(what), "{what}");
        assert!(Printed::parse(&text.replacen(what, by, 1)).is_err(), "{by}");
    }
}
