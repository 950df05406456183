//! Counts what an import did, and prints it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::commands::transfer::ImportArgs;
use crate::cli::commands::transfer::scripts::ScriptResult;
use crate::cli::control::CommandContext;
use crate::cli::exit::Failure;
use crate::cli::terminal::output;
use crate::cli::terminal::progress::ByteProgress;
use crate::model::limits;

/// The most failures in the JSON of the summary.
const MAX_LISTED_FAILURES: usize = 1000;

#[derive(Default)]
pub(super) struct ImportCounts {
    pub(super) mailboxes: usize,
    pub(super) added: u64,
    /// Messages that were there and are now in one more mailbox.
    pub(super) joined: u64,
    pub(super) there: u64,
    /// Messages that were skipped because they are marked as deleted.
    pub(super) deleted: u64,
    /// The bytes in the files of the messages of `added`, `joined` and `there`.
    pub(super) bytes: u64,
    /// Messages with too many keywords, of which some were left out.
    pub(super) keywords_cut: u64,
    pub(super) failed: u64,
    /// The names and errors of the first of those that failed.
    pub(super) failures: Vec<(String, String)>,
    pub(super) scripts: Vec<ScriptResult>,
}

impl ImportCounts {
    /// Counts a message or file that was not imported, and prints why.
    pub(super) fn fail(&mut self, progress: &ByteProgress, name: &str, error: &str) {
        progress.note(&format!("{name}: {error}"));
        self.failed += 1;
        if self.failures.len() < MAX_LISTED_FAILURES {
            self.failures.push((name.to_owned(), error.to_owned()));
        }
    }

    pub(super) fn cut_keywords(&mut self, progress: &ByteProgress, name: &str) {
        let most = limits::MAX_KEYWORDS;
        progress.note(&format!("{name}: more than {most} keywords, so some are left out"));
        self.keywords_cut += 1;
    }

    pub(super) fn summary(&self) -> String {
        format!("{} messages", self.added + self.joined + self.there)
    }

    /// Counts a message that the service took, by the service's answer. `is_cut` says whether
    /// keywords were left out before the message was sent.
    pub(super) fn count_appended(
        &mut self,
        progress: &ByteProgress,
        name: &str,
        is_cut: bool,
        answer: &Value,
    ) {
        match answer["outcome"].as_str() {
            Some("added") => self.added += 1,
            Some("joined") => self.joined += 1,
            _ => self.there += 1,
        }
        if is_cut || answer["keywordsCut"] == true {
            self.cut_keywords(progress, name);
        }
    }

    /// Prints the summary. `ended` is the failure that stopped the import, if any.
    pub(super) fn report(
        &self,
        args: &ImportArgs,
        context: &CommandContext,
        took: Duration,
        ended: Option<&Failure>,
    ) {
        if context.json {
            let failures: Vec<Value> = self
                .failures
                .iter()
                .map(|(name, error)| json!({"name": name, "why": error}))
                .collect();
            output::json(&json!({
                "dryRun": args.dry_run,
                "mailboxes": self.mailboxes,
                "added": self.added,
                "joined": self.joined,
                "there": self.there,
                "deleted": self.deleted,
                "octets": self.bytes,
                "keywordsCut": self.keywords_cut,
                "failed": self.failed,
                "failures": failures,
                "scripts": self.scripts.iter().map(ScriptResult::json).collect::<Vec<_>>(),
                "seconds": took.as_secs_f64(),
                "stopped": ended.map(|failure| &failure.message),
            }));
            return;
        }
        self.scripts.iter().for_each(|script| script.write(args.dry_run));
        let would = if args.dry_run { "would be " } else { "" };
        let messages = output::counted(self.added, "message", "messages");
        let mailboxes = output::counted(self.mailboxes as u64, "mailbox", "mailboxes");
        let mut line = format!("{messages} {would}imported from {mailboxes}");
        for (count, what) in [
            (self.joined, "added to one more mailbox"),
            (self.there, "there already"),
            (self.deleted, "skipped because marked as deleted (see --with-deleted)"),
            (self.keywords_cut, "without some of their keywords"),
            (self.failed, "failed"),
        ] {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        output::line(&format!("{line}; {:.1} s", took.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_whose_keywords_are_cut_twice_is_counted_once() {
        let progress = ByteProgress::new("importing", 0);
        for (is_cut, is_cut_by_service, expected) in
            [(false, false, 0), (true, false, 1), (false, true, 1), (true, true, 1)]
        {
            let mut counts = ImportCounts::default();
            let answer = json!({"outcome": "joined", "keywordsCut": is_cut_by_service});
            counts.count_appended(&progress, "x.mbox, message 1", is_cut, &answer);
            assert_eq!((counts.joined, counts.keywords_cut), (1, expected));
        }
    }
}
