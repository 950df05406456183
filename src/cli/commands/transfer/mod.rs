//! The commands `mail import` and `mail export`, which copy mail between files and the service.
//!
//! - Files are opened relative to an open folder, and symbolic links below the given paths are not
//!   followed: a user who can write into a Maildir or an export cannot make root read or write
//!   elsewhere.
//! - mbox files are locked as mail programs do.
//! - Both commands can be interrupted at any time and run again. Then no message is missing, and
//!   none is twice in the same mailbox.

mod export;
mod folder;
mod import;
mod layout;
mod lock;
mod read;
mod scripts;
mod survey;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::control::selected_account::AccountArgs;

pub(super) use export::run as export;
pub(super) use import::run as import;

/// The most requests at the same time: enough for the commits of imported messages to share a sync.
const MAX_CONCURRENT_REQUESTS: usize = 24;
/// Bounds the messages in memory, in KiB, apart from the last one or two.
const MAX_KIB_IN_FLIGHT: u32 = 64 * 1024;

/// A format of mail in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Maildir++: one file for each message, with its flags in the name of the file.
    Maildir,
    /// mboxrd: one file for each mailbox.
    Mbox,
    /// One .eml file for each message, in one folder for each mailbox.
    Eml,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The format of the files [default: recognised by the command].
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Import into or below this mailbox [default: mailboxes named as the folders; the Inbox for
    /// single files].
    #[arg(long, value_name = "MAILBOX")]
    pub mailbox: Option<String>,
    /// Import messages that are marked as deleted, into the Trash [default: they are skipped].
    #[arg(long)]
    pub with_deleted: bool,
    /// Import messages only, and no Sieve scripts [default: the scripts in a Dovecot home, unless
    /// --mailbox is given].
    #[arg(long)]
    pub without_scripts: bool,
    /// Read everything, and import nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Maildirs, mbox files, .eml files, folders of them, or the home of a Dovecot user.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The format of the files.
    #[arg(long, default_value = "maildir", value_name = "FORMAT")]
    pub format: Format,
    /// Write nothing, and print how much an export into an empty folder would write.
    #[arg(long)]
    pub dry_run: bool,
    /// The folder to write into; created if it does not exist.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}

mod metadata_files {
    /// The path and the role of the mailbox, in a Maildir folder.
    pub(super) const CARD: &str = "restante-mailbox";
    /// All keywords of each file that has a keyword without a letter, in a Maildir folder
    /// (`transfer::ledger`).
    pub(super) const LEDGER: &str = "restante-keywords";
    pub(super) const DOVECOT_KEYWORDS: &str = "dovecot-keywords";
    /// The empty file that marks a folder of a Maildir++.
    pub(super) const MAILDIR_FOLDER: &str = "maildirfolder";
    /// Path and role in a tree of .eml files, where names with a dot are no mailboxes.
    pub(super) const TREE_CARD: &str = ".restante-mailbox";
    /// The keywords of the .eml files in a folder.
    pub(super) const TREE_LEDGER: &str = ".restante-keywords";

    /// Returns the name of the file with the path and role of the mailbox in `STEM.mbox`.
    pub(super) fn mbox_card(stem: &str) -> String {
        format!(".{stem}.card")
    }
}
