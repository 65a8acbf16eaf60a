//! The Python package: `cargo xtask wheel` builds the wheel, installs it in a fresh virtual
//! environment, and tests it there; `cargo xtask hosts` tests it on a Ray cluster;
//! `cargo xtask stubs` keeps its keywords equal to the options.
//!
//! maturin, pytest and the type checkers come from PyPI, the schema of jobs for Kubernetes is in a
//! Go module. If they cannot be reached, `ci` skips what needs them and reports that at its end.
//! With `PRONY_CI_STRICT=1` that is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, TEST_PROFILE, cargo, program, run, strict, target_dir};

const USAGE: &str = "usage: cargo xtask wheel [--profile NAME] [--sdist] [--no-tests]";

/// What builds the wheel and checks its types.
const TOOLS: [&str; 3] = ["maturin>=1.16,<2", "mypy>=2,<3", "pyright[nodejs]==1.1.414"];
/// What the tests need, beside the wheel.
const OF_TESTS: [&str; 3] = ["pytest>=8,<10", "pandas>=2,<4", "matplotlib>=3.8,<4"];

/// What the tests with Ray need, beside the wheel.
const OF_HOSTS: [&str; 2] = ["pytest>=8,<10", "ray>=2.52,<3"];
/// The tests that need only Ray. Those that also run with the engine `local` have their twins in
/// crates/prony/tests/it/hosts.rs; `cargo xtask hosts` runs both.
const OF_RAY: [&str; 4] =
    ["python/tests_ray/test_contract.py", "python/tests_ray/test_ray_job.py", "-k", "not local"];

/// The Go module with KubeRay's own schema of its jobs, and where that is in it.
const KUBERAY: &str = "github.com/ray-project/kuberay/ray-operator@v1.6.0";
const SCHEMA: &str = "config/crd/bases/ray.io_rayjobs.yaml";

struct Settings {
    /// The program, if it is built already.
    program: Option<PathBuf>,
    profile: String,
    sdist: bool,
    tests: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { program: None, profile: "release".into(), sdist: false, tests: true }
    }
}

/// `cargo xtask wheel`.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let mut settings = Settings::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--profile" => settings.profile = args.next().context(USAGE)?.clone(),
            "--sdist" => settings.sdist = true,
            "--no-tests" => settings.tests = false,
            _ => bail!("{USAGE}"),
        }
    }
    install_tools()?;
    if settings.tests {
        install_for_tests()?;
    }
    checked(&settings)
}

/// `cargo xtask hosts`: runs on several hosts with Ray, on a cluster of four nodes in this machine.
/// The wheel comes from a source distribution, which no step of `ci` builds.
pub(crate) fn hosts(args: &[String]) -> Result<()> {
    let mut settings = Settings { sdist: true, ..Settings::default() };
    match args {
        [] => {}
        [option, profile] if option == "--profile" => settings.profile.clone_from(profile),
        _ => bail!("usage: cargo xtask hosts [--profile NAME]"),
    }
    install_tools()?;
    install_ray()?;
    install_schema()?;
    on_ray(&build(&settings)?, &["python/tests_ray"])
}

/// The step of `cargo xtask ci` that tests the wheel on a Ray cluster: what needs neither network
/// namespaces nor Slurm.
pub(crate) fn ray() -> Result<()> {
    if !has_ray()? {
        packages()?;
    }
    if has_ray()? { on_ray(&found(&folder()?.join("wheels"), "whl")?, &OF_RAY) } else { Ok(()) }
}

/// Install the wheel beside Ray, and run these tests.
fn on_ray(wheel: &Path, tests: &[&str]) -> Result<()> {
    let environment = folder()?.join("ray");
    run(pip(&environment, &["install", "--force-reinstall", "--no-deps"]).arg(wheel))?;
    pytest(&environment, tests)
}

/// Run these tests.
fn pytest(environment: &Path, tests: &[&str]) -> Result<()> {
    let cache = format!("cache_dir={}", folder()?.join("pytest").display());
    let options = ["-m", "pytest", "-q", "-o", &cache];
    let mut all = program(environment.join("bin/python"), &options);
    let schema = schema()?;
    if schema.exists() {
        all.env("PRONY_TEST_KUBERAY", &schema);
    }
    run(all.args(tests))
}

fn install_ray() -> Result<()> {
    let environment = folder()?.join("ray");
    if !environment.join("bin/python").exists() {
        run(program("python3", &["-m", "venv", "--clear"]).arg(&environment))?;
    }
    run(pip(&environment, &["install"]).args(OF_HOSTS))
}

/// Where a copy of KubeRay's schema is, if it was installed.
fn schema() -> Result<PathBuf> {
    Ok(folder()?.join("kuberay").join(KUBERAY.replace('/', "+")).join("rayjobs.yaml"))
}

fn install_schema() -> Result<()> {
    let (schema, go) = (schema()?, shell::which("go").context("go is not installed")?);
    if schema.exists() {
        return Ok(());
    }
    let folder = schema.parent().context("a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(folder.join("go.mod"), "module x\n\ngo 1.22\n")?;
    let mut download = program(go, &["mod", "download", "-json", KUBERAY]);
    let found = download.current_dir(folder).output().context("go")?;
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).context("go's output")?;
    let Some(module) = found["Dir"].as_str() else { bail!("{KUBERAY}: {}", found["Error"]) };
    fs::copy(Path::new(module).join(SCHEMA), &schema).context(SCHEMA)?;
    Ok(())
}

fn has_ray() -> Result<bool> {
    let ray = folder()?.join("ray");
    Ok(["bin/ray", "bin/pytest"].into_iter().all(|program| ray.join(program).exists()))
}

/// The step of `cargo xtask ci` that installs what the others need, as far as possible.
pub(crate) fn packages() -> Result<()> {
    if let Err(e) = install_tools().and_then(|()| install_for_tests()).and_then(|()| install_ray())
    {
        println!("cannot install what the Python package needs: {e:#}");
    }
    if let Err(e) = install_schema() {
        println!("cannot install KubeRay's schema: {e:#}");
    }
    Ok(())
}

/// The step that builds the wheel, for the step that tests it, and makes the source distribution.
pub(crate) fn wheel() -> Result<()> {
    if !is_installed()? {
        return Ok(());
    }
    build(&of_release()?)?;
    check_sdist()
}

/// The source distribution has all crates, in the versions of the lock file. This takes seconds;
/// `cargo xtask hosts` builds the wheel from it, which takes minutes.
fn check_sdist() -> Result<()> {
    let (tools, unpacked) = (folder()?.join("tools"), folder()?.join("sdist"));
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked).context("the source distribution")?;
    }
    fs::create_dir_all(&unpacked).context("the source distribution")?;
    let archive = sdist(&tools, &unpacked)?;
    let unpack = ["-x", "-z", "--strip-components=1", "-f"];
    run(program("tar", &unpack).arg(archive).arg("-C").arg(&unpacked))?;
    let mut metadata = cargo(&["metadata", "--locked", "--quiet", "--format-version=1"]);
    run(metadata.current_dir(&unpacked).stdout(Stdio::null()))
}

/// The step that tests the wheel.
pub(crate) fn step() -> Result<()> {
    if !is_installed()? {
        packages()?;
    }
    if is_installed()? { checked(&of_release()?) } else { Ok(()) }
}

/// The program of the step `release`.
fn of_release() -> Result<Settings> {
    Ok(Settings { program: Some(shell::prony("release")?), ..Settings::default() })
}

/// Reports skipped steps and tests, and fails if all are required.
pub(crate) fn report_skipped() -> Result<()> {
    let mut is_complete = true;
    if !(is_installed()? && has_ray()?) {
        let what = if is_installed()? { "runs on a Ray cluster" } else { "the Python package" };
        println!("not covered: {what} (maturin, pytest and Ray, from PyPI)");
        is_complete = false;
    }
    if !schema()?.exists() {
        println!("not covered: jobs for Kubernetes beside KubeRay's schema (a Go module)");
        is_complete = false;
    }
    if !is_complete && strict() {
        bail!("not all of the Python package was tested, and PRONY_CI_STRICT is set");
    }
    Ok(())
}

/// `cargo xtask stubs [--update]`.
pub(crate) fn stubs(args: &[String]) -> Result<()> {
    let test = ["test", "--locked", "--quiet", "--package=prony", "--lib"];
    let mut command = cargo(&test);
    command.args(TEST_PROFILE).arg("keywords_of_python_are_the_options");
    match args {
        [] => {}
        [update] if update == "--update" => drop(command.env("UPDATE_GOLDEN", "1")),
        _ => bail!("usage: cargo xtask stubs [--update]"),
    }
    run(&mut command)
}

fn folder() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-python"))
}

fn install_tools() -> Result<()> {
    let tools = folder()?.join("tools");
    if !tools.join("bin/python").exists() {
        run(program("python3", &["-m", "venv", "--clear"]).arg(&tools))?;
    }
    run(pip(&tools, &["install"]).args(TOOLS))
}

/// A virtual environment with what the tests need, and nothing else but the wheel.
fn install_for_tests() -> Result<()> {
    let fresh = folder()?.join("fresh");
    run(program("python3", &["-m", "venv", "--clear"]).arg(&fresh))?;
    run(pip(&fresh, &["install"]).args(OF_TESTS))
}

/// Whether both environments are complete.
fn is_installed() -> Result<bool> {
    let folder = folder()?;
    let has = |program: &str| folder.join(program).exists();
    Ok(["tools/bin/maturin", "tools/bin/mypy", "tools/bin/pyright", "fresh/bin/pytest"]
        .into_iter()
        .all(has))
}

fn pip(environment: &Path, words: &[&str]) -> Command {
    let quiet = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
    let mut pip = program(environment.join("bin/python"), &quiet);
    pip.args(words);
    pip
}

/// Build the wheel; install it where nothing else is, and test it there.
fn checked(settings: &Settings) -> Result<()> {
    let wheel = build(settings)?;
    let bytes = fs::metadata(&wheel).context("the wheel")?.len();
    println!("{}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
    if !settings.tests {
        return Ok(());
    }
    let fresh = folder()?.join("fresh");
    run(pip(&fresh, &["install", "--force-reinstall", "--no-deps"]).arg(&wheel))?;
    pytest(&fresh, &["python/tests"])?;
    types(&fresh)
}

/// Build the wheel, from a source distribution if asked for, and return its path.
fn build(settings: &Settings) -> Result<PathBuf> {
    let (tools, wheels) = (folder()?.join("tools"), folder()?.join("wheels"));
    if wheels.exists() {
        fs::remove_dir_all(&wheels).context("the folder of wheels")?;
    }
    let source = match settings.sdist {
        true => sdist(&tools, &wheels)?,
        false => PathBuf::from("."),
    };
    let wheel = ["wheel", "--no-build-isolation", "--no-deps", "--wheel-dir"];
    let mut command = pip(&tools, &wheel);
    command.arg(&wheels).arg(source).env("PRONY_BUILD_PROFILE", &settings.profile);
    if let Some(program) = &settings.program {
        command.env("PRONY_BUILD_PROGRAM", program);
    }
    run(with_path(&mut command, &tools)?)?;
    found(&wheels, "whl")
}

/// The source distribution.
fn sdist(tools: &Path, wheels: &Path) -> Result<PathBuf> {
    let mut command = program(tools.join("bin/python"), &["-c"]);
    command.arg("import sys, prony_build; prony_build.build_sdist(sys.argv[1])").arg(wheels);
    run(with_path(command.env("PYTHONPATH", "python/build"), tools)?)?;
    found(wheels, "tar.gz")
}

/// With the programs of the virtual environment first.
fn with_path<'a>(command: &'a mut Command, environment: &Path) -> Result<&'a mut Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(environment.join("bin"));
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path)))?;
    Ok(command.env("PATH", path))
}

fn found(folder: &Path, ending: &str) -> Result<PathBuf> {
    let files = fs::read_dir(folder).context("the folder of wheels")?;
    let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
    files
        .find(|file| file.to_string_lossy().ends_with(ending))
        .with_context(|| format!("no .{ending} in {}", folder.display()))
}

/// The type checkers, on the package, its examples and its tests.
fn types(fresh: &Path) -> Result<()> {
    let tools = folder()?.join("tools/bin");
    let python = fresh.join("bin/python");
    run(program(tools.join("mypy"), &["--strict", "--python-executable"]).arg(&python))?;
    run(program(tools.join("pyright"), &["--pythonpath"]).arg(&python))
}
