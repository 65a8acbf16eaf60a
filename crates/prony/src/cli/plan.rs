//! From parsed options to a plan; checks the combinations of options.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_io::{ConnectTo, Precision};
use prony_plan::plan::{CallSpec, Expect, HttpVersion, Load, Plan, Secret, Stop};
use prony_plan::schedule::{self, Arrivals, ArrivalsArg};
use prony_plan::target::{self, Url};
use prony_run::builder::{Draft, Instead, LoadDraft, Planned, Targets};
use prony_run::environment::Environment;
use prony_run::error::Error;
use prony_run::files::{self, Body, read_text};
use prony_run::plan_file;

use super::exec_options::ExecArgs;
use super::values::{self, HeaderArg};
use super::websocket::WebSocketArgs;
use super::{LoadArgs, llm, refusal, tls, varied};
use crate::users::Users;

/// The plan of the options; reads the files that they name.
pub fn plan(args: &LoadArgs, around: &Environment) -> Result<Planned, Error> {
    let args = &LoadArgs { auth: args.auth.read()?, ..args.clone() };
    let headers = headers(&args.header)?;
    let version = args.grpc.version(args.grpc.is_asked(&args.urls), args.http2.version(args.http));
    check_conflicts(args, &headers, version)?;
    let trace = args.llm.trace()?;
    let mut targets = targets(args, &headers)?;
    targets.check_all(&args.checks.check);
    args.follow.add_servers(&mut targets);
    let aws_sigv4 = args.auth.signing();
    plan_file::read_key(aws_sigv4.as_deref(), &mut targets.data);
    let instead = instead(args)?;
    let secured = tls::check(&args.tls, &targets.endpoints, "an https:// URL")?;
    let mut load = load(args)?;
    if let Some(trace) = &trace {
        load.arrivals = Some(llm::arrivals(trace));
    }
    let draft = Draft {
        targets,
        instead,
        proxy: args.proxy.spec(is_tunneled(args, version))?,
        aws_sigv4,
        server_name: args.tls.sni.clone(),
        pick: Some(args.pick),
        load,
        tls: tls::spec(&args.tls)?.filter(|_| secured),
        stop: Stop { requests: args.requests, sessions: args.sessions, duration: args.duration },
        duration: args.until.time(),
        warmup: Some(args.warmup),
        pipeline: args.http2.in_flight(version, args.pipeline),
        placement: args.http2.placement(),
        http2: args.http2.spec(),
        stream: args.stream.plan(),
        requests_per_connection: if args.no_reuse { Some(1) } else { args.requests_per_connection },
        timeout: Some(args.timeout),
        connect_timeout: Some(args.connect_timeout),
        redirects: args.follow.redirects(),
        expect: Some(Expect {
            statuses: args.expect.0.clone(),
            body: args.expect_body.clone().map(String::into_bytes),
            length: args.expect_length,
        }),
        http: Some(version),
        seed: args.exec.seed.or(args.exec.simulate),
        ..Draft::default()
    };
    let mut planned = draft.plan(around);
    if let Some(users) = users(args) {
        planned.plan.thresholds.clone_from(&args.until.threshold);
        planned.plan = users.plan(planned.plan)?;
    }
    let note = match args.grpc.is_asked(&args.urls) {
        true => args.grpc.prepare(&mut planned.plan, &args.exec)?,
        false => None,
    };
    if WebSocketArgs::is_asked(&args.urls) {
        let has_end = args.requests.is_some() || args.duration.is_some();
        args.websocket.prepare(&mut planned.plan, args.grpc.messages.part.clone(), has_end)?;
    }
    let of_prompts = args.llm.prepare(&mut planned.plan, trace.as_deref(), args)?;
    planned.plan.check().map_err(Error::Plan)?;
    planned.notes = exec_notes(&args.exec);
    planned.notes.extend(of_prompts);
    planned.notes.extend(note);
    planned.notes.extend(beside(&planned.plan));
    Ok(planned)
}

/// The note for a closed loop over several servers, as its use of connections may surprise.
fn beside(plan: &Plan) -> Option<String> {
    let servers = plan.endpoints.len();
    (matches!(plan.load, Load::Closed { .. }) && servers > 1).then(|| {
        format!(
            "Each user of the closed loop had a connection to each of the {servers} servers, and \
             used one of them at a time."
        )
    })
}

/// Notes about execution options, which are not part of the plan but necessary to repeat the run.
pub(crate) fn exec_notes(args: &ExecArgs) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((first, more)) = args.source.split_first() {
        let more: String = more.iter().map(|a| format!(", {a}")).collect();
        notes.push(format!("Connections used the local addresses {first}{more}."));
    }
    if args.pin {
        notes.push("Each thread was pinned to a core.".into());
    }
    if args.timestamps {
        notes.push("The kernel recorded timestamps of requests and replies (--timestamps).".into());
    }
    match args.precision {
        Precision::Auto => {}
        Precision::Sleep => {
            notes.push("Threads never spun while waiting (--precision sleep).".into())
        }
        Precision::Spin => {
            notes.push("Threads always spun while waiting (--precision spin).".into())
        }
        Precision::Grain(span) => notes.push(format!(
            "Requests due within {span} were sent together, up to {span} late (--precision)."
        )),
    }
    notes
}

fn check_conflicts(
    args: &LoadArgs,
    headers: &[(String, String)],
    version: HttpVersion,
) -> Result<(), Error> {
    check_arrivals(args)?;
    if args.sessions.is_some() && args.session_file.is_none() && users(args).is_none() {
        let why = "the URLs are single requests, whose number is limited by -n";
        return Err(Error::Needs("--sessions", "--session", why));
    }
    let is_websocket = WebSocketArgs::is_asked(&args.urls);
    if args.form.is_asked() && (is_websocket || args.grpc.is_asked(&args.urls)) {
        let other = if is_websocket { "ws://" } else { "--grpc" };
        return Err(Error::Conflict("--form", other, "its messages are not forms"));
    }
    if let Some(option) = args.typed.first(&["--body-lines", "--glob"]) {
        let others = [(is_websocket, "ws://"), (args.grpc.is_asked(&args.urls), "--grpc")];
        if let Some((_, other)) = others.into_iter().find(|(asked, _)| *asked) {
            return Err(Error::Conflict(option, other, "only requests of HTTP vary"));
        }
    }
    args.llm.check(args)?;
    args.grpc.check(&args.typed, args.grpc.is_asked(&args.urls), is_websocket)?;
    args.websocket.check(is_websocket, args.method.is_some())?;
    if args.no_reuse && args.pipeline > 1 {
        return Err(Error::Conflict(
            "--pipeline",
            "--no-reuse",
            "pipelining needs more than one request per connection",
        ));
    }
    if args.no_reuse && args.requests_per_connection.is_some_and(|n| n > 1) {
        return Err(Error::Conflict(
            "--requests-per-connection",
            "--no-reuse",
            "--no-reuse means one request per connection",
        ));
    }
    if args.pipeline > 1 && args.http == HttpVersion::Http10 {
        return Err(Error::Needs("--pipeline", "--http 1.1", "HTTP/1.0 has no pipelining"));
    }
    args.http2.check(&args.typed, version, args.pipeline)?;
    check_header_conflicts(args, headers)?;
    check_sources(&args.exec)
}

/// The users whom an embedding program plays.
fn users(args: &LoadArgs) -> Option<&Users> {
    args.output.embedding.as_ref()?.users.as_ref()
}

/// Checks the combination of `--rate`, `--arrivals` and `--think`.
fn check_arrivals(args: &LoadArgs) -> Result<(), Error> {
    let own_rate = match &args.arrivals {
        Some(ArrivalsArg::Process(Arrivals::Uniform(..))) => Some("--arrivals uniform"),
        Some(ArrivalsArg::Process(Arrivals::Trace(_)) | ArrivalsArg::TraceFile(_)) => {
            Some("--arrivals trace")
        }
        Some(ArrivalsArg::Process(Arrivals::Log)) => Some("the log"),
        Some(ArrivalsArg::Process(_)) | None => None,
    };
    match (own_rate, &args.rate) {
        (Some(arrivals), Some(_)) => {
            let why = "the inter-arrival times determine the rate; omit --rate";
            return Err(Error::Conflict("--rate", arrivals, why));
        }
        (None, None) if args.arrivals.is_some() => {
            let why = "it distributes arrivals around a target rate";
            return Err(Error::Needs("--arrivals", "--rate", why));
        }
        _ => {}
    }
    match own_rate.or_else(|| args.rate.as_ref().map(|_| "--rate")) {
        Some(open) => args.closed.check_open(open),
        None => Ok(()),
    }
}

fn check_header_conflicts(args: &LoadArgs, headers: &[(String, String)]) -> Result<(), Error> {
    for (given, option, name) in [
        (args.auth.basic().is_some(), "--user", "Authorization"),
        (args.content_type.is_some(), "--content-type", "Content-Type"),
        (args.form.is_asked(), "--form", "Content-Type"),
        (args.host.is_some(), "--host", "Host"),
    ] {
        if given && has_header(headers, name) {
            let line = match name {
                "Authorization" => "--header Authorization",
                "Content-Type" => "--header Content-Type",
                _ => "--header Host",
            };
            return Err(Error::Conflict(
                option,
                line,
                "both set the same header; omit one of them",
            ));
        }
    }
    Ok(())
}

pub(crate) fn check_sources(args: &ExecArgs) -> Result<(), Error> {
    for source in &args.source {
        let wrong = (args.ipv4 && source.is_ipv6()) || (args.ipv6 && source.is_ipv4());
        if wrong {
            return Err(Error::Value {
                what: "--source",
                value: source.to_string(),
                why: format!(
                    "is an IPv{} address, which {} excludes",
                    if args.ipv4 { 6 } else { 4 },
                    if args.ipv4 { "-4" } else { "-6" }
                ),
            });
        }
    }
    Ok(())
}

/// The address that replaces the host of the URL: `--connect-to` or `--unix-socket`.
fn instead(args: &LoadArgs) -> Result<Option<Instead>, Error> {
    let to = args.connect_to.as_ref().map(|text| {
        let to = text.parse::<ConnectTo>();
        to.map_err(|why| Error::Value { what: "--connect-to", value: text.clone(), why })
    });
    let to = to.transpose()?.map(Instead::Tcp);
    Ok(args.unix_socket.clone().map(Instead::Unix).or(to))
}

/// Whether everything goes through tunnels: not requests of HTTP/1.1 to the server.
fn is_tunneled(args: &LoadArgs, version: HttpVersion) -> bool {
    version.is_http2() || WebSocketArgs::is_asked(&args.urls)
}

fn load(args: &LoadArgs) -> Result<LoadDraft, Error> {
    let arrivals = args.arrivals.as_ref().map(|arrivals| match arrivals {
        ArrivalsArg::Process(process) => Ok(process.clone()),
        ArrivalsArg::TraceFile(file) => trace(Path::new(file)),
    });
    Ok(LoadDraft {
        connections: args.connections,
        think: args.closed.think,
        ramp_up: args.closed.ramp_up,
        rate: args.rate.clone(),
        arrivals: arrivals.transpose()?,
    })
}

fn trace(path: &Path) -> Result<Arrivals, Error> {
    let text = read_text("--arrivals trace", path)?;
    schedule::parse_trace(&text).map_err(|why| refusal::of_file("--arrivals trace:", path, why))
}

/// One URL, with the other parts of its request if it comes from a file.
struct Item {
    url: Url,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<Body>,
}

fn targets(args: &LoadArgs, headers: &[(String, String)]) -> Result<Targets, Error> {
    if let Some(file) = &args.session_file {
        return sessions(args, headers, file);
    }
    let mut items = Vec::new();
    for text in &args.urls {
        if super::is_command(text) {
            return Err(refusal::command_as_url(text));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Err(refusal::unix_as_url(text, path));
        }
        if text.trim_start().starts_with('{') {
            return Err(refusal::body_as_url());
        }
        if super::is_bare_word(text) {
            return Err(match super::command_meant(text) {
                Some(meant) => refusal::no_command(text, &meant),
                None => refusal::bare_word(text),
            });
        }
        let url = Url::parse(text).map_err(Error::Url)?;
        items.push(Item { url, method: None, headers: Vec::new(), body: None });
    }
    for path in &args.urls_file {
        items.extend(url_file(path)?);
    }
    if items.is_empty() {
        return Err(refusal::no_url());
    }
    let mut urls: Vec<_> = items.iter_mut().map(|item| &mut item.url).collect();
    WebSocketArgs::check_urls(&urls, WebSocketArgs::is_asked(&args.urls))?;
    args.grpc.apply(&mut urls)?;
    let form = args.form.form()?;
    let body = args.body.as_deref().map(body).transpose()?;
    let body = form.as_ref().map(|form| Body::Bytes(form.body(false))).or(body);
    let kind = form.map(|form| form.content_type()).or_else(|| args.content_type.clone());
    // A field that stands for the line of each request.
    let lines = args.varied.body();
    let body = lines.as_ref().map(|lines| Body::Bytes(lines.clone().into_bytes())).or(body);
    let content = (body.as_ref(), kind.as_deref());
    let urls: Vec<_> = items.iter().map(|item| &item.url).collect();
    let paths = args.varied.paths(&urls, args.pick)?;
    let mut targets = Targets::default();
    for (item, path) in items.into_iter().zip(paths) {
        let endpoint = targets.endpoint(item.url.endpoint());
        // A body of its own is no line.
        let line = lines.clone().filter(|_| item.body.is_none());
        let mut call = call(args, headers, item, endpoint, content);
        varied::vary(&mut call, path, line);
        targets.calls.push(call);
    }
    args.varied.add_lines(&mut targets)?;
    Ok(targets)
}

/// The sessions of a file, for the server of the URL.
fn sessions(args: &LoadArgs, headers: &[(String, String)], file: &Path) -> Result<Targets, Error> {
    let [url] = &args.urls[..] else {
        let why = "the paths in the file are relative to it";
        return Err(Error::Needs("--session", "exactly one URL", why));
    };
    let mut url = Url::parse(url).map_err(Error::Url)?;
    if let Some(user) = args.auth.basic() {
        let parts = user.expose().split_once(':');
        url.user = parts.map(|(name, password)| (name.to_owned(), password.into()));
    }
    let common = plan_file::Common {
        url: Some(url),
        host: args.host.as_deref().map(Into::into),
        headers: headers.to_vec().into(),
        bare: false,
    };
    plan_file::session_file(file, common, args.session_connections)
}

fn url_file(path: &Path) -> Result<Vec<Item>, Error> {
    let text = read_text("--urls", path)?;
    let entries =
        target::parse_url_file(&text).map_err(|why| refusal::of_file("--urls ", path, why))?;
    if entries.is_empty() {
        let why = "it contains no URL; write one per line";
        return Err(refusal::of_file("--urls ", path, why));
    }
    entries
        .into_iter()
        .map(|entry| {
            let body = match &entry.body_file {
                Some(file) => Some(files::body("--urls body file", Path::new(file))?),
                None => None,
            };
            Ok(Item { url: entry.url, method: entry.method, headers: entry.headers, body })
        })
        .collect()
}

/// The request for one URL. The contents of a URL file take precedence over the options.
fn call(
    args: &LoadArgs,
    common: &[(String, String)],
    item: Item,
    endpoint: u32,
    (body, kind): (Option<&Body>, Option<&str>),
) -> CallSpec {
    // A body of its own is not the form.
    let kind = kind.filter(|_| item.body.is_none() || !args.form.is_asked());
    let body = item.body.or_else(|| body.cloned()).unwrap_or_default();
    let method = item
        .method
        .or_else(|| args.method.clone())
        .unwrap_or_else(|| if body.is_empty() { "GET".into() } else { "POST".into() });
    let mut headers = item.headers;
    let options = common.iter().filter(|(name, _)| !has_header(&headers, name));
    let options: Vec<_> = options.cloned().collect();
    headers.extend(options);
    let of_url = |(name, password): &(String, Secret)| format!("{name}:{}", password.expose());
    let user = args.auth.basic().map(|user| user.expose().to_owned());
    let user = user.or_else(|| item.url.user.as_ref().map(of_url));
    if let Some(user) = user
        && !has_header(&headers, "Authorization")
    {
        headers.push(("Authorization".into(), format!("Basic {}", BASE64.encode(user))));
    }
    if let Some(kind) = kind
        && !has_header(&headers, "Content-Type")
    {
        headers.push(("Content-Type".into(), kind.to_owned()));
    }
    let authority = args.host.clone().unwrap_or_else(|| item.url.authority());
    let mut call = CallSpec {
        endpoint,
        method: method.into(),
        path: item.url.path,
        authority: authority.into(),
        headers: headers.into(),
        ..CallSpec::default()
    };
    body.put_into(&mut call);
    call
}

/// The headers of the options, including those in files.
fn headers(args: &[HeaderArg]) -> Result<Vec<(String, String)>, Error> {
    let mut headers = Vec::new();
    for arg in args {
        match arg {
            HeaderArg::Line(name, value) => {
                headers.push((name.clone(), value.expose().to_owned()));
            }
            HeaderArg::File(path) => headers.extend(header_file(path)?),
        }
    }
    Ok(headers)
}

/// Reads a file with a header on each line; skips blank lines.
fn header_file(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let text = read_text("--header", path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = |(i, line): (usize, &str)| {
        values::header(line).map_err(|why| Error::Value {
            what: "--header",
            value: format!("@{}", path.display()),
            why: format!("line {}: {why}", i + 1),
        })
    };
    lines.map(header).collect()
}

fn has_header(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

/// The body: the text, or the contents of the file after `@`.
fn body(text: &str) -> Result<Body, Error> {
    match text.strip_prefix('@') {
        Some(file) => files::body("--body", Path::new(file)),
        None => Ok(Body::Bytes(text.as_bytes().to_vec())),
    }
}
