use super::*;
use crate::engine::exchange::dynamic::Dynamic;
use prony_plan::plan::{Follow, Group, Load, RedirectServer, Redirects, Stop, Think};

fn plan() -> Plan {
    let tcp = |host: &str, port| Endpoint::Tcp { host: host.into(), port };
    let endpoints = vec![tcp("h", 80), tcp("10.0.0.1", 8443).secured("s"), tcp("other", 81)];
    let call = |endpoint, authority: &str| CallSpec {
        endpoint,
        method: "POST".into(),
        path: "/a/b?c".into(),
        authority: authority.into(),
        headers: vec![("X-Own".to_owned(), "1".to_owned())].into(),
        body: b"body".to_vec(),
        ..CallSpec::default()
    };
    let load = Load::Closed { connections: 1, think: Think::None };
    let stop = Stop { requests: Some(1), ..Stop::default() };
    let mut plan = Plan::new(endpoints, vec![call(0, "h"), call(1, "s:443")], load, stop);
    plan.groups = vec![Group { name: Follow::GROUP.into(), parts: Vec::new() }];
    let servers = vec![RedirectServer { endpoint: 2, authority: "Other:81".into() }];
    plan.follow = Some(Box::new(Follow { redirects: Redirects::Most(3), servers, group: 0 }));
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// What follows a request that gets these replies, one after another: each its status and its
/// `Location`. The method, the endpoint, the authority and the path of the last request that is
/// sent, or why there is none.
fn after(replies: &[(u16, &str)]) -> String {
    let plan = plan();
    let mut following = Dynamic::new(&plan).expect("the plan follows redirects");
    let mut exchange = Exchange::vacant();
    let mut id = RequestId { slot: 0, generation: 7 };
    for &(status, location) in replies {
        following.fill(id, &exchange, Nanos(1)).expect("it is filled in");
        if !location.is_empty() {
            following.header(id, &mut exchange, b"location", location.as_bytes());
        }
        let reply = Reply {
            status,
            head_bytes: 0,
            framing_bytes: 0,
            footer_bytes: 0,
            body_bytes: 0,
            interim: 0,
            keeps_open: true,
            fault: None,
        };
        let fault = following.replied(id, &mut exchange, &reply, None, Nanos(2));
        match following.after_reply() {
            Some(After::Hop(_)) => {
                let next = RequestId { generation: id.generation + 1, ..id };
                following.moves(id, next);
                id = next;
            }
            Some(After::Ended(end)) => return format!("{:?} {fault:?}", end.how),
            None => return format!("{fault:?}"),
        }
    }
    let endpoint = following.endpoint(id);
    let sent = following.fill(id, &exchange, Nanos(3)).expect("it is filled in");
    let moved = sent.moved().expect("it follows a redirect");
    let method = if moved.is_get { "GET" } else { "POST" };
    let path = String::from_utf8_lossy(sent.path().expect("a path"));
    assert_eq!(sent.body(), Some(if moved.is_get { &b""[..] } else { b"body" }));
    format!("{method} {endpoint:?} {:?} {path}", moved.authority.as_deref())
}

#[test]
fn methods_change_as_in_rfc_9110() {
    for (status, method) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
    {
        assert_eq!(after(&[(status, "x")]), format!("{method} Some(0) None /a/x"));
    }
    // Once a GET, always a GET.
    assert_eq!(after(&[(302, "x"), (307, "?y")]), "GET Some(0) None /a/x?y");
    assert_eq!(after(&[(307, "x"), (308, "/y")]), "POST Some(0) None /y");
    for (status, method, is_get) in
        [(303, "HEAD", false), (303, "PUT", true), (302, "PUT", false), (301, "GET", false)]
    {
        assert_eq!(becomes_get(status, method), is_get, "{status} {method}");
    }
}

#[test]
fn only_redirects_with_a_location_are_followed() {
    for status in [200, 300, 304, 305, 306, 404] {
        assert_eq!(after(&[(status, "/x")]), "None", "{status}");
    }
    assert_eq!(after(&[(302, "")]), "None");
    assert_eq!(after(&[(302, "mailto:ann@h")]), "None");
    assert_eq!(after(&[(302, "/x"), (302, "ftp://h/")]), "Failed None");
    assert_eq!(after(&[(302, "/x"), (200, "")]), "Completed None");
}

#[test]
fn redirects_lead_only_to_servers_that_the_user_named() {
    for (location, expected) in [
        ("http://H/x", "POST Some(0) None /x"),
        ("//h:80/x", "POST Some(0) None /x"),
        ("https://s/x", "POST Some(1) Some(\"s:443\") /x"),
        ("https://10.0.0.1:8443/", "POST Some(1) Some(\"10.0.0.1:8443\") /"),
        ("http://other:81", "POST Some(2) Some(\"Other:81\") /"),
        ("http://other/", "None"),
        ("https://h/", "None"),
        ("http://h:8080/", "None"),
        ("http://h.evil/", "None"),
    ] {
        assert_eq!(after(&[(307, location)]), expected, "{location}");
    }
    // A relative one stays where the chain is, and it can return.
    let there = (307, "http://other:81/x");
    assert_eq!(after(&[there, (307, "y")]), "POST Some(2) Some(\"Other:81\") /y");
    assert_eq!(after(&[there, (307, "http://h/y")]), "POST Some(0) None /y");
}

#[test]
fn the_request_fails_at_one_redirect_too_many() {
    let hop = (302, "/x");
    assert_eq!(after(&[hop, hop, hop]), "GET Some(0) None /x");
    assert_eq!(after(&[hop, hop, hop, hop]), "Failed Some(TooManyRedirects)");
    assert_eq!(after(&[hop, hop, hop, (302, "http://h.evil/")]), "Failed None");
}
