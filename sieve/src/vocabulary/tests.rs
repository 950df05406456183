use super::*;

#[test]
fn names_are_unique_and_in_lower_case() {
    let mut names: Vec<_> = COMMANDS.iter().map(|word| word.name).collect();
    names.extend(TESTS.iter().map(|word| word.name));
    assert!(names.iter().all(|name| *name == name.to_ascii_lowercase()));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn words_are_found_without_regard_to_case() {
    assert!(lookup("FileInto").command.is_some());
    assert!(lookup("ALLOF").takes_tests());
    assert!(!lookup("nonsense").is_known());
}

#[test]
fn no_word_has_a_tag_twice() {
    fn check<I>(word: &Word<I>) {
        let tags: Vec<_> = word.all_tags().collect();
        for (index, one) in tags.iter().enumerate() {
            assert!(tags[..index].iter().all(|other| other.tag != one.tag), "{}", word.name);
        }
    }
    COMMANDS.iter().for_each(check);
    TESTS.iter().for_each(check);
}

#[test]
fn tag_that_needs_another_one_stands_in_a_word_that_takes_the_other() {
    fn check<I>(word: &Word<I>) {
        let is_taken = |tag: &Tag| word.all_tags().any(|own| own.tag == *tag);
        for one in word.all_tags() {
            assert!(one.beside.is_empty() || one.beside.iter().any(is_taken), "{}", word.name);
        }
    }
    COMMANDS.iter().for_each(check);
    TESTS.iter().for_each(check);
}

#[test]
fn no_word_has_two_optional_arguments() {
    fn check<I>(word: &Word<I>) {
        let optional = word.positionals.iter().filter(|one| one.is_optional);
        assert!(optional.count() <= 1, "{}", word.name);
    }
    COMMANDS.iter().for_each(check);
    TESTS.iter().for_each(check);
}

/// Returns the tags of a word that an extension brings to it.
fn brought<I>(word: &Word<I>, extension: Extension) -> Vec<String> {
    let is_own = word.extensions.contains(&extension);
    let tags = word.all_tags().filter(|tag| match tag.extension {
        Some(other) => other == extension,
        None => is_own,
    });
    tags.map(|tag| tag.tag.name().to_owned()).collect()
}

/// Appends a line for each word that an extension brings, with its tags, and for each other word to
/// which it brings tags. A word is brought by the first of its extensions, and does not stand under
/// the others. `what` is "command" or "test".
fn describe<I>(words: &'static [Word<I>], extension: Extension, what: &str, out: &mut String) {
    for word in words {
        let tags = brought(word, extension);
        let name = word.name;
        let tags = tags.iter().map(|tag| format!("`{tag}`")).collect::<Vec<_>>().join(", ");
        match (word.extensions.first() == Some(&extension), tags.is_empty()) {
            (true, true) => out.push_str(&format!("- {what} `{name}`\n")),
            (true, false) => out.push_str(&format!("- {what} `{name}` with {tags}\n")),
            (false, false) if !word.extensions.contains(&extension) => {
                out.push_str(&format!("- {tags} of `{name}`\n"));
            }
            _ => {}
        }
    }
}

#[test]
fn the_reference_of_extensions_is_current() {
    let mut text = "# Extensions\n\n\
        Made by `UPDATE_GOLDEN=1 cargo test -p restante-sieve --lib reference` from the\n\
        tables in `src/extension.rs` and `src/vocabulary`. A script names extensions\n\
        with `require`.\n"
        .to_owned();
    for &extension in Extension::ALL {
        text.push_str(&format!("\n## {extension}\n\n{}\n", extension.defined_in()));
        let mut list = String::new();
        for implied in extension.implied().iter() {
            list.push_str(&format!("- brings `{implied}` with it\n"));
        }
        describe(COMMANDS, extension, "command", &mut list);
        describe(TESTS, extension, "test", &mut list);
        list.push_str(match extension {
            Extension::EncodedCharacter => "- `${hex:}` and `${unicode:}` in strings\n",
            Extension::Variables => "- `${name}` and `${1}` in strings\n",
            Extension::ComparatorOctet | Extension::ComparatorAsciiCasemap => {
                "- a value of `:comparator`, which needs no `require`\n"
            }
            Extension::ComparatorAsciiNumeric | Extension::ComparatorUnicodeCasemap => {
                "- a value of `:comparator`\n"
            }
            Extension::EnvelopeDsn => "- parts of `envelope`: notify, orcpt, ret, envid\n",
            Extension::EnvelopeDeliverBy => {
                "- parts of `envelope`: bytimeabsolute, bytimerelative, bymode, bytrace\n"
            }
            _ => "",
        });
        assert!(!list.is_empty(), "{extension}");
        text.push_str(&format!("\n{list}"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/extensions.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    assert!(known == text, "set UPDATE_GOLDEN=1");
}
