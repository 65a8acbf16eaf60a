//! Keeps `docs/options.md` equal to the options.

use std::fmt::Write as _;
use std::{env, fs};

use clap::{Arg, Command, CommandFactory as _};
use prony_run::exit::Exit;

use super::Cli;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");

/// The option tables of all commands.
fn tables() -> String {
    let mut command = Cli::command();
    command.build();
    let of_load = table("prony URL...", &command, "");
    let mut text = of_load.clone();
    for sub in command.get_subcommands().filter(|c| c.get_name() != "load") {
        let of_loads = ["replay", "llm", "capacity", "compare"].contains(&sub.get_name());
        let shared = if of_loads { &of_load[..] } else { "" };
        text += &table(&format!("prony {}", sub.get_name()), sub, shared);
    }
    text
}

/// The tables of a command. Rows that are in `shared` are only named.
fn table(title: &str, command: &Command, shared: &str) -> String {
    let mut text = format!("\n## `{title}`\n\n{}.\n", command.get_about().unwrap_or_default());
    let args: Vec<_> = command.get_arguments().filter(|a| !a.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    let (mut same, mut tables) = (Vec::new(), String::new());
    for heading in headings {
        let args = args.iter().filter(|a| a.get_help_heading() == heading);
        let (as_of_load, own): (Vec<_>, Vec<_>) =
            args.partition(|arg| !shared.is_empty() && shared.contains(&row(arg)));
        same.extend(as_of_load.into_iter().map(name));
        if !own.is_empty() {
            let name = heading.unwrap_or("other").to_lowercase();
            let _ = write!(tables, "\n| {name} | meaning | default |\n|---|---|---|\n");
            tables.extend(own.into_iter().map(row));
        }
    }
    if !same.is_empty() {
        let _ = writeln!(text, "\nAs of `prony URL...`: {}.", same.join(", "));
    }
    text + &tables
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut help = help.map(ToString::to_string).unwrap_or_default().replace("\n\n", ". ");
    // The help text contains a default that is not a fixed value.
    let default = match help.split_once(" [default: ") {
        Some((head, rest)) => {
            let (default, tail) = rest.split_once(']').expect("the default ends with a bracket");
            let default = default.to_owned();
            help = format!("{head}{tail}");
            default
        }
        None => {
            let value = arg.get_default_values().first().map(|v| v.to_string_lossy());
            let shown = value.filter(|_| arg.get_action().takes_values());
            shown.map(|v| format!("`{v}`")).unwrap_or_default()
        }
    };
    let possible = arg.get_possible_values();
    let possible = if arg.get_action().takes_values() && !possible.is_empty() {
        let names: Vec<_> = possible.iter().map(|v| format!("`{}`", v.get_name())).collect();
        let several_sentences = help.contains(". ");
        let lead = if several_sentences { ". One of" } else { ":" };
        format!("{lead} {}", names.join(", "))
    } else {
        String::new()
    };
    format!(
        "| {} | {}{possible} | {default} |\n",
        name(arg),
        help.trim_end_matches('.').replace('|', "\\|")
    )
}

/// The option with all its names and its value.
fn name(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default().first();
    let value = value.filter(|_| arg.get_action().takes_values());
    if arg.is_positional() {
        return format!("`{}`", value.map_or("", |v| v.as_str()));
    }
    let short = arg.get_short().map(|c| format!("-{c}"));
    let aliases = arg.get_visible_short_aliases().unwrap_or_default();
    let aliases = aliases.into_iter().map(|c| format!("-{c}"));
    let long = arg.get_long().into_iter().chain(arg.get_visible_aliases().unwrap_or_default());
    let long = long.map(|l| format!("--{l}"));
    let names: Vec<_> = short.into_iter().chain(aliases).chain(long).collect();
    let value = value.map(|v| format!(" {v}")).unwrap_or_default();
    format!("`{}{value}`", names.join("`, `"))
}

fn exits() -> String {
    let mut text = String::from("\n| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text
}

/// The page, with the text between two markers replaced.
fn replaced(page: &str, what: &str, new: &str) -> String {
    let (start, end) = (format!("<!-- {what}: begin -->"), format!("<!-- {what}: end -->"));
    let (head, rest) = page.split_once(&start).expect("the start marker exists");
    let (_, tail) = rest.split_once(&end).expect("the end marker exists");
    format!("{head}{start}\n{new}\n{end}{tail}")
}

#[test]
fn options_in_the_docs() {
    let page = fs::read_to_string(PAGE).expect("docs/options.md exists");
    let wanted = replaced(&replaced(&page, "options", &tables()), "exits", &exits());
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(PAGE, &wanted).expect("docs/options.md is writable");
    } else {
        assert!(page == wanted, "docs/options.md is outdated; run with UPDATE_GOLDEN=1");
    }
}

#[test]
fn help_lists_every_exit_code() {
    let help = Cli::command().render_long_help().to_string();
    for exit in Exit::ALL {
        let line = format!("  {:<4} {}", exit.code(), exit.meaning());
        assert!(help.contains(&line), "{line}\n{help}");
    }
}
