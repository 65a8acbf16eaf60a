//! Shell completions and manual pages, generated from the options.

use std::io;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use prony_run::error::Error;

use crate::cli::{Cli, refusal};

/// The completion script of a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let command = Cli::command().mut_args(completed);
    let mut command = command.mut_subcommands(|sub| sub.mut_args(completed));
    clap_complete::generate(shell, &mut command, "prony", &mut script);
    script
}

/// The names of values that are files.
const FILES: [&str; 3] = ["FILE", "PATH", "DIR"];

/// An option for the generator, which would offer files wherever it knows no values.
fn completed(arg: Arg) -> Arg {
    let option = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let is_flag = !arg.get_action().takes_values();
    if let Some(words) = refusal::words_of(&option).filter(|_| !is_flag) {
        return arg.value_parser(PossibleValuesParser::new(words));
    }
    let mut names = arg.get_value_names().into_iter().flatten();
    let is_file = arg.is_positional() || names.any(|name| FILES.contains(&name.as_str()));
    let is_known = is_flag || is_file || !arg.get_possible_values().is_empty();
    if is_known { arg } else { arg.value_hint(ValueHint::Other) }
}

/// The manual page of a command, or of prony itself, in roff.
pub(super) fn man(page: Option<&str>) -> Result<Vec<u8>, Error> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = page {
        let Some(sub) = command.find_subcommand(name) else {
            let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            return Err(Error::Value {
                what: "man",
                value: name.into(),
                why: format!("unknown command; use one of {}", known.join(", ")),
            });
        };
        // The generated usage of a command lists all its options.
        let operands = sub.get_positionals().map(|arg| format!(" {arg}")).collect::<String>();
        command = sub.clone().override_usage(format!("prony {name} [OPTIONS]{operands}"));
    }
    render(command.mut_args(with_aliases), page.is_some()).map_err(Error::Stdout)
}

/// The generator of the pages leaves out the other letters of an option.
fn with_aliases(arg: Arg) -> Arg {
    let letters = arg.get_visible_short_aliases().unwrap_or_default();
    if letters.is_empty() {
        return arg;
    }
    let letters: Vec<String> = letters.into_iter().map(|letter| format!("-{letter}")).collect();
    let help = arg.get_long_help().or_else(|| arg.get_help()).cloned().unwrap_or_default();
    let help = format!("{help}\n\nThe same as {}.", letters.join(", "));
    arg.long_help(help)
}

fn render(command: Command, is_sub: bool) -> io::Result<Vec<u8>> {
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let page = Man::new(command)
        .date("")
        .source(concat!("prony ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if !is_sub {
        page.render_subcommands_section(&mut text)?;
    }
    text.extend(sections(&help).into_bytes());
    if is_sub {
        text.extend_from_slice(b".SH SEE ALSO\nprony(1)\n");
    }
    Ok(text)
}

/// The sections of the text after the options, in the usual order of manual pages.
fn sections(help: &str) -> String {
    let [mut notes, mut status, mut examples] = [const { String::new() }; 3];
    for paragraph in help.split("\n\n").filter(|p| !p.is_empty()) {
        let (section, body) = match paragraph.split_once(':') {
            Some(("Examples", body)) => (&mut examples, body),
            Some(("Exit codes", body)) => (&mut status, body),
            _ => (&mut notes, paragraph),
        };
        // Keep the layout of lists.
        let is_list = body.lines().any(|line| line.starts_with("  "));
        section.push_str(if is_list { ".PP\n.nf\n" } else { ".PP\n" });
        let body = if is_list { body.trim_matches('\n') } else { body.trim() };
        for line in body.lines() {
            section.push_str(&escaped(line));
            section.push('\n');
        }
        section.push_str(if is_list { ".fi\n" } else { "" });
    }
    let all = [("NOTES", notes), ("EXIT STATUS", status), ("EXAMPLES", examples)];
    let all = all.into_iter().filter(|(_, text)| !text.is_empty());
    all.map(|(heading, text)| format!(".SH {heading}\n{text}")).collect()
}

/// A line of text in roff.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(command: &Command) -> Vec<String> {
        let args = command.get_arguments().filter(|a| !a.is_hide_set());
        args.filter_map(|a| a.get_long()).map(str::to_owned).collect()
    }

    #[test]
    fn completions_offer_values_and_files_only_where_they_fit() {
        let script = String::from_utf8(completions(Shell::Bash)).unwrap();
        let offered = |option: &str| {
            let load = script.split("prony__subcmd__load)").nth(1).expect("the command load");
            let cases = load.split(&format!("                --{option})")).nth(1);
            let case = cases.unwrap_or_else(|| panic!("--{option}")).split("return 0").next();
            let values = case.unwrap().lines().nth(1).expect("the values");
            values.trim().to_owned()
        };
        assert!(offered("output").contains("compgen -f"), "{}", offered("output"));
        assert!(offered("arrivals").contains("-W \"fixed poisson"), "{}", offered("arrivals"));
        assert_eq!(offered("rate"), "COMPREPLY=(\"${cur}\")");
    }

    #[test]
    fn manual_pages_contain_the_other_letters_of_options() {
        for page in [None, Some("load"), Some("rtt")] {
            let page = String::from_utf8(man(page).unwrap()).unwrap().replace("\\-", "-");
            assert!(page.contains("The same as -z.") && page.contains("The same as -R."), "{page}");
        }
        let page = String::from_utf8(man(None).unwrap()).unwrap().replace("\\-", "-");
        assert!(page.contains("The same as -X."), "{page}");
    }

    fn commands() -> Vec<(Option<String>, Vec<String>)> {
        let mut command = Cli::command();
        command.build();
        let mut all = vec![(None, visible(&command))];
        all.extend(command.get_subcommands().map(|c| (Some(c.get_name().to_owned()), visible(c))));
        all
    }

    #[test]
    fn completion_scripts_contain_every_option() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(completions(shell)).unwrap();
            for (command, options) in commands() {
                for option in options {
                    assert!(script.contains(&option), "{shell}: {command:?} --{option}");
                }
            }
        }
    }

    #[test]
    fn manual_pages_contain_every_option() {
        for (command, options) in commands() {
            let page = String::from_utf8(man(command.as_deref()).unwrap()).unwrap();
            let plain = page.replace("\\-", "-");
            for option in options {
                assert!(plain.contains(&format!("--{option}")), "{command:?} --{option}");
            }
            assert!(!plain.contains("--clock-offset"), "{command:?}");
        }
    }

    #[test]
    fn manual_pages_have_the_usual_sections() {
        let headings = |name: Option<&str>| {
            let page = String::from_utf8(man(name).unwrap()).unwrap();
            let lines = page.lines().filter_map(|line| line.strip_prefix(".SH "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let prony = headings(None);
        assert_eq!(prony[..3], ["NAME", "SYNOPSIS", "DESCRIPTION"], "{prony:?}");
        assert_eq!(prony[prony.len() - 3..], ["NOTES", "EXIT STATUS", "EXAMPLES"], "{prony:?}");
        let rtt = headings(Some("rtt"));
        assert_eq!(rtt[rtt.len() - 3..], ["NOTES", "EXAMPLES", "SEE ALSO"], "{rtt:?}");
        assert_eq!(sections("Exit codes: 0 a-b;\n1 c"), ".SH EXIT STATUS\n.PP\n0 a\\-b;\n1 c\n");
        assert_eq!(escaped(".\\"), "\\&.\\e");
    }

    #[test]
    fn rejects_unknown_pages() {
        expect_test::expect!["man `lod`: unknown command; use one of load, llm, capacity, run, check, import, record, compare, replay, report, merge, worker, ray-job, serve, rtt, spectrum, echo, selftest, demo, help, terms, completions, man"]
        .assert_eq(&man(Some("lod")).unwrap_err().to_string());
    }
}
