//! gRPC: calls of `grpc.testing.TestService`, `grpc.health.v1.Health`, `grpc.reflection` (v1 and
//! v1alpha), and load reports. Knows nothing of HTTP/2: `h2/calls` carries the messages.

mod call;
mod gzip;
mod head;
mod health;
mod messages;
mod reflection;
mod wire;

pub(super) use call::{Call, End, Failure, Next};
pub(super) use head::{CallHead, ECHO_INITIAL, ECHO_TRAILING, Kind};
pub use reflection::DESCRIPTORS;
