//! The formats that have no format string of their own.

use super::class::Class;
use super::{MILLI, Part, Pattern, Piece, apache};
use crate::escapes::Escapes;
use crate::fields::{Edge, Form, Role};
use crate::times::SECOND;

/// A part, what it may contain, its name and the text after it.
type Column = (Role, Class, &'static str, &'static str);

const SKIPPED: Column = (Role::Ignored, Class::Word, "", " ");

fn pattern(begin: &str, columns: &[Column], escapes: Escapes) -> Pattern {
    let mut pieces = vec![Piece::Text(begin.into())];
    for (role, class, name, until) in columns {
        pieces.push(Piece::Part(*role, *class, (*name).to_owned()));
        pieces.push(Piece::Text((*until).into()));
    }
    Pattern::new(pieces, escapes).expect("it has a time and a request")
}

/// The parts that follow in newer versions.
fn optional(columns: &[Column]) -> Vec<Part> {
    let part = |(role, class, name, until): &Column| Part {
        role: *role,
        class: *class,
        name: (*name).to_owned(),
        until: (*until).into(),
        is_quoted: until.starts_with('"'),
    };
    columns.iter().map(part).collect()
}

/// Common and Combined; they are equal in what is of use. The last part is what others append.
pub(crate) fn common() -> Pattern {
    apache("%h %l %u %t \"%r\" %>s %{rest}n").expect("it has a time and a request")
}

/// AWS's load balancers of applications.
pub(crate) fn alb() -> Pattern {
    let took = |name| (Role::TookPart(SECOND), Class::Number, name, " ");
    let columns = [
        SKIPPED,
        (Role::Time(Form::Iso, Edge::End), Class::Word, "time", " "),
        SKIPPED,
        (Role::ClientPort, Class::Word, "client:port", " "),
        SKIPPED,
        took("request_processing_time"),
        took("target_processing_time"),
        took("response_processing_time"),
        (Role::Status, Class::Number, "elb_status_code", " "),
        SKIPPED,
        SKIPPED,
        (Role::Ignored, Class::Word, "", " \""),
        (Role::Request, Class::Request, "request", "\""),
    ];
    let mut pattern = pattern("", &columns, Escapes::Backslash);
    let quoted = |until| (Role::Ignored, Class::Text, "", until);
    // `"agent" cipher protocol group "trace" "domain" "certificate" priority created `
    pattern.optional = optional(&[
        (Role::Ignored, Class::Text, "", "\""),
        quoted("\" "),
        SKIPPED,
        SKIPPED,
        (Role::Ignored, Class::Word, "", " \""),
        quoted("\" \""),
        quoted("\" \""),
        quoted("\" "),
        SKIPPED,
        (Role::Time(Form::Iso, Edge::Start), Class::Word, "request_creation_time", " "),
    ]);
    pattern
}

/// AWS's classic load balancers. Their time is that at which a request was received.
pub(crate) fn elb() -> Pattern {
    let took = |name| (Role::TookPart(SECOND), Class::Number, name, " ");
    let columns = [
        (Role::Time(Form::Iso, Edge::Start), Class::Word, "timestamp", " "),
        SKIPPED,
        (Role::ClientPort, Class::Word, "client:port", " "),
        SKIPPED,
        took("request_processing_time"),
        took("backend_processing_time"),
        took("response_processing_time"),
        (Role::Status, Class::Number, "elb_status_code", " "),
        SKIPPED,
        SKIPPED,
        (Role::Ignored, Class::Word, "", " \""),
        (Role::Request, Class::Request, "request", "\""),
    ];
    pattern("", &columns, Escapes::Backslash)
}

/// The server access logs of Amazon S3. Their time is that at which a request was received.
pub(crate) fn s3() -> Pattern {
    let columns = [
        SKIPPED,
        (Role::Ignored, Class::Word, "", " ["),
        (Role::Time(Form::Clf, Edge::Start), Class::Time, "time", "] "),
        (Role::Client, Class::Word, "remote IP", " "),
        SKIPPED,
        SKIPPED,
        SKIPPED,
        SKIPPED,
    ];
    let request = [
        (Role::Request, Class::Request, "request", "\" "),
        (Role::Status, Class::Number, "status", " "),
        SKIPPED,
        SKIPPED,
        SKIPPED,
        (Role::Took(MILLI), Class::Number, "total time", " "),
    ];
    let mut all = columns.to_vec();
    // The key of the object, before a request in quotation marks.
    all[7].3 = " \"";
    all.extend(request);
    pattern("", &all, Escapes::Backslash)
}

/// HAProxy's `option httplog`, also with what `option httpslog` appends.
pub(crate) fn haproxy() -> Pattern {
    let columns = [
        (Role::ClientPort, Class::Word, "client", " ["),
        (Role::Time(Form::Clf, Edge::Start), Class::Time, "accept date", "] "),
        SKIPPED,
        SKIPPED,
        (Role::Timers(MILLI), Class::Word, "Ta", " "),
        (Role::Status, Class::Number, "status", " "),
        SKIPPED,
        // Cookies, counters, and headers that were captured, in braces.
        (Role::Ignored, Class::Text, "", " \""),
        (Role::Request, Class::Request, "request", "\""),
    ];
    let pattern = pattern("", &columns, Escapes::Hash);
    Pattern { may_have_syslog: true, ..pattern }
}

/// The line of HAProxy behind the header that a syslog server has put before it: from the client
/// on, which stands before the first date in brackets.
pub(super) fn after_syslog(line: &[u8]) -> &[u8] {
    let is_date = |at: &usize| {
        let date = &line[*at + 2..];
        date.len() > 20 && date[2] == b'/' && date[6] == b'/' && date[11] == b':'
    };
    let Some(at) = memchr::memmem::find_iter(line, b" [").find(is_date) else { return line };
    let client = memchr::memrchr(b' ', &line[..at]).map_or(0, |blank| blank + 1);
    &line[client..]
}

/// Envoy's default format of text, and that of Istio, which has more between status and times.
pub(crate) fn envoy_text() -> Pattern {
    let columns = [
        (Role::Time(Form::Iso, Edge::Start), Class::Time, "START_TIME", "] \""),
        (Role::Request, Class::Request, "request", "\" "),
        (Role::Status, Class::Number, "RESPONSE_CODE", " "),
        (Role::Ignored, Class::Text, "", ""),
    ];
    let mut pattern = pattern("[", &columns, Escapes::None);
    let number = (Role::Ignored, Class::Number, "", " ");
    let took = (Role::Took(MILLI), Class::Number, "DURATION", " ");
    pattern.optional = optional(&[SKIPPED, number, number, took]);
    pattern
}
