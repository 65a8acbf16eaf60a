//! The saved form of a histogram: its bins in HdrHistogram's own encoding (V2, deflated, base64),
//! which other tools can read, and the exact figures.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use super::bins::{BINS, bin_of};
use super::few::Few;
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
        let bins = decoded(&w.hdr)?;
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
        let mut own = Few::default();
        for bin in bins.iter_recorded() {
            // All bins must be within the exact figures, as all times are.
            let (least, most) =
                (bins.lowest_equivalent(bin.value_iterated_to()), bin.value_iterated_to());
            if most < min_ns.min(TIME_MAX.0) || least > max_ns {
                return Err("the histogram has times beyond its minimum or maximum".to_owned());
            }
            own.add(bin_of(least), bin.count_at_value());
        }
        let (few, is_sparse) = (Some(Box::new(own)), true);
        Ok(Self { bins: None, few, is_sparse, count: w.count, sum_ns, sum_sq_ns, min_ns, max_ns })
    }
}

/// The cookies at the start of HdrHistogram's encodings.
const V2: u32 = 0x1c84_9313;
const V2_COMPRESSED: u32 = 0x1c84_9314;
/// The length of the head of an encoding that is not compressed.
const HEAD: usize = 40;
/// The longest such encoding: no bin takes more than nine bytes.
const ENCODED_MAX: usize = HEAD + 9 * BINS;

/// The bins of an encoding. The decoder believes the length and the bounds in its head, and
/// allocates what they say: so they are checked before.
fn decoded(text: &str) -> Result<Histogram<u64>, String> {
    let bytes =
        STANDARD.decode(text).map_err(|e| format!("the histogram is not valid base64: {e}"))?;
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four))
    };
    let bytes = match number(&bytes, 0) {
        Some(V2_COMPRESSED) => {
            let mut plain = Vec::new();
            let packed = ZlibDecoder::new(bytes.get(8..).unwrap_or_default());
            packed
                .take(ENCODED_MAX as u64 + 1)
                .read_to_end(&mut plain)
                .map_err(|e| format!("the histogram cannot be decoded: {e}"))?;
            plain
        }
        _ => bytes,
    };
    let head = (number(&bytes, 0), number(&bytes, 4));
    let (Some(V2), Some(length)) = head else {
        return Err("the histogram cannot be decoded: it is no HdrHistogram (V2)".to_owned());
    };
    let is_whole = bytes.len().checked_sub(HEAD) == Some(length as usize);
    if bytes.len() > ENCODED_MAX || !is_whole {
        return Err("the histogram cannot be decoded: its length is not as its head says".into());
    }
    let wide = |at| Some(u64::from(number(&bytes, at)?) << 32 | u64::from(number(&bytes, at + 4)?));
    if (wide(16), wide(24), number(&bytes, 12)) != (Some(1), Some(TIME_MAX.0), Some(3)) {
        return Err(
            "the histogram must range from 1 ns to 1 hour with three significant digits".to_owned()
        );
    }
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|e| format!("the histogram cannot be decoded: {e}"))
}

/// How much memory a saved histogram takes at most, in bytes.
pub fn memory_of(encoded: &str) -> usize {
    /// Of one without times.
    const EMPTY: usize = 4 << 10;
    /// Of a bin.
    const BIN: usize = 10;
    EMPTY + decoded(encoded).map_or(0, |bins| bins.iter_recorded().count() * BIN)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A head with these claims, and this payload.
    fn encoded(length: u32, digits: u32, high: u64, payload: &[u8]) -> String {
        let mut bytes = V2.to_be_bytes().to_vec();
        bytes.extend([length.to_be_bytes(), [0; 4], digits.to_be_bytes()].concat());
        bytes.extend([1_u64.to_be_bytes(), high.to_be_bytes(), 1_f64.to_be_bytes()].concat());
        bytes.extend(payload);
        STANDARD.encode(bytes)
    }

    #[test]
    fn what_a_head_claims_is_not_allocated() {
        let of = |text: &str| decoded(text).map(|bins| bins.len());
        assert_eq!(of(&encoded(1, 3, TIME_MAX.0, &[2])), Ok(1));
        for length in [0, 2, u32::MAX] {
            let why = of(&encoded(length, 3, TIME_MAX.0, &[2])).expect_err("a wrong length");
            assert!(why.ends_with("its length is not as its head says"), "{why}");
        }
        for (digits, high) in [(5, TIME_MAX.0), (3, u64::MAX)] {
            let why = of(&encoded(1, digits, high, &[2])).expect_err("other bounds");
            assert!(why.starts_with("the histogram must range"), "{why}");
        }
        let long = encoded(ENCODED_MAX as u32, 3, TIME_MAX.0, &vec![0; ENCODED_MAX]);
        assert!(of(&long).is_err());
        assert!(of("").is_err() && of("AAAA").is_err());
    }

    #[test]
    fn many_bins_take_more_memory_than_few() {
        let all = encoded(33_000, 3, TIME_MAX.0, &[2; 33_000]);
        assert!(memory_of(&all) > 300_000 && memory_of(&Hist::new().encode()) < 5_000);
    }
}
