//! The vendor methods, under the capability `urn:restante:jmap:admin`. `docs/admin-api.md`
//! describes their arguments and answers.

mod accounts;
mod decisions;
mod index;
mod life;
mod mail;
mod mailboxes;
mod query;
mod queue;
mod service;
pub mod sieve;
mod sieve_stats;
mod sieve_stored;
pub mod store;
mod stored_envelope;
mod told;
mod vacation;

use serde::Serialize;
use serde_json::{Map, Value};

use super::context::Context;
use super::method::{Call, Handler, RegisteredMethod};
use crate::wire::jmap::admin::VendorMethod;
use crate::wire::jmap::admin::accounts::{
    AccountAdd, AccountAlias, AccountAliasDomain, AccountAliasDomains, AccountGet, AccountList,
    AccountPassword, AccountRemove, AccountSet, AccountTokenAdd, AccountTokenList,
    AccountTokenRemove,
};
use crate::wire::jmap::admin::decisions::{
    DecisionList, ToldForget, ToldList, VacationReport, VacationTest,
};
use crate::wire::jmap::admin::mail::{
    MailDeliver, MailDestroy, MailDestroyed, MailFlag, MailIndex, MailList, MailMove, MailPurge,
    MailQuery, MailRestore, MailShow,
};
use crate::wire::jmap::admin::mailboxes::{
    MailboxAdd, MailboxChange, MailboxEnsure, MailboxList, MailboxRemove,
};
use crate::wire::jmap::admin::queue::{
    QueueAcceptLoss, QueueHold, QueueList, QueueRelease, QueueRemove, QueueRetry, QueueShow,
};
use crate::wire::jmap::admin::service::ServiceStatus;
use crate::wire::jmap::admin::sieve::{
    SieveActivate, SieveGet, SieveList, SievePut, SieveRemove, SieveTest,
};
use crate::wire::jmap::admin::sieve_stats::SieveStats;
use crate::wire::jmap::admin::sieve_stored::{SieveApply, SieveDryRun};
use crate::wire::jmap::admin::store::{JobGet, StoreBackup, StoreCheck, StoreRepair};
use crate::wire::jmap::admin::vacation::{VacationGet, VacationSet};
use crate::wire::jmap::text::ResponseArguments;
use crate::wire::jmap::{ADMIN, MethodArguments as _, MethodError};

/// A vendor method. Its trait `VendorMethod` names it and gives the types of arguments and answer.
trait AdminMethod: VendorMethod {
    /// Whether only administrators may call the method. Others are refused before `call`. A method
    /// with an account asks in `call` whether the caller may use that account.
    const ADMIN_ONLY: bool = false;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<Self::Answer, MethodError>;
}

/// Registers a method whose answer may be refused because it is too large
/// (`RegisteredMethod::only_reads`).
const fn reads<M: AdminMethod>() -> RegisteredMethod {
    RegisteredMethod {
        name: M::NAME,
        capability: ADMIN,
        second_capability: None,
        only_reads: true,
        handler: Handler::new(run::<M>),
    }
}

/// Registers a method whose answer must not be refused, because it reports changes, or the job that
/// was started.
const fn changes<M: AdminMethod>() -> RegisteredMethod {
    RegisteredMethod { only_reads: false, ..reads::<M>() }
}

/// Runs a vendor method. Ignores unknown arguments.
fn run<M: AdminMethod>(
    call: &Call<'_>,
    _: &str,
    mut arguments: Map<String, Value>,
) -> Result<ResponseArguments, MethodError> {
    if M::ADMIN_ONLY {
        call.context.require_admin()?;
    }
    Ok(serde_json::to_value(M::call(call, M::Args::take(&mut arguments)?)?)?.into())
}

/// Counts a row of a list as part of the answer under construction, and returns the row.
///
/// # Errors
/// `RequestTooLarge` if the answers of the request would be too large with the row.
fn charge_row<T: Serialize>(context: &Context, row: T) -> Result<T, MethodError> {
    context.budget.add_to_answer(&serde_json::to_value(&row)?)?;
    Ok(row)
}

pub(super) const METHODS: &[RegisteredMethod] = &[
    changes::<AccountAdd>(),
    reads::<AccountList>(),
    reads::<AccountGet>(),
    changes::<AccountSet>(),
    changes::<AccountRemove>(),
    changes::<AccountAlias>(),
    changes::<AccountAliasDomain>(),
    reads::<AccountAliasDomains>(),
    changes::<AccountPassword>(),
    changes::<AccountTokenAdd>(),
    reads::<AccountTokenList>(),
    changes::<AccountTokenRemove>(),
    reads::<MailList>(),
    reads::<MailQuery>(),
    reads::<MailShow>(),
    changes::<MailDestroy>(),
    reads::<MailDestroyed>(),
    changes::<MailRestore>(),
    changes::<MailPurge>(),
    changes::<MailMove>(),
    changes::<MailFlag>(),
    reads::<MailboxList>(),
    changes::<MailboxAdd>(),
    changes::<MailboxEnsure>(),
    changes::<MailboxChange>(),
    changes::<MailboxRemove>(),
    changes::<MailDeliver>(),
    reads::<MailIndex>(),
    reads::<DecisionList>(),
    reads::<ToldList>(),
    changes::<ToldForget>(),
    reads::<VacationGet>(),
    changes::<VacationSet>(),
    reads::<VacationTest>(),
    reads::<VacationReport>(),
    changes::<SievePut>(),
    reads::<SieveGet>(),
    reads::<SieveList>(),
    changes::<SieveActivate>(),
    changes::<SieveRemove>(),
    reads::<SieveTest>(),
    reads::<QueueList>(),
    reads::<QueueShow>(),
    changes::<QueueRetry>(),
    changes::<QueueHold>(),
    changes::<QueueRelease>(),
    changes::<QueueRemove>(),
    changes::<QueueAcceptLoss>(),
    changes::<StoreCheck>(),
    changes::<StoreRepair>(),
    changes::<StoreBackup>(),
    reads::<JobGet>(),
    reads::<SieveStats>(),
    reads::<SieveDryRun>(),
    changes::<SieveApply>(),
    reads::<ServiceStatus>(),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::METHODS;

    #[test]
    fn documented_methods_are_exactly_the_registered_ones() {
        let rows = include_str!("../../../docs/admin-api.md")
            .lines()
            .filter(|line| line.starts_with("| "));
        let first = rows.filter_map(|line| line.trim_start_matches("| ").split(" | ").next());
        // A cell such as `Queue/retry *, hold *` names two methods of one type. The `*` says that
        // callers who are no administrators may use the method, too.
        let mut named = BTreeSet::new();
        for cell in first.filter(|cell| cell.contains('/')) {
            let mut kind = "";
            for name in cell.split(',').map(|name| name.trim().trim_end_matches('*').trim()) {
                let method = name.rsplit('/').next().unwrap();
                kind = name.split_once('/').map_or(kind, |(kind, _)| kind);
                named.insert(format!("{kind}/{method}"));
            }
        }
        let registered: BTreeSet<String> =
            METHODS.iter().map(|method| method.name.to_owned()).collect();
        assert_eq!(named, registered);
    }
}
