//! The vendor methods, under `urn:restante:jmap:admin`. An account is named by `accountId` (its id) or `account` (its name or
//! an address). Octets are base64, a limit is 10,000 at most. Who is no administrator may use those marked * on his own account.
//!
//! | method | arguments | result |
//! |---|---|---|
//! | Account/add | address, name, displayName, aliases, zone, quotaOctets, quotaEmails, unixUser, detailFiles, mailboxes (`roles` or `inbox`: what it begins with) | an account |
//! | Account/list | | list of accounts |
//! | Account/get * | account | id, name, address, addresses, catchAlls (`@domain`), displayName, active, zone, quota, use, unixUser, detailFiles |
//! | Account/set | account, and any of displayName, active, zone, quotaOctets, quotaEmails, unixUser, detailFiles | an account |
//! | Account/remove | account | |
//! | Account/alias | account, address (also `@domain`: all else in it), remove: only its own | |
//! | Account/aliasDomain | domain, target, remove | |
//! | Account/aliasDomains | | list: domain, target |
//! | Account/password * | account, name, password (null: remove it); not by who logged in with one | |
//! | Account/tokenAdd * | account, name, expires; likewise | name, token: its text, shown this once, expires |
//! | Account/tokenList * | account | list: name, created, expires |
//! | Account/tokenRemove * | account, name; likewise | |
//! | Mail/list * | accountId, mailbox, collapseThreads, limit, after | mailbox, list, newest first |
//! | Mail/query * | accountId, mailbox (name), snippets, explain, and those of Email/query (RFC 8621 §4.4) | list, and what Email/query has; plan |
//! | Mail/show * | accountId, id | message (octets), and what Mail/list says of it |
//! | Mail/destroy * | accountId, ids | destroyed: by id; notDestroyed: by id why |
//! | Mail/destroyed * | accountId, limit | list of what can be restored, last destroyed first: destroyedAt, restorableUntil |
//! | Mail/restore * | accountId, ids | restored: by id the new id; notRestored |
//! | Mail/purge * | accountId, and ids or all | purged: by id; notPurged; or with all: count |
//! | Mail/move * | accountId, ids, mailbox, also: keep it where it is, too | moved: by id; notMoved |
//! | Mail/flag * | accountId, ids, add, remove: keywords | flagged: by id the keywords; notFlagged |
//! | Mailbox/list * | accountId | list: id, path, name, parentId, role, sortOrder, isSubscribed, attributes: texts by name, the four counts |
//! | Mailbox/add * | accountId, path (all but the last must be there), role, sortOrder, attributes | a mailbox |
//! | Mailbox/change * | accountId, mailbox, and any of name, parent ("" for none), role ("" for none), sortOrder, isSubscribed, attributes: texts by name (null takes one away; `color` is #rrggbb) | a mailbox |
//! | Mailbox/remove * | accountId, mailbox, emails: with what is in it | emails: how many were taken out |
//! | Mail/deliver | sender, recipients, message (octets) | outcomes: recipient, reply |
//! | Mail/index * | accountId, after, limit | mailboxes: id, inbox, names, role; list, newest first: id, mailboxIds, keywords, size |
//! | Mailbox/ensure * | accountId, inbox, names, role | id: of the mailbox at the end of that way, made where it is not there |
//! | Decision/list * | accountId, limit, since, until, answered, reason, sender (a part of the address) | list, newest first: at, emailId, sender, recipient, reason, detail, action; began, ended: of the vacation |
//! | Told/list * | accountId, limit | list, newest first: at, sender, script: whether one told him, until |
//! | Told/forget * | accountId, and sender or all | forgotten: how many |
//! | Vacation/get *, Vacation/set * | as VacationResponse/get and /set (RFC 8621 §8) | the same with all properties (`jmap::vacation::properties`) |
//! | Vacation/report * | accountId, since, until | began, ended, messages, answered, silent, cut, correspondents: name, email, machine, answered, threads; text, html |
//! | Vacation/test * | accountId, message (octets), sender | reason, detail; or recipient, reply |
//! | Queue/list * | accountId or nothing; kind, state, domain (of a recipient), queuedBefore, limit | list: id, account, kind, state, recipients with what became of each, due, attempts, lastError; more; held: why nothing is sent |
//! | Queue/show * | accountId, id, withMessage | the same of one; message (octets) |
//! | Queue/retry *, hold *, release *, remove * | accountId and id; or all, and those of Queue/list | changed, left: how many |
//! | Queue/acceptLoss | | accepted: what was held; dropped, kept: how many |
//! | Store/check | blobs: read every message, too | job |
//! | Store/repair | scope: repair, reindex or rebuild; accounts: these alone | job |
//! | Store/backup | dir: where, absolute; keep: how many | job |
//! | Job/get | job | what, done, progress, result |
//! | Service/status | | version, accounts, what the engine has done |

mod accounts;
mod decisions;
mod life;
mod mail;
mod mailboxes;
mod query;
mod queue;
mod service;
pub mod store;
mod told;
mod transfer;

use super::dispatch::Method;

/// The methods.
pub(super) const METHODS: &[(&str, Method)] = &[
    ("Account/add", accounts::add),
    ("Account/list", accounts::list),
    ("Account/get", accounts::get),
    ("Account/set", accounts::set),
    ("Account/remove", accounts::remove),
    ("Account/alias", accounts::alias),
    ("Account/aliasDomain", accounts::alias_domain),
    ("Account/aliasDomains", accounts::alias_domains),
    ("Account/password", accounts::password),
    ("Account/tokenAdd", accounts::token_add),
    ("Account/tokenList", accounts::token_list),
    ("Account/tokenRemove", accounts::token_remove),
    ("Mail/list", mail::list),
    ("Mail/query", query::run),
    ("Mail/show", mail::show),
    ("Mail/destroy", life::destroy),
    ("Mail/destroyed", life::destroyed),
    ("Mail/restore", life::restore),
    ("Mail/purge", life::purge),
    ("Mail/move", life::move_to),
    ("Mail/flag", life::flag),
    ("Mailbox/list", mailboxes::list),
    ("Mailbox/add", mailboxes::add),
    ("Mailbox/ensure", transfer::mailbox),
    ("Mailbox/change", mailboxes::change),
    ("Mailbox/remove", mailboxes::remove),
    ("Mail/deliver", mail::deliver),
    ("Mail/index", transfer::index),
    ("Decision/list", decisions::list),
    ("Told/list", told::list),
    ("Told/forget", told::forget),
    ("Vacation/get", crate::jmap::vacation::get_whole),
    ("Vacation/set", crate::jmap::vacation::set_whole),
    ("Vacation/test", decisions::test),
    ("Vacation/report", decisions::report),
    ("Queue/list", queue::list),
    ("Queue/show", queue::show),
    ("Queue/retry", queue::retry),
    ("Queue/hold", queue::hold),
    ("Queue/release", queue::release),
    ("Queue/remove", queue::remove),
    ("Queue/acceptLoss", queue::accept_loss),
    ("Store/check", store::check),
    ("Store/repair", store::repair),
    ("Store/backup", store::backup),
    ("Job/get", store::job),
    ("Service/status", service::status),
];
