//! Tests in virtual time: of the world itself, and of the figures that prony reports in it.

mod arrivals;
mod bottlenecks;
mod closing_servers;
mod comparisons;
mod confidence;
mod delegate;
mod events;
mod exchange;
mod faults;
mod freezes;
mod goals;
mod grpc_faults;
mod http2;
#[path = "../../../prony-core/tests/identity/mod.rs"]
mod identity;
mod kernel_timestamps;
mod logs;
mod merged;
mod messages;
mod meter_added;
mod plans;
mod rate_changes;
mod regressions;
mod replay;
mod serve;
mod sessions;
mod streams;
mod templates;
mod theory;
mod thresholds;
mod tls;
mod tokens;
mod truth;
mod verdicts;
mod websocket;
mod world;
