//! The options of `prony capacity`.

use clap::{Args, ValueEnum};
use prony_base::units::Span;
use prony_plan::plan::Think;
use prony_plan::schedule::{Arrivals, ArrivalsArg, RatePlan};
use prony_report::Format;
use prony_run::error::Error;
use prony_stats::capacity::By;

use super::typed::Refused;
use super::{LoadArgs, values};

const SEARCH: &str = "Search";
/// The highest rate to start from, per second.
const FROM_MAX: f64 = 1e7;
/// The first trial, by default.
const FROM_RATE: f64 = 10.0;
const FROM_CONNECTIONS: f64 = 1.0;
/// No load generator offers a higher rate.
const RATE_MAX: f64 = 4e6;

/// What a search varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// The arrival rate of an open loop.
    #[default]
    Rate,
    /// The number of connections of a closed loop.
    Connections,
}

/// The options of `prony capacity`.
#[derive(Clone, Debug, Args)]
pub struct CapacityArgs {
    /// What to vary: the rate of an open loop, or the connections of a closed loop
    ///
    /// By connections, -c is the maximum, and the report shows whether the throughput follows the
    /// Universal Scalability Law.
    #[arg(long, value_name = "WHAT", help_heading = SEARCH, default_value = "rate")]
    pub by: ByArg,
    /// Maximum time of the search, with all its trials [default: 5m, or longer]
    ///
    /// By rate, at least 1,500 times the longest limit of a time, such as 15m for 600ms. That is
    /// the default if it is longer than 5m.
    #[arg(long, value_name = "T", help_heading = SEARCH, value_parser = values::positive_span)]
    pub budget: Option<Span>,
    /// Stop when the 95 % confidence interval lies within this share of the capacity
    #[arg(
        long, value_name = "SHARE", help_heading = SEARCH, default_value = "2%",
        value_parser = share,
    )]
    pub accuracy: f64,
    /// Rate of the first trial, per second, or its connections [default: 10, or 1 connection]
    #[arg(long, value_name = "N", help_heading = SEARCH, value_parser = rate)]
    pub from: Option<f64>,
    /// Also measure at this multiple of the capacity, such as 1.5 [default: none]
    ///
    /// Shows whether a target that is overloaded degrades, or collapses.
    #[arg(long, value_name = "FACTOR", help_heading = SEARCH, value_parser = factor)]
    pub beyond: Option<f64>,

    /// The options of a load.
    #[command(flatten)]
    pub load: LoadArgs,
}

const OF_SEARCH: &str = "the search sets the rates and lengths of its trials";
const WHOLE: &str = "a search has its own progress and its own report";

/// The options of a load that a search refuses.
pub(super) const REFUSED: Refused = Refused {
    by: "prony capacity",
    options: &[
        (&["--rate", "--duration", "--requests", "--sessions", "--warmup", "--until"], OF_SEARCH),
        (&["--ramp-up"], "the users of a trial start at once"),
        (&["--shard", "--start-at"], "the search starts its trials itself; --hosts splits them"),
        (&["--explain", "--tui", "--histogram", "--github", "--label", "--raw", "--trace"], WHOLE),
    ],
    hidden: &["--think", "--no-tui"],
};

impl CapacityArgs {
    /// The options of the trials; refuses those that a search sets itself.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn of_trials(&self) -> Result<LoadArgs, Error> {
        let load = &self.load;
        REFUSED.check(&load.typed)?;
        let is_open = self.by == ByArg::Rate;
        let closed = "a search by rate runs open loops, which do not wait for replies";
        let open = "a search by connections runs closed loops, which have no arrivals";
        let own = load
            .arrivals
            .as_ref()
            .is_some_and(|a| !matches!(a, ArrivalsArg::Process(arrivals) if arrivals.has_rate()));
        let refused = [
            ("--arrivals", load.arrivals.is_some() && !is_open, open),
            ("--arrivals", own, "the search sets the rates; use poisson, gamma or fixed"),
            ("--think", is_open && load.closed.think.is_some_and(|t| t != Think::None), closed),
        ];
        if let Some((option, _, why)) = refused.into_iter().find(|(_, given, _)| *given) {
            return Err(Error::Conflict(option, "prony capacity", why));
        }
        let mut load = load.clone();
        if is_open {
            load.rate = Some(RatePlan::constant(self.first()));
            load.arrivals = load.arrivals.or(Some(ArrivalsArg::Process(Arrivals::Poisson)));
        } else if self.first().fract() != 0.0 || self.first() < 1.0 {
            let why = "must be a whole number of connections, such as 1".into();
            return Err(Error::Value { what: "--from", value: self.first().to_string(), why });
        }
        Ok(load)
    }

    /// What the search varies.
    pub fn levels(&self) -> By {
        match self.by {
            ByArg::Rate => By::Rate,
            ByArg::Connections => By::Connections,
        }
    }

    /// The first level.
    pub fn first(&self) -> f64 {
        self.from.unwrap_or(match self.by {
            ByArg::Rate => FROM_RATE,
            ByArg::Connections => FROM_CONNECTIONS,
        })
    }

    /// The highest level, given the most connections.
    ///
    /// # Errors
    /// The first level is higher.
    pub fn most(&self, connections: u32) -> Result<f64, Error> {
        let most = match self.by {
            ByArg::Rate => return Ok(RATE_MAX),
            ByArg::Connections => f64::from(connections),
        };
        if self.first() > most {
            let why = format!("is more than the maximum of {connections} connections (-c)");
            return Err(Error::Value { what: "--from", value: self.first().to_string(), why });
        }
        Ok(most)
    }

    /// Format of the report on standard output.
    ///
    /// # Errors
    /// A capacity has no such format.
    pub fn stdout_format(&self) -> Result<Format, Error> {
        let format = self.load.output.to.stdout_format();
        match format {
            Format::Text | Format::Json | Format::Html | Format::Svg => Ok(format),
            _ => Err(Error::Argument(
                "--format: a capacity can be printed as text, json, html or svg".into(),
            )),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
        None => text.parse(),
    };
    let share = number.ok().filter(|s| (0.001..=0.5).contains(s));
    share.ok_or_else(|| "must be between 0.1% and 50%, such as 2%".into())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|f| (1.0..=10.0).contains(f) && *f > 1.0);
    factor.ok_or_else(|| "must be above 1 and at most 10, such as 1.5".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let plan = values::rate_plan(text)?;
    let rate = plan.initial();
    if plan.changes() || plan.length().is_some() || !(0.1..=FROM_MAX).contains(&rate) {
        return Err("must be one rate of 0.1/s to 10m/s, such as 100".into());
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn reads_shares_rates_and_factors() {
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share("0.05"), Ok(0.05));
        assert!(share("0%").is_err() && share("60%").is_err() && share("x").is_err());
        assert_eq!(factor("1.5"), Ok(1.5));
        assert!(factor("1").is_err() && factor("11").is_err());
        assert_eq!(rate("2k"), Ok(2_000.0));
        assert!(rate("1k..2k@3s").is_err() && rate("0.01").is_err());
    }

    #[test]
    fn refuses_every_hidden_option() {
        let given = [
            "-r 5",
            "-d 1s",
            "-n 5",
            "--session s.toml --sessions 2",
            "--warmup 1s",
            "--until p99+-5%",
            "--think 1ms",
            "--shard 1/2",
            "--start-at 4000000000",
            "--explain",
            "--tui",
            "--histogram",
            "--github",
            "--label a",
            "--raw a.csv",
            "--ramp-up 1s",
            "--trace=2",
        ];
        for words in given {
            let line = format!("prony capacity --threshold p99<1s {words} http://h/");
            let cli = Cli::read(line.split(' ').map(Into::into)).expect("it can be parsed");
            let Some(Command::Capacity(args)) = cli.command else { panic!("{line}") };
            assert!(args.of_trials().is_err(), "{line}");
        }
        // With --think, which only loads by connections have.
        let refused: usize = REFUSED.options.iter().map(|(options, _)| options.len()).sum();
        assert_eq!(given.len(), refused + 1);
    }
}
