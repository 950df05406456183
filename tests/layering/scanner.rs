//! Finds the Rust files of a folder, and the modules and crates that their code names. Comments and
//! strings are skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of Rust, and the module that it is.
pub(crate) struct Source {
    /// The path below the root of the repository.
    pub(crate) path: PathBuf,
    /// The path of the module; empty for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
}

impl Source {
    /// Returns the first segments of the paths that begin at the crate's root, with their lines.
    pub(crate) fn rooms_named(&self) -> Vec<(String, usize)> {
        self.names_below(0)
    }

    /// Returns the second segments of the paths into this module's own room, with their lines.
    pub(crate) fn siblings_named(&self) -> Vec<(String, usize)> {
        self.names_below(1)
    }

    /// Returns the names at `depth` in the paths that begin with `crate` or `super`: rooms at depth
    /// 0, and modules of this module's own room at depth 1. Each name is returned once, with the
    /// line of its first place.
    ///
    /// - A path by `crate` counts only if its segments before `depth` are those of this module.
    /// - A path by `super` counts from the module to which `super` leads. If that module is deeper
    ///   than `depth`, the name is the one at `depth` in its path.
    fn names_below(&self, depth: usize) -> Vec<(String, usize)> {
        let words = words(&self.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        let mut found = Vec::new();
        let mut inner: Vec<usize> = Vec::new();
        let mut open = 0usize;
        let mut at = 0;
        while at < words.len() {
            match word(at) {
                "{" => {
                    open += 1;
                    if at >= 2 && word(at - 2) == "mod" {
                        inner.push(open);
                    }
                }
                "}" => {
                    if inner.last() == Some(&open) {
                        inner.pop();
                    }
                    open = open.saturating_sub(1);
                }
                "crate" if word(at + 1) == "::" => {
                    let above = self.module.iter().take(depth).enumerate();
                    let mut begins = above.map(|(step, part)| (at + 2 + 2 * step, part));
                    if begins.all(|(at, part)| word(at) == part && word(at + 1) == "::") {
                        found.extend(heads(&words, at + 2 + 2 * depth));
                    }
                }
                "super" if word(at + 1) == "::" && (at == 0 || word(at - 1) != "::") => {
                    let line = words[at].1;
                    let mut up = 1;
                    while word(at + 2) == "super" && word(at + 3) == "::" {
                        up += 1;
                        at += 2;
                    }
                    // The depth of the module to which `super` leads; 0 is the crate's root.
                    let landed = (self.module.len() + inner.len()).saturating_sub(up);
                    if landed == depth {
                        found.extend(heads(&words, at + 2));
                    } else if landed > depth
                        && let Some(part) = self.module.get(depth)
                    {
                        found.push((part.clone(), line));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        let mut once: Vec<(String, usize)> = Vec::new();
        for (name, line) in found {
            if !once.iter().any(|(known, _)| *known == name) {
                once.push((name, line));
            }
        }
        once
    }

    /// Returns what follows `crate::room::` in paths, and what follows a `super` that leads to this
    /// module's own room, with their lines. So this module must be in `room`. Inline modules are
    /// not considered.
    pub(crate) fn named_within(&self, room: &str) -> Vec<(String, usize)> {
        let words = words(&self.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            if word(at) == "crate"
                && word(at + 1) == "::"
                && word(at + 2) == room
                && word(at + 3) == "::"
            {
                found.extend(heads(&words, at + 4));
            } else if word(at) == "super"
                && word(at + 1) == "::"
                && (at == 0 || word(at - 1) != "::")
            {
                let mut up = 1;
                while word(at + 2) == "super" && word(at + 3) == "::" {
                    up += 1;
                    at += 2;
                }
                if self.module.len() == up + 1 {
                    found.extend(heads(&words, at + 2));
                }
            }
            at += 1;
        }
        found
    }

    /// Returns the first names of paths and of `use`, with their lines.
    pub(crate) fn crates_named(&self) -> Vec<(String, usize)> {
        let words = words(&self.text);
        let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
        let mut found = Vec::new();
        for (at, (name, line)) in words.iter().enumerate() {
            let begins = at == 0 || word(at - 1) != "::";
            let path = word(at + 1) == "::" || (at > 0 && word(at - 1) == "use");
            if begins && path && is_word(name) {
                found.push((name.clone(), *line));
            }
        }
        found
    }
}

fn is_word(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the name at `at`, or the first names of all branches of the group that opens there.
pub(crate) fn heads(words: &[(String, usize)], at: usize) -> Vec<(String, usize)> {
    let Some((first, line)) = words.get(at) else { return Vec::new() };
    if first != "{" {
        return vec![(first.clone(), *line)];
    }
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut fresh = true;
    for (word, line) in words.iter().skip(at) {
        match word.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            "," if depth == 1 => fresh = true,
            _ if fresh && depth == 1 => {
                found.push((word.clone(), *line));
                fresh = false;
            }
            _ => {}
        }
    }
    found
}

/// Returns the words (names, keywords and numbers), `::`, and every other sign of a Rust text, in
/// order and with their lines. Blanks, comments, strings and character literals are left out.
pub(crate) fn words(text: &str) -> Vec<(String, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut nested = 0;
                loop {
                    if at(i) == '/' && at(i + 1) == '*' {
                        nested += 1;
                        i += 2;
                    } else if at(i) == '*' && at(i + 1) == '/' {
                        nested -= 1;
                        i += 2;
                    } else {
                        i += 1;
                    }
                    if nested == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            'b' | 'c' | 'r' if is_raw_string(&chars[i..]) => {
                i += if at(i) == 'r' { 1 } else { 2 };
                let mut hashes = 0;
                while at(i) == '#' {
                    hashes += 1;
                    i += 1;
                }
                i += 1;
                while i < chars.len() && !(at(i) == '"' && (1..=hashes).all(|k| at(i + k) == '#')) {
                    i += 1;
                }
                i += hashes + 1;
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            // A character literal; a lifetime has no second quote.
            '\'' if at(i + 1) == '\\' => {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            ':' if at(i + 1) == ':' => {
                found.push(("::".to_owned(), line));
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                found.push((chars[start..i].iter().collect(), line));
            }
            c => {
                if !c.is_whitespace() {
                    found.push((c.to_string(), line));
                }
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// Whether a text begins with a raw string, such as `r"…"` or `br#"…"#`.
fn is_raw_string(chars: &[char]) -> bool {
    let rest = match chars {
        ['r', rest @ ..] | ['b' | 'c', 'r', rest @ ..] => rest,
        _ => return false,
    };
    rest.iter().find(|c| **c != '#') == Some(&'"')
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files under a folder; none if the folder does not exist.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a file of UTF-8");
                files.insert(path, text);
            }
        }
    }
    let top = root().join(folder);
    let module = |path: &Path| -> Vec<String> {
        let mut names: Vec<String> = path
            .strip_prefix(&top)
            .expect("under the folder")
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if names.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            names.pop();
        }
        names
    };
    files
        .into_iter()
        .map(|(path, text)| Source {
            module: module(&path),
            path: path.strip_prefix(root()).unwrap_or(&path).to_path_buf(),
            text,
        })
        .collect()
}
