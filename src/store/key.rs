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
//! outbox_messages      account:4 action:8
//! outbox_due           class:1 due:8 account:4 action:8 (of class 3 the action that it waits for stands in the place of due)
//! outbox_same          account:4 hash:16
//! outbox_blobs         hash:32 account:4 action:8
//! blob_purge           at:8 hash:32
//! history              account:4 at:8
//! sweeps               account:4 what:1
//! uploads              account:4 user:4 hash:32
//! upload_blobs         hash:32 account:4 user:4
//! objects              account:4 kind:1 object:8
//! object_by_modseq     account:4 kind:1 modseq:8
//! shared               with:4 account:4
//!
//! listing = mailbox:4 view:1 shape:1
//! token   = 1 hash:4 | 2 text (a NUL in it is 0 255) 0 1
//! ```
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::error::{Error, hex};
pub use super::table::folds::FoldId;
use crate::model::{AccountId, BlobHash, EmailId, MailboxUid, ModSeq, ObjectKind, ThreadId, ThreadKey, Token};

/// A key under construction.
#[derive(Debug, Clone)]
struct KeyBuilder(Vec<u8>);

impl KeyBuilder {
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
}

/// Every key of an account in an account's table; also the key of its only row.
#[must_use]
pub fn account(account: AccountId) -> Vec<u8> {
    KeyBuilder::of(account).0
}

/// `email_metadata`, `email_content`, `email_tokens`.
#[must_use]
pub fn email(account: AccountId, email: EmailId) -> Vec<u8> {
    KeyBuilder::of(account).u64(email.0).0
}

/// `email_by_modseq`, `thread_by_modseq`.
#[must_use]
pub fn by_modseq(account: AccountId, modseq: ModSeq) -> Vec<u8> {
    KeyBuilder::of(account).u64(modseq.0).0
}

/// `threads`; prefix of `email_by_thread`.
#[must_use]
pub fn thread(account: AccountId, thread: ThreadId) -> Vec<u8> {
    KeyBuilder::of(account).u64(thread.0).0
}

/// `email_by_thread`.
#[must_use]
pub fn email_by_thread(account: AccountId, thread: ThreadId, email: EmailId) -> Vec<u8> {
    KeyBuilder::of(account).u64(thread.0).u64(email.0).0
}

/// Prefix of the rows of a fold; those of a level run newest first.
#[must_use]
pub fn fold(account: AccountId, fold: FoldId) -> Vec<u8> {
    KeyBuilder::of(account).u8(fold.level).u64(u64::MAX.saturating_sub(fold.number)).0
}

/// Prefix of the rows that say which emails a fold has.
#[must_use]
pub fn fold_emails(account: AccountId, id: FoldId) -> Vec<u8> {
    KeyBuilder(fold(account, id)).u8(0).0
}

/// Emails of a fold from an ordinal.
#[must_use]
pub fn fold_ids(account: AccountId, id: FoldId, first: u32) -> Vec<u8> {
    KeyBuilder(fold_emails(account, id)).u32(first).0
}

/// Not after any block of a fold, and after the rows of its emails.
#[must_use]
pub fn fold_blocks(account: AccountId, id: FoldId) -> Vec<u8> {
    KeyBuilder(fold(account, id)).u8(1).0
}

/// Prefix of the blocks that begin with a token; before those of all greater ones.
#[must_use]
pub fn fold_token(account: AccountId, id: FoldId, token: &Token) -> Vec<u8> {
    match token {
        Token::Word(hash) => KeyBuilder(fold(account, id)).u8(1).u32(*hash).0,
        Token::Text(text) => KeyBuilder(fold_texts(account, id, text)).u8(0).u8(1).0,
    }
}

/// Prefix of the blocks that begin with a text that begins so.
#[must_use]
pub fn fold_texts(account: AccountId, id: FoldId, prefix: &str) -> Vec<u8> {
    let mut key = KeyBuilder(fold(account, id)).u8(2);
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
    KeyBuilder(fold_token(account, id, token)).u32(ordinal).u32(position).0
}

/// `mailboxes`; prefix of `subscriptions`.
#[must_use]
pub fn mailbox(account: AccountId, uid: MailboxUid) -> Vec<u8> {
    KeyBuilder::of(account).u32(uid.0).0
}

/// `thread_refs`.
#[must_use]
pub fn thread_ref(account: AccountId, key: &ThreadKey) -> Vec<u8> {
    KeyBuilder::of(account).bytes(&key.0).0
}

/// `blobs`; prefix of what is kept by message: `blob_frames`, `blob_refs`, `outbox_blobs`, `upload_blobs`.
#[must_use]
pub fn blob(hash: &BlobHash) -> Vec<u8> {
    hash.0.to_vec()
}

/// `blob_refs`.
#[must_use]
pub fn blob_ref(hash: &BlobHash, account: AccountId, email: EmailId) -> Vec<u8> {
    KeyBuilder(hash.0.to_vec()).u32(account.0).u64(email.0).0
}

/// Prefix of the objects of a kind, in both of their tables.
#[must_use]
pub fn objects(account: AccountId, kind: ObjectKind) -> Vec<u8> {
    KeyBuilder::of(account).u8(kind as u8).0
}

/// Reads numbers back out of a key, from its end: those of fixed width that end it.
#[derive(Debug)]
pub struct KeySuffix<'a> {
    table: &'static str,
    whole: &'a [u8],
    left: &'a [u8],
}

impl<'a> KeySuffix<'a> {
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
mod tests;
