//! Redirects in plan files.

use expect_test::expect;
use prony_plan::plan::Redirects;

use super::{check, plan, refused};

#[test]
fn reads_and_writes_redirects() {
    check(
        r#"
            url = "http://h"
            location = true
            max-redirs = 3
            redirect-to = ["http://other:81", "https://h"]
            request = [
              "/",
              { path = "/a", location = false },
              { path = "/b", location = true, max-redirs = 0 },
              { path = "/c", location = true },
            ]
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            endpoints = [{ host = "h", port = 80 }, { host = "other", port = 81 }, { host = "h", port = 443, tls = "h" }]
            connections = 50
            duration = "10s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            location = true
            max-redirs = 3
            redirect-to = ["http://other:81", "https://h"]
            expect = "200-399"

            request = [
              "/",
              { path = "/a", location = false },
              { path = "/b", location = true, max-redirs = 0 },
              { path = "/c", location = true },
            ]
        "##]],
    );
}

#[test]
fn servers_of_redirects_go_where_connections_go() {
    check(
        r#"
            url = "http://h"
            connect-to = "x:1"
            redirect-to = ["http://other:81"]
            request = ["/", { path = "/b", location = true }]
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://x:1"
            host = "h"
            connections = 50
            duration = "10s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            redirect-to = [{ endpoint = 0, host = "other:81" }]
            expect = "200-399"

            request = [
              "/",
              { path = "/b", location = true },
            ]
        "##]],
    );
}

#[test]
fn nothing_is_followed_by_default() {
    let follows = |text: &str| {
        let plan = plan(&format!("url = 'http://h/'\n{text}"));
        let first = &plan.calls[0];
        (plan.redirects_of(first), plan.groups.len())
    };
    assert_eq!(follows(""), (None, 0));
    assert_eq!(follows("location = false"), (None, 0));
    assert_eq!(follows("location = true"), (Some(10), 1));
    assert_eq!(follows("location = true\nmax-redirs = 2"), (Some(2), 1));
    let call =
        &plan("url = 'http://h/'\nlocation = true\nrequest = [{ location = false }]").calls[0];
    assert_eq!(call.redirects, Some(Redirects::Off));
}

#[test]
fn rejects_what_cannot_be_followed() {
    refused::check(
        &[
            "url = \"http://h\"\nlocation = 1",
            "url = \"http://h\"\nmax-redirs = 3",
            "url = \"http://h\"\nlocation = true\nmax-redirs = -1",
            "url = \"http://h\"\nlocation = true\nmax-redirs = 1001",
            "url = \"http://h\"\nrequest = [{ path = \"/\", location = false, max-redirs = 1 }]",
            "url = \"http://h\"\nlocation = true\nredirect-to = \"http://g\"",
            "url = \"http://h\"\nlocation = true\nredirect-to = [\"http://g/path\", \"ftp://g\"]",
            "url = \"http://h\"\nlocation = true\nredirect-to = [{ endpoint = 7, host = \"g\" }]",
            "url = \"http://h\"\nlocation = true\nredirect-to = [{ host = \"g\" }]",
            "url = \"http://h\"\nredirect-to = [\"http://g\"]",
            "url = \"http://h\"\nlocation = true\nbare = true",
            "url = \"http://h\"\nlocation = true\n[stream]\nformat = \"sse\"",
            "url = \"http://h\"\nlocation = true\nusers = 1\nretries = 1\n[[session]]\nrequest = [\"/\"]",
            "url = \"http://h\"\nlocation = true\nusers = 1\n[[session]]\nrequest = [{ group = \"redirects\", request = [\"/\"] }]",
        ],
        expect![[r#"
            p:2:12: `location` is a number, expected true or false
            p:2:14: `max-redirs` is about redirects that are followed; add `location = true`
            p:3:14: `max-redirs`: '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:3:14: `max-redirs` '1001': must be at most 1000
            p:2:57: `max-redirs` is about redirects that are followed; add `location = true`
            p:3:15: `redirect-to` is a string, expected a list of URLs, as ["http://host:port"]
            p:3:16: `redirect-to` 'http://g/path': write the server alone, as http://host:port
            p:3:33: `redirect-to`: 'ftp://g' is not a URL to load: the scheme 'ftp' is not supported; use http:// or https://
            p:1:1: this plan cannot be run: a server to which redirects may lead does not exist
            p:3:16: a server of redirects has an `endpoint` and a `host`
            p:2:15: `redirect-to` is about redirects that are followed; add `location = true`
            p:1:1: this plan cannot be run: request 1: a `bare` request cannot follow redirects; give it `location = false`
            p:1:1: this plan cannot be run: requests whose replies are read as streams follow no redirects
            p:1:1: this plan cannot be run: `retries` cannot be combined with redirects that are followed; use `retry`
            p:1:1: this plan cannot be run: the group 'redirects' is that of redirected requests; give yours another name
        "#]],
    );
}
