//! The options of `prony spectrum`.

use std::path::PathBuf;

use clap::Args;
use prony_core::units::Span;

use super::means::MeansArgs;
use super::rtt::{MessageArgs, Place, Sizes, Transport, sizes};
use super::tls::TlsArgs;
use super::{LOAD, MEASUREMENT, values};
use crate::error::Error;
use crate::report::Format;

const OUTPUT: &str = "Output";
const MESSAGES: &str = "Messages";

/// What can be said about a spectrum of round trips.
#[derive(Clone, Debug, Args)]
pub struct SpectrumArgs {
    /// The responder: HOST:PORT, HOST, a PORT of 127.0.0.1, or unix:PATH; one of each kind
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// tcp, tls, udp, mptcp, unix, unix-seqpacket; several by commas [default: tcp; unix]
    #[arg(long, value_name = "LIST", help_heading = MESSAGES, value_delimiter = ',')]
    pub transport: Vec<Transport>,
    /// How messages and connections are.
    #[command(flatten)]
    pub messages: MessageArgs,
    /// Lengths of messages in bytes: 64,1k, 1..64k (doubling)
    #[arg(
        short, long, value_name = "LIST", help_heading = MESSAGES, default_value = "1..64k",
        value_parser = sizes,
    )]
    pub size: Sizes,
    /// Round trips of each length over each transport, in each repetition
    #[arg(
        short = 'n', long, value_name = "N", help_heading = LOAD, default_value = "1000",
        value_parser = values::positive,
    )]
    pub exchanges: u64,
    /// At most so long for each of them [default: no limit]
    #[arg(
        short, long, visible_short_alias = 'z', value_name = "T", help_heading = LOAD,
        value_parser = values::positive_span,
    )]
    pub duration: Option<Span>,
    /// How often all is repeated, each time in another order
    ///
    /// The confidence bands come from the differences between repetitions.
    #[arg(
        long, value_name = "N", help_heading = MEASUREMENT, default_value = "5",
        value_parser = values::per_connection,
    )]
    pub repeat: u32,

    /// How connections are secured.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// How the run is carried out.
    #[command(flatten)]
    pub means: MeansArgs,
    /// Also write a file: .svg .png .json .csv; may be repeated
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Vec<PathBuf>,
    /// Print JSON (the same as --format json)
    #[arg(long, help_heading = OUTPUT, conflicts_with = "format")]
    pub json: bool,
    /// Print text, json, csv or svg [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = format)]
    pub format: Option<Format>,
    /// Nothing on standard error but refusals
    #[arg(long, help_heading = OUTPUT)]
    pub quiet: bool,
}

impl SpectrumArgs {
    /// The transports, each with the place that it connects to.
    pub fn pairs(&self) -> Result<Vec<(Transport, Place)>, Error> {
        let places = self.targets.iter().map(|text| Place::parse("spectrum", text));
        let places: Vec<Place> = places.collect::<Result<_, _>>()?;
        let fits = |t: Transport, p: &Place| t.is_local() == matches!(p, Place::Unix(_));
        if self.transport.is_empty() {
            let usual = |p: Place| match p {
                Place::Unix(_) => (Transport::Unix, p),
                Place::Inet(..) => (Transport::Tcp, p),
            };
            return Ok(places.into_iter().map(usual).collect());
        }
        let pair = |&t: &Transport| match places.iter().find(|p| fits(t, p)) {
            Some(place) => Ok((t, place.clone())),
            // The refusal says what is missing.
            None => t.endpoint(&places[0]).map(|_| (t, places[0].clone())),
        };
        self.transport.iter().map(pair).collect()
    }

    /// The format of standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
    }
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "csv" => Ok(Format::Csv),
        "svg" => Ok(Format::Svg),
        "png" => Err("pixels go to a file: -o plot.png".into()),
        _ => Err("write text, json, csv or svg".into()),
    }
}
