//! `account add|list|show|set|remove|alias|domain|password`; `account token` stands in `token`.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use clap::{Args, Subcommand};

use crate::cli::commands::token::TokenCommand;
use crate::cli::control::CommandContext;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output;
use crate::config::ByteSize;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::accounts::{
    AccountAdd, AccountAddArguments, AccountAlias, AccountAliasDomain, AccountAliasDomains,
    AccountAnswer, AccountChanges, AccountGet, AccountList, AccountPassword, AccountRemove,
    AccountSet, AliasArguments, AliasDomainArguments, PasswordArguments,
};
use crate::wire::jmap::admin::{AccountRef, EmptyArguments};
use crate::wire::jmap::arguments::Nullable;

/// `account`
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account.
    Add {
        /// Its primary address.
        address: String,
        /// The owner's name, as replies show it.
        #[arg(long)]
        display_name: Option<String>,
        /// What commands and logins call it; the address if not given.
        #[arg(long)]
        name: Option<String>,
        /// More addresses of it.
        #[arg(long = "alias", value_name = "ADDRESS")]
        aliases: Vec<String>,
        /// The owner's IANA time zone, such as Europe/Berlin.
        #[arg(long)]
        zone: Option<String>,
        /// The most that it may hold, such as "2 GiB".
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        /// The Unix user who may manage it.
        #[arg(long, value_name = "USER")]
        unix_user: Option<String>,
        /// Let user+Mailbox@ file into that mailbox.
        #[arg(long)]
        detail_files: bool,
        /// What it begins with: a mailbox for each usual role, or the Inbox alone. As the
        /// configuration says if not given.
        #[arg(long, value_parser = ["roles", "inbox"], value_name = "WHICH")]
        mailboxes: Option<String>,
    },
    /// List all accounts.
    List,
    /// Show one account.
    Show {
        /// Its name or any of its addresses.
        account: String,
    },
    /// Change an account; what is not named stays as it is.
    Set(Box<AccountSetArgs>),
    /// Let one domain stand for another, or list those that do.
    ///
    /// user@ALIAS-DOMAIN is then user@TARGET-DOMAIN, whoever that is. Without arguments: the list.
    Domain {
        /// The domain that stands for another.
        #[arg(value_name = "ALIAS-DOMAIN")]
        alias: Option<String>,
        /// The domain whose accounts get the mail.
        #[arg(value_name = "TARGET-DOMAIN")]
        target: Option<String>,
        /// Let it stand for nothing.
        #[arg(long, requires = "alias", conflicts_with = "target")]
        remove: bool,
    },
    /// Remove an account with all its mail.
    Remove {
        /// Its name or any of its addresses.
        account: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Give an account one more address, or take one away.
    ///
    /// An address @example.org is a catch-all: everything in that domain that nobody else claims.
    Alias {
        /// Its name or any of its addresses.
        account: String,
        /// The other address, or @DOMAIN.
        address: String,
        /// Take it away.
        #[arg(long)]
        remove: bool,
    },
    /// Set a password, read from the terminal or from standard input.
    Password {
        /// Its name or any of its addresses.
        account: String,
        /// What the password is for; each label has a password of its own.
        #[arg(long, default_value = "default", value_name = "LABEL")]
        label: String,
        /// Take that password away.
        #[arg(long)]
        remove: bool,
    },
    /// Make, list and take away tokens, by which programs log in.
    #[command(subcommand)]
    Token(TokenCommand),
}

/// `account set`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct AccountSetArgs {
    /// Its name or any of its addresses.
    pub account: String,
    /// The owner's name, as replies show it; "" for none.
    #[arg(long, group = "change", value_name = "NAME")]
    pub display_name: Option<String>,
    /// The owner's IANA time zone; "" for the configuration's.
    #[arg(long, group = "change")]
    pub zone: Option<String>,
    /// The most that it may hold, such as "2 GiB"; "" for no bound.
    #[arg(long, group = "change", value_name = "SIZE")]
    pub quota: Option<String>,
    /// The most messages that it may hold; "" for no bound.
    #[arg(long, group = "change", value_name = "NUMBER")]
    pub quota_emails: Option<String>,
    /// The Unix user who may manage it; "" for none.
    #[arg(long, group = "change", value_name = "USER")]
    pub unix_user: Option<String>,
    /// Let user+Mailbox@ file into that mailbox.
    #[arg(long, group = "change", conflicts_with = "no_detail_files")]
    pub detail_files: bool,
    /// File all into the Inbox.
    #[arg(long, group = "change")]
    pub no_detail_files: bool,
    /// Take mail.
    #[arg(long, group = "change", conflicts_with = "inactive")]
    pub active: bool,
    /// Take no more mail (550 5.2.1); what is there stays.
    #[arg(long, group = "change")]
    pub inactive: bool,
}

/// The longest password that is read.
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
                quota_octets: quota.as_deref().map(octets).transpose()?,
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
            let answer = client.call::<AccountGet>(AccountRef::by_name(&account)).await?;
            show(&answer, context);
        }
        AccountCommand::Set(args) => {
            let changes = With(AccountRef::by_name(&args.account), Nullable(changes(&args)?));
            let answer = client.call::<AccountSet>(changes).await?;
            show(&answer, context);
        }
        AccountCommand::Domain { alias, target, remove } => {
            domain(alias, target, remove, context).await?
        }
        AccountCommand::Remove { account, yes } => {
            if !yes
                && !input::confirmed(&format!("Remove {account} with all its mail? Type yes: "))?
            {
                return Err(Failure::new(exit::USAGE, "not removed"));
            }
            client.call::<AccountRemove>(AccountRef::by_name(&account)).await?;
            output::line(&format!("{account} removed"));
        }
        AccountCommand::Alias { account, address, remove } => {
            let args = AliasArguments { address: address.clone(), remove };
            client.call::<AccountAlias>(With(AccountRef::by_name(&account), args)).await?;
            let verb = if remove { "no longer leads" } else { "leads" };
            output::line(&format!("{address} {verb} to {account}"));
        }
        AccountCommand::Password { account, label, remove } => {
            let password = if remove { None } else { Some(password()?) };
            let args = PasswordArguments { name: Some(label.clone()), password };
            client.call::<AccountPassword>(With(AccountRef::by_name(&account), args)).await?;
            output::line(&format!(
                "password `{label}` of {account} {}",
                if remove { "removed" } else { "set" }
            ));
        }
        AccountCommand::Token(command) => {
            crate::cli::commands::token::run(command, context).await?
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
        let others = others(&row);
        let active = if row.active { "" } else { "inactive" };
        vec![row.id, row.name, others, row.display_name.unwrap_or_default(), active.to_owned()]
    });
    output::table(&["ID", "NAME", "OTHER ADDRESSES", "OWNER", ""], rows.collect());
    Ok(())
}

/// Prints an account.
fn show(account: &AccountAnswer, context: &CommandContext) {
    if context.json {
        output::json(account);
    } else {
        output::facts(account);
    }
}

fn octets(size: &str) -> Result<u64, Failure> {
    size.parse::<ByteSize>().map(|octets| octets.0).map_err(|bad| Failure::new(exit::USAGE, bad))
}

/// What is to be changed; an empty text takes a value away.
fn changes(args: &AccountSetArgs) -> Result<AccountChanges, Failure> {
    let text = |given: &Option<String>| {
        given.clone().map(|text| Some(text).filter(|text| !text.is_empty()))
    };
    let number = |given: &Option<String>, read: fn(&str) -> Result<u64, Failure>| {
        text(given).map(|given| given.map(|text| read(&text)).transpose()).transpose()
    };
    let flag = |yes: bool, no: bool| (yes || no).then_some(Some(yes));
    Ok(AccountChanges {
        display_name: text(&args.display_name),
        unix_user: text(&args.unix_user),
        zone: text(&args.zone),
        quota_octets: number(&args.quota, octets)?,
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
            output::table(&["DOMAIN", "STANDS FOR"], rows);
        }
        return Ok(());
    };
    if target.is_none() && !remove {
        return Err(Failure::new(
            exit::USAGE,
            format!("name the domain that {alias} stands for, or say --remove"),
        ));
    }
    let args = AliasDomainArguments { domain: alias.clone(), target: target.clone(), remove };
    context.client.call::<AccountAliasDomain>(args).await?;
    output::line(&match target {
        Some(target) => format!("{alias} stands for {target}"),
        None => format!("{alias} stands for nothing"),
    });
    Ok(())
}

fn others(row: &AccountAnswer) -> String {
    let all = row.addresses.iter().chain(&row.catch_alls).filter(|one| **one != row.address);
    all.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A password from standard input: its first line. Never from the arguments, which everybody on the
/// machine can read.
fn password() -> Result<String, Failure> {
    let broken =
        |error: std::io::Error| Failure::new(exit::NO_INPUT, format!("no password: {error}"));
    let stdin = std::io::stdin();
    let quiet = stdin.is_terminal().then(EchoGuard::begin).transpose()?;
    let mut line = String::new();
    stdin.lock().take(MAX_PASSWORD_BYTES).read_line(&mut line).map_err(broken)?;
    drop(quiet);
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::new(exit::NO_INPUT, "an empty password is none"));
    }
    Ok(password.to_owned())
}

/// While it lives, the terminal does not show what is typed.
struct EchoGuard;

impl EchoGuard {
    fn begin() -> Result<Self, Failure> {
        output::raw("Password: ");
        drop(std::io::stdout().flush());
        if echo("-echo") {
            Ok(Self)
        } else {
            Err(Failure::new(
                exit::SOFTWARE,
                "the terminal cannot be silenced: pass the password on standard input",
            ))
        }
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        echo("echo");
        output::raw("\n");
    }
}

fn echo(mode: &str) -> bool {
    std::process::Command::new("stty").arg(mode).status().is_ok_and(|status| status.success())
}
