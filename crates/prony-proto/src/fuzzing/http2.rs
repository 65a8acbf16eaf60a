//! The fuzz targets of HPACK.

use prony_base::http2::hpack::{
    Decoder, Encoder, HpackError, Indexing, encode_static, huffman_decode, huffman_encode,
};

/// The bound on the fields of a block.
const MAX_LIST: usize = 16 << 10;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Fuzz target: blocks of headers. The first byte selects the size of the table, each block follows
/// its length in one byte. Blocks that are equal, in equal states, have equal fields; and what was
/// decoded can be encoded and decoded again.
///
/// # Panics
/// If not.
pub fn hpack(data: &[u8]) {
    let Some((&size, mut rest)) = data.split_first() else { return };
    let mut decoder = Decoder::new(u32::from(size) * 20);
    let (mut encoder, mut again) = (Encoder::new(), Decoder::default());
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let before = decoder.state();
        let mut copy = decoder.clone();
        let (result, fields) = decode(&mut decoder, block);
        assert_eq!(decode(&mut copy, block), (result, fields.clone()), "the same state");
        assert!(decoder.state() >= before, "the state never falls");
        if decoder.state() == before {
            assert_eq!(decode(&mut decoder, block), (result, fields.clone()), "decoded again");
        }
        let list: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(list <= MAX_LIST, "{list} bytes");
        let (mut ours, mut fixed) = (Vec::new(), Vec::new());
        for (i, (name, value)) in fields.iter().enumerate() {
            let how = [Indexing::Incremental, Indexing::Without, Indexing::Never][i % 3];
            encoder.literal(&mut ours, name, value, how);
            encode_static(&mut fixed, name, value);
        }
        assert_eq!(decode(&mut again, &ours), (Ok(()), fields.clone()), "encoded again");
        assert_eq!(decode(&mut Decoder::new(0), &fixed), (Ok(()), fields), "without a table");
        if result == Err(HpackError::Invalid) {
            return;
        }
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> (Result<(), HpackError>, Fields) {
    let mut fields = Vec::new();
    let result = decoder.decode(block, MAX_LIST, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
    });
    (result, fields)
}

/// Fuzz target: a Huffman code, and a text. What is decoded is encoded as the same bytes, because
/// the code is unique; any text makes a round trip.
///
/// # Panics
/// If not.
pub fn huffman(data: &[u8]) {
    let (mut text, mut code) = (Vec::new(), Vec::new());
    if huffman_decode(data, &mut text).is_some() {
        huffman_encode(&text, &mut code);
        assert_eq!(code, data, "another code for the same text");
    }
    (text, code) = (Vec::new(), Vec::new());
    huffman_encode(data, &mut code);
    assert!(huffman_decode(&code, &mut text).is_some(), "our own code");
    assert_eq!(text, data, "another text");
}
