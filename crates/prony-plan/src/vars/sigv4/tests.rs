//! Signatures against those that AWS publishes.

use super::*;

/// 2015-08-30T12:36:00Z, the time of AWS's test suite.
const AT: u64 = 1_440_938_160 * NS_PER_S;

fn signer(service: &str, token: Option<&str>) -> Signer {
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into();
    Signer::new("us-east-1", service, ("AKIDEXAMPLE".into(), secret, token.map(Into::into)))
}

fn signed(
    signer: &mut Signer,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let request = ToSign {
        method: method.as_bytes(),
        path: path.as_bytes(),
        host: b"example.amazonaws.com",
        body: &body_digest(body.as_bytes()),
    };
    let headers = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut out = b"<".to_vec();
    signer.sign(request, headers, AT, &mut out);
    String::from_utf8(out).expect("text").split_off(1)
}

/// The signature, and the names of the signed headers.
fn parts(lines: &str) -> (String, String) {
    let line = lines.lines().find(|line| line.starts_with("Authorization: ")).expect("a line");
    let after = |what: &str| line.split_once(what).expect(what).1;
    let names = after("SignedHeaders=").split(',').next().unwrap_or_default();
    (after("Signature=").to_owned(), names.to_owned())
}

/// A name, a request with its headers and its body, and its signature.
type Case<'a> = (&'a str, (&'a str, &'a str), &'a [(&'a str, &'a str)], &'a str, &'a str);

const FORM: &str = "application/x-www-form-urlencoded";

/// Cases of AWS's test suite for Signature Version 4 (`aws-sig-v4-test-suite`), by their names in
/// it: requests and signatures.
const CASES: [Case<'_>; 13] = [
    (
        "get-vanilla",
        ("GET", "/"),
        &[],
        "",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-vanilla-query-order-key-case",
        ("GET", "/?Param2=value2&Param1=value1"),
        &[],
        "",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-order-value",
        ("GET", "/?Param1=value2&Param1=value1"),
        &[],
        "",
        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
    ),
    (
        "get-utf8",
        ("GET", "/\u{1234}"),
        &[],
        "",
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    (
        "get-vanilla-utf8-query",
        ("GET", "/?\u{1234}=bar"),
        &[],
        "",
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    (
        "get-space",
        ("GET", "/example space/"),
        &[],
        "",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    (
        "get-slashes",
        ("GET", "//example//"),
        &[],
        "",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    (
        "get-slash-pointless-dot",
        ("GET", "/./example"),
        &[],
        "",
        "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
    ),
    (
        "get-relative-relative",
        ("GET", "/example1/example2/../.."),
        &[],
        "",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-header-value-trim",
        ("GET", "/"),
        &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
        "",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    (
        "get-header-value-order",
        ("GET", "/"),
        &[
            ("My-Header1", "value4"),
            ("My-Header1", "value1"),
            ("My-Header1", "value3"),
            ("My-Header1", "value2"),
        ],
        "",
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    (
        "post-vanilla",
        ("POST", "/"),
        &[],
        "",
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "post-x-www-form-urlencoded",
        ("POST", "/"),
        &[("Content-Type", FORM)],
        "Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
];

#[test]
fn signatures_are_those_of_the_public_test_suite() {
    let mut signer = signer("service", None);
    for (name, request, headers, body, signature) in CASES {
        let lines = signed(&mut signer, request, headers, body);
        assert_eq!(parts(&lines).0, signature, "{name}: {lines}");
        assert!(lines.starts_with("X-Amz-Date: 20150830T123600Z\r\n"), "{name}: {lines}");
    }
}

/// The signatures were computed by botocore 1.44 for the same time.
#[test]
fn tokens_are_signed_and_names_are_sorted() {
    let mut signer = signer("service", Some("tok/en=="));
    let lines = signed(&mut signer, ("GET", "/"), &[], "");
    let (signature, names) = parts(&lines);
    assert_eq!(names, "host;x-amz-date;x-amz-security-token");
    assert_eq!(signature, "fbf177d85b6de167e204b19f0c580831270cf7da439fb994e1b1c0a232e40b35");
    assert!(lines.contains("X-Amz-Security-Token: tok/en==\r\n"), "{lines}");
}

/// The first example of "Signature Calculations for the Authorization Header" in the documentation
/// of S3: a GET of an object, with its range.
#[test]
fn requests_to_s3_have_the_digest_of_their_body() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into();
    let key = ("AKIAIOSFODNN7EXAMPLE".into(), secret, None);
    let mut signer = Signer::new("us-east-1", "s3", key);
    let request = ToSign {
        method: b"GET",
        path: b"/test.txt",
        host: b"examplebucket.s3.amazonaws.com",
        body: &body_digest(b""),
    };
    let headers = [(&b"Range"[..], &b"bytes=0-9"[..])];
    let mut out = Vec::new();
    // 2013-05-24T00:00:00Z.
    signer.sign(request, headers.into_iter(), 1_369_353_600 * NS_PER_S, &mut out);
    let lines = String::from_utf8(out).expect("text");
    let (signature, names) = parts(&lines);
    assert_eq!(names, "host;range;x-amz-content-sha256;x-amz-date");
    assert_eq!(signature, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert!(lines.contains(&format!("X-Amz-Content-Sha256: {digest}\r\n")), "{lines}");
}

#[test]
fn a_digest_of_the_user_is_signed_instead_of_the_true_one() {
    let own = [("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")];
    let mut signer = signer("s3", None);
    let one = signed(&mut signer, ("PUT", "/a//b"), &own, "one");
    let other = signed(&mut signer, ("PUT", "/a//b"), &own, "other");
    assert_eq!(one, other, "the body is not signed");
    assert!(!one.contains("X-Amz-Content-Sha256:"), "the request has it: {one}");
    let names = "host;x-amz-content-sha256;x-amz-date";
    assert_eq!(parts(&one).1, names);
    assert_ne!(parts(&signed(&mut signer, ("PUT", "/a/b"), &own, "one")).0, parts(&one).0);
}

#[test]
fn queries_have_one_form() {
    let form = |path: &str| {
        let mut signer = signer("service", None);
        signer.put_path(path.as_bytes());
        String::from_utf8(signer.canonical).expect("text")
    };
    assert_eq!(form("/a%20b?x=%2f+~&acl&&b="), "/a%2520b\nacl=&b=&x=%2F%20~\n");
    assert_eq!(form("/?a=%zz%4"), "/\na=%25zz%254\n");
    assert_eq!(form("/a/../b/./c/?"), "/b/c/\n\n");
}

#[test]
fn headers_of_the_connection_are_not_signed() {
    let mut signer = signer("service", None);
    let headers = [("User-Agent", "x"), ("Cookie", "a=b"), ("HOST", "h"), ("Connection", "close")];
    assert_eq!(parts(&signed(&mut signer, ("GET", "/"), &headers, "")).1, "host;x-amz-date");
}

#[test]
fn the_key_of_a_day_is_not_used_on_another() {
    let mut one = signer("service", None);
    let sign = |signer: &mut Signer, at: u64| {
        let body = body_digest(b"");
        let request = ToSign { method: b"GET", path: b"/", host: b"h", body: &body };
        let mut out = Vec::new();
        signer.sign(request, std::iter::empty(), at, &mut out);
        out
    };
    let first = sign(&mut one, AT);
    let next = sign(&mut one, AT + S_PER_DAY * NS_PER_S);
    assert_eq!(next, sign(&mut signer("service", None), AT + S_PER_DAY * NS_PER_S));
    assert_eq!(first, sign(&mut one, AT), "and back");
    assert!(!format!("{one:?}").contains("wJalr"), "{one:?}");
}
