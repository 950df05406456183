//! THE table of all keys. Big-endian numbers, so that byte order is numeric order; an account's keys begin with its id.
//!
//! ```text
//! site                 "store" | "repair:" account:4
//! accounts             account:4
//! addresses            user@domain (folded) | @domain (catch-all) | @@domain (alias domain) | =name
//! account_state        account:4
//! email_metadata       account:4 email:8
//! email_by_modseq      account:4 modseq:8
//! email_by_thread      account:4 thread:8 email:8
//! email_content        account:4 email:8
//! email_tokens         account:4 email:8
//! search_folds         account:4 (which folds there are)
//!                      account:4 level:1 reversed fold:8 0 first ordinal:4 (emails of the fold)
//!                      account:4 level:1 reversed fold:8 token ordinal:4 position:4 (a block, by what it begins with)
//! mailbox_email_list   account:4 listing:6 removed:8 (0: shown now) added:8
//! mailbox_email_index  account:4 listing:6 email:8
//! mailbox_rank         account:4 listing:6 level:1 boundary email:8
//! mailbox_thread_index account:4 mailbox:4 view:1 thread:8 email:8
//! threads              account:4 thread:8
//! thread_by_modseq     account:4 modseq:8
//! mailboxes            account:4 mailbox:4
//! subscriptions        account:4 mailbox:4 subscriber:4
//! thread_refs          account:4 hash of id:16 hash of subject:16
//! blobs                hash:32
//! blob_frames          hash:32 number:4
//! blob_refs            hash:32 account:4 email:8
//! deliveries           account:4 hash:32
//! delivery_by_time     account:4 at:8 hash:32
//! vacation             account:4
//! vacation_told        account:4 handle:16 sender:16
//! told_by_time         account:4 at:8 handle:16 sender:16
//! decisions            account:4 reversed time:8 email:8
//! email_purge          account:4 deleted at:8 email:8
//! outbox               account:4 action:8
//! outbox_due           due:8 account:4 action:8
//! blob_purge           at:8 hash:32
//! history              account:4 at:8
//! sweeps               account:4 what:1
//!
//! listing = mailbox:4 view:1 shape:1
//! token   = 1 hash:4 | 2 text (a NUL in it is 0 255) 0 1
//! ```
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::error::{Error, hex};
use crate::model::{
    AccountId, ActionId, BlobHash, EmailId, Listing, MailboxUid, ModSeq, ThreadId, ThreadKey, Token, ToldKey,
    UtcMillis, View,
};

/// A key under construction.
#[derive(Debug, Clone, Default)]
struct Key(Vec<u8>);

impl Key {
    fn of(account: AccountId) -> Self {
        let mut key = Vec::with_capacity(44);
        key.extend_from_slice(&account.0.to_be_bytes());
        Self(key)
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }

    fn listing(self, listing: Listing) -> Self {
        self.u32(listing.uid.0).u8(listing.view as u8).u8(listing.shape as u8)
    }
}

fn millis(at: UtcMillis) -> u64 {
    u64::try_from(at.0).unwrap_or(0)
}

/// Every key of an account in an account's table; also the key of its only row.
#[must_use]
pub fn account(account: AccountId) -> Vec<u8> {
    Key::of(account).0
}

/// `email_metadata`, `email_content`, `email_tokens`.
#[must_use]
pub fn email(account: AccountId, email: EmailId) -> Vec<u8> {
    Key::of(account).u64(email.0).0
}

/// `email_by_modseq`, `thread_by_modseq`.
#[must_use]
pub fn by_modseq(account: AccountId, modseq: ModSeq) -> Vec<u8> {
    Key::of(account).u64(modseq.0).0
}

/// `threads`; prefix of `email_by_thread`.
#[must_use]
pub fn thread(account: AccountId, thread: ThreadId) -> Vec<u8> {
    Key::of(account).u64(thread.0).0
}

/// `email_by_thread`.
#[must_use]
pub fn email_by_thread(account: AccountId, thread: ThreadId, email: EmailId) -> Vec<u8> {
    Key::of(account).u64(thread.0).u64(email.0).0
}

/// Prefix of a listing's rows.
#[must_use]
pub fn listing(account: AccountId, listing: Listing) -> Vec<u8> {
    Key::of(account).listing(listing).0
}

/// A fold of the search index: its level, and its number in the account, which none had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FoldId {
    /// How often its emails were merged.
    pub level: u8,
    /// In order of making.
    pub number: u64,
}

/// Prefix of the rows of a fold; those of a level run newest first.
#[must_use]
pub fn fold(account: AccountId, fold: FoldId) -> Vec<u8> {
    Key::of(account).u8(fold.level).u64(u64::MAX.saturating_sub(fold.number)).0
}

/// Prefix of the rows that say which emails a fold has.
#[must_use]
pub fn fold_emails(account: AccountId, id: FoldId) -> Vec<u8> {
    Key(fold(account, id)).u8(0).0
}

/// Emails of a fold from an ordinal.
#[must_use]
pub fn fold_ids(account: AccountId, id: FoldId, first: u32) -> Vec<u8> {
    Key(fold_emails(account, id)).u32(first).0
}

/// Not after any block of a fold, and after the rows of its emails.
#[must_use]
pub fn fold_blocks(account: AccountId, id: FoldId) -> Vec<u8> {
    Key(fold(account, id)).u8(1).0
}

/// Prefix of the blocks that begin with a token; before those of all greater ones.
#[must_use]
pub fn fold_token(account: AccountId, id: FoldId, token: &Token) -> Vec<u8> {
    match token {
        Token::Word(hash) => Key(fold(account, id)).u8(1).u32(*hash).0,
        Token::Text(text) => Key(fold_texts(account, id, text)).u8(0).u8(1).0,
    }
}

/// Prefix of the blocks that begin with a text that begins so.
#[must_use]
pub fn fold_texts(account: AccountId, id: FoldId, prefix: &str) -> Vec<u8> {
    let mut key = Key(fold(account, id)).u8(2);
    for octet in prefix.bytes() {
        key.0.push(octet);
        if octet == 0 {
            key.0.push(0xff);
        }
    }
    key.0
}

/// A block of a fold, by the first posting in it.
#[must_use]
pub fn fold_block(account: AccountId, id: FoldId, token: &Token, ordinal: u32, position: u32) -> Vec<u8> {
    Key(fold_token(account, id, token)).u32(ordinal).u32(position).0
}

/// `mailbox_email_list`; `removed` 0 while it is shown.
#[must_use]
pub fn list(account: AccountId, listing: Listing, removed: ModSeq, added: ModSeq) -> Vec<u8> {
    Key::of(account).listing(listing).u64(removed.0).u64(added.0).0
}

/// `mailbox_email_index`.
#[must_use]
pub fn index(account: AccountId, listing: Listing, email: EmailId) -> Vec<u8> {
    Key::of(account).listing(listing).u64(email.0).0
}

/// Prefix of one level of `mailbox_rank`.
#[must_use]
pub fn rank_level(account: AccountId, listing: Listing, level: u8) -> Vec<u8> {
    Key::of(account).listing(listing).u8(level).0
}

/// `mailbox_rank`.
#[must_use]
pub fn rank(account: AccountId, listing: Listing, level: u8, boundary: EmailId) -> Vec<u8> {
    Key(rank_level(account, listing, level)).u64(boundary.0).0
}

/// Prefix of a view's rows in `mailbox_thread_index`.
#[must_use]
pub fn view_index(account: AccountId, uid: MailboxUid, view: View) -> Vec<u8> {
    Key::of(account).u32(uid.0).u8(view as u8).0
}

/// Prefix of a thread's rows in `mailbox_thread_index`.
#[must_use]
pub fn thread_index_of(account: AccountId, uid: MailboxUid, view: View, thread: ThreadId) -> Vec<u8> {
    Key::of(account).u32(uid.0).u8(view as u8).u64(thread.0).0
}

/// `mailbox_thread_index`.
#[must_use]
pub fn thread_index(account: AccountId, uid: MailboxUid, view: View, thread: ThreadId, email: EmailId) -> Vec<u8> {
    Key(thread_index_of(account, uid, view, thread)).u64(email.0).0
}

/// `mailboxes`; prefix of `subscriptions`.
#[must_use]
pub fn mailbox(account: AccountId, uid: MailboxUid) -> Vec<u8> {
    Key::of(account).u32(uid.0).0
}

/// `subscriptions`: of an account's mailbox, by who is subscribed.
#[must_use]
pub fn subscription(account: AccountId, uid: MailboxUid, subscriber: AccountId) -> Vec<u8> {
    Key::of(account).u32(uid.0).u32(subscriber.0).0
}

/// `thread_refs`.
#[must_use]
pub fn thread_ref(account: AccountId, key: &ThreadKey) -> Vec<u8> {
    Key::of(account).bytes(&key.0).0
}

/// `blobs`; prefix of `blob_refs` and `blob_frames`.
#[must_use]
pub fn blob(hash: &BlobHash) -> Vec<u8> {
    hash.0.to_vec()
}

/// `blob_frames`.
#[must_use]
pub fn blob_frame(hash: &BlobHash, number: u32) -> Vec<u8> {
    Key(hash.0.to_vec()).u32(number).0
}

/// `blob_refs`.
#[must_use]
pub fn blob_ref(hash: &BlobHash, account: AccountId, email: EmailId) -> Vec<u8> {
    Key(hash.0.to_vec()).u32(account.0).u64(email.0).0
}

/// `deliveries`.
#[must_use]
pub fn delivery(account: AccountId, hash: &[u8; 32]) -> Vec<u8> {
    Key::of(account).bytes(hash).0
}

/// `delivery_by_time`.
#[must_use]
pub fn delivery_by_time(account: AccountId, at: UtcMillis, hash: &[u8; 32]) -> Vec<u8> {
    Key::of(account).u64(millis(at)).bytes(hash).0
}

/// `vacation_told`.
#[must_use]
pub fn told(account: AccountId, key: &ToldKey) -> Vec<u8> {
    Key::of(account).bytes(&key.0).0
}

/// `told_by_time`.
#[must_use]
pub fn told_by_time(account: AccountId, at: UtcMillis, key: &ToldKey) -> Vec<u8> {
    Key::of(account).u64(millis(at)).bytes(&key.0).0
}

/// `decisions`: newest first.
#[must_use]
pub fn decision(account: AccountId, at: UtcMillis, email: EmailId) -> Vec<u8> {
    Key::of(account).u64(u64::MAX.saturating_sub(millis(at))).u64(email.0).0
}

/// `email_purge`.
#[must_use]
pub fn purge(account: AccountId, at: UtcMillis, email: EmailId) -> Vec<u8> {
    Key::of(account).u64(millis(at)).u64(email.0).0
}

/// `outbox`.
#[must_use]
pub fn action(account: AccountId, action: ActionId) -> Vec<u8> {
    Key::of(account).u64(action.0).0
}

/// `outbox_due`.
#[must_use]
pub fn due(at: UtcMillis, account: AccountId, action: ActionId) -> Vec<u8> {
    Key::default().u64(millis(at)).u32(account.0).u64(action.0).0
}

/// `blob_purge`.
#[must_use]
pub fn blob_purge(at: UtcMillis, hash: &BlobHash) -> Vec<u8> {
    Key::default().u64(millis(at)).bytes(&hash.0).0
}

/// `history`.
#[must_use]
pub fn history(account: AccountId, at: UtcMillis) -> Vec<u8> {
    Key::of(account).u64(millis(at)).0
}

/// `sweeps`.
#[must_use]
pub fn sweep(account: AccountId, what: u8) -> Vec<u8> {
    Key::of(account).u8(what).0
}

/// Reads numbers back out of a key, from its end: those of fixed width that end it.
#[derive(Debug)]
pub struct Parts<'a> {
    table: &'static str,
    whole: &'a [u8],
    left: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Of a key of `table`.
    #[must_use]
    pub fn of(table: super::engine::Table, key: &'a [u8]) -> Self {
        Self { table: table.name(), whole: key, left: key }
    }

    /// The last eight octets that are left.
    ///
    /// # Errors
    /// `Corrupt` where there are fewer.
    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    /// The last four octets that are left.
    ///
    /// # Errors
    /// `Corrupt` where there are fewer.
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// The last `N` octets that are left.
    ///
    /// # Errors
    /// `Corrupt` where there are fewer.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (rest, last) = self.left.split_last_chunk::<N>().ok_or_else(|| Error::Corrupt {
            table: self.table,
            key: hex(self.whole),
            what: "the key is too short".into(),
        })?;
        self.left = rest;
        Ok(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Shape;
    use crate::store::engine::Table;

    proptest::proptest! {
        #[test]
        fn blocks_of_a_fold_sort_as_their_postings_do(
            mut all in proptest::collection::vec((posting(), proptest::num::u32::ANY, 0u32..3), 2..20),
        ) {
            let id = FoldId { level: 1, number: 7 };
            let key = |(token, ordinal, at): &(Token, u32, u32)| fold_block(AccountId(1), id, token, *ordinal, *at);
            all.sort();
            let keys: Vec<Vec<u8>> = all.iter().map(key).collect();
            proptest::prop_assert!(keys.is_sorted());
            for (row, key) in all.iter().zip(&keys) {
                proptest::prop_assert!(key.starts_with(&fold_token(AccountId(1), id, &row.0)));
                proptest::prop_assert!(key.starts_with(&fold(AccountId(1), id)));
                proptest::prop_assert!(*key > fold_ids(AccountId(1), id, u32::MAX));
            }
        }
    }

    fn posting() -> impl proptest::strategy::Strategy<Value = Token> {
        use proptest::strategy::Strategy as _;
        proptest::prop_oneof![(0u32..9).prop_map(Token::Word), "[a-b\\x00\u{e9}]{0,4}".prop_map(Token::Text),]
    }

    #[test]
    fn folds_run_newest_first_in_their_level() {
        let at = |level, number| fold(AccountId(1), FoldId { level, number });
        assert!(account(AccountId(1)) < at(0, 9) && at(0, 9) < at(0, 8) && at(0, 0) < at(1, 9));
        assert!(at(9, 0) < account(AccountId(2)));
    }

    #[test]
    fn keys_sort_as_their_parts_do_and_read_back() {
        let account_7 = AccountId(7);
        let of = |uid, view, shape| Listing { uid: MailboxUid(uid), view, shape };
        let mut listings = [
            index(account_7, of(1, View::Every, Shape::Emails), EmailId(9)),
            index(account_7, of(1, View::Every, Shape::Threads), EmailId(1)),
            index(account_7, of(1, View::Flagged, Shape::Emails), EmailId(1)),
            index(account_7, of(256, View::Every, Shape::Emails), EmailId(0)),
            index(AccountId(8), of(0, View::Every, Shape::Emails), EmailId(0)),
        ];
        let ordered = listings.clone();
        listings.reverse();
        listings.sort();
        assert_eq!(listings, ordered);
        let key = due(UtcMillis(77), AccountId(5), ActionId(6));
        let mut parts = Parts::of(Table::OutboxDue, &key);
        assert_eq!((parts.u64(), parts.u32(), parts.u64()), (Ok(6), Ok(5), Ok(77)));
        assert!(parts.u32().is_err());
        let (new, old) = (UtcMillis(2000), UtcMillis(1000));
        assert!(decision(account_7, new, EmailId(1)) < decision(account_7, old, EmailId(0)));
    }
}
