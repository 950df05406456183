//! The vendor methods, under `urn:restante:jmap:admin`: what each takes and gives is said for administrators, in
//! `docs/admin-api.md`.

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

use super::method::{Handler, RegisteredMethod};
use crate::wire::jmap::ADMIN;

const fn reads(name: &'static str, handler: Handler) -> RegisteredMethod {
    RegisteredMethod { name, capability: ADMIN, also: None, only_reads: true, handler }
}

const fn changes(name: &'static str, handler: Handler) -> RegisteredMethod {
    RegisteredMethod { name, capability: ADMIN, also: None, only_reads: false, handler }
}

/// The methods.
pub(super) const METHODS: &[RegisteredMethod] = &[
    changes("Account/add", Handler::Map(accounts::add)),
    reads("Account/list", Handler::Map(accounts::list)),
    reads("Account/get", Handler::Map(accounts::get)),
    changes("Account/set", Handler::Map(accounts::set)),
    changes("Account/remove", Handler::Map(accounts::remove)),
    changes("Account/alias", Handler::Map(accounts::alias)),
    changes("Account/aliasDomain", Handler::Map(accounts::alias_domain)),
    reads("Account/aliasDomains", Handler::Map(accounts::alias_domains)),
    changes("Account/password", Handler::Map(accounts::password)),
    changes("Account/tokenAdd", Handler::Map(accounts::token_add)),
    reads("Account/tokenList", Handler::Map(accounts::token_list)),
    changes("Account/tokenRemove", Handler::Map(accounts::token_remove)),
    reads("Mail/list", Handler::Map(mail::list)),
    reads("Mail/query", Handler::Map(query::run)),
    reads("Mail/show", Handler::Map(mail::show)),
    changes("Mail/destroy", Handler::Map(life::destroy)),
    reads("Mail/destroyed", Handler::Map(life::destroyed)),
    changes("Mail/restore", Handler::Map(life::restore)),
    changes("Mail/purge", Handler::Map(life::purge)),
    changes("Mail/move", Handler::Map(life::move_to)),
    changes("Mail/flag", Handler::Map(life::flag)),
    reads("Mailbox/list", Handler::Map(mailboxes::list)),
    changes("Mailbox/add", Handler::Map(mailboxes::add)),
    changes("Mailbox/ensure", Handler::Map(transfer::mailbox)),
    changes("Mailbox/change", Handler::Map(mailboxes::change)),
    changes("Mailbox/remove", Handler::Map(mailboxes::remove)),
    changes("Mail/deliver", Handler::Map(mail::deliver)),
    reads("Mail/index", Handler::Map(transfer::index)),
    reads("Decision/list", Handler::Map(decisions::list)),
    reads("Told/list", Handler::Map(told::list)),
    changes("Told/forget", Handler::Map(told::forget)),
    reads("Vacation/get", Handler::Map(crate::jmap::vacation::get_whole)),
    changes("Vacation/set", Handler::Map(crate::jmap::vacation::set_whole)),
    reads("Vacation/test", Handler::Map(decisions::test)),
    reads("Vacation/report", Handler::Map(decisions::report)),
    reads("Queue/list", Handler::Map(queue::list)),
    reads("Queue/show", Handler::Map(queue::show)),
    changes("Queue/retry", Handler::Map(queue::retry)),
    changes("Queue/hold", Handler::Map(queue::hold)),
    changes("Queue/release", Handler::Map(queue::release)),
    changes("Queue/remove", Handler::Map(queue::remove)),
    changes("Queue/acceptLoss", Handler::Map(queue::accept_loss)),
    changes("Store/check", Handler::Map(store::check)),
    changes("Store/repair", Handler::Map(store::repair)),
    changes("Store/backup", Handler::Map(store::backup)),
    reads("Job/get", Handler::Map(store::job)),
    reads("Service/status", Handler::Map(service::status)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::METHODS;

    #[test]
    fn every_method_is_documented_and_no_other() {
        let rows = include_str!("../../../docs/admin-api.md").lines().filter(|line| line.starts_with("| "));
        let first = rows.filter_map(|line| line.trim_start_matches("| ").split(" | ").next());
        // `Queue/retry *, hold *` are two of one type.
        let mut named = BTreeSet::new();
        for cell in first.filter(|cell| cell.contains('/')) {
            let mut kind = "";
            for name in cell.split(',').map(|name| name.trim().trim_end_matches('*').trim()) {
                let method = name.rsplit('/').next().unwrap();
                kind = name.split_once('/').map_or(kind, |(kind, _)| kind);
                named.insert(format!("{kind}/{method}"));
            }
        }
        let known: BTreeSet<String> = METHODS.iter().map(|method| method.name.to_owned()).collect();
        assert_eq!(named, known);
    }
}
