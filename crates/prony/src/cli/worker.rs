//! The options of `prony worker`: how the load is put on its machine. All else comes over its
//! standard input.

use std::net::IpAddr;
use std::num::NonZero;
use std::thread;

use clap::{Args, ValueEnum};
use prony_io::Precision;
use prony_run::phases::threads_of_each;

use super::exec_options::{Driver, ExecArgs};
use super::values;

/// How a worker puts a load on its machine.
#[derive(Clone, Debug, Args)]
pub struct WorkerArgs {
    /// Number of worker threads [default: the number of cores available to the process]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    pub threads: Option<u32>,
    /// Pin each thread to a core
    #[arg(long)]
    pub pin: bool,
    /// Kernel interface
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub driver: Driver,
    /// How to wait for the next send: sleep, auto, spin, or a time such as 1ms
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = values::precision)]
    pub precision: Precision,
    /// Split response times into parts with kernel timestamps
    #[arg(long)]
    pub timestamps: bool,
    /// Local addresses to connect from, in turn
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', value_parser = values::address)]
    pub source: Vec<IpAddr>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// By how many nanoseconds the wall clock is taken to be wrong, for tests
    #[arg(long, value_name = "NS", hide = true, default_value = "0")]
    pub clock_offset: i64,
    /// How many workers share the cores of this host: phases that run side by side
    #[arg(long, value_name = "N", hide = true, default_value = "1")]
    pub beside: usize,
    /// Be the aggregator of workers that it starts, or whose lines its driver carries
    #[arg(long, value_name = "HOW", hide = true, exclusive = true)]
    pub aggregator: Option<Aggregator>,
}

/// What starts the workers of an aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Aggregator {
    /// The aggregator
    Local,
    /// Another program, over standard input and output
    Carried,
}

/// The words with which an aggregator is started.
pub(crate) fn aggregator(how: &str) -> Vec<String> {
    ["worker", "--aggregator", how].map(Into::into).into()
}

impl WorkerArgs {
    /// The same as the options of a load.
    pub(crate) fn exec(&self) -> ExecArgs {
        // Without a number of threads and without others, the default is that of a load.
        let shared = (self.beside > 1).then(|| {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            threads_of_each(cores, self.beside) as u32
        });
        ExecArgs {
            threads: self.threads.or(shared),
            pin: self.pin,
            driver: self.driver,
            precision: self.precision,
            timestamps: self.timestamps,
            source: self.source.clone(),
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            ..ExecArgs::default()
        }
    }
}

/// The words with which a worker is started, for a load with these options, with this number of
/// threads, and as many as `beside` on its host.
pub(crate) fn words(exec: &ExecArgs, threads: Option<u32>, beside: usize) -> Vec<String> {
    let driver = match exec.driver {
        Driver::Auto => "auto",
        Driver::Uring => "uring",
        Driver::Epoll => "epoll",
    };
    let precision = match exec.precision {
        Precision::Auto => "auto".to_owned(),
        Precision::Sleep => "sleep".to_owned(),
        Precision::Spin => "spin".to_owned(),
        Precision::Grain(span) => span.to_string(),
    };
    let mut words: Vec<String> =
        ["worker", "--driver", driver, "--precision"].map(Into::into).into();
    words.push(precision);
    words.extend(threads.into_iter().flat_map(|n| ["--threads".to_owned(), n.to_string()]));
    if beside > 1 && threads.is_none() {
        words.extend(["--beside".to_owned(), beside.to_string()]);
    }
    let flags = [
        (exec.pin, "--pin"),
        (exec.timestamps, "--timestamps"),
        (exec.ipv4, "--ipv4"),
        (exec.ipv6, "--ipv6"),
    ];
    words.extend(flags.iter().filter(|(given, _)| *given).map(|(_, word)| (*word).to_owned()));
    for source in &exec.source {
        words.extend(["--source".to_owned(), source.to_string()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_worker_gets_the_options_of_its_load() {
        let exec = ExecArgs {
            pin: true,
            driver: Driver::Epoll,
            precision: Precision::Grain(Span::from_millis(2)),
            timestamps: true,
            source: vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()],
            ipv4: true,
            ..ExecArgs::default()
        };
        let parsed = |words: Vec<String>| {
            let typed = ["prony".to_owned()].into_iter().chain(words).map(Into::into);
            let Some(Command::Worker(args)) = Cli::read(typed).expect("options").command else {
                panic!("a worker")
            };
            args.exec()
        };
        let again = parsed(words(&exec, Some(3), 1));
        assert_eq!((again.threads, again.pin, again.driver), (Some(3), true, Driver::Epoll));
        assert_eq!((again.precision, &again.source), (exec.precision, &exec.source));
        assert_eq!((again.timestamps, again.ipv4, again.ipv6), (true, true, false));
        assert_eq!(parsed(words(&exec, Some(3), 2)).threads, Some(3));
        assert_eq!(parsed(words(&exec, None, 1)).threads, None);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        assert_eq!(parsed(words(&exec, None, cores)).threads, (cores > 1).then_some(1));
    }
}
