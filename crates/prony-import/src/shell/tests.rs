use super::*;

fn commands(text: &str) -> Vec<Command> {
    let mut script = Script::new(text.as_bytes());
    let mut all = Vec::new();
    loop {
        let line = script.line().expect("a script");
        if line.is_empty() {
            return all;
        }
        all.extend(line);
    }
}

fn words(command: &Command) -> Vec<String> {
    let shown = |word: &Vec<u8>| word.escape_ascii().to_string();
    command.words.iter().map(shown).collect()
}

#[test]
fn separates_words() {
    let script = "# a comment\ncurl 'a b' \"c\\\"\\$d\\x\" \\\n -H $'x\\u0021\\n\\xe9' e\\ f # end\n\
                  \ncurl ''| jq . ; echo a&&b &\nc||d\n";
    let all = commands(script);
    let found: Vec<_> = all.iter().map(|c| (c.at, words(c).join(" "), c.follows)).collect();
    let wanted = [
        (2, "curl a b c\\\"$d\\\\x -H x!\\n\\xe9 e f", Follows::Always),
        (5, "curl ", Follows::Always),
        (5, "jq .", Follows::Pipe),
        (5, "echo a", Follows::Always),
        (5, "b", Follows::Always),
        (6, "c", Follows::Beside),
        (6, "d", Follows::Or),
    ];
    assert_eq!(found, wanted.map(|(at, words, follows)| (at, words.to_owned(), follows)));
    let error = |text: &str| {
        let mut script = Script::new(text.as_bytes());
        loop {
            match script.line() {
                Err(why) => return why,
                Ok(line) => assert!(!line.is_empty(), "no error"),
            }
        }
    };
    assert!(error("a\n'b").starts_with(":2: a word starts with '"));
    assert!(error("\"b").starts_with(":1: "));
    assert!(error("a $(b").starts_with(":1: a word starts with (, and there is no )"));
    let long = format!("a\ncurl{}", " b".repeat(WORDS));
    assert_eq!(error(&long), ":2: this command line has over 10,000 words");
    let braces = "curl x\ncurl {1..150}/{1..150}";
    assert_eq!(error(braces), ":2: this command line has over 10,000 words");
}

#[test]
fn variables_have_their_values() {
    let all = commands(
        "A='x  y' B=2\nexport C=3\nT=q curl $A \"$A\" ${B}c$C \"${N:-d}\" $N '$A' $(date) \\$A\n",
    );
    let curl = &all[1];
    assert_eq!(words(curl)[1..], ["x", "y", "x  y", "2c3", "d", "$N", "$A", "$(date)", "$A"]);
    assert_eq!(curl.environment, ["T"]);
    let odd = ["$N has no value in the file: it stays as it is", "a command in $(...) is not run"];
    assert_eq!(curl.odd, odd);
}

#[test]
fn commands_have_an_input() {
    let all = commands(
        "A=1\ncat <<E |\na$A \\$A \"\\\\\nE\ncurl - <<<\"b c\" >out 2>&1 &>/dev/null\n\
         curl <<-'E' x\n\t\t$A\n\tE\ncurl <f 2<g\ncurl <f <<E\nlast",
    );
    let found: Vec<_> = all.iter().map(|c| (words(c).join(" "), c.input.clone())).collect();
    let bytes = |text: &str| Input::Bytes(text.as_bytes().to_vec());
    let wanted = [
        ("cat", bytes("a1 $A \"\\\n")),
        ("curl -", bytes("b c\n")),
        ("curl x", bytes("$A\n")),
        ("curl", Input::File(b"f".to_vec())),
        ("curl", bytes("last")),
    ];
    assert_eq!(found, wanted.map(|(words, input)| (words.to_owned(), input)));
    assert_eq!(all[1].follows, Follows::Pipe);
}

#[test]
fn simple_programs_before_a_pipe_are_known() {
    for (text, wanted) in [
        ("echo a 'b  c'", Some("a b  c\n")),
        ("echo -n a", Some("a")),
        ("echo -e 'a\\n'", None),
        ("printf '%s=%s\\n' a b", Some("a=b\n")),
        ("printf '%s' a b", None),
        ("printf %d 1", None),
        ("cat f", Some("of f")),
        ("cat", Some("in")),
        ("jq .", None),
    ] {
        let command = &commands(text)[0];
        let file = |name: &[u8]| Some([b"of ", name].concat());
        let found = output(command, Some(b"in".to_vec()), file);
        assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{text}");
    }
}
