//! The options of `prony spectrum`.

use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use prony_core::units::Span;
use prony_report::Format;
use prony_run::error::Error;

use super::means::MeansArgs;
use super::rtt::{MessageArgs, Place, Sizes, Transport, sizes};
use super::tls::TlsArgs;
use super::{LOAD, MEASUREMENT, values};

const OUTPUT: &str = "Output";
const MESSAGES: &str = "Messages";

/// What can be said about a spectrum of round trips.
#[derive(Clone, Debug, Args)]
pub struct SpectrumArgs {
    /// The responder: HOST:PORT, HOST, a PORT of 127.0.0.1, or unix:PATH
    ///
    /// One over IP and one of a path; others with their transport, as in tls=HOST:PORT.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// What messages go over, several by commas [default: as the targets say, else tcp; unix]
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
    /// The transports, each once and with the place that it connects to.
    ///
    /// # Errors
    /// A target is none, has no transport or is one too many; a transport has no target.
    pub fn pairs(&self) -> Result<Vec<(Transport, Place)>, Error> {
        let targets = self.targets.iter().map(|text| target(text));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        for (i, (transport, place)) in targets.iter().enumerate() {
            let kind = |p: &Place| matches!(p, Place::Unix(_));
            let is_same = |(t, p): &(Option<Transport>, Place)| {
                t == transport && (t.is_some() || kind(p) == kind(place))
            };
            if targets[..i].iter().any(is_same) {
                let why = "is one target too many; say what each is for, as in tls=HOST:PORT";
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
                // The refusal says what is missing.
                None => t.endpoint(&targets[0].1).map(|_| (t, targets[0].1.clone())),
            }
        };
        let usual = |(named, place): &(Option<Transport>, Place)| match (named, place) {
            (Some(named), _) => *named,
            (None, Place::Unix(_)) => Transport::Unix,
            (None, Place::Inet(..)) => Transport::Tcp,
        };
        let mut transports = self.transport.clone();
        let unlisted = |named: &Option<Transport>| named.is_some() || self.transport.is_empty();
        transports.extend(targets.iter().filter(|(named, _)| unlisted(named)).map(usual));
        let mut pairs: Vec<(Transport, Place)> = Vec::new();
        for transport in transports {
            if pairs.iter().all(|(t, _)| *t != transport) {
                pairs.push(of(transport)?);
            }
        }
        Ok(pairs)
    }

    /// The format of standard output.
    pub fn stdout_format(&self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Text) }
    }
}

/// A target as typed: its transport, where that stands before it, and its place.
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
        "svg" => Ok(Format::Svg),
        "png" => Err("pixels go to a file: -o plot.png".into()),
        _ => Err("write text, json, csv or svg".into()),
    }
}
