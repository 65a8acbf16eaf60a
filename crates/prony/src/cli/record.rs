//! The options of `prony record`.

use std::path::PathBuf;

use clap::Args;
use prony_base::units::Span;
use prony_record::By;

use super::tls::{self, IdentityArgs};
use super::values;

const PLAN: &str = "Plan";
const RUNNING: &str = "Running";

/// A recording through a reverse proxy.
#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// Address to listen on: ADDR:PORT, or PORT (on 127.0.0.1; 0 = any free port)
    #[arg(value_name = "LISTEN", default_value = "127.0.0.1:0")]
    pub address: String,
    /// The target: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Write a plan (.toml) or an HTTP archive (.har); may be repeated [default: print the plan]
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,

    /// What a session has in common: cookie, connection or client (address)
    #[arg(
        long, value_name = "WHAT", help_heading = PLAN, default_value = "cookie", value_parser = by,
    )]
    pub by: By,
    /// Send values of replies as recorded, not those of the session's own replies
    #[arg(long, help_heading = PLAN)]
    pub no_correlate: bool,
    /// Write passwords, tokens and cookies; by default they become variables
    #[arg(long, help_heading = PLAN)]
    pub with_secrets: bool,

    /// Do not verify the target's certificate
    #[arg(short = 'k', long, help_heading = tls::TLS, conflicts_with = "cacert")]
    pub insecure: bool,
    /// CA certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE", help_heading = tls::TLS)]
    pub cacert: Option<PathBuf>,
    /// Serve clients over TLS
    #[arg(long, help_heading = tls::TLS)]
    pub tls: bool,
    /// The certificate of the proxy.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Stop after this time [default: record until Ctrl-C]
    #[arg(
        short, long, value_name = "T", help_heading = RUNNING,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// Stop after N requests
    #[arg(
        short = 'n', long, value_name = "N", help_heading = RUNNING,
        value_parser = values::positive,
    )]
    pub requests: Option<u64>,
}

fn by(text: &str) -> Result<By, String> {
    match text {
        "cookie" => Ok(By::Cookie),
        "connection" => Ok(By::Connection),
        "client" => Ok(By::Client),
        _ => Err("use cookie, connection or client".into()),
    }
}
