//! Single values: from JSON to the wire format, without keys.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::fields::Marked;
use crate::model::{Enum, Kind, NULL, Scalar};
use crate::wire::put_varint;

/// Base64 with or without padding, as JSON may have it.
const BASE64: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, BASE64);
const OF_URLS: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, BASE64);

/// Appends a value; a text or bytes without their length.
pub(crate) fn payload(scalar: Scalar, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let unfit = || format!("{} does not fit the type {}", briefly(value), scalar.name());
    let within = |low: i64, high: u64| {
        integer(value)
            .filter(|n| (i128::from(low)..=i128::from(high)).contains(n))
            .ok_or_else(unfit)
    };
    let of_32 = || within(i32::MIN.into(), i32::MAX as u64).map(|n| n as i32);
    let of_64 = || within(i64::MIN, i64::MAX as u64).map(|n| n as i64);
    match scalar {
        Scalar::Int32 => put_varint(i64::from(of_32()?).cast_unsigned(), out),
        Scalar::Int64 => put_varint(of_64()?.cast_unsigned(), out),
        Scalar::Sint32 => {
            let n = of_32()?;
            put_varint(u64::from(((n << 1) ^ (n >> 31)).cast_unsigned()), out);
        }
        Scalar::Sint64 => {
            let n = of_64()?;
            put_varint(((n << 1) ^ (n >> 63)).cast_unsigned(), out);
        }
        Scalar::Uint32 => put_varint(within(0, u32::MAX.into())? as u64, out),
        Scalar::Uint64 => put_varint(within(0, u64::MAX)? as u64, out),
        Scalar::Fixed32 => {
            out.extend_from_slice(&(within(0, u32::MAX.into())? as u32).to_le_bytes());
        }
        Scalar::Fixed64 => out.extend_from_slice(&(within(0, u64::MAX)? as u64).to_le_bytes()),
        Scalar::Sfixed32 => out.extend_from_slice(&of_32()?.to_le_bytes()),
        Scalar::Sfixed64 => out.extend_from_slice(&of_64()?.to_le_bytes()),
        Scalar::Double => out.extend_from_slice(&float(value).ok_or_else(unfit)?.to_le_bytes()),
        Scalar::Float => {
            let wide = float(value).ok_or_else(unfit)?;
            let narrow = wide as f32;
            if narrow.is_infinite() && wide.is_finite() {
                return Err(unfit());
            }
            out.extend_from_slice(&narrow.to_le_bytes());
        }
        Scalar::Bool => out.push(u8::from(value.as_bool().ok_or_else(unfit)?)),
        Scalar::String => out.extend_from_slice(value.as_str().ok_or_else(unfit)?.as_bytes()),
        Scalar::Bytes => {
            let text = value.as_str().ok_or_else(unfit)?;
            let engine = if text.contains(['-', '_']) { OF_URLS } else { STANDARD };
            let bytes = engine.decode(text);
            out.extend(bytes.map_err(|_| format!("{} is not base64", briefly(value)))?);
        }
    }
    Ok(())
}

/// The key of a map as JSON: all keys are texts there.
pub(crate) fn key_text(kind: Kind, text: &str) -> Value {
    match (kind, text) {
        (Kind::Scalar(Scalar::Bool), "true") => Value::Bool(true),
        (Kind::Scalar(Scalar::Bool), "false") => Value::Bool(false),
        _ => Value::String(text.to_owned()),
    }
}

/// The number of an enumeration's value: by its name or its number.
pub(crate) fn enum_number(kind: &Enum, value: &Value) -> Result<i32, String> {
    let unfit = || format!("{} is not a value of {}", briefly(value), kind.name);
    if value.is_null() && kind.name == NULL {
        return Ok(0);
    }
    if let Value::String(name) = value
        && let Some((_, number)) = kind.values.iter().find(|(known, _)| known == name)
    {
        return Ok(*number);
    }
    let number = integer(value).and_then(|number| i32::try_from(number).ok());
    let number = number.filter(|n| !kind.is_closed || kind.values.iter().any(|(_, k)| k == n));
    number.ok_or_else(unfit)
}

/// A whole number, from a number or a text.
fn integer(value: &Value) -> Option<i128> {
    let from_float = |x: f64| (x.fract() == 0.0 && x.abs() < 2e19).then_some(x as i128);
    match value {
        Value::Number(n) => {
            let whole = n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
            whole.or_else(|| n.as_f64().and_then(from_float))
        }
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            match !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                true => text.parse().ok(),
                false => number_text(text).and_then(from_float),
            }
        }
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            text => number_text(text).filter(|x| x.is_finite()),
        },
        _ => None,
    }
}

/// A number as a text, without the words that Rust knows for some.
fn number_text(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    text.parse().ok().filter(|_| is_number && !text.starts_with('+'))
}

/// The start of a value, for a sentence.
pub(crate) fn briefly(value: &Value) -> String {
    const MOST: usize = 40;
    if let Value::String(text) = value
        && Marked::is_marked(text)
    {
        return "a template field".into();
    }
    let text = value.to_string();
    let mut all = text.chars();
    let mut shown: String = all.by_ref().take(MOST).collect();
    if all.next().is_some() {
        shown.push_str("...");
    }
    shown
}
