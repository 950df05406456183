//! Ranks: the position of an email in a long listing, and the email at a position, in O(log n)
//! rows.
//!
//! - The rank rows are a counted skip list whose shape depends only on the ids in the listing and
//!   on the key of a hash.
//! - An id is a boundary of level k if its keyed hash ends in k zero digits to the base 16. The
//!   rank row of level k at boundary b counts the ids from b up to the next boundary of that level.
//!   The index rows are level 0.
//! - No rank row of a level counts the ids before the first boundary of that level. That of level 1
//!   is the front of the listing (`ListingStats::front`): new mail arrives before it. So counts are
//!   summed from the end, and subtracted from the total.

use std::collections::BTreeMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::model::{AccountId, EmailId, Listing, ListingStats};
use crate::store::engine::RowReader;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::listing::read::FANOUT_BITS;
use crate::store::row::RankCount;
use crate::store::table::keys::{ListingEmailKey, RankKey};
use crate::store::table::{MailboxEmailIndex, MailboxRank};
use crate::store::txn::Txn;

/// A listing with more emails than this gets rank rows (`Options::ranked_above`).
pub(in crate::store) const RANKED_ABOVE: u64 = 4096;
/// A listing with fewer emails than this loses its rank rows. In between, it keeps what it has, so
/// that a listing of about that length is not written anew again and again.
const RANKED_BELOW: u64 = 1024;
/// The front of a ranked listing without a boundary: behind every email.
const NO_FRONT: EmailId = EmailId(u64::MAX);

/// The key of the hash that makes boundaries, and the lengths at which listings gain and lose rank
/// rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Ranking {
    pub(in crate::store) key: [u8; 16],
    /// A listing with more emails gains rank rows.
    pub(in crate::store) above: u64,
    /// A listing with fewer emails loses its rank rows. Not more than `above`.
    pub(in crate::store) below: u64,
}

impl Ranking {
    pub(in crate::store) fn new(key: [u8; 16], above: Option<u64>) -> Self {
        let above = above.unwrap_or(RANKED_ABOVE);
        Self { key, above, below: above.min(RANKED_BELOW) }
    }

    /// The highest level of which an id is a boundary.
    fn level(&self, id: EmailId) -> u8 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u64(id.0.to_be());
        u8::try_from(hasher.finish().trailing_zeros() / FANOUT_BITS).unwrap_or(u8::MAX)
    }
}

/// Updates the rank rows after the index row of an email was written and `stats.total` counts it.
pub(in crate::store) fn add_email(
    txn: &mut Txn<'_>,
    listing: Listing,
    stats: &mut ListingStats,
    id: EmailId,
) -> Result<(), Error> {
    if let Some(front) = &mut stats.front {
        return insert(txn, listing, front, id);
    }
    if stats.total > txn.ranking.above {
        let ids = ids(txn, txn.account, listing)?;
        stats.front = Some(front_of(txn.ranking, &ids));
        for (key, count) in rows_of(txn.ranking, txn.account, listing, &ids) {
            txn.put::<MailboxRank>(&key, &RankCount(count));
        }
    }
    Ok(())
}

/// Updates the rank rows after the index row of an email was deleted and `stats.total` no longer
/// counts it.
pub(in crate::store) fn remove_email(
    txn: &mut Txn<'_>,
    listing: Listing,
    stats: &mut ListingStats,
    id: EmailId,
) -> Result<(), Error> {
    let Some(front) = &mut stats.front else { return Ok(()) };
    if stats.total < txn.ranking.below {
        stats.front = None;
        let mut gone = Vec::new();
        txn.keys(&KeyRange::<MailboxRank>::under(&(txn.account, listing)), |key, _| {
            gone.push(key);
            Ok(true)
        })?;
        gone.iter().for_each(|key| txn.delete::<MailboxRank>(key));
        return Ok(());
    }
    remove(txn, listing, front, id)
}

fn ids(read: &dyn RowReader, account: AccountId, listing: Listing) -> Result<Vec<EmailId>, Error> {
    let mut ids = Vec::new();
    read.keys(&KeyRange::<MailboxEmailIndex>::under(&(account, listing)), |key, _| {
        ids.push(key.email);
        Ok(true)
    })?;
    Ok(ids)
}

/// Returns the first boundary among these emails, which come newest first; `NO_FRONT` if none is.
pub(in crate::store) fn front_of(ranking: Ranking, ids: &[EmailId]) -> EmailId {
    ids.iter().copied().find(|id| ranking.level(*id) > 0).unwrap_or(NO_FRONT)
}

/// Returns the rank rows of a listing with these emails, which come newest first.
pub(in crate::store) fn rows_of(
    ranking: Ranking,
    account: AccountId,
    listing: Listing,
    ids: &[EmailId],
) -> BTreeMap<RankKey, u64> {
    let mut out = BTreeMap::new();
    // For each level, the number of ids from the boundary that was met last to the end.
    let mut counted: Vec<u64> = Vec::new();
    // Goes from the oldest id to the newest. `to_end` is the number of ids from this one to the
    // end.
    for (to_end, id) in (1u64..).zip(ids.iter().rev()) {
        let own = ranking.level(*id);
        if counted.len() < usize::from(own) {
            counted.resize(usize::from(own), 0);
        }
        for (level, counted) in (1..=own).zip(&mut counted) {
            let key = RankKey { account, listing, level, boundary: *id };
            out.insert(key, to_end.saturating_sub(*counted));
            *counted = to_end;
        }
    }
    out
}

/// Adds an id to the rank rows of a listing that has ranks.
fn insert(
    txn: &mut Txn<'_>,
    listing: Listing,
    front: &mut EmailId,
    id: EmailId,
) -> Result<(), Error> {
    let own = txn.ranking.level(id);
    if id < *front {
        // No row counts this id, unless it is a boundary itself.
        for level in 1..=own {
            let mine = stretch(txn, listing, level, id)?;
            set(txn, listing, level, id, mine);
            *front = id;
        }
        return Ok(());
    }
    for level in 1..=u8::MAX {
        let before = last_before(txn, listing, level, id)?;
        if level <= own {
            let mine = stretch(txn, listing, level, id)?;
            set(txn, listing, level, id, mine);
            if let Some((boundary, count)) = before {
                set(txn, listing, level, boundary, (count + 1).saturating_sub(mine));
            }
        } else if let Some((boundary, count)) = before {
            set(txn, listing, level, boundary, count + 1);
        } else {
            // A boundary of a level is also one of all lower levels, so the levels above have none
            // either.
            break;
        }
    }
    Ok(())
}

/// Removes an id from the rank rows of a listing that has ranks.
fn remove(
    txn: &mut Txn<'_>,
    listing: Listing,
    front: &mut EmailId,
    id: EmailId,
) -> Result<(), Error> {
    if id < *front {
        return Ok(());
    }
    let own = txn.ranking.level(id);
    if id == *front {
        // No boundary is before it, so only its own rows count it.
        (1..=own).for_each(|level| txn.delete::<MailboxRank>(&key(txn, listing, level, id)));
        *front = next_after(txn, listing, 1, id)?.unwrap_or(NO_FRONT);
        return Ok(());
    }
    for level in 1..=u8::MAX {
        let before = last_before(txn, listing, level, id)?;
        if level <= own {
            let key = key(txn, listing, level, id);
            let mine = txn.row::<MailboxRank>(&key)?.map_or(1, |RankCount(count)| count);
            txn.delete::<MailboxRank>(&key);
            if let Some((boundary, count)) = before {
                set(txn, listing, level, boundary, (count + mine).saturating_sub(1));
            }
        } else if let Some((boundary, count)) = before {
            set(txn, listing, level, boundary, count.saturating_sub(1));
        } else {
            break;
        }
    }
    Ok(())
}

fn key(txn: &Txn<'_>, listing: Listing, level: u8, boundary: EmailId) -> RankKey {
    RankKey { account: txn.account, listing, level, boundary }
}

fn set(txn: &mut Txn<'_>, listing: Listing, level: u8, boundary: EmailId, count: u64) {
    txn.put::<MailboxRank>(&key(txn, listing, level, boundary), &RankCount(count));
}

/// Returns the last boundary of a level before an id, and its count.
fn last_before(
    txn: &Txn<'_>,
    listing: Listing,
    level: u8,
    id: EmailId,
) -> Result<Option<(EmailId, u64)>, Error> {
    let range = KeyRange::before(&(txn.account, listing, level), &key(txn, listing, level, id));
    let found = txn.first::<MailboxRank>(&range.reversed())?;
    Ok(found.map(|(key, RankCount(count))| (key.boundary, count)))
}

/// Returns the first boundary of a level after an id.
fn next_after(
    txn: &Txn<'_>,
    listing: Listing,
    level: u8,
    id: EmailId,
) -> Result<Option<EmailId>, Error> {
    let behind = key(txn, listing, level, EmailId(id.0.saturating_add(1)));
    let range = KeyRange::from(&(txn.account, listing, level), &behind);
    Ok(txn.first_key::<MailboxRank>(&range)?.map(|key| key.boundary))
}

/// Counts the ids from a boundary up to the next one of its level or the end, by the rows of the
/// level below, which are up to date.
fn stretch(txn: &Txn<'_>, listing: Listing, level: u8, id: EmailId) -> Result<u64, Error> {
    let next = next_after(txn, listing, level, id)?;
    if level == 1 {
        let index = |email| ListingEmailKey { account: txn.account, listing, email };
        return txn.count::<MailboxEmailIndex>(&match next {
            Some(next) => KeyRange::between(&index(id), &index(next)),
            None => KeyRange::from(&(txn.account, listing), &index(id)),
        });
    }
    let below = level - 1;
    let from = key(txn, listing, below, id);
    let range = match next {
        Some(next) => KeyRange::between(&from, &key(txn, listing, below, next)),
        None => KeyRange::from(&(txn.account, listing, below), &from),
    };
    let mut count = 0;
    txn.rows::<MailboxRank>(&range, |_, RankCount(emails)| {
        count += emails;
        Ok(true)
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{ListingFilter, MailboxUid, ModSeq, Shape, ThreadId};
    use crate::store::Thresholds;
    use crate::store::engine::memory::MemoryEngine;
    use crate::store::engine::{Batch, Engine, Put};
    use crate::store::txn::snapshot::Snapshot;

    #[test]
    fn emails_are_found_by_position_and_positions_by_email() {
        let ranking = Ranking { key: [7; 16], above: 0, below: 0 };
        let (account, listing) = (
            AccountId(1),
            Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails },
        );
        for (emails, levels) in [(1, 0), (15, 0), (60, 1), (700, 1), (2500, 2), (9000, 3)] {
            let ids: Vec<EmailId> = (1..=emails).map(|n: u64| EmailId(n * n * 5 + n)).collect();
            let ranks = rows_of(ranking, account, listing, &ids);
            let highest = ranks.keys().map(|key| key.level).max();
            assert!(highest.unwrap_or(0) >= levels, "{emails} emails have {highest:?}");
            let index = ids.iter().map(|id| {
                let key = ListingEmailKey { account, listing, email: *id };
                Put::row::<MailboxEmailIndex>(&key, &(ModSeq(1), ThreadId(id.0)))
            });
            let ranks =
                ranks.iter().map(|(key, count)| Put::row::<MailboxRank>(key, &RankCount(*count)));
            let puts = index.chain(ranks).collect();
            let engine = MemoryEngine::new();
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            let snapshot = Snapshot::of(engine.snapshot(), Thresholds::SMALL);
            let stats = ListingStats {
                total: emails,
                front: Some(front_of(ranking, &ids)),
                low: ModSeq(0),
            };
            for (at, id) in ids
                .iter()
                .enumerate()
                .filter(|(at, _)| *at < 200 || at % 37 == 0 || at + 20 > ids.len())
            {
                assert_eq!(
                    snapshot.listing_position(account, listing, stats, *id).unwrap(),
                    at as u64,
                    "of {emails}"
                );
                // No email of the listing: the ids have gaps.
                let between = EmailId(id.0 + 1);
                assert_eq!(
                    snapshot.listing_position(account, listing, stats, between).unwrap(),
                    at as u64 + 1,
                    "of {emails}"
                );
                let found = snapshot
                    .listing_page(account, listing, stats, at as u64, (Some(EmailId(0)), 0), 1)
                    .unwrap();
                assert_eq!(found, [(*id, ThreadId(id.0))], "{at} of {emails}");
            }
        }
    }
}
