//! The corpus of real mail, delivered over LMTP: every message comes out byte for byte as it went
//! in, except for what precedes its header.

use std::collections::HashMap;
use std::fs;

use crate::bed::{TestBed, email_id};
use crate::mail::{Client, crlf};
use crate::needs::corpus;

/// The message without the byte order mark, the blank lines and the mbox `From ` lines that precede
/// its header.
fn skip_to_header(message: &[u8]) -> &[u8] {
    let mut rest = message.strip_prefix("\u{feff}".as_bytes()).unwrap_or(message);
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let line = &rest[..end];
        if !line.trim_ascii().is_empty() && !line.starts_with(b"From ") {
            break;
        }
        rest = &rest[end + 2..];
    }
    rest
}

#[test]
fn delivered_messages_are_stored_byte_for_byte() {
    let Some(folder) = corpus() else { return };
    let expected = fs::read_to_string(folder.join("expect.tsv")).unwrap();
    let mut lines = expected.lines();
    let head: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| head.iter().position(|title| *title == name).unwrap();
    let (file, sender) = (column("file"), column("env_from"));

    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut sent: HashMap<String, (String, Vec<u8>)> = HashMap::new();
    let mut count = 0;
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let mut message = crlf(&fs::read(folder.join(cells[file])).unwrap());
        if !message.ends_with(b"\r\n") {
            message.extend_from_slice(b"\r\n");
        }
        // A sender that is not a plain address is replaced by the null sender.
        let is_plain =
            cells[sender].bytes().all(|b| b.is_ascii_graphic() && !b"<>\\\"(),;:[]".contains(&b))
                && cells[sender].split('@').count() == 2;
        let replies = client
            .deliver(if is_plain { cells[sender] } else { "" }, &["ann@example.org"], &message)
            .unwrap();
        assert_eq!(replies[0].code, 250, "{}: {replies:?}", cells[file]);
        let message = skip_to_header(&message).to_vec();
        sent.insert(email_id(&replies[0]).unwrap(), (cells[file].to_owned(), message));
        count += 1;
    }
    assert!(count > 500, "a corpus of {count}");
    assert_eq!(bed.list_mail("ann@example.org").len(), sent.len());
    for (id, (name, message)) in &sent {
        let raw = bed.show_message("ann@example.org", id);
        assert!(raw.ends_with(message), "{name}: {} bytes in, {} out", message.len(), raw.len());
        let prefix = &raw[..raw.len() - message.len()];
        assert!(prefix.is_empty() || prefix.starts_with(b"Return-Path: <"), "{name}");
    }
    println!("{count} messages delivered, {} of them different, all equal", sent.len());
    bed.finish();
}
