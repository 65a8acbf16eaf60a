//! Parses and prints parts of a plan.

use std::fmt;
use std::str::FromStr;

use super::{Expect, HttpVersion, Pick, Think};
use prony_base::grpc::Status;
use prony_base::units::{Distribution, ParseError, Span, parse_distribution};

/// `none`, `50ms`, `exp:50ms`, `uniform:10ms:90ms` or `lognormal:50ms:0.5` (median and sigma).
impl FromStr for Think {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = |why: String| {
            ParseError::new(format!(
                "'{text}' is not a think time: {why}; write 50ms, exp:50ms, uniform:10ms:90ms or \
                 lognormal:50ms:0.5"
            ))
        };
        if text == "none" {
            return Ok(Self::None);
        }
        match parse_distribution(text).map_err(bad)? {
            Distribution::Fixed(Span::ZERO) => Ok(Self::None),
            Distribution::Fixed(time) => Ok(Self::Fixed(time)),
            Distribution::Exponential(mean) => Ok(Self::Exponential(mean)),
            Distribution::Uniform(low, high) => Ok(Self::Uniform(low, high)),
            Distribution::LogNormal(median, sigma) => {
                let sigma = parse_thousandths(sigma).ok_or_else(|| {
                    bad(format!(
                        "'{sigma}' is not a sigma from 0 to {SIGMA_MAX} with at most 3 decimals"
                    ))
                })?;
                Ok(Self::LogNormal(median, sigma))
            }
            Distribution::Bimodal(..) => {
                Err(bad("think times do not have this distribution".into()))
            }
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(time) => write!(f, "{time}"),
            Self::Exponential(mean) => write!(f, "exp:{mean}"),
            Self::Uniform(low, high) => write!(f, "uniform:{low}:{high}"),
            Self::LogNormal(median, sigma) => {
                write!(f, "lognormal:{median}:{}", f64::from(*sigma) / 1000.0)
            }
        }
    }
}

/// The largest sigma of a log-normal think time. At this sigma, one pause in six is longer than a
/// hundred times the median.
const SIGMA_MAX: u32 = 5;

/// A number from 0 to [`SIGMA_MAX`] with at most three decimals, in thousandths.
fn parse_thousandths(text: &str) -> Option<u32> {
    let (whole, broken) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 1 || broken.len() > 3 || !digits(whole) || !digits(broken)
    {
        return None;
    }
    let number: u32 = format!("{whole}{broken:0<3}").parse().ok()?;
    (number <= SIGMA_MAX * 1000).then_some(number)
}

/// `in-turn` or `random`.
impl FromStr for Pick {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "in-turn" => Ok(Self::InTurn),
            "random" => Ok(Self::Random),
            _ => Err(ParseError::new(format!(
                "'{text}' is not a way to pick requests; write in-turn or random"
            ))),
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InTurn => "in-turn",
            Self::Random => "random",
        })
    }
}

/// `1.0`, `1.1`, `2` or `2-only`.
impl FromStr for HttpVersion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "1.0" => Ok(Self::Http10),
            "1.1" => Ok(Self::Http11),
            "2" => Ok(Self::Http2),
            "2-only" => Ok(Self::Http2Only),
            _ => Err(ParseError::new(format!(
                "'{text}' is not a supported HTTP version; write 1.0, 1.1, 2 or 2-only"
            ))),
        }
    }
}

impl fmt::Display for HttpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
            Self::Http2Only => "2-only",
        })
    }
}

impl Expect {
    /// The statuses that count as success: `200`, `2xx`, `200-299`, several separated by commas, or
    /// close codes of WebSocket: `1000`. As inclusive ranges in the order given.
    ///
    /// # Errors
    /// Anything else; statuses outside 100 to 599 and 1000 to 4999; ranges in the wrong order.
    pub fn parse_statuses(text: &str) -> Result<Vec<(u16, u16)>, ParseError> {
        text.split(',')
            .map(|part| {
                parse_status_range(part).ok_or_else(|| {
                    ParseError::new(format!(
                        "'{part}' is not a status or range of statuses from 100 to 599; write 200, \
                         2xx or 200-299,404"
                    ))
                })
            })
            .collect()
    }

    /// The statuses of gRPC that count as success: `OK`, several separated by commas.
    ///
    /// # Errors
    /// A name or number that gRPC does not have.
    pub fn parse_grpc_statuses(text: &str) -> Result<Vec<(u16, u16)>, ParseError> {
        let status = |part: &str| match Status::from_name(part.trim()) {
            Some(status) => Ok((u16::from(status.number()), u16::from(status.number()))),
            None => Err(ParseError::new(format!(
                "'{part}' is not a status of gRPC; write OK, NOT_FOUND or several separated by \
                 commas"
            ))),
        };
        text.split(',').map(status).collect()
    }

    /// Whether these are statuses of gRPC.
    pub fn is_of_grpc(&self) -> bool {
        self.statuses.iter().all(|&(_, high)| usize::from(high) < Status::COUNT)
    }

    /// The statuses as they can be read back: `200-399`, `2xx,404`.
    pub fn statuses_text(&self) -> String {
        let texts: Vec<_> = self
            .statuses
            .iter()
            .map(|&(low, high)| match high - low {
                0 => status_text(low),
                99 if low % 100 == 0 && low < 1_000 => format!("{}xx", low / 100),
                _ => format!("{low}-{high}"),
            })
            .collect();
        texts.join(",")
    }
}

/// A status of HTTP as a number, one of gRPC by its name.
pub fn status_text(status: u16) -> String {
    match Status::new(u32::from(status)) {
        Some(status) => status.name().to_owned(),
        None => status.to_string(),
    }
}

fn parse_status_range(text: &str) -> Option<(u16, u16)> {
    let status = |text: &str| {
        let is_number = matches!(text.len(), 3 | 4) && text.bytes().all(|b| b.is_ascii_digit());
        let number: u16 = is_number.then(|| text.parse().ok())??;
        // Those of four digits are close codes of WebSocket.
        matches!((text.len(), number), (3, 100..600) | (4, 1_000..5_000)).then_some(number)
    };
    if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
        let first = status(&format!("{class}00")).filter(|&first| first < 600)?;
        return Some((first, first + 99));
    }
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (status(low)?, status(high)?),
        None => (status(text)?, status(text)?),
    };
    (low <= high).then_some((low, high))
}
