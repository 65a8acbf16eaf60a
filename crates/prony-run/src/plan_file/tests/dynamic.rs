//! Tables, variables, templates and extracts in plan files.

use std::fs;

use expect_test::{Expect, expect};

use super::super::parse;
use super::{around, check, plan};

/// A directory with tables.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("users.csv", "\u{feff}id,first name\r\n7,Ann\r\n\n8,\"Zoë, \"\"B\"\"\"\r\n"),
        ("plain.csv", "7;Ann\n8;Bob\n"),
        ("ragged.csv", "a,b\n1,2\n1\n"),
        ("empty.csv", ""),
        ("head.csv", "a,b\n"),
        ("twice.csv", "a,a\n1,2\n"),
    ] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn reads_and_writes_dynamic_parts() {
    check(
        r#"
            url = "http://h"
            users = 1
            duration = "1s"
            [data.users]
            columns = ["id", "first name"]
            rows = [["7", "Ann"], [8, "B"]]
            pick = "random"
            [variables]
            me = "{{users.id}}-{{random.uuid}}"
            [[session]]
            request = [
              { path = "/login", extract = { token = { json = "/token" }, csrf = { header = "Set-Cookie", regex = 'csrf=([^;]+)', default = "" } } },
              { path = "/a", body = '{"t":"{{token | json}}"}', extract = { a = { regex = "x(.)" }, b = { between = ["<b>", "</b>"] } } },
              "DELETE /{{random.int 1 9}}/{{users.first name | url}}",
              { path = "/{{no-field}}", templates = false },
              "/{{me}}",
            ]
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h"
            users = 1
            duration = "1s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"

            [[session]]
            request = [
              { path = "/login", extract = { token = { json = "/token" }, csrf = { header = "Set-Cookie", regex = "csrf=([^;]+)", default = "" } } },
              { path = "/a", body = '{"t":"{{token | json}}"}', extract = { a = { regex = "x(.)" }, b = { between = ["<b>", "</b>"] } } },
              { path = "/{{random.int 1 9}}/{{users.first name | url}}", method = "DELETE" },
              { path = "/{{no-field}}", templates = false },
              "/{{me}}",
            ]

            [data.users]
            pick = "random"
            columns = ["id", "first name"]
            rows = [
              ["7", "Ann"],
              ["8", "B"],
            ]

            [variables]
            me = "{{users.id}}-{{random.uuid}}"
        "##]],
    );
}

#[test]
fn reads_tables_from_csv_files() {
    let folder = folder();
    let read = |keys: &str, path: &str| {
        let text = format!(
            "url = \"http://h\"\nduration = \"1s\"\nsession = [{{ request = [\"{path}\"] }}]\n\
             [data.t]\n{keys}\n"
        );
        let planned = parse("p", &text, Some(folder.path()), &around());
        planned.map(|p| p.plan.data.tables[0].clone())
    };
    let table = read("file = \"users.csv\"", "/{{t.id}}/{{t.first name | url}}").expect("a table");
    assert_eq!((table.rows(), table.columns()), (2, &["id".to_owned(), "first name".into()][..]));
    assert_eq!((table.cell(0, 1), table.cell(1, 1)), ("Ann", "Zoë, \"B\""));
    let keys = "file = \"plain.csv\"\nseparator = \";\"\ncolumns = [\"id\", \"name\"]";
    let table = read(keys, "/{{t.name}}").expect("a table");
    assert_eq!((table.rows(), table.cell(0, 0), table.cell(1, 1)), (2, "7", "Bob"));
    let reported = |keys: &str| {
        let sentences = read(keys, "/").expect_err("no table").join("\n");
        sentences.replace(&folder.path().display().to_string(), "DIR")
    };
    let all: Vec<_> = [
        "file = \"ragged.csv\"",
        "file = \"empty.csv\"",
        "file = \"head.csv\"",
        "file = \"twice.csv\"",
        "file = \"plain.csv\"\ncolumns = [\"a\", \"b\"]",
        "file = \"none.csv\"",
        "file = 1",
        "rows = [[\"1\"]]",
        "columns = [\"a\"]\nrows = [[\"1\"], [\"1\", \"2\"], 3, [true]]",
        "columns = [\"a\"]\nrows = []",
        "columns = [\"a\", \"a\"]\nrows = [[\"1\", \"2\"]]",
        "file = \"users.csv\"\npick = \"last\"\nseparator = \"ab\"\ncolumn = 1",
    ]
    .into_iter()
    .map(reported)
    .collect();
    expect![[r#"
        DIR/ragged.csv:3: the row has 1 cells, those before it 2
        DIR/empty.csv:1: the table has no rows
        DIR/head.csv:1: the table has no rows
        DIR/twice.csv:1: two columns are called 'a'
        DIR/plain.csv:1: row 1 has 1 cells, which is not one per column
        p:5:8: `file`: the file DIR/none.csv: cannot be read: no such file or directory
        p:5:8: `file` is a number, expected a file's name
        p:4:1: `t`: a table is [data.NAME] with file = "FILE.csv", with lines = "FILE", or with columns and rows
        p:6:16: the row has 2 cells, the table 1 columns
        p:6:28: `rows` is a number, expected an array of strings
        p:6:32: `rows` is true or false, expected a string
        p:6:8: the table has no rows
        p:4:1: two columns are called 'a'
        p:6:8: `pick`: 'last' is unknown; write "in-turn" or "random" or "unique"
        p:7:13: `separator` 'ab': write one character, as ";" or "\t"
        p:8:1: a table has no key `column`; did you mean `columns`?"#]]
    .assert_eq(&all.join("\n"));
}

fn refused(texts: &[&str], sentences: Expect) {
    let reported = texts.iter().map(|text| {
        let all = format!("url = \"http://h\"\nduration = \"1s\"\n{text}");
        match parse("p", &all, Some(std::path::Path::new("/nowhere")), &around()) {
            Ok(_) => format!("taken: {text}\n"),
            Err(sentences) => sentences.join("\n") + "\n",
        }
    });
    sentences.assert_eq(&reported.collect::<String>());
}

#[test]
fn reports_positions_of_template_errors() {
    refused(
        &[
            "session = [{ request = [\"/a\", \"/{{ nme }}\"] }]",
            "session = [{ request = [\"/{{a\", { path = \"/\", headers = { A = \"{{b}}\" } }] }]",
            "session = [{ request = [{ body = \"a\\n{{random.int 2 1}}\" }] }]",
            "session = [{ request = [{ path = \"/a b{{session}}\" }] }]",
            "session = [{ request = [{ bare = true, path = \"/{{x}}\", templates = true }] }]",
            "session = [{ request = [{ path = \"/{{session}}\", templates = 1 }] }]",
            "session = [{ request = [\"/{{v}}\", { extract = { v = { json = \"/v\" } } }] }]",
            "[[session]]\nrequest = [\"/\"]\n[variables]\na = \"{{b}}\"\nsession = \"x\"\nc = []",
            "session = [{ request = [\"/\"] }]\ndata = 1\nvariables = 2",
            "session = [{ request = [\"/\"] }]\ndata.session = { columns = [\"a\"], rows = [[\"1\"]] }",
            "session = [{ request = [\"/\"] }]\nvariables.1 = \"\"\nheaders = { A = \"{{x}}\" }",
            "session = [{ request = [\"/\"] }]\nvariables.ok = \"\"\nheaders = { A = \"{{x}}\" }",
            "[variables]\na = \"FILL-IN\"\nb = \"{{random.int 5}}\"\n\
             [[session]]\nrequest = [\n{ path = \"/c?c={{c}}\", headers = { A = \"{{d}}{{e}}\" } },\n\
             { path = \"/\", when = \"{{f}} = 3\" },\n\
             { path = \"/{{g}}\", extract = { c = 1, g = { json = \"g\" } } },\n]",
        ],
        expect![[r#"
            p:3:36: 'nme' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:3:27: '{{' is not followed by '}}'
            p:3:66: `A`: 'b' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:3:40: the bounds 2 and 1 are swapped
            p:3:37: ' ' cannot be sent here
            p:3:25: a `bare` request cannot be a template
            p:3:62: `templates` is a number, expected true or false
            p:3:25: 'v' has no value yet: no earlier request of the session extracts it
            p:7:1: `variables`: the name 'session' is reserved
            p:8:5: `c` is an array, expected a string
            p:4:8: `data` is a number, expected [data.NAME] with file = "FILE.csv", with lines = "FILE", or with columns and rows
            p:5:13: `variables` is a number, expected [variables] with name = "value"
            p:4:1: `data`: the name 'session' is reserved
            p:4:11: `variables`: '1' is not a valid name; use letters, digits, '_' and '-'
            p:5:20: `A`: 'x' is unknown; known names: ok, session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:4:5: `a` is still to be filled in: write its value instead of FILL-IN, or "{{env NAME}}" to read the environment
            p:5:8: `variables`: write 'random.int LOW HIGH'
            p:8:43: `A`: 'd' is unknown; known names: a, b, g, session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:8:48: `A`: 'e' is unknown; known names: a, b, g, session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:9:29: `when`: '=' is not an operator; write '==' to compare
            p:10:36: `c` is a number, expected { header = ... }, or with regex, json or between
            p:10:39: `extract`: 'g' is not a JSON pointer: write '/' before each key or index, as in '/items/0/id'
        "#]],
    );
}

#[test]
fn reports_positions_of_extract_errors() {
    let with = |extract: &str| format!("session = [{{ request = [{{ extract = {extract} }}] }}]");
    let texts = [
        "1",
        "{ v = 1 }",
        "{ v = {} }",
        "{ v = { json = \"/a\", regex = \"b\" } }",
        "{ v = { between = [\"a\"] } }",
        "{ v = { between = [\"a\", \"\"] } }",
        "{ v = { json = \"a\" } }",
        "{ v = { regex = \"a(\" } }",
        "{ v = { header = \"a b\" } }",
        "{ v = { jsn = \"a\" } }",
        "{ \"a b\" = { json = \"/a\" } }",
        "{ random = { json = \"/a\" } }",
    ]
    .map(with);
    refused(
        &texts.each_ref().map(String::as_str),
        expect![[r#"
        p:3:37: `extract` is a number, expected { variable = { header = ... }, ... }; or regex, json or between instead of header
        p:3:43: `v` is a number, expected { header = ... }, or with regex, json or between
        p:3:43: `v`: give the place of the value as header (optionally with regex), regex, json or between = ["before", "after"]
        p:3:43: `v`: give the place of the value as header (optionally with regex), regex, json or between = ["before", "after"]
        p:3:43: `v`: give the place of the value as header (optionally with regex), regex, json or between = ["before", "after"]
        p:3:39: `extract`: the texts around the value must not be empty
        p:3:39: `extract`: 'a' is not a JSON pointer: write '/' before each key or index, as in '/items/0/id'
        p:3:39: `extract`: invalid regular expression: unclosed group
        p:3:39: `extract`: the header name contains ' ' after 'a'; names have letters, digits and !#$%&'*+-.^_`|~
        p:3:43: `v`: give the place of the value as header (optionally with regex), regex, json or between = ["before", "after"]
        p:3:45: an extract has no key `jsn`; did you mean `json`?
        p:3:40: `extract`: 'a b' is not a valid name; use letters, digits, '_' and '-'
        p:3:39: `extract`: the name 'random' is reserved
    "#]],
    );
}

#[test]
fn session_files_in_httperf_format_have_no_templates() {
    let folder = folder();
    fs::write(folder.path().join("log"), "/a/{{x}} contents=\"{{\"\n").expect("a file");
    let text = "url = \"http://h\"\nduration = \"1s\"\nsession = \"log\"";
    let planned = parse("p", text, Some(folder.path()), &around()).expect("a plan");
    assert!(!planned.plan.calls[0].template);
    assert_eq!(planned.plan.calls[0].path, "/a/{{x}}");
    let plan = plan(&super::explain(&planned.plan, &[]));
    assert_eq!(plan, planned.plan);
}

/// Bytes in base64 have no fields, whatever they look like, unless they say so.
#[test]
fn bytes_stay_literal_in_templates() {
    let sent = |more: &str| {
        let code = "/3t7/3t7fX3/";
        let text = format!(
            "url = \"http://h\"\nsessions = 1\n[[session]]\nrequest = [\n\
             {{ path = \"/{{{{session}}}}\", body = {{ base64 = \"{code}\"{more} }} }},\n]\n"
        );
        let plan = parse("p", &text, None, &around())?.plan;
        let written = super::explain(&plan, &[]);
        assert_eq!(self::plan(&written), plan, "{written}");
        Ok::<_, Vec<String>>((plan.calls[0].body.clone(), written.contains("templates")))
    };
    let escaped = b"\xff{{\"{{\"}}\xff{{\"{{\"}}}}\xff";
    assert_eq!(sent("").expect("a plan"), (escaped.to_vec(), false));
    assert_eq!(sent(", templates = false").expect("a plan"), (escaped.to_vec(), false));
    let error = sent(", templates = true").expect_err("an end of the field is missing");
    assert!(error[0].contains("not UTF-8"), "{error:?}");
    // Without fields elsewhere, the request is no template.
    let text = "url = \"http://h\"\nrequests = 1\nrequest = [{ body = { base64 = \"/3t7\" } }]";
    let plan = plan(text);
    assert!(!plan.calls[0].template);
    assert_eq!(plan.calls[0].body, b"\xff{{");
    assert_eq!(self::plan(&super::explain(&plan, &[])), plan);
    // A body of bytes can have fields.
    let text = "url = \"http://h\"\nsessions = 1\n[[session]]\nrequest = [{ path = \"/\", body = \
                { base64 = \"/3t7c2Vzc2lvbn19\", templates = true } }]";
    let plan = self::plan(text);
    assert!(plan.calls[0].template);
    assert_eq!(plan.calls[0].body, b"\xff{{session}}");
    assert_eq!(self::plan(&super::explain(&plan, &[])), plan);
    // So can messages.
    let text = "url = \"ws://h\"\nsessions = 1\n[[session]]\nrequest = [{ open = \"/\" }, \
                { send = { base64 = \"/3t7\" }, binary = true }]";
    let plan = self::plan(text);
    assert!(!plan.calls[1].template);
    assert_eq!(self::plan(&super::explain(&plan, &[])), plan);
}

/// The path of a whole URL has fields as a path alone has them, with spaces in them.
#[test]
fn urls_have_fields() {
    let url = "http://other/a?b={{x | url}}&c={{x}}";
    let plan = plan(&format!(
        "url = 'http://h'\nusers = 1\nsessions = 1\n[variables]\nx = '1'\n[[session]]\n\
         request = ['/a', {{ url = '{url}' }}]"
    ));
    assert_eq!(plan.calls[1].path, url["http://other".len()..]);
    assert_eq!(&*plan.calls[1].authority, "other");
}
