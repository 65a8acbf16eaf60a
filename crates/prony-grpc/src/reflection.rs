//! The schema from the server itself (`grpc.reflection.v1` and `v1alpha`). The messages of both are
//! the same. A server may say anything, so what it says is bounded.

use std::collections::HashSet;
use std::time::Duration;

use crate::file::{Budget, File};
use crate::schema::Schema;
use crate::wire::shown;
use crate::wire::{Item, Reader, put_bytes};

/// The methods of the two versions, the newer one first.
pub const SERVICES: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The most files of a schema.
pub const FILES_MAX: usize = 4_096;
/// The most bytes of a schema.
pub const BYTES_MAX: usize = 32 << 20;
/// How long a server may take to tell all of its schema.
pub const TIME_MAX: Duration = Duration::from_secs(60);

/// A question to the server.
enum Question {
    /// For the file with the service of a method.
    Service(String),
    /// For the file with a type that a message has in an `Any`.
    Type(String),
    /// For a file that another one imports.
    File(String),
}

impl Question {
    fn name(&self) -> &str {
        let (Self::Service(name) | Self::Type(name) | Self::File(name)) = self;
        name
    }

    fn encode(&self) -> Vec<u8> {
        let number = if matches!(self, Self::File(_)) { 3 } else { 4 };
        let mut bytes = Vec::new();
        put_bytes(number, self.name().as_bytes(), &mut bytes);
        bytes
    }
}

/// The reply to one: files, or why there are none.
#[derive(Default)]
struct Reply {
    files: Vec<Vec<u8>>,
    error: Option<(u64, String)>,
}

impl Reply {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut reply = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, item)) = reader.next()? {
            let Item::Bytes(inner) = item else { continue };
            let mut inner = Reader::new(inner);
            match number {
                4 => {
                    while let Some(field) = inner.next()? {
                        if let (1, Item::Bytes(file)) = field {
                            reply.files.push(file.to_vec());
                        }
                    }
                }
                7 => {
                    let (code, message) = reply.error.get_or_insert_default();
                    while let Some(field) = inner.next()? {
                        match field {
                            (1, Item::Number(n)) => *code = n,
                            (2, Item::Bytes(b)) => *message = prony_base::grpc::shown_text(b),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(reply)
    }
}

/// Asks a server for the files with the service of each method and with each of the `types`, and
/// for all that they import. `ask` sends one message to the server, and returns that in its
/// reply; `elapsed` is the time since the first.
///
/// # Errors
/// The server does not reply, knows no such service, its files are not a schema, or there are too
/// many.
pub fn reflect<E: From<String>>(
    methods: &[String],
    types: &[String],
    mut ask: impl FnMut(Vec<u8>) -> Result<Vec<u8>, E>,
    elapsed: impl Fn() -> Duration,
) -> Result<Schema, E> {
    let (mut known, mut files, mut asked) = (HashSet::new(), Vec::new(), HashSet::new());
    let (mut bytes, mut budget) = (0, Budget::default());
    let mut questions: Vec<Question> = types.iter().cloned().map(Question::Type).collect();
    for method in methods {
        let name = method.trim_start_matches('/');
        let service = name.rsplit_once('/').or_else(|| name.rsplit_once('.'));
        let symbol = service.map_or(name, |(service, _)| service).to_owned();
        if asked.insert(symbol.clone()) {
            questions.push(Question::Service(symbol));
        }
    }
    let mut unknown = None;
    while let Some(question) = questions.pop() {
        if elapsed() > TIME_MAX {
            return Err(too_much(&format!("after {} s", TIME_MAX.as_secs()), files.len()).into());
        }
        let reply = Reply::read(&ask(question.encode())?)
            .map_err(|why| format!("its reply is not a schema: {why}"))?;
        if let Some((code, message)) = reply.error {
            let why =
                format!("it does not know '{}': {message} (status {code})", shown(question.name()));
            match question {
                Question::Service(_) => return Err(why.into()),
                // Whether the schema needs it is seen at its end.
                Question::Type(_) => {}
                Question::File(_) => unknown = Some(why),
            }
            continue;
        }
        for file in reply.files {
            bytes += file.len();
            let file = File::read(&file, &mut budget)
                .map_err(|why| format!("its reply is not a schema: {why}"))?;
            if bytes > BYTES_MAX {
                let after = format!("after {} MiB", BYTES_MAX >> 20);
                return Err(too_much(&after, files.len()).into());
            }
            if !known.insert(file.name.clone()) {
                continue;
            }
            for import in &file.imports {
                if !known.contains(import) && asked.insert(import.clone()) {
                    questions.push(Question::File(import.clone()));
                }
            }
            files.push(file);
            if files.len() + questions.len() > FILES_MAX {
                let after = format!("it has more than {FILES_MAX} files");
                return Err(too_much(&after, files.len()).into());
            }
        }
    }
    let mut schema = Schema::default();
    schema.add(files).map_err(|why| unknown.unwrap_or(why))?;
    Ok(schema)
}

fn too_much(when: &str, files: usize) -> String {
    format!("its schema does not end: {when}, {files} files were read")
}
