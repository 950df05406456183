use super::*;

#[test]
fn names_are_unique_and_in_lower_case() {
    let mut names: Vec<_> = COMMANDS.iter().map(|word| word.name).collect();
    names.extend(TESTS.iter().map(|word| word.name));
    assert!(names.iter().all(|name| *name == name.to_ascii_lowercase()));
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(lookup("FileInto").command.is_some());
    assert!(lookup("ALLOF").takes_tests());
    assert!(!lookup("nonsense").is_known());
}

#[test]
fn no_word_has_a_tag_twice_and_tags_find_what_they_need() {
    fn check<I>(word: &Word<I>) {
        let tags: Vec<_> = word.all_tags().collect();
        for (index, one) in tags.iter().enumerate() {
            assert!(tags[..index].iter().all(|other| other.tag != one.tag), "{}", word.name);
            assert!(
                one.beside.is_empty()
                    || one.beside.iter().any(|tag| tags.iter().any(|other| other.tag == *tag))
            );
        }
        assert!(word.positionals.iter().filter(|one| one.is_optional).count() <= 1);
    }
    COMMANDS.iter().for_each(check);
    TESTS.iter().for_each(check);
}
