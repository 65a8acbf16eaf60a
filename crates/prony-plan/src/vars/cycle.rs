//! Fields whose values come one after the other, and then again: one for each request.

use std::io::Write as _;

use super::quotes::quoted;

/// The values of a field, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    values: Values,
    /// How many requests have the same value, one after the other.
    every: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    /// Numbers from one on, with at least this many digits.
    Numbers {
        low: u64,
        step: u64,
        count: u64,
        width: usize,
    },
    Words(Vec<String>),
}

const FORMS: &str = "write 'cycle.int LOW HIGH [STEP]' or 'cycle.pick A B ...', each with \
                     'every N' after it if N requests have the same value";

/// Parse the words of a field, the first of which starts with `cycle`.
pub(super) fn parse(words: &[&str]) -> Result<Cycle, String> {
    let (words, every) = match words {
        [rest @ .., "every", n] => {
            let every = number(n)?;
            if every == 0 {
                return Err("'every 0' is no number of requests".into());
            }
            (rest, every)
        }
        _ => (words, 1),
    };
    let values = match words {
        ["cycle.int", low, high] => numbers(low, high, 1)?,
        ["cycle.int", low, high, step] => numbers(low, high, number(step)?)?,
        ["cycle.pick", first, rest @ ..] => {
            let word = |w: &&str| quoted(w).unwrap_or(w).to_owned();
            Values::Words(std::iter::once(first).chain(rest).map(word).collect())
        }
        _ => return Err(FORMS.to_owned()),
    };
    Ok(Cycle { values, every })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{}' is not a whole number from 0 on", text.escape_debug()))
}

/// The numbers from `low` to `high`, with as many digits as `low` if that starts with a zero.
fn numbers(low: &str, high: &str, step: u64) -> Result<Values, String> {
    let width = if low.len() > 1 && low.starts_with('0') { low.len() } else { 1 };
    let (low, high) = (number(low)?, number(high)?);
    if low > high {
        return Err(format!("the bounds {low} and {high} are swapped"));
    }
    if step == 0 {
        return Err("with a step of 0, all values would be the same".into());
    }
    let count = ((high - low) / step).checked_add(1).ok_or("these are too many numbers")?;
    Ok(Values::Numbers { low, step, count, width })
}

impl Cycle {
    /// Append the value for the request with this number.
    pub(super) fn write(&self, request: u64, out: &mut Vec<u8>) {
        let turn = request / self.every;
        match &self.values {
            Values::Numbers { low, step, count, width } => {
                let value = low + turn % count * step;
                write!(out, "{value:0width$}").expect("memory takes what is written to it");
            }
            Values::Words(words) => {
                out.extend_from_slice(words[(turn % words.len() as u64) as usize].as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(field: &str, n: u64) -> String {
        let words: Vec<&str> = field.split(' ').collect();
        let cycle = parse(&words).expect(field);
        let mut out = Vec::new();
        for request in 0..n {
            cycle.write(request, &mut out);
            out.push(b' ');
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_come_in_their_order_and_again() {
        assert_eq!(values("cycle.int 1 3", 7), "1 2 3 1 2 3 1 ");
        assert_eq!(values("cycle.int 08 11", 5), "08 09 10 11 08 ");
        assert_eq!(values("cycle.int 0 10 4", 4), "0 4 8 0 ");
        assert_eq!(values("cycle.int 7 7", 2), "7 7 ");
        assert_eq!(values("cycle.pick a 'b' c", 4), "a b c a ");
        assert_eq!(values("cycle.pick a b every 2", 5), "a a b b a ");
        let mut out = Vec::new();
        let all = format!("cycle.int 1 {}", u64::MAX);
        parse(&all.split(' ').collect::<Vec<_>>()).expect("numbers").write(u64::MAX, &mut out);
        assert_eq!(out, b"1");
    }

    #[test]
    fn wrong_cycles_are_refused() {
        for (field, why) in [
            ("cycle", "write 'cycle.int LOW HIGH [STEP]'"),
            ("cycle.int 1", "write 'cycle.int LOW HIGH [STEP]'"),
            ("cycle.int 3 1", "the bounds 3 and 1 are swapped"),
            ("cycle.int 1 3 0", "with a step of 0"),
            ("cycle.int -1 3", "'-1' is not a whole number from 0 on"),
            ("cycle.pick", "write 'cycle.int"),
            ("cycle.pick a every 0", "'every 0' is no number"),
        ] {
            let refused = parse(&field.split(' ').collect::<Vec<_>>()).expect_err(field);
            assert!(refused.starts_with(why), "{field}: {refused}");
        }
    }
}
