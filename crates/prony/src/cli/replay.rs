//! The options of `prony replay`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, Args};
use prony_base::director::METHODS;
use prony_base::units::Span;
use prony_plan::plan::Expect;
use prony_plan::schedule::{Arrivals, ArrivalsArg};
use prony_plan::target::Url;
use prony_replay::{Bodies, BodyKey, By, Format, Options, SPEED, Sample, Settings, Shape, Source};
use prony_run::error::Error;

use super::output::OutputArgs;
use super::typed::Refused;
use super::{GRPC, HOSTS, LLM, LoadArgs, MESSAGES, STREAMS, values};

const LOG: &str = "Log";
const REPLAY: &str = "Replay";

/// The options of a replay.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The server to send the requests to: http://HOST:PORT
    ///
    /// Paths and queries are those of the log. Its hosts are never contacted.
    #[arg(long, value_name = "URL", help_heading = REPLAY)]
    pub to: String,
    /// Format of the log: a name, or a format string of nginx or Apache [default: found]
    ///
    /// common, combined, 'tomcat FORMAT', haproxy, alb, elb, s3, cloudfront, w3c, caddy, traefik,
    /// envoy, envoy-text, json, or json PART=NAME... with names of fields (docs/replay.md).
    #[arg(long, value_name = "FORMAT", help_heading = LOG, value_parser = format)]
    pub log_format: Option<Format>,
    /// Refuse a log of which more than this share of the lines cannot be read
    #[arg(
        long, value_name = "SHARE", help_heading = LOG, default_value = "1%",
        value_parser = bad_lines,
    )]
    pub bad_lines: f64,
    /// The unit of how long requests took, where the log does not say it: s, ms or us
    ///
    /// For time-taken of W3C logs, and %D of Tomcat.
    #[arg(long, value_name = "UNIT", help_heading = LOG, value_parser = time_unit)]
    pub time_unit: Option<i64>,
    /// Put lines in order that are older than others before them by up to this
    #[arg(
        long, value_name = "T", help_heading = LOG, default_value = "5s",
        value_parser = values::span,
    )]
    pub order_window: Span,
    /// The methods to send: GET,POST, or all
    ///
    /// Requests with other methods are counted and left out. Bodies are not in a log: without
    /// --bodies, a POST is sent with an empty one.
    #[arg(
        long, value_name = "LIST", help_heading = LOG, default_value = "GET,HEAD,OPTIONS",
        value_parser = methods,
    )]
    pub methods: u8,
    /// Send the bodies of this file: JSON lines with a key and a body
    ///
    /// The key of a request is the field body=NAME of --log-format 'json ...', or where --body-key
    /// says, or its path with its query. The whole file is kept in memory (docs/replay.md).
    #[arg(long, value_name = "FILE", help_heading = LOG)]
    pub bodies: Option<PathBuf>,
    /// Where the key of a body is in the path: /orders/{key}, ?order={key}
    #[arg(
        long, value_name = "PATTERN", help_heading = LOG, value_parser = BodyKey::parse,
        requires = "bodies",
    )]
    pub body_key: Option<BodyKey>,
    /// Leave out requests before this time of the log: 2026-11-25T14:00:00Z
    ///
    /// Any form that logs have, also seconds since 1970. Without a zone, the time is UTC.
    #[arg(long, value_name = "TIME", help_heading = LOG, value_parser = time)]
    pub from_time: Option<i64>,
    /// Leave out requests from this time of the log on
    #[arg(long, value_name = "TIME", help_heading = LOG, value_parser = time)]
    pub to_time: Option<i64>,
    /// Send a share of the requests: 10%, or '10% by client'
    ///
    /// Each request is drawn by itself, which makes arrivals less bursty; by client, all requests
    /// of a client are sent or none.
    #[arg(long, value_name = "SHARE", help_heading = LOG, value_parser = sample)]
    pub sample: Option<(Sample, String)>,
    /// Report requests by this pattern of paths, may be repeated [default: found]
    ///
    /// /item/* has any one part in the place of the star; /static/** has all paths that begin so.
    #[arg(long, value_name = "PATTERN", help_heading = LOG, value_parser = pattern)]
    pub path: Vec<String>,
    /// Pass through the log's time this much faster: 2x, 0.5x
    ///
    /// The bursts of the log get shorter, too.
    #[arg(
        long, value_name = "FACTOR", help_heading = REPLAY, default_value = "1x",
        value_parser = speed,
    )]
    pub speed: u64,
    /// Send this many copies of the log at once, each behind the one before
    ///
    /// The bursts of the log keep their length. A copy goes on with the beginning of the log after
    /// its end, so that all end together.
    #[arg(
        long, value_name = "N", help_heading = REPLAY, default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=100),
    )]
    pub scale: u32,
    /// How far each copy is behind the one before, in the time of the log
    #[arg(
        long, value_name = "T", help_heading = REPLAY, default_value = "10s",
        value_parser = values::positive_span,
    )]
    pub scale_shift: Span,
    /// Keep the requests of each in order: client (by address), cookie or none
    ///
    /// No request of a client is sent before its last one was; with --wait, before that was
    /// answered.
    #[arg(
        long, value_name = "WHOSE", help_heading = REPLAY, default_value = "none",
        value_parser = by,
    )]
    pub by: By,
    /// Start no request of a client before its last one was answered (needs --by)
    ///
    /// A request that has to wait starts at the moment of the reply. The report says how many
    /// waited, and for how long.
    #[arg(long, help_heading = REPLAY)]
    pub wait: bool,
    /// Begin again after the end of the log, until --duration or --requests
    #[arg(long = "loop", help_heading = REPLAY)]
    pub repeats: bool,

    /// The options of a load.
    #[command(flatten)]
    pub load: LoadArgs,
}

const TIMES: &str = "the arrivals are those of the log; use --speed or --scale";
const REQUESTS: &str = "the requests are those of the log";
const NO_BODY: &str = "requests have no body, unless --bodies has one";

/// The options of a load that a replay refuses.
pub(super) const REFUSED: Refused = Refused {
    by: "prony replay",
    options: &[
        (&["--rate", "--arrivals", "--think", "--ramp-up"], TIMES),
        (&["--urls", "--session", "--sessions", "--pick"], REQUESTS),
        (&["--method"], "the methods are those of the log; use --methods"),
        (&["--body", "--body-lines", "--glob"], REQUESTS),
        (&["--form"], NO_BODY),
        (&["--warmup"], "a log has no load before it"),
        (&["--until"], "the log ends the load"),
        (&["--shard", "--start-at", "--hosts"], "one process reads the log"),
        (&["--explain"], "a plan file has no log"),
        (&["--trace"], "use it with the URL of one of its requests"),
        (&["--tui"], "the rate is that of the log"),
        (&["--grpc"], "the requests of a log are those of HTTP"),
        (&["--stream"], "a log does not say which replies are streams"),
        (&["--location"], "redirects that were followed are in the log"),
        (&["--model"], REQUESTS),
    ],
    hidden: &[
        HOSTS,
        GRPC,
        MESSAGES,
        STREAMS,
        LLM,
        "--session-connections",
        "--body-pick",
        "--max-redirs",
        "--redirect-to",
        "--no-tui",
    ],
};

/// Hides an option that a replay refuses, and describes the logs.
pub(super) fn adapt(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "urls" => arg
            .value_name("LOG")
            .help("The access log, or several, plain or compressed (.gz, .zst); `-` is a pipe")
            .long_help(
                "The access log, or several, plain or compressed (.gz, .zst); `-` is a pipe. \
                 Several are the parts of one, or those of several servers: their requests are put \
                 in the order of their times.",
            ),
        "content_type" => {
            arg.help("Content-Type of the texts in --bodies without a type of their own")
        }
        _ => REFUSED.hide(arg),
    }
}

impl ReplayArgs {
    /// The load of the replay; refuses what a log decides.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn load(&self) -> Result<LoadArgs, Error> {
        self.check()?;
        let url = Url::parse(&self.to).map_err(Error::Url)?;
        if url.path != "/" {
            let why = "the paths are those of the log; give the server alone".into();
            return Err(Error::Value { what: "--to", value: self.to.clone(), why });
        }
        Ok(LoadArgs {
            urls: vec![self.to.clone()],
            arrivals: Some(ArrivalsArg::Process(Arrivals::Log)),
            // It is that of the bodies.
            content_type: None,
            output: OutputArgs { no_tui: true, ..self.load.output.clone() },
            ..self.load.clone()
        })
    }

    fn check(&self) -> Result<(), Error> {
        let load = &self.load;
        if load.urls.is_empty() {
            return Err(Error::Argument(
                "no log; give a file, such as prony replay access.log --to http://HOST:PORT".into(),
            ));
        }
        REFUSED.check(&load.typed)?;
        if load.content_type.is_some() && self.bodies.is_none() {
            return Err(Error::Conflict("--content-type", "prony replay", NO_BODY));
        }
        if self.wait && self.by == By::Nobody {
            let why = "it says whose requests wait for each other";
            return Err(Error::Needs("--wait", "--by", why));
        }
        if self.has_body_key() && self.bodies.is_none() {
            let why = "the format names the key of a body";
            return Err(Error::Needs("--log-format with body=NAME", "--bodies", why));
        }
        if self.has_body_key() && self.body_key.is_some() {
            let why = "both say where the key of a body is; omit one of them";
            return Err(Error::Conflict("--body-key", "body=NAME of --log-format", why));
        }
        let pipe = load.urls.iter().any(|log| log == "-");
        let again = "a pipe can be read once only; give the file";
        if pipe && self.repeats {
            return Err(Error::Conflict("--loop", "the log `-`", again));
        }
        if pipe && self.scale > 1 {
            return Err(Error::Conflict("--scale", "the log `-`", again));
        }
        if self.repeats && load.duration.is_none() && load.requests.is_none() {
            let why = "a log that begins again has no end";
            return Err(Error::Needs("--loop", "--duration or --requests", why));
        }
        Ok(())
    }

    /// How to read the log, with this seed.
    pub fn settings(&self, seed: u64) -> Settings {
        let options = Options {
            format: self.log_format.clone(),
            methods: self.methods,
            window: self.order_window.0,
            seed,
            bad_lines: self.bad_lines,
            time_unit: self.time_unit,
        };
        let paths = self.load.urls.iter().map(PathBuf::from).collect();
        Settings {
            source: Source { paths, options, from: self.from_time, to: self.to_time },
            shape: Shape {
                speed: self.speed,
                copies: self.scale,
                shift: self.scale_shift.0,
                sample: self.sample.as_ref().map_or(Sample::All, |(sample, _)| *sample),
                repeats: self.repeats,
                requests: self.load.requests,
                duration: self.load.duration.map(|span| span.0),
                seed,
            },
            patterns: self.path.clone(),
            by: self.by,
            wait: self.wait,
            bodies: None,
            expect: Expect::default(),
        }
    }

    /// The bodies of the requests.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn read_bodies(&self) -> Result<Option<Arc<Bodies>>, Error> {
        let Some(file) = &self.bodies else { return Ok(None) };
        let key = self.body_key.clone().unwrap_or_else(|| match self.has_body_key() {
            true => BodyKey::Field,
            false => BodyKey::Target,
        });
        let bodies = Bodies::read(file, key, self.load.content_type.as_deref());
        let bodies = bodies.map_err(|why| Error::Argument(format!("--bodies {why}")))?;
        Ok(Some(Arc::new(bodies)))
    }

    /// Whether the format names the key of a body.
    fn has_body_key(&self) -> bool {
        self.log_format.as_ref().is_some_and(Format::has_body_key)
    }
}

fn format(text: &str) -> Result<Format, String> {
    Format::parse(text).map_err(|e| e.to_string())
}

/// A share of 0 % to 100 %.
fn percentage(text: &str) -> Option<f64> {
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
        None => text.trim().parse(),
    };
    number.ok().filter(|share| (0.0..=1.0).contains(share))
}

fn bad_lines(text: &str) -> Result<f64, String> {
    percentage(text).ok_or_else(|| "must be between 0% and 100%, such as 1%".into())
}

/// The nanoseconds of a unit.
fn time_unit(text: &str) -> Result<i64, String> {
    match text {
        "s" => Ok(1_000_000_000),
        "ms" => Ok(1_000_000),
        "us" => Ok(1_000),
        _ => Err("must be s, ms or us".into()),
    }
}

fn sample(text: &str) -> Result<(Sample, String), String> {
    let (share, by) = text.split_once(" by ").unwrap_or((text, "request"));
    let share = percentage(share).filter(|share| *share > 0.0);
    let sample = match (share, by.trim()) {
        (Some(share), "request") => Sample::Requests(share),
        (Some(share), "client") => Sample::Clients(share),
        _ => return Err("must be a share such as 10%, or '10% by client'".into()),
    };
    Ok((sample, text.to_owned()))
}

fn by(text: &str) -> Result<By, String> {
    match text {
        "client" => Ok(By::Client),
        "cookie" => Ok(By::Cookie),
        "none" => Ok(By::Nobody),
        _ => Err("must be client, cookie or none".into()),
    }
}

fn methods(text: &str) -> Result<u8, String> {
    if text == "all" {
        return Ok((1 << METHODS.len()) - 1);
    }
    let mut methods = 0;
    for name in text.split(',') {
        let name = name.trim();
        let method = METHODS.iter().position(|known| known.eq_ignore_ascii_case(name));
        let method = method.ok_or_else(|| {
            format!("there is no method '{name}'; give {}, or all", METHODS.join(", "))
        })?;
        methods |= 1 << method;
    }
    Ok(methods)
}

fn time(text: &str) -> Result<i64, String> {
    prony_replay::parse_time(text)
        .ok_or_else(|| "must be a time such as 2026-11-25T14:00:00Z, or seconds since 1970".into())
}

fn pattern(text: &str) -> Result<String, String> {
    let inner = text.strip_suffix("/**").unwrap_or(text);
    match text.starts_with('/') && !text.contains(['?', ' ']) && !inner.contains("**") {
        true => Ok(text.to_owned()),
        false => Err("must be a path such as /item/* or /static/**".into()),
    }
}

fn speed(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|factor| (0.001..=1000.0).contains(factor));
    let factor = number.ok_or("must be a factor between 0.001x and 1000x, such as 2x")?;
    Ok((factor * SPEED as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn reads_shares_speeds_methods_and_patterns() {
        assert_eq!(sample("10%"), Ok((Sample::Requests(0.1), "10%".into())));
        assert_eq!(sample("0.5 by client").map(|(s, _)| s), Ok(Sample::Clients(0.5)));
        assert!(sample("0%").is_err() && sample("10% by page").is_err() && sample("x").is_err());
        assert_eq!((speed("2x"), speed("0.25")), (Ok(2 * SPEED), Ok(SPEED / 4)));
        assert!(speed("0").is_err() && speed("fast").is_err() && speed("2000x").is_err());
        assert_eq!((methods("get,HEAD, OPTIONS"), methods("all")), (Ok(0b110_0001), Ok(127)));
        assert!(methods("GET,FETCH").unwrap_err().starts_with("there is no method 'FETCH'"));
        assert!(pattern("/a/*/b").is_ok() && pattern("/a/**").is_ok() && pattern("/").is_ok());
        assert!(pattern("a").is_err() && pattern("/**/a").is_err() && pattern("/a?b").is_err());
        assert_eq!(time("1970-01-01T00:00:01Z"), Ok(1_000_000_000));
        assert!(time("yesterday").is_err());
        assert!(bad_lines("101%").is_err() && bad_lines("0%").is_ok());
    }

    #[test]
    fn refuses_what_the_log_decides() {
        for words in [
            "-r 5",
            "--arrivals poisson",
            "--think 1ms",
            "--urls u.txt",
            "--session s.toml",
            "--sessions 2",
            "-m POST",
            "--pick random",
            "-b x",
            "-T text/plain",
            "--body-lines f",
            "--glob",
            "--warmup 1s",
            "--until p99+-5%",
            "--shard 1/2",
            "--start-at 4000000000",
            "--hosts 2",
            "--explain",
            "--tui",
            "--grpc a.B/C",
            "--stream sse",
            "--model m",
            "--loop",
            "--wait",
            "- --scale 2",
            "- --loop -n 5",
            "--body-key /{key} --bodies b --log-format json_time=t_path=p_body=b",
            "--log-format json_time=t_path=p_body=b",
        ] {
            let line = format!("prony replay a.log --to http://h/ {words}");
            let cli = Cli::read(line.split(' ').map(|word| word.replace('_', " ").into()))
                .expect("it can be parsed");
            let Some(Command::Replay(args)) = cli.command else { panic!("{line}") };
            assert!(args.load().is_err(), "{line}");
        }
    }
}
