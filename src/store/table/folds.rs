//! The keys of the search index: the list of an account's folds, and the rows of each fold, newer
//! folds of a level first. The emails of a fold sort before its blocks.

use std::cmp::Reverse;

use super::codec::{Key, KeyPart, Prefix, Tag, key, write_text_start};
use super::keys::AccountKey;
use crate::model::{AccountId, Token};
use crate::store::row::RowError;

/// A fold of the search index. Two folds of an account have different numbers, also on different
/// levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FoldId {
    /// How often the emails of the fold were merged.
    pub level: u8,
    pub number: u64,
}

key! {
    /// Some emails of a fold, beginning with the email of this ordinal.
    FoldEmailsKey { account: AccountId, level: u8, number: Reverse<u64>, kind: Tag<0>, first: u32 }

    /// A block of a fold's postings, by its first posting.
    FoldBlockKey {
        account: AccountId,
        level: u8,
        number: Reverse<u64>,
        token: Token,
        ordinal: u32,
        position: u32,
    }
}

/// The key of a row of `search_folds`. Its derived order is not that of the rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FoldKey {
    List(AccountKey),
    Emails(FoldEmailsKey),
    Block(FoldBlockKey),
}

impl FoldKey {
    pub(crate) fn list(account: AccountId) -> Self {
        Self::List(AccountKey { account })
    }

    /// The key of the row of a fold's emails of which the first has this ordinal.
    pub(crate) fn emails(account: AccountId, FoldId { level, number }: FoldId, first: u32) -> Self {
        Self::Emails(FoldEmailsKey { account, level, number: Reverse(number), kind: Tag, first })
    }

    /// The key of the block of a fold that begins with this posting.
    pub(crate) fn block(
        account: AccountId,
        fold: FoldId,
        token: &Token,
        ordinal: u32,
        position: u32,
    ) -> Self {
        let (FoldId { level, number }, token) = (fold, token.clone());
        Self::Block(FoldBlockKey {
            account,
            level,
            number: Reverse(number),
            token,
            ordinal,
            position,
        })
    }

    /// The fold to which the row belongs; `None` for the list.
    pub(crate) fn fold(&self) -> Option<FoldId> {
        let (level, Reverse(number)) = match self {
            Self::List(_) => return None,
            Self::Emails(key) => (key.level, key.number),
            Self::Block(key) => (key.level, key.number),
        };
        Some(FoldId { level, number })
    }
}

impl KeyPart for FoldKey {
    const WIDTH: usize = 0;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::List(key) => key.write(out),
            Self::Emails(key) => key.write(out),
            Self::Block(key) => key.write(out),
        }
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        // Behind account, level and number, `FoldEmailsKey` has a 0, and `FoldBlockKey` a token,
        // which begins with 1 or 2.
        const KIND: usize = AccountId::WIDTH + u8::WIDTH + u64::WIDTH;
        match (input.get(KIND), input.len() > AccountId::WIDTH) {
            (None, false) => AccountKey::read(input).map(Self::List),
            (Some(0), _) => FoldEmailsKey::read(input).map(Self::Emails),
            (Some(_), _) => FoldBlockKey::read(input).map(Self::Block),
            (None, true) => Err(RowError("the key is too short")),
        }
    }
}

impl Key for FoldKey {}

impl Prefix<FoldKey> for (AccountId,) {
    fn encode(&self) -> Vec<u8> {
        Prefix::<AccountKey>::encode(&AccountKey { account: self.0 })
    }
}

impl Prefix<FoldKey> for (AccountId, FoldId) {
    fn encode(&self) -> Vec<u8> {
        let (account, FoldId { level, number }) = self;
        Prefix::<FoldBlockKey>::encode(&(*account, *level, Reverse(*number)))
    }
}

/// Rows of one fold that are neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FoldRows<'a> {
    Emails,
    /// The blocks that begin with a word.
    Words,
    /// The blocks that begin with this token.
    Token(&'a Token),
    /// The blocks that begin with a text that has this prefix.
    Texts(&'a str),
}

impl Prefix<FoldKey> for (AccountId, FoldId, FoldRows<'_>) {
    fn encode(&self) -> Vec<u8> {
        let (account, fold, rows) = self;
        let mut out = (*account, *fold).encode();
        match rows {
            FoldRows::Emails => out.push(0),
            FoldRows::Words => out.push(1),
            FoldRows::Token(token) => token.write(&mut out),
            FoldRows::Texts(text) => write_text_start(text, &mut out),
        }
        out
    }
}
