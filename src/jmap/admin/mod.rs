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

use super::dispatch::MethodKind;

/// The methods.
pub(super) const METHODS: &[(&str, MethodKind)] = &[
    ("Account/add", MethodKind::Changes(accounts::add)),
    ("Account/list", MethodKind::Reads(accounts::list)),
    ("Account/get", MethodKind::Reads(accounts::get)),
    ("Account/set", MethodKind::Changes(accounts::set)),
    ("Account/remove", MethodKind::Changes(accounts::remove)),
    ("Account/alias", MethodKind::Changes(accounts::alias)),
    ("Account/aliasDomain", MethodKind::Changes(accounts::alias_domain)),
    ("Account/aliasDomains", MethodKind::Reads(accounts::alias_domains)),
    ("Account/password", MethodKind::Changes(accounts::password)),
    ("Account/tokenAdd", MethodKind::Changes(accounts::token_add)),
    ("Account/tokenList", MethodKind::Reads(accounts::token_list)),
    ("Account/tokenRemove", MethodKind::Changes(accounts::token_remove)),
    ("Mail/list", MethodKind::Reads(mail::list)),
    ("Mail/query", MethodKind::Reads(query::run)),
    ("Mail/show", MethodKind::Reads(mail::show)),
    ("Mail/destroy", MethodKind::Changes(life::destroy)),
    ("Mail/destroyed", MethodKind::Reads(life::destroyed)),
    ("Mail/restore", MethodKind::Changes(life::restore)),
    ("Mail/purge", MethodKind::Changes(life::purge)),
    ("Mail/move", MethodKind::Changes(life::move_to)),
    ("Mail/flag", MethodKind::Changes(life::flag)),
    ("Mailbox/list", MethodKind::Reads(mailboxes::list)),
    ("Mailbox/add", MethodKind::Changes(mailboxes::add)),
    ("Mailbox/ensure", MethodKind::Changes(transfer::mailbox)),
    ("Mailbox/change", MethodKind::Changes(mailboxes::change)),
    ("Mailbox/remove", MethodKind::Changes(mailboxes::remove)),
    ("Mail/deliver", MethodKind::Changes(mail::deliver)),
    ("Mail/index", MethodKind::Reads(transfer::index)),
    ("Decision/list", MethodKind::Reads(decisions::list)),
    ("Told/list", MethodKind::Reads(told::list)),
    ("Told/forget", MethodKind::Changes(told::forget)),
    ("Vacation/get", MethodKind::Reads(crate::jmap::vacation::get_whole)),
    ("Vacation/set", MethodKind::Changes(crate::jmap::vacation::set_whole)),
    ("Vacation/test", MethodKind::Reads(decisions::test)),
    ("Vacation/report", MethodKind::Reads(decisions::report)),
    ("Queue/list", MethodKind::Reads(queue::list)),
    ("Queue/show", MethodKind::Reads(queue::show)),
    ("Queue/retry", MethodKind::Changes(queue::retry)),
    ("Queue/hold", MethodKind::Changes(queue::hold)),
    ("Queue/release", MethodKind::Changes(queue::release)),
    ("Queue/remove", MethodKind::Changes(queue::remove)),
    ("Queue/acceptLoss", MethodKind::Changes(queue::accept_loss)),
    ("Store/check", MethodKind::Changes(store::check)),
    ("Store/repair", MethodKind::Changes(store::repair)),
    ("Store/backup", MethodKind::Changes(store::backup)),
    ("Job/get", MethodKind::Reads(store::job)),
    ("Service/status", MethodKind::Reads(service::status)),
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
