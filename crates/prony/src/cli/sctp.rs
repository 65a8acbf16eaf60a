//! The options of SCTP: whose it is, and what can be set of it.

use clap::{Args, ValueEnum};
use prony_core::units::Span;
use prony_io::sock::sctp::Rto;
use prony_io::userspace::{self, Settings, Via};
use prony_run::error::Error;

use super::rtt::{SOCKETS, Transport};
use super::{Driver, values};

/// What can be said about SCTP.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SctpArgs {
    /// Whose SCTP: the kernel's, or prony's own over UDP (RFC 6951) or over IP (as root)
    #[arg(long, value_name = "STACK", help_heading = SOCKETS, default_value = "kernel")]
    pub sctp: Stack,
    /// The responder's UDP port, with --sctp udp
    #[arg(
        long, value_name = "N", help_heading = SOCKETS, default_value_t = userspace::UDP_PORT,
    )]
    pub sctp_udp_port: u16,
    /// Retransmission timeouts.
    #[command(flatten)]
    pub rto: RtoArgs,
}

/// Whose SCTP it is.
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

/// SCTP's retransmission timeouts of this side; the peer has its own.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct RtoArgs {
    /// SCTP's retransmission timeout before the first round trip [default: 3s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_initial: Option<Span>,
    /// Its lower limit [default: 1s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_min: Option<Span>,
    /// Its upper limit [default: 60s]
    #[arg(long, value_name = "T", help_heading = SOCKETS, value_parser = values::positive_span)]
    pub rto_max: Option<Span>,
}

impl SctpArgs {
    /// What SCTP of our own is set to; `None` where it is the kernel's.
    pub fn settings(&self) -> Option<Settings> {
        let via = match self.sctp {
            Stack::Kernel => return None,
            Stack::Udp => Via::Udp,
            Stack::Raw => Via::Raw,
        };
        Some(Settings { via, udp_port: self.sctp_udp_port, rto: self.rto.rto() })
    }

    /// Whether what is asked of SCTP fits to what else is asked for.
    ///
    /// # Errors
    /// It does not.
    pub fn check(&self, transports: &[Transport], driver: Driver) -> Result<(), Error> {
        let is_sctp = |t: &Transport| matches!(t, Transport::Sctp | Transport::SctpSeqpacket);
        if let Some(option) = self.rto.given()
            && !transports.iter().any(is_sctp)
        {
            let why = "other transports have timeouts of their own";
            return Err(Error::Needs(option, "--transport sctp or sctp-seqpacket", why));
        }
        if self.sctp_udp_port != userspace::UDP_PORT && self.sctp != Stack::Udp {
            let why = "nothing else goes over UDP";
            return Err(Error::Needs("--sctp-udp-port", "--sctp udp", why));
        }
        if self.sctp == Stack::Kernel {
            return Ok(());
        }
        if !transports.iter().any(is_sctp) {
            return Err(Error::Value {
                what: "--sctp",
                value: self.name().into(),
                why: "is for --transport sctp or sctp-seqpacket; add one of them".into(),
            });
        }
        if driver != Driver::Auto {
            let why = "packets of SCTP that is not the kernel's have a driver of their own";
            return Err(Error::Conflict("--sctp udp or raw", "--driver", why));
        }
        Ok(())
    }

    /// The same of what only a client can get wrong.
    ///
    /// # Errors
    /// It does not fit.
    pub fn check_client(&self, nagle: bool) -> Result<(), Error> {
        if self.sctp == Stack::Udp && self.sctp_udp_port == 0 {
            return Err(Error::Value {
                what: "--sctp-udp-port",
                value: "0".into(),
                why: "is no port; give the one that the responder says".into(),
            });
        }
        if nagle && self.sctp != Stack::Kernel {
            let why = "SCTP that is not the kernel's sends every message at once";
            return Err(Error::Conflict("--sctp udp or raw", "--nagle", why));
        }
        Ok(())
    }

    /// What readers of a report must know, as a whole sentence.
    pub fn note(&self) -> Option<String> {
        let over = match self.sctp {
            Stack::Kernel => return None,
            Stack::Udp => format!("over UDP (port {} of the responder)", self.sctp_udp_port),
            Stack::Raw => "over IP".to_owned(),
        };
        let whose = userspace::NAME;
        Some(format!("SCTP was not the kernel's but {whose}, in this process, {over}."))
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
    /// The first of the options that is given.
    fn given(&self) -> Option<&'static str> {
        [
            ("--rto-initial", self.rto_initial),
            ("--rto-min", self.rto_min),
            ("--rto-max", self.rto_max),
        ]
        .into_iter()
        .find_map(|(option, time)| time.map(|_| option))
    }

    /// The same in milliseconds, rounded up; 0 = as the stack has it.
    pub fn rto(&self) -> Rto {
        let ms = |t: Option<Span>| {
            t.map_or(0, |t| u32::try_from(t.0.div_ceil(1_000_000)).unwrap_or(u32::MAX))
        };
        Rto { initial: ms(self.rto_initial), min: ms(self.rto_min), max: ms(self.rto_max) }
    }
}
