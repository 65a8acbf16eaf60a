//! `prony httperf` compared with the original: the same command lines, against the same servers.

mod cases;
#[path = "../shared/closer.rs"]
mod closer;
mod closers;
mod compare;
mod cut;
mod defects;
mod foreign;
mod guide;
mod hostile;
mod idleconn;
#[path = "../shared/installed.rs"]
mod installed;
mod pages;
mod program;
mod replies;
#[path = "../shared/reserved.rs"]
mod reserved;
mod server;
mod text;
