//! `grpc.reflection.v1` and `v1alpha`: the services and messages, from the descriptors of the files
//! in `proto`.

use std::sync::LazyLock;

use prony_base::grpc::Status;

use super::head::SERVICES;
use super::wire::{self, Fields, Malformed, Value};

/// The files in `proto` and what they import, as a `google.protobuf.FileDescriptorSet`: what protoc
/// writes with `--include_imports --descriptor_set_out`.
pub static DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let files = Fields(DESCRIPTORS).map(|field| File::read(field?.1.bytes()));
    files.collect::<Result<_, _>>().expect("the descriptors are well-formed")
});

/// A file with definitions.
#[derive(Debug, Default)]
struct File {
    name: String,
    /// Its `google.protobuf.FileDescriptorProto`.
    bytes: &'static [u8],
    imports: Vec<String>,
    /// The full names of what it defines.
    symbols: Vec<String>,
    /// The full names of its messages, which are among them.
    messages: Vec<String>,
}

impl File {
    fn read(bytes: &'static [u8]) -> Result<Self, Malformed> {
        let mut file = Self { bytes, ..Self::default() };
        let mut package = String::new();
        for field in Fields(bytes) {
            match field? {
                (1, value) => file.name = value.text(),
                (2, value) => package = value.text(),
                (3, value) => file.imports.push(value.text()),
                _ => {}
            }
        }
        for field in Fields(bytes) {
            match field? {
                (4, value) => file.message(&package, value)?,
                // Enumerations have values, services methods.
                (5 | 6, value) => file.parent(&package, value)?,
                _ => {}
            }
        }
        Ok(file)
    }

    fn message(&mut self, scope: &str, message: Value<'_>) -> Result<(), Malformed> {
        let name = format!("{scope}.{}", name(message)?);
        for field in Fields(message.bytes()) {
            match field? {
                (2, value) => self.symbols.push(format!("{name}.{}", self::name(value)?)),
                (3, value) => self.message(&name, value)?,
                (4, value) => self.parent(&name, value)?,
                _ => {}
            }
        }
        self.messages.push(name.clone());
        self.symbols.push(name);
        Ok(())
    }

    fn parent(&mut self, scope: &str, parent: Value<'_>) -> Result<(), Malformed> {
        let name = format!("{scope}.{}", name(parent)?);
        for field in Fields(parent.bytes()) {
            if let (2, value) = field? {
                self.symbols.push(format!("{name}.{}", self::name(value)?));
            }
        }
        self.symbols.push(name);
        Ok(())
    }
}

/// The first field of a descriptor.
fn name(descriptor: Value<'_>) -> Result<String, Malformed> {
    for field in Fields(descriptor.bytes()) {
        if let (1, value) = field? {
            return Ok(value.text());
        }
    }
    Err(Malformed)
}

/// The response to a request.
pub(super) fn respond(request: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    let mut asked = None;
    for field in Fields(request) {
        match field? {
            (1, value) => wire::bytes(&mut out, 1, value.bytes()),
            (field @ 3..=7, value) => asked = Some((field, value)),
            _ => {}
        }
    }
    wire::bytes(&mut out, 2, request);
    let Some((field, value)) = asked else {
        error(&mut out, Status::INVALID_ARGUMENT, "the request asks for nothing");
        return Ok(out);
    };
    let name = value.text();
    match field {
        3 => files(&mut out, |file| file.name == name),
        4 => files(&mut out, |file| file.symbols.contains(&name)),
        6 if FILES.iter().any(|file| file.messages.contains(&name)) => {
            let mut numbers = Vec::new();
            wire::bytes(&mut numbers, 1, name.as_bytes());
            wire::bytes(&mut out, 5, &numbers);
        }
        7 => {
            let mut list = Vec::new();
            for service in SERVICES {
                let mut one = Vec::new();
                wire::bytes(&mut one, 1, service.as_bytes());
                wire::bytes(&mut list, 1, &one);
            }
            wire::bytes(&mut out, 6, &list);
        }
        _ => error(&mut out, Status::NOT_FOUND, "no such message or extension"),
    }
    Ok(out)
}

/// Append a file, and what it imports.
fn files(out: &mut Vec<u8>, is_wanted: impl Fn(&File) -> bool) {
    let Some(first) = FILES.iter().find(|file| is_wanted(file)) else {
        return error(out, Status::NOT_FOUND, "no such file or symbol");
    };
    let mut wanted = vec![first];
    let mut at = 0;
    while let Some(&file) = wanted.get(at) {
        for import in &file.imports {
            let known = wanted.iter().any(|file| file.name == *import);
            wanted.extend(FILES.iter().filter(|file| !known && file.name == *import));
        }
        at += 1;
    }
    let mut list = Vec::new();
    for file in wanted {
        wire::bytes(&mut list, 1, file.bytes);
    }
    wire::bytes(out, 4, &list);
}

fn error(out: &mut Vec<u8>, status: Status, message: &str) {
    let mut inner = Vec::new();
    wire::number(&mut inner, 1, status.number().into());
    wire::bytes(&mut inner, 2, message.as_bytes());
    wire::bytes(out, 7, &inner);
}

#[cfg(test)]
mod tests {
    use super::super::head::Method;
    use super::*;

    #[test]
    fn describes_the_services_that_are_served() {
        let all: Vec<_> = FILES.iter().flat_map(|file| &file.symbols).collect();
        for service in SERVICES {
            assert!(all.iter().any(|name| *name == service), "{service}");
        }
        let methods = all.iter().filter(|name| {
            SERVICES
                .iter()
                .any(|service| name.strip_prefix(service).is_some_and(|rest| rest.starts_with('.')))
        });
        let mut served = 0;
        for name in methods {
            let (service, method) = name.rsplit_once('.').expect("a full name");
            let known = Method::of(format!("/{service}/{method}").as_bytes());
            assert_eq!(known == Method::Unserved, method == "UnimplementedCall", "{name}");
            served += 1;
        }
        assert_eq!(served, 14);
    }

    /// The names of the files in a response, or the code of its error.
    fn ask(field: u64, name: &str) -> Result<Vec<String>, i32> {
        let mut request = Vec::new();
        wire::bytes(&mut request, field, name.as_bytes());
        let response = respond(&request).expect("a response");
        let mut found = Err(-1);
        for field in Fields(&response) {
            match field.expect("a field") {
                (2, value) => assert_eq!(value.bytes(), request),
                (4, value) => {
                    let files = Fields(value.bytes()).map(|file| name_of(file.expect("a file").1));
                    found = Ok(files.collect());
                }
                (7, value) => found = Err(Fields(value.bytes()).next().unwrap().unwrap().1.int()),
                _ => {}
            }
        }
        found
    }

    fn name_of(file: Value<'_>) -> String {
        name(file).expect("a name")
    }

    #[test]
    fn finds_files_by_name_and_symbol() {
        let test =
            ["grpc/testing/test.proto", "grpc/testing/empty.proto", "grpc/testing/messages.proto"];
        assert_eq!(ask(4, "grpc.testing.TestService").unwrap(), test);
        assert_eq!(ask(4, "grpc.testing.TestService.UnaryCall").unwrap(), test);
        assert_eq!(ask(3, "grpc/testing/test.proto").unwrap(), test);
        assert_eq!(ask(4, "grpc.testing.Payload.body").unwrap(), test[2..]);
        assert_eq!(ask(4, "grpc.testing.PayloadType.COMPRESSABLE").unwrap(), test[2..]);
        let health = ask(4, "grpc.health.v1.HealthCheckResponse.ServingStatus").unwrap();
        assert_eq!(health, ["grpc/health/v1/health.proto"]);
        assert_eq!(ask(4, "grpc.testing"), Err(5));
        assert_eq!(ask(3, "test.proto"), Err(5));
        assert_eq!(ask(5, ""), Err(5));
        assert_eq!(respond(&[]).map(|response| response.len() > 4), Ok(true));
        assert_eq!(respond(&[0x22, 9]), Err(Malformed));
    }
}
