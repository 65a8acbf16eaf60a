//! Conditions on the values of a session: `{{stock}} > 0`.
//!
//! A comparison is one of two texts with fields, or one text, which holds if it is not empty. A
//! comparison with a value that is missing does not hold, whatever its operator. `and` and `or`
//! combine comparisons; `and` binds tighter.

use std::cmp::Ordering;

use memchr::memmem;
use regex_automata::meta::Regex;

use super::extract::expression;
use super::template::{closing, opening};
use super::{Scope, Source, Template, TemplateError};

/// A parsed condition: it holds if all comparisons of any of its lists hold.
#[derive(Clone, Debug)]
pub struct Condition(Vec<Vec<Comparison>>);

#[derive(Clone, Debug)]
struct Comparison {
    left: Template,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    /// The text is not empty.
    Any,
    /// The order of both sides is one of these.
    Order(&'static [Ordering], Template),
    /// The text contains the other.
    Contains(Template),
    /// The expression matches a part of the text.
    Matches(Regex),
}

/// Reused memory.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    left: Vec<u8>,
    right: Vec<u8>,
    filter: Vec<u8>,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Order(&'static [Ordering]),
    Contains,
    Matches,
}

/// The operators, each before those that are a part of it.
const OPERATORS: [(&str, Operator); 8] = [
    ("==", Operator::Order(&[Ordering::Equal])),
    ("!=", Operator::Order(&[Ordering::Less, Ordering::Greater])),
    ("<=", Operator::Order(&[Ordering::Less, Ordering::Equal])),
    (">=", Operator::Order(&[Ordering::Greater, Ordering::Equal])),
    ("<", Operator::Order(&[Ordering::Less])),
    (">", Operator::Order(&[Ordering::Greater])),
    ("contains", Operator::Contains),
    ("matches", Operator::Matches),
];

/// The words between comparisons.
const CONNECTIVES: [&str; 2] = ["and", "or"];

impl Condition {
    /// Parse a condition. `draws` counts the random fields.
    ///
    /// # Errors
    /// A part is not a comparison, or has an invalid field.
    pub fn parse(text: &str, scope: &Scope, draws: &mut u64) -> Result<Self, TemplateError> {
        let (first, mut end) = Comparison::parse(text, 0, scope, draws)?;
        let mut any = vec![vec![first]];
        while let Some(word) = connective_at(text, end) {
            let (next, after) = Comparison::parse(text, end + word.len(), scope, draws)?;
            match any.last_mut().filter(|_| word == "and") {
                Some(all) => all.push(next),
                None => any.push(vec![next]),
            }
            end = after;
        }
        Ok(Self(any))
    }

    /// For the fuzz target: whether it holds for a request of session 0, with a value of the first
    /// variable.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn sample(&self, seed: u64, value: &[u8]) -> bool {
        let mut locals = super::Locals::default();
        locals.set(0, value);
        let moment = super::Moment { seed, session: 0, request: 0, counter: 0 };
        let source = Source { moment, tables: &[], locals: &locals, sent: super::Sent::default() };
        self.holds(source, &mut Scratch::default())
    }

    /// For the fuzz target: whether it cannot hold without the value of this variable.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn needs(&self, variable: usize) -> bool {
        self.0.iter().all(|all| all.iter().any(|comparison| comparison.needs(variable)))
    }

    /// Whether the condition holds.
    pub fn holds(&self, source: Source<'_>, scratch: &mut Scratch) -> bool {
        self.0.iter().any(|all| all.iter().all(|comparison| comparison.holds(source, scratch)))
    }
}

impl Comparison {
    /// Parse the comparison at or after `from`. Returns it, and where the next word or the end is.
    fn parse(
        text: &str,
        from: usize,
        scope: &Scope,
        draws: &mut u64,
    ) -> Result<(Self, usize), TemplateError> {
        let error = |at: usize, what: &str| TemplateError { at, what: what.to_owned() };
        let mut template = |operand: &Operand<'_>| {
            Template::parse(operand.text.as_bytes(), scope, draws)
                .map_err(|e| TemplateError { at: operand.at + e.at, what: e.what })
        };
        let (left, end) = operand(text, from)?;
        let Some((name, operator)) = operator_at(text, end) else {
            // An operand ends at an operator, at a word between comparisons, or at the end.
            if left.is_empty() {
                return Err(missing(text, from, end));
            }
            let comparison = Self { left: template(&left)?, test: Test::Any };
            return comparison.with_field(left.at).map(|comparison| (comparison, end));
        };
        if left.is_empty() {
            return Err(error(end, &format!("there is nothing before '{name}'")));
        }
        let (right, end) = operand(text, end + name.len())?;
        if right.is_empty() {
            let what = format!("there is nothing after '{name}'; write '' for the empty text");
            return Err(error(end, &what));
        }
        if let Some((name, _)) = operator_at(text, end) {
            let what = format!(
                "a second operator, '{name}': write 'and' or 'or' between comparisons, and enclose \
                 a text that contains an operator in quotes"
            );
            return Err(error(end, &what));
        }
        let at = left.at;
        let left = template(&left)?;
        let test = match operator {
            Operator::Order(orders) => Test::Order(orders, template(&right)?),
            Operator::Contains => Test::Contains(template(&right)?),
            Operator::Matches => {
                let regex = expression(right.text).map_err(|e| error(right.at, &e.to_string()))?;
                Test::Matches(regex)
            }
        };
        Self { left, test }.with_field(at).map(|comparison| (comparison, end))
    }

    /// Itself, if its value can change. `at` is its position.
    fn with_field(self, at: usize) -> Result<Self, TemplateError> {
        if self.left.is_variable() || self.right().is_some_and(Template::is_variable) {
            return Ok(self);
        }
        let what = "it has no field, so it is always the same; write as in '{{name}} == value', \
                    and enclose a text that contains 'and' or 'or' in quotes";
        Err(TemplateError { at, what: what.to_owned() })
    }

    #[cfg(any(test, feature = "fuzzing"))]
    fn needs(&self, variable: usize) -> bool {
        let right = self.right().map(Template::variables).into_iter().flatten();
        self.left.variables().chain(right).any(|v| v == variable)
    }

    /// The template on its right side, if it has one.
    fn right(&self) -> Option<&Template> {
        match &self.test {
            Test::Order(_, right) | Test::Contains(right) => Some(right),
            Test::Any | Test::Matches(_) => None,
        }
    }

    fn holds(&self, source: Source<'_>, scratch: &mut Scratch) -> bool {
        let Scratch { left, right, filter } = scratch;
        left.clear();
        right.clear();
        if self.left.fill(source, left, filter).is_err() {
            return false;
        }
        match &self.test {
            Test::Any => !left.is_empty(),
            Test::Order(orders, other) => {
                other.fill(source, right, filter).is_ok() && orders.contains(&order(left, right))
            }
            Test::Contains(other) => {
                other.fill(source, right, filter).is_ok() && memmem::find(left, right).is_some()
            }
            Test::Matches(regex) => regex.is_match(&left[..]),
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
struct Operand<'a> {
    text: &'a str,
    at: usize,
    is_quoted: bool,
}

impl Operand<'_> {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.is_quoted
    }
}

/// Parse the operand at or after `from`. Returns it, and where the operator or the end is.
fn operand(text: &str, from: usize) -> Result<(Operand<'_>, usize), TemplateError> {
    let error = |at: usize, what: &str| TemplateError { at, what: what.to_owned() };
    let skip = |from: usize| from + (text[from..].len() - text[from..].trim_start().len());
    let start = skip(from);
    let quote = text[start..].chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote {
        let inner = start + 1;
        let Some(end) = find(text, inner, |rest| rest.starts_with(quote)) else {
            return Err(error(start, "the quote has no end"));
        };
        let after = skip(end + 1);
        let continues = operator_at(text, after).is_some() || connective_at(text, after).is_some();
        if after < text.len() && !continues {
            let what = "after a quoted text, only an operator, 'and' or 'or' may follow";
            return Err(error(after, what));
        }
        return Ok((Operand { text: &text[inner..end], at: inner, is_quoted: true }, after));
    }
    let end = find(text, start, |rest| {
        let at = text.len() - rest.len();
        rest.starts_with('=')
            || operator_at(text, at).is_some()
            || connective_at(text, at).is_some()
    });
    let end = end.unwrap_or(text.len());
    if text[end..].starts_with('=') && !text[end..].starts_with("==") {
        return Err(error(end, "'=' is not an operator; write '==' to compare"));
    }
    Ok((Operand { text: text[start..end].trim_end(), at: start, is_quoted: false }, end))
}

/// The first position at or after `from`, outside fields, with this property of the rest.
fn find(text: &str, from: usize, is_end: impl Fn(&str) -> bool) -> Option<usize> {
    let mut at = from;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("{{")
            && let Some(open) = opening(text.as_bytes(), at)
            && let Some(length) = closing(&text.as_bytes()[open + 2..])
        {
            at = open + 2 + length + 2;
            continue;
        }
        if is_end(rest) {
            return Some(at);
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    None
}

/// The operator at this position. One that is a word has blanks around it.
fn operator_at(text: &str, at: usize) -> Option<(&'static str, Operator)> {
    let is_word = |name: &str| name.starts_with(|c: char| c.is_alphabetic());
    OPERATORS.into_iter().find(|(name, _)| match is_word(name) {
        true => is_apart(text, at, name),
        false => text[at..].starts_with(name),
    })
}

/// The word between comparisons at this position, with blanks around it.
fn connective_at(text: &str, at: usize) -> Option<&'static str> {
    CONNECTIVES.into_iter().find(|word| is_apart(text, at, word))
}

/// Whether this word is at this position, with blanks, fields or quotes around it.
fn is_apart(text: &str, at: usize, word: &str) -> bool {
    let (before, rest) = text.split_at(at);
    let Some(after) = rest.strip_prefix(word) else { return false };
    let begins = before.is_empty()
        || before.ends_with(|c: char| c.is_whitespace() || matches!(c, '}' | '"' | '\''));
    begins && (after.is_empty() || after.starts_with(|c: char| c.is_whitespace()))
}

/// Why there is no comparison between `from` and `end`.
fn missing(text: &str, from: usize, end: usize) -> TemplateError {
    let what = match (connective_at(text, end), from) {
        (Some(word), _) => format!("there is nothing before '{word}'"),
        (None, 0) => "the condition is empty; write as in '{{name}} == value'".to_owned(),
        (None, _) => {
            let word = CONNECTIVES.into_iter().find(|word| text[..from].ends_with(word));
            format!("there is nothing after '{}'", word.unwrap_or_default())
        }
    };
    let at = if from == 0 && end == text.len() { 0 } else { end };
    TemplateError { at, what }
}

/// The order of two values: that of numbers if both are numbers, else that of their bytes.
fn order(left: &[u8], right: &[u8]) -> Ordering {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        // Whole numbers of any usual length are compared exactly.
        if let (Ok(left), Ok(right)) = (left.parse::<i128>(), right.parse::<i128>()) {
            return left.cmp(&right);
        }
        if let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>())
            && let Some(order) = left.partial_cmp(&right)
        {
            return order;
        }
    }
    left.cmp(right)
}

/// The text of a decimal number.
fn number(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let is_part = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
    (text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().all(is_part)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::{Locals, Moment, Sent};
    use super::*;

    fn scope() -> Scope {
        let variables = ["a", "b", "missing"].map(str::to_owned).to_vec();
        Scope { variables, ..Scope::default() }
    }

    fn holds(text: &str, a: &str, b: &str) -> bool {
        let condition = Condition::parse(text, &scope(), &mut 0).expect(text);
        let mut locals = Locals::default();
        locals.set(0, a.as_bytes());
        locals.set(1, b.as_bytes());
        let moment = Moment { seed: 1, session: 0, request: 0, counter: 0 };
        let source = Source { moment, tables: &[], locals: &locals, sent: Sent::default() };
        condition.holds(source, &mut Scratch::default())
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_other_values_as_text() {
        for (a, b, order) in [
            ("9", "10", Ordering::Less),
            ("-1", "1", Ordering::Less),
            ("10", "10.0", Ordering::Equal),
            ("0", "-0.0", Ordering::Equal),
            ("-0.0", "0.0", Ordering::Equal),
            ("1e3", "1000", Ordering::Equal),
            (" 7 ", "7", Ordering::Equal),
            ("+7", "7", Ordering::Equal),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("0.1", "0.2", Ordering::Less),
            ("9", "10 pieces", Ordering::Greater),
            ("b", "a", Ordering::Greater),
            ("", "", Ordering::Equal),
            ("", "0", Ordering::Less),
            ("nan", "nan", Ordering::Equal),
            ("inf", "1", Ordering::Greater),
            ("e", "1", Ordering::Greater),
            ("1-2", "1", Ordering::Greater),
            ("true", "true", Ordering::Equal),
        ] {
            let by = |operator: &str| holds(&format!("{{{{a}}}} {operator} {{{{b}}}}"), a, b);
            assert_eq!(by("=="), order.is_eq(), "{a} == {b}");
            assert_eq!(by("!="), order.is_ne(), "{a} != {b}");
            assert_eq!(by("<"), order.is_lt(), "{a} < {b}");
            assert_eq!(by("<="), order.is_le(), "{a} <= {b}");
            assert_eq!(by(">"), order.is_gt(), "{a} > {b}");
            assert_eq!(by(">="), order.is_ge(), "{a} >= {b}");
        }
    }

    #[test]
    fn texts_are_searched() {
        for (text, result) in [
            ("{{a}} contains ell", true),
            ("{{a}} contains ELL", false),
            ("{{a}} contains {{b}}", true),
            ("{{a}} contains ''", true),
            ("{{a}} matches '^h.*o$'", true),
            ("{{a}} matches l+", true),
            ("{{a}} matches ^l", false),
            ("{{a}} matches '(?i)\\bHELL\\w\\b'", true),
            ("{{a}} matches \\bell", false),
            ("x{{a}}y == xhelloy", true),
            ("{{a}}=='hello'", true),
            ("\"{{a}}\" == 'hello'", true),
            ("{{a}} == 'hello '", false),
            ("{{a}} == hello", true),
            ("  {{a}}   ==   hello  ", true),
            ("{{a}} != 'a < b'", true),
            ("'{{a}} > b' == 'hello > b'", true),
            ("{{a}}", true),
            ("{{'' | url}}", false),
            ("{{'a == b'}} == 'a == b'", true),
            ("{{a}} containsnot", true),
            ("ü {{a}} == 'ü hello'", true),
        ] {
            assert_eq!(holds(text, "hello", "lo"), result, "{text}");
        }
        assert!(!holds("{{a}}", "", ""), "an empty value");
    }

    #[test]
    fn comparisons_are_combined_and_and_binds_tighter() {
        for (text, result) in [
            ("{{a}} == 1 and {{b}} == 2", true),
            ("{{a}} == 1 and {{b}} == 3", false),
            ("{{a}} == 0 or {{b}} == 2", true),
            ("{{a}} == 0 or {{b}} == 3", false),
            ("{{a}} == 1 or {{a}} == 0 and {{b}} == 3", true),
            ("{{a}} == 0 and {{b}} == 3 or {{a}} == 1", true),
            ("{{a}} == 0 or {{a}} == 1 and {{b}} == 3", false),
            ("{{a}} > 0 and {{a}} < 2 and {{b}} matches ^2$ and {{a}}", true),
            ("{{a}} and {{b}}", true),
            ("{{missing}} == 1 or {{b}} == 2", true),
            ("{{missing}} == 1 and {{b}} == 2", false),
            ("'{{a}} and' == '1 and' or {{missing}}", true),
            ("{{a}} != 'this and that'and {{b}} == 2", true),
            ("{{'x and y'}} contains 'and' and {{a}} == 1", true),
            ("{{a}} == 1\nor\n{{b}} == 3", true),
            ("{{a}} != android and {{b}} != or-else", true),
        ] {
            assert_eq!(holds(text, "1", "2"), result, "{text}");
        }
    }

    #[test]
    fn no_comparison_with_a_missing_value_holds() {
        for operator in ["==", "!=", "<", "<=", ">", ">=", "contains"] {
            assert!(!holds(&format!("{{{{missing}}}} {operator} 1"), "", ""), "{operator}");
            assert!(!holds(&format!("1 {operator} {{{{missing}}}}"), "", ""), "{operator}");
        }
        assert!(!holds("{{missing}} matches .*", "", ""));
        assert!(!holds("{{missing}}", "", ""));
    }

    #[test]
    fn invalid_conditions_are_refused_with_their_position() {
        for (text, at, what) in [
            ("", 0, "the condition is empty"),
            ("  ", 0, "the condition is empty"),
            ("1 == 1", 0, "it has no field"),
            ("a", 0, "it has no field"),
            ("{{a}} = 1", 6, "'=' is not an operator"),
            ("{{a}} == ", 9, "there is nothing after '=='"),
            ("== {{a}}", 0, "there is nothing before '=='"),
            ("{{a}} == 1 and", 14, "there is nothing after 'and'"),
            ("{{a}} == 1 or and {{b}}", 14, "there is nothing before 'and'"),
            ("or {{a}} == 1", 0, "there is nothing before 'or'"),
            ("{{a}} == rock and roll", 18, "it has no field"),
            ("{{a}} == 1 and 2 == 2", 15, "it has no field"),
            ("{{a}} == 1 and {{b}} < 2 < 3", 25, "a second operator, '<'"),
            ("{{a}} == 1 and {{c}}", 17, "'c' is unknown"),
            ("{{a}} < 1 < 2", 10, "a second operator, '<'"),
            ("{{a}} == 'x", 9, "the quote has no end"),
            ("{{a}} == 'x' y", 13, "only an operator, 'and' or 'or'"),
            ("{{c}} == 1", 2, "'c' is unknown"),
            ("1 == {{c}}", 7, "'c' is unknown"),
            ("{{a == 1", 0, "'{{' is not followed by '}}'"),
            ("{{a}} matches '('", 15, "invalid regular expression"),
        ] {
            let error = Condition::parse(text, &scope(), &mut 0).expect_err(text);
            assert!(error.what.contains(what), "{text}: {error:?}");
            assert_eq!(error.at, at, "{text}: {error:?}");
        }
    }
}
