//! Old tools' command lines, output and exit codes, on prony's engine: `prony NAME ...`, or prony
//! called by that name through a link. Each compiles its command line to a plan like any other
//! front end.

mod ab;
mod ace;
mod getopt;
mod htstress;
mod httperf;
mod idleconn;
mod patience;
mod plan;
mod printf;
mod strto;
mod tap;
mod wrk;

use std::ffi::OsString;
use std::path::Path;

pub use httperf::fuzzing;
use prony_core::secret::HIDDEN;
use prony_core::summary::CommandLine;
use prony_io::SetupError;

use prony_run::error::Error;
use prony_run::output;
use prony_run::run::Provenance;

/// The tools whose place prony can take.
const ALL: &[(&str, Act)] = &[
    // One a line.
    ("SOCK_SEQPACK_clt", ace::main),
    ("SOCK_SEQPACK_srv", ace::main),
    ("SOCK_STREAM_clt", ace::main),
    ("SOCK_STREAM_srv", ace::main),
    ("ab", ab::main),
    ("htstress", htstress::main),
    ("httperf", httperf::main),
    ("idleconn", idleconn::main),
    ("run_spectrum", ace::spectrum),
    ("run_spectrum.pl", ace::spectrum),
    ("wrk", wrk::main),
];

/// What a personality does: it prints, and returns its tool's exit code.
type Act = fn(&Call) -> u8;

/// How a personality was called.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool's name.
    pub tool: &'static str,
    /// The program's name as its messages tell it: the first word as typed, or the tool's name
    /// where it is a command of prony's.
    pub program: String,
    /// The words after it.
    pub args: Vec<String>,
    /// The whole command line.
    pub typed: Vec<String>,
}

impl Call {
    /// What a report says of where the plan comes from.
    fn provenance(&self) -> Provenance {
        let command = CommandLine::new(self.typed.clone(), self.shown());
        Provenance { command, ..Provenance::default() }
    }

    /// The command line without secrets. Of the tools that save no command line, it is hidden as a
    /// whole.
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

/// Whether prony can take the place of a tool of that name.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|(tool, _)| *tool == name)
}

/// Do what an old tool's command line says, where it is one: its exit code.
pub fn main(command_line: &[OsString]) -> Option<u8> {
    let typed: Vec<String> =
        command_line.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let (act, call) = call(ALL, typed)?;
    Some(act(&call))
}

/// The host whose name has no address, and the resolver's words, where that is why there is no run.
fn unresolved(e: &Error) -> Option<(&str, &str)> {
    match e {
        Error::Setup(SetupError::Resolve { host, error }) => Some((host, error)),
        _ => None,
    }
}

/// Print at once: who watches through a pipe shall see it too.
fn say(text: &str) {
    if !text.is_empty() {
        // A reader that is gone does not end a run, and there is nobody to tell.
        let _ = output::to_stdout(text.as_bytes());
    }
}

/// An old tool's command line as a report keeps it; `None` where it is none.
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
