use super::*;
use prony_base::units::Span;

const NOW: Nanos = Nanos(5_000_000_000);

fn at(authority: &'static str, path: &'static str) -> Origin<'static> {
    Origin { authority, path: path.as_bytes(), secure: false }
}

fn sent(jar: &mut Jar, origin: Origin<'_>, now: Nanos) -> String {
    let mut out = Vec::new();
    jar.write(origin, now, &mut out);
    String::from_utf8(out).expect("text")
}

/// The Cookie header for `to`, after http://www.example.org:80/a/b?c=/d/e has set these cookies.
fn after(lines: &[&str], to: Origin<'_>) -> String {
    let mut jar = Jar::new(Cookies::Session);
    for line in lines {
        jar.set(line.as_bytes(), at("www.Example.org:80", "/a/b?c=/d/e"), None, NOW);
    }
    sent(&mut jar, to, NOW)
}

#[test]
fn sends_cookies_by_domain_and_path() {
    let here = at("www.example.org", "/a/x");
    for (lines, to, header) in [
        (&["a=b"][..], here, "a=b"),
        (&[" a = b ; HttpOnly; Whatever=1"], here, "a=b"),
        (&["a="], here, "a="),
        (&["a=b=c; Path=/"], here, "a=b=c"),
        (&["a=\"b c\"; Path=/"], here, "a=\"b c\""),
        // Malformed cookies.
        (&["", "a", "=b", "; a=b"], here, ""),
        // The default path is the directory of the request, without its query.
        (&["a=b"], at("www.example.org", "/a"), "a=b"),
        (&["a=b"], at("www.example.org", "/a?b"), "a=b"),
        (&["a=b"], at("www.example.org", "/ab"), ""),
        (&["a=b"], at("www.example.org", "/"), ""),
        (&["a=b; Path=x"], at("www.example.org", "/a"), "a=b"),
        (&["a=b; Path=/"], at("www.example.org", "/"), "a=b"),
        (&["a=b; Path=/z"], here, ""),
        (&["a=b; Path=/z/"], at("www.example.org", "/z"), ""),
        (&["a=b; Path=/z/"], at("www.example.org", "/z/y"), "a=b"),
        // Without a domain, only the same host; with one, also its subdomains.
        (&["a=b; Path=/"], at("WWW.example.org:8080", "/"), "a=b"),
        (&["a=b; Path=/"], at("example.org", "/"), ""),
        (&["a=b; Path=/"], at("x.www.example.org", "/"), ""),
        (&["a=b; Path=/; Domain=example.org"], at("x.example.org", "/"), "a=b"),
        (&["a=b; Path=/; Domain=.example.ORG"], at("example.org", "/"), "a=b"),
        (&["a=b; Path=/; Domain=example.org"], at("badexample.org", "/"), ""),
        (&["a=b; Path=/; Domain=other.org"], at("other.org", "/"), ""),
        (&["a=b; Path=/; Domain=x.www.example.org"], at("x.www.example.org", "/"), ""),
        (&["a=b; Path=/; Domain="], at("www.example.org", "/"), "a=b"),
        // Longer paths first, then older cookies; a new value does not change the order.
        (&["a=1; Path=/", "b=2; Path=/a/", "c=3; Path=/"], here, "b=2; a=1; c=3"),
        (&["a=1; Path=/", "b=2; Path=/", "a=3; Path=/"], here, "a=3; b=2"),
        (&["a=1; Path=/", "a=2; Path=/a"], here, "a=2; a=1"),
        // Expires at once.
        (&["a=1", "a=2; Max-Age=0"], here, ""),
        (&["a=1", "a=2; Max-Age=-5"], here, ""),
        (&["a=1; Max-Age=0"], here, ""),
        (&["a=1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], here, ""),
        (&["a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"], here, "a=1"),
        (&["a=1; Expires=whenever"], here, "a=1"),
        // Not on a connection without TLS.
        (&["a=1; Secure"], here, ""),
    ] {
        assert_eq!(after(lines, to), header, "{lines:?} to {to:?}");
    }
}

#[test]
fn numeric_hosts_have_no_subdomains() {
    for (host, domain, matches) in [
        ("127.0.0.1", "0.0.1", false),
        ("127.0.0.1", "127.0.0.1", true),
        ("::1", "::1", true),
        ("a.localhost", "localhost", true),
    ] {
        assert_eq!(domain_matches(host, domain), matches, "{host} {domain}");
    }
    assert_eq!(host_of("[::1]:8080"), "::1");
    assert_eq!(host_of("[::1]"), "::1");
    assert_eq!(host_of("localhost"), "localhost");
}

#[test]
fn cookies_expire_by_the_time_of_the_run() {
    let mut jar = Jar::new(Cookies::Session);
    let here = at("h", "/");
    let date = Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]);
    jar.set(b"age=1; Max-Age=10", here, date, NOW);
    jar.set(b"both=1; Expires=Sun, 06 Nov 1994 08:49:39 GMT; Max-Age=20", here, date, NOW);
    jar.set(b"date=1; Expires=Sun, 06 Nov 1994 08:49:40 GMT", here, date, NOW);
    jar.set(b"past=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT", here, date, NOW);
    jar.set(b"always=1; Max-Age=99999999999999999999", here, date, NOW);
    for (seconds, header) in [
        (0, "age=1; both=1; date=1; always=1"),
        (2, "age=1; both=1; date=1; always=1"),
        (3, "age=1; both=1; always=1"),
        (10, "both=1; always=1"),
        (20, "always=1"),
        (1_000_000_000, "always=1"),
    ] {
        assert_eq!(sent(&mut jar, here, NOW + Span::from_secs(seconds)), header, "{seconds} s");
    }
}

#[test]
fn secure_cookies_stay_on_encrypted_connections() {
    let mut jar = Jar::new(Cookies::Session);
    let secure = Origin { secure: true, ..at("h", "/") };
    jar.set(b"s=1; Secure", secure, None, NOW);
    jar.set(b"p=1", secure, None, NOW);
    assert_eq!(sent(&mut jar, secure, NOW), "s=1; p=1");
    assert_eq!(sent(&mut jar, at("h", "/"), NOW), "p=1");
}

#[test]
fn the_simple_jar_sends_all_cookies_with_all_requests() {
    let mut jar = Jar::new(Cookies::Always);
    let (here, elsewhere) = (at("h", "/a"), at("other", "/b"));
    for line in ["a=1; Path=/x; Domain=q", "b=2;Max-Age=0", "plain", "a=3 ; x", "", ";c=1"] {
        jar.set(line.as_bytes(), here, None, NOW);
    }
    assert_eq!(sent(&mut jar, elsewhere, NOW), "a=3; b=2; plain");
    jar.set(b"\xff=\xfe", here, None, NOW);
    let mut out = Vec::new();
    jar.write(here, NOW, &mut out);
    assert_eq!(out, b"a=3; b=2; plain; \xff=\xfe");
    jar.clear();
    assert!(jar.is_empty() && sent(&mut jar, here, NOW).is_empty());
}

#[test]
fn a_jar_is_limited() {
    for kind in [Cookies::Session, Cookies::Always] {
        let mut jar = Jar::new(kind);
        for i in 0..1000 {
            jar.set(format!("n{i}=1").as_bytes(), at("h", "/"), None, NOW);
            jar.set(format!("long={}", "x".repeat(LONGEST)).as_bytes(), at("h", "/"), None, NOW);
        }
        let header = sent(&mut jar, at("h", "/"), NOW);
        assert_eq!(header.split("; ").count(), MOST);
        assert!(header.ends_with("n999=1") && header.starts_with("n820=1"), "{kind:?}");
    }
}
