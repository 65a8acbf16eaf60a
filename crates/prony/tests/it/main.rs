//! The real binary against real servers: `prony serve`, nginx and haproxy, over loopback.

mod ab;
mod addresses;
mod aggregators;
mod arrivals;
mod beside;
mod broadcast;
mod build_server;
mod capacity;
mod checks;
#[path = "../shared/closer.rs"]
mod closer;
mod closers;
mod compare;
mod counters;
mod documents;
mod dynamic;
mod events;
mod exits;
mod floods;
mod freeze;
mod grpc;
mod grpc_serve;
mod h2_serve;
mod h2load;
mod hostile;
mod hosts;
mod htstress;
mod http2;
mod http2_peers;
mod http2_secure_peers;
mod imports;
#[path = "../shared/installed.rs"]
mod installed;
#[path = "../shared/json_schema.rs"]
mod json_schema;
mod limited;
mod llm;
mod pictures;
mod plans;
mod raw;
mod record;
mod redirects;
mod refusals;
mod replay;
mod rig;
mod rtt;
mod rtt_tls;
mod saved;
mod scenarios;
mod scripted;
mod secrets;
mod selftest;
mod signals;
mod simulated;
mod spectrum;
mod stamps;
#[path = "../shared/stolen.rs"]
mod stolen;
mod thresholds;
mod tls;
mod tui;
mod until;
mod websocket;
mod websocket_http2;
mod websocket_node;
mod wrk;
