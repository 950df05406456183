//! State strings (RFC 8620 §5.1): the store's epoch and the modseq of the newest change of a type.
//!
//! The form is `epoch-mark`, in hexadecimal: the client has all changes up to the modseq `mark`. A
//! client that gets many changes in several answers has `epoch-mark-base`, where `base` is the
//! mark with which it began. If it knows only some of the mailboxes that the change `mark`
//! affected, it has `epoch-mark-base-last`, where `last` is the last of them
//! (`store::ClientState`).

use crate::model::{AccountId, DataType, ModSeq};
use crate::store::{ClientState, Snapshot, Store};
use crate::wire::jmap::MethodError;

/// Returns the state string of a client that has all changes up to `mark`.
pub(in crate::jmap) fn state(store: &Store, mark: ModSeq) -> String {
    format!("{:x}-{:x}", store.epoch(), mark.0)
}

/// Returns the state string of a client that may not have all changes yet. `last` is `u32::MAX` for
/// a client that knows all mailboxes of the change `mark`.
pub(in crate::jmap) fn catching_up_state(store: &Store, since: ClientState) -> String {
    if since.mark == since.base && since.last == u32::MAX {
        return state(store, since.mark);
    }
    let last = if since.last == u32::MAX { String::new() } else { format!("-{:x}", since.last) };
    format!("{:x}-{:x}-{:x}{last}", store.epoch(), since.mark.0, since.base.0)
}

/// Returns the state string of a client that has all changes of a type in the snapshot.
pub(in crate::jmap) fn newest_state(
    store: &Store,
    snapshot: &Snapshot<'_>,
    account: AccountId,
    data: DataType,
) -> Result<String, MethodError> {
    Ok(state(store, snapshot.state(account, data)?))
}

/// Parses a state string; `None` if it is malformed or of another epoch.
pub(in crate::jmap) fn parse(store: &Store, text: &str) -> Option<ClientState> {
    // `from_str_radix` accepts a `+`, which no state string has.
    let mut parts = text
        .split('-')
        .map(|part| u64::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+')));
    let (epoch, mark) = (parts.next()??, ModSeq(parts.next()??));
    let base = parts.next().map_or(Some(mark), |base| base.map(ModSeq))?;
    let last = parts.next().map_or(Some(u32::MAX), |last| u32::try_from(last?).ok())?;
    (epoch == store.epoch() && parts.next().is_none()).then_some(ClientState { mark, base, last })
}
