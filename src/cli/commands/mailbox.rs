//! `mailbox list|create|rename|move|remove|role|set|subscribe|share`.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, methods, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output::{self, text};

/// `mailbox`
///
/// A mailbox is named by its path, names with / between them, or by its role.
#[derive(Debug, Subcommand)]
pub enum MailboxCommand {
    /// List all mailboxes with their counts.
    List(AccountArgs),
    /// Make a mailbox.
    Create {
        /// Whose.
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
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// The new name: the last part of the path alone.
        name: String,
    },
    /// Put a mailbox, with all below it, under another one.
    Move {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// Under which; "" for the top.
        parent: String,
    },
    /// Destroy a mailbox. One with mailboxes below it stays, and so does the Inbox.
    Remove {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// With what is in it: mail that is in no other mailbox is destroyed, and can be restored for a time.
        #[arg(long)]
        emails: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Say what a mailbox is for.
    Role {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// Its role, such as archive; "" for none.
        role: String,
    },
    /// Give a mailbox an attribute, such as color '#336699'.
    ///
    /// A mailbox may have up to 16 of them, under names of your choice. A color is # and six hexadecimal digits; what other
    /// names mean is for whoever reads them to say.
    Set {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// Its name: lower-case letters, digits, ".", "-" and "_".
        name: String,
        /// Its value; "" takes the attribute away.
        value: String,
    },
    /// Open a mailbox to somebody else, or close it again.
    Share {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
        mailbox: String,
        /// To whom: the name, an address or the id of an account.
        with: String,
        /// What he may do there: "read", "write" (read, add, remove, seen, keywords), "all", "none", or any of read, add,
        /// remove, seen, keywords, child, rename, delete and submit between commas. What he may do otherwise ends.
        rights: String,
    },
    /// Subscribe to a mailbox.
    Subscribe {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Which.
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

pub(in crate::cli) async fn run(command: MailboxCommand, context: &CommandContext) -> Result<(), Failure> {
    match command {
        MailboxCommand::List(whose) => list(&whose, context).await,
        MailboxCommand::Create { whose, path, role, sort_order } => {
            let arguments = json!({"path": path, "role": role, "sortOrder": sort_order});
            one(context, &whose, methods::MAILBOX_ADD, arguments, "made").await
        }
        MailboxCommand::Rename { whose, mailbox, name } => {
            change(context, &whose, json!({"mailbox": mailbox, "name": name}), "renamed").await
        }
        MailboxCommand::Move { whose, mailbox, parent } => {
            change(context, &whose, json!({"mailbox": mailbox, "parent": parent}), "moved").await
        }
        MailboxCommand::Role { whose, mailbox, role } => {
            change(context, &whose, json!({"mailbox": mailbox, "role": role}), "changed").await
        }
        MailboxCommand::Set { whose, mailbox, name, value } => {
            let value = if value.is_empty() { Value::Null } else { value.into() };
            let attributes = Value::Object([(name, value)].into_iter().collect());
            change(context, &whose, json!({"mailbox": mailbox, "attributes": attributes}), "changed").await
        }
        MailboxCommand::Share { whose, mailbox, with, rights } => {
            let rights = read_rights(&rights).map_err(|error| Failure::new(exit::USAGE, error))?;
            let done = if rights.is_empty() { "is closed" } else { "is open" };
            let given = if rights.is_empty() { Value::Null } else { rights.join(",").into() };
            let shares = Value::Object([(with.clone(), given)].into_iter().collect());
            change(context, &whose, json!({"mailbox": mailbox, "shareWith": shares}), &format!("{done} to {with}"))
                .await
        }
        MailboxCommand::Subscribe { whose, mailbox, off } => {
            let done = if off { "no longer subscribed" } else { "subscribed" };
            change(context, &whose, json!({"mailbox": mailbox, "isSubscribed": !off}), done).await
        }
        MailboxCommand::Remove { whose, mailbox, emails, yes } => {
            let what = if emails { " with what is in it" } else { "" };
            if !yes && !input::confirmed(&format!("Destroy {mailbox}{what}? Type yes: "))? {
                return Err(Failure::new(exit::USAGE, "not destroyed"));
            }
            let account = selected_account::find_account(&whose.account, context).await?;
            let arguments = json!({"accountId": account.id, "mailbox": mailbox, "emails": emails});
            let answer = context.client.call_by_name(methods::MAILBOX_REMOVE, arguments).await?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&format!("{mailbox} destroyed, {} messages taken out of it", text(&answer["emails"])));
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
    let answer = context.client.call_by_name(methods::MAILBOX_LIST, json!({"accountId": account.id})).await?;
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let row = |row: &Value| {
        let mut cells: Vec<String> = ["id", "path", "role"].iter().map(|key| text(&row[*key])).collect();
        cells.push(if row["isSubscribed"] == true { "yes" } else { "no" }.to_owned());
        let counts = ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"];
        cells.extend(counts.iter().map(|key| text(&row[*key])));
        let attributes = row["attributes"].as_object().into_iter().flatten();
        cells.push(attributes.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" "));
        let shared = row["shareWith"].as_object().into_iter().flatten();
        cells.push(shared.map(|(name, rights)| format!("{name}={}", short(rights))).collect::<Vec<_>>().join(" "));
        cells
    };
    let rows = answer["list"].as_array().into_iter().flatten().map(row).collect();
    output::table(
        &["ID", "PATH", "ROLE", "SUBSCRIBED", "EMAILS", "UNREAD", "THREADS", "UNREAD", "ATTRIBUTES", "SHARED"],
        rows,
    );
    Ok(())
}

/// Names of rights, as `read_rights` takes them.
fn short(rights: &Value) -> String {
    let names: Vec<&str> = rights.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.len() == RIGHTS.len() {
        return "all".into();
    }
    let words = RIGHTS.iter().filter(|(_, name)| names.contains(name)).map(|(short, _)| *short);
    words.collect::<Vec<_>>().join(",")
}

async fn change(context: &CommandContext, who: &AccountArgs, arguments: Value, done: &str) -> Result<(), Failure> {
    one(context, who, methods::MAILBOX_CHANGE, arguments, done).await
}

async fn one(
    context: &CommandContext,
    who: &AccountArgs,
    method: &str,
    arguments: Value,
    done: &str,
) -> Result<(), Failure> {
    let answer = selected_account::call_by_name(context, who, method, arguments).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&format!("{} {} {done}", text(&answer["id"]), text(&answer["path"])));
    }
    Ok(())
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
            (short(&json!(["mayReadItems", "maySubmit"])), short(&json!(RIGHTS.map(|(_, name)| name)))),
            ("read,submit".into(), "all".into())
        );
    }
}
