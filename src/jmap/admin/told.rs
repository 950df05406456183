//! The vendor methods for senders who were sent a reply, by the current generation of the account's
//! response or by its scripts.

use super::{AdminMethod, charge_row};
use crate::jmap::context::parse_address;
use crate::jmap::method::Call;
use crate::model::{UtcMillis, limits};
use crate::vacation::{Handle, told_key};
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::decisions::{
    ToldForget, ToldForgetAnswer, ToldForgetArguments, ToldList, ToldListAnswer, ToldListArguments,
    ToldSender,
};
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for ToldList {
    /// Returns the senders who were told last: up to `limit`, and never more than
    /// `limits::MAX_TOLD_SENDERS`.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<ToldListArguments>,
    ) -> Result<ToldListAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let limit = args
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(limits::MAX_TOLD_SENDERS);
        let told =
            context.store.snapshot().told_rows(account, limit.min(limits::MAX_TOLD_SENDERS))?;
        let mut list = Vec::with_capacity(told.len());
        for told in told {
            let row = ToldSender {
                at: told.at.rfc3339(),
                sender: told.sender.to_string(),
                script: told.generation.is_none(),
                until: told.until.map(UtcMillis::rfc3339),
            };
            list.push(charge_row(context, row)?);
        }
        Ok(ToldListAnswer { list })
    }
}

impl AdminMethod for ToldForget {
    /// Forgets one sender, or with `all` every sender, who was told by the response. Those who were
    /// told by a script stay told.
    ///
    /// # Errors
    /// `InvalidArguments` unless there is either a valid `sender` or `all`; `NotFound` if the one
    /// sender was not told by the response; those of `account_of`.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<ToldForgetArguments>,
    ) -> Result<ToldForgetAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let sender = args.sender.map(|text| parse_address(&text)).transpose()?;
        let key = match (args.all, sender) {
            (true, None) => None,
            (false, Some(sender)) => {
                Some(told_key(&context.store.secrets().told, &Handle::Response, &sender))
            }
            _ => {
                return Err(MethodError::InvalidArguments(
                    "either sender or all is expected".into(),
                ));
            }
        };
        let done = context.store.commit(account, |txn| match &key {
            Some(key) => txn.remove_told(key).map(u64::from),
            None => txn.forget_told(),
        });
        let (forgotten, ticket) = done?;
        ticket.wait_blocking()?;
        if forgotten == 0 && !args.all {
            return Err(MethodError::NotFound(
                "this sender was not sent a reply in this vacation".into(),
            ));
        }
        Ok(ToldForgetAnswer { forgotten })
    }
}
