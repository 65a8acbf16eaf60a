//! The options of `prony spectrum`.

use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use prony_base::units::Span;
use prony_report::Format;
use prony_run::error::Error;

use super::exec_options::ExecArgs;
use super::rtt::{MessageArgs, Sizes, sizes};
use super::tls::TlsArgs;
use super::transport::{Place, Transport};
use super::{LOAD, MEASUREMENT, values};

const OUTPUT: &str = "Output";
const MESSAGES: &str = "Messages";

/// The options of `prony spectrum`.
#[derive(Clone, Debug, Args)]
pub struct SpectrumArgs {
    /// Addresses of the responders: HOST:PORT, HOST, PORT (on 127.0.0.1), or unix:PATH
    ///
    /// At most one IP address and one path without a transport. Prefix the others with their
    /// transport, such as tls=HOST:PORT.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// Transports, separated by commas [default: those of the targets, or tcp; unix for unix:PATH]
    #[arg(long, value_name = "LIST", help_heading = MESSAGES, value_delimiter = ',')]
    pub transport: Vec<Transport>,
    /// Messages and sockets.
    #[command(flatten)]
    pub messages: MessageArgs,
    /// Message lengths in bytes: 64,1k or 1..64k (doubling)
    #[arg(
        short, long, value_name = "LIST", help_heading = MESSAGES, default_value = "1..64k",
        value_parser = sizes,
    )]
    pub size: Sizes,
    /// Round trips per length, transport and repetition
    #[arg(
        short = 'n', long, value_name = "N", help_heading = LOAD, default_value = "1000",
        value_parser = values::positive,
    )]
    pub exchanges: u64,
    /// Maximum duration per length, transport and repetition [default: no limit]
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", help_heading = LOAD,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// Number of repetitions, each in a different order
    ///
    /// The confidence intervals come from the differences between repetitions.
    #[arg(
        long, value_name = "N", help_heading = MEASUREMENT, default_value = "5",
        value_parser = values::per_connection,
    )]
    pub repeat: u32,

    /// The options of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Options of execution.
    #[command(flatten)]
    pub exec: ExecArgs,
    /// Also write a file: .html .svg .png .json .csv; may be repeated
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,
    /// Print JSON (the same as --format json)
    #[arg(long, help_heading = OUTPUT, conflicts_with = "format")]
    pub json: bool,
    /// Print text, html, json, csv or svg [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = format)]
    pub format: Option<Format>,
    /// Print only errors to standard error
    #[arg(long, help_heading = OUTPUT)]
    pub quiet: bool,
}

impl SpectrumArgs {
    /// The transports without duplicates, each with its target.
    ///
    /// # Errors
    /// A target is invalid, has no transport or is ambiguous; a transport has no target.
    pub fn pairs(&self) -> Result<Vec<(Transport, Place)>, Error> {
        let targets = self.targets.iter().map(|text| target(text));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        for (i, (transport, place)) in targets.iter().enumerate() {
            let kind = |p: &Place| matches!(p, Place::Unix(_));
            let is_same = |(t, p): &(Option<Transport>, Place)| {
                t == transport && (t.is_some() || kind(p) == kind(place))
            };
            if targets[..i].iter().any(is_same) {
                let why =
                    "is ambiguous; prefix each target with its transport, such as tls=HOST:PORT";
                let value = self.targets[i].clone();
                return Err(Error::Value { what: "spectrum", value, why: why.into() });
            }
        }
        let of = |t: Transport| {
            let named = targets.iter().find(|(named, _)| *named == Some(t));
            let fits = |p: &Place| t.is_local() == matches!(p, Place::Unix(_));
            let found = named.or_else(|| targets.iter().find(|(t, p)| t.is_none() && fits(p)));
            match found {
                Some((_, place)) => Ok((t, place.clone())),
                // The error of `endpoint` names what is missing.
                None => t.endpoint(&targets[0].1).map(|_| (t, targets[0].1.clone())),
            }
        };
        let default_transport = |(named, place): &(Option<Transport>, Place)| match (named, place) {
            (Some(named), _) => *named,
            (None, Place::Unix(_)) => Transport::Unix,
            (None, Place::Inet(..)) => Transport::Tcp,
        };
        let mut transports = self.transport.clone();
        let unlisted = |named: &Option<Transport>| named.is_some() || self.transport.is_empty();
        transports
            .extend(targets.iter().filter(|(named, _)| unlisted(named)).map(default_transport));
        let mut pairs: Vec<(Transport, Place)> = Vec::new();
        for transport in transports {
            if pairs.iter().all(|(t, _)| *t != transport) {
                pairs.push(of(transport)?);
            }
        }
        Ok(pairs)
    }

    /// Format of the report on standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
    }
}

/// Parses a target: `ADDRESS` or `TRANSPORT=ADDRESS`.
fn target(text: &str) -> Result<(Option<Transport>, Place), Error> {
    let named = text
        .split_once('=')
        .and_then(|(name, place)| Some((Transport::from_str(name, false).ok()?, place)));
    let Some((transport, place)) = named else {
        return Ok((None, Place::parse("spectrum", text)?));
    };
    let place = Place::parse("spectrum", place)?;
    transport.endpoint(&place)?;
    Ok((Some(transport), place))
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "csv" => Ok(Format::Csv),
        "html" => Ok(Format::Html),
        "svg" => Ok(Format::Svg),
        "png" => Err("PNG is written only to a file: -o plot.png".into()),
        _ => Err("write text, html, json, csv or svg".into()),
    }
}
