//! HPACK beside the Python package `hpack`, if it is installed (`cargo xtask ci` installs it).

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use prony_core::http2::hpack::{Decoder, Encoder, Indexing};

const BLOCKS: usize = 3_000;

type Field = (Vec<u8>, Vec<u8>);

/// Both directions over one connection each: what one side encodes, the other decodes, with small
/// tables and large ones.
#[test]
fn the_python_package_understands_us_and_we_it() {
    let Some(python) = python() else { return };
    for (seed, largest) in [(7, 4_096), (8, 65_536), (9, 100), (10, 0)] {
        both_directions(&python, Rng(seed), largest);
    }
}

/// Our decoder allows a table of at most `largest` bytes.
fn both_directions(python: &str, mut rng: Rng, largest: u32) {
    let (mut ours, mut theirs, mut commands) = (Vec::new(), Vec::new(), String::new());
    let mut encoder = Encoder::new();
    let mut size = largest.min(4_096);
    encoder.set_max_size(size);
    for number in 0..BLOCKS {
        if rng.below(20) == 0 {
            size = [0, 64, 200, 1_000, 4_096, 20_000, 65_536][rng.below(7)].min(largest);
            encoder.set_max_size(size);
        }
        let fields: Vec<Field> = (0..rng.below(8)).map(|_| rng.field()).collect();
        if number % 2 == 0 {
            let mut block = Vec::new();
            for (name, value) in &fields {
                let how = [Indexing::Incremental, Indexing::Without, Indexing::Never];
                encoder.literal(&mut block, name, value, how[rng.below(3)]);
            }
            writeln!(commands, "decode {}", hex(&block)).expect("a String takes all");
            ours.push(fields);
        } else {
            write!(commands, "encode {size}").expect("a String takes all");
            for field in &fields {
                let secret = if rng.below(5) == 0 { "!" } else { "" };
                write!(commands, " {secret}{}", text(field)).expect("a String takes all");
            }
            commands.push('\n');
            theirs.push(fields);
        }
    }
    let answers = answers(python, commands);
    let mut decoder = Decoder::new(largest);
    for (number, answer) in answers.lines().enumerate() {
        if number % 2 == 0 {
            let sent: Vec<_> = ours[number / 2].iter().map(text).collect();
            assert_eq!(answer, sent.join(" "), "block {number}");
        } else {
            let mut fields = Vec::new();
            let result = decoder.decode(&unhex(answer), usize::MAX, |name, value| {
                fields.push((name.to_vec(), value.to_vec()));
            });
            assert_eq!((result, &fields), (Ok(()), &theirs[number / 2]), "block {number}");
        }
    }
    assert_eq!(answers.lines().count(), BLOCKS);
}

/// A Python with the package. Not found: the test is skipped, unless one was named.
fn python() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "it names a tool of the test, not of a run")]
    let named = std::env::var_os("PRONY_TEST_HPACK");
    let python =
        named.clone().map_or_else(|| "python3".into(), |p| p.into_string().expect("UTF-8"));
    let has = Command::new(&python).args(["-c", "import hpack"]).output();
    if has.is_ok_and(|o| o.status.success()) {
        return Some(python);
    }
    assert!(named.is_none(), "{python} was named as a Python with `hpack`, but has it not");
    eprintln!("skipped: no Python with the package `hpack`");
    None
}

fn answers(python: &str, commands: String) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/hpack_peer.py");
    let file = std::env::temp_dir().join(format!("prony-hpack-{}", std::process::id()));
    std::fs::write(&file, commands).expect("written");
    let output =
        Command::new(python).arg(script).arg(&file).output().expect("it was there a moment ago");
    std::fs::remove_file(&file).expect("it was there a moment ago");
    std::io::stderr().write_all(&output.stderr).expect("stderr takes all");
    assert!(output.status.success(), "the script failed");
    String::from_utf8(output.stdout).expect("hex")
}

fn text((name, value): &Field) -> String {
    format!("{}:{}", hex(name), hex(value))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len() / 2).map(|i| digit(2 * i)).collect()
}

/// A linear congruential generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }

    /// Names and values that often repeat, so that the tables are used.
    fn field(&mut self) -> Field {
        let names: [&[u8]; 6] = [b":path", b":status", b"cookie", b"x-a", b"x-b", b"date"];
        let name = match self.below(8) {
            0 => [&b"x"[..], &hex(&self.bytes(9)).into_bytes()].concat(),
            _ => names[self.below(names.len())].to_vec(),
        };
        let values: [&[u8]; 5] = [b"/", b"200", b"", b"text/html; charset=utf-8", b"404"];
        let value = match self.below(3) {
            0 => {
                let length = self.below(120);
                self.bytes(length)
            }
            _ => values[self.below(values.len())].to_vec(),
        };
        (name, value)
    }
}
