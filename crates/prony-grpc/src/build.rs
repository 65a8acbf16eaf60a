//! From the descriptors of files to a checked schema. A descriptor may come from anywhere, so
//! nothing in it is taken for granted: names, numbers, types, and what a map looks like.

use std::collections::HashMap;

use crate::features::{Presence, Resolved, Syntax};
use crate::file::{self, File};
use crate::model::{Enum, Field, Kind, Message, Model, Rpc, Scalar, Shape, Special};
use crate::wire::NUMBER_MAX;
use crate::wire::shown;

/// The longest full name of an element, in bytes.
const NAME_MAX: usize = 1_000;
/// The most bytes that all full names have.
const NAMES_MAX: usize = 64 << 20;
/// The most bytes that are looked at to resolve relative names.
const WORK_MAX: usize = 1 << 30;
/// Numbers that Protocol Buffers itself uses.
const RESERVED: std::ops::RangeInclusive<u32> = 19_000..=19_999;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Message(usize),
    Enum(usize),
    Package,
    Other,
}

/// A message of a file, its place in the model, and what it inherits.
struct Pending<'f> {
    message: &'f file::Message,
    index: usize,
    features: Resolved,
    syntax: Syntax,
}

/// An extension, the scope of its declaration, and what it inherits.
struct Extension<'f> {
    field: &'f file::Field,
    scope: String,
    features: Resolved,
    syntax: Syntax,
}

struct Builder<'f> {
    model: Model,
    names: HashMap<String, Named>,
    names_size: usize,
    work: usize,
    messages: Vec<Pending<'f>>,
    /// The message in which each message is declared.
    parents: Vec<Option<usize>>,
    extensions: Vec<Extension<'f>>,
    /// Imports that are missing.
    missing: Vec<&'f str>,
}

impl Model {
    /// Makes a schema of files, of which each has another name.
    ///
    /// # Errors
    /// A sentence about the first element that is not valid.
    pub(crate) fn new(files: &[File]) -> Result<Self, String> {
        let mut builder = Builder {
            model: Self::default(),
            names: HashMap::new(),
            names_size: 0,
            work: 0,
            messages: Vec::new(),
            parents: Vec::new(),
            extensions: Vec::new(),
            missing: Vec::new(),
        };
        let known: HashMap<&str, ()> = files.iter().map(|f| (f.name.as_str(), ())).collect();
        for file in files {
            let missing = file.imports.iter().filter(|import| !known.contains_key(&import[..]));
            builder.missing.extend(missing.map(String::as_str));
            builder.declare(file).map_err(|why| format!("{}{why}", file.at()))?;
        }
        for file in files {
            builder.services(file).map_err(|why| format!("{}{why}", file.at()))?;
        }
        for pending in std::mem::take(&mut builder.messages) {
            builder.message(&pending)?;
        }
        for extension in std::mem::take(&mut builder.extensions) {
            builder.extension(&extension)?;
        }
        builder.check_maps()?;
        Ok(builder.model)
    }
}

impl<'f> Builder<'f> {
    /// Adds the names of a file.
    fn declare(&mut self, file: &'f File) -> Result<(), String> {
        let mut package = String::new();
        if !file.package.is_empty() {
            for part in file.package.split('.') {
                package = self.full_name(&package, part)?;
                match self.names.get(&package) {
                    None => self.name(package.clone(), Named::Package)?,
                    Some(Named::Package) => {}
                    Some(_) => return Err(format!("'{package}' is a package and something else")),
                }
            }
        }
        let features = own(Resolved::of(file.syntax), file.syntax, &file.features);
        for message in &file.messages {
            self.declare_message(message, &package, None, features, file.syntax)?;
        }
        for kind in &file.enums {
            self.declare_enum(kind, &package, features, file.syntax)?;
        }
        for service in &file.services {
            let name = self.full_name(&package, &service.name)?;
            self.name(name, Named::Other)?;
        }
        self.declare_extensions(&file.extensions, &package, features, file.syntax)
    }

    fn declare_message(
        &mut self,
        message: &'f file::Message,
        scope: &str,
        parent: Option<usize>,
        features: Resolved,
        syntax: Syntax,
    ) -> Result<(), String> {
        let name = self.full_name(scope, &message.name)?;
        let features = own(features, syntax, &message.features);
        let index = self.model.messages.len();
        self.name(name.clone(), Named::Message(index))?;
        self.model.message_names.insert(name.clone(), index);
        self.model.messages.push(Message {
            special: Special::new(&name),
            name: name.clone(),
            is_map_entry: message.is_map_entry,
            is_message_set: message.is_message_set,
            ..Message::default()
        });
        self.parents.push(parent);
        self.messages.push(Pending { message, index, features, syntax });
        for inner in &message.messages {
            self.declare_message(inner, &name, Some(index), features, syntax)?;
        }
        for kind in &message.enums {
            self.declare_enum(kind, &name, features, syntax)?;
        }
        self.declare_extensions(&message.extensions, &name, features, syntax)
    }

    fn declare_enum(
        &mut self,
        kind: &'f file::Enum,
        scope: &str,
        features: Resolved,
        syntax: Syntax,
    ) -> Result<(), String> {
        let name = self.full_name(scope, &kind.name)?;
        if kind.values.is_empty() {
            return Err(format!("the enumeration {name} has no values"));
        }
        let mut seen = HashMap::new();
        for (value, _) in &kind.values {
            identifier(value)?;
            if seen.insert(value.as_str(), ()).is_some() {
                return Err(format!("the enumeration {name} has the value {value} twice"));
            }
        }
        self.name(name.clone(), Named::Enum(self.model.enums.len()))?;
        let is_closed = own(features, syntax, &kind.features).is_closed;
        self.model.enums.push(Enum { name, values: kind.values.clone(), is_closed });
        Ok(())
    }

    fn declare_extensions(
        &mut self,
        fields: &'f [file::Field],
        scope: &str,
        features: Resolved,
        syntax: Syntax,
    ) -> Result<(), String> {
        for field in fields {
            let name = self.full_name(scope, &field.name)?;
            self.name(name, Named::Other)?;
            let scope = scope.to_owned();
            self.names_size += scope.len();
            self.extensions.push(Extension { field, scope, features, syntax });
        }
        Ok(())
    }

    fn services(&mut self, file: &File) -> Result<(), String> {
        for service in &file.services {
            let name = self.full_name(&file.package, &service.name)?;
            let mut methods: Vec<Rpc> = Vec::new();
            let mut seen = HashMap::new();
            for method in &service.methods {
                identifier(&method.name)?;
                if seen.insert(method.name.as_str(), ()).is_some() {
                    return Err(format!("the service {name} has the method {} twice", method.name));
                }
                let of = || format!("the method {} of {name}", method.name);
                methods.push(Rpc {
                    name: method.name.clone(),
                    input: self.message_named(&method.input, &name, &of)?,
                    output: self.message_named(&method.output, &name, &of)?,
                    takes: method.takes,
                    streams: method.streams,
                });
            }
            self.model.services.insert(name, methods);
        }
        Ok(())
    }

    fn message(&mut self, pending: &Pending<'_>) -> Result<(), String> {
        let source = pending.message;
        let scope = self.model.messages[pending.index].name.clone();
        let mut fields: Vec<Field> = Vec::with_capacity(source.fields.len());
        let (mut numbers, mut by_name) = (HashMap::new(), HashMap::new());
        for oneof in &source.oneofs {
            identifier(&oneof.name)?;
        }
        for (index, field) in source.fields.iter().enumerate() {
            // A field of a oneof inherits from that.
            let oneof = match field.oneof {
                None => None,
                Some(index) => Some(
                    usize::try_from(index)
                        .ok()
                        .filter(|index| *index < source.oneofs.len())
                        .ok_or_else(|| {
                            format!(
                                "the field {} of {scope} is in a oneof that is not there",
                                shown(&field.name)
                            )
                        })?,
                ),
            };
            let features = match oneof {
                Some(index) => {
                    own(pending.features, pending.syntax, &source.oneofs[index].features)
                }
                None => pending.features,
            };
            let made = self.field(field, &scope, features, pending.syntax, Some(pending.index))?;
            if oneof.is_some() && made.shape != Shape::One {
                return Err(format!("the field {} of {scope} is in a oneof and a list", made.name));
            }
            if let Some(other) = numbers.insert(made.number, index) {
                let other = &source.fields[other].name;
                return Err(format!(
                    "the fields {other} and {} of {scope} have the same number, {}",
                    made.name, made.number
                ));
            }
            let json = field.json_name.clone().unwrap_or_else(|| json_name(&field.name));
            by_name.entry(json).or_insert(index);
            fields.push(Field { oneof, ..made });
        }
        let mut seen = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            if seen.insert(field.name.as_str(), ()).is_some() {
                return Err(format!("{scope} has the field {} twice", field.name));
            }
            by_name.entry(field.name.clone()).or_insert(index);
        }
        let oneofs = source.oneofs.iter().map(|oneof| oneof.name.clone()).collect();
        let message = &mut self.model.messages[pending.index];
        (message.fields, message.by_name, message.oneofs) = (fields, by_name, oneofs);
        Ok(())
    }

    fn extension(&mut self, extension: &Extension<'_>) -> Result<(), String> {
        let Extension { field, scope, features, syntax } = extension;
        let of = || format!("the extension {}", shown(&field.name));
        let extended = self.message_named(&field.extendee, scope, &of)?;
        let made = self.field(field, scope, *features, *syntax, None)?;
        let name = self.full_name(scope, &field.name)?;
        self.model.extensions.insert(name, (extended, made));
        Ok(())
    }

    fn field(
        &mut self,
        field: &file::Field,
        scope: &str,
        features: Resolved,
        syntax: Syntax,
        parent: Option<usize>,
    ) -> Result<Field, String> {
        identifier(&field.name)?;
        let of = || format!("the field {} of {scope}", field.name);
        let features = own(features, syntax, &field.features);
        let number = u32::try_from(field.number).unwrap_or_default();
        if !(1..=NUMBER_MAX).contains(&number) || RESERVED.contains(&number) {
            return Err(format!(
                "{} has the number {}, which no field may have",
                of(),
                field.number
            ));
        }
        let kind = self.kind(field, scope, features, &of)?;
        let is_list = match field.label {
            0..=2 => false,
            3 => true,
            label => return Err(format!("{} has an unknown label, {label}", of())),
        };
        let entry = match kind {
            Kind::Message(index) | Kind::Group(index) => {
                self.model.messages[index].is_map_entry.then_some(index)
            }
            _ => None,
        };
        // An entry is for the one field that it was made for.
        if let Some(entry) = entry
            && (!is_list || parent.is_none() || self.parents[entry] != parent)
        {
            let entry = &self.model.messages[entry].name;
            return Err(format!("{} has the type {entry}, which is an entry of a map", of()));
        }
        let is_packable = match kind {
            Kind::Scalar(scalar) => scalar.wire() != crate::wire::WireType::Bytes,
            Kind::Enum(_) => true,
            Kind::Message(_) | Kind::Group(_) => false,
        };
        let packed = match syntax {
            Syntax::Edition => features.is_packed,
            _ => field.packed.unwrap_or(features.is_packed),
        };
        let is_message = matches!(kind, Kind::Message(_) | Kind::Group(_));
        let shape = match (is_list, entry) {
            (true, Some(_)) => Shape::Map,
            (true, None) => Shape::List { packed: packed && is_packable },
            (false, _) => Shape::One,
        };
        // In a map, neither the field nor its value is ever delimited.
        let in_entry = parent.is_some_and(|parent| self.model.messages[parent].is_map_entry);
        let kind = match kind {
            Kind::Group(index) if entry.is_some() || in_entry => Kind::Message(index),
            kind => kind,
        };
        let has_presence = is_message
            || field.oneof.is_some()
            || field.is_optional_of_proto3
            || parent.is_none()
            || features.presence != Presence::Implicit;
        let name = field.name.clone();
        Ok(Field { name, number, kind, shape, has_presence, oneof: None })
    }

    fn kind(
        &mut self,
        field: &file::Field,
        scope: &str,
        features: Resolved,
        of: &dyn Fn() -> String,
    ) -> Result<Kind, String> {
        const GROUP: u64 = 10;
        const MESSAGE: u64 = 11;
        const ENUM: u64 = 14;
        if let Some(scalar) = Scalar::new(field.kind) {
            return Ok(Kind::Scalar(scalar));
        }
        if !matches!(field.kind, 0 | GROUP | MESSAGE | ENUM) {
            return Err(format!("{} has an unknown type, number {}", of(), field.kind));
        }
        match (self.resolve(&field.type_name, scope, of)?, field.kind) {
            (Named::Message(index), GROUP) => Ok(Kind::Group(index)),
            (Named::Message(index), 0 | MESSAGE) => Ok(match features.is_delimited {
                true => Kind::Group(index),
                false => Kind::Message(index),
            }),
            (Named::Enum(index), 0 | ENUM) => Ok(Kind::Enum(index)),
            _ => Err(format!(
                "{} has the type {}, which is another kind of type",
                of(),
                shown(&field.type_name)
            )),
        }
    }

    fn message_named(
        &mut self,
        name: &str,
        scope: &str,
        of: &dyn Fn() -> String,
    ) -> Result<usize, String> {
        match self.resolve(name, scope, of)? {
            Named::Message(index) => Ok(index),
            _ => Err(format!("{} names {}, which is no message", of(), shown(name))),
        }
    }

    /// What a type's name stands for, seen from a scope: the innermost scope that has the first
    /// part of the name decides.
    fn resolve(
        &mut self,
        name: &str,
        scope: &str,
        of: &dyn Fn() -> String,
    ) -> Result<Named, String> {
        let found = match name.strip_prefix('.') {
            Some(full) => self.names.get(full).copied(),
            None => {
                let first = name.split('.').next().unwrap_or_default();
                let mut scope = scope;
                loop {
                    self.work += scope.len() + name.len();
                    if self.work > WORK_MAX {
                        return Err("its names take too long to resolve".into());
                    }
                    let inner = |part: &str| match scope {
                        "" => part.to_owned(),
                        _ => format!("{scope}.{part}"),
                    };
                    let known = self.names.get(&inner(first)).copied();
                    // A value or a field with this name hides no type.
                    let decides = match name.len() == first.len() {
                        true => matches!(known, Some(Named::Message(_) | Named::Enum(_))),
                        false => matches!(known, Some(Named::Message(_) | Named::Package)),
                    };
                    if decides {
                        break self.names.get(&inner(name)).copied();
                    }
                    if scope.is_empty() {
                        break None;
                    }
                    scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
                }
            }
        };
        match found.filter(|found| matches!(found, Named::Message(_) | Named::Enum(_))) {
            Some(found) => Ok(found),
            None if name.is_empty() => Err(format!("{} has no type", of())),
            None => {
                let missing = self.missing.iter().take(3).map(|name| shown(name));
                let missing = missing.collect::<Vec<_>>().join(", ");
                let missing = match missing.is_empty() {
                    true => String::new(),
                    false => format!("; imports are missing: {missing}"),
                };
                let name = shown(name.trim_start_matches('.'));
                Err(format!("{} has the type {name}, which is not in the schema{missing}", of()))
            }
        }
    }

    /// An entry of a map has a key and a value, and the type of the key is one that can be a key.
    fn check_maps(&self) -> Result<(), String> {
        for message in self.model.messages.iter().filter(|message| message.is_map_entry) {
            let name = &message.name;
            let single = message.fields.iter().all(|f| f.shape == Shape::One && f.oneof.is_none());
            let numbers: Vec<u32> = message.fields.iter().map(|field| field.number).collect();
            if !single || numbers != [1, 2] {
                return Err(format!("{name}, an entry of a map, must have a key and a value"));
            }
            match message.fields[0].kind {
                Kind::Scalar(scalar) if scalar.is_key() => {}
                Kind::Scalar(scalar) => {
                    let scalar = scalar.name();
                    return Err(format!(
                        "the keys of the map {name} have the type {scalar}, which no key may have"
                    ));
                }
                _ => {
                    return Err(format!(
                        "the keys of the map {name} have a type that no key may have"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The full name of an element.
    fn full_name(&self, scope: &str, name: &str) -> Result<String, String> {
        identifier(name)?;
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        match full.len() <= NAME_MAX {
            true => Ok(full),
            false => Err(format!("a name in it has more than {NAME_MAX} bytes")),
        }
    }

    /// Adds a name, which must be new.
    fn name(&mut self, name: String, what: Named) -> Result<(), String> {
        self.names_size += name.len();
        if self.names_size > NAMES_MAX {
            return Err(format!("all names together have more than {NAMES_MAX} bytes"));
        }
        if self.names.contains_key(&name) {
            return Err(format!("'{name}' is declared twice"));
        }
        self.names.insert(name, what);
        Ok(())
    }
}

/// The features of an element; only editions have some that are set.
fn own(inherited: Resolved, syntax: Syntax, features: &crate::features::Features) -> Resolved {
    match syntax {
        Syntax::Edition => inherited.with(features),
        Syntax::Proto2 | Syntax::Proto3 => inherited,
    }
}

fn identifier(name: &str) -> Result<(), String> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    match first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        true => Ok(()),
        false if name.is_empty() => Err("an element has no name".into()),
        false => Err(format!("'{}' is not a name", shown(name))),
    }
}

/// `some_name` as `someName`.
fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut is_upper = false;
    for c in name.chars() {
        match c {
            '_' => is_upper = true,
            _ if is_upper => {
                json.push(c.to_ascii_uppercase());
                is_upper = false;
            }
            _ => json.push(c),
        }
    }
    json
}
