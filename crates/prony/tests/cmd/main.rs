//! Commands and their exact output. `TRYCMD=overwrite cargo test -p prony --test cmd` writes the
//! expectations anew.

#[test]
fn commands() {
    // Help is wrapped to the terminal, which a test has none of.
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .case("tests/cmd/*.trycmd")
        .run();
}
