//! Tomcat with its default servlet. It refuses most of the characters that logs escape, unless they
//! are in its options.

use std::time::Duration;

use super::{Known, check, requests, send, wait_for_lines};
use crate::rig::{Other, have, side_by_side};

const JARS: &str = "/usr/share/java";
const PARTS: [&str; 8] =
    ["catalina", "coyote", "juli", "util", "util-scan", "api", "servlet-api", "annotations-api"];
const RELAXED: &str = "[]{}|\\^`&quot;&lt;&gt;";

/// The valves, each with its name and its pattern.
const VALVES: [(&str, &str, &str); 4] = [
    ("common", "AccessLogValve", "common"),
    ("micros", "AccessLogValve", "%a %{msec}t %D %m %U %q %s &quot;%{User-Agent}i&quot;"),
    ("starts", "AccessLogValve", "&quot;%{User-Agent}i&quot; %{begin:msec}t &quot;%r&quot; %s"),
    ("w3c", "ExtendedAccessLogValve", "date time time-taken cs(User-Agent) cs-method cs-uri"),
];

fn config() -> String {
    let valve = |(name, class, pattern): (&str, &str, &str)| {
        format!(
            "<Valve className='org.apache.catalina.valves.{class}' directory='@DIR@' \
             prefix='{name}' suffix='.log' rotatable='false' buffered='false' \
             pattern='{pattern}'/>\n"
        )
    };
    format!(
        "<Server port='-1'><Service name='Catalina'>
<Connector address='127.0.0.1' port='@PORT@' relaxedPathChars='{RELAXED}' \
         relaxedQueryChars='{RELAXED}'/>
<Engine name='Catalina' defaultHost='localhost'>
<Host name='localhost' appBase='none' deployOnStartup='false'>
{}</Host></Engine></Service></Server>
",
        VALVES.map(valve).concat()
    )
}

#[test]
fn logs_of_tomcat() {
    if !have("java") || !have(&format!("{JARS}/tomcat10-catalina.jar")) {
        return;
    }
    let jars = PARTS.map(|part| format!("{JARS}/tomcat10-{part}.jar")).join(":");
    let base = "-Dcatalina.base=@DIR@";
    let arguments =
        [base, "-cp", &jars, "org.apache.catalina.startup.Tomcat", "--catalina", "-config"];
    let server = Other::start("java", &arguments, &config());
    // What it has no application for has the status 404, but its lines are as those of others.
    let accepted = |target: &str| target.is_ascii() && !target.contains("%r");
    let sent = send(server.port, &requests(accepted), None);
    side_by_side(VALVES, |(name, ..)| {
        let log = server.file(&format!("{name}.log"));
        let second = Duration::from_secs(1);
        let milli = Duration::from_millis(1);
        let (format, more, step, lines): (_, &[&str], _, _) = match name {
            "common" => (Some("tomcat common"), &[], second, 0),
            "micros" => (
                Some("tomcat %a %{msec}t %D %m %U %q %s \"%{User-Agent}i\""),
                &["--time-unit", "us"],
                milli,
                0,
            ),
            "starts" => (Some("tomcat \"%{User-Agent}i\" %{begin:msec}t \"%r\" %s"), &[], milli, 0),
            _ => (None, &[], second, 3),
        };
        wait_for_lines(&log, sent.len() + lines);
        let target = if name == "micros" { without_empty_query } else { <[u8]>::to_vec };
        check("tomcat", &log, &sent, Known { format, more, step, target, ..Known::default() });
    });
}

/// `%q` is the same for an empty query and for none.
fn without_empty_query(target: &[u8]) -> Vec<u8> {
    let is_empty = target.iter().position(|b| *b == b'?') == Some(target.len() - 1);
    target[..target.len() - usize::from(is_empty)].to_vec()
}
