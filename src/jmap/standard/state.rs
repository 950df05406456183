//! State strings (RFC 8620 §5.1): the store's epoch and the newest change of a type. A store that
//! was restored from a backup has another epoch, so that nothing that a client knows of the lost
//! time is taken for known.
//!
//! `epoch-mark`, in hexadecimal; of a client that is still catching up `epoch-mark-base`, and of
//! one that was told only some of the mailboxes that one change changed `epoch-mark-base-last`
//! (`store::ClientState`).

use crate::model::{AccountId, DataType, ModSeq};
use crate::store::{ClientState, Snapshot, Store};
use crate::wire::jmap::MethodError;

/// The state of a change number.
pub(in crate::jmap) fn state(store: &Store, mark: ModSeq) -> String {
    format!("{:x}-{:x}", store.epoch(), mark.0)
}

/// How far a client has come, as a state.
pub(in crate::jmap) fn at(store: &Store, since: ClientState) -> String {
    if since.mark == since.base && since.last == u32::MAX {
        return state(store, since.mark);
    }
    let told = if since.last == u32::MAX { String::new() } else { format!("-{:x}", since.last) };
    format!("{:x}-{:x}-{:x}{told}", store.epoch(), since.mark.0, since.base.0)
}

/// The newest state of a type.
pub(in crate::jmap) fn newest_state(
    store: &Store,
    snapshot: &Snapshot<'_>,
    account: AccountId,
    data: DataType,
) -> Result<String, MethodError> {
    Ok(state(store, snapshot.state(account, data)?))
}

/// What a state string says; nothing of one that this store never gave.
pub(in crate::jmap) fn since(store: &Store, text: &str) -> Option<ClientState> {
    let mut parts = text
        .split('-')
        .map(|part| u64::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+')));
    let (epoch, mark) = (parts.next()??, ModSeq(parts.next()??));
    let base = parts.next().map_or(Some(mark), |base| base.map(ModSeq))?;
    let last = parts.next().map_or(Some(u32::MAX), |last| u32::try_from(last?).ok())?;
    (epoch == store.epoch() && parts.next().is_none()).then_some(ClientState { mark, base, last })
}
