//! `mail import` and `mail export`: files to mail and back, through the running service.
//!
//! - `survey` finds what there is to import, `read` reads it, `import` sends it; `export` fetches,
//!   and `layout` writes.
//! - Files are opened below a folder that is held open, and no symbolic link is followed
//!   (`folder`): whoever may write into a Maildir or into the place of an export leads nobody out
//!   of it, also where root runs the command.
//! - Mailbox files are locked as mail programs do (`lock`).
//!
//! What must hold: each can be interrupted at any instant and run again; then nothing is there
//! twice, and nothing is missing.

mod export;
mod folder;
mod import;
mod layout;
mod lock;
mod read;
mod survey;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::control::selected_account::AccountArgs;

pub(super) use export::run as export;
pub(super) use import::run as import;

/// Requests under way at once: enough that their commits share a sync.
const MAX_CONCURRENT_REQUESTS: usize = 24;
/// KiB of messages under way at once.
const MAX_KIB_IN_FLIGHT: u32 = 64 * 1024;

/// A form of mail in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Maildir++: a file for each message, its flags in its name, folders side by side.
    Maildir,
    /// A file for each mailbox (mboxrd).
    Mbox,
    /// A .eml file for each message, in a folder for each mailbox.
    Eml,
}

/// `mail import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// What the files are; found out where it is not given.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Into or below this mailbox; where the files say if not given, and for single files the
    /// Inbox.
    #[arg(long, value_name = "MAILBOX")]
    pub mailbox: Option<String>,
    /// File messages that are marked as deleted in the Trash; they are left out if not given.
    #[arg(long)]
    pub with_deleted: bool,
    /// Read everything, and file nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Maildirs, mailbox files, messages, or folders of them.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// `mail export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// What is to be written.
    #[arg(long, default_value = "maildir", value_name = "FORMAT")]
    pub format: Format,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The folder to write into; it is made where it is not there.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}

/// Names of what lies beside the mail.
mod beside {
    /// Place and role of a mailbox, in its Maildir folder.
    pub(super) const CARD: &str = "restante-mailbox";
    /// Keywords that names do not hold, in a Maildir folder.
    pub(super) const LEDGER: &str = "restante-keywords";
    /// Dovecot's table of keywords.
    pub(super) const MESSAGES: &str = "dovecot-keywords";
    /// What makes a folder of a Maildir++ one.
    pub(super) const MAILDIR_FOLDER: &str = "maildirfolder";
    /// The same two in a tree, where what begins with a dot is no mailbox.
    pub(super) const TREE_CARD: &str = ".restante-mailbox";
    pub(super) const TREE_LEDGER: &str = ".restante-keywords";

    /// The card beside a mailbox file.
    pub(super) fn mbox_card(stem: &str) -> String {
        format!(".{stem}.card")
    }
}
