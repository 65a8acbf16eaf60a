//! Old tools' command lines, output and exit codes, on prony's engine: `prony NAME ...`, or prony
//! called by that name through a link. Each compiles its command line to a plan like any other
//! front end.

mod ab;
pub mod ace;
pub mod getopt;
mod htstress;
mod httperf;
mod idleconn;
mod pass_on;
mod patience;
mod plan;
pub mod printf;
mod strto;
mod tap;
mod wrk;

use std::ffi::OsString;
use std::path::Path;

pub use httperf::fuzzing;
use prony_core::secret::HIDDEN;

use crate::error::Error;
use crate::output;

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
    let Error::Setup(sentence) = e else { return None };
    let (host, why) = sentence.strip_prefix("host ")?.split_once(" does not resolve: ")?;
    Some((host, why.split_once("; ").map_or(why, |(why, _)| why)))
}

/// Print at once: who watches through a pipe shall see it too.
fn say(text: &str) {
    if !text.is_empty() {
        // A reader that is gone does not end a run, and there is nobody to tell.
        let _ = output::to_stdout(text.as_bytes());
    }
}

/// An old tool's command line as reports show it, without secrets; `None` where it is none. Of the
/// tools that save no command line, it is hidden as a whole.
pub(crate) fn shown(words: &[String]) -> Option<Vec<String>> {
    let (_, call) = call(ALL, words.to_vec())?;
    let (program, args) = words.split_at(words.len() - call.args.len());
    let hidden = || if args.is_empty() { Vec::new() } else { vec![HIDDEN.to_owned()] };
    let args = match call.tool {
        "httperf" => httperf::shown::shown(args).unwrap_or_else(hidden),
        _ => hidden(),
    };
    Some(program.iter().cloned().chain(args).collect())
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
}
