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
        let known: BTreeSet<String> = METHODS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(named, known);
    }
}
