//! Compiles the messages of gRPC calls that have variable parts.

use crate::plan::{GrpcCall, MessagePart, ScalarKind, Wire};
use crate::vars::message::{Builder, Format, Message, Scalar};
use crate::vars::{Scope, TemplateError};

/// The messages of a call; none if they have no variable parts.
pub(super) fn compile(
    call: &GrpcCall,
    scope: &Scope,
    draws: &mut u64,
) -> Result<Box<[Message]>, TemplateError> {
    let mut messages = Vec::with_capacity(call.messages.len());
    for parts in &call.messages {
        let mut builder = Builder::new(scope, draws);
        append(parts, &mut builder)?;
        messages.push(builder.finish());
    }
    Ok(messages.into())
}

fn append(parts: &[MessagePart], builder: &mut Builder<'_>) -> Result<(), TemplateError> {
    for part in parts {
        match part {
            MessagePart::Bytes(bytes) => builder.bytes(bytes),
            MessagePart::Field { number, kind, text } => {
                builder.field(*number, scalar(kind), text)?;
            }
            MessagePart::Message { number, parts } => {
                builder.message(*number, |inner| append(parts, inner))?;
            }
        }
    }
    Ok(())
}

fn scalar(kind: &ScalarKind) -> Scalar {
    match kind {
        ScalarKind::String => Scalar::Text,
        ScalarKind::Bytes => Scalar::Base64,
        ScalarKind::Bool => Scalar::Bool,
        ScalarKind::Int32(wire) => Scalar::Signed(32, format(*wire)),
        ScalarKind::Int64(wire) => Scalar::Signed(64, format(*wire)),
        ScalarKind::Uint32(wire) => Scalar::Unsigned(32, format(*wire)),
        ScalarKind::Uint64(wire) => Scalar::Unsigned(64, format(*wire)),
        ScalarKind::Float => Scalar::Float,
        ScalarKind::Double => Scalar::Double,
        ScalarKind::Enum(names) => Scalar::Enum(names.clone()),
    }
}

fn format(wire: Wire) -> Format {
    match wire {
        Wire::Varint => Format::Varint,
        Wire::ZigZag => Format::ZigZag,
        Wire::Fixed => Format::Fixed,
    }
}
