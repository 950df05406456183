//! Checks that the documents say what the code says, above all `docs/storage.md` and
//! `docs/path.md`.
//!
//! - Every name in backticks of these two pages exists: `Type::function`, `module::function`, a
//!   bare type, a table, a file. Commands, header fields, names of JMAP and other texts are not
//!   looked at.
//! - `docs/storage.md` has every table with its key, its row and its home, and no other.
//! - Every file of the code, the tests, the documents or `.ci/` that a page of `docs/` names in
//!   backticks exists, unless its name has a placeholder.
//! - Every page that a comment in `src/` cites exists, and so does the heading, if it cites one.
//!
//! Only the text of the files is read, as in `layering.rs`. Blocks of code in the pages are
//! drawings, and are not looked at either.
#![allow(clippy::panic, clippy::expect_used, reason = "test code")]

#[path = "layering/scanner.rs"]
#[allow(dead_code, reason = "it also finds which module names which")]
mod scanner;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use scanner::{Source, root, sources, words};

/// The pages whose names are checked.
const PAGES: [&str; 2] = ["docs/storage.md", "docs/path.md"];

#[test]
fn names_in_the_pages_exist() {
    let sources = product();
    let tables: BTreeSet<String> =
        declared_tables(&sources).into_iter().map(|table| table.name).collect();
    let declared = Declarations::of(&sources);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in PAGES {
        for (name, line) in spans(&read(page)) {
            let exists = match Name::of(&name) {
                Name::Free => continue,
                Name::File => root().join(&name).exists(),
                Name::Table => tables.contains(&name),
                Name::Path(parts) => declared.have(&parts),
            };
            seen += 1;
            if !exists {
                wrong.push(format!("{page}:{line}: `{name}`"));
            }
        }
    }
    assert!(seen > 300, "only {seen} names were found");
    assert!(wrong.is_empty(), "named in the documents and not in the code:\n{}", wrong.join("\n"));
}

#[test]
fn page_of_the_store_has_every_table_and_no_other() {
    let declared: Vec<String> = declared_tables(&product()).iter().map(Table::line).collect();
    assert!(declared.len() > 30, "only {} tables were found", declared.len());
    let page = read("docs/storage.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let code =
            |at: usize| cells.get(at).and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        let home = cells.get(3).filter(|_| cells.len() == 5)?;
        Some(
            Table {
                name: code(0)?.into(),
                key: code(1)?.into(),
                row: code(2)?.into(),
                home: (*home).into(),
            }
            .line(),
        )
    });
    let described: Vec<String> = rows.collect();
    let (mut sorted, mut expected) = (described.clone(), declared);
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected, "the tables of docs/storage.md and those that `table!` declares");
}

#[test]
fn files_that_documents_name_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    let pages = fs::read_dir(root().join("docs")).expect("the folder docs");
    for page in pages {
        let page = page.expect("an entry").path();
        let text = fs::read_to_string(&page).expect("a file of UTF-8");
        for (name, line) in spans(&text) {
            let is_path = ["src/", "tests/", "benches/", "docs/", ".ci/"]
                .iter()
                .any(|folder| name.starts_with(folder));
            if is_path && !name.contains(['…', ' ', '*']) {
                seen += 1;
                if !root().join(&name).exists() {
                    wrong.push(format!("{}:{line}: `{name}`", page.display()));
                }
            }
        }
    }
    assert!(seen > 150, "only {seen} names of files were found");
    assert!(wrong.is_empty(), "files that do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn headings_that_comments_cite_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in sources("src") {
        for (at, _) in source.text.match_indices("`docs/") {
            let text = source.text.get(at + 1..).unwrap_or_default();
            let Some((page, rest)) = text.split_once('`') else { continue };
            if !root().join(page).exists() {
                wrong.push(format!("{}: no page `{page}`", source.path.display()));
            }
            // A heading is cited as: `docs/page.md`, "Heading".
            let Some(heading) = rest.strip_prefix(", \"").and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            seen += 1;
            let has = |line: &str| {
                line.starts_with('#') && line.trim_start_matches('#').trim() == heading
            };
            if !read(page).lines().any(has) {
                wrong.push(format!(
                    "{}: `{page}` has no heading \"{heading}\"",
                    source.path.display()
                ));
            }
        }
    }
    assert!(seen >= 6, "only {seen} citations were found");
    assert!(wrong.is_empty(), "cited and not there:\n{}", wrong.join("\n"));
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of `src/` without those of tests.
fn product() -> Vec<Source> {
    let is_test = |part: &String| part == "tests" || part.ends_with("_tests");
    sources("src").into_iter().filter(|source| !source.module.iter().any(is_test)).collect()
}

/// The texts in backticks outside blocks of code, with their lines.
fn spans(page: &str) -> Vec<(String, usize)> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (line, number) in page.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (span.to_owned(), number)));
        }
    }
    found
}

/// What a text in backticks names.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// A file or folder of the repository.
    File,
    /// A table, by its name on disk.
    Table,
    /// A type, or names joined by `::`.
    Path(Vec<String>),
    /// Nothing that is checked.
    Free,
}

impl Name {
    fn of(text: &str) -> Self {
        let folders = ["src/", "tests/", "docs/", "benches/", "fuzz/"];
        if folders.iter().any(|folder| text.starts_with(folder)) {
            // An ellipsis stands for any file.
            return if text.ends_with('…') { Self::Free } else { Self::File };
        }
        let parts: Vec<String> = text.split("::").map(str::to_owned).collect();
        let is_word = |part: &String| {
            let mut chars = part.chars();
            chars.next().is_some_and(|c| c.is_ascii_alphabetic())
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_placeholder =
            |part: &String| matches!(part.as_str(), "Type" | "module" | "function");
        if !parts.iter().all(is_word) || parts.iter().any(is_placeholder) {
            return Self::Free;
        }
        match parts.as_slice() {
            [one] if one.starts_with(|c: char| c.is_ascii_uppercase()) => {
                // RESTANTE_FIXTURE is a variable of the environment.
                if one.contains('_') { Self::Free } else { Self::Path(parts) }
            }
            // `queryState` is a name of JMAP.
            [one] if one.chars().any(|c| c.is_ascii_uppercase()) => Self::Free,
            [_] => Self::Table,
            _ => Self::Path(parts),
        }
    }
}

/// What the code declares.
#[derive(Default)]
struct Declarations {
    modules: BTreeSet<Vec<String>>,
    /// Items by the module that declares them or names them in a `use`.
    items: BTreeMap<String, Vec<Vec<String>>>,
    /// Functions, fields, variants and constants by type and name, with the modules of the
    /// declarations.
    members: BTreeMap<(String, String), Vec<Vec<String>>>,
}

/// What a brace belongs to.
#[derive(Clone)]
enum Scope {
    Module(String),
    /// `impl` or `trait`.
    Functions(String),
    Struct(String),
    Enum(String),
    Use,
    Other,
}

impl Declarations {
    fn of(sources: &[Source]) -> Self {
        let mut all = Self::default();
        for source in sources {
            all.read(source);
        }
        all
    }

    /// Whether the last part is declared by what the parts before it name.
    fn have(&self, parts: &[String]) -> bool {
        let Some((name, owner)) = parts.split_last() else { return false };
        let type_name =
            owner.last().filter(|last| last.starts_with(|c: char| c.is_ascii_uppercase()));
        let (declared, module) = match type_name {
            Some(owner_type) => {
                let (found, prefix) =
                    (self.members.get(&(owner_type.clone(), name.clone())), owner.len() - 1);
                (found, owner.get(..prefix).unwrap_or_default())
            }
            None => (self.items.get(name), owner),
        };
        let is_within = |declared: &Vec<String>| {
            module.is_empty() || declared.windows(module.len()).any(|part| part == module)
        };
        let is_right_there = |declared: &Vec<String>| declared.ends_with(module);
        declared.is_some_and(|all| {
            // `store::Store::open` may leave out modules between `store` and `Store`. `store::open`
            // must name the module that declares `open`.
            all.iter().any(|declared| {
                if type_name.is_some() { is_within(declared) } else { is_right_there(declared) }
            })
        }) || self.modules.iter().any(|known| known.ends_with(parts))
    }

    /// Adds what a file declares.
    fn read(&mut self, source: &Source) {
        let words = words(&source.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        // `scopes` are the open braces, and `next` is what the next brace belongs to.
        let (mut scopes, mut next, mut parentheses) = (Vec::<Scope>::new(), None::<Scope>, 0usize);
        self.modules.insert(source.module.clone());
        for at in 0..words.len() {
            let before = at.checked_sub(1).map_or("", word);
            // Outside of other items.
            let is_open = matches!(scopes.last(), None | Some(Scope::Module(_)));
            match word(at) {
                "{" => scopes.push(next.take().unwrap_or(Scope::Other)),
                "}" => drop(scopes.pop()),
                ";" if parentheses == 0 => next = None,
                "(" | "[" => parentheses += 1,
                ")" | "]" => parentheses = parentheses.saturating_sub(1),
                "mod" if is_open => {
                    next = Some(Scope::Module(word(at + 1).to_owned()));
                    self.modules
                        .insert([source.module.as_slice(), &[word(at + 1).to_owned()]].concat());
                }
                "use" if is_open => next = Some(Scope::Use),
                "impl" if is_open && next.is_none() => {
                    next = Some(Scope::Functions(implemented(&words, at)));
                }
                "trait" => next = Some(Scope::Functions(word(at + 1).to_owned())),
                "struct" => next = Some(Scope::Struct(word(at + 1).to_owned())),
                "enum" => next = Some(Scope::Enum(word(at + 1).to_owned())),
                "fn" => next = Some(Scope::Other),
                _ => {}
            }
            let in_tests =
                scopes.iter().any(|scope| matches!(scope, Scope::Module(name) if name == "tests"));
            if in_tests || !is_name(word(at)) {
                continue;
            }
            let name = word(at).to_owned();
            let is_item = matches!(
                before,
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod" | "as"
            );
            let is_used =
                matches!(next, Some(Scope::Use)) || matches!(scopes.last(), Some(Scope::Use));
            // Macros that declare types: `key! { Name {…} }`, `table! { Name = 1 … }`,
            // `number_id!(Name, …)`.
            let is_macro =
                matches!(scopes.last(), Some(Scope::Other)) && matches!(word(at + 1), "{" | "=");
            let is_macro = is_macro || (before == "(" && at >= 3 && word(at - 2) == "!");
            let starts_upper = name.starts_with(|c: char| c.is_ascii_uppercase());
            match scopes.last() {
                Some(Scope::Functions(owner)) if is_item && before != "as" => {
                    self.add_member(owner, name, source);
                }
                Some(Scope::Struct(owner)) if word(at + 1) == ":" => {
                    self.add_member(owner, name, source);
                }
                Some(Scope::Enum(owner))
                    if starts_upper && parentheses == 0 && matches!(before, "{" | "," | "]") =>
                {
                    self.add_member(owner, name, source);
                }
                _ if is_item || is_used || (is_macro && starts_upper) => {
                    self.items.entry(name).or_default().push(source.module.clone());
                }
                _ => {}
            }
        }
    }

    fn add_member(&mut self, owner: &str, name: String, source: &Source) {
        self.members.entry((owner.to_owned(), name)).or_default().push(source.module.clone());
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The type that an `impl` is of: the last word of its path, without what stands in angle brackets.
fn implemented(words: &[(String, usize)], start: usize) -> String {
    let (mut depth, mut found, mut is_path) = (0usize, String::new(), true);
    let mut before = "";
    for (word, _) in words.iter().skip(start + 1) {
        match word.as_str() {
            "<" => depth += 1,
            // Not the arrow of a function.
            ">" if before != "-" => depth = depth.saturating_sub(1),
            "{" | "where" if depth == 0 => break,
            "for" if depth == 0 => (found, is_path) = (String::new(), true),
            word if depth == 0 && is_path && is_name(word) && before != "'" => {
                word.clone_into(&mut found);
            }
            _ => {}
        }
        before = word;
    }
    found
}

/// A table as it is declared.
struct Table {
    name: String,
    key: String,
    row: String,
    home: String,
}

impl Table {
    fn line(&self) -> String {
        format!("{}: {} -> {}, {}", self.name, self.key, self.row, self.home)
    }
}

/// The tables that `table!` declares. Their names are texts, so the file is read as it is.
fn declared_tables(sources: &[Source]) -> Vec<Table> {
    let file = sources
        .iter()
        .find(|source| source.path.ends_with("src/store/table/mod.rs"))
        .expect("the tables");
    let (_, text) = file.text.split_once("\ntable! {").expect("the declarations");
    let (text, _) = text.split_once("\n}\n").expect("their end");
    let mut tables = Vec::new();
    for declaration in text.split("\n    }\n") {
        let Some((head, fields)) = declaration.rsplit_once(" {\n") else { continue };
        let name = head.rsplit('"').nth(1).unwrap_or_default();
        let fields = fields.split_whitespace().collect::<Vec<_>>().join(" ");
        let field = |name: &str, next: &str| {
            let (_, value) = fields.split_once(&format!("{name}: ")).unwrap_or_default();
            value.split(&format!(", {next}: ")).next().unwrap_or_default().to_owned()
        };
        let (key, row, home) = (field("key", "row"), field("row", "home"), field("home", "erased"));
        tables.push(Table { name: name.to_owned(), key, row, home });
    }
    tables
}

#[test]
fn declarations_are_found_and_missing_names_are_noticed() {
    let text = r#"
        use crate::row::{Kept, Other as Renamed};
        pub(crate) struct Store<'a> { read: Box<dyn Reader + 'a>, pub(super) total: u64 }
        impl<'a, T: Fn(u8) -> Vec<u8>> Store<'a> where T: Copy {
            pub fn open(path: &str) -> Self { let hidden = 1; } }
        impl Reader for &Store<'_> { const BOUND: usize = 3; fn get(&self) {} }
        enum Way { /** doc */ Short(Inner), #[error("x")] Long { length: u8 }, End }
        trait Reader { fn get(&self); }
        mod inner { pub fn helper() {} }
        key! { /// A key.
            RowKey { account: u32 } }
        #[cfg(test)] mod tests { fn only_in_tests() {} }
    "#;
    let source =
        Source { path: "src/store/mod.rs".into(), module: vec!["store".into()], text: text.into() };
    let declared = Declarations::of(&[source]);
    let has = |name: &str| match Name::of(name) {
        Name::Path(parts) => declared.have(&parts),
        other => panic!("{name} is {other:?}"),
    };
    let there = "Store Store::open Store::total Store::get Store::BOUND store::Store \
        store::Store::open Way::Short Way::Long Way::End Reader::get Kept \
        Renamed store::inner RowKey";
    for name in there.split_whitespace() {
        assert!(has(name), "{name} is declared");
    }
    let missing = "Store::close Store::hidden Way::Inner Way::length Missing \
        store::only_in_tests other::Store other::Store::open Reader::open";
    for name in missing.split_whitespace() {
        assert!(!has(name), "{name} is not declared");
    }
    for name in
        ["`src/…`", "restante check", "$seen", "queryState", "Email/get", "-", "RESTANTE_FIXTURE"]
    {
        assert_eq!(Name::of(name.trim_matches('`')), Name::Free, "{name}");
    }
    assert_eq!(Name::of("src/store/mod.rs"), Name::File);
    assert_eq!(Name::of("email_metadata"), Name::Table);
    let page = "`a` b `c`\n```text\n`d`\n```\n`e`";
    assert_eq!(spans(page), [("a".to_owned(), 1), ("c".to_owned(), 1), ("e".to_owned(), 5)]);
}
