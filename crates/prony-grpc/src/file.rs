//! The descriptor of a `.proto` file: what calls need of it, read from its bytes. What is read here
//! is what a stranger wrote; `build` checks it.

use crate::features::{Features, Syntax};
use crate::wire::{Item, Reader, shown};

/// How many messages, fields, values and so on a schema may have. The whole of the public Google
/// APIs has a quarter of it.
const ELEMENTS: usize = 1_000_000;
/// How deep messages may be nested.
const DEPTH: usize = 64;

/// What is left of the bounds of a schema.
#[derive(Debug)]
pub(crate) struct Budget {
    elements: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { elements: ELEMENTS }
    }
}

impl Budget {
    fn take(&mut self) -> Result<(), String> {
        let left = self.elements.checked_sub(1);
        self.elements = left.ok_or_else(|| format!("it has more than {ELEMENTS} elements"))?;
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) imports: Vec<String>,
    pub(crate) syntax: Syntax,
    pub(crate) features: Features,
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) extensions: Vec<Field>,
    pub(crate) services: Vec<Service>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) messages: Vec<Self>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) extensions: Vec<Field>,
    pub(crate) oneofs: Vec<Oneof>,
    pub(crate) is_map_entry: bool,
    pub(crate) is_message_set: bool,
    pub(crate) features: Features,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) label: u64,
    pub(crate) kind: u64,
    pub(crate) type_name: String,
    pub(crate) extendee: String,
    pub(crate) json_name: Option<String>,
    pub(crate) oneof: Option<i64>,
    pub(crate) is_optional_of_proto3: bool,
    pub(crate) packed: Option<bool>,
    pub(crate) features: Features,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oneof {
    pub(crate) name: String,
    pub(crate) features: Features,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) values: Vec<(String, i32)>,
    pub(crate) features: Features,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) methods: Vec<Method>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) takes: bool,
    pub(crate) streams: bool,
}

/// The files of a `FileDescriptorSet`.
pub(crate) fn files(set: &[u8], budget: &mut Budget) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for_each(set, |number, item| {
        if let (1, Item::Bytes(bytes)) = (number, item) {
            files.push(File::read(bytes, budget)?);
        }
        Ok(())
    })?;
    Ok(files)
}

impl File {
    /// Reads a `FileDescriptorProto`.
    pub(crate) fn read(bytes: &[u8], budget: &mut Budget) -> Result<Self, String> {
        budget.take()?;
        let mut file = Self::default();
        let (mut syntax, mut edition) = (String::new(), None);
        for_each(bytes, |number, item| {
            match (number, item) {
                (1, Item::Bytes(b)) => file.name = text(b)?,
                (2, Item::Bytes(b)) => file.package = text(b)?,
                (3, Item::Bytes(b)) => {
                    budget.take()?;
                    file.imports.push(text(b)?);
                }
                (4, Item::Bytes(b)) => file.messages.push(Message::read(b, budget, 1)?),
                (5, Item::Bytes(b)) => file.enums.push(Enum::read(b, budget)?),
                (6, Item::Bytes(b)) => file.services.push(Service::read(b, budget)?),
                (7, Item::Bytes(b)) => file.extensions.push(Field::read(b, budget)?),
                (8, Item::Bytes(b)) => options(b, 50, &mut file.features, |_, _| {})?,
                (12, Item::Bytes(b)) => syntax = text(b)?,
                (14, Item::Number(n)) => edition = Some(n),
                _ => {}
            }
            Ok(())
        })
        .map_err(|why| format!("{}{why}", file.at()))?;
        file.syntax = Syntax::new(&syntax, edition).map_err(|why| format!("{}{why}", file.at()))?;
        Ok(file)
    }

    /// The start of a sentence about it.
    pub(crate) fn at(&self) -> String {
        match self.name.is_empty() {
            true => "a file without a name: ".into(),
            false => format!("{}: ", shown(&self.name)),
        }
    }
}

impl Message {
    fn read(bytes: &[u8], budget: &mut Budget, depth: usize) -> Result<Self, String> {
        budget.take()?;
        if depth > DEPTH {
            return Err(format!("messages are nested more than {DEPTH} deep"));
        }
        let mut message = Self::default();
        for_each(bytes, |number, item| {
            let Item::Bytes(b) = item else { return Ok(()) };
            match number {
                1 => message.name = text(b)?,
                2 => message.fields.push(Field::read(b, budget)?),
                3 => message.messages.push(Self::read(b, budget, depth + 1)?),
                4 => message.enums.push(Enum::read(b, budget)?),
                6 => message.extensions.push(Field::read(b, budget)?),
                7 => {
                    let (mut is_entry, mut is_set) = (None, None);
                    options(b, 12, &mut message.features, |option, value| match option {
                        Name::Number(7) | Name::Text("map_entry") => is_entry = Some(value),
                        Name::Number(1) | Name::Text("message_set_wire_format") => {
                            is_set = Some(value);
                        }
                        _ => {}
                    })?;
                    message.is_map_entry = is_entry.unwrap_or(message.is_map_entry);
                    message.is_message_set = is_set.unwrap_or(message.is_message_set);
                }
                8 => {
                    budget.take()?;
                    let mut oneof = Oneof::default();
                    for_each(b, |number, item| {
                        match (number, item) {
                            (1, Item::Bytes(b)) => oneof.name = text(b)?,
                            (2, Item::Bytes(b)) => options(b, 1, &mut oneof.features, |_, _| {})?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    message.oneofs.push(oneof);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(message)
    }
}

impl Field {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Self, String> {
        budget.take()?;
        let mut field = Self::default();
        for_each(bytes, |number, item| {
            match (number, item) {
                (1, Item::Bytes(b)) => field.name = text(b)?,
                (2, Item::Bytes(b)) => field.extendee = text(b)?,
                (3, Item::Number(n)) => field.number = n.cast_signed(),
                (4, Item::Number(n)) => field.label = n,
                (5, Item::Number(n)) => field.kind = n,
                (6, Item::Bytes(b)) => field.type_name = text(b)?,
                (8, Item::Bytes(b)) => {
                    let mut packed = None;
                    options(b, 21, &mut field.features, |option, value| {
                        if matches!(option, Name::Number(2) | Name::Text("packed")) {
                            packed = Some(value);
                        }
                    })?;
                    field.packed = packed.or(field.packed);
                }
                (9, Item::Number(n)) => field.oneof = Some(n.cast_signed()),
                (10, Item::Bytes(b)) => field.json_name = Some(text(b)?),
                (17, Item::Number(n)) => field.is_optional_of_proto3 = n != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(field)
    }
}

impl Enum {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Self, String> {
        budget.take()?;
        let mut kind = Self::default();
        for_each(bytes, |number, item| {
            match (number, item) {
                (1, Item::Bytes(b)) => kind.name = text(b)?,
                (2, Item::Bytes(b)) => {
                    budget.take()?;
                    let mut value = (String::new(), 0);
                    for_each(b, |number, item| {
                        match (number, item) {
                            (1, Item::Bytes(b)) => value.0 = text(b)?,
                            // Negative numbers have their sign in all 64 bits.
                            (2, Item::Number(n)) => value.1 = n as i32,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    kind.values.push(value);
                }
                (3, Item::Bytes(b)) => options(b, 7, &mut kind.features, |_, _| {})?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(kind)
    }
}

impl Service {
    fn read(bytes: &[u8], budget: &mut Budget) -> Result<Self, String> {
        budget.take()?;
        let mut service = Self::default();
        for_each(bytes, |number, item| {
            match (number, item) {
                (1, Item::Bytes(b)) => service.name = text(b)?,
                (2, Item::Bytes(b)) => {
                    budget.take()?;
                    let mut method = Method::default();
                    for_each(b, |number, item| {
                        match (number, item) {
                            (1, Item::Bytes(b)) => method.name = text(b)?,
                            (2, Item::Bytes(b)) => method.input = text(b)?,
                            (3, Item::Bytes(b)) => method.output = text(b)?,
                            (5, Item::Number(n)) => method.takes = n != 0,
                            (6, Item::Number(n)) => method.streams = n != 0,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    service.methods.push(method);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(service)
    }
}

/// The name of an option: a parser of `.proto` files leaves it as a text.
enum Name<'a> {
    Number(u32),
    Text(&'a str),
}

/// The options of an element: its features, in the field with this number, and single options that
/// are true or false.
fn options(
    bytes: &[u8],
    of_features: u32,
    features: &mut Features,
    mut flag: impl FnMut(Name<'_>, bool),
) -> Result<(), String> {
    for_each(bytes, |number, item| {
        match (number, item) {
            (999, Item::Bytes(b)) => {
                let (name, value) = uninterpreted(b)?;
                match name.strip_prefix("features.") {
                    Some(feature) => features.set_text(feature, &value)?,
                    None => flag(Name::Text(&name), value == "true"),
                }
            }
            (n, Item::Bytes(b)) if n == of_features => {
                for_each(b, |number, item| match item {
                    Item::Number(n) => features.set(number, n),
                    _ => Ok(()),
                })?;
            }
            (n, Item::Number(value)) => flag(Name::Number(n), value != 0),
            _ => {}
        }
        Ok(())
    })
}

/// The name and the value of an `UninterpretedOption`; the value only if it is one word.
fn uninterpreted(bytes: &[u8]) -> Result<(String, String), String> {
    let (mut name, mut value) = (String::new(), String::new());
    for_each(bytes, |number, item| {
        match (number, item) {
            (2, Item::Bytes(part)) => for_each(part, |number, item| {
                if let (1, Item::Bytes(b)) = (number, item) {
                    if !name.is_empty() {
                        name.push('.');
                    }
                    name.push_str(&text(b)?);
                }
                Ok(())
            })?,
            (3, Item::Bytes(b)) => value = text(b)?,
            (8, Item::Bytes(_)) if name == "features" => {
                let why = "features in braces are not supported; write `features.NAME = VALUE`";
                return Err(why.into());
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((name, value))
}

fn for_each(
    bytes: &[u8],
    mut each: impl FnMut(u32, Item<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        each(number, item)?;
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a name in it is not UTF-8")?;
    Ok(text.to_owned())
}
