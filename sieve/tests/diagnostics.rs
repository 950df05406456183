//! Checks the scripts in `tests/diagnostics`, and compares the rendered diagnostics of each with
//! the `.txt` file beside it. With `UPDATE_GOLDEN=1` in the environment these files are written
//! anew, and so is `docs/diagnostics.md`. Other tests look at the README, and at the scripts of
//! clients and of `sieve/scripts`.
//!
//! A script may begin with comments that set options: `# option: lenient`, `# option: deny NAME`,
//! `# option: limit NAME NUMBER`, `# option: environment`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use restante_sieve::{
    Code, CompileOptions, Diagnostic, Extension, LineIndex, MissingRequire, check,
};

/// Returns the path of a folder or file, which is given from `tests`.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Returns the paths of the scripts in a folder, sorted.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "sieve")).collect();
    paths.sort();
    paths
}

/// Returns the options that the first lines of a script set.
fn options(source: &str) -> CompileOptions {
    let mut options = CompileOptions::default();
    for line in source.lines().map_while(|line| line.strip_prefix("# option: ")) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["lenient"] => options.missing_require = MissingRequire::Warning,
            ["environment"] => options.environment_namespace = true,
            ["deny", name] => {
                let extension = Extension::from_name(name).unwrap();
                options.allowed = options.allowed.without(extension);
            }
            ["limit", name, number] => {
                let number: u16 = number.parse().unwrap();
                let limits = &mut options.limits;
                match name {
                    "script" => limits.script = number.into(),
                    "string" => limits.string = number.into(),
                    "nesting" => limits.nesting = number.try_into().unwrap(),
                    "commands" => limits.commands = number.into(),
                    "variables" => limits.variables = number,
                    "diagnostics" => limits.diagnostics = number,
                    other => panic!("no limit {other}"),
                }
            }
            _ => panic!("no option {line}"),
        }
    }
    options
}

/// Returns the rendered diagnostics of a script, with an empty line between them. `name` is the
/// name of the script in them.
fn rendered(source: &[u8], name: &str) -> String {
    let checked = check(source, &options(&String::from_utf8_lossy(source)));
    let has_errors = checked.diagnostics.iter().any(Diagnostic::is_error);
    assert_eq!(checked.script.is_none(), has_errors, "{name}");
    let spans: Vec<_> = checked.diagnostics.iter().map(|one| one.span).collect();
    // A diagnostic that says that there are more stands last, whatever its span is.
    let sorted = spans.split_last().is_none_or(|(_, rest)| rest.is_sorted());
    assert!(sorted, "{name}");
    let index = LineIndex::new(source);
    checked.diagnostics.iter().map(|one| one.text(&index, name)).collect::<Vec<_>>().join("\n")
}

#[test]
fn diagnostics_are_as_recorded() {
    let mut wrong = Vec::new();
    for path in scripts(&folder("diagnostics")) {
        let source = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = rendered(&source, &name);
        let golden = path.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &text).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != text {
            wrong.push(format!("{name}:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_script_always_has_the_same_diagnostics() {
    let source = b"require \"variables\"; set \"x\" \"${a}${b}${c}${d}${e}\";";
    let first = check(source, &CompileOptions::default()).diagnostics;
    assert_eq!(first.len(), 5, "{first:?}");
    for _ in 0..20 {
        assert_eq!(check(source, &CompileOptions::default()).diagnostics, first);
    }
}

#[test]
fn every_code_is_recorded() {
    let mut seen = BTreeSet::new();
    for path in scripts(&folder("diagnostics")) {
        let text = rendered(&fs::read(&path).unwrap(), "");
        seen.extend(Code::ALL.iter().filter(|code| text.contains(&format!("[{code}]"))));
    }
    // The checker never reports this code, as it sees one script alone. A host does.
    seen.insert(&Code::IncludeNotFound);
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns the rendered diagnostics of every script, each as a text of its own.
fn all_rendered() -> Vec<String> {
    let texts = scripts(&folder("diagnostics")).into_iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        rendered(&fs::read(&path).unwrap(), &name)
    });
    let ones = |text: String| text.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
    texts.flat_map(ones).collect()
}

#[test]
fn the_reference_is_current() {
    let mut text = "# Diagnostics\n\n\
        Made by `UPDATE_GOLDEN=1 cargo test -p restante-sieve --test diagnostics` from the\n\
        table in `src/diagnostic/code.rs`. A code keeps its meaning for ever. With an error\n\
        a script is not used.\n"
        .to_owned();
    let examples = all_rendered();
    for &code in Code::ALL {
        let (severity, explanation) = (code.severity(), code.explanation());
        text.push_str(&format!("\n## {code} {code:?}\n\n{severity}: {explanation}\n"));
        let head = format!("[{code}]");
        let is_one = |text: &&String| text.lines().next().is_some_and(|line| line.contains(&head));
        if let Some(example) = examples.iter().find(is_one) {
            text.push_str(&format!("\n```text\n{}\n```\n", example.trim_end()));
        }
    }
    let path = folder("../docs/diagnostics.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "set UPDATE_GOLDEN=1");
}

#[test]
fn the_readme_lists_every_extension() {
    let readme = fs::read_to_string(folder("../README.md")).unwrap();
    for extension in Extension::ALL {
        let document = format!("| {} |", extension.defined_in());
        let row = readme.lines().find(|line| line.starts_with(&document));
        assert!(row.is_some_and(|row| row.contains(&format!("`{extension}`"))), "{extension}");
    }
}

#[test]
fn scripts_of_clients_and_our_own_have_no_unexpected_diagnostics() {
    for folder in [folder("clients"), folder("../scripts")] {
        for path in scripts(&folder) {
            let source = fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = rendered(&source, &name);
            // Those of `proton` leave out a `require`, which their option makes a warning.
            let is_expected =
                text.is_empty() || (name.starts_with("proton") && !text.contains("error["));
            assert!(is_expected, "{text}");
        }
    }
}
