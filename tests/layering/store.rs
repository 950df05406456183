//! Checks that the folders of the store name only folders that they are built on.

use crate::scanner::sources;

/// The folders and files of the store in layers, the lowest first. Those in one line do not name
/// one another.
const STORE_ORDER: &[&[&str]] = &[
    &["error"],
    &["row"],
    &["table"],
    &["engine"],
    &["version"],
    &["txn"],
    &["blob"],
    &["listing", "search", "script", "vacation"],
    &["outbox", "email"],
    &["account"],
    &["repair"],
    &["backup"],
];

/// Where a folder of the store names one in a higher layer, with the reason.
const STORE_CIRCLES: &[(&str, &str, &str)] = &[
    ("row", "table", "a row's error names its table, and a table's declaration names its row"),
    ("row", "engine", "the rows of a message are given as puts"),
    ("txn", "account", "a transaction collects the changes of shares"),
    ("txn", "listing", "a transaction has the settings of ranks"),
    ("account", "repair", "its part of the check is an `impl Checker`"),
    ("blob", "repair", "its part of the check is an `impl Checker`"),
    ("email", "repair", "its part of the check is an `impl Checker`"),
    ("listing", "repair", "its part of the check is an `impl Checker`"),
    ("outbox", "repair", "its part of the check is an `impl Checker`"),
    ("search", "repair", "its part of the check is an `impl Checker`"),
    ("vacation", "repair", "its part of the check is an `impl Checker`"),
    ("script", "repair", "its part of the check is an `impl Checker`"),
];

#[test]
fn folders_of_the_store_name_only_what_they_are_built_on() {
    let level = |name: &str| STORE_ORDER.iter().position(|level| level.contains(&name));
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for mut source in sources("src") {
        if source.module.first().is_none_or(|room| room != "store") {
            continue;
        }
        let Some(own) = source.module.get(1).cloned() else { continue };
        if source.module.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
            continue;
        }
        let Some(at) = level(&own) else {
            wrong.push(format!("{}: `{own}` has no place in STORE_ORDER", source.path.display()));
            continue;
        };
        if let Some((product, _)) = source.text.split_once("#[cfg(test)]\nmod tests {") {
            source.text = product.to_owned();
        }
        for (named, line) in source.named_within("store") {
            if named == own || level(&named).is_none_or(|other| other < at) {
                continue;
            }
            match STORE_CIRCLES.iter().find(|(from, to, _)| *from == own && *to == named) {
                Some(known) => seen.push(known),
                None => {
                    wrong
                        .push(format!("{}:{line}: `{own}` names `{named}`", source.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "against the order of the store:\n{}", wrong.join("\n"));
    for circle in STORE_CIRCLES {
        assert!(seen.contains(&circle), "{circle:?} is a circle no more: take it off the list");
    }
}
