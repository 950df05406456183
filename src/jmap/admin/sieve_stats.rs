//! Sieve/stats: how often each rule of the account's scripts fired for deliveries since the source
//! of the script was last changed.
//!
//! - The answer has all scripts, or the named one, sorted by name.
//! - A script with errors is in the answer with `is_valid` false and without rules.

use super::{AdminMethod, charge_row};
use crate::filter::{self, ScriptRule, find_script};
use crate::jmap::method::Call;
use crate::model::{AccountId, ObjectId, SieveScript};
use crate::store::Snapshot;
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::sieve_stats::{
    RuleStatistics, ScriptStatistics, SieveStats, SieveStatsAnswer, SieveStatsArguments,
};
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for SieveStats {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<SieveStatsArguments>,
    ) -> Result<SieveStatsAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let mut scripts = snapshot.scripts(account)?;
        if let Some(name) = &args.name {
            let missing = || MethodError::NotFound(format!("there is no script {name}"));
            let named = find_script(&scripts, name).ok_or_else(missing)?;
            scripts.retain(|(id, _)| *id == named);
        }
        scripts.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        let mut list = Vec::with_capacity(scripts.len());
        for script in scripts {
            let settings = &context.filter;
            list.push(charge_row(context, statistics(&snapshot, settings, account, script)?)?);
        }
        Ok(SieveStatsAnswer { list })
    }
}

/// Joins the rules of a script, which are found in its source, with the stored counts. A count is
/// stored by the byte of the source at which its rule begins; a rule without one never fired.
fn statistics(
    snapshot: &Snapshot<'_>,
    settings: &filter::Settings,
    account: AccountId,
    (id, script): (ObjectId, SieveScript),
) -> Result<ScriptStatistics, MethodError> {
    let source = snapshot.script_source(account, id)?.unwrap_or_default();
    let found = settings.rules(&source);
    let hits = snapshot.script_hits(account, id)?;
    let is_valid = found.is_some();
    let rule = |ScriptRule { start, line, name, text }: ScriptRule| {
        let counted = hits.get(&start);
        RuleStatistics {
            line,
            name,
            text,
            hits: counted.map_or(0, |counted| counted.hits),
            last: counted.map(|counted| counted.last.rfc3339()),
        }
    };
    Ok(ScriptStatistics {
        name: script.name,
        is_active: snapshot.active_script(account)? == Some(id),
        since: script.stored.rfc3339(),
        is_valid,
        rules: found.unwrap_or_default().into_iter().map(rule).collect(),
    })
}
