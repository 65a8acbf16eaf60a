//! The examples of README and the handbook that ask for a decision get one, in simulated worlds
//! that keep their limits by far. `SLOW=1` tries a hundred seeds.

use std::fs;

use crate::documents::ROOT;
use crate::rig::{prony, slow};

/// A page, an example of it, and the simulated target.
const EXAMPLES: [(&str, &str, &[&str]); 6] = [
    (
        "README.md",
        "prony http://127.0.0.1:8080/ -r 300 -d 10s --threshold 'p99 < 200ms' --threshold \
         'errors < 0.1%'",
        &["lognormal:20ms:0.3"],
    ),
    (
        "README.md",
        "prony capacity http://127.0.0.1:8080/ --threshold 'p99 < 200ms'",
        &["exp:20ms", "--simulate-workers", "4"],
    ),
    (
        "docs/thresholds.md",
        "prony --rate 500 -d 30s --threshold 'p99 < 200ms' --threshold 'errors < 0.1%' \
         http://127.0.0.1:8080/",
        &["lognormal:20ms:0.3"],
    ),
    (
        "docs/capacity.md",
        "prony capacity http://127.0.0.1:8080/ --threshold 'p99 < 50ms' --threshold \
         'errors < 0.1%'",
        &["exp:5ms", "--simulate-workers", "4"],
    ),
    (
        "docs/llm.md",
        "prony llm --model m -r 5 -d 30s --threshold 'ttft.p90 < 2s' --threshold \
         'itl.mean < 50ms' http://127.0.0.1:8080",
        &["exp:300ms"],
    ),
    (
        "docs/streams.md",
        "prony -r 20 -d 60s --stream sse --threshold 'first-message.p99 < 300ms' --threshold \
         'message-gap.p99 < 50ms' http://127.0.0.1:8080/events",
        &["exp:30ms"],
    ),
];

#[test]
fn examples_with_limits_are_decided() {
    let seeds = if slow() { 100 } else { 20 };
    for (page, example, world) in EXAMPLES {
        let text = fs::read_to_string(format!("{ROOT}/{page}")).expect("the page");
        let text = text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(example), "{page} has no {example}");
        let words = shlex::split(example).expect("words of a shell");
        let undecided: Vec<u64> = (1..=seeds)
            .filter(|seed| {
                let seed = seed.to_string();
                let mut words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                words.extend(["--simulate", &seed, "--quiet", "--simulate-latency"]);
                words.extend(world);
                let ended = prony(&words);
                let is_number =
                    !words.contains(&"capacity") || ended.stdout.contains("The capacity is ");
                ended.code != 0 || !is_number
            })
            .collect();
        let most = seeds as usize / 100;
        assert!(undecided.len() <= most, "{example}: no decision with the seeds {undecided:?}");
    }
}
