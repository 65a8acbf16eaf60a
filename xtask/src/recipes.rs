//! `cargo xtask recipes`: the recipes of CONTRIBUTING.md are patches, which must still do what they
//! say.
//!
//! Each is applied to a copy of the tree in the target folder, which is compiled there, and its
//! checks run. The copy stays, so that the next time only what has changed is compiled.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, program, run, target_dir};
use crate::tidy::listed_files;

/// The folder of the patches.
const FOLDER: &str = "docs/recipes";

/// A recipe.
struct Recipe {
    /// The name of its patch, without `.patch`.
    name: &'static str,
    checks: &'static [Check],
    /// A test of prony that must pass with the patch: its program, and a word of its name.
    test: Option<(&'static str, &'static str)>,
}

/// What prony does with the patch, and not without it.
struct Check {
    /// The words after `prony`.
    args: &'static [&'static str],
    /// What it reads from standard input.
    input: &'static str,
    /// What its output contains.
    shows: &'static str,
}

const RECIPES: [Recipe; 2] = [FIGURE, OPTION];

const FIGURE: Recipe = Recipe {
    name: "figure",
    checks: &[
        Check {
            args: &[
                "http://host/",
                "--rate",
                "1k",
                "-d",
                "1s",
                "--simulate",
                "1",
                "--format",
                "json",
            ],
            input: "",
            shows: "\"before_send\": {\"count\":1,",
        },
        Check {
            args: &["http://host/", "--rate", "1k", "-d", "1s", "--simulate", "1", "-v"],
            input: "",
            shows: "  before send   100 us",
        },
        Check {
            args: &[
                "http://host/",
                "--rate",
                "1k",
                "-d",
                "1s",
                "--simulate",
                "1",
                "--threshold",
                "before-send.max < 1s",
            ],
            input: "",
            shows: "before-send.max < 1s",
        },
        Check { args: &["terms", "before send"], input: "", shows: "formula: sent - intended" },
    ],
    test: Some(("report", "kinds")),
};

const OPTION: Recipe = Recipe {
    name: "option",
    checks: &[
        Check { args: &["help", "http2"], input: "", shows: "--opening-ping" },
        Check {
            args: &["https://host/", "--http2", "--opening-ping", "--explain"],
            input: "",
            shows: "\nopening-ping = true\n",
        },
        Check {
            args: &["run", "-", "--explain"],
            input: "url = \"https://host/\"\nhttp = \"2\"\n[http2]\nopening-ping = true\n",
            shows: "\nopening-ping = true\n",
        },
        Check {
            args: &["check", "-"],
            input: "url = \"https://host/\"\nhttp = \"2\"\n[http2]\nopening-pong = true\n",
            shows: ":4:1: [http2] has no key `opening-pong`; did you mean `opening-ping`?",
        },
        Check {
            args: &["https://host/", "--opening-ping"],
            input: "",
            shows: "--opening-ping needs --http 2: it is an option of HTTP/2",
        },
        Check {
            args: &["http://host/", "--h2c", "--opening-ping", "-n", "100", "--simulate", "1"],
            input: "",
            shows: "100 replies",
        },
    ],
    test: None,
};

/// `cargo xtask recipes`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    if let Some(unknown) = args.iter().find(|arg| RECIPES.iter().all(|r| r.name != **arg)) {
        let names: Vec<&str> = RECIPES.iter().map(|r| r.name).collect();
        bail!("no recipe `{unknown}`; there are {}", names.join(", "));
    }
    let chosen = |recipe: &&Recipe| args.is_empty() || args.iter().any(|arg| arg == recipe.name);
    let target = target_dir()?;
    let tree = target.join("recipes/tree");
    for recipe in RECIPES.iter().filter(chosen) {
        copy_tree(&tree)?;
        apply(recipe.name, &tree)?;
        let prony = compile(&tree, &target)?;
        if let Some((program, word)) = recipe.test {
            let mut test = prony_of(&tree, &target, "test");
            run(test.arg("--test").arg(program).arg(word))?;
        }
        for check in recipe.checks {
            check.run(&prony).with_context(|| format!("{FOLDER}/{}.patch", recipe.name))?;
        }
        println!("recipes: {}: {} checks", recipe.name, recipe.checks.len());
    }
    Ok(())
}

/// Makes the folder a copy of the files in this tree. Files that are the same keep their times, by
/// which cargo knows what to compile.
fn copy_tree(tree: &Path) -> Result<()> {
    let files = listed_files()?;
    let mut known = HashSet::new();
    for file in files.iter().map(Path::new).filter(|file| file.is_file()) {
        let copy = tree.join(file);
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        if fs::read(&copy).ok().as_ref() != Some(&text) {
            let folder = copy.parent().context("a file has a folder")?;
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&copy, text));
            written.with_context(|| format!("cannot write {}", copy.display()))?;
        }
        known.insert(copy);
    }
    remove_others(tree, &known)
}

/// Removes the files of a folder that are not known.
fn remove_others(folder: &Path, known: &HashSet<PathBuf>) -> Result<()> {
    let failed = || format!("cannot clear {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) {
            fs::remove_file(&path).with_context(failed)?;
        }
    }
    Ok(())
}

/// Applies a patch to the copy. One line around each change must be as it was.
fn apply(name: &str, tree: &Path) -> Result<()> {
    let patch = Path::new(FOLDER).join(name).with_extension("patch");
    let patch = fs::canonicalize(&patch).with_context(|| format!("no {}", patch.display()))?;
    let mut git = program("git", &["apply", "-C1"]);
    // The copy is in no repository: git would apply nothing to ignored files.
    let above = tree.parent().context("the copy has a folder")?;
    git.current_dir(tree).env("GIT_CEILING_DIRECTORIES", above).arg(patch);
    run(&mut git).with_context(|| format!("{FOLDER}/{name}.patch is out of date"))
}

/// Compiles prony in the copy.
fn compile(tree: &Path, target: &Path) -> Result<PathBuf> {
    run(prony_of(tree, target, "build").arg("--bin=prony"))?;
    Ok(target.join("recipes/out/release/prony"))
}

/// Cargo for prony in the copy. What it compiles is in a folder of its own: cargo knows a crate by
/// its place in the workspace, so that it would take one of the copy for ours.
fn prony_of(tree: &Path, target: &Path, command: &str) -> Command {
    let mut build = cargo(&[command, "--locked", "--quiet", "--release", "--package=prony"]);
    build.arg("--features=grpc,parquet,tokenizer").args(["--config", ".cargo/inner.toml"]);
    build.arg("--target-dir").arg(target.join("recipes/out"));
    build.args(["--config", &format!("build.build-dir={:?}", target.join("recipes/build"))]);
    build.current_dir(tree);
    build
}

impl Check {
    fn run(&self, prony: &Path) -> Result<()> {
        let line = format!("prony {}", self.args.join(" "));
        let mut child = Command::new(prony)
            .args(self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {line}"))?;
        let mut input = child.stdin.take().context("no standard input")?;
        // It need not read it.
        let _ = input.write_all(self.input.as_bytes());
        drop(input);
        let out = child.wait_with_output().with_context(|| format!("cannot run {line}"))?;
        let text = [out.stdout, out.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if !text.contains(self.shows) {
            bail!("{line} does not show {:?}:\n{text}", self.shows);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_is_a_recipe_with_checks() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FOLDER);
        let files = fs::read_dir(folder).expect("the folder");
        let mut names: Vec<String> = files
            .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
            .filter_map(|name| Some(name.strip_suffix(".patch")?.to_owned()))
            .collect();
        names.sort_unstable();
        assert_eq!(names, RECIPES.map(|recipe| recipe.name));
        assert!(RECIPES.iter().all(|recipe| !recipe.checks.is_empty()));
    }
}
