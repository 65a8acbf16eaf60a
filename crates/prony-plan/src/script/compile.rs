//! Compiles the templates and extracts of a plan and checks that they are consistent.

use std::sync::Arc;

use super::call::{Call, misfit};
use super::consistent::{INITIAL_MAX, check_alone, check_lengths, check_order};
use super::cookies::{Jar, Origin};
use super::flow::{Deciding, Flow};
use super::problem::{Part, ScriptError};
use super::{Filled, Locals, Sent, Source, Table, TableError, Unsent, is_name, messages};
use crate::plan::{CallSpec, Cookies, Plan, Sessions, Shared};
use crate::vars::condition::Scratch;
use crate::vars::{BUILT_IN, Extractor, Moment, Scope, Template, TemplateError};
use prony_base::units::Nanos;

/// The most variables of a plan, with those of extracts, and the most tables.
const VARIABLES: usize = 100_000;
const TABLES: usize = 1_000;

/// The compiled dynamic parts of a plan.
#[derive(Clone, Debug)]
pub struct Script {
    seed: u64,
    cookies: Cookies,
    tables: Vec<Arc<Table>>,
    /// The initial value of each variable in a session, if it has one.
    initial: Vec<Option<Template>>,
    /// The plan's calls, and the dynamic parts of each.
    specs: Shared<CallSpec>,
    calls: Vec<Call>,
    /// The number of requests of the longest session: the difference between the counters of two
    /// consecutive sessions.
    stride: u64,
    /// The decisions of its sessions, if they have any.
    flow: Option<Box<Flow>>,
}

impl Script {
    /// Compile a plan. `None`: it has no dynamic parts.
    ///
    /// # Errors
    /// The first error. [`Plan::check`] reports it, so a checked plan has none.
    pub fn new(plan: &Plan) -> Result<Option<Self>, ScriptError> {
        Self::compile(plan).map_err(|mut all| all.swap_remove(0))
    }

    /// All errors in the dynamic parts of a plan.
    pub fn problems(plan: &Plan) -> Vec<ScriptError> {
        Self::compile(plan).err().unwrap_or_default()
    }

    fn compile(plan: &Plan) -> Result<Option<Self>, Vec<ScriptError>> {
        let cookies = plan.sessions.as_ref().map_or(Cookies::Off, |s| s.cookies);
        let plain = |call: &CallSpec| !call.template && call.extract.is_empty();
        let mut problems = Vec::new();
        let mut scope = scope(plan, &mut problems)?;
        // Without the right names, other errors can follow from these.
        if !problems.is_empty() {
            return Err(problems);
        }
        let initial = initial_values(plan, &mut scope, &mut problems);
        let has_control = plan.sessions.as_ref().is_some_and(Sessions::has_control);
        let is_plain = cookies == Cookies::Off && !has_control && plan.calls.iter().all(plain);
        if is_plain {
            return if problems.is_empty() { Ok(None) } else { Err(problems) };
        }
        let flow = match Flow::new(plan, &scope) {
            Ok(flow) => flow,
            Err(more) => {
                problems.extend(more);
                None
            }
        };
        let mut calls = Vec::with_capacity(plan.calls.len());
        for (index, spec) in plan.calls.iter().enumerate() {
            let mut errors = Vec::new();
            calls.push(compile(spec, &mut scope, &mut errors));
            problems.extend(errors.into_iter().map(|e| ScriptError { call: Some(index), ..e }));
            scope.sent = None;
        }
        if problems.is_empty() {
            match &plan.sessions {
                Some(sessions) => check_order(sessions, &calls, &initial, &scope, &mut problems),
                None => check_alone(plan, &calls, &initial, &scope, &mut problems),
            }
        }
        if problems.is_empty() {
            check_lengths(&calls, &initial, &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let longest = plan.sessions.iter().flat_map(|s| &s.kinds).map(|kind| kind.most()).max();
        Ok(Some(Self {
            seed: plan.seed,
            cookies,
            tables: plan.data.tables.clone(),
            initial,
            specs: plan.calls.clone(),
            calls,
            stride: longest.unwrap_or(1).max(1),
            flow: flow.map(Box::new),
        }))
    }

    /// Whether cookies are kept.
    #[inline]
    pub fn has_cookies(&self) -> bool {
        self.cookies != Cookies::Off
    }

    /// How cookies are handled.
    pub fn cookies(&self) -> Cookies {
        self.cookies
    }

    /// Whether the headers of the reply to a call are needed.
    #[inline]
    pub fn wants_headers(&self, call: u32) -> bool {
        self.has_cookies() || self.calls[call as usize].headers
    }

    /// Whether the complete body of the reply to a call is needed.
    #[inline]
    pub fn wants_body(&self, call: u32) -> bool {
        self.calls[call as usize].body
    }

    /// The values that the call has extracted, in the order of the plan; `None`: it was not found.
    pub fn extracted<'a>(
        &'a self,
        call: u32,
        locals: &'a Locals,
    ) -> impl Iterator<Item = Option<&'a [u8]>> {
        self.extractors(call).iter().map(|extractor| locals.get(extractor.variable))
    }

    /// Whether a call must be filled in before it is sent.
    #[inline]
    pub fn fills(&self, call: u32) -> bool {
        self.has_cookies() || self.calls[call as usize].parts.is_some()
    }

    /// The decisions of its sessions, if they have any.
    #[inline]
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_deref()
    }

    /// What a session decides by, before request `request` (its number in the session, from 0).
    pub fn deciding<'a>(
        &'a self,
        request: u64,
        locals: &'a Locals,
        scratch: &'a mut Scratch,
    ) -> Deciding<'a> {
        let moment = self.moment(locals, request);
        Deciding { seed: self.seed, moment, tables: &self.tables, locals, scratch }
    }

    /// Start session `session` (its number in the whole run, from 0): set its rows and the initial
    /// values of its variables.
    pub fn begin(&self, session: u64, locals: &mut Locals) {
        locals.session = session;
        locals.rows.clear();
        let row = |(i, table): (usize, &Arc<Table>)| table.row_of(session, i, self.seed);
        locals.rows.extend(self.tables.iter().enumerate().map(row));
        let status = self.flow().and_then(Flow::status);
        (0..self.initial.len()).chain(status).for_each(|index| locals.unset(index));
        let (mut value, mut scratch) = (Vec::new(), Vec::new());
        let mut left = INITIAL_MAX;
        for (index, template) in self.initial.iter().enumerate() {
            let Some(template) = template else { continue };
            value.clear();
            // Random fields here do not share draws with those of the requests.
            let moment = Moment { request: u64::MAX, ..self.moment(locals, 0) };
            let source = self.source(moment, locals);
            if template.fill_within(left, source, &mut value, &mut scratch).is_ok() {
                left = left.saturating_sub(value.len());
                locals.set(index, &value);
            }
        }
    }

    /// Fill in `call` for request `request` (its number in the session, from 0). `jar` has the
    /// cookies that it may send, and whether its connection is encrypted.
    ///
    /// # Errors
    /// A variable has no value, or a value is not allowed in its place. The request must not be
    /// sent then.
    pub fn fill(
        &self,
        call: u32,
        request: u64,
        locals: &Locals,
        jar: Option<(&mut Jar, bool)>,
        now: Nanos,
        filled: &mut Filled,
    ) -> Result<(), Unsent> {
        filled.clear();
        let (spec, call) = (&self.specs[call as usize], &self.calls[call as usize]);
        if let Some(parts) = &call.parts {
            let source = self.source(self.moment(locals, request), locals);
            match call.body_first {
                false => call.fill_parts(parts, source, None, filled)?,
                true => call.fill_body_first(parts, source, filled)?,
            }
        }
        if let Some((jar, secure)) = jar {
            let mut cookies = std::mem::take(&mut filled.cookies);
            let path = filled.path().unwrap_or(spec.path.as_bytes());
            let origin = Origin { authority: &spec.authority, path, secure };
            jar.write(origin, now, &mut cookies);
            filled.cookies = cookies;
        }
        Ok(())
    }

    /// The origin of the cookies in a reply. If the path is a template, it is filled in again;
    /// `filled` is overwritten.
    pub fn origin<'a>(
        &'a self,
        call: u32,
        request: u64,
        locals: &Locals,
        secure: bool,
        filled: &'a mut Filled,
    ) -> Origin<'a> {
        let (spec, call) = (&self.specs[call as usize], &self.calls[call as usize]);
        filled.clear();
        if let Some(parts) = &call.parts {
            let source = self.source(self.moment(locals, request), locals);
            let (out, scratch) = filled.buffers();
            if parts[0].fill(source, out, scratch).is_ok() {
                filled.end_part();
            }
        }
        let path = filled.path().unwrap_or(spec.path.as_bytes());
        Origin { authority: &spec.authority, path, secure }
    }

    pub(super) fn extractors(&self, call: u32) -> &[Extractor] {
        &self.calls[call as usize].extractors
    }

    fn source<'a>(&'a self, moment: Moment, locals: &'a Locals) -> Source<'a> {
        Source { moment, tables: &self.tables, locals, sent: Sent::default() }
    }

    fn moment(&self, locals: &Locals, request: u64) -> Moment {
        let session = locals.session;
        let counter = locals.counter;
        let counter =
            counter.unwrap_or_else(|| session.saturating_mul(self.stride).saturating_add(request));
        Moment { seed: self.seed, session, request, counter }
    }
}

/// The names that templates may use. They must be valid and unique: others are problems.
fn scope(plan: &Plan, problems: &mut Vec<ScriptError>) -> Result<Scope, Vec<ScriptError>> {
    let mut scope = Scope { environment: plan.data.environment.clone(), ..Scope::default() };
    let error = |call, part, what| ScriptError { call, part, at: None, what };
    let extracts = plan.calls.iter().map(|call| call.extract.len()).sum::<usize>();
    if plan.data.variables.len() + extracts > VARIABLES {
        let what = format!("a plan has at most {VARIABLES} variables and extracts");
        return Err(vec![error(None, Part::Call, what)]);
    }
    if plan.data.tables.len() > TABLES {
        let what = format!("a plan has at most {TABLES} tables");
        return Err(vec![error(None, Part::Table(TABLES), what)]);
    }
    for (index, table) in plan.data.tables.iter().enumerate() {
        let name = table.name();
        let twice = scope.tables.iter().any(|(n, _)| n == name);
        let taken = twice.then(|| format!("there are two tables called '{name}'"));
        let empty = (table.rows() == 0).then(|| TableError::NoRows.to_string());
        let taken = taken.or(empty);
        if let Some(what) = bad_name(name).or(taken) {
            problems.push(error(None, Part::Table(index), what));
        }
        scope.tables.push((name.to_owned(), table.columns().to_vec()));
    }
    for (index, (name, _)) in plan.data.variables.iter().enumerate() {
        let twice = scope.by_name.contains_key(name);
        let taken = twice.then(|| format!("there are two variables called '{name}'"));
        if let Some(what) = bad_name(name).or(taken).or_else(|| is_table(&scope, name)) {
            problems.push(error(None, Part::Variable(index), what));
        }
        scope.by_name.entry(name.clone()).or_insert(index);
        scope.variables.push(name.clone());
    }
    for (call, spec) in plan.calls.iter().enumerate() {
        for (index, extract) in spec.extract.iter().enumerate() {
            let name = &extract.variable;
            if let Some(what) = bad_name(name).or_else(|| is_table(&scope, name)) {
                problems.push(error(Some(call), Part::Extract(index), what));
            }
            if !scope.by_name.contains_key(name) {
                scope.by_name.insert(name.clone(), scope.variables.len());
                scope.variables.push(name.clone());
            }
        }
    }
    Ok(scope)
}

fn bad_name(name: &str) -> Option<String> {
    if !is_name(name) {
        let name = name.escape_debug();
        return Some(format!("'{name}' is not a valid name; use letters, digits, '_' and '-'"));
    }
    BUILT_IN.contains(&name).then(|| format!("the name '{name}' is reserved"))
}

fn is_table(scope: &Scope, name: &str) -> Option<String> {
    let taken = scope.tables.iter().any(|(table, _)| table == name);
    taken.then(|| format!("'{name}' is the name of a table"))
}

/// The templates of the variables' initial values; each may use earlier variables.
fn initial_values(
    plan: &Plan,
    scope: &mut Scope,
    problems: &mut Vec<ScriptError>,
) -> Vec<Option<Template>> {
    let mut draws = 0;
    let mut initial = vec![None; scope.variables.len()];
    for (index, (_, text)) in plan.data.variables.iter().enumerate() {
        scope.known = Some(index);
        let template = Template::parse_all(text.as_bytes(), scope, &mut draws);
        let part = Part::Variable(index);
        initial[index] = Some(template.unwrap_or_else(|errors| {
            problems.extend(errors.into_iter().map(|error| in_part(part, error)));
            Template::default()
        }));
    }
    scope.known = None;
    initial
}

/// The dynamic parts of a call. Those with errors are left out.
fn compile(spec: &CallSpec, scope: &mut Scope, errors: &mut Vec<ScriptError>) -> Call {
    let mut call = Call::default();
    let error = |part, at, what| ScriptError { call: None, part, at, what };
    if spec.template && spec.bare {
        let what = "a `bare` request cannot be a template".to_owned();
        errors.push(error(Part::Call, None, what));
    } else if spec.template {
        let mut draws = 0;
        let mut parts = vec![parse(Part::Path, spec.path.as_bytes(), scope, &mut draws, errors)];
        // Signatures are in headers. The body of a call of gRPC is encoded later.
        scope.sent = spec.grpc.is_none().then(|| spec.method.to_string());
        for (index, (_, value)) in spec.headers.iter().enumerate() {
            let part = Part::Header(index);
            parts.push(parse(part, value.as_bytes(), scope, &mut draws, errors));
        }
        scope.sent = None;
        call.gzip = spec.gzip;
        call.body_first = call.gzip || parts.iter().any(Template::names_sent);
        if let Some(text) = spec.awaited_text() {
            parts.push(parse(Part::Awaited, text.as_bytes(), scope, &mut draws, errors));
            call.equals = true;
        }
        parts.push(match &spec.grpc {
            // Encoded messages.
            Some(_) => Template::literal(&spec.body),
            None => parse(Part::Body, &spec.body, scope, &mut draws, errors),
        });
        if let Some(grpc) = &spec.grpc {
            match messages::compile(grpc, scope, &mut draws) {
                Ok(messages) => call.messages = messages,
                Err(error) => errors.push(in_part(Part::Body, error)),
            }
        }
        call.parts = Some(parts.into());
    }
    let mut extractors = Vec::new();
    for (index, extract) in spec.extract.iter().enumerate() {
        let variable = scope.variable(&extract.variable);
        let variable = variable.expect("every extract's variable is in scope");
        call.sets.push(variable);
        match extract.compile(variable) {
            Ok(extractor) => extractors.push(extractor),
            Err(what) => errors.push(error(Part::Extract(index), None, what.to_string())),
        }
    }
    // How a body is encoded is in a header.
    call.headers = !extractors.is_empty();
    call.body = extractors.iter().any(|e| !e.wants_headers());
    call.extractors = extractors.into();
    call
}

fn in_part(part: Part, TemplateError { at, what }: TemplateError) -> ScriptError {
    ScriptError { call: None, part, at: Some(at), what }
}

/// Parse a part of a request. With an error, it is empty.
fn parse(
    part: Part,
    text: &[u8],
    scope: &Scope,
    draws: &mut u64,
    errors: &mut Vec<ScriptError>,
) -> Template {
    let template = match Template::parse_all(text, scope, draws) {
        Ok(template) => template,
        Err(all) => {
            errors.extend(all.into_iter().map(|error| in_part(part, error)));
            return Template::default();
        }
    };
    let wrong = template.literals().find_map(|(at, text)| Some(at + misfit(part, text)?));
    if let Some(at) = wrong {
        let what = format!("{:?} cannot be sent here", char::from(text[at]));
        errors.push(in_part(part, TemplateError { at, what }));
    }
    template
}
