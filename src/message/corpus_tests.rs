//! Reads the corpus of real mail, and compares the results with those that its table
//! (`expect.tsv`, described in `docs/corpus.md`) expects.

use std::collections::HashMap;
use std::path::PathBuf;

use super::{Message, auto, content, rows};
use crate::model::Secrets;
use crate::needs::corpus;

/// The path of every message in the table.
pub(super) fn files(dir: &std::path::Path) -> Vec<PathBuf> {
    table(dir).iter().map(|row| dir.join(&row["file"])).collect()
}

fn table(dir: &std::path::Path) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(dir.join("expect.tsv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let unescape = |cell: &str| {
        cell.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\")
    };
    lines
        .map(|line| {
            names
                .iter()
                .zip(line.split('\t'))
                .map(|(name, cell)| ((*name).to_owned(), unescape(cell)))
                .collect()
        })
        .collect()
}

/// Cells of the table that our results differ from, each checked by hand: (file, column, reason).
const EXPECTED_DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "plain/ponymail.rfc2822-A5.eml",
        "refs_n",
        "an id that is not closed before the next begins: the later bracket counts here",
    ),
    (
        "plain/phpmime.issue126.eml",
        "attach_jmap",
        "two Content-Type fields: the parser takes the multipart one",
    ),
    (
        "bounce/sisimai.lhost-mailru-01.eml",
        "subject",
        "an encoded word with a full stop at its end is none (RFC 2047 §5), and must not be \
         decoded (RFC 8621 §4.1.2.2)",
    ),
];

/// The fields that the column `list_headers` of the table lists, in its order.
const LIST: [&str; 7] = [
    "List-Id",
    "List-Help",
    "List-Subscribe",
    "List-Unsubscribe",
    "List-Post",
    "List-Owner",
    "List-Archive",
];

/// Threads of the table that are joined here, each checked by hand (`docs/corpus.md`). Emails that
/// the table joins must be joined here too.
const JOINED: &[(&[&str], &str)] = &[
    (&["T04-0024", "T04-0026"], "the subjects differ in white space alone"),
    (&["T05-0032", "T05-0053"], "ids without brackets"),
    (&["T05-0006", "T05-0007", "T05-0008", "T05-0009", "T05-0011"], "ids without brackets"),
    (&["T05-0013", "T05-0014", "T05-0015"], "ids without brackets"),
    (&["T05-0024", "T05-0026"], "ids without brackets"),
    (&["T06-0017", "T06-0018"], "a quote before `Re:` belongs to the leading word"),
    (&["T06-0023", "T06-0024"], "a quote before `Re:` belongs to the leading word"),
];

/// Emails of an archive that share a key are in one thread. The names of threads in the table begin
/// with the name of the archive.
#[test]
fn threads_agree_with_the_table() {
    let Some(dir) = corpus() else { return };
    let (mut ours, mut names): (HashMap<_, usize>, Vec<(String, String, usize)>) =
        (HashMap::new(), Vec::new());
    let mut threads: Vec<usize> = Vec::new();
    for row in table(&dir)
        .iter()
        .filter(|row| !row["thread_subj"].is_empty() && row["confidence"] != "low")
    {
        let group = row["thread_subj"].split('-').next().unwrap_or_default().to_owned();
        let keys =
            rows(&std::fs::read(dir.join(&row["file"])).unwrap(), &Secrets::default()).thread_keys;
        let index = threads.len();
        threads.push(index);
        for key in keys {
            let other = *ours.entry((group.clone(), key.0)).or_insert(index);
            let (from, to) =
                (threads[index].max(threads[other]), threads[index].min(threads[other]));
            threads.iter_mut().filter(|thread| **thread == from).for_each(|thread| *thread = to);
        }
        names.push((row["file"].clone(), row["thread_subj"].clone(), index));
    }
    let mut problems = Vec::new();
    for (at, (file, theirs, index)) in names.iter().enumerate() {
        for (other, their_other, other_index) in &names[..at] {
            let joins = |set: &[&str]| {
                set.contains(&theirs.as_str()) && set.contains(&their_other.as_str())
            };
            let same = theirs == their_other || JOINED.iter().any(|(joined, _)| joins(joined));
            if same != (threads[*index] == threads[*other_index]) {
                problems.push(format!("{file} ({theirs}) and {other} ({their_other})"));
            }
        }
    }
    eprintln!(
        "{} emails in {} threads",
        names.len(),
        threads.iter().collect::<std::collections::HashSet<_>>().len()
    );
    assert!(problems.is_empty(), "{}\n", problems.join("\n"));
}

#[test]
fn facts_agree_with_the_table() {
    let Some(dir) = corpus() else { return };
    let mut problems = Vec::new();
    let mut compared = 0;
    for row in table(&dir) {
        let file = &row["file"];
        let raw = std::fs::read(dir.join(file)).unwrap();
        let message_rows = rows(&raw, &Secrets::default());
        assert_eq!(message_rows.size, raw.len() as u64);
        let (message, facts) = (Message::parse(&raw), auto::AutoReplyFacts::of(&raw));
        let content = content::content(&message);
        let mut compare = |column: &str, ours: String| {
            compared += 1;
            let theirs = &row[column];
            if *theirs != ours
                && !EXPECTED_DIFFERENCES
                    .iter()
                    .any(|(other, other_column, _)| other == file && *other_column == column)
            {
                problems.push(format!("{file} {column}: table {theirs:?}, ours {ours:?}"));
            }
        };
        if row["confidence"] == "low" {
            continue;
        }
        let id = super::header::first(&raw, "Message-ID")
            .map_or_else(String::new, |field| field.unfolded());
        compare("message_id", id);
        let list_fields = LIST.iter().filter(|name| super::header::first(&raw, name).is_some());
        compare(
            "list_headers",
            list_fields.map(|name| name.to_lowercase()).collect::<Vec<_>>().join(","),
        );
        // The table counts only ids in brackets; a bare id counts here too.
        let bracketed = |name: &str| {
            let field =
                super::header::first(&raw, name).filter(|field| field.value.contains(&b'<'));
            field.map_or(0, |field| super::refs::message_ids(field.value).len()).to_string()
        };
        compare("refs_n", bracketed("References"));
        compare("irt_n", bracketed("In-Reply-To"));
        if row["confidence"] == "high" {
            if ["sure", "absent", "raw-utf8"].contains(&row["subject_conf"].as_str()) {
                let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                let ours = content.subject.clone().unwrap_or_default();
                // White space does not count.
                if squeeze(&row["subject"]) != squeeze(&ours) {
                    compare("subject", ours);
                }
            }
            if row["attach_jmap"] != "?" {
                compare("attach_jmap", message.attachments().len().to_string());
            }
        }
        assert!(facts.list.is_some() || row["list_headers"].is_empty(), "{file}");
    }
    eprintln!("{compared} facts compared, {} different", problems.len());
    assert!(problems.is_empty(), "{}\n", problems.join("\n"));
}
