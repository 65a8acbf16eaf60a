//! What runs a machine on the sockets: the drivers to choose from, as one.

pub mod config;
pub(crate) mod desk;
mod dial;
mod direct;
mod epoll;
mod event_loop;
mod give;
mod network;
mod poller;
mod sampler;
mod slots;
pub mod uring;
pub mod userspace;

use std::io;

use self::config::{Config, DriverChoice, DriverStats, Subject};
use self::direct::Direct;
use self::epoll::Epoll;
use self::event_loop::Backend as _;
use self::uring::{Mounted, Uring};
use self::userspace::Userspace;
use crate::error::SetupError;
use crate::time::clock::Clock;
use crate::time::stop::StopFlag;

/// One of the drivers.
#[derive(Debug)]
pub enum Driver {
    /// Readiness.
    Epoll(Box<Epoll>),
    /// Completions.
    Uring(Box<Uring>),
    /// Calls that wait.
    Direct(Box<Direct>),
    /// SCTP without the kernel's.
    Userspace(Box<Userspace>),
}

impl Driver {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll(_) => "epoll",
            Self::Uring(_) => "io_uring",
            Self::Direct(_) => "direct",
            Self::Userspace(d) => d.name(),
        }
    }

    /// The driver of that choice for the calling thread; `Auto` takes io_uring where the kernel
    /// allows it. Associations that are not the kernel's have a driver of their own.
    pub fn new(choice: DriverChoice, config: Config) -> Result<Self, SetupError> {
        if let Some(settings) = config.sockets.userspace {
            let driver = Userspace::new(config, settings).map_err(SetupError::Driver)?;
            return Ok(Self::Userspace(Box::new(driver)));
        }
        if choice == DriverChoice::Direct {
            return Ok(Self::Direct(Box::new(Direct::new(config))));
        }
        if choice != DriverChoice::Epoll {
            match Mounted::new() {
                Ok(ring) => return Ok(Self::Uring(Box::new(Uring::new(ring, config)))),
                Err(e) if choice == DriverChoice::Uring => {
                    return Err(SetupError::Uring { reason: uring_refusal(&e) });
                }
                Err(_) => {}
            }
        }
        let epoll = Epoll::new(config).map_err(SetupError::Driver)?;
        Ok(Self::Epoll(Box::new(epoll)))
    }

    /// Run the machine until it is finished. By this name `cargo xtask instructions` finds what it
    /// counts.
    #[inline(never)]
    pub fn run(&mut self, subject: &mut dyn Subject, clock: Clock, stop: &StopFlag) -> DriverStats {
        match self {
            Self::Epoll(d) => d.run(subject, clock, stop),
            Self::Uring(d) => d.run(subject, clock, stop),
            Self::Direct(d) => d.run(subject, clock, stop),
            Self::Userspace(d) => d.run(subject, clock, stop),
        }
    }
}

/// Why there is no io_uring, in words.
fn uring_refusal(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has none".into(),
        Some(libc::EPERM | libc::EACCES) => {
            "it is forbidden (kernel.io_uring_disabled, or a container's seccomp profile)".into()
        }
        Some(libc::ENOMEM) => {
            "there is no memory for it, or no more may be locked (`ulimit -l`)".into()
        }
        Some(libc::EINVAL) | None => "the kernel is too old, 6.1 is needed".into(),
        Some(_) => e.to_string(),
    }
}
