//! SCTP options: the implementation and its timeouts.

use clap::{Args, ValueEnum};
use prony_base::units::Span;
use prony_io::socket::sctp::Rto;
use prony_io::userspace::{self, Settings, Via};
use prony_run::error::Error;

use super::transport::{SOCKETS, Transport};
use super::{Driver, values};

/// The options of SCTP.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SctpArgs {
    /// SCTP implementation: the kernel's, or prony's own over UDP (RFC 6951) or over IP (needs
    /// root)
    #[arg(long, value_name = "STACK", help_heading = SOCKETS, default_value = "kernel")]
    pub sctp: Stack,
    /// UDP port of the responder, for --sctp udp
    #[arg(
        long, value_name = "N", help_heading = SOCKETS, default_value_t = userspace::UDP_PORT,
    )]
    pub sctp_udp_port: u16,
    /// Retransmission timeouts.
    #[command(flatten)]
    pub rto: RtoArgs,
}

/// The SCTP implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stack {
    /// the kernel's
    #[default]
    Kernel,
    /// prony's own, over UDP
    Udp,
    /// prony's own, over IP
    Raw,
}

/// The SCTP retransmission timeouts of this side. The peer has its own.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct RtoArgs {
    /// Initial retransmission timeout of SCTP [default: 3s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_initial: Option<Span>,
    /// Minimum retransmission timeout of SCTP [default: 1s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_min: Option<Span>,
    /// Maximum retransmission timeout of SCTP [default: 60s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_max: Option<Span>,
}

impl SctpArgs {
    /// The settings of the userspace SCTP; `None` for the kernel's SCTP.
    pub fn settings(&self) -> Option<Settings> {
        let via = match self.sctp {
            Stack::Kernel => return None,
            Stack::Udp => Via::Udp,
            Stack::Raw => Via::Raw,
        };
        Some(Settings { via, udp_port: self.sctp_udp_port, rto: self.rto.rto() })
    }

    /// Checks that the SCTP options fit the transports and the driver.
    ///
    /// # Errors
    /// They do not fit.
    pub fn check(&self, transports: &[Transport], driver: Driver) -> Result<(), Error> {
        let is_sctp = |t: &Transport| matches!(t, Transport::Sctp | Transport::SctpSeqpacket);
        if let Some(option) = self.rto.given()
            && !transports.iter().any(is_sctp)
        {
            let why = "these timeouts apply only to SCTP";
            return Err(Error::Needs(option, "--transport sctp or sctp-seqpacket", why));
        }
        if self.sctp_udp_port != userspace::UDP_PORT && self.sctp != Stack::Udp {
            let why = "only SCTP over UDP uses this port";
            return Err(Error::Needs("--sctp-udp-port", "--sctp udp", why));
        }
        if self.sctp == Stack::Kernel {
            return Ok(());
        }
        if !transports.iter().any(is_sctp) {
            return Err(Error::Value {
                what: "--sctp",
                value: self.name().into(),
                why: "needs --transport sctp or sctp-seqpacket".into(),
            });
        }
        if driver != Driver::Auto {
            let why = "the userspace SCTP has its own driver";
            return Err(Error::Conflict("--sctp udp or raw", "--driver", why));
        }
        Ok(())
    }

    /// Checks the SCTP options that concern only clients.
    ///
    /// # Errors
    /// They do not fit.
    pub fn check_client(&self, nagle: bool) -> Result<(), Error> {
        if self.sctp == Stack::Udp && self.sctp_udp_port == 0 {
            return Err(Error::Value {
                what: "--sctp-udp-port",
                value: "0".into(),
                why: "is not a port; use the one that the responder prints".into(),
            });
        }
        if nagle && self.sctp != Stack::Kernel {
            let why = "the userspace SCTP always sends messages at once";
            return Err(Error::Conflict("--sctp udp or raw", "--nagle", why));
        }
        Ok(())
    }

    /// The note for the report, if the SCTP is not the kernel's.
    pub fn note(&self) -> Option<String> {
        let over = match self.sctp {
            Stack::Kernel => return None,
            Stack::Udp => format!("over UDP (the responder's port {})", self.sctp_udp_port),
            Stack::Raw => "over IP".to_owned(),
        };
        let stack = userspace::NAME;
        Some(format!("SCTP ran in this process ({stack}) {over}, not in the kernel."))
    }

    fn name(&self) -> &'static str {
        match self.sctp {
            Stack::Kernel => "kernel",
            Stack::Udp => "udp",
            Stack::Raw => "raw",
        }
    }
}

impl RtoArgs {
    /// The first option that is given.
    fn given(&self) -> Option<&'static str> {
        [
            ("--rto-initial", self.rto_initial),
            ("--rto-min", self.rto_min),
            ("--rto-max", self.rto_max),
        ]
        .into_iter()
        .find_map(|(option, time)| time.map(|_| option))
    }

    /// The timeouts in milliseconds, rounded up; 0 is the default of the stack.
    pub fn rto(&self) -> Rto {
        let ms = |t: Option<Span>| {
            t.map_or(0, |t| u32::try_from(t.0.div_ceil(1_000_000)).unwrap_or(u32::MAX))
        };
        Rto { initial: ms(self.rto_initial), min: ms(self.rto_min), max: ms(self.rto_max) }
    }
}
