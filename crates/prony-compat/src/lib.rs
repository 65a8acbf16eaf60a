//! Command lines, output and exit codes of older tools, on prony's engine. A tool is called as
//! `prony NAME ...`, or by its name through a link to prony. Like any other front end, each
//! compiles
//! its command line to a plan.

mod ab;
mod ace;
mod getopt;
mod h2load;
mod htstress;
mod httperf;
mod idleconn;
mod patience;
mod plan;
mod printf;
mod strto;
mod tap;
mod wrk;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

#[cfg(any(test, feature = "fuzzing"))]
pub use httperf::fuzzing;
use prony_base::plain::{Sink, plain};
use prony_base::secret::HIDDEN;
use prony_io::SetupError;
use prony_stats::summary::CommandLine;

use prony_run::error::Error;
use prony_run::output;
use prony_run::run::Provenance;

/// The tools that prony can replace.
const ALL: &[(&str, Act)] = &[
    // One per line.
    ("SOCK_SEQPACK_clt", ace::main),
    ("SOCK_SEQPACK_srv", ace::main),
    ("SOCK_STREAM_clt", ace::main),
    ("SOCK_STREAM_srv", ace::main),
    ("ab", ab::main),
    ("h2load", h2load::main),
    ("htstress", htstress::main),
    ("httperf", httperf::main),
    ("idleconn", idleconn::main),
    ("run_spectrum", ace::spectrum),
    ("run_spectrum.pl", ace::spectrum),
    ("wrk", wrk::main),
];

/// Runs a tool's command line. Returns the tool's exit code.
type Act = fn(&Call) -> u8;

/// How a tool was called.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool's name.
    pub tool: &'static str,
    /// The program's name for its messages: the first word as typed, or the tool's name if it was
    /// called as a command of prony.
    pub program: String,
    /// The words after it.
    pub args: Vec<String>,
    /// The whole command line.
    pub typed: Vec<String>,
}

impl Call {
    /// The origin of the plan, for reports.
    fn provenance(&self) -> Provenance {
        let command = CommandLine::new(self.typed.clone(), self.shown());
        Provenance { command, ..Provenance::default() }
    }

    /// The command line without secrets. The arguments of tools that save no command line are
    /// hidden completely.
    fn shown(&self) -> Vec<String> {
        let (program, args) = self.typed.split_at(self.typed.len() - self.args.len());
        let hidden = || if args.is_empty() { Vec::new() } else { vec![HIDDEN.to_owned()] };
        let args = match self.tool {
            "httperf" => httperf::shown::shown(args).unwrap_or_else(hidden),
            _ => hidden(),
        };
        program.iter().cloned().chain(args).collect()
    }
}

/// Whether prony can replace a tool with this name.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|(tool, _)| *tool == name)
}

/// Run the command line if it is that of an old tool. Returns the exit code; `None` if it is not.
pub fn main(command_line: &[OsString]) -> Option<u8> {
    let typed: Vec<String> =
        command_line.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let (act, call) = call(ALL, typed)?;
    Some(act(&call))
}

/// The host and the resolver's message, if a run cannot start because a name did not resolve.
fn unresolved(e: &Error) -> Option<(&str, &str)> {
    match e {
        Error::Setup(SetupError::Resolve { host, error }) => Some((host, error)),
        _ => None,
    }
}

/// Print and flush, so that readers of a pipe see the text at once.
fn say(text: &str) {
    if !text.is_empty() {
        // A closed standard output does not end a run.
        let _ = output::to_stdout(plain(text, Sink::Lines).as_bytes());
    }
}

/// A copy of the traffic as it is shown: its bytes, but on a terminal and in the log of a build
/// server its lines as they may be shown there.
fn copied(bytes: &[u8], to_terminal: bool) -> Cow<'_, [u8]> {
    const BUILD: [&str; 4] = ["CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !to_terminal && !BUILD.iter().any(is_set) {
        return Cow::Borrowed(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    Cow::Owned(plain(&text, Sink::Lines).into_owned().into_bytes())
}

/// The command line of an old tool as recorded in reports; `None` if it is not one.
pub fn recorded(words: &[String]) -> Option<CommandLine> {
    let (_, call) = call(ALL, words.to_vec())?;
    Some(call.provenance().command)
}

fn call<A: Copy>(all: &[(&'static str, A)], typed: Vec<String>) -> Option<(A, Call)> {
    let find = |name: &str| all.iter().find(|(tool, _)| *tool == name);
    let first = typed.first()?;
    let base = Path::new(first).file_name().map(|n| n.to_string_lossy().into_owned());
    let (tool, act, program, skip) = match base.as_deref().and_then(find) {
        Some(&(tool, act)) => (tool, act, first.clone(), 1),
        None => {
            let &(tool, act) = find(typed.get(1)?)?;
            (tool, act, tool.to_owned(), 2)
        }
    };
    Some((act, Call { tool, program, args: typed[skip..].to_vec(), typed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_called_by_command_or_by_link() {
        let check = |line: &str| {
            let typed = line.split(' ').map(str::to_owned).collect();
            let all = [("htstress", ()), ("ab", ())];
            call(&all, typed).map(|((), c)| format!("{}: {} {:?}", c.tool, c.program, c.args))
        };
        assert_eq!(check("prony htstress -n 5"), Some(r#"htstress: htstress ["-n", "5"]"#.into()));
        assert_eq!(check("/usr/bin/ab -n 5"), Some(r#"ab: /usr/bin/ab ["-n", "5"]"#.into()));
        assert_eq!(check("./ab"), Some("ab: ./ab []".into()));
        for other in ["prony", "prony http://ab/", "prony -n 5 ab", "/usr/bin/prony load ab"] {
            assert_eq!(check(other), None, "{other}");
        }
    }

    #[test]
    fn command_lines_are_recorded_without_secrets() {
        let check = |line: &str| {
            let words: Vec<String> = line.split('|').map(str::to_owned).collect();
            let mut command = recorded(&words).expect("an old tool's");
            command.hide();
            command.words().join("|")
        };
        for (line, shown) in [
            (
                "prony|httperf|--add-header|X: pw\\n|--num-con=5|--output|a.json",
                "prony|httperf|--add-header=(hidden)|--num-conns=5|--output=a.json",
            ),
            ("httperf|--add-h=X: pw|--hog", "httperf|--add-header=(hidden)|--hog"),
            ("httperf|--uri=/a?b=pw", "httperf|--uri=/a?b=(hidden)"),
            ("httperf|--uri|/a|--hog", "httperf|--uri|/a|--hog"),
            ("httperf|--method|GET|--wset=1,0", "httperf|--method|GET|--wset=1,0"),
            ("ab|-A|me:pw|http://h/", "ab|(hidden)"),
            ("prony|wrk|-H|X: pw|http://h/", "prony|wrk|(hidden)"),
        ] {
            assert_eq!(check(line), shown, "{line}");
            assert_eq!(check(shown), shown, "once more");
        }
    }
}
