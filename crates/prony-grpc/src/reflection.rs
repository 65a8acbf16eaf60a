//! The schema from the server itself (`grpc.reflection.v1` and `v1alpha`). The messages of both are
//! the same.

use std::collections::HashSet;

use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;

use crate::schema::Schema;

/// The methods of the two versions, the newer one first.
pub const SERVICES: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A question; one of the fields is set.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, optional, tag = "3")]
    file_by_filename: Option<String>,
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Reply {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "7")]
    error: Option<ErrorReply>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorReply {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Asks a server for the files with the service of each method, and for all that they import.
/// `ask` sends one message to the server and returns the one in its reply.
///
/// # Errors
/// The server does not reply, knows no such service, or its files are not a schema.
pub fn reflect<E: From<String>>(
    methods: &[String],
    mut ask: impl FnMut(Vec<u8>) -> Result<Vec<u8>, E>,
) -> Result<Schema, E> {
    let (mut known, mut files, mut asked) = (HashSet::new(), Vec::new(), HashSet::new());
    let mut questions = Vec::new();
    for method in methods {
        let name = method.trim_start_matches('/');
        let service = name.rsplit_once('/').or_else(|| name.rsplit_once('.'));
        let symbol = service.map_or(name, |(service, _)| service).to_owned();
        if asked.insert(symbol.clone()) {
            questions.push(Request { file_containing_symbol: Some(symbol), ..Request::default() });
        }
    }
    while let Some(question) = questions.pop() {
        let reply = Reply::decode(&ask(question.encode_to_vec())?[..]);
        let reply = reply.map_err(|e| E::from(format!("its reply is not a schema: {e}")))?;
        if let Some(ErrorReply { code, message }) = reply.error {
            let what = question.file_containing_symbol.or(question.file_by_filename);
            let what = what.unwrap_or_default();
            return Err(E::from(format!("it does not know '{what}': {message} (status {code})")));
        }
        for bytes in reply.files.unwrap_or_default().files {
            let file = FileDescriptorProto::decode(&bytes[..]);
            let file = file.map_err(|e| E::from(format!("its reply is not a schema: {e}")))?;
            if !known.insert(file.name().to_owned()) {
                continue;
            }
            files.push(bytes);
            for import in file.dependency {
                if !known.contains(&import) && asked.insert(import.clone()) {
                    let file_by_filename = Some(import);
                    questions.push(Request { file_by_filename, ..Request::default() });
                }
            }
        }
    }
    let mut schema = Schema::default();
    schema.add_files(&files)?;
    Ok(schema)
}
