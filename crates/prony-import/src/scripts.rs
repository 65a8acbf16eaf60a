//! What scripts of other tools do with a reply, as far as a plan can do the same: the status that
//! it must have, and values of it that become variables for later requests.
//!
//! A script is no program here. These lines are found in it, whatever stands around them:
//! `pm.environment.set("token", pm.response.json().token)` and the like.

use crate::Extract;

/// What is known of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    /// The status that the reply must have.
    pub(crate) status: Option<u16>,
    /// The variables that are set, and the values of the reply that they get.
    pub(crate) sets: Vec<(String, Extract)>,
}

/// What stands before a status.
const CALLS: [&str; 4] = [
    "have.status(",
    "response.code).to.equal(",
    "response.code).to.eql(",
    "response.code).to.be.equal(",
];

/// What is compared with a status.
const COMPARED: [&str; 2] = ["response.status", "responseCode.code"];

/// What stands before the name of a variable.
const SETTERS: [&str; 8] = [
    "environment.set(",
    "variables.set(",
    "collectionVariables.set(",
    "globals.set(",
    "client.global.set(",
    "setEnvironmentVariable(",
    "setGlobalVariable(",
    "bru.setVar(",
];

/// The body of a reply as JSON.
const BODIES: [&str; 4] =
    ["pm.response.json()", "JSON.parse(responseBody)", "response.body", "res.body"];

/// A function of the headers of a reply.
const HEADERS: [&str; 3] =
    ["pm.response.headers.get(", "response.headers.valueOf(", "postman.getResponseHeader("];

pub(crate) fn read(script: &str) -> Script {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with("//"));
    let script = lines.collect::<Vec<_>>().join("\n");
    let aliases = aliases(&script);
    let mut sets: Vec<(usize, String, Extract)> = Vec::new();
    for setter in SETTERS {
        for (at, _) in script.match_indices(setter) {
            let rest = &script[at + setter.len()..];
            let Some((name, rest)) = string(rest) else { continue };
            let Some(value) = rest.trim_start().strip_prefix(',') else { continue };
            if let Some(from) = value_of(value.trim_start(), &aliases)
                && !sets.iter().any(|(_, known, _)| *known == name)
            {
                sets.push((at, name, from));
            }
        }
    }
    sets.sort_by_key(|(at, ..)| *at);
    let sets = sets.into_iter().map(|(_, name, from)| (name, from)).collect();
    Script { status: status(&script), sets }
}

/// The one status that is wanted; none if there are several.
fn status(script: &str) -> Option<u16> {
    let after = |before: &&str| script.split_once(*before).map(|(_, rest)| rest.trim_start());
    let called = CALLS.iter().filter_map(after);
    let compared = COMPARED.iter().filter_map(after).filter_map(|rest| {
        rest.strip_prefix("==").map(|rest| rest.trim_start_matches('=').trim_start())
    });
    called.chain(compared).find_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_alone = !rest[end..].trim_start().starts_with("||");
        rest[..end].parse().ok().filter(|status| is_alone && (100..600).contains(status))
    })
}

/// Names of the reply's body, or of a part of it: `var data = pm.response.json().data;`.
fn aliases(script: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for word in ["var ", "let ", "const "] {
        for (at, _) in script.match_indices(word) {
            let Some((name, value)) = script[at + word.len()..].split_once('=') else { continue };
            let name = name.trim();
            if name.is_empty() || !name.chars().all(is_letter) {
                continue;
            }
            if let Some((pointer, _)) = body(value.trim_start(), &all) {
                all.push((name.to_owned(), pointer));
            }
        }
    }
    all
}

/// A value of a reply, and nothing else up to the closing bracket.
fn value_of(text: &str, aliases: &[(String, String)]) -> Option<Extract> {
    for function in HEADERS {
        if let Some(rest) = text.strip_prefix(function) {
            let (name, rest) = string(rest)?;
            let is_all = rest.trim_start().strip_prefix(')')?.trim_start().starts_with(')');
            return is_all.then_some(Extract::Header(name, None));
        }
    }
    let (pointer, rest) = body(text, aliases)?;
    let is_all = rest.trim_start().starts_with(')') && !pointer.is_empty();
    is_all.then_some(Extract::Json(pointer))
}

/// A part of the body, as a pointer, and what follows it.
fn body<'a>(text: &'a str, aliases: &[(String, String)]) -> Option<(String, &'a str)> {
    let known = BODIES.iter().map(|body| (*body, ""));
    let named = aliases.iter().map(|(name, pointer)| (name.as_str(), pointer.as_str()));
    let (start, pointer) = known.chain(named).find(|(start, _)| {
        text.strip_prefix(start).is_some_and(|rest| !rest.starts_with(is_letter))
    })?;
    let mut pointer = pointer.to_owned();
    let mut rest = &text[start.len()..];
    loop {
        let step = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.'));
        if let Some(name) = step.filter(|name| name.starts_with(is_letter)) {
            let end = name.find(|c: char| !is_letter(c)).unwrap_or(name.len());
            // A method of JavaScript.
            if name[end..].starts_with('(') {
                return None;
            }
            push(&mut pointer, &name[..end]);
            rest = &name[end..];
        } else if let Some(index) = rest.strip_prefix("?.[").or_else(|| rest.strip_prefix('[')) {
            let (key, after) = match string(index) {
                Some(found) => found,
                None => {
                    let end = index.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
                    (index[..end].to_owned(), &index[end..])
                }
            };
            push(&mut pointer, &key);
            rest = after.strip_prefix(']')?;
        } else {
            return Some((pointer, rest));
        }
    }
}

fn push(pointer: &mut String, key: &str) {
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// A string in quotes without escapes, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| ['"', '\'', '`'].contains(c))?;
    let (inner, rest) = text[1..].split_once(quote)?;
    (!inner.is_empty() && !inner.contains(['\\', '\n', '$'])).then(|| (inner.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_replies_are_found() {
        let json = |pointer: &str| Some(Extract::Json(pointer.into()));
        for (script, wanted) in [
            ("pm.environment.set('x', pm.response.json().token);", json("/token")),
            (
                "pm.collectionVariables.set(\"x\", pm.response.json().a[0]['b c'].d)",
                json("/a/0/b c/d"),
            ),
            (
                "var j = JSON.parse(responseBody);\npostman.setEnvironmentVariable('x', j.id );",
                json("/id"),
            ),
            (
                "const { a } = 1; let data = pm.response.json().data\npm.globals.set('x', data?.id)",
                json("/data/id"),
            ),
            ("client.global.set(\"x\", response.body.json.token);", json("/json/token")),
            (
                "client.global.set('x', response.headers.valueOf('Location'))",
                Some(Extract::Header("Location".into(), None)),
            ),
            // What is computed is not the value of the reply.
            ("pm.environment.set('x', pm.response.json().a + 1)", None),
            ("pm.environment.set('x', pm.response.json())", None),
            ("pm.environment.set('x', pm.response.json().a.trim())", None),
            ("pm.environment.set('x', bodyOf.a)", None),
            ("pm.environment.set(name, pm.response.json().a)", None),
            ("// pm.environment.set('x', pm.response.json().a)", None),
            ("pm.environment.set('x', \"\u{e9}", None),
        ] {
            let sets = read(script).sets;
            assert_eq!(
                sets,
                wanted.map(|from| ("x".to_owned(), from)).into_iter().collect::<Vec<_>>(),
                "{script}"
            );
        }
    }

    #[test]
    fn statuses_are_found() {
        for (script, wanted) in [
            ("pm.test('x', () => pm.response.to.have.status(201))", Some(201)),
            ("pm.expect(pm.response.code).to.equal( 404 )", Some(404)),
            ("client.assert(response.status === 200, \"no\")", Some(200)),
            ("tests['x'] = responseCode.code===204", Some(204)),
            ("response.status == 200 || response.status == 201", None),
            ("pm.response.to.have.status('OK')", None),
            ("have.status(99999)", None),
        ] {
            assert_eq!(read(script).status, wanted, "{script}");
        }
    }
}
