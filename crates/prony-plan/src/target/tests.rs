use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_near, check_errors};

#[test]
fn urls_by_table() {
    // URL, host, port, path, authority.
    let cases = [
        ("http://example.com", "example.com", 80, "/", "example.com"),
        ("http://example.com/", "example.com", 80, "/", "example.com"),
        ("HTTP://h:8080/a/b?c=d&e", "h", 8080, "/a/b?c=d&e", "h:8080"),
        ("http://h:80/", "h", 80, "/", "h"),
        ("localhost:8080/x", "localhost", 8080, "/x", "localhost:8080"),
        ("localhost", "localhost", 80, "/", "localhost"),
        ("10.0.0.1:1", "10.0.0.1", 1, "/", "10.0.0.1:1"),
        ("http://h?q", "h", 80, "/?q", "h"),
        ("http://[::1]:8080/x", "::1", 8080, "/x", "[::1]:8080"),
        ("[::1]", "::1", 80, "/", "[::1]"),
        ("http://[fe80::1%25eth0]:81/", "fe80::1%eth0", 81, "/", "[fe80::1]:81"),
        ("http://[fe80::1%eth0]/", "fe80::1%eth0", 80, "/", "[fe80::1]"),
        // Verbatim: no dots resolved, no escapes touched, no slashes folded.
        ("http://h/a/../b//c/%7e%7E/./\u{e9}", "h", 80, "/a/../b//c/%7e%7E/./\u{e9}", "h"),
        ("h/go?to=http://other:99/x@y", "h", 80, "/go?to=http://other:99/x@y", "h"),
        ("http://a_b-c.d~/", "a_b-c.d~", 80, "/", "a_b-c.d~"),
    ];
    for (text, host, port, path, authority) in cases {
        let url = Url::parse(text).unwrap();
        assert_eq!((&*url.host, url.port, &*url.path), (host, port, path), "{text}");
        assert_eq!(url.authority(), authority, "{text}");
        assert_eq!(url.user, None, "{text}");
        assert_eq!(url.endpoint(), Endpoint::Tcp { host: host.into(), port });
        assert_eq!(Url::parse(&url.to_string()), Ok(url), "{text}");
    }
}

#[test]
fn secured_urls_have_their_own_port_and_name() {
    for (text, host, port, authority, shown) in [
        ("https://h", "h", 443, "h", "https://h/"),
        ("HTTPS://h:443/x", "h", 443, "h", "https://h/x"),
        ("https://h:80/", "h", 80, "h:80", "https://h:80/"),
        ("http://h:443/", "h", 443, "h:443", "http://h:443/"),
        ("https://[::1]:8443/", "::1", 8443, "[::1]:8443", "https://[::1]:8443/"),
    ] {
        let url = Url::parse(text).unwrap();
        assert_eq!((&*url.host, url.port, &*url.authority()), (host, port, authority), "{text}");
        assert_eq!(url.to_string(), shown);
        let tcp = Endpoint::Tcp { host: host.into(), port };
        let secured = url.tls.then_some(host);
        assert_eq!(url.endpoint().tls_name(), secured);
        assert_eq!(url.endpoint().transport(), &tcp);
    }
}

#[test]
fn users_by_table() {
    let cases = [
        ("http://joe:secret@h:81/", "joe", "secret"),
        ("joe@h:81", "joe", ""),
        ("http://joe:a:b@h:81/", "joe", "a:b"),
        ("http://j%40e:p%3a%2F%c3%a9@h:81/", "j@e", "p:/\u{e9}"),
        ("http://joe:p@ss@h:81/", "joe", "p@ss"),
    ];
    for (text, user, password) in cases {
        let url = Url::parse(text).unwrap();
        assert_eq!(url.user, Some((user.into(), password.into())), "{text}");
        assert_eq!((&*url.host, url.authority()), ("h", "h:81".into()));
        assert_eq!(url.to_string(), "http://h:81/", "reports do not show passwords");
    }
}

#[test]
fn url_errors() {
    check_errors(
        &[
            "",
            "https://",
            "ftp://h/",
            "http://",
            "http:///x",
            "/x",
            ":80",
            "http://h:/",
            "http://h:0/",
            "http://h:65536/",
            "http://h:+1/",
            "http://h:8o/",
            "http://h/a b",
            "http://h/a\tb",
            "http://h/\r\nX: y",
            "http://h/#top",
            "http://::1/",
            "http://[::1/",
            "http://[::1]80/",
            "http://[::g]/",
            "http://[fe80::1%]/",
            "http://h\u{f6}st/",
            "http://h,g/",
            "http://h\\x/",
            "http://a%zz@h/",
            "http://a%ff@h/",
            "http://a%4/@h/",
        ],
        Url::parse,
        expect![[r#"
            '' is not a URL to load: it is empty; write http://host:port/path
            'https://' is not a URL to load: its host is missing; write http://host:port/path
            'ftp://h/' is not a URL to load: the scheme 'ftp' is not supported; use http:// or https://
            'http://' is not a URL to load: its host is missing; write http://host:port/path
            'http:///x' is not a URL to load: its host is missing; write http://host:port/path
            '/x' is not a URL to load: its host is missing; write http://host:port/path
            ':80' is not a URL to load: its host is missing; write http://host:port/path
            'http://h:/' is not a URL to load: the port after ':' is missing
            'http://h:0/' is not a URL to load: '0' is not a port; ports are numbers from 1 to 65535
            'http://h:65536/' is not a URL to load: '65536' is not a port; ports are numbers from 1 to 65535
            'http://h:(hidden)/' is not a URL to load: the port after ':' is not a number from 1 to 65535
            'http://h:(hidden)/' is not a URL to load: the port after ':' is not a number from 1 to 65535
            'http://h/a...' is not a URL to load: it contains ' ' at character 11; write it as %20
            'http://h/a...' is not a URL to load: it contains '\t' at character 11; write it as %09
            'http://h/...' is not a URL to load: it contains '\r' at character 10; write it as %0D
            'http://h/...' is not a URL to load: a fragment ('#...') is never sent; omit it, or write '#' as %23
            'http://:(hidden)/' is not a URL to load: an IPv6 address needs brackets, as in http://[::1]:8080/
            'http://[::1/' is not a URL to load: the ']' after its IPv6 address is missing
            'http://[::1]80/' is not a URL to load: '80' stands between host and path
            'http://[::g]/' is not a URL to load: '::g' is not an IPv6 address
            'http://[fe80::1%]/' is not a URL to load: '' is not the name of a network interface
            'http://höst/' is not a URL to load: write its host in its ASCII form (xn--...)
            'http://h,g/' is not a URL to load: its host contains ','
            'http://h\\x/' is not a URL to load: its host contains '\'
            'http://(hidden)@h/' is not a URL to load: a '%' in user or password needs two hex digits; write '%' itself as %25
            'http://(hidden)@h/' is not a URL to load: user and password must be UTF-8
            'http://(hidden)@h/' is not a URL to load: its host contains '%'
        "#]],
    );
}

#[test]
fn headers_by_table() {
    let cases = [
        ("A: b", "A", "b"),
        ("A:b", "A", "b"),
        ("X-Y_z:\t b: c \t", "X-Y_z", "b: c"),
        ("Empty:", "Empty", ""),
        ("Word: gr\u{fc}n", "Word", "gr\u{fc}n"),
    ];
    for (text, name, value) in cases {
        assert_eq!(parse_header(text), Ok((name.into(), value.into())), "{text}");
    }
    check_errors(
        &["", "A", ": x", "A b: c", "A : c", "A: b\r\nC: d", "A: \0", "A\n: b", "\u{e4}: b"],
        parse_header,
        expect![[r#"
            this is not a header: it has no colon; write 'Name: value'
            this is not a header: it has no colon; write 'Name: value'
            a header's name is missing; write 'Name: value'
            the header name contains ' ' after 'A'; names have letters, digits and !#$%&'*+-.^_`|~
            the header name contains ' ' after 'A'; names have letters, digits and !#$%&'*+-.^_`|~
            the value of the header 'A' contains '\r', which would break the request
            the value of the header 'A' contains '\0', which would break the request
            the header name contains '\n' after 'A'; names have letters, digits and !#$%&'*+-.^_`|~
            the header name begins with 'ä'; names have letters, digits and !#$%&'*+-.^_`|~
        "#]],
    );
}

#[test]
fn a_plain_list_is_a_url_file() {
    let text = "\u{feff}# targets\nhttp://a/1\r\n\n  localhost:8080/2\nlocalhost:8081/3\n";
    let entries = parse_url_file(text).unwrap();
    let urls: Vec<_> = entries.iter().map(|e| (e.line, e.url.to_string())).collect();
    let expected =
        [(2, "http://a/1"), (4, "http://localhost:8080/2"), (5, "http://localhost:8081/3")];
    assert_eq!(urls, expected.map(|(line, url)| (line, url.to_owned())));
    assert!(entries.iter().all(|e| e.method.is_none() && e.headers.is_empty()));
}

#[test]
fn url_files_have_methods_headers_and_bodies() {
    let text = "\
GET http://a/
X-One: 1
# in between
X-Two:2
POST\thttp://b/
@body.json
Content-Type: application/json

http://c/
Cookie: d=e
PURGE http://d/
";
    let entries = parse_url_file(text).unwrap();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let expected = [
        (1, Some("GET"), "http://a/", vec![pair("X-One", "1"), pair("X-Two", "2")], None),
        (
            5,
            Some("POST"),
            "http://b/",
            vec![pair("Content-Type", "application/json")],
            Some("body.json"),
        ),
        (9, None, "http://c/", vec![pair("Cookie", "d=e")], None),
        (11, Some("PURGE"), "http://d/", vec![], None),
    ];
    let expected = expected.map(|(line, method, url, headers, body)| UrlEntry {
        line,
        method: method.map(Into::into),
        url: Url::parse(url).unwrap(),
        headers,
        body_file: body.map(Into::into),
    });
    assert_eq!(entries, expected);
}

#[test]
fn url_file_errors() {
    check_errors(
        &[
            "",
            "# nothing\n\n",
            "http://a/\nhttps:///b/",
            "GET http://a/ HTTP/1.1",
            "get http://a/",
            "G(T http://a/",
            "GET",
            "GET ",
            "A: b",
            "@x",
            "GET http://a/\n\nA: b",
            "GET http://a/\n\n@x",
            "GET http://a/\n@",
            "GET http://a/\n@x\n@y",
            "GET http://a/\nA: \u{1}",
            "http://a/ # comment",
        ],
        parse_url_file,
        expect![[r#"
            the file has no URLs; write one per line
            the file has no URLs; write one per line
            line 2: 'https:///b/' is not a URL to load: its host is missing; write http://host:port/path
            line 1: 'http://a/...' is not a URL to load: it contains ' ' at character 10; write it as %20
            line 1: 'get' is not a method; write it in capitals, as in GET http://host/path
            line 1: the method 'G(T' contains '('; write GET, POST or the like
            line 1: the URL after GET is missing
            line 1: the URL after GET is missing
            line 1: a header must follow its URL, and there is none before it
            line 1: a body file (@FILE) must follow its URL, and there is none before it
            line 3: a header must follow its URL, and there is none before it
            line 3: a body file (@FILE) must follow its URL, and there is none before it
            line 2: the name of the body file after '@' is missing
            line 3: the request already has a body file; omit one of them
            line 2: the value of the header 'A' contains '\u{1}', which would break the request
            line 1: 'http://a/...' is not a URL to load: it contains ' ' at character 10; write it as %20
        "#]],
    );
}

proptest! {
    #[test]
    fn parsed_urls_can_be_sent(text in any_near("http:/@[]1%25?#a.-é \t")) {
        for text in [text.clone(), format!("http://{text}"), format!("http://h{text}")] {
            let Ok(url) = Url::parse(&text) else { continue };
            prop_assert!(url.path.starts_with('/') && url.port > 0 && !url.host.is_empty());
            let sent = format!("{}{}", url.authority(), url.path);
            prop_assert!(!sent.contains(|c: char| c.is_ascii_control() || c == ' '));
            prop_assert!(text.ends_with(&url.path) || url.path == "/" || text.contains('?'));
            let back = Url::parse(&url.to_string());
            prop_assert_eq!(back, Ok(Url { user: None, ..url }));
        }
    }

    #[test]
    fn parsed_headers_have_no_line_breaks(text in any_near("Aa:- \t\r\n\0é")) {
        if let Ok((name, value)) = parse_header(&text) {
            prop_assert_eq!(check_header(&name, &value), Ok(()));
            prop_assert!(!(name + &value).contains(['\r', '\n', '\0']));
        }
    }

    #[test]
    fn url_files_never_panic(
        lines in prop::collection::vec(any_near("GET http://a/:@# \tX"), 0..6),
    ) {
        let lines: Vec<_> = lines.iter().map(|l| l.replace(['\r', '\n'], "")).collect();
        if let Ok(entries) = parse_url_file(&lines.join("\n")) {
            prop_assert!(entries.windows(2).all(|w| w[0].line < w[1].line));
            for entry in entries {
                let line = lines[entry.line - 1].trim_start_matches('\u{feff}').trim();
                prop_assert!(line.starts_with(entry.method.as_deref().unwrap_or_default()));
                prop_assert!(line.ends_with(&entry.url.path) || !line.contains(&entry.url.path));
            }
        }
    }
}
