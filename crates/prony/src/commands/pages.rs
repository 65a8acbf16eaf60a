//! Shell completions and manual pages, out of the option table.

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use prony_run::error::Error;

use crate::cli::Cli;

/// The completion script of a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "prony", &mut script);
    script
}

/// The manual page of a command, or prony's own, in roff.
pub(super) fn man(page: Option<&str>) -> Result<Vec<u8>, Error> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = page {
        let Some(sub) = command.find_subcommand(name) else {
            let known: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
            return Err(Error::Value {
                what: "man",
                value: name.into(),
                why: format!("there is no such command; write one of {}", known.join(", ")),
            });
        };
        command = sub.clone();
    }
    let mut text = Vec::new();
    Man::new(command).render(&mut text).map_err(Error::Stdout)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(command: &clap::Command) -> Vec<String> {
        let args = command.get_arguments().filter(|a| !a.is_hide_set());
        args.filter_map(|a| a.get_long()).map(str::to_owned).collect()
    }

    fn commands() -> Vec<(Option<String>, Vec<String>)> {
        let mut command = Cli::command();
        command.build();
        let mut all = vec![(None, visible(&command))];
        all.extend(command.get_subcommands().map(|c| (Some(c.get_name().to_owned()), visible(c))));
        all
    }

    #[test]
    fn every_completion_script_names_every_option() {
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
    fn every_page_names_every_option_of_its_command() {
        for (command, options) in commands() {
            let page = String::from_utf8(man(command.as_deref()).unwrap()).unwrap();
            let plain = page.replace("\\-", "-");
            for option in options {
                assert!(plain.contains(&format!("--{option}")), "{command:?} --{option}");
            }
            assert!(!plain.contains("--simulate"), "{command:?}");
        }
    }

    #[test]
    fn an_unknown_page_is_refused() {
        expect_test::expect!["man `lod`: there is no such command; write one of load, run, check, report, serve, rtt, spectrum, echo, selftest, demo, completions, man"]
        .assert_eq(&man(Some("lod")).unwrap_err().to_string());
    }
}
