use std::sync::Arc;

use proptest::prelude::*;

use super::super::{PickRow, Table};
use super::*;

fn scope() -> Scope {
    let columns = vec!["mail".to_owned(), "first name".to_owned()];
    Scope {
        variables: vec!["token".to_owned(), "empty-1".to_owned()],
        tables: vec![("users".to_owned(), columns)],
        environment: vec![("API_KEY".to_owned(), "k\"y".into())],
        sent: Some("PUT".to_owned()),
        ..Scope::default()
    }
}

fn tables() -> Vec<Arc<Table>> {
    let columns = scope().tables[0].1.clone();
    let mut table = Table::new("users", PickRow::InTurn, columns).expect("columns");
    table.push(["a@x", "Ann"]).expect("two cells");
    table.push(["z@x", "Zoë B"]).expect("two cells");
    vec![Arc::new(table)]
}

/// A text, filled in for the first request of session 3.
fn filled(text: &str) -> Result<String, Unsent> {
    let template = Template::parse(text.as_bytes(), &scope(), &mut 0).expect("a template");
    let mut locals = Locals { session: 3, rows: vec![1], ..Locals::default() };
    locals.set(0, b"t&1");
    locals.now = crate::vars::VIRTUAL_EPOCH + 5_250_000_000;
    let moment = Moment { seed: 1, session: 3, request: 0, counter: 29 };
    let source = Source {
        moment,
        tables: &tables(),
        locals: &locals,
        sent: Sent { path: b"/p", body: b"{}" },
    };
    let mut out = Vec::new();
    template.fill(source, &mut out, &mut b"junk".to_vec())?;
    Ok(String::from_utf8(out).expect("text"))
}

#[test]
fn fields_are_filled_in() {
    for (text, result) in [
        ("", ""),
        ("/plain/{x}?a={}&b=}}", "/plain/{x}?a={}&b=}}"),
        ("/{{token}}", "/t&1"),
        ("{{ token|url }}{{token | url}}", "t%261t%261"),
        ("{{token|url|url}}", "t%25261"),
        ("<{{users.mail}}> {{users.first name}}", "<z@x> Zoë B"),
        ("{{users.first name | url}}", "Zo%C3%AB%20B"),
        ("{{session}} {{request}} {{counter}}", "4 1 30"),
        // JSON needs no escapes.
        (r#"{"a":{"b":{{session}}}}"#, r#"{"a":{"b":4}}"#),
        (r#"{{{session}}:1}"#, r#"{4:1}"#),
        ("{{{{session}}}}", "{{4}}"),
        // Quoted text stands for itself.
        (r#"{{"{{"}}token}}"#, "{{token}}"),
        ("{{'}}'}}{{\"a'b\"}}", "}}a'b"),
        ("{{'a b' | url}}", "a%20b"),
        ("{{env API_KEY}} {{ env  API_KEY | json }}", r#"k"y k\"y"#),
        ("{{random.pick 'x | }}'}}", "x | }}"),
        ("{{request.method}} {{request.path | append request.body | url}}", "PUT %2Fp%7B%7D"),
        ("{{'a' | append ' | ' | append token|append counter}}", "a | t&130"),
        ("{{'abc' | sha256 base64 | url}}", "ungWv48Bz%2BpBQUDeXa4iI7ADYaOWF3qctBD%2FYfIAFa0%3D"),
        (
            "{{request.body | hmac-sha256 env API_KEY}}",
            "3380ca997a9c9c8d84a5c61dd3eff6b021c27dfe9af2487ac24f925b5b253142",
        ),
        ("{{random.int 5 5}}{{random.pick a}}", "5a"),
        ("{{counter 1000}} {{counter 0 -10}} {{ counter  -5 2 | url }}", "1029 -290 53"),
        ("{{now}} {{now unix}}", "2026-01-01T00:00:05.250Z 1767225605"),
        ("{{now +1d '%d.%m.%Y %H:%M' | url}}", "02.01.2026%2000%3A00"),
    ] {
        assert_eq!(filled(text).as_deref(), Ok(result), "{text}");
    }
    assert_eq!(filled("{{empty-1}}"), Err(Unsent::NoValue));
    let two = filled("{{random.hex 16}}{{random.hex 16}}").expect("two draws");
    assert_ne!(two[..16], two[16..], "each field draws for itself");
}

#[test]
fn names_the_environment_variables_of_a_text() {
    for (text, names) in [
        ("{{env A}}{{ env  B | json}}{{token}}", &["A", "B"][..]),
        ("{{a|hmac-sha256 env C base64}}{{a | append env D|jwt  env E }}", &["C", "D", "E"]),
        ("{{\"{{env A}}\"}} {{environment}} env C {{env D", &[]),
    ] {
        assert_eq!(Template::environment(text.as_bytes()), names, "{text}");
    }
}

#[test]
fn rejects_malformed_templates_with_the_position() {
    for (text, at, what) in [
        ("ab{{token", 2, "'{{' is not followed by '}}'"),
        ("{{'}}", 0, "'{{' is not followed by '}}'"),
        ("ab{{ tokn }}", 5, "'tokn' is unknown; known names: token, empty-1, users.mail, "),
        ("{{env NO_KEY}}", 2, "the environment variable 'NO_KEY' is not set"),
        ("{{}}", 2, "the field is empty; known names: token"),
        ("{{users.name}}", 2, "'users' has no column 'name'; its columns are: mail, first name"),
        ("{{user.mail}}", 2, "'user.mail' is unknown; known names: "),
        ("{{random.int 1}}", 2, "write 'random.int LOW HIGH'"),
        ("{{counter a}}", 2, "'a' is not a whole number"),
        ("{{counter 1 0}}", 2, "with a step of 0, all requests"),
        ("{{counter 1 2 3}}", 2, "write 'counter [FROM [STEP]]'"),
        ("{{random}}", 2, "'random' is unknown; the random fields are: random.int LOW HIGH, "),
        ("{{token|}}", 2, "'' is not a known filter; use url, json, base64, path, append VALUE, "),
        ("{{request.host}}", 2, "'request.host' is unknown; write request.method, request.path"),
        ("{{token || url}}", 2, "'' is not a known filter"),
    ] {
        let error = Template::parse(text.as_bytes(), &scope(), &mut 0).expect_err(text);
        assert_eq!(error.at, at, "{text}: {}", error.what);
        assert!(error.what.starts_with(what), "{text}: {}", error.what);
        assert!(!error.what.contains('\n'));
    }
    let error = Template::parse(b"{{\xff}}", &scope(), &mut 0).expect_err("no text");
    assert_eq!(error.what, "the field is not UTF-8 text");
}

proptest! {
    /// Text without fields is unchanged, and quoting preserves any text.
    #[test]
    fn preserves_text_outside_fields(text in "[a{}\"' |.é]{0,12}") {
        let mut parts = text.split("{{");
        let first = parts.next().unwrap_or("").to_owned();
        let quoted = parts.fold(first, |all, part| all + "{{\"{{\"}}" + part);
        // A brace before the quoted ones would join them.
        prop_assume!(!text.contains("{{{"));
        prop_assert_eq!(filled(&quoted), Ok(text));
    }

    /// An escaped text stands for itself in any template.
    #[test]
    fn escaped_text_has_no_fields(text in "[a{}\"' |.é]{0,16}") {
        let mut escaped = Vec::new();
        Template::escape(text.as_bytes(), &mut escaped);
        let escaped = String::from_utf8(escaped).expect("text");
        prop_assert_eq!(filled(&format!("<{escaped}>{{{{token}}}}")), Ok(format!("<{text}>t&1")));
    }

    /// Parsing ends for any text, and the position of an error is inside it.
    #[test]
    fn any_text_is_a_template_or_refused(text in "[a{}\"'|. ]{0,30}|.{0,20}") {
        if let Err(error) = Template::parse(text.as_bytes(), &scope(), &mut 0) {
            prop_assert!(error.at <= text.len());
            prop_assert!(!error.what.is_empty());
        }
    }
}
