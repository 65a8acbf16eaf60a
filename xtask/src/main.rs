//! Automation for prony: every check, measurement and chore is a subcommand, so that a person and
//! the build server type the same.

mod bars;
mod bench;
mod ci;
mod instructions;
mod licences;
mod options;
mod sctp;
mod server;
mod shell;
mod tidy;
mod truth;
mod verdicts;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask ci [--list] [STEP...]      every check there is, or only the named steps
cargo xtask tidy [--update | --graph]  the rules of the tree; --update lowers the ratchets, --graph
                                       prints which module imports which, and the circles
cargo xtask licences                   licences of all dependencies
cargo xtask options                    docs/options.md against --help
cargo xtask instructions [--update]    instructions per request; --update records new figures
cargo xtask sctp [FILTER]              the tests that need SCTP, in a guest that has it
cargo xtask truth                      known delays, measured in a guest with a virtual clock
cargo xtask bars [RUNS [SEED]]         how often confidence intervals hold the truth
cargo xtask verdicts [--quick | --only WORD]
                                       runs that are spoilt in known ways: none may be VALID
cargo xtask bench ...                  the rig for measurements beside other tools
cargo xtask freeze                     what each tool tells of a server that stands still
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    env::set_current_dir(root).with_context(|| format!("cannot enter {}", root.display()))?;
    let args: Vec<String> = env::args().skip(1).collect();
    let Some((command, args)) = args.split_first() else { bail!("say what to do:\n{USAGE}") };
    match command.as_str() {
        "bars" => bars::main(args),
        "bench" => bench::main(args),
        "ci" => ci::main(args),
        "freeze" => bench::main(&[vec!["freeze".to_owned()], args.to_vec()].concat()),
        "instructions" => instructions::main(args),
        "licences" => licences::main(args),
        "options" => options::main(args),
        "sctp" => sctp::main(args),
        "tidy" => tidy::main(args),
        "truth" => truth::main(args),
        "verdicts" => verdicts::main(args),
        "help" | "-h" | "--help" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("no subcommand `{other}`:\n{USAGE}"),
    }
}
