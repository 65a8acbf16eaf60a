//! What all formats share while they read an input: its options, the files that it may name, and
//! bounds on what is made of it. The input may be from a stranger.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::{Import, Options, Request};

/// The most requests of an import.
pub(crate) const REQUESTS: usize = 100_000;
/// The most bytes of its requests, of the files that it names, and of what its variables become: as
/// many as a plan file may have.
const BYTES: u64 = 64 << 20;
/// The most values of a description or a collection, with those of aliases.
pub(crate) const VALUES: u64 = 4_000_000;
/// What each field costs beside its text: many of them can make nothing.
const FIELD: usize = 64;
/// How deep variables may be in each other.
pub(crate) const DEPTH: usize = 64;

/// What is bounded.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// The bytes of the files that the input names.
    Files,
    /// The bytes that variables become, wherever they are used.
    Variables,
    /// The bytes of the requests.
    Requests,
    /// The values of a description.
    Values,
}

/// The options, and what was used so far.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options<'a>,
    left: [Cell<u64>; 4],
    requests: Cell<usize>,
    /// The first bound that was exceeded.
    over: RefCell<Option<String>>,
    /// The files that were read: name, and the place that names it.
    read: RefCell<Vec<(String, String)>>,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The name in the input.
    name: String,
    /// Why, as the end of a sentence.
    pub(crate) why: String,
    /// There is no such file.
    pub(crate) is_missing: bool,
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        format!("{}: {}", refused.name, refused.why)
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(options: &'a Options<'a>) -> Self {
        Self {
            options,
            left: [BYTES, BYTES, BYTES, VALUES].map(Cell::new),
            requests: Cell::new(0),
            over: RefCell::new(None),
            read: RefCell::new(Vec::new()),
        }
    }

    /// Uses up a part of what is allowed. Returns false if there is not so much left; then the
    /// import fails ([`check`](Self::check)).
    pub(crate) fn spend(&self, bound: Bound, amount: usize) -> bool {
        let left = &self.left[bound as usize];
        let rest = left.get().checked_sub(amount as u64);
        left.set(rest.unwrap_or(0));
        if rest.is_none() {
            self.fail(match bound {
                Bound::Files => "the files that it names have more than 64 MiB in all",
                Bound::Variables => "its variables become more than 64 MiB of text",
                Bound::Requests => "its requests have more than 64 MiB, and so no plan file",
                Bound::Values => "its schemas have more than 4,000,000 values",
            });
        }
        rest.is_some()
    }

    /// Uses up what a field with this value costs.
    pub(crate) fn spend_field(&self, value: &str) -> bool {
        self.spend(Bound::Variables, value.len() + FIELD)
    }

    /// The import fails, for this reason.
    pub(crate) fn fail(&self, why: &str) {
        self.over.borrow_mut().get_or_insert_with(|| why.to_owned());
    }

    /// Counts a request, and what is in it.
    ///
    /// # Errors
    /// The import has too many, or is over another bound.
    pub(crate) fn admit(&self, request: &Request) -> Result<(), String> {
        self.count()?;
        self.weigh(request)
    }

    /// Counts a request.
    pub(crate) fn count(&self) -> Result<(), String> {
        self.requests.set(self.requests.get() + 1);
        self.options.progress.inspect(|progress| progress.found());
        if self.requests.get() > REQUESTS {
            self.fail("more than 100,000 requests");
        }
        self.check()
    }

    /// Counts what is in a request.
    pub(crate) fn weigh(&self, request: &Request) -> Result<(), String> {
        self.spend(Bound::Requests, size(request));
        self.check()
    }

    /// Whether all bounds hold.
    ///
    /// # Errors
    /// The first one that does not, as a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.over.borrow().as_ref().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// A file that the input names, relative to its folder or to one of `--files-from`: the only
    /// way to read one.
    ///
    /// # Errors
    /// The file is somewhere else, is no plain file, is not there, or too long.
    pub(crate) fn read(&self, name: &str, place: &str) -> Result<Vec<u8>, Refused> {
        let name = name.trim();
        let refused = |why: String, is_missing| Refused { name: name.to_owned(), why, is_missing };
        let real = self.find(Path::new(name)).map_err(|(why, missing)| refused(why, missing))?;
        // Devices and pipes have no end, or wait for ever.
        let open = || {
            if !fs::metadata(&real)?.is_file() {
                return Err(io::Error::other("this is not a plain file"));
            }
            let file = File::open(&real)?;
            let left = self.left[Bound::Files as usize].get();
            let mut bytes = Vec::new();
            file.take(left.saturating_add(1)).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = open().map_err(|why| refused(why.to_string(), false))?;
        if !self.spend(Bound::Files, bytes.len()) {
            let why = self.check().expect_err("a bound");
            return Err(refused(why, false));
        }
        self.read.borrow_mut().push((name.to_owned(), place.to_owned()));
        Ok(bytes)
    }

    /// The file without links, in one of the folders that may be read; or why not, and whether it
    /// is missing. Its name is relative to any of them.
    fn find(&self, path: &Path) -> Result<PathBuf, (String, bool)> {
        let more = self.options.files_from.iter().map(|folder| Root::new(folder, true));
        let own = Root::new(self.options.folder, false);
        let roots = std::iter::once(own).chain(more).collect::<io::Result<Vec<Root>>>();
        let failed = |e: io::Error| (e.to_string(), e.kind() == io::ErrorKind::NotFound);
        let roots = roots.map_err(failed)?;
        let mut first = None;
        for root in &roots {
            match within(&roots, &root.real.join(path)) {
                Ok(real) => return Ok(real),
                // That it is somewhere else says more than that it is not here.
                Err((why, false)) if first.as_ref().is_none_or(|(_, missing)| *missing) => {
                    first = Some((why, false));
                }
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.expect("there is a folder"))
    }

    /// Notes the files that were read.
    pub(crate) fn note_files(&self, import: &mut Import) {
        for (name, place) in self.read.take() {
            import.notes.add(&format!("the content of the file {name}"), &place);
        }
    }
}

/// Why a file outside is not read.
const OUTSIDE: &str = "this file is not in the folder of the input; if the plan should have it, \
                       name its folder with --files-from DIR";
/// Why a hidden one is not.
const HIDDEN: &str = "this file is hidden, as are those with keys; if the plan should have it, \
                      name its folder with --files-from DIR";

/// A folder whose files may be read.
struct Root {
    /// Without links, and as it was named.
    real: PathBuf,
    named: PathBuf,
    /// An option names it: its hidden files may be read, too.
    is_open: bool,
}

impl Root {
    fn new(folder: &Path, is_open: bool) -> io::Result<Self> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let named = normal(&std::path::absolute(folder)?);
        Ok(Self { real: folder.canonicalize()?, named, is_open })
    }
}

/// The file without links, if it is in one of the folders; or why not, and whether it is missing.
fn within(roots: &[Root], path: &Path) -> Result<PathBuf, (String, bool)> {
    // What is elsewhere by its name is not even looked for.
    let named = normal(path);
    let is_near = |root: &Root| named.starts_with(&root.real) || named.starts_with(&root.named);
    if !roots.iter().any(is_near) {
        return Err((OUTSIDE.to_owned(), false));
    }
    let real = path.canonicalize();
    let real = real.map_err(|e| (e.to_string(), e.kind() == io::ErrorKind::NotFound))?;
    let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let mut why = OUTSIDE;
    for root in roots {
        let Ok(inner) = real.strip_prefix(&root.real) else { continue };
        if root.is_open || !inner.components().any(is_hidden) {
            return Ok(real);
        }
        why = HIDDEN;
    }
    Err((why.to_owned(), false))
}

/// The path without `.` and `..`, whatever is there.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The bytes of a request, about.
fn size(request: &Request) -> usize {
    let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
    request.body.len() + request.path.len() + headers.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_in_the_folders_are_read() {
        let outside = tempfile::tempdir().expect("a folder");
        let folder = tempfile::tempdir().expect("a folder");
        let (out, here) = (outside.path(), folder.path());
        fs::create_dir_all(here.join("sub/.git")).expect("folders");
        for path in [out.join("s"), here.join("a"), here.join("sub/b"), here.join("sub/.git/c")] {
            fs::write(&path, path.file_name().expect("a name").as_encoded_bytes()).expect("a file");
        }
        std::os::unix::fs::symlink(out.join("s"), here.join("link")).expect("a link");
        std::os::unix::fs::symlink(out, here.join("door")).expect("a link");
        std::os::unix::fs::symlink(here.join("a"), here.join("own")).expect("a link");
        let options = Options { folder: here, ..Options::default() };
        let context = Context::new(&options);
        let absolute = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let secret = absolute(out.join("s"));
        let up = format!("../{}/s", out.file_name().expect("a name").display());
        for (name, content) in [
            ("a", "a"),
            (" ./sub/../a ", "a"),
            ("sub/b", "b"),
            ("own", "a"),
            (&*absolute(here.join("sub/b")), "b"),
        ] {
            let found = context.read(name, "line 1").map_err(String::from);
            assert_eq!(found.as_deref(), Ok(content.as_bytes()), "{name}");
        }
        for (name, why) in [
            (&*secret, "not in the folder of the input"),
            (&up, "not in the folder of the input"),
            ("link", "not in the folder of the input"),
            ("door/s", "not in the folder of the input"),
            ("sub/../../x", "not in the folder of the input"),
            ("/dev/zero", "--files-from DIR"),
            ("sub/.git/c", "is hidden"),
            ("sub", "not a plain file"),
            ("", "not a plain file"),
            ("none", "No such file"),
        ] {
            let refused = context.read(name, "line 1").expect_err(name);
            assert!(refused.why.contains(why), "{name}: {}", refused.why);
            assert_eq!(refused.is_missing, name == "none");
        }
        let mut import = Import::default();
        context.note_files(&mut import);
        assert_eq!(import.notes.all().len(), 5, "{:?}", import.notes.all());
        // Folders that are named may be read, and files are looked for in them.
        let more = [out.to_owned(), PathBuf::from("/dev")];
        let options = Options { files_from: &more, ..options };
        let context = Context::new(&options);
        for name in [&*secret, &up, "link", "door/s", "s"] {
            assert_eq!(context.read(name, "x").expect(name), b"s", "{name}");
        }
        let refused = context.read("/dev/zero", "x").expect_err("a device");
        assert_eq!(refused.why, "this is not a plain file");
    }

    #[test]
    fn files_have_a_bound_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("a")).expect("a file");
        file.set_len(BYTES / 4).expect("a length");
        let options = Options { folder: folder.path(), ..Options::default() };
        let context = Context::new(&options);
        for _ in 0..4 {
            assert_eq!(context.read("a", "x").expect("a file").len() as u64, BYTES / 4);
        }
        file.set_len(BYTES * 100).expect("a length");
        let refused = String::from(context.read("a", "x").expect_err("too much"));
        assert_eq!(refused, "a: the files that it names have more than 64 MiB in all");
        assert!(context.check().is_err());
    }
}
