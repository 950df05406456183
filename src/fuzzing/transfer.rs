//! The fuzz bodies of the room `transfer`: mbox files, and names of folders and messages.

use std::collections::BTreeSet;

use super::{InputRng, bounded};
use crate::model::{EmailId, UtcMillis, keyword};
use crate::transfer::flags::{Letters, MessageFlags};
use crate::transfer::ledger::Ledger;
use crate::transfer::mbox::{MboxEntry, MboxMessage, MboxReader, write};
use crate::transfer::{MailboxPath, name, utf7};

/// Small, so that inputs exceed it.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Reads any bytes as an mbox file: messages are bounded, do not overlap, and are read again after
/// they are written.
pub fn mbox(data: &[u8]) {
    let data = bounded(data);
    let mails = read(data, MAX_MESSAGE_BYTES);
    let mut end = 0;
    for mail in &mails {
        assert!(
            mail.bytes.len() <= MAX_MESSAGE_BYTES && end <= mail.at && mail.at < mail.end,
            "{mail:?}"
        );
        end = mail.end;
    }
    assert!(end <= data.len() as u64);
    let mut rng = InputRng::of(data);
    let id = |rng: &mut InputRng| {
        EmailId::new(UtcMillis(i64::try_from(rng.number() >> 22).unwrap_or(0)), 1)
    };
    // `write` writes the keywords of the flags only.
    let mut expected: Vec<(EmailId, MessageFlags, Vec<u8>)> = mails
        .into_iter()
        .map(|mail| {
            (id(&mut rng), MessageFlags { deleted: false, is_cut: false, ..mail.flags }, mail.bytes)
        })
        .collect();
    expected.push((id(&mut rng), MessageFlags::default(), data.to_vec()));
    let mut file = Vec::new();
    for (id, flags, bytes) in &expected {
        write(&mut file, *id, &flags.keywords, bytes).unwrap();
    }
    // No message is too large for this bound.
    let again = read(&file, usize::MAX / 4);
    assert!(again.iter().all(|mail| mail.whole));
    let again: Vec<_> =
        again.into_iter().map(|mail| (mail.id.unwrap(), mail.flags, mail.bytes)).collect();
    assert_eq!(again, expected);
}

/// Reads the messages of an mbox file up to the first error.
fn read(file: &[u8], max_bytes: usize) -> Vec<MboxMessage> {
    let mut reader = MboxReader::new(file, max_bytes);
    let mut mails = Vec::new();
    while let Ok(Some(entry)) = reader.read() {
        if let MboxEntry::Mail(mail) = entry {
            mails.push(*mail);
        }
    }
    mails
}

/// Reads any bytes as names of folders and messages and as files of metadata. Names that are made
/// of the result are single components of a path, and unless they were cut, they are read as the
/// same again.
pub fn folder(data: &[u8]) {
    let data = bounded(data);
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(64).collect();
    for line in &lines {
        if let Some(name) = utf7::decode(line) {
            assert_eq!(utf7::decode(utf7::encode(&name).as_bytes()), Some(name));
        }
        let places = [
            MailboxPath::of_maildir(line),
            MailboxPath::of_tree(&[line.to_vec()]),
            MailboxPath::of_card(line).map(|(place, _)| place),
        ];
        places.into_iter().flatten().for_each(|place| check_names(&place));
        let parts: Vec<Vec<u8>> =
            line.split(|byte| *byte == b'/').take(8).map(<[u8]>::to_vec).collect();
        MailboxPath::of_tree(&parts).iter().for_each(check_names);
        let flags = name::MaildirName::of(line).flags(&Letters::parse(data));
        assert!(flags.keywords.iter().all(|word| keyword::normalize(word).as_ref() == Some(word)));
        if let Some(id) = name::of_eml(line) {
            assert_eq!(name::of_eml(name::eml(id).as_bytes()), Some(id));
        }
    }
    let letters = Letters::parse(data);
    assert_eq!(Letters::parse(letters.write().as_bytes()).write(), letters.write());
    let ledger = Ledger::parse(data);
    let known: BTreeSet<&String> =
        lines.iter().filter_map(|line| ledger.of(line)).flatten().collect();
    assert!(known.iter().all(|word| keyword::normalize(word).as_ref() == Some(word)));
}

/// Checks that the names that a mailbox gets in a Maildir and in a tree are safe, and that the
/// names and the card (the small file with the path and the role) are read as the same mailbox.
fn check_names(place: &MailboxPath) {
    // File systems allow 255 bytes. Names are cut to 220 (`folder::MAX_NAME_BYTES`), so that
    // suffixes have room; this bound is looser.
    let safe = |name: &str| {
        let fits = (1..=245).contains(&name.len());
        fits && name != "."
            && name != ".."
            && !name.contains('/')
            && !name.chars().any(char::is_control)
    };
    let maildir = place.maildir();
    assert!(maildir.iter().all(|name| safe(name) && name.starts_with('.')), "{maildir:?}");
    let tree = place.tree();
    assert!(tree.iter().all(|name| safe(name)), "{tree:?}");
    // A name with `~` was cut, and only the card has the whole path.
    if let Some(name) = maildir.filter(|name| !name.contains('~')) {
        assert_eq!(MailboxPath::of_maildir(name.as_bytes()).as_ref(), Some(place), "{name}");
    }
    if !tree.iter().any(|name| name.contains('~')) {
        let names: Vec<Vec<u8>> = tree.into_iter().map(String::into_bytes).collect();
        assert_eq!(MailboxPath::of_tree(&names).as_ref(), Some(place));
    }
    assert_eq!(MailboxPath::of_card(place.card(None).as_bytes()), Some((place.clone(), None)));
}
