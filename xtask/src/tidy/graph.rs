//! The import graph of each crate: which top-level module imports which.
//!
//! The file `a.rs` or `a/mod.rs` is the module `a`, `a/b.rs` is `a::b`. An import leads to the
//! deepest module on its path, so an item counts for the module through which it is named.
//! Re-exports are followed at the root of the crate only: `crate::Name` leads to the module from
//! which `lib.rs` re-exports `Name`. `mod x;` is not an import.
//!
//! The nodes of the graph of a crate are the top-level modules, each with all of its submodules.
//! Imports between the root and the top-level modules are free.
//!
//! The same holds inside a module: the nodes of its graph are its submodules, and imports between
//! it and its own submodules are free. There, re-exports are followed everywhere: `super::Name`
//! leads to the submodule from which the parent passes `Name` on, and passing it on is no import.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Imports};
use super::lexer::Source;

/// The path of a module below the root of its crate; empty for the root.
pub(super) type Module = Vec<String>;

/// The place of an import: a file and a line, from 1.
pub(super) type Place = (String, usize);

/// The sources of all crates, from which the graphs are made.
#[derive(Default)]
pub(super) struct Files {
    /// For each source folder (`crates/x/src`), the modules with their files.
    crates: BTreeMap<String, BTreeMap<Module, (String, Imports)>>,
}

/// The imports between the top-level modules of a crate.
#[derive(Debug, Default, Clone)]
pub(super) struct CrateGraph {
    /// The folder of its sources.
    pub(super) folder: String,
    /// All top-level modules.
    pub(super) names: BTreeSet<String>,
    /// For each pair of modules, the place of the first import.
    pub(super) imports_between: BTreeMap<(String, String), Place>,
}

impl Files {
    /// Add a file, if it belongs to a crate and not to the tests.
    pub(super) fn gather(&mut self, path: &str, source: &Source<'_>) {
        let Some((name, file)) = place_in_crate(path) else { return };
        // The binary next to a library is a separate crate with a single module.
        if imports::is_test(path) || file == "main" {
            return;
        }
        let module = module_of(file);
        let modules = self.crates.entry(format!("crates/{name}/src")).or_default();
        modules.insert(module, (path.to_owned(), imports::read(source)));
    }

    /// The graph of each crate.
    pub(super) fn graph(&self) -> Vec<CrateGraph> {
        self.crates.iter().map(|(folder, modules)| graph(folder, modules)).collect()
    }

    /// The graphs of the submodules of each module.
    pub(super) fn rooms(&self) -> Vec<CrateGraph> {
        self.crates.iter().flat_map(|(folder, modules)| rooms(folder, modules)).collect()
    }
}

/// `crates/a/src/b/c.rs` is `b/c` in `a`.
pub(super) fn place_in_crate(path: &str) -> Option<(&str, &str)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once('/')?;
    Some((name, file.strip_prefix("src/")?.strip_suffix(".rs")?))
}

/// The module of a file, given its path below `src` without its ending.
pub(super) fn module_of(file: &str) -> Module {
    let mut parts: Module = file.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|p| p == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// Modules that are compiled for tests only.
fn test_modules(modules: &BTreeMap<Module, (String, Imports)>) -> Vec<Module> {
    let all = modules.iter();
    all.flat_map(|(own, (_, i))| i.test_modules.iter().map(|m| [&own[..], m].concat())).collect()
}

fn rooms(folder: &str, modules: &BTreeMap<Module, (String, Imports)>) -> Vec<CrateGraph> {
    let tests = test_modules(modules);
    let is_test = |m: &Module| tests.iter().any(|t| m.starts_with(t));
    let passed_on = PassedOn::new(modules);
    let mut rooms: BTreeMap<Module, CrateGraph> = BTreeMap::new();
    for (own, (path, imports)) in modules.iter().filter(|(m, _)| !is_test(m)) {
        for depth in 1..own.len() {
            let room = rooms.entry(own[..depth].to_vec()).or_default();
            room.folder = format!("{folder}/{}", own[..depth].join("/"));
            room.names.insert(own[depth].clone());
        }
        for named in imports.named.iter().filter(|named| !named.is_passed_on) {
            let within = [&own[..], &named.within].concat();
            let Some(to) = passed_on.file_of(&within, &named.path) else { continue };
            let shared = own.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b), false) = (own.get(shared), to.get(shared), is_test(&to))
                && let Some(room) = rooms.get_mut(&own[..shared])
            {
                let place = (path.clone(), named.line);
                room.imports_between.entry((a.clone(), b.clone())).or_insert(place);
            }
        }
    }
    rooms.into_values().filter(|room| room.names.len() > 1).collect()
}

fn graph(folder: &str, modules: &BTreeMap<Module, (String, Imports)>) -> CrateGraph {
    let tests = test_modules(modules);
    let is_test = |m: &Module| tests.iter().any(|t| m.starts_with(t));
    let known = |m: &[String]| modules.contains_key(m);
    let root = Root::new(modules);
    let mut graph = CrateGraph { folder: folder.to_owned(), ..CrateGraph::default() };
    for (own, (path, imports)) in modules.iter().filter(|(m, _)| !m.is_empty() && !is_test(m)) {
        graph.names.insert(own[0].clone());
        for named in &imports.named {
            let Some(full) = resolve(&[&own[..], &named.within].concat(), &named.path, known)
            else {
                continue;
            };
            let Some(to) = root.follow_reexport(full).filter(|to| known(&to[..1])) else {
                continue;
            };
            if to[0] != own[0] {
                let place = (path.clone(), named.line);
                graph.imports_between.entry((own[0].clone(), to[0].clone())).or_insert(place);
            }
        }
    }
    graph
}

/// The path from the root of the crate; `None` if it leads to another crate, or is ambiguous.
pub(super) fn resolve(
    own: &[String],
    path: &[String],
    known: impl Fn(&[String]) -> bool,
) -> Option<Module> {
    let mut at = own.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" | "super" => {
            while let Some((first, others)) = rest.split_first() {
                match first.as_str() {
                    "self" => {}
                    "super" => _ = at.pop()?,
                    _ => break,
                }
                rest = others;
            }
        }
        name => {
            at.push(name.to_owned());
            return known(&at).then(|| [own, path].concat());
        }
    }
    at.extend_from_slice(rest);
    Some(at)
}

/// The names that the modules of a crate pass on.
struct PassedOn<'a> {
    modules: &'a BTreeMap<Module, (String, Imports)>,
    /// The path of a name, and where it leads.
    names: BTreeMap<Module, Module>,
}

impl<'a> PassedOn<'a> {
    /// No name is passed on more often.
    const STEPS_MAX: usize = 8;

    fn new(modules: &'a BTreeMap<Module, (String, Imports)>) -> Self {
        let known = |m: &[String]| modules.contains_key(m);
        let mut names = BTreeMap::new();
        for (own, (_, imports)) in modules {
            for named in imports.named.iter().filter(|n| n.is_passed_on && n.within.is_empty()) {
                let to = resolve(own, &named.path, known);
                if let (Some(name), Some(to)) = (named.known_as.clone(), to) {
                    names.insert([&own[..], &[name]].concat(), to);
                }
            }
        }
        Self { modules, names }
    }

    /// The file in which the item with this path, seen from `own`, is declared.
    fn file_of(&self, own: &[String], path: &[String]) -> Option<Module> {
        let mut at = resolve(own, path, |m| self.modules.contains_key(m))?;
        for _ in 0..Self::STEPS_MAX {
            let ends = (1..=at.len()).rev().map(|n| at.split_at(n));
            let passed = ends.map(|(name, rest)| Some([self.names.get(name)?, rest].concat()));
            let Some(next) = passed.flatten().next() else { break };
            at = next;
        }
        while !at.is_empty() && !self.modules.contains_key(&at) {
            at.pop();
        }
        Some(at)
    }
}

/// The re-exports at the root of a crate.
struct Root(BTreeMap<String, Module>);

impl Root {
    fn new(modules: &BTreeMap<Module, (String, Imports)>) -> Self {
        let known = |m: &[String]| modules.contains_key(m);
        let named = modules.get(&Module::new()).map_or(&[][..], |(_, i)| &i.named);
        let taken = named
            .iter()
            .filter(|n| n.within.is_empty())
            .filter_map(|n| Some((n.known_as.clone()?, resolve(&[], &n.path, known)?)));
        Self(taken.filter(|(_, path)| known(&path[..1.min(path.len())])).collect())
    }

    /// Resolve a path that may name a re-export at the root; `None` for the root itself.
    fn follow_reexport(&self, path: Module) -> Option<Module> {
        let first = path.first()?;
        Some(self.0.get(first).cloned().unwrap_or(path))
    }
}

#[cfg(test)]
pub(super) fn of_sources(sources: &[(&str, &str)]) -> CrateGraph {
    let mut files = Files::default();
    for (path, text) in sources {
        files.gather(&format!("crates/x/src/{path}"), &Source::new(text));
    }
    files.graph().pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_imports_between_submodules() {
        let mut files = Files::default();
        for (path, text) in [
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a/mod.rs",
                "mod deep;\nmod x;\nmod y;\npub use x::X;\npub use deep::D as E;\nuse y::Y;\n",
            ),
            ("a/x.rs", "use super::E;\nuse super::Own;\nuse crate::b::B;\n"),
            ("a/y.rs", "use super::X;\n#[cfg(test)]\nmod tests;\n"),
            ("a/y/tests.rs", "use crate::a::deep::D;\n"),
            ("a/deep/mod.rs", "pub use inner::D;\nmod inner;\nmod outer;\n"),
            ("a/deep/inner.rs", "fn f() { super::super::y::h() }\n"),
            ("a/deep/outer.rs", "use crate::a::E;\n"),
            ("b.rs", "use crate::a::X;\n"),
        ] {
            files.gather(&format!("crates/x/src/{path}"), &Source::new(text));
        }
        let rooms = files.rooms();
        let shown = |room: &CrateGraph| {
            let all = room.imports_between.keys().map(|(a, b)| format!("{a} -> {b}"));
            (room.folder.clone(), all.collect::<Vec<_>>().join(", "))
        };
        let found: Vec<_> = rooms.iter().map(shown).collect();
        let inside = [("a", "deep -> y, x -> deep, y -> x"), ("a/deep", "outer -> inner")];
        assert_eq!(found, inside.map(|(a, b)| (format!("crates/x/src/{a}"), b.to_owned())));
    }

    fn imports_between(sources: &[(&str, &str)]) -> Vec<String> {
        let graph = of_sources(sources);
        let place = |(path, line): &Place| format!("{}:{line}", path.replace("crates/x/src/", ""));
        graph
            .imports_between
            .iter()
            .map(|((a, b), p)| format!("{a} -> {b} ({})", place(p)))
            .collect()
    }

    #[test]
    fn finds_imports_between_top_level_modules() {
        let found = imports_between(&[
            ("lib.rs", "mod a;\nmod b;\npub use b::Thing as Renamed;\npub use c::run;\nmod c;\n"),
            ("a.rs", "mod inner;\nuse crate::b::{self, X};\nuse inner::Y;\nuse std::b::Z;\n"),
            (
                "a/inner.rs",
                "use super::W;\n\nuse super::super::c::C;\nfn f() { crate::d::e::g() }\n",
            ),
            ("b/mod.rs", "pub(crate) use crate::c::C;\nfn f() { super::a::h(); self::x(); }\n"),
            ("c.rs", "use crate::Renamed;\nuse crate::run;\nuse crate::Unknown;\n"),
            ("d/mod.rs", "pub mod e;\n"),
            ("d/e.rs", "use super::e::F;\nuse crate::d::G;\n"),
        ]);
        assert_eq!(
            found,
            [
                "a -> b (a.rs:2)",
                "a -> c (a/inner.rs:3)",
                "a -> d (a/inner.rs:4)",
                "b -> a (b/mod.rs:2)",
                "b -> c (b/mod.rs:1)",
                "c -> b (c.rs:1)",
            ]
        );
    }

    #[test]
    fn ignores_imports_of_tests() {
        let found = imports_between(&[
            (
                "a.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}\n#[cfg(test)]\nmod extra;\n",
            ),
            ("a/tests.rs", "use crate::b::X;\n"),
            ("a/tests/more.rs", "use crate::b::X;\n"),
            ("a/extra.rs", "use crate::b::X;\n"),
            ("a/extra/deep.rs", "use crate::b::X;\n"),
            ("b.rs", "// crate::a::A\nconst B: &str = \"crate::a::A\";\n"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn resolves_super_in_inline_modules() {
        let found = imports_between(&[
            ("a.rs", "mod inline {\n    use super::super::b::X;\n    use super::Own;\n}\n"),
            ("b.rs", ""),
        ]);
        assert_eq!(found, ["a -> b (a.rs:2)"]);
    }
}
