//! Exports into an mbox file that another program changed, or that an interrupted export left.

use super::*;

/// Returns one mailbox with a message for each date.
fn lists(messages: &[(i64, &str)]) -> MailboxContents {
    let mail = messages.iter().map(|(at, text)| {
        ((place(&["Lists"]), *at), (BTreeSet::new(), text.replace('\n', "\r\n").into_bytes()))
    });
    mail.collect()
}

/// Writes messages into a new file. Returns the folder, the path of the file and its text.
fn exported(mail: &MailboxContents) -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), Format::Mbox, mail);
    let file = dir.path().join("Lists.mbox");
    let text = fs::read_to_string(&file).unwrap();
    (dir, file, text)
}

/// Returns the dates of the messages, in the order of the file.
fn dates(dir: &Path) -> Vec<i64> {
    let found = read_messages(&survey_folder(dir, Some(Format::Mbox)));
    found.iter().map(|(_, message)| message.received_at.0).collect()
}

const ONE: (i64, &str) = (1000, "Subject: 1\n\ntext\n");
const TWO: (i64, &str) = (2000, "Subject: 2\n\nFrom here\nto there\n\n\nFrance\n\n\nend\n");
const THREE: (i64, &str) = (3000, "Subject: 3\n\ntext\n");

#[test]
fn messages_after_one_that_another_program_changed_stay() {
    for (old, new) in [("Subject: 1\n", "Subject: 1\nX-UID: 17\n"), ("\ntext\n", "\nx\n")] {
        let (dir, file, text) = exported(&lists(&[ONE, TWO]));
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text);
        fs::write(&file, &changed).unwrap();
        // The second email was destroyed.
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[ONE, THREE])), (1, 0), "{new}");
        assert!(fs::read_to_string(&file).unwrap().starts_with(&changed), "{new}");
        assert_eq!(dates(dir.path()), [1000, 2000, 3000], "{new}");
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[ONE, THREE])), (0, 0), "{new}");
    }
}

#[test]
fn last_message_that_another_program_changed_is_neither_cut_nor_written_again() {
    for (old, new) in [
        ("Subject: 2\n", "Subject: 2\nX-UID: 17\n"),
        ("to there\n", ""),
        // No empty line follows the message.
        ("\nend\n\n", "\nthe end\n"),
        ("there\n\n\nFrance\n\n\nend\n\n", "nothing\n"),
    ] {
        let (dir, file, text) = exported(&lists(&[ONE, TWO]));
        let changed = text.replace(old, new);
        assert_ne!(changed, text);
        fs::write(&file, &changed).unwrap();
        let export = |messages: &[(i64, &str)]| write(dir.path(), Format::Mbox, &lists(messages));
        assert_eq!(export(&[ONE, TWO]), (0, 0), "{new}");
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
        // The email is not in the mailbox any more.
        assert_eq!(export(&[ONE]), (0, 0), "{new}");
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
        assert_eq!(export(&[ONE, TWO, THREE]), (1, 0), "{new}");
        assert!(fs::read_to_string(&file).unwrap().starts_with(&changed), "{new}");
        assert_eq!(dates(dir.path()), [1000, 2000, 3000], "{new}");
    }
}

/// The first email was destroyed meanwhile, so the file has the only copy of it.
#[test]
fn export_killed_at_any_byte_of_the_last_message_is_continued() {
    let begin = exported(&lists(&[ONE])).2.len();
    let (dir, file, text) = exported(&lists(&[ONE, TWO]));
    for end in begin..text.len() - 1 {
        fs::write(&file, &text[..end]).unwrap();
        write(dir.path(), Format::Mbox, &lists(&[TWO]));
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{end}");
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[TWO])), (0, 0), "{end}");
    }
    // Only the empty line after the message is missing.
    fs::write(&file, &text[..text.len() - 1]).unwrap();
    assert_eq!(write(dir.path(), Format::Mbox, &lists(&[TWO, THREE])), (1, 0));
    let all = exported(&lists(&[ONE, TWO, THREE])).2;
    assert_eq!(fs::read_to_string(&file).unwrap(), all);
}

#[test]
fn incomplete_message_of_a_destroyed_email_stays_and_is_closed() {
    let (dir, file, text) = exported(&lists(&[ONE, TWO]));
    let at = text.find("to there").unwrap();
    for end in [at, at + 4] {
        fs::write(&file, &text[..end]).unwrap();
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[ONE, THREE])), (1, 0));
        assert!(fs::read_to_string(&file).unwrap().starts_with(&text[..end]));
        assert_eq!(dates(dir.path()), [1000, 2000, 3000]);
        // An email that comes back is written whole.
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[ONE, TWO, THREE])), (1, 0));
        assert_eq!(write(dir.path(), Format::Mbox, &lists(&[ONE, TWO, THREE])), (0, 0));
        assert_eq!(dates(dir.path()), [1000, 2000, 3000, 2000]);
    }
}

#[test]
fn mail_that_another_program_appended_to_an_incomplete_message_stays() {
    let (dir, file, text) = exported(&lists(&[ONE, TWO]));
    let at = text.find("to there").unwrap();
    let mail = "From bob Sat Nov 21 09:00:00 2026\nSubject: x\n\nhello\n\n";
    let root = Folder::open(dir.path()).unwrap();
    for between in ["\n\n", "\n", ""] {
        let appended = format!("{}{between}{mail}", &text[..at + 4]);
        fs::write(&file, &appended).unwrap();
        let target = ExportTarget::open(&root, Format::Mbox, &place(&["Lists"]), None).unwrap();
        let status = target.layout(Format::Mbox).map(|mut layout| {
            let id = EmailId::new(UtcMillis(TWO.0), 7);
            layout.find_and_update(id, 1, &BTreeSet::new()).unwrap()
        });
        // Only after an empty line is it a message by itself, which no export wrote.
        assert_eq!(status.is_err(), between == "\n\n");
        assert!(status.is_err() || status.unwrap() == ExportStatus::Same, "{between:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), appended);
    }
}
