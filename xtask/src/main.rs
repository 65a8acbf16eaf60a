//! Automation for prony. Every check and measurement is a subcommand, so that people and the build
//! server run the same commands.

mod bars;
mod bench;
mod built;
mod ci;
mod decisions;
mod inner;
mod instructions;
mod licenses;
mod neighbor;
mod night;
mod options;
mod pictures;
mod python;
mod recipes;
mod sctp;
mod server;
mod shell;
mod soak;
mod spelling;
mod tidy;
mod truth;
mod verdicts;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask ci [--full] [--list] [STEP...]
                                       the gate, or with --full all checks; or only the named steps
cargo xtask test FILE|CRATE [WORD]     the tests of one file or crate, compiled quickly
cargo xtask times PROGRAM [WORD]       how long each test of a test program takes
cargo xtask tidy [--update | --graph | --words]
                                       the rules of the tree; --update lowers the ratchets, --graph
                                       prints the imports of each module and the import cycles,
                                       --words lists the retired words
cargo xtask licenses                   licenses of all dependencies
cargo xtask spelling [--write]         the spelling of every file; --write corrects it
cargo xtask options                    docs/options.md against --help
cargo xtask recipes [NAME...]          the recipes of CONTRIBUTING.md: their patches, applied to a copy
cargo xtask instructions [--update]    instructions per request; --update records new figures
cargo xtask stubs [--update]           the keywords of the Python package against the options
cargo xtask sctp [FILTER]              the tests that need SCTP, in a virtual machine that has it
cargo xtask truth                      known delays, measured in a virtual machine
cargo xtask bars [RUNS [SEED]]         how often confidence intervals contain the true figure
cargo xtask verdicts [--program FILE] [--quick | --only WORD]
                                       runs with a known fault: none may be VALID
cargo xtask soak [--list] [--shard K/N | --sample N [--in MODULE]] [STEP...]
                                       the checks that take hours
cargo xtask pictures [PRONY]           the pictures of the README, from a real run of 70 s
cargo xtask wheel [--profile NAME] [--sdist] [--no-tests]
                                       the Python package: built, installed and tested
cargo xtask hosts [--profile NAME]     runs on several hosts with Ray: a cluster in this machine
cargo xtask neighbor [RUNS [SEED]]     the end-to-end tests beside a program that takes three quarters
                                       of each processor at random, RUNS times; records the results
cargo xtask bench ...                  the rig for measurements beside other tools
cargo xtask freeze                     what each installed tool reports of a server that freezes
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
    let Some((command, args)) = args.split_first() else { bail!("no command given\n{USAGE}") };
    match command.as_str() {
        "bars" => bars::main(args),
        "bench" => bench::main(args),
        "ci" => ci::main(args),
        "freeze" => bench::main(&[vec!["freeze".to_owned()], args.to_vec()].concat()),
        "hosts" => python::hosts(args),
        "instructions" => instructions::main(args),
        "licenses" => licenses::main(args),
        "neighbor" => neighbor::main(args),
        "options" => options::main(args),
        "pictures" => pictures::main(args),
        "recipes" => recipes::main(args),
        "sctp" => sctp::main(args),
        "spelling" => spelling::main(args),
        "soak" => soak::main(args),
        "stubs" => python::stubs(args),
        "test" => inner::main(args),
        "times" => ci::test_times(args),
        "tidy" => tidy::main(args),
        "truth" => truth::main(args),
        "verdicts" => verdicts::main(args),
        "wheel" => python::main(args),
        "help" | "-h" | "--help" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command `{other}`\n{USAGE}"),
    }
}
