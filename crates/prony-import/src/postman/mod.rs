//! Collections of Postman (2.0 and 2.1): a session of each folder at the top, in order.

mod auth;
mod body;
mod request;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use crate::blanks::Names;
use crate::context::{Context, DEPTH};
use crate::json;
use crate::ledger::{Ledger, Node};
use crate::scripts::{self, Script};
use crate::text::Text;
use crate::values::Values;
use crate::{Import, Request, Session, Step};

/// Members of a collection that change no request.
const WITHOUT_EFFECT: [&str; 24] = [
    "description",
    "id",
    "uid",
    "owner",
    "createdAt",
    "updatedAt",
    "lastUpdatedBy",
    "fork",
    "response",
    "_postman_id",
    "_postman_isSubFolder",
    "_postman_previewlanguage",
    "_exporter_id",
    "_collection_link",
    "info/schema",
    "info/version",
    "script/type",
    "script/packages",
    "script/requests",
    "variable/type",
    "variable/name",
    "header/type",
    "header/name",
    "urlencoded/type",
];

/// What an item has of the folders around it.
#[derive(Clone, Copy)]
struct Around<'s, 'a> {
    outer: Option<&'s Self>,
    auth: Node<'a>,
    behavior: Node<'a>,
    /// The variables of the folders, from the collection's own on.
    variables: Option<&'s HashMap<String, String>>,
}

impl<'s, 'a> Around<'s, 'a> {
    /// What an item has.
    fn of(item: Node<'a>, outer: Option<&'s Self>) -> Self {
        let (auth, behavior) = (item.at("auth"), item.at("protocolProfileBehavior"));
        Self { outer, auth, behavior, variables: None }
    }

    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |around| around.outer)
    }

    /// The innermost authorization that has a type.
    fn auth(&self) -> Option<Node<'a>> {
        let mut all = self.all().map(|around| around.auth);
        let found = all.find(|auth| auth.at("type").text().is_some());
        // Those further out are replaced.
        all.for_each(Node::set_aside);
        found
    }

    /// The innermost value of a setting.
    fn setting(&self, name: &str) -> Option<bool> {
        let all: Vec<_> = self.all().map(|around| around.behavior.at(name).flag()).collect();
        all.into_iter().flatten().next()
    }

    /// Whether Postman does not add a header of this name, in small letters.
    fn is_not_added(&self, header: &str) -> bool {
        let headers = self.all().flat_map(|around| {
            let all = around.behavior.at("disabledSystemHeaders");
            all.members().map(|(name, is_off)| (name, is_off.flag() == Some(true)))
        });
        let all: Vec<_> = headers.collect();
        all.contains(&(header, true))
    }

    fn variable(&self, name: &str) -> Option<&'s str> {
        let all = std::iter::successors(Some(*self), |around| around.outer.copied());
        let mut known = all.filter_map(|around| around.variables?.get(name));
        known.next().map(String::as_str)
    }
}

struct Reader<'a> {
    variables: Values,
    import: Import,
    context: &'a Context<'a>,
    /// The names of variables in the plan.
    names: Names,
    /// Variables that scripts of this session have set so far, and their names in the plan.
    set: HashMap<String, String>,
    /// These names.
    set_names: HashSet<String>,
    /// Those of them that later requests use.
    used: HashSet<String>,
    /// The requests whose scripts set a variable, in all sessions.
    givers: HashMap<String, Rc<Request>>,
    /// Those that this session must make first.
    firsts: Vec<Rc<Request>>,
    /// Their places.
    first_places: HashSet<String>,
}

pub(crate) fn read(text: &str, context: &Context<'_>) -> Result<Import, String> {
    json::check(text)?;
    let document: Value = serde_json::from_str(text).map_err(|e| {
        format!(":{}:{}: this is not a collection of Postman: {e}", e.line(), e.column())
    })?;
    let ledger = Ledger::default();
    let root = ledger.root(&document);
    // Postman's own interface has it in a member.
    let collection = match root.at("collection") {
        inner if root.at("item").is_null() && inner.is_object() => inner,
        _ => root,
    };
    if !collection.at("item").is_list() {
        let what = match collection.at("requests").is_list() {
            true => "a collection of Postman 1.0; export it as 2.1",
            false => "this is not a collection of Postman: it has no list `item`",
        };
        return Err(format!(": {what}"));
    }
    let mut reader = Reader {
        variables: Values::default(),
        import: Import { has_jar: true, ..Import::default() },
        context,
        names: Names::default(),
        set: HashMap::new(),
        set_names: HashSet::new(),
        used: HashSet::new(),
        givers: HashMap::new(),
        firsts: Vec::new(),
        first_places: HashSet::new(),
    };
    for (name, value) in reader.values(collection.at("variable"), "the collection") {
        reader.variables.set_first(&name, &value);
    }
    let around = Around::of(collection, None);
    reader.scripts(collection.at("event"), "the collection", "");
    let name = collection.at("info").at("name").text().unwrap_or_default().to_owned();
    let mut own = Session { name, ..Session::default() };
    let (folders, single): (Vec<Node<'_>>, Vec<Node<'_>>) =
        collection.at("item").items().partition(|item| item.at("item").is_list());
    for item in single {
        reader.item(item, "", &around, &mut own.steps)?;
    }
    reader.end(own)?;
    for item in folders {
        let name = item.at("name").text().unwrap_or_default().to_owned();
        let mut session = Session { name, ..Session::default() };
        reader.item(item, "", &around, &mut session.steps)?;
        reader.end(session)?;
    }
    let mut import = reader.import;
    import.variables.extend(reader.names.into_blanks());
    ledger.note_unused(&document, &WITHOUT_EFFECT, "", &mut import.notes);
    Ok(import)
}

impl Reader<'_> {
    /// A session is complete. Its values of replies are for its own requests.
    fn end(&mut self, mut session: Session) -> Result<(), String> {
        self.first_places.clear();
        for giver in &self.firsts {
            let what = "made first in another session, too, for a value of its reply";
            self.import.notes.add(what, &giver.place);
            self.context.admit(giver).map_err(wrong)?;
        }
        let firsts = self.firsts.drain(..).map(|giver| Step::from(Request::clone(&giver)));
        drop(session.steps.splice(0..0, firsts));
        for request in session.steps.iter_mut().flat_map(|step| &mut step.requests) {
            request.extract.retain(|(name, _)| self.used.contains(name));
        }
        self.set.clear();
        self.set_names.clear();
        self.used.clear();
        self.import.sessions.push(session);
        Ok(())
    }

    fn item<'a>(
        &mut self,
        item: Node<'a>,
        path: &str,
        outer: &Around<'_, 'a>,
        steps: &mut Vec<Step>,
    ) -> Result<(), String> {
        let name = item.at("name").text().unwrap_or_default();
        let place = format!("{path}/{name}");
        let variables: HashMap<String, String> =
            self.values(item.at("variable"), &place).into_iter().collect();
        let around = Around { variables: Some(&variables), ..Around::of(item, Some(outer)) };
        if item.at("item").is_list() {
            for inner in item.at("item").items() {
                self.item(inner, &place, &around, steps)?;
            }
            self.scripts(item.at("event"), "a folder", &place);
            return Ok(());
        }
        let request = item.at("request");
        if request.is_null() {
            self.import.notes.add("left out: neither a request nor a folder", &place);
            return Ok(());
        }
        match self.request(request, &place, &around) {
            Ok(mut request) => {
                request.name = name.to_owned();
                for event in item.at("event").items() {
                    self.event(event, &mut request, &place);
                }
                self.context.admit(&request).map_err(wrong)?;
                steps.push(Step::from(request));
            }
            Err(why) => self.import.notes.add(&why, &place),
        }
        self.context.check().map_err(wrong)
    }

    /// Names the scripts of a folder, which are not run.
    fn scripts(&mut self, events: Node<'_>, of: &str, place: &str) {
        for event in events.items() {
            let listen = event.at("listen").text().unwrap_or_default();
            if !script(event).trim().is_empty() {
                self.import.notes.add(&format!("a script of {of} ({listen})"), place);
            }
        }
    }

    /// The variables of a collection or a folder that are not switched off.
    fn values(&mut self, list: Node<'_>, place: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (name, value, _) in self.pairs(list, "variable", place) {
            let value = match value.scalar() {
                Some(text) => text,
                None if value.is_null() => String::new(),
                // A list or an object is a text where it is used.
                None => value.whole().to_string(),
            };
            all.push((name, value));
        }
        all
    }

    /// The pairs of a list, or of an object, that are not switched off: name, value and all of it.
    fn pairs<'a>(
        &mut self,
        list: Node<'a>,
        what: &str,
        place: &str,
    ) -> Vec<(String, Node<'a>, Node<'a>)> {
        let mut all = Vec::new();
        all.extend(list.members().map(|(name, value)| (name.to_owned(), value, value)));
        for item in list.items() {
            if item.at("disabled").flag() == Some(true) {
                item.whole();
                continue;
            }
            // Path variables of old collections have only an identifier.
            let key = item.at("key").scalar().or_else(|| item.at("id").scalar());
            match key.filter(|key| !key.is_empty()) {
                Some(key) => all.push((key, item.at("value"), item)),
                None => {
                    let (what, at) = (format!("left out: a {what} without a name"), place);
                    self.import.notes.add(&what, at);
                    item.whole();
                }
            }
        }
        all
    }

    /// What the plan has of a script.
    fn event(&mut self, event: Node<'_>, request: &mut Request, place: &str) {
        let (lines, listen) = (script(event), event.at("listen").text().unwrap_or_default());
        if lines.trim().is_empty() {
            return;
        }
        let found = match listen {
            "test" => scripts::read(&lines),
            _ => Script::default(),
        };
        let what = match found == Script::default() {
            true => format!("a script ({listen})"),
            false => format!("a script ({listen}), of which the plan has the status or values"),
        };
        self.import.notes.add(&what, place);
        request.expect = found.status.unwrap_or(request.expect);
        // Other sessions can make it first if it needs nothing of this one.
        let is_set = |word: &str| self.set_names.contains(word);
        let words = |field: &str| field.split([' ', '|']).any(is_set);
        let is_alone = !request.fields().any(words);
        let names: Vec<String> = found.sets.iter().map(|(field, _)| field.clone()).collect();
        for (field, from) in found.sets {
            let name = self.names.extracted(&field);
            request.extract.push((name.clone(), from));
            self.set_name(&field, name);
        }
        if !is_alone || names.is_empty() {
            return;
        }
        let giver = Rc::new(request.clone());
        for field in names {
            self.givers.entry(field).or_insert_with(|| Rc::clone(&giver));
        }
    }

    /// The text of a value. What is neither a text nor a number stays unused, and is named.
    fn value(&mut self, value: Node<'_>, around: &Around<'_, '_>) -> Text {
        let text = value.scalar().unwrap_or_default();
        self.text(&text, around)
    }

    /// Makes a variable known that a request of another session sets.
    fn give(&mut self, field: &str) {
        if self.set.contains_key(field) {
            return;
        }
        let Some(giver) = self.givers.get(field) else { return };
        if self.first_places.insert(giver.place.clone()) {
            self.firsts.push(Rc::clone(giver));
        }
        let name = self.names.extracted(field);
        self.set_name(field, name);
    }

    fn set_name(&mut self, field: &str, name: String) {
        self.set_names.insert(name.clone());
        self.set.insert(field.to_owned(), name);
    }

    /// The text with the variables of the collection and its folders replaced.
    fn text(&mut self, text: &str, around: &Around<'_, '_>) -> Text {
        let mut all = Text::default();
        self.fill(text, &mut all, &mut Vec::new(), around);
        all
    }

    /// Adds the text. `within` are the variables whose values it is in.
    fn fill(
        &mut self,
        text: &str,
        all: &mut Text,
        within: &mut Vec<String>,
        around: &Around<'_, '_>,
    ) {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("}}") {
            // The innermost braces are those of a field.
            let field = before.rsplit_once("{{").filter(|(_, field)| !field.contains(['{', '}']));
            let Some((before, field)) = field else {
                all.push(&rest[..before.len() + "}}".len()]);
                rest = after;
                continue;
            };
            all.push(before);
            if !self.context.spend_field("") {
                return;
            }
            self.field(field.trim(), all, within, around);
            rest = after;
        }
        all.push(rest);
    }

    fn field(
        &mut self,
        field: &str,
        all: &mut Text,
        within: &mut Vec<String>,
        around: &Around<'_, '_>,
    ) {
        self.give(field);
        if let Some(name) = self.set.get(field) {
            all.push_field(name);
            self.used.insert(name.clone());
            return;
        }
        // Scripts set what has no value. What is in its own value has none, either.
        let known = around.variable(field).or_else(|| self.variables.get(field));
        let known = known.filter(|value| !value.is_empty());
        let known = known.filter(|_| !within.iter().any(|outer| outer == field));
        match (field, known.map(str::to_owned)) {
            (_, Some(_)) if within.len() == DEPTH => {
                self.context.fail("its variables are more than 64 deep in each other");
            }
            (_, Some(value)) => {
                if self.context.spend_field(&value) {
                    within.push(field.to_owned());
                    self.fill(&value, all, within, around);
                    within.pop();
                }
            }
            ("$guid" | "$randomUUID", _) => all.push_field("random.uuid"),
            ("$randomInt", _) => all.push_field("random.int 0 1000"),
            ("$timestamp", _) => all.push_field("now unix"),
            ("$isoTimestamp", _) => all.push_field("now"),
            _ => all.push_field(&self.names.blank(field)),
        }
    }
}

/// A bound that does not hold, after the name of the file.
fn wrong(why: String) -> String {
    format!(": {why}")
}

/// The lines of a script that is not switched off.
fn script(event: Node<'_>) -> String {
    if event.at("disabled").flag() == Some(true) {
        event.whole();
        return String::new();
    }
    let exec = event.at("script").at("exec");
    match exec.text() {
        Some(text) => text.to_owned(),
        None => exec.items().filter_map(Node::text).collect::<Vec<_>>().join("\n"),
    }
}
