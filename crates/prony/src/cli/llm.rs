//! Options of loads on language models, which are those of `prony llm`.

use std::env;
use std::path::PathBuf;

use clap::{Arg, Args, ValueEnum};
use prony_base::units::Span;
use prony_llm::{Api, Arrival, Format, Lengths, Request, Turns};
use prony_plan::plan::{
    Burst, CallSpec, Plan, SessionKind, Sessions, Shared, StreamFormat, StreamPlan, Think,
    TokenDialect, TokenLimit, TokenPlan,
};
use prony_plan::schedule::Arrivals;
use prony_run::error::Error;
use prony_run::files::read_text;
use serde_json::{Map, Value};

use super::typed::Refused;
use super::{GRPC, LLM, LoadArgs, MESSAGES, STREAMS, values};

/// How many prompts are drawn by default.
const PROMPTS: u64 = 1_000;
/// The most tokens of drawn requests and replies, by default.
const TOKENS: Lengths = Lengths::Fixed(128);
/// The most bytes of all requests together.
const BYTES_MAX: usize = 512 << 20;

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DialectArg {
    /// Chat completions of OpenAI.
    Chat,
    /// Completions of OpenAI.
    Completions,
    /// Messages of Anthropic.
    Anthropic,
}

/// Options of language models.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct LlmArgs {
    /// Send prompts to a language model of this name, and measure the tokens of its replies
    ///
    /// For servers with the interface of OpenAI or Anthropic. The report has the time to the first
    /// token (TTFT), the time between tokens (ITL) and tokens per second (docs/llm.md).
    #[arg(long, value_name = "NAME", help_heading = LLM)]
    pub model: Option<String>,
    /// Interface of the server: chat, completions or anthropic [default: by the URL, else chat]
    ///
    /// The path of the URL follows from it if it is / or ends with /v1.
    #[arg(
        long, value_name = "NAME", help_heading = LLM, requires = "model", hide_possible_values = true,
    )]
    pub dialect: Option<DialectArg>,
    /// Read prompts from a file: JSON lines, or a list as of ShareGPT [default: drawn words]
    ///
    /// Each object has a text (prompt), messages, or conversations, and output_tokens if wanted.
    #[arg(long, value_name = "FILE", help_heading = LLM, requires = "model")]
    pub prompts: Option<PathBuf>,
    /// Send all turns of conversations of --prompts, one after another, as sessions
    ///
    /// Each turn has the turns before it, with the replies of the file. -c and --rate then count
    /// conversations.
    #[arg(long, help_heading = LLM, requires = "prompts")]
    pub all_turns: bool,
    /// Pause between two turns of a conversation: 5s, exp:5s [default: none]
    #[arg(
        long, value_name = "T", help_heading = LLM, requires = "all_turns",
        value_parser = values::think,
    )]
    pub turn_think: Option<Think>,
    /// Tokens of drawn prompts: 512, 100..300, normal:512:100, exp:200 [default: 128]
    ///
    /// normal has the mean and the standard deviation, exp the mean; lognormal:200:0.5 has the
    /// median and the standard deviation of the logarithm. A prompt of N tokens has N frequent
    /// words; the report says how many tokens the server has counted.
    #[arg(
        long, value_name = "LENGTHS", help_heading = LLM, requires = "model",
        conflicts_with_all = ["prompts", "trace_file"],
    )]
    pub input_tokens: Option<Lengths>,
    /// The most tokens of a reply: 128, or lengths as above [default: 128; of the file]
    #[arg(
        long, value_name = "LENGTHS", help_heading = LLM, requires = "model",
        conflicts_with = "trace_file",
    )]
    pub output_tokens: Option<Lengths>,
    /// How many different prompts to draw [default: 1000, or --requests if they are fewer]
    #[arg(
        long, value_name = "N", help_heading = LLM, requires = "model",
        conflicts_with_all = ["prompts", "trace_file"], value_parser = values::positive,
    )]
    pub prompt_count: Option<u64>,
    /// Arrival times and numbers of tokens from a trace: CSV or JSON lines
    ///
    /// With the columns of published traces: TIMESTAMP, ContextTokens, GeneratedTokens and others
    /// (docs/llm.md). The words are drawn.
    #[arg(
        long, value_name = "FILE", help_heading = LLM, requires = "model",
        conflicts_with = "prompts",
    )]
    pub trace_file: Option<PathBuf>,
    /// Ask for replies in one piece instead of streams
    #[arg(long, help_heading = LLM, requires = "model")]
    pub no_streaming: bool,
    /// Count the tokens of replies without usage with this tokenizer.json, after the load
    ///
    /// Such replies have no ITL otherwise. In builds with the feature tokenizer.
    #[arg(long, value_name = "FILE", help_heading = LLM, requires = "model")]
    pub tokenizer: Option<PathBuf>,
    /// Limits that a good reply keeps: 'ttft < 300ms, itl < 50ms'
    ///
    /// Times are ttft, itl and response. The report has the rate of good replies (goodput).
    #[arg(
        long, value_name = "LIMITS", help_heading = LLM, requires = "model", value_parser = slo,
    )]
    pub slo: Option<Slo>,
    /// Send the API key that this environment variable contains
    ///
    /// As Authorization: Bearer, with anthropic as x-api-key. No report and no plan file has it.
    #[arg(long, value_name = "NAME", help_heading = LLM, requires = "model")]
    pub api_key_env: Option<String>,
    /// Further fields of each request, as a JSON object: '{"temperature": 0}'
    #[arg(
        long, value_name = "JSON", help_heading = LLM, requires = "model", value_parser = fields,
    )]
    pub body_fields: Option<Map<String, Value>>,
}

/// The limits of `--slo`.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(pub Vec<TokenLimit>);

fn slo(text: &str) -> Result<Slo, String> {
    TokenPlan::parse_slo(text).map(Slo)
}

fn fields(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err("must be a JSON object, such as '{\"temperature\": 0}'".into()),
    }
}

const BODIES: &str = "the requests are prompts; use --prompts or --body-fields";

/// The options of a load that one on a language model does not have.
pub(super) const REFUSED: Refused = Refused {
    by: "--model",
    options: &[
        (&["--urls", "--session", "--method", "--body"], BODIES),
        (&["--content-type", "--form"], "requests are JSON"),
        (&["--body-lines", "--glob"], BODIES),
        (&["--stream"], "replies are streams of tokens; use --no-streaming to change that"),
        (&["--location"], "models do not redirect their requests"),
    ],
    hidden: &[
        GRPC,
        MESSAGES,
        STREAMS,
        "--sessions",
        "--session-connections",
        "--body-pick",
        "--max-redirs",
        "--redirect-to",
        "--binary",
        "--subprotocol",
    ],
};

/// The options as `prony llm` has them.
pub(super) fn adapt(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "urls" => arg.help("The server of the model, or several: http://HOST:PORT").long_help(
            "The server of the model, or several. Without a path, it is that of chat \
                 completions: /v1/chat/completions.",
        ),
        "timeout" => arg.default_value("10m"),
        _ => REFUSED.hide(arg),
    }
}

impl LlmArgs {
    /// Whether the load is one on a language model.
    pub(crate) fn is_asked(&self) -> bool {
        self.model.is_some()
    }

    /// Refuses options that a load on a language model does not have.
    pub(crate) fn check(&self, load: &LoadArgs) -> Result<(), Error> {
        if !self.is_asked() {
            return Ok(());
        }
        REFUSED.check(&load.typed)?;
        let is_websocket = super::websocket::WebSocketArgs::is_asked(&load.urls);
        let times = "the trace has the arrivals";
        let has_think = load.closed.think.is_some_and(|think| think != Think::None);
        let traced = self.trace_file.is_some();
        let refused = [
            ("--grpc", load.grpc.is_asked(&load.urls), "requests are those of HTTP"),
            ("ws://", is_websocket, "requests are those of HTTP"),
        ];
        if let Some((option, _, why)) = refused.into_iter().find(|(_, given, _)| *given) {
            return Err(Error::Conflict(option, "--model", why));
        }
        let refused = [
            ("--rate", traced && load.rate.is_some()),
            ("--arrivals", traced && load.arrivals.is_some()),
            ("--think", traced && has_think),
            ("--pick random", traced && load.pick == prony_plan::plan::Pick::Random),
        ];
        match refused.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::Conflict(option, "--trace-file", times)),
            None => Ok(()),
        }
    }

    /// The trace, if one is given.
    pub(crate) fn trace(&self) -> Result<Option<Vec<Arrival>>, Error> {
        let Some(path) = &self.trace_file else { return Ok(None) };
        let text = read_text("--trace-file", path)?;
        let of_file = |why| super::refusal::of_file("--trace-file ", path, why);
        prony_llm::read_trace(&text).map(Some).map_err(of_file)
    }

    /// Turns the requests of a plan, which are one for each URL, into those of the prompts. Returns
    /// notes for the report.
    pub(crate) fn prepare(
        &self,
        plan: &mut Plan,
        trace: Option<&[Arrival]>,
        load: &LoadArgs,
    ) -> Result<Vec<String>, Error> {
        let Some(model) = &self.model else { return Ok(Vec::new()) };
        let bases: Vec<CallSpec> = plan.calls.iter().cloned().collect();
        let apis: Vec<Api> = bases.iter().map(|base| self.api(&base.path)).collect();
        let Some(&api) = apis.first() else { return Ok(Vec::new()) };
        if apis.iter().any(|other| *other != api) {
            let why = "all URLs must have the same interface; give it with --dialect".into();
            return Err(Error::Argument(why));
        }
        let (format, dialect) = (
            if self.no_streaming { StreamFormat::Whole } else { StreamFormat::Sse },
            if api == Api::Messages { TokenDialect::Anthropic } else { TokenDialect::OpenAi },
        );
        let slo = self.slo.clone().map(|Slo(limits)| limits).unwrap_or_default();
        let tokens = Some(TokenPlan { dialect, slo, tokenizer: self.tokenizer()? });
        plan.stream = Some(Box::new(StreamPlan { tokens, ..StreamPlan::new(format) }));
        let (conversations, mut notes) = self.requests(plan.seed, trace, load.requests)?;
        let format = Format {
            api,
            model: model.clone(),
            streams: !self.no_streaming,
            fields: self.body_fields.clone().unwrap_or_default(),
        };
        let headers = bases.iter().map(|base| self.headers(base, api, load.explain));
        let headers: Vec<_> = headers.collect::<Result<_, _>>()?;
        let (mut calls, mut bytes) = (Vec::with_capacity(conversations.len()), 0);
        // Several servers get the conversations in turn.
        let servers = bases.iter().zip(&headers).cycle();
        for ((base, headers), requests) in servers.zip(&conversations) {
            for request in requests {
                let body = format.body(request).map_err(Error::Argument)?;
                bytes += body.len();
                if bytes > BYTES_MAX {
                    let why = "the prompts need more than 512 MiB; give fewer or shorter ones";
                    return Err(Error::Argument(why.into()));
                }
                calls.push(CallSpec {
                    method: "POST".into(),
                    path: api.path(&base.path),
                    headers: headers.clone(),
                    body,
                    ..base.clone()
                });
            }
        }
        if self.all_turns {
            let think = self.turn_think.unwrap_or(Think::None);
            let all = sessions(conversations.iter().map(Vec::len), think);
            plan.sessions = Some(Sessions { pick: plan.pick, ..all });
        }
        plan.calls = calls.into();
        if load.explain
            && let Some(name) = &self.api_key_env
        {
            notes.push(format!("The plan file does not have the API key of {name}."));
        }
        Ok(notes)
    }

    /// The path of the tokenizer, as plans have it.
    fn tokenizer(&self) -> Result<Option<Box<str>>, Error> {
        let Some(path) = self.tokenizer.as_deref() else { return Ok(None) };
        let text = path.to_str().map(|text| Some(text.into()));
        text.ok_or_else(|| {
            Error::Argument(format!("--tokenizer {}: the path is not UTF-8", path.display()))
        })
    }

    fn api(&self, path: &str) -> Api {
        match self.dialect {
            Some(DialectArg::Chat) => Api::Chat,
            Some(DialectArg::Completions) => Api::Completions,
            Some(DialectArg::Anthropic) => Api::Messages,
            None => Api::of_path(path).unwrap_or(Api::Chat),
        }
    }

    /// The requests, and a note about where they come from.
    fn requests(
        &self,
        seed: u64,
        trace: Option<&[Arrival]>,
        count: Option<u64>,
    ) -> Result<(Vec<Vec<Request>>, Vec<String>), Error> {
        if let Some(path) = &self.prompts {
            let text = read_text("--prompts", path)?;
            let of_file = |why| super::refusal::of_file("--prompts ", path, why);
            let turns = if self.all_turns { Turns::All } else { Turns::First };
            let mut requests = prony_llm::read_prompts(&text, turns).map_err(of_file)?;
            if let Some(lengths) = self.output_tokens {
                let count = requests.iter().map(Vec::len).sum();
                let drawn = prony_llm::drawn(seed, count, Lengths::Fixed(1), Some(lengths));
                for (request, drawn) in requests.iter_mut().flatten().zip(drawn) {
                    request.output = drawn.output;
                }
            }
            return Ok((requests, Vec::new()));
        }
        if let Some(trace) = trace {
            return Ok((alone(prony_llm::of_trace(seed, trace)), Vec::new()));
        }
        let count = self.prompt_count.unwrap_or_else(|| count.unwrap_or(PROMPTS).min(PROMPTS));
        let input = self.input_tokens.unwrap_or(TOKENS);
        let output = self.output_tokens.unwrap_or(TOKENS);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(BYTES_MAX);
        let note = "The words of the prompts were drawn: a server that keeps the tokens of earlier \
                    prompts answers faster if a prompt comes again.";
        Ok((alone(prony_llm::drawn(seed, count, input, Some(output))), vec![note.to_owned()]))
    }

    fn headers(
        &self,
        base: &CallSpec,
        api: Api,
        explain: bool,
    ) -> Result<Shared<(String, String)>, Error> {
        let mut headers = base.headers.clone();
        let has = |headers: &Shared<(String, String)>, name: &str| {
            headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        headers.push(("Content-Type".into(), "application/json".into()));
        if api == Api::Messages && !has(&headers, "anthropic-version") {
            headers.push(("anthropic-version".into(), "2023-06-01".into()));
        }
        let Some(variable) = &self.api_key_env else { return Ok(headers) };
        let refused = |why: &str| Error::Value {
            what: "--api-key-env",
            value: variable.clone(),
            why: why.into(),
        };
        let key =
            env::var(variable).map_err(|_| refused("this environment variable is not set"))?;
        let key = values::header_value(&key)
            .map_err(|_| refused("its value is empty, or has a line break"))?;
        let (name, value) = match api {
            Api::Messages => ("x-api-key", key),
            Api::Chat | Api::Completions => ("Authorization", format!("Bearer {key}")),
        };
        if has(&headers, name) {
            let why = "both set the same header; omit one of them";
            return Err(Error::Conflict("--api-key-env", "--header", why));
        }
        if !explain {
            headers.push((name.into(), value));
        }
        Ok(headers)
    }
}

/// Each request as a conversation of its own.
fn alone(requests: Vec<Request>) -> Vec<Vec<Request>> {
    requests.into_iter().map(|request| vec![request]).collect()
}

/// Sessions with these numbers of calls, which follow each other.
fn sessions(lengths: impl Iterator<Item = usize>, think: Think) -> Sessions {
    let mut first = 0;
    let kinds = lengths.map(|length| {
        let calls = first..first + length as u32;
        first = calls.end;
        let burst = |call| Burst::of(vec![call], think);
        SessionKind { name: String::new(), weight: 1, bursts: calls.map(burst).collect() }
    });
    Sessions::plain(kinds.collect())
}

/// The arrivals of a trace.
pub(crate) fn arrivals(trace: &[Arrival]) -> Arrivals {
    Arrivals::Trace(trace.iter().map(|arrival| arrival.at).collect::<Vec<Span>>().into())
}
