//! Where a schema comes from, and the methods in it.

use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use protox::Compiler;

/// The types and methods of a service.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pool: DescriptorPool,
}

/// A method of a service.
#[derive(Clone, Debug)]
pub struct Method {
    pub(crate) method: MethodDescriptor,
}

impl Schema {
    /// Compiles `.proto` files. Their imports are searched in `folders`, then in their own folders.
    ///
    /// # Errors
    /// The first error, with its file, line and column.
    pub fn compile(files: &[PathBuf], folders: &[PathBuf]) -> Result<Self, String> {
        let mut includes: Vec<PathBuf> = folders.to_vec();
        for file in files {
            let own = match file.parent() {
                Some(folder) if folder != Path::new("") => folder.to_path_buf(),
                _ => PathBuf::from("."),
            };
            if !includes.contains(&own) {
                includes.push(own);
            }
        }
        for file in files {
            let opened = std::fs::File::open(file);
            opened.map_err(|why| format!("{} cannot be read: {why}", file.display()))?;
        }
        let mut compiler = Compiler::new(&includes).map_err(|e| e.to_string())?;
        compiler.include_imports(true);
        for file in files {
            // Only this form has the place.
            compiler.open_file(file).map_err(|error| format!("{error:?}"))?;
        }
        Ok(Self { pool: compiler.descriptor_pool() })
    }

    /// Adds a compiled set of descriptors, as `protoc --descriptor_set_out --include_imports`
    /// writes it.
    ///
    /// # Errors
    /// The bytes are no such set, or a file in it lacks an import.
    pub fn add_set(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.pool.decode_file_descriptor_set(bytes).map_err(|e| e.to_string())
    }

    /// Adds the descriptors of single files, in any order.
    ///
    /// # Errors
    /// One is no descriptor, or lacks an import.
    pub fn add_files(&mut self, files: &[Vec<u8>]) -> Result<(), String> {
        let mut waiting: Vec<&Vec<u8>> = files.iter().collect();
        while !waiting.is_empty() {
            let (before, mut problem) = (waiting.len(), None);
            waiting.retain(|file| match self.pool.decode_file_descriptor_proto(&file[..]) {
                Ok(()) => false,
                Err(error) => {
                    problem = Some(error.to_string());
                    true
                }
            });
            if let Some(problem) = problem.filter(|_| waiting.len() == before) {
                return Err(problem);
            }
        }
        Ok(())
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
        let Some(found) = self.pool.get_service_by_name(service) else {
            let known = self.pool.services().map(|s| s.full_name().to_owned());
            return Err(format!("there is no service '{service}'; {}", listed("services", known)));
        };
        let known = found.methods().find(|m| m.name() == method);
        known.map(|method| Method { method }).ok_or_else(|| {
            let known = found.methods().map(|m| m.name().to_owned());
            format!("'{service}' has no method '{method}'; {}", listed("methods", known))
        })
    }
}

impl Method {
    /// The path of its calls: `/package.Service/Method`.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.method.parent_service().full_name(), self.method.name())
    }

    /// The numbers of a field of the method's messages, and of one of its replies. By their values,
    /// replies are matched with messages.
    ///
    /// # Errors
    /// There is no such field, or it has several values.
    pub fn token(&self, request: &str, reply: &str) -> Result<(u32, u32), String> {
        let field = |message: &MessageDescriptor, name: &str| {
            let known =
                message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name));
            let Some(field) = known else {
                let known = listed("fields", message.fields().map(|f| f.name().to_owned()));
                return Err(format!("{} has no field '{name}'; {known}", message.full_name()));
            };
            match field.is_list() || field.is_map() {
                true => Err(format!("the field '{name}' of {} is a list", message.full_name())),
                false => Ok(field.number()),
            }
        };
        Ok((field(&self.method.input(), request)?, field(&self.method.output(), reply)?))
    }

    /// Whether a call has any number of messages.
    pub fn is_client_streaming(&self) -> bool {
        self.method.is_client_streaming()
    }

    /// Whether a reply has any number of messages.
    pub fn is_server_streaming(&self) -> bool {
        self.method.is_server_streaming()
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
