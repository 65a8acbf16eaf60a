use std::path::Path;

use super::*;
use crate::wire::{Item, Reader, WireType, put_bytes, put_key, put_varint};

/// Descriptors as protoc makes them, of all syntaxes.
const SET: &[u8] = include_bytes!("../../tests/vectors/vectors.pset");

#[test]
fn corpus_of_descriptors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/descriptors");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("a corpus") {
        descriptors(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        files += 1;
    }
    assert!(files >= 8);
}

/// Random numbers by seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// A message as a tree.
#[derive(Clone)]
enum Node {
    Number(u32, u64),
    Text(u32, Vec<u8>),
    Message(u32, Vec<Self>),
}

/// The tree of a message; `None` if it is none, or rather a text.
fn tree(bytes: &[u8]) -> Option<Vec<Node>> {
    let (mut reader, mut nodes) = (Reader::new(bytes), Vec::new());
    while let Some((number, item)) = reader.next().ok()? {
        nodes.push(match item {
            Item::Number(n) => Node::Number(number, n),
            Item::Bytes(b) => {
                let is_text = b.iter().all(|b| (0x20..0x7f).contains(b));
                match tree(b).filter(|_| !is_text) {
                    Some(inner) => Node::Message(number, inner),
                    None => Node::Text(number, b.to_vec()),
                }
            }
            Item::Other => return None,
        });
    }
    Some(nodes)
}

fn write(nodes: &[Node], out: &mut Vec<u8>) {
    for node in nodes {
        match node {
            Node::Number(number, value) => {
                put_key(*number, WireType::Varint, out);
                put_varint(*value, out);
            }
            Node::Text(number, text) => put_bytes(*number, text, out),
            Node::Message(number, inner) => {
                let mut bytes = Vec::new();
                write(inner, &mut bytes);
                put_bytes(*number, &bytes, out);
            }
        }
    }
}

fn texts(nodes: &[Node], into: &mut Vec<Vec<u8>>) {
    for node in nodes {
        match node {
            Node::Text(_, text) => into.push(text.clone()),
            Node::Message(_, inner) => texts(inner, into),
            Node::Number(..) => {}
        }
    }
}

/// Changes one place of a tree.
fn mutate(nodes: &mut Vec<Node>, texts: &[Vec<u8>], random: &mut Random) {
    const NUMBERS: [u64; 16] =
        [0, 1, 2, 3, 4, 5, 9, 10, 11, 14, 998, 1000, 1001, 19_000, 1 << 29, u64::MAX];
    if nodes.is_empty() {
        return;
    }
    let at = random.below(nodes.len());
    if let Node::Message(_, inner) = &mut nodes[at]
        && random.below(8) > 0
    {
        return mutate(inner, texts, random);
    }
    match random.below(6) {
        0 => {
            nodes.remove(at);
        }
        1 => {
            let again = nodes[at].clone();
            nodes.insert(random.below(nodes.len()), again);
        }
        2 => {
            let other = random.below(nodes.len());
            nodes.swap(at, other);
        }
        3 => match &mut nodes[at] {
            Node::Number(number, _) | Node::Text(number, _) | Node::Message(number, _) => {
                *number = 1 + random.below(18) as u32;
            }
        },
        4 => nodes.insert(at, Node::Number(1 + random.below(18) as u32, NUMBERS[random.below(16)])),
        _ => match &mut nodes[at] {
            Node::Number(_, value) => *value = NUMBERS[random.below(NUMBERS.len())],
            Node::Text(_, text) => text.clone_from(&texts[random.below(texts.len())]),
            Node::Message(_, inner) => {
                let copy = inner.clone();
                inner.push(Node::Message(3, copy));
            }
        },
    }
}

/// Descriptors with a few changes each reach all checks behind the first.
#[test]
fn no_change_of_a_descriptor_panics() {
    let set = tree(SET).expect("a message");
    let mut all = Vec::new();
    texts(&set, &mut all);
    all.extend([Vec::new(), b".".to_vec(), b"proto3".to_vec(), b"editions".to_vec()]);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut valid, mut refused) = (0, 0);
    for _ in 0..1_200 {
        let mut changed = set.clone();
        for _ in 0..=random.below(3) {
            mutate(&mut changed, &all, &mut random);
        }
        let mut bytes = Vec::new();
        write(&changed, &mut bytes);
        match Schema::default().add_set(&bytes) {
            Ok(()) => valid += 1,
            Err(_) => refused += 1,
        }
        descriptors(&bytes);
    }
    assert!(valid > 100 && refused > 100, "{valid} valid, {refused} refused");
}

#[test]
fn no_flipped_byte_panics() {
    let mut random = Random(7);
    for _ in 0..300 {
        let mut bytes = SET.to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        descriptors(&bytes);
        bytes.truncate(random.below(bytes.len()));
        descriptors(&bytes);
    }
}
