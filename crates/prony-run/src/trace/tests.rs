use prony_server::serve::ServerBehavior;

use super::*;
use crate::plan_file;
use crate::run::{Provenance, simulate};

/// The trace of this plan in virtual time.
fn traced(text: &str, n: u64, shows_secrets: bool) -> String {
    let plan = crate::run::with_names(plan_file::tests::plan(text));
    let plan = plan_of(&plan, n).expect("a plan");
    let trace = Trace::new(&plan, shows_secrets);
    let provenance = Provenance { taps: Some(trace.taps()), ..Provenance::default() };
    let server = ServerBehavior::default();
    let summary = simulate(&plan, 1, 1, &server, &[], provenance);
    assert_eq!(summary.main.unfinished, 0);
    trace.take() + &trace.end()
}

const SHOP: &str = r#"
url = "http://shop/"
rate = 500
warmup = "5s"
duration = "1m"
thresholds = ["p99 < 1ms"]

[[session]]
[[session.request]]
name = "log in"
method = "POST"
path = "/login?key=s3cret"
body = "user=a"
checks = ["status = 201", "body contains 'Welcome'"]
extract = { length = { header = "Content-Length" }, token = { json = "/t", default = "none" } }

[[session.request]]
path = "/cart"
"#;

#[test]
fn a_session_is_printed_step_by_step() {
    let text = traced(SHOP, 1, false);
    for line in [
        "#1 log in\n> POST /login?key=(hidden) HTTP/1.1\n< 200 after ",
        "\n  length = (hidden), ",
        "\n  token = (hidden), 4 characters\n",
        "\n  failed check: status = 201\n  failed check: body contains 'Welcome'\n",
        "\n\n#2 GET /cart\n> GET /cart HTTP/1.1\n< 200 after ",
        "\n\n2 exchanges, 0 failed\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn secrets_are_shown_on_request() {
    let text = traced(SHOP, 1, true);
    assert!(text.contains("> POST /login?key=s3cret HTTP/1.1"), "{text}");
    assert!(text.contains("token = none"), "{text}");
    let hidden = traced(SHOP, 1, false);
    assert!(!hidden.contains("s3cret") && !hidden.contains("token = none"), "{hidden}");
}

#[test]
fn n_sessions_follow_each_other() {
    let text = traced(SHOP, 3, false);
    assert_eq!(text.matches("\n> ").count(), 6, "{text}");
    assert!(text.ends_with("6 exchanges, 0 failed\n"), "{text}");
}

#[test]
fn requests_without_sessions_are_printed_over_both_versions() {
    for (version, word) in [("1.1", "HTTP/1.1"), ("2-only", "HTTP/2")] {
        let plan = format!("url = 'http://h/'\nhttp = '{version}'\nrequest = ['/a', '/b']");
        let text = traced(&plan, 2, false);
        for line in
            [format!("#1 GET /a\n> GET /a {word}\n"), format!("#2 GET /b\n> GET /b {word}\n")]
        {
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.ends_with("2 exchanges, 0 failed\n"), "{text}");
    }
}

#[test]
fn text_of_servers_is_escaped() {
    let mut exchange = Exchange::default();
    exchange.body(b"\x1b[31mred\x07 \xe2\x80\xaeline\nmore");
    let plan = plan_file::tests::plan("url = 'http://h/'");
    let block = exchange.block(1, &Ended::unfinished(), &plan, None);
    assert!(block.chars().all(|c| c == '\n' || !c.is_control()), "{block}");
    assert!(!block.contains('\u{202e}') && block.contains("line\\nmore"), "{block}");
}

/// What was extracted is hidden in later paths and bodies too, also where it is escaped or cut.
#[test]
fn extracted_values_stay_hidden() {
    let plan = "url = 'http://h/'\nsession = [{ request = ['/cart/{{token}}/x'] }]\n\
                [variables]\ntoken = 'none'";
    let plan = plan_file::tests::plan(plan);
    let hidden = BTreeSet::from(["a b/c+d".to_owned()]);
    let block = |line: &str, body: &[u8], hidden: Option<&BTreeSet<String>>| {
        let mut exchange = Exchange::new(0, Some(format!("GET {line} HTTP/1.1")), 0);
        exchange.body(body);
        exchange.block(1, &Ended::unfinished(), &plan, hidden)
    };
    for (line, body) in [
        ("/cart/a%20b%2Fc%2Bd/x", &b"it is a b/c+d"[..]),
        ("/cart/a b/c+d/x", b"the end is cut: a b/c"),
    ] {
        let text = block(line, body, Some(&hidden));
        assert!(text.contains("> GET /cart/{{token}}/x HTTP/1.1\n"), "{text}");
        assert!(text.contains("(--show-secrets shows it)") && !text.contains("a b"), "{text}");
        let shown = block(line, body, None);
        assert!(shown.contains(&format!("> GET {line} HTTP/1.1\n")), "{shown}");
    }
    let other = block("/cart/5/x", b"nothing of it", Some(&hidden));
    assert!(other.contains("> GET /cart/5/x HTTP"), "{other}");
}
