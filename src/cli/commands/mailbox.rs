//! The command `mailbox`.

use clap::Subcommand;

use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mailboxes::{
    MailboxAdd, MailboxAddArguments, MailboxChange, MailboxChangeArguments, MailboxFacts,
    MailboxList, MailboxRemove, MailboxRemoveArguments,
};

#[derive(Debug, Subcommand)]
pub enum MailboxCommand {
    /// List all mailboxes with their counts, attributes and shares.
    List(AccountArgs),
    /// Create a mailbox.
    Create {
        #[command(flatten)]
        account: AccountArgs,
        /// The path of the mailbox, such as Work/2026. Its parent must exist.
        path: String,
        /// The role of the mailbox, such as archive. No other mailbox may have it.
        #[arg(long)]
        role: Option<String>,
        /// The place of the mailbox in lists: lower numbers come first.
        #[arg(long, value_name = "NUMBER")]
        sort_order: Option<u32>,
    },
    /// Rename a mailbox.
    Rename {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The new name: only the last part of the path.
        name: String,
    },
    /// Move a mailbox, with its children, to another parent.
    Move {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The new parent, named in the same way; "" for none.
        parent: String,
    },
    /// Destroy a mailbox. The Inbox and mailboxes with children cannot be destroyed.
    Remove {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// Remove the mail in it, too. Mail that is in no other mailbox is destroyed; it can be
        /// restored for some days.
        #[arg(long)]
        emails: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Set the role of a mailbox.
    Role {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The role, such as archive; "" for none.
        role: String,
    },
    /// Set an attribute of a mailbox, such as color '#336699'.
    ///
    /// A mailbox may have up to 16 attributes with names of your choice. The value of color is #
    /// and six hexadecimal digits; another value is text of up to 255 bytes.
    Set {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The name of the attribute: lower-case letters, digits, ".", "-" and "_".
        name: String,
        /// The value; "" removes the attribute.
        value: String,
    },
    /// Share a mailbox with another account, or stop sharing it.
    Share {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The other account: its name, any of its addresses, or its id.
        with: String,
        /// The rights of that account, which replace those that it had: "read", "write" (read, add,
        /// remove, seen, keywords), "all", "none", or a list, separated by commas, of read, add,
        /// remove, seen, keywords, child, rename, delete and submit.
        rights: String,
    },
    /// Subscribe to a mailbox.
    Subscribe {
        #[command(flatten)]
        account: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// End the subscription.
        #[arg(long)]
        off: bool,
    },
}

/// Each right's name on the command line and in JMAP (RFC 8621 §2).
const RIGHTS: [(&str, &str); 9] = [
    ("read", "mayReadItems"),
    ("add", "mayAddItems"),
    ("remove", "mayRemoveItems"),
    ("seen", "maySetSeen"),
    ("keywords", "maySetKeywords"),
    ("child", "mayCreateChild"),
    ("rename", "mayRename"),
    ("delete", "mayDelete"),
    ("submit", "maySubmit"),
];

pub(in crate::cli) async fn run(
    command: MailboxCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        MailboxCommand::List(account) => list(&account, context).await,
        MailboxCommand::Create { account, path, role, sort_order } => {
            let args =
                MailboxAddArguments { path, role, sort_order, ..MailboxAddArguments::default() };
            let mailbox = selected_account::call::<MailboxAdd, _>(context, &account, args).await?;
            print(context, &mailbox, "created");
            Ok(())
        }
        MailboxCommand::Rename { account, mailbox, name } => {
            let args = MailboxChangeArguments { name: Some(name), ..change_of(mailbox) };
            change(context, &account, args, "renamed").await
        }
        MailboxCommand::Move { account, mailbox, parent } => {
            let args = MailboxChangeArguments { parent: Some(parent), ..change_of(mailbox) };
            change(context, &account, args, "moved").await
        }
        MailboxCommand::Role { account, mailbox, role } => {
            let args = MailboxChangeArguments { role: Some(role), ..change_of(mailbox) };
            change(context, &account, args, "changed").await
        }
        MailboxCommand::Set { account, mailbox, name, value } => {
            let attributes = [(name, Some(value).filter(|value| !value.is_empty()))].into();
            let args = MailboxChangeArguments { attributes, ..change_of(mailbox) };
            change(context, &account, args, "changed").await
        }
        MailboxCommand::Share { account, mailbox, with, rights } => {
            let rights = read_rights(&rights).map_err(|error| Failure::new(exit::USAGE, error))?;
            let done = if rights.is_empty() { "is no longer shared" } else { "is shared" };
            let done = format!("{done} with {with}");
            let rights = (!rights.is_empty()).then(|| rights.join(","));
            let share_with = [(with, rights)].into();
            let args = MailboxChangeArguments { share_with, ..change_of(mailbox) };
            let changed = change(context, &account, args, &done).await;
            changed.map_err(|failure| failure.naming_option("shareWith", "mailbox share"))
        }
        MailboxCommand::Subscribe { account, mailbox, off } => {
            let done = if off { "no longer subscribed" } else { "subscribed" };
            let args = MailboxChangeArguments { is_subscribed: Some(!off), ..change_of(mailbox) };
            change(context, &account, args, done).await
        }
        MailboxCommand::Remove { account, mailbox, emails, yes } => {
            let what = if emails { " and the mail in it" } else { "" };
            if !yes && !input::confirmed(&format!("Destroy {mailbox}{what}? Type yes: "))? {
                return Err(Failure::new(exit::USAGE, "the mailbox was not destroyed"));
            }
            let args = MailboxRemoveArguments { mailbox: mailbox.clone(), emails };
            let answer =
                selected_account::call::<MailboxRemove, _>(context, &account, args).await?;
            if context.json {
                output::json(&answer);
            } else {
                let emails = answer.emails;
                output::line(&format!("{mailbox} destroyed, {emails} messages removed from it"));
            }
            Ok(())
        }
    }
}

/// Returns the JMAP names of the rights in a comma-separated list. `all` and `write` stand for
/// several rights; `none`, alone, for no right.
///
/// # Errors
/// Which word names no right.
fn read_rights(text: &str) -> Result<Vec<&'static str>, String> {
    let mut rights = Vec::new();
    for word in text.split(',').map(str::trim) {
        let named = RIGHTS.iter().filter(|(short, _)| match word {
            "all" => true,
            "write" => ["read", "add", "remove", "seen", "keywords"].contains(short),
            word => *short == word,
        });
        let count_before = rights.len();
        rights.extend(named.map(|(_, name)| *name));
        if rights.len() == count_before && !(word == "none" && text.trim() == "none") {
            return Err(format!("`{word}` is not a right: see `restante mailbox share --help`"));
        }
    }
    Ok(rights)
}

async fn list(args: &AccountArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account, context).await?;
    let answer = context.client.call::<MailboxList>(AccountRef::by_id(&account.id)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let row = |row: MailboxFacts| {
        let totals = row.totals;
        let counts = [
            totals.total_emails,
            totals.unread_emails,
            totals.total_threads,
            totals.unread_threads,
        ];
        let subscribed = if row.is_subscribed { "yes" } else { "no" };
        let mut cells = vec![row.id, row.path, row.role.unwrap_or_default(), subscribed.to_owned()];
        cells.extend(counts.map(|count| count.to_string()));
        let attributes = row.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        cells.push(attributes.collect::<Vec<_>>().join(" "));
        let shares = row.share_with.iter();
        let shares = shares.map(|(name, rights)| format!("{name}={}", short(rights)));
        cells.push(shares.collect::<Vec<_>>().join(" "));
        cells
    };
    let rows = answer.list.into_iter().map(row).collect();
    output::table(
        &[
            "ID",
            "PATH",
            "ROLE",
            "SUBSCRIBED",
            "EMAILS",
            "UNREAD",
            "THREADS",
            "UNREAD THREADS",
            "ATTRIBUTES",
            "SHARED",
        ],
        rows,
    );
    Ok(())
}

/// Takes the JMAP names of rights, and returns their names on the command line, separated by
/// commas; `all` for all rights.
fn short(rights: &[String]) -> String {
    if rights.len() == RIGHTS.len() {
        return "all".into();
    }
    let words = RIGHTS
        .iter()
        .filter(|(_, name)| rights.iter().any(|right| right == name))
        .map(|(short, _)| *short);
    words.collect::<Vec<_>>().join(",")
}

/// Returns the arguments of a change of this mailbox that changes nothing yet.
fn change_of(mailbox: String) -> MailboxChangeArguments {
    MailboxChangeArguments { mailbox, ..MailboxChangeArguments::default() }
}

/// Changes a mailbox, and prints it. `done` says after its path what was done.
async fn change(
    context: &CommandContext,
    account: &AccountArgs,
    args: MailboxChangeArguments,
    done: &str,
) -> Result<(), Failure> {
    let mailbox = selected_account::call::<MailboxChange, _>(context, account, args).await?;
    print(context, &mailbox, done);
    Ok(())
}

fn print(context: &CommandContext, mailbox: &MailboxFacts, done: &str) {
    if context.json {
        output::json(mailbox);
    } else {
        output::line(&format!("{} {} {done}", mailbox.id, mailbox.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_and_shortened() {
        assert_eq!(read_rights("read"), Ok(vec!["mayReadItems"]));
        assert_eq!(read_rights("read, child"), Ok(vec!["mayReadItems", "mayCreateChild"]));
        assert_eq!(
            (read_rights("write").map(|all| all.len()), read_rights("all").map(|all| all.len())),
            (Ok(5), Ok(9))
        );
        assert_eq!(read_rights("none"), Ok(vec![]));
        for wrong in ["", "fly", "read,fly", "read,none", "none,none"] {
            assert!(read_rights(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (
                short(&["mayReadItems", "maySubmit"].map(str::to_owned)),
                short(&RIGHTS.map(|(_, name)| name.to_owned()))
            ),
            ("read,submit".into(), "all".into())
        );
    }
}
