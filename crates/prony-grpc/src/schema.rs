//! Where a schema comes from, and the methods in it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::compile::compile;
use crate::file::{self, Budget, File};
use crate::model::{Field, Model, Rpc, Shape};
use crate::wire::shown;

/// The types and methods of a service.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    files: Vec<File>,
    model: Arc<Model>,
}

/// A method of a service.
#[derive(Clone, Debug)]
pub struct Method {
    pub(crate) model: Arc<Model>,
    pub(crate) service: String,
    pub(crate) rpc: Rpc,
}

impl Schema {
    /// Compiles `.proto` files. Their imports are searched in `folders`, then in their own folders.
    ///
    /// # Errors
    /// The first error, with its file, line and column.
    pub fn compile(files: &[PathBuf], folders: &[PathBuf]) -> Result<Self, String> {
        let mut schema = Self::default();
        schema.add(compile(files, folders)?)?;
        Ok(schema)
    }

    /// Adds a compiled set of descriptors, as `protoc --descriptor_set_out --include_imports`
    /// writes it.
    ///
    /// # Errors
    /// The bytes are no such set, or what they describe is not valid: the sentence names the file
    /// and the element.
    pub fn add_set(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.add(file::files(bytes, &mut Budget::default())?)
    }

    /// Adds files, unless others with their names are known.
    pub(crate) fn add(&mut self, files: Vec<File>) -> Result<(), String> {
        let mut all = self.files.clone();
        let mut known: HashSet<String> = all.iter().map(|file| file.name.clone()).collect();
        all.extend(files.into_iter().filter(|file| known.insert(file.name.clone())));
        // What is refused is not kept.
        self.model = Arc::new(Model::new(&all)?);
        self.files = all;
        Ok(())
    }

    /// The names of all services and of their methods.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn services(&self) -> Vec<(String, Vec<String>)> {
        let services = self.model.services.iter();
        let mut all: Vec<_> = services
            .map(|(name, rpcs)| (name.clone(), rpcs.iter().map(|rpc| rpc.name.clone()).collect()))
            .collect();
        all.sort();
        all
    }

    /// The method with this name: `package.Service/Method`.
    ///
    /// # Errors
    /// There is no such service or method; the sentence names those that exist.
    pub fn method(&self, name: &str) -> Result<Method, String> {
        let name = name.trim_start_matches('/');
        let split = name.rsplit_once('/').or_else(|| name.rsplit_once('.'));
        let Some((service, method)) = split else {
            return Err(format!("'{name}' is not a method; write package.Service/Method"));
        };
        let Some(methods) = self.model.services.get(service) else {
            let known = self.model.services.keys().cloned();
            return Err(format!("there is no service '{service}'; {}", listed("services", known)));
        };
        let Some(rpc) = methods.iter().find(|rpc| rpc.name == method) else {
            let known = listed("methods", methods.iter().map(|rpc| rpc.name.clone()));
            return Err(format!("'{service}' has no method '{method}'; {known}"));
        };
        let (service, rpc) = (service.to_owned(), rpc.clone());
        Ok(Method { model: Arc::clone(&self.model), service, rpc })
    }
}

impl Method {
    /// The path of its calls: `/package.Service/Method`.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.service, self.rpc.name)
    }

    /// The numbers of a field of the method's messages, and of one of its replies. By their values,
    /// replies are matched with messages.
    ///
    /// # Errors
    /// There is no such field, or it has several values.
    pub fn token(&self, request: &str, reply: &str) -> Result<(u32, u32), String> {
        let field = |index: usize, name: &str| {
            let message = &self.model.messages[index];
            let known = message.fields.iter().find(|field| field.name == name);
            let Some(field) = known.or_else(|| message.field(name)) else {
                let known = listed("fields", message.fields.iter().map(|f: &Field| f.name.clone()));
                return Err(format!("{} has no field '{}'; {known}", message.name, shown(name)));
            };
            match field.shape {
                Shape::One => Ok(field.number),
                _ => Err(format!("the field '{name}' of {} is a list", message.name)),
            }
        };
        Ok((field(self.rpc.input, request)?, field(self.rpc.output, reply)?))
    }

    /// Whether a call has any number of messages.
    pub fn is_client_streaming(&self) -> bool {
        self.rpc.takes
    }

    /// Whether a reply has any number of messages.
    pub fn is_server_streaming(&self) -> bool {
        self.rpc.streams
    }
}

/// Up to eight names for a message.
pub(crate) fn listed(what: &str, names: impl Iterator<Item = String>) -> String {
    const MOST: usize = 8;
    let mut names: Vec<String> = names.collect();
    if names.is_empty() {
        return format!("there are no {what} in the schema");
    }
    names.sort();
    if names.len() > MOST {
        names.truncate(MOST);
        names.push("...".into());
    }
    format!("the {what} are: {}", names.join(", "))
}
