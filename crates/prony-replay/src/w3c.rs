//! Logs in the W3C extended format, which name their fields: IIS, CloudFront, Tomcat.

use crate::escapes::Escapes;
use crate::fields::{Fields, Role, Why};
use crate::times::{self, SECOND, Times};

const MILLI: i64 = SECOND / 1000;
const HOUR: i64 = 3600 * SECOND;
const HALF_DAY: i64 = 12 * HOUR;

/// The fields of the lines that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    names: Vec<String>,
    roles: Vec<Role>,
    escapes: Escapes,
    /// The unit of `time-taken` that the user gives, in nanoseconds.
    given: Option<i64>,
    /// The unit that the software writes, as far as the lines before say which it is.
    unit: Option<i64>,
    /// The day of `#Date`, for lines that have a time only.
    day: Option<i64>,
    /// The latest time of a line on that day.
    last: i64,
    /// Lines have passed midnight since `#Date`.
    has_turned: bool,
    /// The fields have no date.
    lacks_date: bool,
    lacks_method: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            roles: Vec::new(),
            escapes: Escapes::None,
            given: None,
            unit: None,
            day: None,
            last: 0,
            has_turned: false,
            lacks_date: false,
            lacks_method: false,
        }
    }
}

impl Columns {
    /// `time-taken` is in this unit, in nanoseconds, whatever has written the log.
    pub(crate) fn set_unit(&mut self, unit: i64) {
        self.given = Some(unit);
        self.choose();
    }

    /// A line that begins with `#`. If it names the fields, they are those of the lines after it.
    pub(crate) fn directive(&mut self, line: &[u8]) {
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[1..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"Software") {
            // It may stand after the names.
            (self.unit, self.escapes) = written_by(value);
            self.choose();
        } else if name.eq_ignore_ascii_case(b"Date") {
            self.day = value.get(..10).and_then(times::date);
            let clock = value.get(10..).map(<[u8]>::trim_ascii);
            let clock = clock.and_then(|clock| times::time_of_day(0, clock));
            (self.last, self.has_turned) = (clock.map_or(0, |stamp| stamp.at), false);
        } else if name.eq_ignore_ascii_case(b"Fields") {
            let names = String::from_utf8_lossy(value);
            self.names = names.split_whitespace().map(str::to_owned).collect();
            self.choose();
        }
    }

    /// What each field is.
    fn choose(&mut self) {
        let has = |wanted: &str| self.names.iter().any(|name| name == wanted);
        // Names that only these write, if no line before says which software it is.
        let by_names = match () {
            () if has("x-edge-location") => Some(SECOND),
            () if has("sc-win32-status") || has("s-sitename") => Some(MILLI),
            () => None,
        };
        let unit = self.given.or(self.unit).or(by_names);
        let took = unit.map_or(Role::TookUnclear, Role::Took);
        // `cs-uri` has the query.
        let has_uri = has("cs-uri");
        let role = |name: &String| match name.as_str() {
            "date" => Role::Date,
            "time" => Role::TimeOfDay,
            "c-ip" => Role::Client,
            "cs-method" => Role::Method,
            "cs-uri" => Role::Target,
            "cs-uri-stem" if !has_uri => Role::Target,
            "cs-uri-query" if !has_uri => Role::Query,
            "sc-status" => Role::Status,
            "time-taken" => took,
            "cs(Cookie)" => Role::Cookie,
            _ => Role::Ignored,
        };
        let (lacks_date, lacks_method) = (!has("date"), !has("cs-method"));
        self.roles = self.names.iter().map(role).collect();
        (self.lacks_date, self.lacks_method) = (lacks_date, lacks_method);
    }

    pub(crate) fn read<'a>(
        &mut self,
        line: &'a [u8],
        times: &mut Times,
    ) -> Result<Fields<'a>, Why> {
        if self.roles.is_empty() {
            return Err(Why::NoNames);
        }
        if self.lacks_method {
            return Err(Why::NoMethod);
        }
        let mut fields = Fields::new(self.escapes);
        if self.lacks_date {
            fields.day = self.day;
        }
        // Tabs separate fields that may have blanks.
        let separator = if memchr::memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
        let (mut rest, last) = (line, self.roles.len() - 1);
        for i in 0..=last {
            let role = self.roles[i];
            let (text, len) = field(rest, separator)?;
            let is_end = len == rest.len();
            // Fewer or more fields than there are names: it is not known which is which.
            if is_end != (i == last) {
                return Err(Why::Form);
            }
            match role {
                Role::TimeOfDay if self.lacks_date => {
                    fields.day = Some(self.day_of(text)?);
                    fields.set(role, text, times)?;
                }
                Role::Client if text == b"-" => {}
                role => fields.set(role, text, times)?,
            }
            rest = rest.get(len + 1..).unwrap_or_default();
        }
        fields.finish()?;
        Ok(fields)
    }

    /// The day of a line that has a time only: that of `#Date`, or a later one if the clock has
    /// passed midnight since.
    fn day_of(&mut self, clock: &[u8]) -> Result<i64, Why> {
        let day = self.day.ok_or(Why::NoTime)?;
        let now = times::time_of_day(0, clock).ok_or(Why::BadTime)?.at;
        if now + HALF_DAY < self.last {
            (self.day, self.last, self.has_turned) = (Some(day + 1), now, true);
            return Ok(day + 1);
        }
        // Just after midnight, lines from just before it.
        if self.has_turned && now > 2 * HALF_DAY - HOUR && self.last < HOUR {
            return Ok(day - 1);
        }
        self.last = self.last.max(now);
        Ok(day)
    }
}

/// The field at the beginning of a line, and how long it is with its quotation marks.
fn field(rest: &[u8], separator: u8) -> Result<(&[u8], usize), Why> {
    if let Some(quoted) = rest.strip_prefix(b"\"") {
        // Two quotation marks are one in the text.
        let mut at = 0;
        while let Some(i) = memchr::memchr(b'"', &quoted[at..]) {
            at += i + 1;
            match quoted.get(at) {
                Some(b'"') => at += 1,
                Some(next) if *next != separator => break,
                _ => return Ok((&quoted[..at - 1], at + 1)),
            }
        }
    }
    let len = memchr::memchr(separator, rest).unwrap_or(rest.len());
    if len == 0 { Err(Why::Form) } else { Ok((&rest[..len], len)) }
}

/// The unit of `time-taken` of a software, and its escapes. The format itself has seconds; IIS has
/// milliseconds.
fn written_by(software: &[u8]) -> (Option<i64>, Escapes) {
    let has = |name: &[u8]| memchr::memmem::find(software, name).is_some();
    match () {
        () if has(b"Microsoft") => (Some(MILLI), Escapes::None),
        () if has(b"Apache Tomcat") => (Some(SECOND), Escapes::TomcatW3c),
        () => (None, Escapes::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &mut Columns, line: &str) -> Result<String, Why> {
        let fields = columns.read(line.as_bytes(), &mut Times::default())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} {} {} {}?{} {:?} {:?}",
            fields.time.map_or(0, |time| time.at / SECOND),
            text(fields.client),
            text(fields.method),
            text(fields.aim.target),
            text(fields.aim.query),
            fields.status,
            fields.took.map(|took| took / 1000),
        ))
    }

    fn directives(columns: &mut Columns, lines: &[&str]) {
        lines.iter().for_each(|line| columns.directive(line.as_bytes()));
    }

    const IIS: &str = "#Fields: date time c-ip cs-username s-ip s-port cs-method cs-uri-stem \
        cs-uri-query sc-status time-taken cs(User-Agent)";
    const LINE: &str = "2002-05-02 17:42:15 172.22.255.255 - 172.30.255.255 80 GET /a.jpg b=c 200 \
        15 Mozilla/4.0";

    #[test]
    fn iis_and_cloudfront() {
        let mut columns = Columns::default();
        assert_eq!(read(&mut columns, LINE), Err(Why::NoNames));
        let software = "#Software: Microsoft Internet Information Services 10.0";
        directives(&mut columns, &[software, "#Version: 1.0", IIS]);
        let expected = "1020361335 172.22.255.255 GET /a.jpg?b=c Some(200) Some(15000)";
        assert_eq!(read(&mut columns, LINE).as_deref(), Ok(expected));
        assert_eq!(read(&mut columns, "2002-05-02 17:42:15 172.22.255.255"), Err(Why::Form));
        assert_eq!(read(&mut columns, &format!("{LINE} (X11)")), Err(Why::Form));
        let line = "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td.net\t/i.html\t200\t-\t\
            M\t-\t-\t0.001";
        let mut columns_alone = Columns::default();
        let names = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
            cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) time-taken";
        directives(&mut columns_alone, &[names]);
        let expected = "1575493351 192.0.2.100 GET /i.html?- Some(200) Some(1000)";
        assert_eq!(read(&mut columns_alone, line).as_deref(), Ok(expected));
    }

    /// The format has seconds, IIS has milliseconds: who has written it decides, or the user.
    #[test]
    fn units_are_those_of_the_software() {
        let names = "#Fields: date time cs-method cs-uri-stem time-taken";
        let line = "2002-05-02 17:42:15 GET / 15";
        for (before, took) in [
            (&["#Software: Microsoft Internet Information Services 7.5"][..], "Some(15000)"),
            (&["#Software: Apache Tomcat/9.0.70"], "Some(15000000)"),
        ] {
            let mut columns = Columns::default();
            directives(&mut columns, &[before, &[names]].concat());
            let read = read(&mut columns, line).expect("a line");
            assert!(read.ends_with(took), "{read}");
        }
        for before in [&[][..], &["#Software: SGOS 6.7"]] {
            let mut columns = Columns::default();
            directives(&mut columns, &[before, &[names]].concat());
            assert_eq!(read(&mut columns, line), Err(Why::NoUnit));
            columns.set_unit(1000);
            directives(&mut columns, &[names]);
            assert!(read(&mut columns, line).is_ok_and(|read| read.ends_with("Some(15)")));
        }
    }

    #[test]
    fn fields_in_quotation_marks_may_have_blanks() {
        let mut columns = Columns::default();
        let tomcat =
            ["#Software: Apache Tomcat/10.1", "#Fields: date time cs-method cs(Agent) cs-uri"];
        directives(&mut columns, &tomcat);
        for (agent, is_read) in [
            ("\"Mozilla/5.0 (X11; \"\"Linux\"\")\"", true),
            ("\"\"", true),
            ("-", true),
            ("\"x", true),
            ("Mozilla/5.0 (X11)", false),
            ("", false),
        ] {
            let line = format!("2002-05-02 17:42:15 GET {agent} /a?b=c");
            let expected = "1020361335  GET /a?b=c? None None".to_owned();
            let expected = if is_read { Ok(expected) } else { Err(Why::Form) };
            assert_eq!(read(&mut columns, &line), expected, "{agent}");
        }
    }

    /// Logs of several days, and of servers that were set up anew, in one file.
    #[test]
    fn names_and_days_are_those_of_the_lines_before() {
        let mut columns = Columns::default();
        directives(&mut columns, &["#Date: 2002-05-02 23:59:58", "#Fields: time cs-method cs-uri"]);
        let at = |columns: &mut Columns, line: &str| {
            columns
                .read(line.as_bytes(), &mut Times::default())
                .map(|fields| fields.time.map(|time| time.at / SECOND - 1_020_384_000))
        };
        assert_eq!(at(&mut columns, "23:59:59 GET /"), Ok(Some(-1)));
        assert_eq!(at(&mut columns, "00:00:01 GET /"), Ok(Some(1)));
        assert_eq!(at(&mut columns, "23:59:59 GET /"), Ok(Some(-1)));
        assert_eq!(at(&mut columns, "00:00:02 GET /"), Ok(Some(2)));
        directives(&mut columns, &["#Date: 2002-05-04 00:00:00", "#Fields: cs-uri time cs-method"]);
        assert_eq!(at(&mut columns, "/ 13:00:00 GET"), Ok(Some(86_400 + 46_800)));
        let mut columns = Columns::default();
        directives(&mut columns, &["#Fields: time cs-method cs-uri-stem"]);
        assert_eq!(at(&mut columns, "17:42:15 GET /"), Err(Why::NoTime));
        directives(&mut columns, &["#Fields: date time cs-uri-stem"]);
        assert_eq!(at(&mut columns, "2002-05-02 17:42:15 /"), Err(Why::NoMethod));
    }
}
