use super::super::Format;
use prony_base::rng::{Sequence, Stream};
use prony_stats::comparison::{self, MARGIN};

use super::*;

fn design(limits: &[&str]) -> Design {
    Design {
        targets: 2,
        figures: Figure::USUAL.to_vec(),
        rounds: Rounds::Exactly(8),
        margin: MARGIN,
        limits: limits.iter().map(|l| l.parse().expect("a limit")).collect(),
        seed: 7,
    }
}

/// A comparison of targets of which the second takes `ratio` times as long.
fn sample(ratio: f64, limits: &[&str]) -> Comparison {
    let design = design(limits);
    let mut comparison = comparison::Comparison::new(design.clone());
    let names = ["http://h:1/".to_owned(), "http://h:2/<x>".to_owned()];
    let mut report = Comparison::new(&names, &design);
    let mut rng = Sequence::new(1, Stream::Pick);
    while let Some(block) = comparison.next_block() {
        let level = if block.target == 0 { 1.0 } else { ratio } * (1.0 + 0.002 * rng.normal());
        let mut hist = Hist::new();
        for i in 0..1_000_u32 {
            hist.record(Span((f64::from(i + 500) * 1e3 * level) as u64));
        }
        let measured = Measured {
            response: &hist,
            rate: 100.0,
            ended: 1_000,
            failed: 0,
            cpu_ns: Some(1e9),
            certain: None,
        };
        comparison.record(block, &measured);
        let block_line = Block {
            round: block.round + 1,
            seed: block.seed,
            verdict: "VALID",
            ..Block::default()
        };
        report.add(block.target, block_line, &measured);
    }
    report.answer(&design, &comparison.answer());
    report
}

fn text(c: &Comparison, format: Format) -> String {
    String::from_utf8(c.render(format).expect("a report")).expect("text")
}

#[test]
fn sentences_say_how_a_figure_changes() {
    let slower = sample(1.1, &[]);
    let all: Vec<&str> = slower.sentences().collect();
    assert!(all[1].starts_with("p50 is "), "{all:?}");
    assert!(all[1].contains(" % longer in B ("), "{all:?}");
    assert!(all.iter().any(|s| s.starts_with("no difference of more than 2 % in the rate")));
    assert!(all.iter().any(|s| {
        *s == "p99.9 is not compared: it needs 40,000 requests of each target; run longer blocks (-d)"
    }));
    let faster = sample(0.9, &[]);
    let all: Vec<&str> = faster.sentences().collect();
    assert!(all[1].contains(" % shorter in B ("), "{all:?}");
    let same = sample(1.0, &[]);
    let all: Vec<&str> = same.sentences().collect();
    assert!(all[1].starts_with("no difference of more than 2 % in p50 (-"), "{all:?}");
    let shares = all.iter().find(|s| s.contains("failed requests")).expect("a sentence");
    assert!(shares.starts_with("no difference of more than 0.1 percentage points"), "{shares}");
}

/// Eight pairs have no p-value as small as it must be, and still one answer.
#[test]
fn sentences_do_not_contradict_each_other() {
    for ratio in [0.5, 0.9, 0.97, 1.0, 1.005, 1.03, 1.1, 1.764] {
        let found = sample(ratio, &[]);
        let all: Vec<&str> = found.sentences().collect();
        let differs =
            all.iter().any(|s| s.contains(" longer in B (") || s.contains(" shorter in B ("));
        let last = all.last().expect("the distribution");
        let of_shape = last.starts_with("the distribution of response times differs in B");
        assert_eq!(differs, of_shape, "{ratio}: {all:?}");
    }
    let last = |c: &Comparison| c.sentences().last().map(str::to_owned).expect("a sentence");
    assert_eq!(
        last(&sample(1.764, &[])),
        "the distribution of response times differs in B, as p50 does"
    );
    let of = |p_value| Shape {
        p_value,
        bands: Vec::new(),
        missing: None,
        outcome: Outcome::Undecided,
        error: 0.0007,
        shown_by: None,
    };
    assert_eq!(
        changes::distribution(&of(Some(0.002)), "B", 0.02),
        "whether the distribution of response times differs in B is undecided (p = 0.002; it does \
         from 0.0007 on)"
    );
}

#[test]
fn limits_have_a_sentence_each() {
    let c = sample(1.1, &["p50 > +5%", "p50 > +20%", "p50 > +10%"]);
    let of: Vec<&str> = c.limits.iter().map(|l| l.outcome).collect();
    assert_eq!(of, ["fails", "holds", "unknown"]);
    assert!(c.limits[0].sentence.starts_with("fails, 'p50 > +5%' is true: +9."), "{c:?}");
    assert_eq!(c.worst_limit(), Some(Held::Fails));
    assert_eq!(sample(1.0, &["p50 > +5%"]).worst_limit(), None);
}

#[test]
fn every_format_shows_both_targets() {
    let c = sample(1.1, &["p50 > +5%"]);
    for format in [Format::Text, Format::Json, Format::Markdown, Format::Html] {
        let text = text(&c, format);
        assert!(text.contains("http://h:1/"), "{text}");
        assert!(text.contains("% longer in B"), "{text}");
    }
    assert!(!text(&c, Format::Html).contains("<x>"));
    assert!(text(&c, Format::Text).lines().all(|l| l.chars().count() <= 100));
    assert!(text(&c, Format::Svg).contains("<svg"));
    assert!(c.render(Format::Png).is_some_and(|png| png.starts_with(b"\x89PNG")));
    assert!(c.render(Format::Hgrm).is_none());
    let nothing = Comparison::new(&["a".into(), "b".into()], &design(&[]));
    for format in [Format::Text, Format::Json, Format::Html, Format::Svg] {
        assert!(nothing.render(format).is_some(), "{format:?}");
    }
}

#[test]
fn figures_of_a_target_are_those_of_all_its_blocks() {
    let c = sample(1.1, &[]);
    let (a, b) = (&c.targets[0], &c.targets[1]);
    assert_eq!((a.blocks, a.requests, a.failed), (8, 8_000, 0));
    assert_eq!(a.cpu_ns, Some(1e6));
    assert!(a.p50_ns.zip(b.p50_ns).is_some_and(|(a, b)| (b as f64 / a as f64 - 1.1).abs() < 0.01));
    assert_eq!(c.blocks.len(), 16);
    let p50 = c.changes.iter().find(|c| c.figure == "p50").expect("a p50");
    let (ratio, difference) = (p50.ratio.expect("a ratio"), p50.difference.expect("a difference"));
    assert!((difference - (ratio - 1.0) * p50.a.expect("a value")).abs() < 1.0);
    assert!(p50.ratio_lo < Some(1.1) && Some(1.1) < p50.ratio_hi, "{p50:?}");
}

#[test]
fn documentation_lists_every_field() {
    let document = include_str!("../../../../docs/compare.md");
    let (_, section) = document.split_once("## The JSON report").expect("its section");
    let json = serde_json::to_value(sample(1.1, &["p50 > +5%"])).expect("JSON");
    let lists = ["targets", "changes", "distributions", "limits", "blocks"];
    let inner = lists.map(|list| &json[list][0]);
    let quantile = &json["distributions"][0]["quantiles"][0];
    for of in [&json, quantile].into_iter().chain(inner) {
        for name in of.as_object().expect("an object").keys() {
            assert!(section.contains(&format!("`{name}`")), "{name}");
        }
    }
}

#[test]
fn labels_are_letters() {
    assert_eq!([0, 1, 25, 26].map(label), ["A", "B", "Z", "A1"]);
}
