//! The head of a call: its method, and what the client's headers ask for.

use prony_base::grpc::parse_timeout;
use prony_base::units::Span;

/// The served methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Method {
    /// No known service.
    #[default]
    NoService,
    /// No served method of a known service.
    Unserved,
    /// `EmptyCall` of `grpc.testing.TestService`.
    Empty,
    /// `UnaryCall` and `CacheableUnaryCall`.
    Unary,
    /// `StreamingOutputCall`.
    Output,
    /// `StreamingInputCall`.
    Input,
    /// `FullDuplexCall`.
    FullDuplex,
    /// `HalfDuplexCall`.
    HalfDuplex,
    /// `Check` of `grpc.health.v1.Health`.
    HealthCheck,
    /// `List`.
    HealthList,
    /// `Watch`.
    HealthWatch,
    /// `ServerReflectionInfo` of `grpc.reflection.v1` and `v1alpha`, which have the same messages.
    Reflection,
    /// `StreamCoreMetrics` of `xds.service.orca.v3.OpenRcaService`.
    Load,
}

/// The served services.
pub(super) const SERVICES: [&str; 5] = [
    "grpc.testing.TestService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "xds.service.orca.v3.OpenRcaService",
];

impl Method {
    /// The method with this path.
    pub(in super::super) fn of(path: &[u8]) -> Self {
        let mut parts = path.strip_prefix(b"/").unwrap_or(path).rsplitn(2, |&byte| byte == b'/');
        let (Some(method), Some(service)) = (parts.next(), parts.next()) else {
            return Self::NoService;
        };
        match (service, method) {
            (b"grpc.testing.TestService", method) => match method {
                b"EmptyCall" => Self::Empty,
                b"UnaryCall" | b"CacheableUnaryCall" => Self::Unary,
                b"StreamingOutputCall" => Self::Output,
                b"StreamingInputCall" => Self::Input,
                b"FullDuplexCall" => Self::FullDuplex,
                b"HalfDuplexCall" => Self::HalfDuplex,
                _ => Self::Unserved,
            },
            (b"grpc.health.v1.Health", b"Check") => Self::HealthCheck,
            (b"grpc.health.v1.Health", b"List") => Self::HealthList,
            (b"grpc.health.v1.Health", b"Watch") => Self::HealthWatch,
            (
                b"grpc.reflection.v1.ServerReflection"
                | b"grpc.reflection.v1alpha.ServerReflection",
                b"ServerReflectionInfo",
            ) => Self::Reflection,
            (b"xds.service.orca.v3.OpenRcaService", b"StreamCoreMetrics") => Self::Load,
            (service, _) if SERVICES.iter().any(|known| known.as_bytes() == service) => {
                Self::Unserved
            }
            _ => Self::NoService,
        }
    }

    /// Whether a call is served like a request, with service times and failures. Health, reflection
    /// and load reports answer at once.
    pub(in super::super) fn is_served(self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Unary
                | Self::Output
                | Self::Input
                | Self::FullDuplex
                | Self::HalfDuplex
        )
    }

    /// Whether the client sends one message.
    pub(super) fn takes_one(self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Unary
                | Self::Output
                | Self::HealthCheck
                | Self::HealthList
                | Self::HealthWatch
                | Self::Load
        )
    }

    /// Whether the server sends any number of messages.
    pub(super) fn streams(self) -> bool {
        matches!(
            self,
            Self::Output | Self::FullDuplex | Self::HalfDuplex | Self::HealthWatch | Self::Load
        )
    }

    /// Whether a call goes on until the client or the server leaves.
    pub(super) fn is_endless(self) -> bool {
        matches!(self, Self::HealthWatch | Self::Load)
    }
}

/// How a client compresses its messages (`grpc-encoding`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Not at all.
    #[default]
    Identity,
    Gzip,
    /// In a way that is not supported.
    Other,
}

/// What the head of a request says of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct CallHead {
    pub(in super::super) method: Method,
    /// Whether the request is a call at all.
    kind: Kind,
    pub(super) encoding: Encoding,
    pub(super) accepts_gzip: bool,
    pub(super) timeout: Option<Span>,
    /// The metadata that the interoperability tests want back.
    pub(super) echo: Option<Box<Echo>>,
}

/// The type of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// Not that of a call.
    #[default]
    Other,
    /// Messages of Protocol Buffers.
    Protobuf,
    /// Messages in another format.
    Unsupported,
}

/// Metadata to return, with the head and with the trailers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) initial: Option<Vec<u8>>,
    pub(super) trailing: Option<Vec<u8>>,
}

/// The metadata that is returned with the head.
pub(in super::super) const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";

/// The metadata that is returned with the trailers.
pub(in super::super) const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";

impl CallHead {
    /// Take the path of the request.
    pub(in super::super) fn take_path(&mut self, path: &[u8]) {
        self.method = Method::of(path);
    }

    /// Take a header.
    pub(in super::super) fn take(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"content-type" => self.kind = kind(value),
            b"grpc-encoding" => {
                self.encoding = match value {
                    b"identity" => Encoding::Identity,
                    b"gzip" => Encoding::Gzip,
                    _ => Encoding::Other,
                };
            }
            b"grpc-accept-encoding" => {
                let mut names = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                self.accepts_gzip = names.any(|name| name == b"gzip");
            }
            b"grpc-timeout" => self.timeout = parse_timeout(value).map(Span),
            _ if name == ECHO_INITIAL.as_bytes() => {
                self.echo.get_or_insert_default().initial = Some(value.to_vec());
            }
            _ if name == ECHO_TRAILING.as_bytes() => {
                self.echo.get_or_insert_default().trailing = Some(value.to_vec());
            }
            _ => {}
        }
    }

    pub(in super::super) fn kind(&self) -> Kind {
        self.kind
    }
}

fn kind(content_type: &[u8]) -> Kind {
    match content_type.strip_prefix(b"application/grpc") {
        None => Kind::Other,
        Some(rest) => match rest {
            [] | [b';', ..] | b"+proto" => Kind::Protobuf,
            [b'+', b'p', b'r', b'o', b't', b'o', b';', ..] => Kind::Protobuf,
            [b'+', ..] => Kind::Unsupported,
            _ => Kind::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_methods_by_their_paths() {
        for (path, method) in [
            ("/grpc.testing.TestService/EmptyCall", Method::Empty),
            ("/grpc.testing.TestService/CacheableUnaryCall", Method::Unary),
            ("/grpc.testing.TestService/UnimplementedCall", Method::Unserved),
            ("/grpc.health.v1.Health/Watch", Method::HealthWatch),
            ("/grpc.health.v1.Health/watch", Method::Unserved),
            ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Method::Reflection),
            ("/grpc.reflection.v2.ServerReflection/ServerReflectionInfo", Method::NoService),
            ("/grpc.testing.UnimplementedService/UnimplementedCall", Method::NoService),
            ("/EmptyCall", Method::NoService),
            ("/", Method::NoService),
            ("", Method::NoService),
        ] {
            assert_eq!(Method::of(path.as_bytes()), method, "{path}");
        }
    }

    #[test]
    fn knows_calls_by_their_content_type() {
        for (value, expected) in [
            ("application/grpc", Kind::Protobuf),
            ("application/grpc+proto", Kind::Protobuf),
            ("application/grpc+proto;charset=x", Kind::Protobuf),
            ("application/grpc;x=y", Kind::Protobuf),
            ("application/grpc+json", Kind::Unsupported),
            ("application/grpc-web", Kind::Other),
            ("text/plain", Kind::Other),
        ] {
            assert_eq!(kind(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn reads_the_headers_of_calls() {
        let mut head = CallHead::default();
        head.take(b"grpc-timeout", b"5S");
        head.take(b"grpc-accept-encoding", b"identity, deflate,gzip");
        head.take(b"grpc-encoding", b"snappy");
        head.take(b"x-other", b"1");
        assert_eq!(head.timeout, Some(Span::from_secs(5)));
        assert_eq!((head.accepts_gzip, head.encoding), (true, Encoding::Other));
        assert_eq!((head.kind(), head.echo), (Kind::Other, None));
    }
}
