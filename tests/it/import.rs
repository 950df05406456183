//! Import and export of mail: complete also when the command or the service is killed in the middle
//! and the command is run again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use crate::bed::TestBed;

/// The number of messages.
const COUNT: usize = 1200;
const ANN: &str = "ann@example.org";

/// Writes a Maildir++ of small messages in four folders. Returns the messages by subject.
fn write_maildir(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let folders = ["", ".Lists", ".Lists.rust", ".Entw&APw-rfe"];
    for folder in folders {
        for sub in ["cur", "new", "tmp"] {
            fs::create_dir_all(at.join(folder).join(sub)).unwrap();
        }
    }
    let mut all = BTreeMap::new();
    for number in 0..COUNT {
        let subject = format!("number {number:05}");
        let text = format!(
            "Received: by mx.example.org; Sat, 21 Nov 2026 09:00:00 +0000\r\n\
             From: zoe@example.net\r\nTo: {ANN}\r\nSubject: {subject}\r\n\
             Message-ID: <{number}@example.net>\r\n\r\n{}",
            "A line of it.\r\n".repeat(number % 50)
        );
        let folder = at.join(folders[number % folders.len()]);
        let file = if number % 5 == 0 {
            folder.join(format!("new/{number}.M1P1.example"))
        } else {
            folder
                .join(format!("cur/{number}.M1P1.example:2,{}", ["", "S", "FS", "RS"][number % 4]))
        };
        fs::write(&file, &text).unwrap();
        let modified = SystemTime::UNIX_EPOCH
            + Duration::from_millis(1_700_000_000_000 + number as u64 * 1_001);
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        all.insert(subject, text.into_bytes());
    }
    all
}

/// Adds all files below a folder.
fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

/// Reads an exported Maildir. Returns the messages by subject, and fails if a subject occurs twice.
fn read_export(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = Vec::new();
    files(at, &mut all);
    let mut messages = BTreeMap::new();
    for file in all.iter().filter(|file| file.parent().unwrap().ends_with("cur")) {
        let bytes = fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let subject =
            text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap().to_owned();
        assert!(messages.insert(subject, bytes).is_none(), "twice: {}", file.display());
    }
    messages
}

/// Begins a command, and does not wait for its end.
fn begin(bed: &TestBed, words: &[&str]) -> Child {
    bed.command(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The number of Ann's emails.
fn emails(bed: &TestBed) -> u64 {
    bed.json(&["account", "show", ANN])["emails"].as_u64().unwrap()
}

#[test]
fn killed_import_and_export_can_be_repeated_without_loss_or_duplicates() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    let from = bed.dir.join("Maildir");
    let all = write_maildir(&from);
    let from = from.to_str().unwrap().to_owned();
    let import = ["mail", "import", "-a", ANN, from.as_str()];

    // The command is killed.
    let mut child = begin(&bed, &import);
    bed.wait_until("some emails are imported", Duration::from_secs(60), || emails(&bed) > 50);
    child.kill().unwrap();
    child.wait().unwrap();
    let first = emails(&bed);
    assert!(first > 50, "{first}");
    // The service is killed: the exit code of the command says that it may be run again.
    #[cfg(feature = "rocksdb")]
    {
        let mut child = begin(&bed, &import);
        bed.wait_until("more emails are imported", Duration::from_secs(60), || {
            emails(&bed) > first + 50 || first as usize >= COUNT - 50
        });
        bed.kill();
        let status = child.wait().unwrap();
        assert!(status.success() || [69, 75].contains(&status.code().unwrap()), "{status}");
        bed.start();
    }
    let before = emails(&bed);
    let summary = bed.json(&import);
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(number("added") + number("there"), COUNT as u64, "{summary}");
    assert!(number("there") >= before, "{summary}");
    assert_eq!(emails(&bed), COUNT as u64);

    let to = bed.dir.join("out");
    let path = to.to_str().unwrap().to_owned();
    let export = ["mail", "export", "-a", ANN, path.as_str()];
    let mut child = begin(&bed, &export);
    let written = || {
        let mut all = Vec::new();
        if to.is_dir() {
            files(&to, &mut all);
        }
        all.len()
    };
    bed.wait_until("some files are written", Duration::from_secs(60), || written() > 100);
    child.kill().unwrap();
    child.wait().unwrap();
    let summary = bed.json(&export);
    assert_eq!(
        summary["written"].as_u64().unwrap() + summary["there"].as_u64().unwrap(),
        COUNT as u64,
        "{summary}"
    );
    assert!(read_export(&to) == all, "a message has changed");
    let again = bed.json(&export);
    assert_eq!((&again["written"], &again["there"]), (&0.into(), &COUNT.into()), "{again}");
    bed.finish();
}

#[test]
fn export_of_every_format_imports_into_another_account() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    let from = bed.dir.join("Maildir");
    let all = write_maildir(&from);
    let summary = bed.json(&["mail", "import", "-a", ANN, from.to_str().unwrap()]);
    assert_eq!(summary["added"], COUNT, "{summary}");
    for format in ["maildir", "mbox", "eml"] {
        let to = bed.dir.join(format);
        bed.run_ok(&["mail", "export", "-a", ANN, "--format", format, to.to_str().unwrap()]);
        let other = format!("{format}@example.org");
        bed.add_account(&other, &[]);
        let dry = bed.json(&["mail", "import", "-a", &other, "--dry-run", to.to_str().unwrap()]);
        assert_eq!(dry["added"], COUNT, "{dry}");
        let summary = bed.json(&["mail", "import", "-a", &other, to.to_str().unwrap()]);
        assert_eq!(
            (&summary["added"], &summary["failed"]),
            (&COUNT.into(), &0.into()),
            "{summary}"
        );
        let back = bed.dir.join(format!("{format}-back"));
        bed.run_ok(&["mail", "export", "-a", &other, back.to_str().unwrap()]);
        assert!(read_export(&back) == all, "{format}: a message has changed");
        let count_flagged = |dir: &Path| {
            let mut all = Vec::new();
            files(dir, &mut all);
            let names =
                all.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(":2,FS")).count()
        };
        assert_eq!(count_flagged(&back), count_flagged(&from), "{format}");
    }
    let unknown = bed.run(&["mail", "import", "-a", "nobody@example.org", from.to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(67));
    bed.finish();
}
