//! The formats of access logs: their names, and how one is recognized.

use crate::fields::{Edge, Fields, Role, Why};
use crate::format_error::FormatError;
use crate::json::Names;
use crate::pattern::{self, Pattern};
use crate::times::Times;
use crate::w3c::Columns;

/// The format of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Pattern(&'static str, Pattern),
    Json(&'static str, Names),
    W3c(Columns),
}

impl Format {
    /// A format by its name, or a format string of nginx or Apache.
    ///
    /// # Errors
    /// There is no such format, or requests cannot be made of it.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        Ok(Self(match text.trim() {
            "common" => Kind::Pattern("Common", pattern::common()),
            "combined" => Kind::Pattern("Combined", pattern::common()),
            "haproxy" => Kind::Pattern("HAProxy's httplog", pattern::haproxy()),
            "alb" => Kind::Pattern("AWS ALB", pattern::alb()),
            "elb" => Kind::Pattern("AWS classic ELB", pattern::elb()),
            "s3" => Kind::Pattern("Amazon S3", pattern::s3()),
            "w3c" | "cloudfront" => Kind::W3c(Columns::default()),
            "caddy" => Kind::Json("Caddy's JSON", Names::caddy()),
            "traefik" => Kind::Json("Traefik's JSON", Names::traefik()),
            "envoy" => Kind::Json("Envoy's JSON", Names::envoy()),
            "envoy-text" => Kind::Pattern("Envoy's text", pattern::envoy_text()),
            "json" => Kind::Json("JSON lines", Names::usual()),
            text if text.starts_with("json ") => {
                Kind::Json("JSON lines", Names::given(&text["json ".len()..])?)
            }
            text if text.starts_with("tomcat ") => {
                let format = pattern::tomcat(&text["tomcat ".len()..])?;
                Kind::Pattern("a pattern of Tomcat", format)
            }
            _ if text.contains('$') => Kind::Pattern("a format of nginx", pattern::nginx(text)?),
            _ if text.contains('%') => Kind::Pattern("a format of Apache", pattern::apache(text)?),
            _ => return Err(FormatError::Unknown(text.to_owned())),
        }))
    }

    /// The format in which most of the first lines can be read, if that is at least half of them.
    pub(crate) fn detect(beginning: &[u8]) -> Option<Self> {
        let mut best = (0, None);
        let lines = || {
            let whole = memchr::memrchr(b'\n', beginning).unwrap_or(beginning.len());
            let lines = beginning[..whole].split(|b| *b == b'\n').take(DETECT_LINES);
            lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|l| !l.is_empty())
        };
        // HAProxy's has so few fixed parts that it could read lines of Combined, with the name of
        // the browser as their request.
        let candidates = [
            "w3c",
            "alb",
            "elb",
            "s3",
            "combined",
            "haproxy",
            "envoy-text",
            "caddy",
            "traefik",
            "envoy",
            "json",
        ];
        for mut format in candidates.into_iter().flat_map(Self::parse) {
            let times = &mut Times::default();
            let worth = |line| match format.read(line, times) {
                Ok(Some(fields)) if fields.is_no_request => 1,
                Ok(Some(fields)) if !fields.aim.target.is_empty() => 2,
                // It is the format, and the user has to say more.
                Err(Why::NoUnit) => 2,
                _ => 0,
            };
            let worth: usize = lines().map(worth).sum();
            if worth > best.0 {
                best = (worth, Some(format));
            }
        }
        let comments = lines().filter(|line| line[0] == b'#').count();
        let (worth, format) = best;
        format.filter(|_| worth >= lines().count() - comments)
    }

    /// The parts of a line, or `None` if it is a comment.
    #[inline]
    pub(crate) fn read<'a>(
        &mut self,
        line: &'a [u8],
        times: &mut Times,
    ) -> Result<Option<Fields<'a>>, Why> {
        match &mut self.0 {
            Kind::Pattern(_, pattern) => pattern.read(line, times).map(Some),
            Kind::Json(_, names) => names.read(line, times).map(Some),
            Kind::W3c(columns) if line.first() == Some(&b'#') => {
                columns.directive(line);
                Ok(None)
            }
            Kind::W3c(columns) => columns.read(line, times).map(Some),
        }
    }

    /// Times whose unit the format does not say are in this unit, in nanoseconds. Returns whether
    /// there can be some.
    pub(crate) fn set_unit(&mut self, unit: i64) -> bool {
        match &mut self.0 {
            Kind::Pattern(_, pattern) => pattern.set_unit(unit),
            Kind::W3c(columns) => {
                columns.set_unit(unit);
                true
            }
            Kind::Json(..) => false,
        }
    }

    /// Which time of a line a request is sent at, as a sentence.
    pub fn times(&self) -> String {
        match &self.0 {
            Kind::Pattern("Common" | "Combined", _) => "requests are sent at the times of their \
                 lines, at which they started (Apache) or ended (nginx, Tomcat)"
                .to_owned(),
            Kind::Pattern(_, pattern) => {
                let (name, edge, took) = pattern.times();
                sentence(&name, edge, &took)
            }
            Kind::Json(_, names) => {
                let all: Vec<(Role, String)> = names.times().collect();
                let of = |wanted: Edge| {
                    let is_it = |role: Role| matches!(role, Role::Time(_, edge) if edge == wanted);
                    all.iter().find(|(role, _)| is_it(*role)).map(|(_, name)| (name, wanted))
                };
                let (name, edge) = of(Edge::Start).or_else(|| of(Edge::End)).unzip();
                let took = all.iter().filter(|(role, _)| role.is_took()).cloned();
                let took: Vec<(Role, String)> = took.collect();
                sentence(name.map_or("", |name| name), edge.unwrap_or_default(), &took)
            }
            Kind::W3c(_) => {
                let took = (Role::TookUnclear, "time-taken".to_owned());
                sentence("date and time", Edge::End, &[took])
            }
        }
    }

    /// Whether its lines have the key of a body.
    pub fn has_body_key(&self) -> bool {
        matches!(&self.0, Kind::Json(_, names) if names.has_body_key())
    }

    /// How to call it in a report.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            Kind::Pattern(name, _) | Kind::Json(name, _) => name,
            Kind::W3c(_) => "W3C extended",
        }
    }
}

/// Which time a request is sent at: that of its line, less how long it took if that is its end.
fn sentence(name: &str, edge: Edge, took: &[(Role, String)]) -> String {
    let names: Vec<&str> = took.iter().map(|(_, name)| name.as_str()).collect();
    match (edge, took.first()) {
        (Edge::Start, _) => format!("requests started at {name}"),
        (Edge::End, None) => format!(
            "{name} is when requests ended; they are sent then, as the format does not say how \
             long they took"
        ),
        (Edge::End, Some((Role::TookList(_), _))) => format!(
            "requests started at {name}, less the sum of {} (its upstreams only; $request_time \
             would be exact)",
            names.join(" + ")
        ),
        (Edge::End, Some((Role::TookPart(_), _))) => {
            format!("requests started at {name}, less {}", names.join(" + "))
        }
        (Edge::End, Some((_, took))) => format!("requests started at {name}, less {took}"),
    }
}

/// How many lines decide.
pub(crate) const DETECT_LINES: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_error::NAMES;

    #[test]
    fn recognizes_each_format() {
        for (text, name) in [
            (
                "#Version: 1.0\r\n#Fields: date time cs-uri-stem cs-method\r\n2019-12-04 21:02:31 /a GET\r\n",
                "W3C extended",
            ),
            ("a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2\nbad\n", "Combined"),
            (
                "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2 \"-\" \"Mozilla/5.0 (X11)\"\n",
                "Combined",
            ),
            (
                "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2 \"http://a/b\" \"curl 8\"\n",
                "Combined",
            ),
            (
                "1.2.3.4:5 [06/Feb/2009:12:14:14.655] h b/s 10/0/3/6/19 200 2 - - ---- 1/1/1/1/0 0/0 \"GET / HTTP/1.1\"\n",
                "HAProxy's httplog",
            ),
            (
                "http 2018-07-02T22:23:00.186641Z a 1.2.3.4:5 1.2.3.4:80 0.1 0.1 0.1 200 200 0 5 \"GET http://h:80/ HTTP/1.1\" \"c\" - -\n",
                "AWS ALB",
            ),
            (
                r#"{"ts":1646861401.5,"request":{"method":"GET","uri":"/"},"status":200}"#,
                "Caddy's JSON",
            ),
            (
                r#"{"start_time":"2020-11-25T21:26:18.409Z","method":"GET","path":"/"}"#,
                "Envoy's JSON",
            ),
            (
                r#"{"Duration":5,"RequestMethod":"GET","RequestPath":"/","StartUTC":"2020-11-25T21:26:18.4Z"}"#,
                "Traefik's JSON",
            ),
            (r#"{"time":1646861401.5,"path":"/"}"#, "JSON lines"),
            (
                "2015-05-13T23:39:43.945958Z lb 192.168.131.39:2817 10.0.0.1:80 0.1 0.1 0.1 200 200 0 29 \"GET http://h:80/ HTTP/1.1\" \"curl\" - -\n",
                "AWS classic ELB",
            ),
            (
                "7f bucket [06/Feb/2019:00:00:38 +0000] 192.0.2.3 7f 3E REST.GET.OBJECT a \"GET /a HTTP/1.1\" 200 - 113 - 7 - \"-\" \"S3\" -\n",
                "Amazon S3",
            ),
            (
                "[2020-11-25T21:26:18.409Z] \"GET / HTTP/1.1\" 200 - 0 5 3 1 \"-\" \"curl\" \"id\" \"h\" \"10.0.0.1:80\"\n",
                "Envoy's text",
            ),
            (
                "#Fields: date time cs-method cs-uri-stem time-taken\n2002-05-02 17:42:15 GET / 15\n",
                "W3C extended",
            ),
        ] {
            let format = Format::detect(text.as_bytes());
            assert_eq!(format.as_ref().map(Format::name), Some(name), "{text}");
        }
        for text in ["", "\n\n", "hello\nworld\n", "{}\n", "#\n"] {
            assert_eq!(Format::detect(text.as_bytes()), None, "{text}");
        }
    }

    /// Reports say which time it is.
    #[test]
    fn says_which_time_requests_are_sent_at() {
        for (format, times) in [
            ("combined", "started (Apache) or ended (nginx, Tomcat)"),
            ("$msec $request $request_time", "requests started at $msec, less $request_time"),
            ("$msec $request $upstream_response_time", "less the sum of $upstream_response_time"),
            ("$msec $request", "$msec is when requests ended; they are sent then"),
            ("%t %r %D", "requests started at %t"),
            ("tomcat %t %r %T", "requests started at %t, less %T"),
            ("caddy", "requests started at ts, less duration"),
            ("traefik", "requests started at StartUTC"),
            ("haproxy", "requests started at accept date"),
            ("alb", "requests started at request_creation_time"),
            ("w3c", "requests started at date and time, less time-taken"),
        ] {
            let said = Format::parse(format).expect("a format").times();
            assert!(said.contains(times), "{format}: {said}");
        }
    }

    #[test]
    fn names_of_formats() {
        for name in [
            "common",
            "combined",
            "haproxy",
            "alb",
            "elb",
            "s3",
            "cloudfront",
            "w3c",
            "caddy",
            "traefik",
            "envoy",
            "envoy-text",
            "json",
        ] {
            assert!(Format::parse(name).is_ok() && NAMES.contains(name), "{name}");
        }
        let refused = Format::parse("iis").expect_err("no such format").to_string();
        assert!(refused.starts_with("'iis' is not a format; give common, "), "{refused}");
    }
}
