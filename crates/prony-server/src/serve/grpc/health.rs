//! `grpc.health.v1.Health`: every service is served.

use super::head::SERVICES;
use super::wire::{self, Fields, Malformed};

/// The states of a service.
const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;
const SERVICE_UNKNOWN: u64 = 3;

/// Whether the server has the service that a request names; without a name it means all.
pub(super) fn knows(request: &[u8]) -> Result<bool, Malformed> {
    let mut service: &[u8] = &[];
    for field in Fields(request) {
        if let (1, value) = field? {
            service = value.bytes();
        }
    }
    Ok(service.is_empty() || SERVICES.iter().any(|known| known.as_bytes() == service))
}

/// The response for a service that can be used.
pub(super) fn serving() -> Vec<u8> {
    response(SERVING)
}

/// The response for a server that stops.
pub(super) fn not_serving() -> Vec<u8> {
    response(NOT_SERVING)
}

/// The response for a service that the server does not have.
pub(super) fn unknown() -> Vec<u8> {
    response(SERVICE_UNKNOWN)
}

/// The states of all services.
pub(super) fn list() -> Vec<u8> {
    let mut out = Vec::new();
    for service in SERVICES.into_iter().chain([""]) {
        let mut entry = Vec::new();
        wire::bytes(&mut entry, 1, service.as_bytes());
        wire::bytes(&mut entry, 2, &serving());
        wire::bytes(&mut out, 1, &entry);
    }
    out
}

fn response(state: u64) -> Vec<u8> {
    let mut out = Vec::new();
    wire::number(&mut out, 1, state);
    out
}
