//! Independent programs that read prony's output formats. They come from package registries. If one
//! cannot be installed, its tests are skipped, and `ci` reports that at its end. With
//! `PRONY_CI_STRICT=1` that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::tools;
use crate::shell::{program, run, strict, target_dir, venv, which};

/// A reader, its path, and the environment variable that passes the path to the tests.
struct Reader {
    what: &'static str,
    variable: &'static str,
    /// The module that a Python must have.
    module: Option<&'static str>,
    place: fn() -> Result<PathBuf>,
    install: fn() -> Result<()>,
}

const READERS: [Reader; 20] = [
    Reader {
        what: "histogram files in an independent reader (the Python package `hdrhistogram`)",
        variable: "PRONY_TEST_PYTHON",
        module: Some("hdrh.log"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_histograms,
    },
    Reader {
        what: "the JUnit report beside the schema of Jenkins (in the source of pytest)",
        variable: "PRONY_TEST_JUNIT_SCHEMA",
        module: None,
        place: || Ok(folder()?.join("pytest-9.0.2/testing/example_scripts/junit-10.xsd")),
        install: install_junit_schema,
    },
    Reader {
        what: "XML beside its schema (the Python package `xmlschema`)",
        variable: "PRONY_TEST_XMLSCHEMA",
        module: Some("xmlschema"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_xmlschema,
    },
    Reader {
        what: "HPACK beside an independent implementation (the Python package `hpack`)",
        variable: "PRONY_TEST_HPACK",
        module: Some("hpack"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_hpack,
    },
    Reader {
        what: "gRPC with an independent server (the interoperability server of grpc-go)",
        variable: "PRONY_TEST_GRPC_GO_SERVER",
        module: None,
        place: || Ok(folder()?.join("server")),
        install: || install_go("google.golang.org/grpc/interop/server@v1.85.0"),
    },
    Reader {
        what: "HTTP/2 of the target server (the conformance tests of h2spec, in Go)",
        variable: "PRONY_TEST_H2SPEC",
        module: None,
        place: || Ok(folder()?.join("h2spec")),
        install: || install_go("github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"),
    },
    Reader {
        what: "HTTP/2 of the client (the conformance tests of h2specd, in Go)",
        variable: "PRONY_TEST_H2SPECD",
        module: None,
        place: || Ok(folder()?.join("h2specd")),
        install: || install_go("github.com/summerwind/h2spec/cmd/h2specd@v2.2.1+incompatible"),
    },
    Reader {
        what: "HTTP/2 of the client, WebSocket over it of both sides (the Python package `hypercorn`)",
        variable: "PRONY_TEST_HYPERCORN",
        module: Some("hypercorn"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: || pip(&venv()?, &["install"], "hypercorn==0.18.0"),
    },
    Reader {
        what: "gRPC of the target server (the interoperability client of grpc-go)",
        variable: "PRONY_TEST_GRPC_GO",
        module: None,
        place: || Ok(folder()?.join("client")),
        install: || install_go("google.golang.org/grpc/interop/client@v1.85.0"),
    },
    Reader {
        what: "gRPC of the target server by reflection (grpcurl, in Go)",
        variable: "PRONY_TEST_GRPCURL",
        module: None,
        place: || Ok(folder()?.join("grpcurl")),
        install: || install_go("github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"),
    },
    Reader {
        what: "gRPC of both sides (the Python package `grpcio`)",
        variable: "PRONY_TEST_GRPCIO",
        module: Some("grpc_reflection.v1alpha.reflection, grpc_health.v1"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_grpcio,
    },
    Reader {
        what: "WebSocket of both sides (the Python package `websockets`)",
        variable: "PRONY_TEST_WEBSOCKETS",
        module: Some("websockets"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: || pip(&venv()?, &["install"], "websockets==17.4"),
    },
    Reader {
        what: "WebSocket of a server in Node.js (the npm package `ws`)",
        variable: "PRONY_TEST_NODE_WS",
        module: None,
        place: || Ok(folder()?.join("node_modules/ws/index.js")),
        install: || npm("ws@8.23.0"),
    },
    Reader {
        what: "broadcasts by nginx (Debian's package `libnginx-mod-nchan`)",
        variable: "PRONY_TEST_NCHAN",
        module: None,
        place: || Ok("/usr/lib/nginx/modules/ngx_nchan_module.so".into()),
        install: || apt("libnginx-mod-nchan"),
    },
    Reader {
        what: "language models (the server of the Python package `guidellm`)",
        variable: "PRONY_TEST_GUIDELLM",
        module: Some("guidellm.mock_server.server"),
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        install: install_guidellm,
    },
    Reader {
        what: "httperf's report in an independent parser (the npm package `httperfjs`)",
        variable: "PRONY_TEST_HTTPERFJS",
        module: None,
        place: || Ok(folder()?.join("node_modules/httperfjs/lib/parser.js")),
        install: install_httperfjs,
    },
    Reader {
        what: "httperf's report in an independent parser (the Python package `httperfpy`)",
        variable: "PRONY_TEST_HTTPERFPY",
        module: None,
        place: || Ok(folder()?.join("httperfpy-0.0.3/httperfpy/httperfpy.py")),
        install: install_httperfpy,
    },
    Reader {
        what: "imports of public descriptions (the npm package `@readme/oas-examples`)",
        variable: "PRONY_TEST_OAS_EXAMPLES",
        module: None,
        place: || Ok(folder()?.join("node_modules/@readme/oas-examples/package.json")),
        install: || npm("@readme/oas-examples@8.2.2"),
    },
    Reader {
        what: "imports of public archives (the npm package `har-examples`)",
        variable: "PRONY_TEST_HAR_EXAMPLES",
        module: None,
        place: || Ok(folder()?.join("node_modules/har-examples/dist/index.js")),
        install: || npm("har-examples@5.0.1"),
    },
    Reader {
        what: "the HTML report in a browser (Debian's package `chromium`)",
        variable: "PRONY_TEST_CHROMIUM",
        module: None,
        place: || Ok(which("chromium").unwrap_or_else(|| "/usr/bin/chromium".into())),
        install: install_chromium,
    },
];

/// Install the missing readers, as far as possible.
pub(super) fn install() -> Result<()> {
    for reader in &READERS {
        if !reader.is_installed()?
            && let Err(e) = (reader.install)()
        {
            // Only the readers need the registries, so this is not a failure.
            println!("cannot install: {}: {e:#}", reader.what);
        }
    }
    Ok(())
}

/// Pass the paths of the readers to the tests.
pub(super) fn set_variables(tests: &mut Command) -> Result<()> {
    for reader in &READERS {
        if reader.is_installed()? {
            tests.env(reader.variable, (reader.place)()?);
        }
    }
    Ok(())
}

/// List the readers that are missing, and fail if all are required.
pub(super) fn report_skipped() -> Result<()> {
    let mut missing = 0;
    for reader in &READERS {
        if !reader.is_installed()? {
            println!("not covered: {}", reader.what);
            missing += 1;
        }
    }
    if missing > 0 && strict() {
        bail!("{missing} foreign readers are missing, and PRONY_CI_STRICT is set");
    }
    Ok(())
}

impl Reader {
    fn is_installed(&self) -> Result<bool> {
        let place = (self.place)()?;
        let Some(module) = self.module.filter(|_| place.exists()) else {
            return Ok(place.exists());
        };
        let import = format!("import {module}");
        let status = Command::new(place).args(["-c", &import]).stderr(Stdio::null()).status();
        Ok(status.is_ok_and(|s| s.success()))
    }
}

fn folder() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-readers"))
}

/// In a virtual environment, because it has parts in C.
fn install_histograms() -> Result<()> {
    pip(&venv()?, &["install"], "hdrhistogram==0.10.8")
}

fn install_xmlschema() -> Result<()> {
    pip(&venv()?, &["install"], "xmlschema==4.3.2")
}

fn install_hpack() -> Result<()> {
    pip(&venv()?, &["install"], "hpack==4.2.0")
}

fn install_grpcio() -> Result<()> {
    let venv = venv()?;
    for package in ["grpcio", "grpcio-reflection", "grpcio-health-checking"] {
        pip(&venv, &["install"], &format!("{package}==1.85.1"))?;
    }
    Ok(())
}

/// Its server alone: all that it depends on would be some gigabytes.
fn install_guidellm() -> Result<()> {
    let venv = venv()?;
    for package in [
        "transformers==5.24.0",
        "sanic==25.12.1",
        "faker==40.63.0",
        "loguru==0.7.3",
        "pydantic-settings==2.16.3",
    ] {
        pip(&venv, &["install"], package)?;
    }
    pip(&venv, &["install", "--no-deps"], "guidellm==0.8.1")
}

/// Of h2spec, version 2.6.0 cannot be installed: its module has another name in itself.
fn install_go(package: &str) -> Result<()> {
    let go = which("go").context("go is not installed")?;
    let folder = folder()?;
    let mut install = program(go, &["install", package]);
    run(install
        .env("GOBIN", &folder)
        .env("GOPATH", folder.join("go"))
        .env("GOFLAGS", "-modcacherw"))
}

fn install_httperfjs() -> Result<()> {
    npm("httperfjs@0.1.0")
}

/// Only the package, without running its scripts.
fn npm(package: &str) -> Result<()> {
    let npm = which("npm").context("npm is not installed")?;
    let quiet = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    run(program(npm, &quiet).arg("--prefix").arg(folder()?).arg(package))
}

/// Not among the required packages, because it is large.
fn install_chromium() -> Result<()> {
    apt("chromium")
}

fn apt(package: &str) -> Result<()> {
    if !tools::can_install() {
        bail!("only root on a Debian can install it: `apt-get install {package}`");
    }
    tools::apt(&[package])
}

/// Only the source: the package is in Python 2, and is not installed.
fn install_httperfpy() -> Result<()> {
    source_of("httperfpy", "0.0.3")
}

/// Only the source: the tests of pytest hold its own reports against the schema.
fn install_junit_schema() -> Result<()> {
    source_of("pytest", "9.0.2")
}

/// The unpacked source of a Python package, which is not installed.
fn source_of(package: &str, version: &str) -> Result<()> {
    let folder = folder()?;
    let python = which("python3").context("python3 is not installed")?;
    let download = ["download", "--no-deps", "--no-binary", ":all:", "--dest"];
    let dest = folder.to_str().context("a target folder in UTF-8")?;
    pip(&python, &[&download[..], &[dest]].concat(), &format!("{package}=={version}"))?;
    let archive = folder.join(format!("{package}-{version}.tar.gz"));
    run(program("tar", &["-x", "-z", "-f"]).arg(archive).arg("-C").arg(folder))
}

fn pip(python: &Path, words: &[&str], package: &str) -> Result<()> {
    let quiet = ["--quiet", "--disable-pip-version-check", package];
    run(program(python, &["-m", "pip"]).args(words).args(quiet))
}
