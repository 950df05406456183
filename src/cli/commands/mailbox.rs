//! `mailbox list|create|rename|move|remove|role|set|subscribe|share`.

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

/// `mailbox`
///
/// A mailbox is named by its path, names with / between them, or by its role.
#[derive(Debug, Subcommand)]
pub enum MailboxCommand {
    /// List all mailboxes with their counts.
    List(AccountArgs),
    /// Make a mailbox.
    Create {
        #[command(flatten)]
        whose: AccountArgs,
        /// Its path, such as Work/2026; all above it must be there.
        path: String,
        /// Its role, such as archive; no other mailbox may have it.
        #[arg(long)]
        role: Option<String>,
        /// Where it stands among the others: the lower, the earlier.
        #[arg(long, value_name = "NUMBER")]
        sort_order: Option<u32>,
    },
    /// Give a mailbox another name.
    Rename {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The new name: the last part of the path alone.
        name: String,
    },
    /// Put a mailbox, with all below it, under another one.
    Move {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The mailbox under which it goes; "" for the top.
        parent: String,
    },
    /// Destroy a mailbox. One with mailboxes below it stays, and so does the Inbox.
    Remove {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// With what is in it: mail that is in no other mailbox is destroyed, and can be restored
        /// for a time.
        #[arg(long)]
        emails: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Say what a mailbox is for.
    Role {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// Its role, such as archive; "" for none.
        role: String,
    },
    /// Give a mailbox an attribute, such as color '#336699'.
    ///
    /// A mailbox may have up to 16 of them, under names of your choice. A color is # and six
    /// hexadecimal digits; what other names mean is for whoever reads them to say.
    Set {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// Its name: lower-case letters, digits, ".", "-" and "_".
        name: String,
        /// Its value; "" takes the attribute away.
        value: String,
    },
    /// Open a mailbox to somebody else, or close it again.
    Share {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// The account that gets the rights: its name, an address of it, or its id.
        with: String,
        /// What that account may do there: "read", "write" (read, add, remove, seen, keywords),
        /// "all", "none", or any of read, add, remove, seen, keywords, child, rename, delete and
        /// submit between commas. Every other right ends.
        rights: String,
    },
    /// Subscribe to a mailbox.
    Subscribe {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        mailbox: String,
        /// End the subscription.
        #[arg(long)]
        off: bool,
    },
}

/// Rights, as they are written here and in JMAP (RFC 8621 §2).
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
        MailboxCommand::List(whose) => list(&whose, context).await,
        MailboxCommand::Create { whose, path, role, sort_order } => {
            let args =
                MailboxAddArguments { path, role, sort_order, ..MailboxAddArguments::default() };
            say(
                context,
                &selected_account::call::<MailboxAdd, _>(context, &whose, args).await?,
                "made",
            );
            Ok(())
        }
        MailboxCommand::Rename { whose, mailbox, name } => {
            let name = Some(name);
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, name, ..nothing() },
                "renamed",
            )
            .await
        }
        MailboxCommand::Move { whose, mailbox, parent } => {
            let parent = Some(parent);
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, parent, ..nothing() },
                "moved",
            )
            .await
        }
        MailboxCommand::Role { whose, mailbox, role } => {
            let role = Some(role);
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, role, ..nothing() },
                "changed",
            )
            .await
        }
        MailboxCommand::Set { whose, mailbox, name, value } => {
            let attributes = [(name, Some(value).filter(|value| !value.is_empty()))].into();
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, attributes, ..nothing() },
                "changed",
            )
            .await
        }
        MailboxCommand::Share { whose, mailbox, with, rights } => {
            let rights = read_rights(&rights).map_err(|error| Failure::new(exit::USAGE, error))?;
            let done = if rights.is_empty() { "is closed" } else { "is open" };
            let given = (!rights.is_empty()).then(|| rights.join(","));
            let done = format!("{done} to {with}");
            let share_with = [(with, given)].into();
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, share_with, ..nothing() },
                &done,
            )
            .await
        }
        MailboxCommand::Subscribe { whose, mailbox, off } => {
            let done = if off { "no longer subscribed" } else { "subscribed" };
            let is_subscribed = Some(!off);
            change(
                context,
                &whose,
                MailboxChangeArguments { mailbox, is_subscribed, ..nothing() },
                done,
            )
            .await
        }
        MailboxCommand::Remove { whose, mailbox, emails, yes } => {
            let what = if emails { " with what is in it" } else { "" };
            if !yes && !input::confirmed(&format!("Destroy {mailbox}{what}? Type yes: "))? {
                return Err(Failure::new(exit::USAGE, "not destroyed"));
            }
            let args = MailboxRemoveArguments { mailbox: mailbox.clone(), emails };
            let answer = selected_account::call::<MailboxRemove, _>(context, &whose, args).await?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&format!(
                    "{mailbox} destroyed, {} messages taken out of it",
                    answer.emails
                ));
            }
            Ok(())
        }
    }
}

/// The names of rights that are meant by a word, or by words between commas.
fn read_rights(text: &str) -> Result<Vec<&'static str>, String> {
    let mut rights = Vec::new();
    for word in text.split(',').map(str::trim) {
        let one = RIGHTS.iter().filter(|(short, _)| match word {
            "all" => true,
            "write" => ["read", "add", "remove", "seen", "keywords"].contains(short),
            word => *short == word,
        });
        let before = rights.len();
        rights.extend(one.map(|(_, name)| *name));
        if rights.len() == before && !(word == "none" && text.trim() == "none") {
            return Err(format!("no right `{word}`: see `restante mailbox share --help`"));
        }
    }
    Ok(rights)
}

async fn list(who: &AccountArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&who.account, context).await?;
    let answer = context.client.call::<MailboxList>(AccountRef::by_id(&account.id)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let pairs = |all: Vec<String>| all.join(" ");
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
        cells.push(pairs(
            row.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ));
        cells.push(pairs(
            row.share_with
                .iter()
                .map(|(name, rights)| format!("{name}={}", short(rights)))
                .collect(),
        ));
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
            "UNREAD",
            "ATTRIBUTES",
            "SHARED",
        ],
        rows,
    );
    Ok(())
}

/// Names of rights, as `read_rights` takes them.
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

fn nothing() -> MailboxChangeArguments {
    MailboxChangeArguments::default()
}

async fn change(
    context: &CommandContext,
    who: &AccountArgs,
    args: MailboxChangeArguments,
    done: &str,
) -> Result<(), Failure> {
    say(context, &selected_account::call::<MailboxChange, _>(context, who, args).await?, done);
    Ok(())
}

/// Says what was done with a mailbox.
fn say(context: &CommandContext, mailbox: &MailboxFacts, done: &str) {
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
    fn words_for_rights() {
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
