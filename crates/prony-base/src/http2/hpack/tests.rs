use proptest::prelude::*;

use super::{Decoder, Encoder, HpackError, Indexing, encode_static, huffman, integer};

type Fields = Vec<(String, String)>;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, HpackError> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut fields = Vec::new();
    decoder.decode(block, 1 << 16, |name, value| fields.push((text(name), text(value))))?;
    Ok(fields)
}

/// Lines of `name: value`, the name may start with a colon.
fn fields(lines: &str) -> Fields {
    let field = |line: &str| {
        let line = line.trim();
        let colon = line[1..].find(": ").expect("a colon") + 1;
        (line[..colon].to_owned(), line[colon + 2..].to_owned())
    };
    lines.lines().filter(|line| !line.trim().is_empty()).map(field).collect()
}

/// The entries of the table, newest first, and its size.
fn entries(decoder: &Decoder) -> (Fields, usize) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let entry = |i| decoder.table().get(i).map(|(name, value)| (text(name), text(value)));
    ((0..).map_while(entry).collect(), decoder.table().size())
}

#[test]
fn integers_of_appendix_c1() {
    for (value, bits, bytes) in [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a")] {
        let mut out = Vec::new();
        integer::write(&mut out, 0, bits, value);
        assert_eq!(out, unhex(bytes), "{value}");
        assert_eq!(integer::read(&mut &out[..], bits), Ok(value));
    }
}

#[test]
fn integers_at_their_bounds() {
    for bits in 4..=8 {
        let limit = (1_usize << bits) - 1;
        for value in [0, limit - 1, limit, limit + 1, limit + 127, limit + 128, (1 << 31) - 1] {
            let mut out = Vec::new();
            integer::write(&mut out, 0, bits, value);
            let mut rest = &out[..];
            assert_eq!(integer::read(&mut rest, bits), Ok(value), "{bits} bits");
            assert!(rest.is_empty());
            for cut in 0..out.len() {
                assert_eq!(integer::read(&mut &out[..cut], bits), Err(HpackError::Invalid));
            }
        }
    }
    // 2^31, 2^35, leading zeros in the fifth and sixth byte.
    let read = |hex: &str| integer::read(&mut &unhex(hex)[..], 5);
    assert_eq!(read("1f e0 ff ff ff 07"), Ok((1 << 31) - 1));
    assert_eq!(read("1f e1 ff ff ff 07"), Err(HpackError::Invalid));
    assert_eq!(read("1f ff ff ff ff 7f"), Err(HpackError::Invalid));
    assert_eq!(read("1f 81 80 80 80 00"), Ok(32));
    assert_eq!(read("1f 81 80 80 80 80 00"), Err(HpackError::Invalid));
}

#[test]
fn single_fields_of_appendix_c2() {
    let cases = [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", 55),
        ("040c 2f73 616d 706c 652f 7061 7468", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", 0),
        ("82", 0),
    ];
    let expected = fields(
        "custom-key: custom-header
         :path: /sample/path
         password: secret
         :method: GET",
    );
    for ((hex, size), field) in cases.into_iter().zip(expected) {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, &unhex(hex)), Ok(vec![field]));
        assert_eq!(decoder.table().size(), size, "{hex}");
        assert_eq!(decoder.state() > 0, size > 0, "{hex}");
    }
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
     custom-key: custom-value",
];

#[test]
fn requests_of_appendix_c3_and_c4() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::default();
        for (block, request) in blocks.into_iter().zip(REQUESTS) {
            assert_eq!(decode(&mut decoder, &unhex(block)), Ok(fields(request)));
        }
        let expected = "custom-key: custom-value
                        cache-control: no-cache
                        :authority: www.example.com";
        assert_eq!(entries(&decoder), (fields(expected), 164));
    }
    // Our encoder chooses the same representations.
    let mut encoder = Encoder::new();
    for (block, request) in huffman.into_iter().zip(REQUESTS) {
        let mut out = Vec::new();
        for (name, value) in fields(request) {
            encoder.literal(&mut out, name.as_bytes(), value.as_bytes(), Indexing::Incremental);
        }
        assert_eq!(out, unhex(block));
    }
}

#[test]
fn replies_of_appendix_c5_and_c6() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e
         919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7
         821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed
         4ee5 b106 3d50 07",
    ];
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let replies = [
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com"
            .to_owned(),
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com"
            .to_owned(),
        format!(
            ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
             location: https://www.example.com\ncontent-encoding: gzip\nset-cookie: {cookie}"
        ),
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new(256);
        for ((block, reply), size) in blocks.into_iter().zip(&replies).zip([222, 222, 215]) {
            assert_eq!(decode(&mut decoder, &unhex(block)), Ok(fields(reply)));
            assert_eq!(decoder.table().size(), size);
        }
        let expected = format!(
            "set-cookie: {cookie}
             content-encoding: gzip
             date: Mon, 21 Oct 2013 20:13:22 GMT"
        );
        assert_eq!(entries(&decoder).0, fields(&expected));
    }
}

#[test]
fn every_huffman_code_makes_a_round_trip() {
    let check = |text: &[u8]| {
        let (mut code, mut again) = (Vec::new(), b"before".to_vec());
        huffman::encode(text, &mut code);
        assert_eq!(code.len(), huffman::encoded_len(text));
        assert_eq!(huffman::decode(&code, &mut again), Some(()), "{text:?}");
        assert_eq!(&again[6..], text);
    };
    check(&[]);
    for a in 0..=255 {
        for repeat in 1..20 {
            check(&vec![a; repeat]);
        }
        for b in 0..=255 {
            check(&[a, b]);
            check(&[b'a', a, b'0', b, b'~']);
        }
    }
    check(&(0..=255).collect::<Vec<_>>());
    check(&(0..=255).rev().collect::<Vec<_>>());
}

/// The code of appendix B: some codes of each length, in bits.
#[test]
fn huffman_codes_of_appendix_b() {
    let cases: [(u8, &str); 12] = [
        (b'0', "00000"),
        (b't', "01001"),
        (b' ', "010100"),
        (b'u', "101101"),
        (b':', "1011100"),
        (b'&', "11111000"),
        (b'!', "1111111000"),
        (b'|', "11111111100"),
        (b'#', "111111111010"),
        (b'\\', "1111111111111110000"),
        (0x00, "1111111111000"),
        (0xff, "11111111111111111111101110"),
    ];
    for (symbol, bits) in cases {
        let mut code = Vec::new();
        huffman::encode(&[symbol], &mut code);
        let written: String = code.iter().map(|byte| format!("{byte:08b}")).collect();
        let (written, padding) = written.split_at(bits.len());
        assert_eq!(written, bits, "symbol {symbol}");
        assert!(padding.len() < 8 && !padding.contains('0'), "symbol {symbol}");
    }
}

#[test]
fn rejects_wrong_huffman_padding() {
    let decode = |code: &[u8]| {
        let mut out = Vec::new();
        huffman::decode(code, &mut out).map(|()| out)
    };
    assert_eq!(decode(&[0x1f]), Some(b"a".to_vec()), "three ones");
    assert_eq!(decode(&[0x1e]), None, "a zero");
    assert_eq!(decode(&[0x18]), None, "zeros");
    assert_eq!(decode(&[0x1f, 0xff]), None, "eleven ones");
    assert_eq!(decode(&[0xff]), None, "eight ones");
    assert_eq!(decode(&[0xff, 0xff, 0xff]), None, "24 ones");
    assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff]), None, "the end");
    assert_eq!(decode(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x18, 0xc6, 0x31]), None, "the end inside");
    let mut code = Vec::new();
    huffman::encode(b"ten bytes.", &mut code);
    for more in 1..6 {
        let padded = [&code[..], &vec![0xff; more]].concat();
        assert_eq!(decode(&padded), None, "{more} bytes of padding");
    }
}

#[test]
fn rejects_malformed_blocks() {
    let mut filled = Decoder::default();
    let custom = unhex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
    assert!(decode(&mut filled, &custom).is_ok());
    assert!(decode(&mut filled.clone(), &[0xbe]).is_ok(), "the entry");
    for (block, what) in [
        ("80", "index 0"),
        ("bf", "an index behind the table"),
        ("ff ff ff ff ff 07", "a large index"),
        ("7f 00 01 61", "a name behind the table, with indexing"),
        ("0f 30 01 61", "a name behind the table"),
        ("40", "no name"),
        ("40 01 61", "no value"),
        ("40 02 61", "a short name"),
        ("41 03 61", "a short value"),
        ("41 81 ff", "bad padding"),
        ("82 20", "a size after a field"),
        ("3f e2 1f", "a size beyond the limit"),
        ("3f", "a size cut off"),
    ] {
        let mut decoder = filled.clone();
        assert_eq!(decode(&mut decoder, &unhex(block)), Err(HpackError::Invalid), "{what}");
    }
    assert_eq!(decode(&mut filled.clone(), &unhex("3f e1 1f 82")), Ok(fields(":method: GET")));
    assert_eq!(decode(&mut filled, &unhex("20 3f e1 1f 82")), Ok(fields(":method: GET")));
    assert_eq!(entries(&filled), (vec![], 0), "size 0 evicts all");
}

#[test]
fn an_entry_that_is_too_large_empties_the_table() {
    let mut decoder = Decoder::new(64);
    let mut block = unhex("40 01 61 01 62");
    assert!(decode(&mut decoder, &block).is_ok());
    assert_eq!(decoder.table().size(), 34);
    block = [&unhex("40 01 61 1f")[..], &[b'x'; 31]].concat();
    assert!(decode(&mut decoder, &block).is_ok());
    assert_eq!(decoder.table().size(), 64, "31 + 1 + 32");
    let before = decoder.state();
    block = [&unhex("40 01 61 20")[..], &[b'x'; 32]].concat();
    assert_eq!(decode(&mut decoder, &block).map(|fields| fields.len()), Ok(1));
    assert_eq!(entries(&decoder), (vec![], 0));
    assert!(decoder.state() > before);
}

#[test]
fn the_name_of_an_entry_that_is_evicted_can_be_used() {
    let mut decoder = Decoder::new(64);
    let block = [&unhex("40 08")[..], b"the-name", &unhex("08"), b"a-value."].concat();
    assert!(decode(&mut decoder, &block).is_ok());
    let block = [&unhex("7e 09")[..], b"new-value"].concat();
    assert_eq!(decode(&mut decoder, &block), Ok(fields("the-name: new-value")));
    assert_eq!(entries(&decoder), (fields("the-name: new-value"), 49));
}

#[test]
fn bounds_the_list_and_keeps_the_table() {
    let mut decoder = Decoder::default();
    let large = [&unhex("40 01 61 7f 80 17")[..], &[b'x'; 127 + 23 * 128]].concat();
    assert!(decode(&mut decoder, &large).is_ok());
    // One byte each, 3,104 bytes of list each; then an insertion.
    let bomb = [&[0xbe; 10_000][..], &unhex("40 01 62 01 63")].concat();
    let (mut passed, mut bytes) = (0, 0);
    let result = decoder.decode(&bomb, 16_384, |name, value| {
        passed += 1;
        bytes += name.len() + value.len() + 32;
    });
    assert_eq!((result, passed), (Err(HpackError::TooLarge), 5));
    assert!(bytes <= 16_384);
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(fields("b: c")), "the insertion happened");
    let block = [0xbe, 0xbf];
    let mut list = 0;
    let exact = 1 + 127 + 23 * 128 + 32 + 34;
    assert_eq!(decoder.decode(&block, exact, |_, _| list += 1), Ok(()));
    assert_eq!(decoder.decode(&block, exact - 1, |_, _| list += 1), Err(HpackError::TooLarge));
}

#[test]
fn memory_follows_the_need() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.memory(), 0, "a new one owns nothing");
    assert!(decode(&mut decoder, &[0x82, 0x86, 0x84]).is_ok());
    assert_eq!(decoder.memory(), 0, "the static table suffices");
    // As from nginx: every field of every reply is inserted.
    let mut largest = 0;
    let mut steady = Vec::new();
    for i in 0..1_000 {
        let mut block = Vec::new();
        let date = format!("Mon, 21 Oct 2013 20:{:02}:{:02} GMT", i / 60 % 60, i % 60);
        for (name, value) in
            [("server", "nginx/1.22.1"), ("date", &date), ("content-type", "text/html")]
        {
            Encoder::new().literal(
                &mut block,
                name.as_bytes(),
                value.as_bytes(),
                Indexing::Incremental,
            );
        }
        assert!(decode(&mut decoder, &block).is_ok());
        largest = largest.max(decoder.memory());
        if i >= 500 {
            steady.push(decoder.memory());
        }
    }
    assert!(steady.iter().all(|&memory| memory == steady[0]), "no growth after the warm-up");
    assert!(largest <= 3_600, "{largest} bytes");
}

#[test]
fn the_encoder_announces_new_sizes() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::default();
    let mut send = |encoder: &mut Encoder, name: &str| {
        let mut out = Vec::new();
        encoder.literal(&mut out, name.as_bytes(), b"1", Indexing::Incremental);
        assert_eq!(decode(&mut decoder, &out), Ok(vec![(name.to_owned(), "1".to_owned())]));
        (out, decoder.table().size())
    };
    assert_eq!(send(&mut encoder, "aa").1, 35);
    encoder.set_max_size(65_536);
    assert_eq!(send(&mut encoder, "aa"), (vec![0xbe], 35), "4,096 stay in use");
    encoder.set_max_size(0);
    encoder.set_max_size(100);
    let (out, size) = send(&mut encoder, "bb");
    assert_eq!((&out[..4], size), (&unhex("20 3f 45 40")[..], 35), "0, then 100");
    encoder.set_max_size(30);
    let (out, size) = send(&mut encoder, "cc");
    assert_eq!((&out[..2], size), (&unhex("3e 00")[..], 0), "it does not fit");
    encoder.set_max_size(30);
    assert_eq!(send(&mut encoder, "cc").0[0], 0x00, "no change");
}

#[test]
fn secrets_are_never_indexed() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::default();
    for _ in 0..2 {
        let mut out = Vec::new();
        encoder.literal(&mut out, b"authorization", b"Basic 1", Indexing::Never);
        assert_eq!(out[..2], unhex("1f 08"), "index 23, never indexed");
        assert_eq!(decode(&mut decoder, &out), Ok(fields("authorization: Basic 1")));
    }
    let mut out = Vec::new();
    encoder.literal(&mut out, b":method", b"GET", Indexing::Never);
    assert_eq!(out[0], 0x12, "a literal all the same");
}

#[test]
fn static_blocks_need_no_table() {
    let mut out = Vec::new();
    for (name, value) in [
        (":status", "200"),
        (":status", "201"),
        ("content-length", "3"),
        ("x-own", "v"),
        ("accept-encoding", "gzip, deflate"),
    ] {
        encode_static(&mut out, name.as_bytes(), value.as_bytes());
    }
    assert_eq!(out[..2], [0x88, 0x08]);
    let mut decoder = Decoder::new(0);
    let expected = ":status: 200\n:status: 201\ncontent-length: 3\nx-own: v\n\
                    accept-encoding: gzip, deflate";
    assert_eq!(decode(&mut decoder, &out), Ok(fields(expected)));
    assert_eq!((decoder.state(), decoder.memory() <= 16), (0, true));
}

#[test]
fn the_buffer_for_long_strings_is_kept_while_they_come() {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    encode_static(&mut long, b"cookie", &[b'a'; 3_000]);
    encode_static(&mut short, b"cookie", &[b'a'; 30]);
    let mut decoder = Decoder::new(0);
    let mut memory = |block: &[u8]| {
        assert!(decode(&mut decoder, block).is_ok());
        decoder.memory()
    };
    let kept = memory(&long);
    assert!((3_000..9_000).contains(&kept), "{kept} bytes");
    assert_eq!([memory(&long), memory(&long)], [kept; 2], "nothing is allocated again");
    assert!(memory(&short) <= 1_024);
}

/// Names and values that often repeat, so that tables are used.
fn any_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, u8)> {
    let name = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"cookie".to_vec()),
        "x-[ab]{1,2}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let value = prop_oneof![
        Just(b"/".to_vec()),
        "[ab]{0,2}".prop_map(String::into_bytes),
        "[ -~]{0,60}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..300),
    ];
    (name, value, 0..3_u8)
}

/// A new size of the table, perhaps; then fields.
type Block = (Option<u32>, Vec<(Vec<u8>, Vec<u8>, u8)>);

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    let size = prop_oneof![3 => Just(None), 1 => (0..5_000_u32).prop_map(Some)];
    prop::collection::vec((size, prop::collection::vec(any_field(), 0..8)), 1..40)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(blocks in any_blocks()) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::default());
        for (size, fields) in blocks {
            if let Some(size) = size {
                encoder.set_max_size(size);
            }
            let mut out = Vec::new();
            for (name, value, how) in &fields {
                match how {
                    0 => encoder.literal(&mut out, name, value, Indexing::Incremental),
                    1 => encoder.literal(&mut out, name, value, Indexing::Without),
                    _ => encoder.literal(&mut out, name, value, Indexing::Never),
                }
            }
            let mut decoded = Vec::new();
            let result = decoder.decode(&out, usize::MAX, |name, value| {
                decoded.push((name.to_vec(), value.to_vec()));
            });
            prop_assert_eq!(result, Ok(()));
            let sent: Vec<_> = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(decoded, sent);
            prop_assert!(decoder.memory() < 10_000);
        }
    }

    /// Blocks of random fields and random bytes: while the state stays, the table is the same, and
    /// a block that was decoded in a state gives the same fields whenever that state holds.
    #[test]
    fn the_state_determines_the_fields(
        blocks in prop::collection::vec(
            (any_blocks(), prop::collection::vec(any::<u8>(), 0..12)), 1..8),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(300));
        encoder.set_max_size(300);
        for (own, random) in blocks {
            let mut outs = vec![random];
            for (_, fields) in own {
                let mut out = Vec::new();
                for (name, value, how) in fields {
                    let all = [Indexing::Incremental, Indexing::Without, Indexing::Never];
                    encoder.literal(&mut out, &name, &value, all[how as usize]);
                }
                outs.push(out);
            }
            for out in outs {
                let before = (decoder.state(), contents(&decoder));
                let mut copy = decoder.clone();
                let first = collect(&mut decoder, &out);
                prop_assert_eq!(&collect(&mut copy, &out), &first, "the same state");
                prop_assert_eq!(decoder.state(), copy.state());
                if decoder.state() == before.0 {
                    prop_assert_eq!(contents(&decoder), before.1, "the table has changed");
                    prop_assert_eq!(collect(&mut decoder, &out), first, "decoded again");
                } else {
                    prop_assert!(decoder.state() > before.0);
                }
            }
        }
    }
}

type Collected = (Result<(), HpackError>, Vec<(Vec<u8>, Vec<u8>)>);

fn collect(decoder: &mut Decoder, block: &[u8]) -> Collected {
    let mut fields = Vec::new();
    let result = decoder.decode(block, 1 << 20, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    });
    (result, fields)
}

fn contents(decoder: &Decoder) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entry = |i| decoder.table().get(i).map(|(name, value)| (name.to_vec(), value.to_vec()));
    (0..).map_while(entry).collect()
}
