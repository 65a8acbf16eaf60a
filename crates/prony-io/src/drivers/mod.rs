//! Drivers: event loops that run a machine on sockets. [`Driver`] is any of them.

pub mod config;
pub(crate) mod dedicated;
mod dial;
mod direct;
mod epoll;
mod event_loop;
mod network;
mod poller;
mod sampler;
mod slots;
pub mod uring;
pub mod userspace;
mod write_out;

use std::io;

use self::config::{Config, DriverChoice, DriverStats, Subject};
use self::direct::Direct;
use self::epoll::Epoll;
use self::event_loop::Backend as _;
use self::uring::{ReadyRing, Uring};
use self::userspace::Userspace;
use crate::error::SetupError;
use crate::time::clock::Clock;
use crate::time::stop::StopFlag;

/// One of the drivers.
#[derive(Debug)]
pub enum Driver {
    /// Readiness events.
    Epoll(Box<Epoll>),
    /// Completion events.
    Uring(Box<Uring>),
    /// Blocking calls.
    Direct(Box<Direct>),
    /// Userspace SCTP.
    Userspace(Box<Userspace>),
}

impl Driver {
    /// The driver's name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll(_) => "epoll",
            Self::Uring(_) => "io_uring",
            Self::Direct(_) => "direct",
            Self::Userspace(d) => d.name(),
        }
    }

    /// A driver of the chosen kind for the calling thread. `Auto` uses io_uring where the kernel
    /// allows it. Userspace SCTP always uses its own driver.
    pub fn new(choice: DriverChoice, config: Config) -> Result<Self, SetupError> {
        if let Some(settings) = config.sockets.userspace {
            let driver = Userspace::new(config, settings).map_err(SetupError::Driver)?;
            return Ok(Self::Userspace(Box::new(driver)));
        }
        if choice == DriverChoice::Direct {
            return Ok(Self::Direct(Box::new(Direct::new(config))));
        }
        if choice != DriverChoice::Epoll {
            match ReadyRing::new() {
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

    /// Run the machine until it is finished. `cargo xtask instructions` finds this function by its
    /// name.
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

/// Why io_uring is not available, as text.
fn uring_refusal(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel does not have it".into(),
        Some(libc::EPERM | libc::EACCES) => {
            "it is disabled (kernel.io_uring_disabled, or a container's seccomp profile)".into()
        }
        Some(libc::ENOMEM) => {
            "not enough memory, or the limit of locked memory is too low (`ulimit -l`)".into()
        }
        Some(libc::EINVAL) | None => "the kernel is too old; 6.1 is required".into(),
        Some(_) => e.to_string(),
    }
}
