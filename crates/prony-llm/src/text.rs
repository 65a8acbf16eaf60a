//! Texts with a given number of words, each of which is one token in usual vocabularies.

use prony_base::rng::{Sequence, Stream};

use crate::{Arrival, Input, Lengths, Request};

/// Frequent short words of English: with the space before it, each is one token in the vocabularies
/// of usual models.
const WORDS: [&str; 128] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by",
    "on", "not", "he", "this", "are", "or", "his", "from", "at", "which", "but", "have", "an",
    "had", "they", "you", "were", "there", "one", "all", "we", "can", "her", "has", "been", "if",
    "more", "when", "will", "would", "who", "so", "no", "she", "other", "its", "may", "these",
    "what", "them", "than", "some", "him", "time", "into", "only", "do", "such", "my", "new",
    "about", "out", "also", "two", "any", "up", "first", "could", "our", "then", "most", "see",
    "me", "should", "after", "said", "your", "very", "between", "made", "many", "over", "like",
    "those", "did", "now", "even", "well", "where", "must", "people", "through", "how", "same",
    "work", "being", "because", "man", "life", "before", "each", "much", "under", "years", "way",
    "great", "state", "both", "use", "upon", "own", "used", "however", "us", "part", "good",
    "world", "make", "three", "while", "long", "day", "without", "just",
];

/// `count` requests with drawn numbers of tokens, and drawn words. Request k draws by the seed and
/// k alone.
pub fn drawn(seed: u64, count: usize, input: Lengths, output: Option<Lengths>) -> Vec<Request> {
    let request = |k: usize| {
        let mut sequence = Sequence::numbered(seed, Stream::Prompts, k as u64);
        let tokens = input.draw(&mut sequence);
        let output = output.map(|lengths| lengths.draw(&mut sequence));
        Request { input: Input::Text(words(tokens, &mut sequence)), output }
    };
    (0..count).map(request).collect()
}

/// The requests of a trace, with drawn words. Request k draws by the seed and k alone.
pub fn of_trace(seed: u64, trace: &[Arrival]) -> Vec<Request> {
    let request = |(k, arrival): (usize, &Arrival)| {
        let mut sequence = Sequence::numbered(seed, Stream::Prompts, k as u64);
        let input = Input::Text(words(arrival.input, &mut sequence));
        Request { input, output: Some(arrival.output) }
    };
    trace.iter().enumerate().map(request).collect()
}

/// A text of that many words.
fn words(count: u32, sequence: &mut Sequence) -> String {
    let mut text = String::with_capacity(count as usize * 5);
    for k in 0..count {
        if k > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[sequence.below(WORDS.len() as u64) as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_that_many_words_and_depend_on_the_seed() {
        let lengths = |text: &str| text.parse().expect("lengths");
        let all = drawn(1, 50, lengths("1..40"), Some(lengths("7")));
        assert_eq!(all, drawn(1, 50, lengths("1..40"), Some(lengths("7"))));
        assert_eq!(all[..20], drawn(1, 20, lengths("1..40"), Some(lengths("7"))));
        assert_ne!(all, drawn(2, 50, lengths("1..40"), Some(lengths("7"))));
        let mut seen: Vec<usize> = Vec::new();
        for request in &all {
            let Input::Text(text) = &request.input else { panic!("{request:?}") };
            seen.push(text.split(' ').count());
            assert_eq!(request.output, Some(7));
        }
        assert!(seen.iter().all(|n| (1..=40).contains(n)) && seen.iter().any(|n| *n > 30));
        let fixed = drawn(1, 3, lengths("9"), None);
        for request in &fixed {
            let Input::Text(text) = &request.input else { panic!("{request:?}") };
            assert_eq!((text.split(' ').count(), request.output), (9, None));
        }
        assert_ne!(fixed[0], fixed[1]);
    }

    #[test]
    fn no_word_is_there_twice() {
        let mut words = WORDS.to_vec();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), WORDS.len());
    }
}
