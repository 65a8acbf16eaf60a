//! The saved form of a histogram: its bins in HdrHistogram's own encoding (V2, deflated, base64),
//! which other tools can read, and the exact figures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use super::bins::Bins;
use super::{Hist, TIME_MAX};

/// Sums are strings: most JSON parsers keep only 53 bits of a number.
#[derive(Serialize, Deserialize)]
pub(super) struct Wire {
    count: u64,
    sum_ns: String,
    sum_of_squares_ns2: String,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    hdr: String,
}

impl From<Hist> for Wire {
    fn from(h: Hist) -> Self {
        Self {
            count: h.count(),
            sum_ns: h.sum_ns.to_string(),
            sum_of_squares_ns2: h.sum_sq_ns.to_string(),
            min_ns: h.min().map(|t| t.0),
            max_ns: h.max().map(|t| t.0),
            hdr: h.encode(),
        }
    }
}

impl TryFrom<Wire> for Hist {
    type Error = String;

    fn try_from(w: Wire) -> Result<Self, Self::Error> {
        let sum = |text: &str| {
            text.parse::<u128>().map_err(|_| format!("`{text}` is not a valid sum of a histogram"))
        };
        let bytes = STANDARD
            .decode(&w.hdr)
            .map_err(|e| format!("the histogram is not valid base64: {e}"))?;
        let bins: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| format!("the histogram cannot be decoded: {e}"))?;
        if (bins.low(), bins.high(), bins.sigfig()) != (1, TIME_MAX.0, 3) {
            return Err(
                "the histogram must range from 1 ns to 1 hour with three significant digits"
                    .to_owned(),
            );
        }
        let (Some(min_ns), Some(max_ns)) = (w.min_ns, w.max_ns) else {
            return if bins.is_empty() && w.count == 0 {
                Ok(Self::new())
            } else {
                Err("the histogram has counts but no minimum or maximum".to_owned())
            };
        };
        if bins.len() != w.count || w.count == 0 || min_ns > max_ns {
            return Err("the histogram contradicts its count, minimum or maximum".to_owned());
        }
        let (sum_ns, sum_sq_ns) = (sum(&w.sum_ns)?, sum(&w.sum_of_squares_ns2)?);
        let mut own = Bins::default();
        for bin in bins.iter_recorded() {
            // All bins must be within the exact figures, as all times are.
            let (least, most) =
                (bins.lowest_equivalent(bin.value_iterated_to()), bin.value_iterated_to());
            if most < min_ns.min(TIME_MAX.0) || least > max_ns {
                return Err("the histogram has times beyond its minimum or maximum".to_owned());
            }
            own.add(least, bin.count_at_value());
        }
        Ok(Self { bins: Some(own), count: w.count, sum_ns, sum_sq_ns, min_ns, max_ns })
    }
}

impl Hist {
    /// The bins (nanoseconds) in HdrHistogram's V2 encoding, deflated, as base64, which its
    /// libraries for other languages can decode.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.to_hdr(), &mut bytes)
            .expect("writing to memory does not fail");
        STANDARD.encode(bytes)
    }
}
