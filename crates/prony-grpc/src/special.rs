//! Types with a form of their own in JSON (`google.protobuf.Timestamp` and others). They are known
//! without a schema, as they are the same in all.

use serde_json::{Map, Value};

use crate::any::TYPE;
use crate::encode::Encoder;
use crate::fields::{at, varies};
use crate::model::{Scalar, Special};
use crate::parts::Parts;
use crate::scalar::briefly;
use crate::wire::{WireType, put_bytes, put_key, put_varint};

/// The first and the last second of a timestamp: the years 1 to 9999.
const TIMESTAMP: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// The longest duration in seconds: 10,000 years.
const DURATION_MAX: i64 = 315_576_000_000;

impl Encoder<'_> {
    /// Encodes the fields of such a message.
    pub(crate) fn special(
        &self,
        special: Special,
        value: &Value,
        path: &str,
        out: &mut Parts,
    ) -> Result<(), String> {
        let unfit = |what: &str| format!("{}{} is not {what}", at(path), briefly(value));
        if let Special::Wrapper(scalar) = special {
            return self.scalar(1, scalar, value, path, false, out);
        }
        if special == Special::Any {
            return self.any(value, path, out);
        }
        if varies(value) {
            let name = name(special);
            return Err(format!("{}template fields are not possible in a {name}", at(path)));
        }
        match special {
            Special::Timestamp => {
                let what = "a timestamp, such as \"2026-01-31T12:00:00Z\"";
                let parsed = value.as_str().and_then(timestamp).ok_or_else(|| unfit(what))?;
                put_time(parsed, &mut out.bytes);
            }
            Special::Duration => {
                let parsed = value.as_str().and_then(duration);
                let what = "a duration in seconds, such as \"1.5s\"";
                put_time(parsed.ok_or_else(|| unfit(what))?, &mut out.bytes);
            }
            Special::FieldMask => {
                let what = "a list of fields, such as \"name,address.street\"";
                let paths = value.as_str().and_then(field_mask).ok_or_else(|| unfit(what))?;
                for path in paths {
                    put_bytes(1, path.as_bytes(), &mut out.bytes);
                }
            }
            Special::Struct => {
                let fields = value.as_object().ok_or_else(|| unfit("an object, {...}"))?;
                put_struct(fields, &mut out.bytes);
            }
            Special::ListValue => {
                let values = value.as_array().ok_or_else(|| unfit("a list, [...]"))?;
                put_list(values, &mut out.bytes);
            }
            Special::Value => put_value(value, &mut out.bytes),
            Special::Any | Special::Wrapper(_) => {}
        }
        Ok(())
    }

    /// A message of the type that `@type` names: with its fields beside that, or in `value` if its
    /// JSON is no object with its fields.
    fn any(&self, value: &Value, path: &str, out: &mut Parts) -> Result<(), String> {
        let Value::Object(fields) = value else {
            return Err(format!("{}{} is not an object with \"@type\"", at(path), briefly(value)));
        };
        if fields.is_empty() {
            return Ok(());
        }
        let Some(url) = fields.get(TYPE).and_then(Value::as_str).filter(|_| !varies(&fields[TYPE]))
        else {
            return Err(format!("{}an Any needs the name of its type, \"{TYPE}\"", at(path)));
        };
        let Some((_, name)) = url.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
            let shown = briefly(&fields[TYPE]);
            return Err(format!(
                "{}{shown} is not the URL of a type, such as \"type.googleapis.com/package.Type\"",
                at(path)
            ));
        };
        let mut inner = Parts::default();
        let mut others = fields.iter().filter(|(name, _)| *name != TYPE);
        if let Some(special) = Special::new(name) {
            let (Some(value), 2) = (fields.get("value"), fields.len()) else {
                return Err(format!("{}a {name} in an Any is in the field \"value\"", at(path)));
            };
            self.special(special, value, path, &mut inner)?;
        } else if let Some(&index) = self.model.message_names.get(name) {
            self.fields(others, &self.model.messages[index], index, path, &mut inner)?;
        } else if name != "google.protobuf.Empty" {
            let name = crate::wire::shown(name);
            return Err(format!("{}the type {name} is not in the schema", at(path)));
        } else if let Some((other, _)) = others.next() {
            return Err(format!("{}{name} has no field '{other}'", at(path)));
        }
        put_bytes(1, url.as_bytes(), &mut out.bytes);
        if !inner.is_empty() {
            out.message(2, inner);
        }
        Ok(())
    }
}

/// The name of the type of an `Any` in its JSON.
pub(crate) fn name(special: Special) -> &'static str {
    match special {
        Special::Any => "google.protobuf.Any",
        Special::Duration => "google.protobuf.Duration",
        Special::FieldMask => "google.protobuf.FieldMask",
        Special::ListValue => "google.protobuf.ListValue",
        Special::Struct => "google.protobuf.Struct",
        Special::Timestamp => "google.protobuf.Timestamp",
        Special::Value => "google.protobuf.Value",
        Special::Wrapper(Scalar::String) => "google.protobuf.StringValue",
        Special::Wrapper(_) => "wrapper of google.protobuf",
    }
}

fn put_struct(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        let (mut entry, mut inner) = (Vec::new(), Vec::new());
        put_bytes(1, name.as_bytes(), &mut entry);
        put_value(value, &mut inner);
        put_bytes(2, &inner, &mut entry);
        put_bytes(1, &entry, out);
    }
}

fn put_list(values: &[Value], out: &mut Vec<u8>) {
    for value in values {
        let mut inner = Vec::new();
        put_value(value, &mut inner);
        put_bytes(1, &inner, out);
    }
}

fn put_value(value: &Value, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    match value {
        Value::Null => out.extend([0x08, 0]),
        Value::Number(number) => {
            put_key(2, WireType::Fixed64, out);
            out.extend(number.as_f64().unwrap_or_default().to_le_bytes());
        }
        Value::String(text) => put_bytes(3, text.as_bytes(), out),
        Value::Bool(is_true) => out.extend([0x20, u8::from(*is_true)]),
        Value::Object(fields) => {
            put_struct(fields, &mut inner);
            put_bytes(5, &inner, out);
        }
        Value::Array(values) => {
            put_list(values, &mut inner);
            put_bytes(6, &inner, out);
        }
    }
}

/// Seconds and nanoseconds.
fn put_time((seconds, nanos): (i64, i32), out: &mut Vec<u8>) {
    for (number, value) in [(1, seconds), (2, i64::from(nanos))] {
        if value != 0 {
            put_key(number, WireType::Varint, out);
            put_varint(value.cast_unsigned(), out);
        }
    }
}

/// `2026-01-31T12:00:00.5+01:00`.
fn timestamp(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || !separators.iter().all(|&(at, sign)| bytes[at] == sign) {
        return None;
    }
    let part = |from: usize, to: usize| digits(text.get(from..to)?);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, zone) = match text[19..].strip_prefix('.') {
        None => (0, &text[19..]),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            (fraction(&rest[..length])?, &rest[length..])
        }
    };
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (digits(zone.get(1..3)?)?, digits(zone.get(4..6)?)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = 3_600 * hours + 60 * minutes;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let seconds =
        86_400 * days_since_1970(year, month, day) + 3_600 * hour + 60 * minute + second - offset;
    TIMESTAMP.contains(&seconds).then_some((seconds, nanos))
}

/// The days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years from March on, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Five months in turn have 153 days.
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// `-1.5s`.
fn duration(text: &str) -> Option<(i64, i32)> {
    let number = text.strip_suffix('s')?;
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, nanos) = match number.split_once('.') {
        Some((whole, rest)) => (whole, fraction(rest)?),
        None => (number, 0),
    };
    let seconds = digits(whole).filter(|seconds| *seconds <= DURATION_MAX)?;
    if seconds == DURATION_MAX && nanos > 0 {
        return None;
    }
    Some(if is_negative { (-seconds, -nanos) } else { (seconds, nanos) })
}

/// Digits after a point, as nanoseconds.
fn fraction(text: &str) -> Option<i32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    let number = i32::try_from(digits(text)?).ok()?;
    Some(number * 10_i32.pow(9 - text.len() as u32))
}

fn digits(text: &str) -> Option<i64> {
    let are_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| are_digits)
}

/// The paths of `someName,other.part`, as the schema writes them: `some_name`.
fn field_mask(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let path = |path: &str| {
        let mut out = String::with_capacity(path.len() + 4);
        for c in path.chars() {
            match c {
                '_' => return None,
                'A'..='Z' => {
                    out.push('_');
                    out.push(c.to_ascii_lowercase());
                }
                _ => out.push(c),
            }
        }
        Some(out)
    };
    text.split(',').map(path).collect()
}
