//! How long a step took, and how much processor time.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Ticks of `/proc` per second: the same on all platforms of Linux that Rust has a standard library
/// for.
const TICKS: u64 = 100;

/// The times of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepTime {
    name: String,
    wall: Duration,
    cpu: Duration,
}

impl StepTime {
    /// Of a step that has ended now.
    pub(super) fn since(name: &str, start: Instant, cpu_before: Duration) -> Self {
        let cpu = cpu_time().saturating_sub(cpu_before);
        Self { name: name.to_owned(), wall: start.elapsed(), cpu }
    }

    /// As a line for another process.
    pub(super) fn to_line(&self) -> String {
        format!("{} {} {}\n", self.name, self.wall.as_millis(), self.cpu.as_millis())
    }

    /// What [`StepTime::to_line`] has written.
    pub(super) fn of_line(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, wall, cpu] = words[..] else { anyhow::bail!("no times of a step: {line}") };
        let ms = |text: &str| -> Result<Duration> {
            Ok(Duration::from_millis(text.parse().with_context(|| format!("no number: {line}"))?))
        };
        Ok(Self { name: name.to_owned(), wall: ms(wall)?, cpu: ms(cpu)? })
    }
}

impl fmt::Display for StepTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:13} {}  {}", self.name, minutes(self.wall), minutes(self.cpu))
    }
}

fn minutes(time: Duration) -> String {
    format!("{:2}:{:04.1}", time.as_secs() / 60, time.as_secs_f64() % 60.0)
}

/// The processor time of this process and of all programs that it has run and waited for; zero if
/// the system does not report it.
pub(super) fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_millis(ticks(&stat).unwrap_or_default() * 1_000 / TICKS)
}

/// Fields 14 to 17 of `/proc/PID/stat` (proc(5)): user and system time, own and of children.
fn ticks(stat: &str) -> Option<u64> {
    // The second field is a name in parentheses, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_user_and_system_time_of_the_process_and_its_children() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 30 4 500 60 20 0 1 0 99 100 0";
        assert_eq!(ticks(stat), Some(594));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn line_keeps_the_times() {
        let (wall, cpu) = (Duration::from_millis(61_500), Duration::from_millis(119_960));
        let time = StepTime { name: "unit".to_owned(), wall, cpu };
        assert_eq!(StepTime::of_line(&time.to_line()).unwrap(), time);
        assert_eq!(time.to_string(), "unit           1:01.5   1:60.0");
        assert!(StepTime::of_line("unit 1").is_err());
    }
}
