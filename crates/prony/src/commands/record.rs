//! `prony record`: a reverse proxy that records what clients do as a plan and as an HTTP archive.

use std::fmt::Write as _;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use prony_core::layer::TlsContext;
use prony_core::target::Url;
use prony_import::{Import, Options};
use prony_io::Listen;
use prony_record::{Counts, Facts, Log, Site, Target};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output::{self, Place};
use prony_run::{interrupt, plan_file};

use super::serve::listen;
use crate::cli::exec_options::ExecArgs;
use crate::cli::record::RecordArgs;
use crate::cli::tls;
use crate::exec_options::environment;

/// The name of the recording in messages.
const NAME: &str = "the recording";

/// The files to be written, by their kind.
#[derive(Default)]
struct Files {
    plans: Vec<(PathBuf, Place)>,
    archives: Vec<(PathBuf, Place)>,
}

/// Passes requests on until a signal, the duration or the number of requests ends it, then writes
/// the files.
pub(super) fn record(args: &RecordArgs) -> Result<Exit, Error> {
    let files = files(&args.output)?;
    let (target, site) = target(args)?;
    let listener = bind(&args.address)?;
    let local = listener.local_addr().map_err(|e| Error::Machine(e.to_string()))?;
    let identity = match args.tls {
        true => {
            let identity = tls::identity(&args.identity, &local.ip().to_string())?;
            Some(identity.speaking(&["http/1.1", "http/1.0"]))
        }
        false if args.identity.cert.is_some() => {
            return Err(Error::Needs("--cert", "--tls", "clients reach the proxy without TLS"));
        }
        false => None,
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let signaled = Arc::clone(&is_over);
    interrupt::catch(Exit::Interrupted.code(), 2, move |_| {
        signaled.store(true, Ordering::Relaxed);
    })?;
    let scheme = if args.tls { "https" } else { "http" };
    output::to_stderr(&format!("listening on {scheme}://{local}"));
    output::to_stderr(&format!("prony: recording requests to {}; Ctrl-C ends it", site.origin));
    let log = Arc::new(Log::default());
    let (started, at) = (Instant::now(), SystemTime::now());
    let stop = || {
        is_over.load(Ordering::Relaxed)
            || args.duration.is_some_and(|d| started.elapsed().as_nanos() >= u128::from(d.0))
            || args.requests.is_some_and(|most| log.finished() >= most)
    };
    prony_record::run(&listener, identity.as_ref(), &Arc::new(target), &log, &stop)
        .map_err(|e| Error::Machine(format!("no more connections can be accepted: {e}")))?;
    drop(listener);
    write(args, &site, &log, at, files)
}

/// Writes the files, and reports what is in them.
fn write(
    args: &RecordArgs,
    site: &Site,
    log: &Log,
    started: SystemTime,
    files: Files,
) -> Result<Exit, Error> {
    let (exchanges, counts) = log.read();
    let facts = prony_record::facts(&exchanges, site);
    let version = env!("CARGO_PKG_VERSION");
    let archive = prony_record::archive(&exchanges, site, args.by, started.into(), version);
    let mut shown = archive.clone();
    if !args.with_secrets {
        prony_import::conceal(&mut shown);
    }
    for (path, place) in files.archives {
        let json =
            serde_json::to_string_pretty(&shown).map_err(|e| Error::Machine(e.to_string()))?;
        written(place, &path, json.as_bytes())?;
    }
    let options = Options {
        with_secrets: args.with_secrets,
        correlate: !args.no_correlate,
        ..Options::default()
    };
    output::lines_to_stderr(&head(&counts, exchanges.len()));
    let mut import = match prony_import::import_archive(NAME, archive, &options) {
        Ok(import) => import,
        Err(why) => {
            output::lines_to_stderr(&passed(&facts, &counts));
            return Err(Error::Server(why));
        }
    };
    import.trust(args.insecure, args.cacert.as_deref().map(absolute).as_deref());
    let plan = import.write(&format!("Recorded by prony record --to {}", site.origin));
    // What prony cannot run must not be called a plan.
    plan_file::parse(
        "the plan",
        &plan,
        Some(Path::new("")),
        &environment(&ExecArgs::default(), false),
    )
    .map_err(Error::PlanFile)?;
    output::lines_to_stderr(&(planned(&import) + &passed(&facts, &counts)));
    if args.output.is_empty() {
        output::to_stdout(plan.as_bytes())?;
    }
    for (path, place) in files.plans {
        written(place, &path, plan.as_bytes())?;
    }
    Ok(Exit::Done)
}

fn written(place: Place, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    place.write(bytes).map_err(|why| Error::Written { what: path.display().to_string(), why })
}

fn absolute(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}

/// Checks the files before anything is started.
fn files(paths: &[PathBuf]) -> Result<Files, Error> {
    let mut files = Files::default();
    for path in paths {
        let wrong = |why: &str| Error::Value {
            what: "--output",
            value: path.display().to_string(),
            why: why.into(),
        };
        let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let list = match kind {
            "toml" => &mut files.plans,
            "har" => &mut files.archives,
            _ => return Err(wrong("name a plan FILE.toml, or an HTTP archive FILE.har")),
        };
        if paths.iter().filter(|other| *other == path).count() > 1 {
            return Err(wrong("given twice; give each file once"));
        }
        let place =
            output::place(path).map_err(|why| Error::OutputPlace { path: path.clone(), why })?;
        list.push((path.clone(), place));
    }
    Ok(files)
}

/// Where requests go, with everything that can be checked before.
fn target(args: &RecordArgs) -> Result<(Target, Site), Error> {
    let url = Url::parse_http(&args.to).map_err(Error::Url)?;
    let wrong = |why: String| Error::Value { what: "--to", value: url.to_string(), why };
    if url.path != "/" {
        return Err(wrong("has a path; write http://HOST:PORT, as clients ask for paths".into()));
    }
    if url.user.is_some() {
        return Err(wrong("has a user; clients send credentials themselves".into()));
    }
    if !url.tls {
        for (is_given, option) in
            [(args.insecure, "--insecure"), (args.cacert.is_some(), "--cacert")]
        {
            if is_given {
                return Err(Error::Needs(
                    option,
                    "an https:// URL in --to",
                    "the target uses no TLS",
                ));
            }
        }
    }
    let addresses = (url.host.as_str(), url.port).to_socket_addrs();
    let addresses: Vec<_> =
        addresses.map_err(|e| wrong(format!("its host has no address: {e}")))?.collect();
    let scheme = if url.tls { "https" } else { "http" };
    let origin = format!("{scheme}://{}", url.authority());
    let tls = if url.tls { context(args, &origin)? } else { None };
    let site = Site { origin, is_secured: args.tls };
    Ok((Target { host: url.authority(), addresses, tls }, site))
}

/// The TLS of a load to the target, as a plan has it.
fn context(args: &RecordArgs, origin: &str) -> Result<Option<TlsContext>, Error> {
    let mut text = format!("url = \"{origin}/\"\nrequests = 1\n\n[tls]\n");
    let _ = writeln!(text, "insecure = {}", args.insecure);
    if let Some(path) = &args.cacert {
        let _ = writeln!(text, "cacert = {:?}", absolute(path));
    }
    let around = environment(&ExecArgs::default(), false);
    let planned =
        plan_file::parse("--to", &text, Some(Path::new("")), &around).map_err(Error::PlanFile)?;
    prony_run::tls::context(&planned.plan)
}

fn bind(address: &str) -> Result<TcpListener, Error> {
    let wrong = |why: String| Error::Value { what: "record", value: address.to_owned(), why };
    let Listen::Tcp(at) = listen("record", address)? else {
        return Err(wrong("is no address of TCP; write ADDR:PORT, such as 127.0.0.1:8080".into()));
    };
    TcpListener::bind(at).map_err(|e| {
        wrong(prony_run::error::plain(&format!("cannot listen there: {e}; choose another port")))
    })
}

fn counted(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

fn head(counts: &Counts, requests: usize) -> String {
    let connections = counted(usize::try_from(counts.connections).unwrap_or(0), "connection");
    format!("prony: recorded {} on {connections}", counted(requests, "request"))
}

/// What is in the plan, and what is not.
fn planned(import: &Import) -> String {
    format!(
        "  the plan has {} in {}{}",
        counted(import.requests(), "request"),
        counted(import.sessions(), "session"),
        import.remarks()
    )
}

/// What was passed on, and is not recorded in full.
fn passed(facts: &Facts, counts: &Counts) -> String {
    let lines = [
        (facts.no_reply as u64, "the target did not reply"),
        (facts.cut as u64, "the target closed the connection within its reply"),
        (facts.left as u64, "the client left before the end of the reply"),
        (facts.stopped as u64, "in flight when the recording ended"),
        (facts.upgraded as u64, "another protocol (WebSocket): passed on, not recorded"),
        (
            facts.compressed as u64,
            "a reply in a compression that is not known, or damaged: no values are found in it",
        ),
        (
            facts.redirects as u64,
            "a redirect to the target itself: a browser leaves the proxy there",
        ),
        (
            facts.domains as u64,
            "a cookie with Domain: a browser refuses it from the proxy unless it is of this domain",
        ),
        (
            counts.bad_gateway,
            "the target could not be reached, or closed the connection: the client got 502",
        ),
        (counts.forward, "a request to a forward proxy, which this is not: the client got 501"),
        (counts.bad_requests, "no request of HTTP/1: the client got 400"),
        (counts.bad_replies, "no reply of HTTP/1: passed on, not recorded"),
        (counts.bad_handshakes, "a client whose TLS handshake failed"),
    ];
    let mut text = String::new();
    for (n, what) in lines.into_iter().filter(|(n, _)| *n > 0) {
        let _ = write!(text, "\n  {n} x {what}");
    }
    text
}
