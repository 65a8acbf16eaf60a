//! Lines whose parts are separated by fixed texts: the format strings of nginx and Apache, and the
//! formats that have no string of their own.

use crate::fields::{Fields, Role, Why};
use crate::format_error::FormatError;
use crate::times::{SECOND, Times};

mod apache;
mod nginx;

pub(crate) use apache::compile as apache;
pub(crate) use nginx::compile as nginx;

const MILLI: i64 = 1_000_000;
const MICRO: i64 = 1000;

/// A compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The text before the first part.
    begin: Vec<u8>,
    parts: Vec<Part>,
    /// A text that ends what may be before the line, such as the header of syslog.
    after: Option<&'static [u8]>,
    /// The time of a line is that at which its request ended.
    pub(crate) ends: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    role: Role,
    /// The text after it; the end of the line if that is empty.
    until: Vec<u8>,
    /// It is in quotation marks, before which a backslash stands in its text.
    is_quoted: bool,
}

/// A piece of a format string.
enum Piece {
    Text(Vec<u8>),
    /// A part, and its name in the string.
    Part(Role, String),
}

impl Pattern {
    /// Pieces in their order.
    fn new(pieces: Vec<Piece>, ends: bool) -> Result<Self, FormatError> {
        let mut begin = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut last_name = String::new();
        for piece in pieces {
            match (piece, parts.last_mut()) {
                (Piece::Text(text), None) => begin.extend(text),
                (Piece::Text(text), Some(part)) => part.until.extend(text),
                (Piece::Part(role, name), last) => {
                    if last.is_some_and(|part| part.until.is_empty()) {
                        return Err(FormatError::Adjacent(last_name, name));
                    }
                    parts.push(Part { role, until: Vec::new(), is_quoted: false });
                    last_name = name;
                }
            }
        }
        let mut before: &[u8] = &begin;
        for part in &mut parts {
            part.is_quoted = before.ends_with(b"\"") && part.until.starts_with(b"\"");
            before = &part.until;
        }
        let mut pattern = Self { begin, parts, after: None, ends };
        pattern.prefer_request();
        // What is after the last part of use is not read.
        while pattern.parts.last().is_some_and(|part| part.role == Role::Ignored) {
            pattern.parts.pop();
        }
        pattern.check()
    }

    /// If a line has the request as it was sent, the parsed parts are not needed.
    fn prefer_request(&mut self) {
        let has = |role| self.parts.iter().any(|part| part.role == role);
        if has(Role::Request) {
            for part in &mut self.parts {
                if matches!(part.role, Role::Method | Role::Target | Role::Query) {
                    part.role = Role::Ignored;
                }
            }
        }
    }

    fn check(self) -> Result<Self, FormatError> {
        let has = |is: fn(Role) -> bool| self.parts.iter().any(|part| is(part.role));
        if !has(Role::is_time) {
            return Err(FormatError::NoTime);
        }
        if !has(|role| matches!(role, Role::Request | Role::Target)) {
            return Err(FormatError::NoPath);
        }
        Ok(self)
    }

    /// AWS's load balancers of applications.
    pub(crate) fn alb() -> Self {
        let mut pieces = Vec::new();
        for role in [
            Role::Ignored,
            Role::IsoTime,
            Role::Ignored,
            Role::ClientPort,
            Role::Ignored,
            Role::TookPart(SECOND),
            Role::TookPart(SECOND),
            Role::TookPart(SECOND),
            Role::Status,
            Role::Ignored,
            Role::Ignored,
            Role::Ignored,
        ] {
            pieces.push(Piece::Part(role, String::new()));
            pieces.push(Piece::Text(b" ".to_vec()));
        }
        pieces.push(Piece::Text(b"\"".to_vec()));
        pieces.push(Piece::Part(Role::Request, String::new()));
        pieces.push(Piece::Text(b"\"".to_vec()));
        Self::new(pieces, true).expect("it has a time and a request")
    }

    /// HAProxy's `option httplog`.
    pub(crate) fn haproxy() -> Self {
        let pieces = [
            (Role::ClientPort, " ["),
            (Role::ClfTime, "] "),
            (Role::Ignored, " "),
            (Role::Ignored, " "),
            (Role::Timers(MILLI), " "),
            (Role::Status, " "),
            (Role::Ignored, " "),
            (Role::Ignored, " \""),
            (Role::Request, "\""),
        ];
        let mut all = Vec::new();
        for (role, until) in pieces {
            all.push(Piece::Part(role, String::new()));
            all.push(Piece::Text(until.into()));
        }
        let pattern = Self::new(all, false).expect("it has a time and a request");
        Self { after: Some(b"]: "), ..pattern }
    }

    /// Common and Combined; they are equal in what is of use.
    pub(crate) fn common() -> Self {
        apache("%h %l %u %t \"%r\" %>s %b").expect("it has a time and a request")
    }

    pub(crate) fn read<'a>(&self, line: &'a [u8], times: &mut Times) -> Result<Fields<'a>, Why> {
        let line = match self.after {
            Some(after) => memchr::memmem::find(&line[..line.len().min(256)], after)
                .map_or(line, |i| &line[i + after.len()..]),
            None => line,
        };
        let mut rest = line.strip_prefix(&self.begin[..]).ok_or(Why::Form)?;
        let mut fields = Fields::default();
        for part in &self.parts {
            let end = part.end(rest).ok_or(Why::Form)?;
            fields.set(part.role, &rest[..end], times)?;
            rest = &rest[end + part.until.len()..];
        }
        fields.finish()?;
        Ok(fields)
    }
}

impl Part {
    /// Where the part at the beginning of `text` ends.
    #[inline]
    fn end(&self, text: &[u8]) -> Option<usize> {
        let Some((&first, others)) = self.until.split_first() else { return Some(text.len()) };
        let mut from = 0;
        loop {
            let at = from + memchr::memchr(first, &text[from..])?;
            from = at + 1;
            if self.is_quoted {
                let escapes = text[..at].iter().rev().take_while(|b| **b == b'\\').count();
                if escapes % 2 == 1 {
                    continue;
                }
            }
            if text[from..].starts_with(others) {
                return Some(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &Pattern, line: &str) -> Result<String, Why> {
        let fields = pattern.read(line.as_bytes(), &mut Times::default())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} {} {} {:?} {:?}",
            text(fields.client),
            text(fields.method),
            text(fields.target),
            fields.status,
            fields.took.map(|took| took / 1000),
        ))
    }

    #[test]
    fn common_and_combined() {
        let lines = [
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#,
            r#"127.0.0.1 - a b [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2 "-" "x \" y""#,
        ];
        for line in lines {
            let fields = read(&Pattern::common(), line);
            assert_eq!(fields.as_deref(), Ok("127.0.0.1 GET /a.gif Some(200) None"));
        }
        let quoted = r#"::1 - - [10/Oct/2000:13:55:36 +0000] "GET /\"a\\ HTTP/1.0" 404 -"#;
        let fields = read(&Pattern::common(), quoted);
        assert_eq!(fields.as_deref(), Ok(r#"::1 GET /\"a\\ Some(404) None"#));
        for line in ["", "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP", "x"] {
            assert_eq!(read(&Pattern::common(), line), Err(Why::Form));
        }
        let late = r#"a - - [yesterday] "GET / HTTP/1.0" 200 1"#;
        assert_eq!(read(&Pattern::common(), late), Err(Why::BadTime));
    }

    #[test]
    fn alb() {
        let line = "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 \
            192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 \
            \"GET https://www.example.com:443/a?b=c HTTP/1.1\" \"curl/7.46.0\" - -";
        let target = "192.168.131.39 GET https://www.example.com:443/a?b=c Some(200) Some(171000)";
        assert_eq!(read(&Pattern::alb(), line).as_deref(), Ok(target));
        let lost = line.replace("0.086 0.048 0.037 200", "-1 -1 -1 502");
        let target = "192.168.131.39 GET https://www.example.com:443/a?b=c Some(502) None";
        assert_eq!(read(&Pattern::alb(), &lost).as_deref(), Ok(target));
    }

    #[test]
    fn haproxy_with_and_without_syslog() {
        let line = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 \
            200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET /index.html HTTP/1.1\"";
        let expected = "10.0.1.2 GET /index.html Some(200) Some(109000)";
        let syslog = format!("Feb  6 12:14:14 localhost haproxy[14389]: {line}");
        for line in [line, &syslog] {
            assert_eq!(read(&Pattern::haproxy(), line).as_deref(), Ok(expected));
        }
        let aborted = line.replace("10/0/30/69/109", "10/-1/-1/-1/+5");
        let expected = "10.0.1.2 GET /index.html Some(200) None";
        assert_eq!(read(&Pattern::haproxy(), &aborted).as_deref(), Ok(expected));
    }

    #[test]
    fn formats_of_nginx() {
        let main = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
            $body_bytes_sent \"$http_referer\" \"$http_user_agent\" rt=$request_time u=\"$uri\"";
        let pattern = nginx(main).expect("a format");
        assert!(pattern.ends);
        let line = r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET /a%20b?c HTTP/1.1" 200 5 "-" "x" rt=0.012 u="/a b""#;
        assert_eq!(
            read(&pattern, line).as_deref(),
            Ok("1.2.3.4 GET /a%20b?c Some(200) Some(12000)")
        );
        let json = r#"{"t":$msec,"m":"$request_method","u":"${request_uri}","s":$status}"#;
        let line = r#"{"t":1700000000.123,"m":"GET","u":"/\"","s":200}"#;
        let read = read(&nginx(json).expect("a format"), line);
        assert_eq!(read.as_deref(), Ok(r#" GET /\" Some(200) None"#));
        for (format, error) in [
            ("$request", FormatError::NoTime),
            ("$msec", FormatError::NoPath),
            ("$msec$request", FormatError::Adjacent("$msec".into(), "$request".into())),
            ("$msec $ $request", FormatError::NoName),
        ] {
            assert_eq!(nginx(format), Err(error));
        }
    }

    #[test]
    fn formats_of_apache() {
        let format = r#"%{c}a %l %u %t \"%r\" %>s %O \"%{Referer}i\" %D"#;
        let line = r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 5 "-" 1500"#;
        let expected = "1.2.3.4 GET /a Some(200) Some(1500)";
        assert_eq!(read(&apache(format).expect("a format"), line).as_deref(), Ok(expected));
        let format = "%a\t%{sec}t.%{usec_frac}t\t%m\t%U%q\t%!200,304s\t%{ms}T";
        let pattern = apache(format).expect("a format");
        let line = "1.2.3.4\t1700000000.000123\tGET\t/a?b\t404\t3";
        assert_eq!(read(&pattern, line).as_deref(), Ok("1.2.3.4 GET /a?b Some(404) Some(3000)"));
        let fields = pattern.read(line.as_bytes(), &mut Times::default()).expect("fields");
        let time = fields.time.expect("a time");
        assert_eq!((time.at, time.step), (1_700_000_000_000_123_000, 1000));
        assert_eq!(apache("%{%H}t %r"), Err(FormatError::TimeForm("%H".into())));
        assert_eq!(apache("%t %r %"), Err(FormatError::NoName));
        assert!(apache("%{end:msec}t %r").expect("a format").ends);
    }
}
