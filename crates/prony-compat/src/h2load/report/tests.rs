use super::*;

fn figures() -> Figures {
    Figures {
        seconds: 0.002_529,
        rate: 7_908.264_14,
        bytes_per_second: 482_404,
        total: 20,
        started: 20,
        done: 20,
        succeeded: 20,
        failed: 0,
        errored: 0,
        timeout: 0,
        statuses: [20, 0, 0, 0],
        bytes: 1_220,
        header_bytes: 544,
        field_bytes: 3_500,
        data_bytes: 220,
        request: Row::of(vec![
            4.5768e-05,
            4.5839e-05,
            6.2012e-05,
            6.3715e-05,
            6.4916e-05,
            6.9414e-05,
            6.9423e-05,
            8.0199e-05,
            8.0299e-05,
            8.3053e-05,
            8.3104e-05,
            0.000_136_853,
            0.000_357_331,
            0.000_357_371,
            0.000_360_156,
            0.000_360_285,
            0.000_363_951,
            0.000_364_001,
            0.000_372_353,
            0.000_372_754,
        ]),
        connect: vec![9.6113e-05, 0.000_135_441, 0.000_164_855, 0.000_262_48],
        first_byte: vec![0.000_524_69, 0.000_554_905, 0.000_581_063, 0.000_676_736],
        rates: vec![4_969.808_41, 6_088.873_19, 6_395.072_21, 6_661.470_72],
    }
}

/// The samples are those of a run of h2load 1.70 (`--output-file`), and so is the expected text.
#[test]
fn the_report_of_1_70_from_its_own_samples() {
    let options = Options { histogram: true, ..Options::default() };
    let expected = include_str!("../../../tests/data/h2load/1.70-histogram.txt");
    assert_eq!(text(&figures(), &options), expected);
}

/// The figures of a run of h2load 1.52 that answered nothing; the expected text is its output.
#[test]
fn the_report_of_1_52_without_replies() {
    let nothing = Figures {
        seconds: 0.000_938,
        total: 20,
        failed: 20,
        errored: 20,
        rates: vec![0.0; 5],
        ..Figures::default()
    };
    let options = Options { edition: Edition::V1_52, ..Options::default() };
    let expected = include_str!("../../../tests/data/h2load/1.52-refused.txt");
    assert_eq!(text(&nothing, &options), expected);
}

#[test]
fn tls_lines_of_both_editions() {
    let first = FirstHandshake {
        version: "1.3".into(),
        suite: "TLS_AES_256_GCM_SHA384".into(),
        group: Some("secp256r1".into()),
        key_bits: Some(2_048),
    };
    let short = "TLS Protocol: TLSv1.3\nCipher: TLS_AES_256_GCM_SHA384\n\
                 Server Temp Key: ECDH prime256v1 256 bits\n";
    assert_eq!(handshake(&first, Edition::V1_52), short);
    let long = "Certificate: RSA 2048 bits\nNegotiated Group: secp256r1\nResumption: no\n";
    assert_eq!(handshake(&first, Edition::V1_70), format!("{short}{long}"));
}
