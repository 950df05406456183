//! Compares the difference of two ranked listings with a naive one, at every position.

use crate::model::{
    EmailId, Listing, ListingFilter, ListingStats, MailboxUid, ModSeq, Shape, ThreadId,
};
use crate::store::engine::watched::CountingEngine;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::listing::rank::{Ranking, front_of, rows_of};
use crate::store::row::RankCount;
use crate::store::table::keys::ListingEmailKey;
use crate::store::table::{MailboxEmailIndex, MailboxRank};
use crate::store::tests::ACCOUNT;
use crate::store::{CountedListing, Snapshot, Thresholds};
use std::sync::Arc;

const EMAILS: u64 = 6_000;
const LIMIT: usize = 3;

fn ids() -> impl Iterator<Item = EmailId> {
    (1..=EMAILS).map(|n| EmailId(n * n * 5 + n))
}

/// Adds the rows of a listing of `ids` to `puts`. Its ranks must reach level `levels`.
fn listing(
    ranking: Ranking,
    filter: ListingFilter,
    ids: &[EmailId],
    levels: u8,
    puts: &mut Vec<Put>,
) -> CountedListing {
    let listing = Listing { uid: MailboxUid(1), filter, shape: Shape::Emails };
    let ranks = rows_of(ranking, ACCOUNT, listing, ids);
    let highest = ranks.keys().map(|key| key.level).max().unwrap_or(0);
    assert!(highest >= levels, "{} emails have {highest} levels", ids.len());
    puts.extend(ids.iter().map(|id| {
        let key = ListingEmailKey { account: ACCOUNT, listing, email: *id };
        Put::row::<MailboxEmailIndex>(&key, &(ModSeq(1), ThreadId(id.0)))
    }));
    puts.extend(ranks.iter().map(|(key, count)| Put::row::<MailboxRank>(key, &RankCount(*count))));
    let stats = ListingStats {
        total: ids.len() as u64,
        front: Some(front_of(ranking, ids)),
        low: ModSeq(0),
    };
    CountedListing { listing, stats }
}

/// Reads the difference from every position, and the position of each of its emails. `is_in_both`
/// says whether the email with a number is in both listings; 0 is the newest.
fn every_position(key: u8, is_in_both: impl Fn(u64) -> bool) {
    let ranking = Ranking { key: [key; 16], above: 0, below: 0 };
    let both: Vec<EmailId> =
        (0..).zip(ids()).filter(|(n, _)| is_in_both(*n)).map(|(_, id)| id).collect();
    let rest: Vec<EmailId> = ids().filter(|id| both.binary_search(id).is_err()).collect();
    let mut puts = Vec::new();
    let all = listing(ranking, ListingFilter::Every, &ids().collect::<Vec<_>>(), 3, &mut puts);
    let without = listing(ranking, ListingFilter::Flagged, &both, 1, &mut puts);
    let engine = CountingEngine::default();
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let snapshot = Snapshot::of(engine.snapshot(), Thresholds::SMALL);
    for (at, id) in (0..).zip(&rest) {
        let index = |of: CountedListing| {
            snapshot.listing_position(ACCOUNT, of.listing, of.stats, *id).unwrap()
        };
        assert_eq!(index(all) - index(without), at as u64, "the position of an email, key {key}");
        engine.read();
        let page = snapshot.listing_difference(ACCOUNT, all, without, at as u64, LIMIT).unwrap();
        let rows = engine.read();
        let wanted: Vec<EmailId> = rest.iter().skip(at).take(LIMIT).copied().collect();
        assert_eq!(
            page,
            wanted,
            "from {at} of {}, {} in both listings, key {key}",
            rest.len(),
            both.len()
        );
        // Far fewer than the rows of both listings.
        assert!(
            rows < 1_500,
            "{rows} rows from {at} of {}, {} in both listings",
            rest.len(),
            both.len()
        );
    }
    assert_eq!(
        snapshot.listing_difference(ACCOUNT, all, without, rest.len() as u64, LIMIT).unwrap(),
        []
    );
}

#[test]
fn the_difference_of_ranked_listings_is_found_at_every_position() {
    for key in 1..=2 {
        for every in [8, 20, 50] {
            every_position(key, |n| n % every == 0);
        }
    }
}

/// A stretch between two boundaries of the smaller listing has many emails of the difference, or
/// none.
#[test]
fn the_difference_is_found_at_every_position_around_dense_stretches() {
    every_position(1, |n| n >= EMAILS - 200);
    every_position(1, |n| n < 100 || (EMAILS - 1_000..EMAILS - 500).contains(&n));
    every_position(1, |n| n % 600 > 20);
}
