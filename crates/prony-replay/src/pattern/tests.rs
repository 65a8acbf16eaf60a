//! Formats with the lines of their servers.

use super::*;

fn read(pattern: &Pattern, line: &str) -> Result<String, Why> {
    let fields = pattern.read(line.as_bytes(), &mut Times::default())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(format!(
        "{} {} {} {:?} {:?}",
        text(fields.client),
        text(fields.method),
        text(fields.aim.target),
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
        let fields = read(&common(), line);
        assert_eq!(fields.as_deref(), Ok("127.0.0.1 GET /a.gif Some(200) None"));
    }
    let quoted = r#"::1 - - [10/Oct/2000:13:55:36 +0000] "GET /\"a\\ HTTP/1.0" 404 -"#;
    let fields = read(&common(), quoted);
    assert_eq!(fields.as_deref(), Ok(r#"::1 GET /\"a\\ Some(404) None"#));
    for line in ["", "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP", "x"] {
        assert_eq!(read(&common(), line), Err(Why::Form));
    }
    let late = r#"a - - [yesterday] "GET / HTTP/1.0" 200 1"#;
    assert_eq!(read(&common(), late), Err(Why::BadTime));
}

#[test]
fn lines_of_alb() {
    let line = "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 \
        192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 \
        \"GET https://www.example.com:443/a?b=c HTTP/1.1\" \"curl/7.46.0\" - -";
    let target = "192.168.131.39 GET https://www.example.com:443/a?b=c Some(200) Some(171000)";
    assert_eq!(read(&alb(), line).as_deref(), Ok(target));
    let lost = line.replace("0.086 0.048 0.037 200", "-1 -1 -1 502");
    let target = "192.168.131.39 GET https://www.example.com:443/a?b=c Some(502) None";
    assert_eq!(read(&alb(), &lost).as_deref(), Ok(target));
}

#[test]
fn haproxy_with_and_without_syslog() {
    let line = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 \
        200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET /index.html HTTP/1.1\"";
    let expected = "10.0.1.2 GET /index.html Some(200) Some(109000)";
    let syslog = format!("Feb  6 12:14:14 localhost haproxy[14389]: {line}");
    for line in [line, &syslog] {
        assert_eq!(read(&haproxy(), line).as_deref(), Ok(expected));
    }
    let aborted = line.replace("10/0/30/69/109", "10/-1/-1/-1/+5");
    let expected = "10.0.1.2 GET /index.html Some(200) None";
    assert_eq!(read(&haproxy(), &aborted).as_deref(), Ok(expected));
}

#[test]
fn formats_of_nginx() {
    let main = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
        $body_bytes_sent \"$http_referer\" \"$http_user_agent\" rt=$request_time u=\"$uri\"";
    let pattern = nginx(main).expect("a format");
    assert_eq!((pattern.times().1, pattern.is_certain), (Edge::End, true));
    let line = r#"1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET /a%20b?c HTTP/1.1" 200 5 "-" "x" rt=0.012 u="/a b""#;
    assert_eq!(read(&pattern, line).as_deref(), Ok("1.2.3.4 GET /a%20b?c Some(200) Some(12000)"));
    let json = r#"escape=json {"t":$msec,"m":"$request_method","u":"${request_uri}","s":$status}"#;
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
    assert_eq!(apache("%{end:msec}t %r").expect("a format").times().1, Edge::End);
    assert_eq!(apache("%t %r").expect("a format").times().1, Edge::Start);
    assert_eq!(tomcat("%t %r").expect("a format").times().1, Edge::End);
}

fn nginx_reads(format: &str, line: &str, expected: Result<&str, Why>) {
    let pattern = nginx(format).expect("a format");
    assert_eq!(read(&pattern, line).as_deref(), expected.as_ref().copied(), "{format}: {line}");
}

/// `$upstream_*` are lists. What follows them must not become the time of the request, or its
/// method.
#[test]
fn lists_of_upstreams_are_whole() {
    for (list, ms) in [("0.100", 100), ("0.100, 0.500 : 0.2", 800), ("0.001, -", 1)] {
        let line = format!("[1700000000.123] {list} 0.900 GET /a 200 10.0.0.1:80, unix:/s : b");
        let expected = "  GET /a Some(200) Some(900000)".trim_start();
        let format = "[$msec] $upstream_response_time $request_time $request_method $request_uri \
            $status $upstream_addr";
        nginx_reads(format, &line, Ok(&format!(" {expected}")));
        let alone = "[$msec] $upstream_response_time $request_length $request_method $request_uri \
            $status $upstream_addr";
        let line = line.replace("0.900", "900");
        nginx_reads(alone, &line, Ok(&format!(" GET /a Some(200) Some({})", ms * 1000)));
    }
    // Two lists with a text between them that is also within them.
    let format =
        "$msec,$upstream_connect_time, $upstream_response_time, $request_method $request_uri";
    nginx_reads(format, "1.5,0.1, 0.2, GET /", Ok(" GET / None Some(200000)"));
    nginx_reads(format, "1.5,0.1, 0.2, 0.3, 0.4, GET /", Err(Why::Ambiguous));
    // A list where the format has a single number.
    nginx_reads(
        "$msec $request_time $request_method $request_uri",
        "1.5 0.1, 0.2 GET /",
        Err(Why::BadTook),
    );
}

#[test]
fn requests_without_quotation_marks() {
    let format = "$remote_addr $time_local $request $status $body_bytes_sent $http_user_agent";
    let line = |request: &str, agent: &str| {
        format!("1.2.3.4 10/Oct/2000:13:55:36 +0000 {request} 200 5 {agent}")
    };
    for (request, agent, expected) in [
        ("GET /a HTTP/1.1", "Mozilla/5.0 (X11; a b)", Ok("1.2.3.4 GET /a Some(200) None")),
        ("GET /a?b HTTP/1.1", "GET /x HTTP/1.1 200 5 y", Ok("1.2.3.4 GET /a?b Some(200) None")),
        ("GET /a b HTTP/1.1", "curl", Ok("1.2.3.4 GET /a b Some(200) None")),
        ("GET /a", "curl", Ok("1.2.3.4 GET /a Some(200) None")),
        ("-", "-", Ok("1.2.3.4   Some(200) None")),
    ] {
        nginx_reads(format, &line(request, agent), expected);
    }
    let pattern = nginx(format).expect("a format");
    for text in [line("-", "-"), line("\\x16\\x03 \\x01", "-")] {
        let fields = pattern.read(text.as_bytes(), &mut Times::default()).expect("a line");
        assert!(fields.is_no_request, "{text}");
    }
    nginx_reads(format, "1.2.3.4 10/Oct/2000:13:55:36 +0000 GET /a HTTP/1.1 5", Err(Why::Form));
}

/// Blanks between fields that may have blanks: read in the one way there is, or refused.
#[test]
fn blanks_between_parts_with_blanks() {
    let format = "$http_user_agent $msec $request_method $uri $http_referer";
    nginx_reads(format, "a b 1.5 GET /c - -", Err(Why::Ambiguous));
    nginx_reads(format, "a b 1.5 GET /c -", Ok(" GET /c None None"));
    nginx_reads(
        "$http_user_agent $request_uri $msec $request_method",
        "a b /c 1.5 GET",
        Ok(" GET /c None None"),
    );
    nginx_reads(
        "$http_user_agent $request_uri $msec $request_method",
        "a /b /c 1.5 GET",
        Ok(" GET /c None None"),
    );
    nginx_reads(
        "$request_uri $http_user_agent $msec $request_method",
        "/c 1.5 GET 2.5 GET",
        Ok(" GET /c None None"),
    );
    // Host and path stand side by side.
    nginx_reads(
        "$msec $request_method $scheme://$host$request_uri",
        "1.5 GET http://a.b:80/c?d",
        Ok(" GET /c?d None None"),
    );
    nginx_reads(
        "$msec,$request_method,$request_uri,$status",
        "1.5,GET,/a,b,200",
        Ok(" GET /a,b Some(200) None"),
    );
    nginx_reads(
        "$msec\t$request_method\t$request_uri\t$http_user_agent",
        "1.5\tGET\t/a\tb c",
        Ok(" GET /a None None"),
    );
}

/// The path and query of a line, as they would be sent.
fn sent(pattern: &Pattern, line: &str) -> Result<String, Why> {
    let fields = pattern.read(line.as_bytes(), &mut Times::default())?;
    let mut path = Vec::new();
    crate::path::append(&fields.aim, fields.escapes, &mut path)?;
    Ok(String::from_utf8_lossy(&path).into_owned())
}

#[test]
fn escapes_of_nginx_are_those_of_the_format() {
    for (format, line, expected) in [
        ("$msec \"$request\"", r#"1.5 "GET /\x22\x5C%20\xC3\xA9 HTTP/1.1""#, Ok("/\"\\%20\u{e9}")),
        (
            "escape=json $msec \"$request\"",
            r#"1.5 "GET /\"\\\u001fé HTTP/1.1""#,
            Ok("/\"\\%1F\u{e9}"),
        ),
        ("$msec \"$request\"", r#"1.5 "GET /\"\\\u001f HTTP/1.1""#, Ok("/\"\\%1F")),
        (
            "escape=none $msec \"$request\" $status",
            r#"1.5 "GET /"\x41\" HTTP/1.1" 200"#,
            Ok("/\"\\x41\\\""),
        ),
        ("$msec \"$request\"", r#"1.5 "GET /a\d HTTP/1.1""#, Err(Why::Escape)),
        (
            "$msec $request_method \"$uri\" $args",
            r#"1.5 GET "/a b%?" c=%20"#,
            Ok("/a%20b%25%3F?c=%20"),
        ),
        (
            "$msec $request_method $uri$is_args$args",
            r#"1.5 GET /a b%?c=%20"#,
            Ok("/a%20b%25?c=%20"),
        ),
    ] {
        let pattern = nginx(format).expect("a format");
        assert_eq!(sent(&pattern, line), expected.map(str::to_owned), "{format}");
    }
    let directive =
        "log_format  main escape=none\n  '$remote_addr [$msec] '\n  '\"$request\" it\\'s';";
    assert_eq!(nginx(directive), nginx("escape=none $remote_addr [$msec] \"$request\" it's"));
    for (format, error) in [
        ("escape=xml $msec", FormatError::Escape("xml".into())),
        ("log_format main $msec", FormatError::Directive),
        ("log_format main '$msec", FormatError::Directive),
        ("$msec $request_uri", FormatError::NoMethod),
    ] {
        assert_eq!(nginx(format), Err(error), "{format}");
    }
}

#[test]
fn escapes_of_haproxy_and_tomcat() {
    let line = r##"10.0.1.2:33317 [06/Feb/2009:12:14:14.655] a b/c 10/0/30/69/109 200 27 - - ---- 1/1/1/1/0 0/0 {a b|#22#7Cx [y} "GET /#22a#23\ HTTP/1.1""##;
    for before in [
        "",
        "<134>Feb  6 12:14:14 haproxy[14389]: ",
        "<134>1 2009-02-06T12:14:14.655Z host haproxy 1 - [x@1 y=\"[z\"] ",
        "haproxy: ",
    ] {
        let line = format!("{before}{line}");
        assert_eq!(sent(&haproxy(), &line).as_deref(), Ok(r#"/"a#\"#), "{before}");
        assert_eq!(read(&haproxy(), &line).as_deref().map(|read| &read[..8]), Ok("10.0.1.2"));
    }
    let bad = line.replace("GET /#22a#23\\ HTTP/1.1", "<BADREQ>");
    let fields = haproxy().read(bad.as_bytes(), &mut Times::default()).map(|f| f.is_no_request);
    assert_eq!(fields, Ok(true));
    let pattern = tomcat("%h %t %m %U %q %s %D").expect("a format");
    let line = r"::1 [10/Oct/2000:13:55:36 +0000] GET /a%20\u00e9 ?b 200 5";
    assert_eq!(read(&pattern, line), Err(Why::NoUnit));
    assert_eq!(tomcat("%t %m %U%q"), Err(FormatError::NoQuery));
    let mut micros = pattern;
    assert!(micros.set_unit(1000) && !micros.clone().set_unit(1));
    assert_eq!(sent(&micros, line), Ok("/a%20\u{fffd}?b".to_owned()));
    let line = line.replace(" 5", " -");
    assert_eq!(read(&micros, &line).as_deref(), Ok("::1 GET /a%20\\u00e9 Some(200) None"));
}

/// Amazon's logs: the time of an application's load balancer is an end, unless it has the time of
/// creation, too; those of classic load balancers and of S3 are starts.
#[test]
fn times_of_amazon_are_starts_or_ends() {
    let edge = |pattern: &Pattern, line: &str| {
        let fields = pattern.read(line.as_bytes(), &mut Times::default()).expect("a line");
        let at = fields.time.map(|time| time.at / 1_000_000);
        (at.unwrap_or_default(), fields.edge, fields.took.map(|took| took / 1_000_000))
    };
    let line = "https 2018-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188 192.168.131.39:2817 \
        10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 \"GET https://www.example.com:443/ HTTP/1.1\" \
        \"curl/7.46.0 \\x22\" ECDHE TLSv1.2 arn:aws:x \"Root=1-58337281\" \"www.example.com\" \
        \"arn:aws:acm\" 1 2018-07-02T22:22:48.364000Z \"authenticate,forward\" \"-\" \"-\"";
    assert_eq!(edge(&alb(), line), (1_530_570_168_364, Edge::Start, Some(171)));
    let old = line.split(" \"curl").next().expect("a part").to_owned() + " \"curl\" - -";
    assert_eq!(edge(&alb(), &old), (1_530_570_180_186, Edge::End, Some(171)));
    let line = "2015-05-13T23:39:43.945958Z lb 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 \
        0.000057 200 200 0 29 \"GET http://www.example.com:80/a HTTP/1.1\" \"curl/7.38.0\" - -";
    assert_eq!(edge(&elb(), line), (1_431_560_383_945, Edge::Start, Some(1)));
    assert_eq!(sent(&elb(), line).as_deref(), Ok("/a"));
    let line = "79a5 bucket [06/Feb/2019:00:00:38 +0000] 192.0.2.3 arn:aws:iam::1:user/a 3E57 \
        REST.GET.OBJECT a%2520b \"GET /bucket/a%20b?x=y HTTP/1.1\" 200 - 113 113 7 5 \"-\" \
        \"S3 \\\"Console\" - s9 SigV4 ECDHE AuthHeader h TLSV1.1 -";
    assert_eq!(edge(&s3(), line), (1_549_411_238_000, Edge::Start, Some(7)));
    assert_eq!(sent(&s3(), line).as_deref(), Ok("/bucket/a%20b?x=y"));
    let line = line.replace("\"GET /bucket/a%20b?x=y HTTP/1.1\" 200", "\"-\" -");
    let fields = s3().read(line.as_bytes(), &mut Times::default()).map(|f| f.is_no_request);
    assert_eq!(fields, Ok(true));
}

#[test]
fn text_of_envoy_and_istio() {
    let envoy = "[2020-11-25T21:26:18.409Z] \"GET /a\" HTTP/1.1\" 200 - 0 154 12 11 \"-\" \"a b\"";
    assert_eq!(read(&envoy_text(), envoy).as_deref(), Ok(" GET /a\" Some(200) Some(12000)"));
    let envoy = envoy.replace("/a\"", "/a");
    assert_eq!(read(&envoy_text(), &envoy).as_deref(), Ok(" GET /a Some(200) Some(12000)"));
    let istio = envoy.replace("200 - 0", "200 - via_upstream - \"-\" 0");
    assert_eq!(read(&envoy_text(), &istio).as_deref(), Ok(" GET /a Some(200) None"));
}
