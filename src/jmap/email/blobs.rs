//! The octets that a blob id stands for, in memory: what an email is made of, or parsed from.

use crate::jmap::context::{Account, Context, fail};
use crate::message::{Message, guarded};
use crate::model::{BlobBase, BlobId};
use crate::store::View;
use crate::wire::jmap::MethodError;

/// The octets; `None` where there is no such blob for the caller.
///
/// # Errors
/// Those of reading.
pub(in crate::jmap) fn octets(
    context: &Context,
    view: &View<'_>,
    account: &Account,
    id: &str,
) -> Result<Option<Vec<u8>>, MethodError> {
    let Ok(id) = id.parse::<BlobId>() else { return Ok(None) };
    let whole = match id.base {
        BlobBase::Email(email) => {
            let Some(mut raw) = view.message(account.id, email).map_err(|error| fail(&error))? else {
                return Ok(None);
            };
            // Parts are counted in the message as it was received.
            if !id.parts.is_empty() {
                let content = view.content(account.id, email).map_err(|error| fail(&error))?;
                raw.drain(..content.map_or(0, |(prefix, _)| prefix.len().min(raw.len())));
            }
            Some(raw)
        }
        BlobBase::Upload(hash) => {
            let user = context.caller.account.unwrap_or(account.id);
            view.upload_part(account.id, user, &hash, 0..u64::MAX).map_err(|error| fail(&error))?
        }
    };
    let Some(mut octets) = whole else { return Ok(None) };
    for number in id.parts {
        let part = guarded("a part of a message", || {
            Message::parse(&octets).decoded(number).map(std::borrow::Cow::into_owned)
        });
        match part.flatten() {
            Some(part) => octets = part,
            None => return Ok(None),
        }
    }
    Ok(Some(octets))
}
