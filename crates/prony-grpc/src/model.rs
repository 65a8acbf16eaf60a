//! A checked schema: what `build` makes of descriptors. All indices in it are valid.

use std::collections::HashMap;

use prony_plan::plan::{ScalarKind, Wire};

use crate::wire::WireType;

/// Types and services by their full names, without a dot in front.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) message_names: HashMap<String, usize>,
    pub(crate) services: HashMap<String, Vec<Rpc>>,
    /// Extensions with the messages that they extend.
    pub(crate) extensions: HashMap<String, (usize, Field)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    /// The fields by their names in JSON and in the schema.
    pub(crate) by_name: HashMap<String, usize>,
    pub(crate) oneofs: Vec<String>,
    pub(crate) special: Option<Special>,
    pub(crate) is_map_entry: bool,
    pub(crate) is_message_set: bool,
}

impl Message {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|&index| &self.fields[index])
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    /// Whether a value that is the default is sent.
    pub(crate) has_presence: bool,
    pub(crate) oneof: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List {
        packed: bool,
    },
    /// The type of the field is a message with a key and a value.
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    Enum(usize),
    Message(usize),
    /// A message between two keys, without a length.
    Group(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

impl Scalar {
    /// By its number in a descriptor.
    pub(crate) fn new(kind: u64) -> Option<Self> {
        Some(match kind {
            1 => Self::Double,
            2 => Self::Float,
            3 => Self::Int64,
            4 => Self::Uint64,
            5 => Self::Int32,
            6 => Self::Fixed64,
            7 => Self::Fixed32,
            8 => Self::Bool,
            9 => Self::String,
            12 => Self::Bytes,
            13 => Self::Uint32,
            15 => Self::Sfixed32,
            16 => Self::Sfixed64,
            17 => Self::Sint32,
            18 => Self::Sint64,
            _ => return None,
        })
    }

    pub(crate) fn wire(self) -> WireType {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => WireType::Fixed64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => WireType::Fixed32,
            Self::String | Self::Bytes => WireType::Bytes,
            _ => WireType::Varint,
        }
    }

    /// Whether it can be the key of a map.
    pub(crate) fn is_key(self) -> bool {
        !matches!(self, Self::Double | Self::Float | Self::Bytes)
    }

    /// Its name in a schema.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Sint32 => "sint32",
            Self::Sint64 => "sint64",
            Self::Fixed32 => "fixed32",
            Self::Fixed64 => "fixed64",
            Self::Sfixed32 => "sfixed32",
            Self::Sfixed64 => "sfixed64",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Bytes => "bytes",
        }
    }

    /// For values that are filled in while the load runs.
    pub(crate) fn in_plan(self) -> ScalarKind {
        match self {
            Self::Double => ScalarKind::Double,
            Self::Float => ScalarKind::Float,
            Self::Int32 => ScalarKind::Int32(Wire::Varint),
            Self::Int64 => ScalarKind::Int64(Wire::Varint),
            Self::Uint32 => ScalarKind::Uint32(Wire::Varint),
            Self::Uint64 => ScalarKind::Uint64(Wire::Varint),
            Self::Sint32 => ScalarKind::Int32(Wire::ZigZag),
            Self::Sint64 => ScalarKind::Int64(Wire::ZigZag),
            Self::Fixed32 => ScalarKind::Uint32(Wire::Fixed),
            Self::Fixed64 => ScalarKind::Uint64(Wire::Fixed),
            Self::Sfixed32 => ScalarKind::Int32(Wire::Fixed),
            Self::Sfixed64 => ScalarKind::Int64(Wire::Fixed),
            Self::Bool => ScalarKind::Bool,
            Self::String => ScalarKind::String,
            Self::Bytes => ScalarKind::Bytes,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) values: Vec<(String, i32)>,
    /// Whether it has no other values than those.
    pub(crate) is_closed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Rpc {
    pub(crate) name: String,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) takes: bool,
    pub(crate) streams: bool,
}

/// A type with a form of its own in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Any,
    Duration,
    FieldMask,
    ListValue,
    Struct,
    Timestamp,
    Value,
    Wrapper(Scalar),
}

impl Special {
    /// By the full name of the type.
    pub(crate) fn new(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "ListValue" => Self::ListValue,
            "Struct" => Self::Struct,
            "Timestamp" => Self::Timestamp,
            "Value" => Self::Value,
            "DoubleValue" => Self::Wrapper(Scalar::Double),
            "FloatValue" => Self::Wrapper(Scalar::Float),
            "Int32Value" => Self::Wrapper(Scalar::Int32),
            "Int64Value" => Self::Wrapper(Scalar::Int64),
            "UInt32Value" => Self::Wrapper(Scalar::Uint32),
            "UInt64Value" => Self::Wrapper(Scalar::Uint64),
            "BoolValue" => Self::Wrapper(Scalar::Bool),
            "StringValue" => Self::Wrapper(Scalar::String),
            "BytesValue" => Self::Wrapper(Scalar::Bytes),
            _ => return None,
        })
    }
}

/// The enumeration whose only value is `null` in JSON.
pub(crate) const NULL: &str = "google.protobuf.NullValue";
