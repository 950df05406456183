//! The search for scripts and mailboxes in a home.

use super::super::scripts::survey;
use super::*;

/// Returns the names of the scripts, with `*` before the active one, and the paths that were
/// skipped, below the home.
fn found(home: &Path) -> (Vec<String>, Vec<String>) {
    let found = survey(&Folder::open(home).unwrap(), "").unwrap();
    let name = |script: &super::super::scripts::SourceScript| {
        format!("{}{}", if script.is_active { "*" } else { "" }, script.name)
    };
    (found.scripts.iter().map(name).collect(), found.skipped.into_iter().map(|one| one.0).collect())
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("sieve")).unwrap();
    for (name, source) in [("a", "keep;"), ("b", "stop;"), ("dovecot", "discard;")] {
        fs::write(home.path().join(format!("sieve/{name}.sieve")), source).unwrap();
    }
    home
}

#[test]
fn link_names_the_active_script_and_is_not_followed() {
    for target in ["sieve/b.sieve", "/var/vmail/ann/sieve/b.sieve", "./sieve/b.sieve"] {
        let home = home();
        symlink(target, home.path().join(".dovecot.sieve")).unwrap();
        assert_eq!(found(home.path()).0, ["*b", "a", "dovecot"], "{target}");
    }
    for target in ["/etc/passwd", "sieve/c.sieve", "b.sieve", "other/b.sieve", "sieve/b"] {
        let home = home();
        symlink(target, home.path().join(".dovecot.sieve")).unwrap();
        let (scripts, skipped) = found(home.path());
        assert_eq!(scripts, ["a", "b", "dovecot"], "{target}");
        assert_eq!(skipped, ["/.dovecot.sieve"], "{target}");
    }
}

#[test]
fn file_is_the_active_script_itself() {
    for (source, names) in [
        ("redirect \"a@example.org\";", &["*dovecot.orig", "a", "b", "dovecot"][..]),
        ("stop;", &["*b", "a", "dovecot"]),
    ] {
        let home = home();
        fs::write(home.path().join(".dovecot.sieve"), source).unwrap();
        assert_eq!(
            found(home.path()),
            (names.iter().map(|&name| name.to_owned()).collect(), vec![])
        );
    }
    let home = tempfile::tempdir().unwrap();
    assert_eq!(found(home.path()), (vec![], vec![]));
    fs::write(home.path().join(".dovecot.sieve"), "keep;").unwrap();
    assert_eq!(found(home.path()).0, ["*dovecot"]);
}

#[test]
fn other_files_are_no_scripts() {
    let home = home();
    for name in ["x.svbin", ".sieve", "._a.sieve", "a.sieve~", "log"] {
        fs::write(home.path().join("sieve").join(name), "keep;").unwrap();
    }
    fs::create_dir(home.path().join("sieve/tmp.sieve")).unwrap();
    symlink("/etc/passwd", home.path().join("sieve/secret.sieve")).unwrap();
    let large = vec![b' '; crate::model::limits::MAX_SCRIPT_BYTES + 1];
    fs::write(home.path().join("sieve/large.sieve"), large).unwrap();
    let (scripts, skipped) = found(home.path());
    assert_eq!(scripts, ["a", "b", "dovecot"]);
    assert_eq!(skipped, ["/sieve/large.sieve"]);
    // The search for mailboxes says that a link is not followed.
    let mut mailboxes = Survey::default();
    survey::survey(home.path(), None, &mut mailboxes).unwrap();
    assert_eq!(mailboxes.skipped.len(), 1, "{:?}", mailboxes.skipped);
    assert!(mailboxes.skipped[0].0.ends_with("/sieve/secret.sieve"));
}

#[test]
fn messages_of_a_maildir_in_a_home_are_those_of_the_inbox() {
    let home = home();
    for sub in ["Maildir/cur", "Maildir/.Lists.rust/cur", "archive/cur"] {
        fs::create_dir_all(home.path().join(sub)).unwrap();
    }
    let mut all = Survey::default();
    survey::survey(home.path(), None, &mut all).unwrap();
    let mut paths: Vec<String> = all.sources.iter().map(|one| one.mailbox_path.path()).collect();
    paths.sort();
    assert_eq!(paths, ["Inbox", "Lists/rust", "archive"]);
    assert_eq!(all.scripts.scripts.len(), 3);
}

/// No script is looked for in the Maildir, so its link is reported as any other.
#[test]
fn link_of_the_active_script_in_the_maildir_of_a_home_is_reported() {
    let home = home();
    fs::create_dir_all(home.path().join("Maildir/cur")).unwrap();
    symlink("sieve/b.sieve", home.path().join(".dovecot.sieve")).unwrap();
    symlink("../sieve/b.sieve", home.path().join("Maildir/.dovecot.sieve")).unwrap();
    let mut all = Survey::default();
    survey::survey(home.path(), None, &mut all).unwrap();
    let skipped: Vec<&String> = all.skipped.iter().map(|(path, _)| path).collect();
    assert!(skipped.len() == 1 && skipped[0].ends_with("/Maildir/.dovecot.sieve"), "{skipped:?}");
    assert!(all.scripts.skipped.is_empty() && all.scripts.scripts[0].is_active);
}

#[test]
fn folder_of_messages_named_sieve_is_a_mailbox() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("sieve")).unwrap();
    fs::write(tree.path().join("sieve/1.eml"), "Subject: a\n\nb\n").unwrap();
    let mut all = Survey::default();
    survey::survey(tree.path(), None, &mut all).unwrap();
    let paths: Vec<String> = all.sources.iter().map(|one| one.mailbox_path.path()).collect();
    assert_eq!(paths, ["sieve"]);
    assert!(all.scripts.scripts.is_empty());
}
