//! Logs in the W3C extended format, which name their fields: IIS, CloudFront.

use crate::fields::{Fields, Role, Why};
use crate::times::{SECOND, Times};

/// The fields of the lines that follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    roles: Vec<Role>,
}

impl Columns {
    /// A line that begins with `#`. If it names the fields, they are those of the lines after it.
    pub(crate) fn directive(&mut self, line: &[u8]) {
        let Some(names) = line.strip_prefix(b"#Fields:") else { return };
        let names = String::from_utf8_lossy(names);
        let is_cloudfront = names.split_whitespace().any(|name| name == "x-edge-location");
        let took = if is_cloudfront { SECOND } else { SECOND / 1000 };
        self.roles = names.split_whitespace().map(|name| role(name, took)).collect();
        let is_last_use = |role: &Role| *role != Role::Ignored;
        let used = self.roles.iter().rposition(is_last_use).map_or(0, |last| last + 1);
        self.roles.truncate(used);
    }

    pub(crate) fn read<'a>(&self, line: &'a [u8], times: &mut Times) -> Result<Fields<'a>, Why> {
        if self.roles.is_empty() {
            return Err(Why::NoNames);
        }
        let mut fields = Fields::default();
        let mut rest = line;
        for (i, role) in self.roles.iter().enumerate() {
            if i > 0 {
                rest = rest.get(1..).ok_or(Why::Form)?;
            }
            let end = match role {
                Role::Ignored => memchr::memchr2(b' ', b'\t', rest),
                _ => rest.iter().position(|b| matches!(b, b' ' | b'\t')),
            };
            let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
            if text.is_empty() {
                return Err(Why::Form);
            }
            fields.set(*role, text, times)?;
            rest = after;
        }
        fields.finish()?;
        Ok(fields)
    }
}

fn role(name: &str, took: i64) -> Role {
    match name {
        "date" => Role::Date,
        "time" => Role::TimeOfDay,
        "c-ip" => Role::Client,
        "cs-method" => Role::Method,
        "cs-uri-stem" | "cs-uri" => Role::Target,
        "cs-uri-query" => Role::Query,
        "sc-status" => Role::Status,
        "time-taken" => Role::Took(took),
        "cs(Cookie)" => Role::Cookie,
        _ => Role::Ignored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &Columns, line: &str) -> Result<String, Why> {
        let fields = columns.read(line.as_bytes(), &mut Times::default())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} {} {} {}?{} {:?} {:?}",
            fields.time.map_or(0, |time| time.at / SECOND),
            text(fields.client),
            text(fields.method),
            text(fields.target),
            text(fields.query),
            fields.status,
            fields.took.map(|took| took / 1000),
        ))
    }

    #[test]
    fn iis_and_cloudfront() {
        let mut columns = Columns::default();
        let line = "2002-05-02 17:42:15 172.22.255.255 - 172.30.255.255 80 GET /a.jpg b=c 200 15 Mozilla/4.0";
        assert_eq!(read(&columns, line), Err(Why::NoNames));
        columns.directive(b"#Version: 1.0");
        columns.directive(
            b"#Fields: date time c-ip cs-username s-ip s-port cs-method cs-uri-stem cs-uri-query \
              sc-status time-taken cs(User-Agent)",
        );
        let expected = "1020361335 172.22.255.255 GET /a.jpg?b=c Some(200) Some(15000)";
        assert_eq!(read(&columns, line).as_deref(), Ok(expected));
        assert_eq!(read(&columns, "2002-05-02 17:42:15 172.22.255.255"), Err(Why::Form));
        columns.directive(
            b"#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem \
              sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) time-taken",
        );
        let line = "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td.net\t/i.html\t200\t-\tM\t-\t-\t0.001";
        let expected = "1575493351 192.0.2.100 GET /i.html?- Some(200) Some(1000)";
        assert_eq!(read(&columns, line).as_deref(), Ok(expected));
    }

    #[test]
    fn a_time_needs_its_date_before_it() {
        let mut columns = Columns::default();
        columns.directive(b"#Fields: time cs-uri-stem");
        assert_eq!(read(&columns, "17:42:15 /"), Err(Why::NoTime));
    }
}
