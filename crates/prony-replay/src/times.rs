//! The times of access logs.

/// Nanoseconds per second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// A time with the resolution in which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// In nanoseconds since 1970, in UTC. Times without a zone are taken as UTC.
    pub(crate) at: i64,
    /// The resolution in nanoseconds: the true time is from `at` to `at + step`.
    pub(crate) step: i64,
}

/// Reads the times of successive lines, many of which have the same text.
#[derive(Debug, Default)]
pub(crate) struct Times {
    text: [u8; 32],
    len: usize,
    stamp: Option<Stamp>,
}

impl Times {
    /// The time that `read` finds in the text; the last one is remembered.
    #[inline]
    pub(crate) fn read(
        &mut self,
        text: &[u8],
        read: impl Fn(&[u8]) -> Option<Stamp>,
    ) -> Option<Stamp> {
        if self.len == text.len() && self.text[..self.len] == *text && self.stamp.is_some() {
            return self.stamp;
        }
        let stamp = read(text)?;
        if text.len() <= self.text.len() {
            self.len = text.len();
            self.text[..text.len()].copy_from_slice(text);
            self.stamp = Some(stamp);
        }
        Some(stamp)
    }
}

/// `10/Oct/2000:13:55:36 -0700`; the zone may be missing, and the seconds may have a fraction.
pub(crate) fn clf(text: &[u8]) -> Option<Stamp> {
    let (date, rest) = text.split_at_checked(11)?;
    let [d, e, b'/', month @ .., b'/', y1, y2, y3, y4] = date else { return None };
    let day = number(&[*d, *e])?;
    let month = match month {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    };
    let day = days(number(&[*y1, *y2, *y3, *y4])?, month, day)?;
    let (seconds, step, rest) = clock(rest.strip_prefix(b":")?)?;
    let zone = zone(rest.strip_prefix(b" ").unwrap_or(rest))?;
    at(day, seconds, step, zone)
}

/// `2018-07-02T22:23:00.186641Z`, with any zone or none, and a space in place of the `T`.
pub(crate) fn iso(text: &[u8]) -> Option<Stamp> {
    let (day, rest) = text.split_at_checked(10)?;
    let day = date(day)?;
    let [b'T' | b't' | b' ', rest @ ..] = rest else { return None };
    let (seconds, step, rest) = clock(rest)?;
    at(day, seconds, step, zone(rest)?)
}

/// Days since 1970 of `2018-07-02`.
pub(crate) fn date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    days(number(&[*y1, *y2, *y3, *y4])?, number(&[*m1, *m2])?, number(&[*d1, *d2])?)
}

/// `22:23:00` or `22:23:00.186`, of a day since 1970.
pub(crate) fn time_of_day(day: i64, text: &[u8]) -> Option<Stamp> {
    let (seconds, step, rest) = clock(text)?;
    if rest.is_empty() { at(day, seconds, step, 0) } else { None }
}

/// Seconds since 1970 with any fraction; `unit` is the length of its unit in nanoseconds.
pub(crate) fn epoch(text: &[u8], unit: i64) -> Option<Stamp> {
    if text.iter().any(|b| matches!(b, b'e' | b'E')) {
        let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
        let at = value * unit as f64;
        return (at >= 0.0 && at < i64::MAX as f64).then_some(Stamp { at: at as i64, step: 1 });
    }
    let (value, step) = decimal(text, unit)?;
    Some(Stamp { at: value, step })
}

/// A time in any of these forms. The size of a plain number decides its unit.
pub(crate) fn any(text: &[u8]) -> Option<Stamp> {
    if text.get(2) == Some(&b'/') {
        return clf(text);
    }
    if text.get(4) == Some(&b'-') {
        return iso(text);
    }
    let whole = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let unit = match whole {
        0..=11 => SECOND,
        12..=14 => 1_000_000,
        15..=17 => 1000,
        _ => 1,
    };
    epoch(text, unit)
}

/// A decimal number that is not negative, as a multiple of `unit`, and the value of its last digit
/// (at least 1).
pub(crate) fn decimal(text: &[u8], unit: i64) -> Option<(i64, i64)> {
    let mut value: i64 = 0;
    let mut i = 0;
    while let Some(digit) = text.get(i).filter(|b| b.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
        i += 1;
    }
    if i == 0 {
        return None;
    }
    value = value.checked_mul(unit)?;
    let Some(b'.' | b',') = text.get(i) else {
        return (i == text.len()).then_some((value, unit));
    };
    let mut step = unit;
    for digit in &text[i + 1..] {
        if !digit.is_ascii_digit() {
            return None;
        }
        step /= 10;
        value = value.checked_add(i64::from(digit - b'0') * step)?;
    }
    Some((value, step.max(1)))
}

/// Seconds of the day, and their resolution, of `13:55:36` with or without a fraction; the rest.
fn clock(text: &[u8]) -> Option<(i64, i64, &[u8])> {
    let (time, rest) = text.split_at_checked(8)?;
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (h, m, s) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    // 60 is a leap second.
    if h > 23 || m > 59 || s > 60 {
        return None;
    }
    let whole = (h * 3600 + m * 60 + s) * SECOND;
    let Some((b'.' | b',', digits)) = rest.split_first() else {
        return Some((whole, SECOND, rest));
    };
    let n = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (mut step, mut part) = (SECOND, 0);
    for digit in &digits[..n] {
        step /= 10;
        part += i64::from(digit - b'0') * step;
    }
    Some((whole + part, step.max(1), &digits[n..]))
}

/// The nanoseconds by which a zone (`Z`, `+02:00`, `-0700`, or nothing) is ahead of UTC.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        b"" | b"Z" | b"z" => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [h1, h2] => (number(&[*h1, *h2])?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    Some(sign * (hours * 3600 + minutes * 60) * SECOND)
}

fn at(day: i64, nanos: i64, step: i64, zone: i64) -> Option<Stamp> {
    let at = day.checked_mul(86_400 * SECOND)?.checked_add(nanos)?.checked_sub(zone)?;
    Some(Stamp { at, step })
}

/// A number of digits only.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
}

/// Days since 1970 in the Gregorian calendar. Years are counted from March, so that the leap day
/// is the last of its year.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // The nanoseconds of later years do not fit.
    if day < 1 || day > length || !(1970..2262).contains(&year) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = fn(&[u8]) -> Option<Stamp>;

    const DAY: i64 = 86_400;

    fn seconds(stamp: Option<Stamp>) -> Option<f64> {
        stamp.map(|stamp| stamp.at as f64 / SECOND as f64)
    }

    #[test]
    fn reads_each_form_of_the_same_time() {
        let texts: [(&str, Read); 6] = [
            ("10/Oct/2000:13:55:36 -0700", clf),
            ("10/Oct/2000:20:55:36.000", clf),
            ("2000-10-10T20:55:36Z", iso),
            ("2000-10-10T22:55:36.000000+02:00", iso),
            ("971211336.000", any),
            ("971211336000", any),
        ];
        for (text, read) in texts {
            assert_eq!(seconds(read(text.as_bytes())), Some(971_211_336.0), "{text}");
            assert_eq!(any(text.as_bytes()), read(text.as_bytes()), "{text}");
        }
        assert_eq!(clf(b"10/Oct/2000:13:55:36 -0700").map(|s| s.step), Some(SECOND));
        assert_eq!(iso(b"2000-10-10T20:55:36.123Z").map(|s| s.step), Some(SECOND / 1000));
        let stamp = Stamp { at: 971_211_336_123_456_789, step: 1 };
        assert_eq!(epoch(b"971211336.123456789", SECOND), Some(stamp));
        assert_eq!(any(b"971211336123456789"), Some(stamp));
        assert_eq!(seconds(epoch(b"9.71211336e8", SECOND)), Some(971_211_336.0));
    }

    #[test]
    fn counts_days_as_a_calendar_does() {
        let mut day = 0;
        for year in 1970..2262 {
            for month in 1..=12 {
                for of_month in 1..=31 {
                    if let Some(days) = days(year, month, of_month) {
                        assert_eq!(days, day, "{year}-{month}-{of_month}");
                        day += 1;
                    }
                }
            }
        }
        // 292 years with 71 leap days.
        assert_eq!(day, 292 * 365 + 71);
        assert_eq!(days(2001, 2, 29), None);
        assert_eq!(
            time_of_day(1, b"00:00:01"),
            Some(Stamp { at: (DAY + 1) * SECOND, step: SECOND })
        );
    }

    #[test]
    fn refuses_what_is_no_time() {
        let texts =
            ["", "-", "10/Okt/2000:13:55:36 -0700", "10/Oct/2000 13:55:36", "2000-13-10T00:00:00Z"];
        for text in texts.map(str::as_bytes) {
            assert_eq!((clf(text), iso(text), any(text)), (None, None, None), "{text:?}");
        }
        for text in ["2000-10-10T24:00:00Z", "2000-10-10T20:55:36 CET", "99999999999999999999"] {
            assert_eq!((iso(text.as_bytes()), any(text.as_bytes())), (None, None), "{text}");
        }
        assert_eq!(
            (decimal(b"1.2.3", 1), decimal(b".5", 1), decimal(b"1x", 1)),
            (None, None, None)
        );
    }

    #[test]
    fn remembers_a_text_but_not_its_prefix() {
        let mut times = Times::default();
        let first = times.read(b"1000", |text| epoch(text, SECOND));
        assert_eq!(times.read(b"1000", |_| None), first);
        assert_eq!(seconds(times.read(b"100", |text| epoch(text, SECOND))), Some(100.0));
        assert_eq!(times.read(b"x", |text| epoch(text, SECOND)), None);
    }
}
