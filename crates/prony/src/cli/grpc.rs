//! Options of gRPC.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use prony_io::{Family, Options};
use prony_plan::plan::{Expect, HttpVersion, Plan};
use prony_plan::target::{Url, UrlKind};
use prony_run::error::Error;
use prony_run::grpc::{GrpcDraft, MessagesDraft, prepare};

use super::exec_options::ExecArgs;
use super::keyed::{Given, Headed};
use super::typed::TypedOptions;
use super::{GRPC, MESSAGES};

/// Options of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(group(ArgGroup::new("schedule").multiple(true)))]
pub struct GrpcArgs {
    /// Call this method of gRPC: package.Service/Method
    ///
    /// For http:// and https:// URLs. grpc://HOST:PORT/package.Service/Method and grpcs:// (with
    /// TLS) need no option. --body is the message in JSON; several messages follow each other.
    #[arg(long, value_name = "METHOD", help_heading = GRPC)]
    pub grpc: Option<String>,
    /// A .proto file with the method, may be repeated [default: the schema comes from the server]
    ///
    /// Without --proto and --protoset, the server is asked for its schema before the load
    /// (reflection).
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    pub proto: Vec<PathBuf>,
    /// A folder in which imports of .proto files are searched, may be repeated
    #[arg(long, value_name = "DIR", help_heading = GRPC, requires = "proto")]
    pub proto_path: Vec<PathBuf>,
    /// A compiled set of descriptors with the method (protoc --descriptor_set_out)
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    pub protoset: Vec<PathBuf>,
    /// The others.
    #[command(flatten)]
    pub(crate) keys: Given<GrpcDraft>,
    /// The schedule of messages.
    #[command(flatten)]
    pub(crate) messages: Given<MessagesDraft>,
    /// Statuses of gRPC that count as success [default: OK]
    ///
    /// Several are separated by commas: OK,NOT_FOUND.
    #[arg(long, value_name = "STATUSES", help_heading = GRPC)]
    pub expect_grpc: Option<String>,
}

impl Headed for GrpcDraft {
    const HEADING: &'static str = GRPC;
}

impl Headed for MessagesDraft {
    const HEADING: &'static str = MESSAGES;
}

impl GrpcArgs {
    /// Whether the load has calls of gRPC.
    pub(crate) fn is_asked(&self, urls: &[String]) -> bool {
        let is_of_grpc = |url: &String| {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            ["grpc", "grpcs"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        };
        self.grpc.is_some() || urls.iter().any(is_of_grpc)
    }

    /// Sets the paths of the URLs to the method.
    ///
    /// # Errors
    /// URLs of different kinds, or with paths beside the method.
    pub(crate) fn apply(&self, urls: &mut [&mut Url]) -> Result<(), Error> {
        let of_grpc = urls.iter().filter(|url| url.kind == UrlKind::Grpc).count();
        if of_grpc > 0 && of_grpc < urls.len() && self.grpc.is_none() {
            let why = "URLs are all of gRPC, or none; use grpc:// for all";
            return Err(Error::Conflict("grpc://", "http://", why));
        }
        if let Some(method) = &self.grpc {
            for url in urls.iter_mut() {
                if url.path != "/" {
                    let why = "both name the method; omit one of them";
                    return Err(Error::Conflict("--grpc", "a path in the URL", why));
                }
                url.path = format!("/{}", method.trim_start_matches('/'));
            }
        }
        Ok(())
    }

    /// Refuses options of gRPC without a call of gRPC.
    pub(crate) fn check(
        &self,
        typed: &TypedOptions,
        is_grpc: bool,
        is_websocket: bool,
    ) -> Result<(), Error> {
        let of_messages = typed.first(&["--messages", "--messages-arrivals"]);
        if let Some(option) = of_messages.filter(|_| !is_grpc && !is_websocket) {
            let why = "requests of HTTP have no messages";
            return Err(Error::Needs(option, "a grpc:// or ws:// URL, or --grpc", why));
        }
        let of_grpc =
            ["--proto", "--protoset", "--grpc-timeout", "--grpc-encoding", "--expect-grpc"];
        match typed.first(&of_grpc).filter(|_| !is_grpc) {
            Some(option) => {
                Err(Error::Needs(option, "a grpc:// URL or --grpc", "it is an option of gRPC"))
            }
            None => Ok(()),
        }
    }

    /// The HTTP version of the options, or of gRPC.
    pub(crate) fn version(&self, is_grpc: bool, http: HttpVersion) -> HttpVersion {
        if is_grpc { HttpVersion::Http2Only } else { http }
    }

    /// Turns the requests of a plan into calls of gRPC. Returns a note for the report.
    ///
    /// # Errors
    /// The schema, or a message that does not fit it.
    pub(crate) fn prepare(
        &self,
        plan: &mut Plan,
        exec: &ExecArgs,
    ) -> Result<Option<String>, Error> {
        if let Some(text) = &self.expect_grpc {
            let statuses = Expect::parse_grpc_statuses(text);
            plan.expect.statuses = statuses.map_err(|why| Error::Value {
                what: "--expect-grpc",
                value: text.clone(),
                why: why.to_string(),
            })?;
        }
        let draft = GrpcDraft {
            files: self.proto.clone(),
            folders: self.proto_path.clone(),
            sets: self.protoset.clone(),
            simulated: exec.simulate.is_some(),
            messages: self.messages.part.clone(),
            ..self.keys.part.clone()
        };
        // To ask the server for its schema.
        let options = Options {
            sources: exec.source.clone(),
            family: match (exec.ipv4, exec.ipv6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            ..Options::default()
        };
        prepare(plan, &draft, &options).map_err(Error::Argument)
    }
}
