//! `prony record`: a reverse proxy that records what clients do as a plan and as an HTTP archive.

use std::fmt::Write as _;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use prony_import::archive::Archive;
use prony_import::{Import, Options};
use prony_io::Listen;
use prony_plan::target::Url;
use prony_proto::layer::TlsContext;
use prony_record::{Counts, Facts, Log, Site, Target};
use prony_run::error::Error;
use prony_run::exit::Exit;
use prony_run::output::{self, Place};
use prony_run::{interrupt, plan_file};

use super::import::checked;
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

/// A recording with this number of requests says that it looks for values of replies in them.
const MANY: usize = 1_000;

/// A plan that waits to be printed: a second signal prints it as it is.
type Kept = Arc<Mutex<Option<String>>>;

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
    let kept = Kept::default();
    let (signaled, kept_for_signal) = (Arc::clone(&is_over), Arc::clone(&kept));
    interrupt::catch(Exit::Interrupted.code(), 2, move |_| {
        let is_second = signaled.swap(true, Ordering::Relaxed);
        if let Some(plan) = taken(&kept_for_signal).filter(|_| is_second) {
            // The process ends, whether or not somebody reads it.
            let _ = output::to_stdout(plan.as_bytes());
        }
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
    let recorded = Recorded::new(args, &site, &log, at);
    drop(log);
    recorded.write(args, files, &kept)
}

fn taken(kept: &Kept) -> Option<String> {
    kept.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What was recorded.
struct Recorded {
    archive: Archive,
    requests: usize,
    facts: Facts,
    counts: Counts,
    origin: String,
}

impl Recorded {
    fn new(args: &RecordArgs, site: &Site, log: &Log, started: SystemTime) -> Self {
        let (exchanges, counts) = log.take();
        let facts = prony_record::facts(&exchanges, site);
        let version = env!("CARGO_PKG_VERSION");
        let archive = prony_record::archive(&exchanges, site, args.by, started.into(), version);
        let (requests, origin) = (exchanges.len(), site.origin.clone());
        Self { archive, requests, facts, counts, origin }
    }

    /// Writes the files, and reports what is in them: first the plan without values of replies,
    /// which takes a moment, then the archive, and then the plan with them. Each file is tried.
    fn write(self, args: &RecordArgs, files: Files, kept: &Kept) -> Result<Exit, Error> {
        output::lines_to_stderr(&head(&self.counts, self.requests));
        let Files { plans, archives } = files;
        let first = match args.no_correlate {
            true => None,
            false => Some(self.plan(args, false)),
        };
        let mut results = Vec::new();
        let mut rest = Vec::new();
        for (path, place) in plans {
            match &first {
                // A pipe is written once.
                Some(Ok((_, plan))) if !place.is_special() => {
                    results.push(written(place, &path, plan.as_bytes()));
                    rest.push((path, None));
                }
                _ => rest.push((path, Some(place))),
            }
        }
        if let (true, Some(Ok((_, plan)))) = (args.output.is_empty(), first) {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        }
        results.push(self.write_archives(args, archives));
        if self.requests >= MANY && !args.no_correlate {
            output::to_stderr(
                "prony: looking for values of replies in later requests; Ctrl-C keeps the plan \
                 without them",
            );
        }
        results.push(self.write_plan(args, rest, kept));
        Error::all(results).map(|()| Exit::Done)
    }

    /// Writes the plan as the options want it.
    fn write_plan(
        &self,
        args: &RecordArgs,
        plans: Vec<(PathBuf, Option<Place>)>,
        kept: &Kept,
    ) -> Result<(), Error> {
        let (import, plan) = match self.plan(args, !args.no_correlate) {
            Ok(both) => both,
            Err(why) => {
                output::lines_to_stderr(&passed(&self.facts, &self.counts));
                return Err(why);
            }
        };
        output::lines_to_stderr(&(planned(&import) + &passed(&self.facts, &self.counts)));
        drop(taken(kept));
        let mut results = Vec::new();
        if args.output.is_empty() {
            results.push(output::to_stdout(plan.as_bytes()));
        }
        for (path, place) in plans {
            let place = place.map_or_else(|| place_at(&path), Ok);
            results.push(place.and_then(|place| written(place, &path, plan.as_bytes())));
        }
        Error::all(results)
    }

    fn write_archives(
        &self,
        args: &RecordArgs,
        archives: Vec<(PathBuf, Place)>,
    ) -> Result<(), Error> {
        if archives.is_empty() {
            return Ok(());
        }
        let mut shown = self.archive.clone();
        if !args.with_secrets {
            prony_import::conceal(&mut shown);
        }
        let json =
            serde_json::to_string_pretty(&shown).map_err(|e| Error::Machine(e.to_string()))?;
        drop(shown);
        let one = |(path, place): (PathBuf, Place)| written(place, &path, json.as_bytes());
        Error::all(archives.into_iter().map(one).collect::<Vec<_>>())
    }

    /// The plan, with or without values of replies in later requests.
    fn plan(&self, args: &RecordArgs, correlate: bool) -> Result<(Import, String), Error> {
        let options = Options { with_secrets: args.with_secrets, correlate, ..Options::default() };
        let imported = prony_import::import_archive(NAME, self.archive.clone(), &options);
        let mut import = imported.map_err(Error::Server)?;
        import.trust(args.insecure, args.cacert.as_deref().map(absolute).as_deref());
        let heading = format!("Recorded by prony record --to {}", self.origin);
        let plan = checked(&mut import, NAME, &heading, Some(Path::new("")))?;
        Ok((import, plan))
    }
}

fn written(place: Place, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    place.write(bytes).map_err(|why| Error::Written { what: path.display().to_string(), why })
}

/// A file that only its owner may read: recordings can have secrets.
fn place_at(path: &Path) -> Result<Place, Error> {
    let place = output::place(path).and_then(Place::for_owner);
    place.map_err(|why| Error::OutputPlace { path: path.to_owned(), why })
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
        list.push((path.clone(), place_at(path)?));
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
        (
            counts.ambiguous,
            "a request whose length or host servers may understand differently: the client got 400",
        ),
        (counts.bad_handshakes, "a client whose TLS handshake failed"),
        (counts.idle_closed, "an idle connection, closed for another client"),
        (counts.bodies_left_out, "a body beyond the 64 MB of all bodies: passed on, not recorded"),
        (
            counts.exchanges_left_out,
            "a request beyond the 64 MB of all heads: passed on, not recorded",
        ),
    ];
    let mut text = String::new();
    for (n, what) in lines.into_iter().filter(|(n, _)| *n > 0) {
        let _ = write!(text, "\n  {n} x {what}");
    }
    text
}
