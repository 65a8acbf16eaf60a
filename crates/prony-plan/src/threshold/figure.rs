//! The names of figures, as users write them in thresholds: `p99`, `service.p99.9`, `errors`,
//! `status.503`, `session.completed`. `docs/terms.md` defines the figures.

use std::fmt;

use super::{Scalar, Timed, Unit};
use prony_base::fault::Fault;

/// A statistic of durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The arithmetic mean.
    Mean,
    /// The standard deviation.
    Stdev,
    /// The shortest.
    Min,
    /// The longest.
    Max,
    /// That percentile, over 0 and below 100.
    Percentile(f64),
}

/// Something that is counted, and of which a share can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Failed requests; as a share, of those that ended.
    Errors,
    /// Requests that timed out; as a share, of those that ended.
    Timeouts,
    /// Requests that failed with one error; as a share, of those that ended.
    Error(Fault),
    /// Replies with that status; as a share, of all replies.
    Status(u16),
    /// Replies with a status of that hundred (`5xx`); as a share, of all replies.
    StatusClass(u8),
    /// Requests given up because the run ended; as a share, of those that started.
    Unfinished,
    /// Requests sent again; as a share, of those that started.
    Retries,
    /// Completed sessions; as a share, of those that ended.
    SessionsCompleted,
    /// Failed sessions; as a share, of those that ended.
    SessionsFailed,
    /// Messages of a schedule that were not sent; as a share, of all of its messages.
    MessagesUnsent,
    /// Replies of a language model that keep all limits; as a share, of the requests that ended.
    Good,
    /// Replies that pass one check; as a share, of those that it looked at.
    Check,
    /// The same for all checks together.
    Checks,
    /// Completed groups of one name; as a share, of those that ended.
    GroupsCompleted,
    /// Failed groups of one name; as a share, of those that ended.
    GroupsFailed,
}

/// A figure that a threshold can be set for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A statistic of durations.
    Time(Timed, Statistic),
    /// A count or a share.
    Count(Counted),
    /// One number.
    Scalar(Scalar),
}

const STATISTICS: [(&str, Statistic); 4] = [
    ("mean", Statistic::Mean),
    ("stdev", Statistic::Stdev),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
];

const COUNTED: [(&str, Counted); 12] = [
    ("errors", Counted::Errors),
    ("timeouts", Counted::Timeouts),
    ("unfinished", Counted::Unfinished),
    ("retries", Counted::Retries),
    ("session.completed", Counted::SessionsCompleted),
    ("session.failed", Counted::SessionsFailed),
    ("messages.unsent", Counted::MessagesUnsent),
    ("good", Counted::Good),
    ("check", Counted::Check),
    ("checks", Counted::Checks),
    ("group.completed", Counted::GroupsCompleted),
    ("group.failed", Counted::GroupsFailed),
];

impl Figure {
    /// The figure of that name.
    ///
    /// # Errors
    /// There is none: a sentence that names the nearest one, where one is near.
    pub fn parse(name: &str) -> Result<Self, String> {
        if let Some(figure) = exact(name) {
            return Ok(figure);
        }
        if name == "p9" || name.ends_with(".p9") {
            // As typed, p99 or p90 with a digit missing is far more likely.
            return Err(format!(
                "'{name}' is the 9th percentile; write p90, p99 or, if it is meant, p9.0"
            ));
        }
        let meant = nearest(name).map(|name| format!("; did you mean '{name}'?"));
        Err(format!(
            "there is no figure '{name}'{}",
            meant.unwrap_or_else(|| {
                ": write p99, mean, max, service.p99, connect.p99, errors, status.503, rate or \
                 another name of docs/terms.md"
                    .into()
            })
        ))
    }

    /// What its limit is measured in: of what is counted, a number, unless a share is asked for.
    pub fn unit(self) -> Unit {
        match self {
            Self::Time(..) => Unit::Time,
            Self::Scalar(scalar) => scalar.unit(),
            Self::Count(_) => Unit::Count,
        }
    }

    /// Whether the figure exists for the requests of one name.
    pub fn is_of_requests(self) -> bool {
        matches!(
            self,
            Self::Time(Timed::Response | Timed::Service, _)
                | Self::Count(Counted::Errors)
                | Self::Scalar(Scalar::Requests | Scalar::Replies)
        )
    }

    /// Whether it is about sessions.
    pub fn is_of_sessions(self) -> bool {
        matches!(
            self,
            Self::Time(Timed::Session, _)
                | Self::Count(Counted::SessionsCompleted | Counted::SessionsFailed)
                | Self::Scalar(Scalar::SessionRate)
        )
    }

    /// Whether it is a figure of one check.
    pub fn is_of_check(self) -> bool {
        self == Self::Count(Counted::Check)
    }

    /// Whether it is a figure of the groups of one name.
    pub fn is_of_group(self) -> bool {
        matches!(
            self,
            Self::Time(Timed::Group, _)
                | Self::Count(Counted::GroupsCompleted | Counted::GroupsFailed)
        )
    }

    /// Whether a threshold on it can end a load: whether it is known while the load runs.
    pub fn can_end_load(self) -> bool {
        matches!(
            self,
            Self::Time(
                Timed::Response | Timed::Service,
                Statistic::Mean | Statistic::Percentile(_)
            ) | Self::Scalar(Scalar::Rate)
                | Self::Count(Counted::Errors)
        )
    }

    /// Whether it needs the service times over time.
    pub fn is_of_service(self) -> bool {
        matches!(self, Self::Time(Timed::Service, _))
    }
}

fn exact(name: &str) -> Option<Figure> {
    let counted = COUNTED.iter().find(|(n, _)| *n == name).map(|&(_, c)| Figure::Count(c));
    let scalar = Scalar::ALL.iter().find(|s| s.key() == name).map(|&s| Figure::Scalar(s));
    if let Some(figure) = counted.or(scalar) {
        return Some(figure);
    }
    if let Some(status) = name.strip_prefix("status.") {
        return status_of(status).map(Figure::Count);
    }
    if let Some(error) = name.strip_prefix("error.") {
        let fault = Fault::ALL.into_iter().find(|f| name_of_fault(*f) == error)?;
        return Some(Figure::Count(Counted::Error(fault)));
    }
    let of = Timed::ALL.iter().find_map(|&timed| {
        let rest = name.strip_prefix(timed.key())?.strip_prefix('.')?;
        Some((timed, rest))
    });
    let (timed, statistic) = of.unwrap_or((Timed::Response, name));
    let named = STATISTICS.iter().find(|(n, _)| *n == statistic).map(|&(_, s)| s);
    let statistic = named.or_else(|| percentile(statistic))?;
    Some(Figure::Time(timed, statistic))
}

/// As results in JSON name it.
fn name_of_fault(fault: Fault) -> String {
    let name = serde_json::to_value(fault).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn percentile(name: &str) -> Option<Statistic> {
    let digits = name.strip_prefix('p').filter(|d| *d != "9")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let p: f64 = digits.parse().ok()?;
    (plain && p > 0.0 && p < 100.0).then_some(Statistic::Percentile(p))
}

fn status_of(text: &str) -> Option<Counted> {
    if let Some(class) = text.strip_suffix("xx") {
        let class: u8 = class.parse().ok()?;
        return (1..=5).contains(&class).then_some(Counted::StatusClass(class));
    }
    let status: u16 = text.parse().ok()?;
    (100..=599).contains(&status).then_some(Counted::Status(status))
}

/// The name that differs from a word in two letters at most.
fn nearest(word: &str) -> Option<String> {
    let statistics =
        STATISTICS.iter().map(|(n, _)| *n).chain(["p50", "p90", "p95", "p99", "p99.9"]);
    let statistics: Vec<&str> = statistics.collect();
    let plain = statistics.iter().map(|s| (*s).to_owned());
    let timed = Timed::ALL
        .iter()
        .flat_map(|timed| statistics.iter().map(move |s| format!("{}.{s}", timed.key())));
    let counted = COUNTED.iter().map(|(n, _)| (*n).to_owned());
    let scalars = Scalar::ALL.iter().map(|s| s.key().to_owned());
    let errors = Fault::ALL.into_iter().map(|f| format!("error.{}", name_of_fault(f)));
    let names = plain.chain(counted).chain(scalars).chain(timed).chain(errors);
    let lower = word.to_ascii_lowercase().replace('_', "-");
    let (away, name) = names.map(|n| (distance(&n, &lower), n)).min_by_key(|(d, _)| *d)?;
    (away <= 2 && away * 2 < name.len()).then_some(name)
}

/// How many letters must be put in, left out or replaced (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn name_of<T: PartialEq>(names: &[(&'static str, T)], of: &T) -> &'static str {
            names.iter().find(|(_, t)| t == of).map_or("", |(n, _)| n)
        }
        match self {
            Self::Time(timed, statistic) => {
                if *timed != Timed::Response {
                    write!(f, "{}.", timed.key())?;
                }
                match statistic {
                    Statistic::Percentile(p) if *p == 9.0 => f.write_str("p9.0"),
                    Statistic::Percentile(p) => write!(f, "p{p}"),
                    other => f.write_str(name_of(&STATISTICS, other)),
                }
            }
            Self::Count(Counted::Error(fault)) => write!(f, "error.{}", name_of_fault(*fault)),
            Self::Count(Counted::Status(status)) => write!(f, "status.{status}"),
            Self::Count(Counted::StatusClass(class)) => write!(f, "status.{class}xx"),
            Self::Count(counted) => f.write_str(name_of(&COUNTED, counted)),
            Self::Scalar(scalar) => f.write_str(scalar.key()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_as_it_is_written() {
        let mut names: Vec<String> = ["p99", "p99.9", "p9.0", "mean", "max", "status.503"]
            .into_iter()
            .chain(["status.5xx", "service.p99.99", "connect.stdev", "session.p50"])
            .map(str::to_owned)
            .collect();
        names.extend(COUNTED.iter().map(|(n, _)| (*n).to_owned()));
        names.extend(Scalar::ALL.iter().map(|s| s.key().to_owned()));
        names.extend(Fault::ALL.into_iter().map(|f| format!("error.{}", name_of_fault(f))));
        for name in names {
            assert_eq!(Figure::parse(&name).expect(&name).to_string(), name);
        }
        assert_eq!(Figure::parse("response.p50").map(|f| f.to_string()), Ok("p50".into()));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        for (wrong, meant) in [
            ("eror", "errors"),
            ("servce.p99", "service.p99"),
            ("first_byte.p99", "first-byte.p99"),
            ("sesion.completed", "session.completed"),
            ("error.conect-refused", "error.connect-refused"),
        ] {
            let why = Figure::parse(wrong).expect_err(wrong);
            assert_eq!(why, format!("there is no figure '{wrong}'; did you mean '{meant}'?"));
        }
        for wrong in
            ["", "p100", "p0", "pp", "p-1", "p1e1", "status.99", "status.600", "status.6xx"]
        {
            assert!(Figure::parse(wrong).is_err(), "{wrong}");
        }
        let p9 = Figure::parse("service.p9").expect_err("p9");
        assert!(p9.starts_with("'service.p9' is the 9th percentile"), "{p9}");
    }
}
