//! Schemas that are not valid, as strangers may write them: each is refused with a sentence that
//! names the element.

use std::time::Duration;

use prony_grpc::{FILES_MAX, Schema, TIME_MAX, reflect, types_in_any};
use prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions, MethodDescriptorProto,
    OneofDescriptorProto, ServiceDescriptorProto,
};

fn field(name: &str, number: i32, kind: Type, type_name: &str) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        type_name: (!type_name.is_empty()).then(|| type_name.into()),
        ..FieldDescriptorProto::default()
    }
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.into()), field, ..DescriptorProto::default() }
}

/// A file with a message `M` that has a map, an enumeration, a oneof, and a service that takes it.
fn file() -> FileDescriptorProto {
    let mut map = field("map", 1, Type::Message, ".p.M.MapEntry");
    map.label = Some(Label::Repeated.into());
    let key = field("key", 1, Type::String, "");
    let value = field("value", 2, Type::Message, ".p.M");
    let mut entry = message("MapEntry", vec![key, value]);
    entry.options = Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() });
    let color = field("color", 2, Type::Enum, ".p.Color");
    let one = FieldDescriptorProto { oneof_index: Some(0), ..field("one", 3, Type::Int32, "") };
    let mut all = message("M", vec![map, color, one]);
    all.nested_type.push(entry);
    all.oneof_decl.push(OneofDescriptorProto { name: Some("choice".into()), options: None });
    let values = [("NONE", 0), ("RED", 1)].map(|(name, number)| EnumValueDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        options: None,
    });
    let colors = EnumDescriptorProto {
        name: Some("Color".into()),
        value: values.to_vec(),
        ..EnumDescriptorProto::default()
    };
    let method = MethodDescriptorProto {
        name: Some("C".into()),
        input_type: Some(".p.M".into()),
        output_type: Some(".p.M".into()),
        ..MethodDescriptorProto::default()
    };
    FileDescriptorProto {
        name: Some("a.proto".into()),
        package: Some("p".into()),
        syntax: Some("proto3".into()),
        message_type: vec![all],
        enum_type: vec![colors],
        service: vec![ServiceDescriptorProto {
            name: Some("S".into()),
            method: vec![method],
            options: None,
        }],
        ..FileDescriptorProto::default()
    }
}

fn set(file: FileDescriptorProto) -> Vec<u8> {
    FileDescriptorSet { file: vec![file] }.encode_to_vec()
}

/// The sentence for the file after a change.
fn why(change: impl FnOnce(&mut FileDescriptorProto)) -> String {
    let mut changed = file();
    change(&mut changed);
    let why = Schema::default().add_set(&set(changed)).expect_err("a sentence");
    assert!(!why.chars().any(char::is_control), "{why:?}");
    why
}

fn entry(file: &mut FileDescriptorProto) -> &mut DescriptorProto {
    &mut file.message_type[0].nested_type[0]
}

#[test]
fn the_file_without_a_change_is_a_schema() {
    let mut schema = Schema::default();
    schema.add_set(&set(file())).unwrap();
    let method = schema.method("p.S/C").unwrap();
    let body = method.encode(r#"{"map": {"a": {}}, "color": "RED", "one": 0}"#).unwrap().body;
    assert_eq!(body[5..], *b"\x0a\x05\x0a\x01a\x12\x00\x10\x01\x18\x00");
}

#[test]
fn maps_are_checked() {
    for (kind, name) in [(Type::Double, "double"), (Type::Float, "float"), (Type::Bytes, "bytes")] {
        let why = why(|file| entry(file).field[0].set_type(kind));
        let expected =
            format!("the keys of the map p.M.MapEntry have the type {name}, which no key may have");
        assert_eq!(why, expected);
    }
    let of_key = why(|file| {
        entry(file).field[0] = field("key", 1, Type::Enum, ".p.Color");
    });
    assert_eq!(of_key, "the keys of the map p.M.MapEntry have a type that no key may have");
    let shape = "p.M.MapEntry, an entry of a map, must have a key and a value";
    assert_eq!(why(|file| entry(file).field.truncate(1)), shape);
    assert_eq!(why(|file| entry(file).field.clear()), shape);
    assert_eq!(why(|file| entry(file).field[1].number = Some(3)), shape);
    assert_eq!(why(|file| entry(file).field.swap(0, 1)), shape);
    assert_eq!(why(|file| entry(file).field[1].set_label(Label::Repeated)), shape);
    let single = why(|file| file.message_type[0].field[0].set_label(Label::Optional));
    assert_eq!(
        single,
        "the field map of p.M has the type p.M.MapEntry, which is an entry of a map"
    );
}

#[test]
fn names_numbers_and_types_are_checked() {
    let of_field = |change: fn(&mut FieldDescriptorProto)| {
        why(move |file| change(&mut file.message_type[0].field[2]))
    };
    for (number, shown) in [(0, "0"), (-1, "-1"), (1 << 29, "536870912"), (19_500, "19500")] {
        let why = why(|file| file.message_type[0].field[2].number = Some(number));
        let expected =
            format!("the field one of p.M has the number {shown}, which no field may have");
        assert_eq!(why, expected);
    }
    assert_eq!(
        of_field(|field| field.number = Some(2)),
        "the fields color and one of p.M have the same number, 2"
    );
    assert_eq!(
        of_field(|field| field.name = Some("color".into())),
        "p.M has the field color twice"
    );
    assert_eq!(of_field(|field| field.name = None), "an element has no name");
    assert_eq!(
        of_field(|field| field.name = Some("a\x1b[31mb".into())),
        r"'a\u{1b}[31mb' is not a name"
    );
    assert_eq!(
        of_field(|field| field.r#type = Some(99)),
        "the field one of p.M has an unknown type, number 99"
    );
    assert_eq!(
        of_field(|field| field.label = Some(9)),
        "the field one of p.M has an unknown label, 9"
    );
    assert_eq!(of_field(|field| field.set_type(Type::Message)), "the field one of p.M has no type");
    assert_eq!(
        of_field(|field| *field = self::field("one", 3, Type::Message, ".p.None")),
        "the field one of p.M has the type p.None, which is not in the schema"
    );
    assert_eq!(
        of_field(|field| *field = self::field("one", 3, Type::Enum, ".p.M")),
        "the field one of p.M has the type .p.M, which is another kind of type"
    );
    assert_eq!(
        of_field(|field| field.oneof_index = Some(1)),
        "the field one of p.M is in a oneof that is not there"
    );
    assert_eq!(
        of_field(|field| field.oneof_index = Some(-1)),
        "the field one of p.M is in a oneof that is not there"
    );
    assert_eq!(
        of_field(|field| field.set_label(Label::Repeated)),
        "the field one of p.M is in a oneof and a list"
    );
    let missing = why(|file| {
        file.dependency.push("none.proto".into());
        file.service[0].method[0].input_type = Some(".q.M".into());
    });
    let expected = "a.proto: the method C of p.S has the type q.M, which is not in the schema; \
                    imports are missing: none.proto";
    assert_eq!(missing, expected);
    assert_eq!(
        why(|file| file.enum_type[0].value.clear()),
        "a.proto: the enumeration p.Color has no values"
    );
    assert_eq!(
        why(|file| file.enum_type[0].name = Some("M".into())),
        "a.proto: 'p.M' is declared twice"
    );
}

#[test]
fn unknown_syntaxes_and_editions_are_refused() {
    assert!(
        why(|file| file.syntax = Some("proto4".into()))
            .starts_with("a.proto: its syntax 'proto4' is not known")
    );
    let with_edition = |number: &[u8]| {
        let mut file = file();
        file.syntax = Some("editions".into());
        let mut bytes = file.encode_to_vec();
        bytes.extend(number);
        let mut set = vec![0x0a];
        prost::encoding::encode_varint(bytes.len() as u64, &mut set);
        set.extend(bytes);
        Schema::default().add_set(&set)
    };
    // Field 14: 1000 is edition 2023, 1001 is 2024, 99999 a number for tests.
    assert_eq!(with_edition(&[0x70, 0xe8, 0x07]), Ok(()));
    assert_eq!(with_edition(&[0x70, 0xe9, 0x07]), Ok(()));
    for unknown in [&[][..], &[0x70, 0], &[0x70, 0x9f, 0x8d, 0x06]] {
        let why = with_edition(unknown).unwrap_err();
        assert!(why.ends_with("prony knows the editions 2023 and 2024"), "{why}");
    }
    let mut empty = file();
    empty.syntax = Some(String::new());
    assert_eq!(Schema::default().add_set(&set(empty)), Ok(()));
}

#[test]
fn what_is_nested_or_large_without_end_is_refused() {
    let mut deep = message("M", Vec::new());
    for _ in 0..100 {
        deep = DescriptorProto { nested_type: vec![deep], ..message("M", Vec::new()) };
    }
    let nested = why(|file| file.message_type[0].nested_type.push(deep));
    assert_eq!(nested, "a.proto: messages are nested more than 64 deep");
    let long = why(|file| file.package = Some("a.".repeat(600) + "a"));
    assert_eq!(long, "a.proto: a name in it has more than 1000 bytes");
    // Two million fields of two bytes each.
    let mut message = vec![0x0a, 0x01, b'M'];
    message.extend([0x12, 0x00].repeat(2_000_000));
    let (mut file, mut set) = (vec![0x22], vec![0x0a]);
    prost::encoding::encode_varint(message.len() as u64, &mut file);
    file.extend(message);
    prost::encoding::encode_varint(file.len() as u64, &mut set);
    set.extend(file);
    let why = Schema::default().add_set(&set).unwrap_err();
    assert!(why.ends_with("it has more than 1000000 elements"), "{why}");
}

/// The reply of a reflection service with one file.
fn reply(file: &FileDescriptorProto) -> Vec<u8> {
    let mut list = Vec::new();
    prost::encoding::bytes::encode(1, &file.encode_to_vec(), &mut list);
    let mut reply = Vec::new();
    prost::encoding::bytes::encode(4, &list, &mut reply);
    reply
}

#[test]
fn a_server_whose_files_never_end_is_asked_a_bounded_number_of_times() {
    let methods = ["/p.S/C".to_owned()];
    let mut asked = 0;
    let endless = |_: Vec<u8>| {
        asked += 1;
        let mut file = file();
        file.name = Some(format!("{asked}.proto"));
        file.dependency = vec![format!("{}.proto", asked + 1)];
        Ok::<_, String>(reply(&file))
    };
    let why = reflect(&methods, &[], endless, || Duration::ZERO).unwrap_err();
    assert!(why.starts_with("its schema does not end: it has more than 4096 files"), "{why}");
    assert!(asked <= FILES_MAX, "{asked}");
    // Thousands of imports in one file.
    let many = |_: Vec<u8>| {
        let mut file = file();
        file.dependency = (0..50_000).map(|n| format!("{n}.proto")).collect();
        Ok::<_, String>(reply(&file))
    };
    let why = reflect(&methods, &[], many, || Duration::ZERO).unwrap_err();
    assert!(why.starts_with("its schema does not end: it has more than 4096 files"), "{why}");
    // Large files.
    let mut asked = 0;
    let large = |_: Vec<u8>| {
        asked += 1;
        let mut file = file();
        file.name = Some(format!("{asked}.proto"));
        file.dependency = vec![format!("{}.proto", asked + 1)];
        file.options = Some(prost_reflect::prost_types::FileOptions {
            java_package: Some("x".repeat(1 << 20)),
            ..Default::default()
        });
        Ok::<_, String>(reply(&file))
    };
    let why = reflect(&methods, &[], large, || Duration::ZERO).unwrap_err();
    assert_eq!(why, "its schema does not end: after 32 MiB, 31 files were read");
    // A server that takes a second for each file.
    let seconds = std::cell::Cell::new(0);
    let slow = |_: Vec<u8>| {
        seconds.set(seconds.get() + 1);
        let mut file = file();
        file.name = Some(format!("{}.proto", seconds.get()));
        file.dependency = vec![format!("{}.proto", seconds.get() + 1)];
        Ok::<_, String>(reply(&file))
    };
    let elapsed = || Duration::from_secs(seconds.get());
    let why = reflect(&methods, &[], slow, elapsed).unwrap_err();
    assert_eq!(why, "its schema does not end: after 60 s, 61 files were read");
    assert_eq!(TIME_MAX, Duration::from_secs(60));
}

/// The types in an `Any` may be in files that the service does not import.
#[test]
fn a_server_is_asked_for_the_types_of_any() {
    let any = |json: &str| types_in_any(json);
    let json = r#"{"a": {"@type": "type.googleapis.com/p.M", "b": [{"@type": "x/q.N"}]}}"#;
    assert_eq!(any(json), ["p.M", "q.N"]);
    let others = r#"{"@type": "x/google.protobuf.Duration", "a": {"@type": "{{t}}"}, "@type ": 1}"#;
    assert_eq!(any(others), [""; 0]);
    assert_eq!(any("{"), [""; 0]);
    let mut asked = Vec::new();
    let answer = |question: Vec<u8>| {
        let symbol = String::from_utf8_lossy(&question[2..]).into_owned();
        asked.push(symbol.clone());
        let mut file = file();
        if symbol == "q.N" {
            file.name = Some("q.proto".into());
            file.package = Some("q".into());
            file.service.clear();
            file.enum_type.clear();
            let number = field("n", 1, Type::Int32, "");
            file.message_type = vec![message("N", vec![number])];
        } else if symbol == "p.S" {
            let any = field("any", 9, Type::Message, ".google.protobuf.Any");
            file.message_type[0].field.push(any);
            file.dependency = vec!["google/protobuf/any.proto".into()];
        } else if symbol.ends_with("any.proto") {
            file.name = Some(symbol);
            file.package = Some("google.protobuf".into());
            file.service.clear();
            file.enum_type.clear();
            let url = field("type_url", 1, Type::String, "");
            let value = field("value", 2, Type::Bytes, "");
            file.message_type = vec![message("Any", vec![url, value])];
        } else {
            // field 7: { field 1: 5 }
            return Ok::<_, String>(b"\x3a\x02\x08\x05".to_vec());
        }
        Ok(reply(&file))
    };
    let types = ["q.N".to_owned(), "r.Unknown".to_owned()];
    let schema = reflect(&["/p.S/C".into()], &types, answer, || Duration::ZERO).unwrap();
    let method = schema.method("p.S/C").unwrap();
    let body = method.encode(r#"{"any": {"@type": "t/q.N", "n": 5}}"#).unwrap().body;
    assert_eq!(body[5..], *b"\x4a\x0b\x0a\x05t/q.N\x12\x02\x08\x05");
    let why = method.encode(r#"{"any": {"@type": "t/r.Unknown"}}"#).unwrap_err();
    assert_eq!(why, "the field 'any': the type r.Unknown is not in the schema");
    asked.sort();
    assert_eq!(asked, ["google/protobuf/any.proto", "p.S", "q.N", "r.Unknown"]);
}

/// Parts of a message that vary, in a group and in an `Any`.
#[test]
fn template_fields_can_be_in_groups_and_in_any() {
    use prony_plan::plan::MessagePart;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut schema = Schema::default();
    schema.add_set(&std::fs::read(folder.join("vectors.pset")).unwrap()).unwrap();
    let group = schema.method("two.S/SendM").unwrap();
    let call = group.encode(r#"{"part": {"a": "{{x}}", "b": "y"}}"#).unwrap().call;
    let [start, MessagePart::Field { number: 1, .. }, rest] = &call.messages[0][..] else {
        panic!("{call:?}");
    };
    // The keys of the start and of the end of field 5.
    assert_eq!(*start, MessagePart::Bytes(vec![0x2b]));
    assert_eq!(*rest, MessagePart::Bytes(b"\x12\x01y\x2c".to_vec()));
    let any = schema.method("known.S/SendM").unwrap();
    let json = r#"{"any": {"@type": "t/known.Scalars", "string": "{{x}}"}}"#;
    let call = any.encode(json).unwrap().call;
    let [MessagePart::Message { number: 1, parts }] = &call.messages[0][..] else {
        panic!("{call:?}");
    };
    assert!(matches!(&parts[1], MessagePart::Message { number: 2, .. }), "{parts:?}");
    let why = any.encode(r#"{"struct": {"a": "{{x}}"}}"#).unwrap_err();
    assert!(why.contains("template fields are not possible in a google.protobuf.Struct"), "{why}");
}
