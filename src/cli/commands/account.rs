//! The command `account`.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use clap::{Args, Subcommand};

use crate::cli::commands::token::TokenCommand;
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output;
use crate::config::ByteSize;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::accounts::{
    AccountAdd, AccountAddArguments, AccountAlias, AccountAliasDomain, AccountAliasDomains,
    AccountAnswer, AccountChanges, AccountGet, AccountList, AccountPassword, AccountRemove,
    AccountSet, AliasArguments, AliasDomain, AliasDomainArguments, PasswordArguments,
};
use crate::wire::jmap::admin::{AccountRef, EmptyArguments};
use crate::wire::jmap::arguments::Nullable;

#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account.
    Add {
        /// The primary address of the account.
        address: String,
        /// The owner's name, as replies show it.
        #[arg(long, value_name = "NAME")]
        display_name: Option<String>,
        /// The name for commands and logins [default: the address].
        #[arg(long)]
        name: Option<String>,
        /// Another address of the account; may be given several times.
        #[arg(long = "alias", value_name = "ADDRESS")]
        aliases: Vec<String>,
        /// The owner's IANA time zone, such as Europe/Berlin.
        #[arg(long)]
        zone: Option<String>,
        /// The most bytes of mail that the account may hold, such as "2 GiB".
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        /// The Unix user who may manage the account.
        #[arg(long, value_name = "USER")]
        unix_user: Option<String>,
        /// File mail to user+Mailbox@ into that mailbox.
        #[arg(long)]
        detail_files: bool,
        /// The first mailboxes: one for each usual role, or the Inbox only [default: as
        /// configured].
        #[arg(long, value_parser = ["roles", "inbox"], value_name = "WHICH")]
        mailboxes: Option<String>,
    },
    /// List all accounts.
    List,
    /// Show one account.
    Show {
        /// The name of the account, or any of its addresses.
        account: String,
    },
    /// Change an account. Settings without an option stay as they are.
    Set(Box<AccountSetArgs>),
    /// Make one domain an alias of another, or list the alias domains.
    ///
    /// Mail to user@ALIAS-DOMAIN is then delivered as mail to user@TARGET-DOMAIN. Without arguments
    /// the command lists all alias domains.
    Domain {
        /// The domain that becomes an alias.
        #[arg(value_name = "ALIAS-DOMAIN")]
        alias: Option<String>,
        /// The domain whose accounts receive the mail.
        #[arg(value_name = "TARGET-DOMAIN")]
        target: Option<String>,
        /// Remove this alias domain.
        #[arg(long, requires = "alias", conflicts_with = "target")]
        remove: bool,
    },
    /// Remove an account with all its mail.
    Remove {
        /// The name of the account, or any of its addresses.
        account: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Add an address to an account, or remove one.
    ///
    /// The address @example.org is a catch-all: it receives mail to every address in that domain
    /// that no account has.
    Alias {
        /// The name of the account, or any of its addresses.
        account: String,
        /// The address, or @DOMAIN.
        address: String,
        /// Remove the address.
        #[arg(long)]
        remove: bool,
    },
    /// Set a password, read from the terminal or from standard input, or remove one.
    Password {
        /// The name of the account, or any of its addresses.
        account: String,
        /// The label of the password. An account has one password for each label.
        #[arg(long, default_value = "default", value_name = "LABEL")]
        label: String,
        /// Remove the password with this label.
        #[arg(long)]
        remove: bool,
    },
    /// Create, list and remove tokens, with which programs log in.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct AccountSetArgs {
    /// The name of the account, or any of its addresses.
    pub account: String,
    /// The owner's name, as replies show it; "" for none.
    #[arg(long, group = "change", value_name = "NAME")]
    pub display_name: Option<String>,
    /// The owner's IANA time zone; "" for the zone of the configuration.
    #[arg(long, group = "change")]
    pub zone: Option<String>,
    /// The most bytes of mail that the account may hold, such as "2 GiB"; "" for no limit.
    #[arg(long, group = "change", value_name = "SIZE")]
    pub quota: Option<String>,
    /// The most messages that the account may hold; "" for no limit.
    #[arg(long, group = "change", value_name = "NUMBER")]
    pub quota_emails: Option<String>,
    /// The Unix user who may manage the account; "" for none.
    #[arg(long, group = "change", value_name = "USER")]
    pub unix_user: Option<String>,
    /// File mail to user+Mailbox@ into that mailbox.
    #[arg(long, group = "change", conflicts_with = "no_detail_files")]
    pub detail_files: bool,
    /// File mail to user+Mailbox@ into the Inbox.
    #[arg(long, group = "change")]
    pub no_detail_files: bool,
    /// Accept mail again.
    #[arg(long, group = "change", conflicts_with = "inactive")]
    pub active: bool,
    /// Refuse mail (550 5.2.1); stored mail stays.
    #[arg(long, group = "change")]
    pub inactive: bool,
}

/// A longer line is cut here. The server accepts fewer bytes, so it refuses what is left.
const MAX_PASSWORD_BYTES: u64 = 4096;

pub(in crate::cli) async fn run(
    command: AccountCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    let client = &context.client;
    match command {
        AccountCommand::Add {
            address,
            display_name,
            name,
            aliases,
            zone,
            quota,
            unix_user,
            detail_files,
            mailboxes,
        } => {
            let args = AccountAddArguments {
                address: address.clone(),
                name,
                display_name,
                aliases,
                zone,
                quota_octets: quota.as_deref().map(byte_size).transpose()?,
                quota_emails: None,
                unix_user,
                detail_files,
                mailboxes,
            };
            let answer = client.call::<AccountAdd>(args).await?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&format!("account {} ({address})", answer.id));
            }
        }
        AccountCommand::List => list(context).await?,
        AccountCommand::Show { account } => {
            let answer = client.call::<AccountGet>(AccountRef::by_name(&account)).await;
            let answer = answer.map_err(|failure| failure.naming_account(&account))?;
            show(&answer, context);
        }
        AccountCommand::Set(args) => {
            let arguments = With(AccountRef::by_name(&args.account), Nullable(changes(&args)?));
            let answer = client.call::<AccountSet>(arguments).await;
            let answer = answer.map_err(|failure| failure.naming_account(&args.account))?;
            show(&answer, context);
        }
        AccountCommand::Domain { alias, target, remove } => {
            domain(alias, target, remove, context).await?;
        }
        AccountCommand::Remove { account, yes } => {
            if !yes
                && !input::confirmed(&format!("Remove {account} with all its mail? Type yes: "))?
            {
                return Err(Failure::new(exit::USAGE, "not removed"));
            }
            let answer = client.call::<AccountRemove>(AccountRef::by_name(&account)).await;
            answer.map_err(|failure| failure.naming_account(&account))?;
            output::removed(context.json, &account, &format!("{account} removed"));
        }
        AccountCommand::Alias { account, address, remove } => {
            let id = id_for_json(&account, context).await?;
            let args = AliasArguments { address: address.clone(), remove };
            let args = With(AccountRef::by_name(&account), args);
            let answer = client.call::<AccountAlias>(args).await;
            answer.map_err(|failure| failure.naming_account(&account))?;
            let verb = if remove { "no longer leads" } else { "leads" };
            let done = format!("{address} {verb} to {account}");
            print_changed(id.as_deref(), &done, context).await?;
        }
        AccountCommand::Password { account, label, remove } => {
            let password = if remove { None } else { Some(read_password()?) };
            let id = id_for_json(&account, context).await?;
            let args = PasswordArguments { name: Some(label.clone()), password };
            let args = With(AccountRef::by_name(&account), args);
            let answer = client.call::<AccountPassword>(args).await;
            answer.map_err(|failure| failure.naming_account(&account))?;
            let verb = if remove { "removed" } else { "set" };
            let done = format!("password `{label}` of {account} {verb}");
            print_changed(id.as_deref(), &done, context).await?;
        }
        AccountCommand::Token(command) => {
            crate::cli::commands::token::run(command, context).await?;
        }
    }
    Ok(())
}

async fn list(context: &CommandContext) -> Result<(), Failure> {
    let answer = context.client.call::<AccountList>(EmptyArguments {}).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let rows = answer.list.into_iter().map(|row| {
        let others = other_addresses(&row);
        let active = if row.active { "" } else { "inactive" };
        vec![row.id, row.name, others, row.display_name.unwrap_or_default(), active.to_owned()]
    });
    output::table(&["ID", "NAME", "OTHER ADDRESSES", "OWNER", ""], rows.collect());
    Ok(())
}

/// With `--json`, returns the id of an account that is about to be changed: after the change the
/// account may no longer have the address that `account` names.
async fn id_for_json(account: &str, context: &CommandContext) -> Result<Option<String>, Failure> {
    match context.json {
        true => Ok(Some(find_account(account, context).await?.id)),
        false => Ok(None),
    }
}

/// Prints what was done, or if an id is given the account as it is now.
async fn print_changed(
    id: Option<&str>,
    done: &str,
    context: &CommandContext,
) -> Result<(), Failure> {
    match id {
        Some(id) => {
            output::json(&context.client.call::<AccountGet>(AccountRef::by_id(id)).await?);
        }
        None => output::line(done),
    }
    Ok(())
}

fn show(account: &AccountAnswer, context: &CommandContext) {
    if context.json {
        output::json(account);
    } else {
        output::facts(account);
    }
}

fn byte_size(size: &str) -> Result<u64, Failure> {
    size.parse::<ByteSize>()
        .map(|size| size.0)
        .map_err(|problem| Failure::new(exit::USAGE, problem))
}

/// Converts the options to changes. `None`, without the option, leaves a value as it is;
/// `Some(None)`, from an empty text, removes it.
fn changes(args: &AccountSetArgs) -> Result<AccountChanges, Failure> {
    let text = |option: &Option<String>| {
        option.clone().map(|text| Some(text).filter(|text| !text.is_empty()))
    };
    let number = |option: &Option<String>, read: fn(&str) -> Result<u64, Failure>| {
        text(option).map(|value| value.map(|text| read(&text)).transpose()).transpose()
    };
    let flag = |yes: bool, no: bool| (yes || no).then_some(Some(yes));
    Ok(AccountChanges {
        display_name: text(&args.display_name),
        unix_user: text(&args.unix_user),
        zone: text(&args.zone),
        quota_octets: number(&args.quota, byte_size)?,
        quota_emails: number(&args.quota_emails, whole_number)?,
        active: flag(args.active, args.inactive),
        detail_files: flag(args.detail_files, args.no_detail_files),
    })
}

fn whole_number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::new(exit::USAGE, format!("`{text}` is not a whole number")))
}

async fn domain(
    alias: Option<String>,
    target: Option<String>,
    remove: bool,
    context: &CommandContext,
) -> Result<(), Failure> {
    let Some(alias) = alias else {
        let answer = context.client.call::<AccountAliasDomains>(EmptyArguments {}).await?;
        if context.json {
            output::json(&answer.list);
        } else {
            let rows = answer.list.into_iter().map(|row| vec![row.domain, row.target]).collect();
            output::table(&["DOMAIN", "ALIAS OF"], rows);
        }
        return Ok(());
    };
    if target.is_none() && !remove {
        return Err(Failure::new(
            exit::USAGE,
            format!("name the domain of which {alias} is an alias, or say --remove"),
        ));
    }
    let args = AliasDomainArguments { domain: alias.clone(), target: target.clone(), remove };
    context.client.call::<AccountAliasDomain>(args).await?;
    match target {
        Some(target) if context.json => output::json(&AliasDomain { domain: alias, target }),
        Some(target) => output::line(&format!("{alias} is an alias of {target}")),
        None => {
            let done = format!("{alias} is no longer an alias domain");
            output::removed(context.json, &alias, &done);
        }
    }
    Ok(())
}

/// Returns the addresses and catch-alls of an account, without the primary address.
fn other_addresses(row: &AccountAnswer) -> String {
    let all = row.addresses.iter().chain(&row.catch_alls);
    let others = all.filter(|address| **address != row.address);
    others.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Reads a password from the terminal or from standard input. There is no option for it, because
/// every user of the machine can read the arguments of a process.
fn read_password() -> Result<String, Failure> {
    let read_failure =
        |error: std::io::Error| Failure::new(exit::NO_INPUT, format!("no password: {error}"));
    let stdin = std::io::stdin();
    let no_echo = stdin.is_terminal().then(NoEcho::begin).transpose()?;
    let mut line = String::new();
    stdin.lock().take(MAX_PASSWORD_BYTES).read_line(&mut line).map_err(read_failure)?;
    drop(no_echo);
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::new(exit::NO_INPUT, "the password is empty"));
    }
    Ok(password.to_owned())
}

/// Keeps the terminal from showing what is typed, until this value is dropped.
struct NoEcho;

impl NoEcho {
    /// Asks for the password, after which nothing that is typed is shown.
    fn begin() -> Result<Self, Failure> {
        output::raw("Password: ");
        drop(std::io::stdout().flush());
        if stty("-echo") {
            Ok(Self)
        } else {
            Err(Failure::new(
                exit::SOFTWARE,
                "the terminal would show the password: pass it on standard input",
            ))
        }
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        stty("echo");
        output::raw("\n");
    }
}

/// Sets a mode of the terminal. Returns false if that failed.
fn stty(mode: &str) -> bool {
    std::process::Command::new("stty").arg(mode).status().is_ok_and(|status| status.success())
}
