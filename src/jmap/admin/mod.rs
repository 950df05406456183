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

use super::dispatch::Kind;

/// The methods.
pub(super) const METHODS: &[(&str, Kind)] = &[
    ("Account/add", Kind::Changes(accounts::add)),
    ("Account/list", Kind::Reads(accounts::list)),
    ("Account/get", Kind::Reads(accounts::get)),
    ("Account/set", Kind::Changes(accounts::set)),
    ("Account/remove", Kind::Changes(accounts::remove)),
    ("Account/alias", Kind::Changes(accounts::alias)),
    ("Account/aliasDomain", Kind::Changes(accounts::alias_domain)),
    ("Account/aliasDomains", Kind::Reads(accounts::alias_domains)),
    ("Account/password", Kind::Changes(accounts::password)),
    ("Account/tokenAdd", Kind::Changes(accounts::token_add)),
    ("Account/tokenList", Kind::Reads(accounts::token_list)),
    ("Account/tokenRemove", Kind::Changes(accounts::token_remove)),
    ("Mail/list", Kind::Reads(mail::list)),
    ("Mail/query", Kind::Reads(query::run)),
    ("Mail/show", Kind::Reads(mail::show)),
    ("Mail/destroy", Kind::Changes(life::destroy)),
    ("Mail/destroyed", Kind::Reads(life::destroyed)),
    ("Mail/restore", Kind::Changes(life::restore)),
    ("Mail/purge", Kind::Changes(life::purge)),
    ("Mail/move", Kind::Changes(life::move_to)),
    ("Mail/flag", Kind::Changes(life::flag)),
    ("Mailbox/list", Kind::Reads(mailboxes::list)),
    ("Mailbox/add", Kind::Changes(mailboxes::add)),
    ("Mailbox/ensure", Kind::Changes(transfer::mailbox)),
    ("Mailbox/change", Kind::Changes(mailboxes::change)),
    ("Mailbox/remove", Kind::Changes(mailboxes::remove)),
    ("Mail/deliver", Kind::Changes(mail::deliver)),
    ("Mail/index", Kind::Reads(transfer::index)),
    ("Decision/list", Kind::Reads(decisions::list)),
    ("Told/list", Kind::Reads(told::list)),
    ("Told/forget", Kind::Changes(told::forget)),
    ("Vacation/get", Kind::Reads(crate::jmap::vacation::get_whole)),
    ("Vacation/set", Kind::Changes(crate::jmap::vacation::set_whole)),
    ("Vacation/test", Kind::Reads(decisions::test)),
    ("Vacation/report", Kind::Reads(decisions::report)),
    ("Queue/list", Kind::Reads(queue::list)),
    ("Queue/show", Kind::Reads(queue::show)),
    ("Queue/retry", Kind::Changes(queue::retry)),
    ("Queue/hold", Kind::Changes(queue::hold)),
    ("Queue/release", Kind::Changes(queue::release)),
    ("Queue/remove", Kind::Changes(queue::remove)),
    ("Queue/acceptLoss", Kind::Changes(queue::accept_loss)),
    ("Store/check", Kind::Changes(store::check)),
    ("Store/repair", Kind::Changes(store::repair)),
    ("Store/backup", Kind::Changes(store::backup)),
    ("Job/get", Kind::Reads(store::job)),
    ("Service/status", Kind::Reads(service::status)),
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
