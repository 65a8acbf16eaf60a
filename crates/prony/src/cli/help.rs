//! The help by topics: what `prony -h` and `prony help` print. A topic is a heading of the options
//! of a load, which each option names where it is declared.

use std::collections::HashSet;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use prony_run::error::Error;

use super::names::{is_command, nearest};
use super::{
    CONNECTION, Cli, GRPC, HOSTS, HTTP2, LLM, LOAD, MEASUREMENT, MESSAGES, REQUEST, SIMULATION,
    STREAMS, WEBSOCKET, load_alone, output, tls,
};

/// The topics, and the headings of their options.
pub(super) const TOPICS: [(&str, &str); 14] = [
    ("load", LOAD),
    ("request", REQUEST),
    ("connection", CONNECTION),
    ("http2", HTTP2),
    ("grpc", GRPC),
    ("messages", MESSAGES),
    ("websocket", WEBSOCKET),
    ("streams", STREAMS),
    ("llm", LLM),
    ("tls", tls::TLS),
    ("measurement", MEASUREMENT),
    ("hosts", HOSTS),
    ("simulation", SIMULATION),
    ("output", output::OUTPUT),
];

/// The options of daily use, by their long names.
const DAILY: [&str; 21] = [
    "connections",
    "requests",
    "duration",
    "rate",
    "arrivals",
    "method",
    "header",
    "body",
    "content-type",
    "user",
    "http",
    "location",
    "insecure",
    "timeout",
    "warmup",
    "threshold",
    "until",
    "output",
    "json",
    "verbose",
    "quiet",
];
/// The commands of daily use; the others are only named.
const COMMANDS: [&str; 10] =
    ["run", "capacity", "compare", "report", "llm", "replay", "import", "record", "serve", "demo"];
/// The width of the screen.
const WIDTH: usize = 79;

/// Whether `prony help` has a topic of this name.
pub(super) fn is_topic(word: &str) -> bool {
    TOPICS.iter().any(|(name, _)| *name == word)
}

/// The IDs of the options of a load.
pub(super) fn shared_ids() -> HashSet<String> {
    load_alone().get_arguments().map(id).collect()
}

/// The ID of an option, which has dashes if a table declares it.
fn id(arg: &Arg) -> String {
    arg.get_id().as_str().replace('-', "_")
}

/// Hides in `-h` of a command what it shares with a load, but for the options of daily use.
pub(super) fn without_shared(command: Command, shared: &HashSet<String>) -> Command {
    command.mut_args(|arg| {
        let is_daily = arg.get_long().is_none_or(|long| DAILY.contains(&long));
        if !is_daily && shared.contains(&id(&arg)) { arg.hide_short_help(true) } else { arg }
    })
}

/// What `prony help TOPIC...` prints; without a topic, what `prony -h` does.
///
/// # Errors
/// There is no such topic.
pub(crate) fn page(topics: &[String]) -> Result<String, Error> {
    if topics.is_empty() {
        return Ok(screen());
    }
    let pages: Result<Vec<String>, Error> = topics.iter().map(|name| topic(name)).collect();
    Ok(pages?.join("\n"))
}

/// One screen: the commands and the options of daily use.
fn screen() -> String {
    let (command, load) = (Cli::command(), load_alone());
    let mut text = String::from(
        "A load generator and latency meter for network services.\n\n\
         Usage: prony [OPTIONS] URL...\n       prony COMMAND [OPTIONS]\n\nCommands:\n",
    );
    for name in COMMANDS {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "{}", cut(&format!("  {name:9} {about}")));
    }
    let all = command.get_subcommands().map(Command::get_name);
    let others: Vec<&str> = all.filter(|name| !COMMANDS.contains(name)).collect();
    text += &wrapped(&format!("Also: {}", others.join(", ")), "  ");
    text += "\nOptions:\n";
    for long in DAILY {
        let arg = load.get_arguments().find(|arg| arg.get_long() == Some(long));
        text += &arg.map(line).unwrap_or_default();
    }
    text += "\n";
    text += &wrapped(
        &format!(
            "`prony help TOPIC` has all options: {}. `prony help all` has everything, `prony \
             COMMAND -h` a command, `prony terms WORD` what a word of the report means.",
            TOPICS.map(|(name, _)| name).join(", ")
        ),
        "",
    );
    text
}

/// An option in one line.
fn line(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}, "));
    let short = short.unwrap_or_else(|| "    ".to_owned());
    let value = match arg.get_action().takes_values() {
        true => {
            arg.get_value_names().and_then(|names| names.first()).map(|name| format!(" {name}"))
        }
        false => None,
    };
    let name =
        format!("{short}--{}{}", arg.get_long().unwrap_or_default(), value.unwrap_or_default());
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split(" [default: ").next().unwrap_or_default();
    cut(&format!("  {name:23} {help}")) + "\n"
}

/// The line, cut at the end of a part of its sentence if it is too long.
fn cut(line: &str) -> String {
    let mut line = line;
    while line.chars().count() > WIDTH {
        let at = line.rfind(['.', ';', ',', ':', '(']).unwrap_or(WIDTH);
        line = line[..at].trim_end();
    }
    line.to_owned()
}

/// Lines that fit the screen, each after `margin`.
fn wrapped(text: &str, margin: &str) -> String {
    let mut out = String::new();
    let mut line = margin.to_owned();
    for word in text.split(' ') {
        let is_first = line.len() == margin.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += &line;
            out.push('\n');
            line = margin.to_owned();
        } else if !is_first {
            line.push(' ');
        }
        line += word;
    }
    out + &line + "\n"
}

fn topic(name: &str) -> Result<String, Error> {
    let found = TOPICS.into_iter().find(|(topic, _)| *topic == name);
    let Some((_, heading)) = found else {
        let topics = TOPICS.map(|(name, _)| name);
        let near = nearest(name, topics.into_iter()).map(|near| format!("did you mean '{near}'? "));
        return Err(Error::Argument(format!(
            "no topic '{}'; {}there are {} and all, and the commands, as in `prony help serve`",
            name.escape_debug(),
            near.unwrap_or_default(),
            topics.join(", ")
        )));
    };
    let of_topic = |arg: Arg| match arg.get_help_heading() == Some(heading) {
        true => arg.help_heading(None::<&str>),
        false => arg.hide(true),
    };
    let mut command = load_alone().help_template("{options}").mut_args(of_topic);
    let options = command.render_long_help().to_string();
    let more = match is_command(name) && name != "load" {
        true => format!("\n`prony {name} --help` has the command with all options.\n"),
        false => String::new(),
    };
    Ok(format!("{heading}:\n\n{}\n{more}", options.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each option says by its heading to which topic it belongs.
    #[test]
    fn every_option_of_a_load_belongs_to_one_topic() {
        let load = load_alone();
        let visible = load.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
        let mut seen = Vec::new();
        for arg in visible {
            let heading = arg.get_help_heading();
            let topics = TOPICS.iter().filter(|(_, topic)| heading == Some(topic));
            assert_eq!(topics.count(), 1, "{}: {heading:?}", arg.get_id());
            let long = arg.get_long().expect("a long name");
            let pages = TOPICS.iter().filter(|(name, _)| {
                let page = topic(name).expect("a topic");
                page.lines().any(|line| {
                    let is_option = line.starts_with("  -") || line.starts_with("      --");
                    let mut words = line.split([' ', ',', '[', '=']);
                    is_option && words.any(|word| word.trim_end_matches('.') == format!("--{long}"))
                })
            });
            assert_eq!(pages.count(), 1, "--{long}");
            seen.push(heading);
        }
        assert!(TOPICS.iter().all(|(_, topic)| seen.contains(&Some(*topic))));
        assert!(seen.len() > 120, "{}", seen.len());
    }

    #[test]
    fn the_short_help_is_one_screen() {
        let text = screen();
        for part in [
            "  -c, --connections N",
            "      --threshold",
            "  capacity",
            "completions",
            "prony terms",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(
            text.matches("\n  -").count() + text.matches("\n      --").count(),
            DAILY.len(),
            "{text}"
        );
        assert!(text.lines().count() <= 50, "{} lines\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn rejects_unknown_topics() {
        let why = page(&["http3".to_owned()]).unwrap_err().to_string();
        assert!(
            why.starts_with("no topic 'http3'; did you mean 'http2'? there are load, "),
            "{why}"
        );
    }
}
