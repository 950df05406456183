//! Checks the search index. A deep check also compares the tokens with those of the messages.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::model::{AccountId, DeliveredTo, EmailId, Token, Tokens, field};
use crate::store::engine::segments::Segments;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowFn, RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::block::read_block;
use crate::store::row::fold::{Fold, Folds, read_fold_emails};
use crate::store::row::{Row, are_tokens_outdated, content_prefix, decode_tokens};
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldId, FoldKey, FoldRows};
use crate::store::table::keys::EmailKey;
use crate::store::table::{self, EmailContent, EmailTokens, SearchFolds};
use crate::store::txn::snapshot::Snapshot;

impl Checker<'_> {
    /// Checks the token rows and the folds.
    ///
    /// With `CheckOptions::refold` there must be no folds, and `check_emails` checks the token row
    /// of each live email. Without it, faults are only reported: a repair that finds one checks
    /// again with `refold`, and writes those fixes.
    pub(in crate::store) fn check_search_index(&mut self) -> Result<(), Error> {
        let own = FoldKey::list(self.account).encode();
        let found = self.read.bytes::<SearchFolds>(&FoldKey::list(self.account))?;
        let found = found.map(|row| Folds::decode(&own, &row));
        if self.options.refold {
            self.census.unfolded = self.census.live;
            return self.expect_no_folds(found.and_then(Result::ok).map(|folds| folds.last));
        }
        // How many times each email of the census is in the index.
        let mut counts = vec![0u8; self.census.mails.len()];
        let mut rows = self.rows::<EmailTokens>();
        while let Some(found) = rows.next()? {
            self.census.unfolded = self.census.unfolded.saturating_add(1);
            if let Err(error) = decode_tokens(&found.key, &found.value) {
                self.report(Table::EmailTokens, &found.key, error.to_string(), RowFix::Delete)?;
            }
            let id = found.id().map(|key| key.email);
            let at =
                id.and_then(|id| self.census.mails.binary_search_by_key(&id, |mail| mail.id).ok());
            if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
                *count = count.saturating_add(1);
            }
        }
        let folds = match found {
            Some(Err(error)) => {
                return self.report(Table::SearchFolds, &own, error.to_string(), RowFix::Delete);
            }
            found => found.and_then(Result::ok).unwrap_or_default(),
        };
        for fold in &folds.live {
            for id in self.check_fold(fold)? {
                let Ok(at) = self.census.mails.binary_search_by_key(&id, |mail| mail.id) else {
                    continue;
                };
                let mail = self
                    .census
                    .mails
                    .get(at)
                    .filter(|mail| mail.is_live() && mail.created <= fold.created_upto.0);
                if let (Some(_), Some(count)) = (mail, counts.get_mut(at)) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let faulty = self
            .census
            .mails
            .iter()
            .zip(counts)
            .filter(|(mail, count)| mail.is_live() && *count != 1);
        for (mail, count) in faulty {
            let key = EmailKey { account: self.account, email: mail.id }.encode();
            let what = format!("is {count} times in the search index, and not once");
            self.report(Table::EmailTokens, &key, what, RowFix::Delete)?;
        }
        self.check_fold_rows(&folds)?;
        if let Some(make_rows) = self.options.make_rows {
            let snapshot =
                Snapshot::of(Box::new(BorrowedReader(self.read)), self.options.thresholds);
            match emails_with_other_tokens(
                &snapshot,
                self.account,
                self.options.check_earlier_tokens,
                |raw| make_rows(raw).tokens,
            ) {
                Ok(all) => {
                    for id in all {
                        let what = "the tokens in the search index are not those of its message"
                            .to_owned();
                        let key = EmailKey { account: self.account, email: id }.encode();
                        self.report(Table::EmailTokens, &key, what, RowFix::Delete)?;
                    }
                }
                Err(error @ Error::Corrupt { .. }) => {
                    self.report(Table::EmailTokens, &own, error.to_string(), RowFix::Delete)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that `search_folds` has no row but the list, with the number of the last fold.
    fn expect_no_folds(&self, last: Option<u64>) -> Result<(), Error> {
        let own = FoldKey::list(self.account);
        let head = last.map(|last| (own, Folds { last, ..Folds::default() }.encode()));
        self.expect_encoded_rows::<SearchFolds>(head.into_iter())
    }

    /// Checks the rows of a fold. Returns its emails, in the order of the rows.
    fn check_fold(&self, fold: &Fold) -> Result<Vec<EmailId>, Error> {
        let mut ids: Vec<EmailId> = Vec::new();
        let mut last: Option<(Token, u32, u32)> = None;
        let mut problems: Vec<(Vec<u8>, String)> = Vec::new();
        let account = self.account;
        self.read.raw_rows(
            &KeyRange::<SearchFolds>::under(&(account, fold.id)),
            |key, value| {
                if key.starts_with(&(account, fold.id, FoldRows::Emails).encode()) {
                    let first = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                    if key != FoldKey::emails(account, fold.id, first).encode() {
                        problems.push((key.to_vec(), format!("should begin with ordinal {first}")));
                    }
                    match read_fold_emails(key, value) {
                        Ok(some) => ids.extend(some),
                        Err(error) => problems.push((key.to_vec(), error.to_string())),
                    }
                    return Ok(true);
                }
                let mut first = true;
                let mut fault = None;
                let read = read_block(
                    key,
                    value,
                    |_, _| Some(true),
                    |posting| {
                        let place =
                            (posting.sort_key().0.clone(), posting.ordinal, posting.sort_key().2);
                        if std::mem::take(&mut first)
                            && key
                                != FoldKey::block(account, fold.id, &place.0, place.1, place.2)
                                    .encode()
                        {
                            fault = Some("the key is not that of its first posting");
                        }
                        if posting.ordinal >= fold.emails
                            || last.as_ref().is_some_and(|last| *last >= place)
                        {
                            fault = Some("postings out of order, or of no email of the fold");
                        }
                        last = Some(place);
                    },
                );
                let fault = read.err().map(|error| error.to_string()).or(fault.map(str::to_owned));
                problems.extend(fault.map(|fault| (key.to_vec(), fault)));
                Ok(true)
            },
        )?;
        let sorted = ids.windows(2).all(|pair| matches!(pair, [one, next] if one < next));
        let ends =
            (ids.first().copied(), ids.last().copied()) == (Some(fold.newest), Some(fold.oldest));
        if ids.len() as u64 != u64::from(fold.emails) || !sorted || !ends {
            problems.push((
                (account, fold.id).encode(),
                format!("its {} emails are not those of {fold:?}", ids.len()),
            ));
        }
        for (key, what) in problems {
            self.report(Table::SearchFolds, &key, what, RowFix::Delete)?;
        }
        Ok(ids)
    }

    /// Checks that every row belongs to a fold that is searched, being made, or being deleted.
    fn check_fold_rows(&self, folds: &Folds) -> Result<(), Error> {
        let live = folds.live.iter().map(|fold| fold.id);
        let named: Vec<FoldId> = live
            .chain(folds.merges.iter().map(|merge| merge.into.id))
            .chain(folds.dropped.iter().copied())
            .collect();
        let mut orphans = Vec::new();
        let mut rows = self.rows::<SearchFolds>();
        while let Some(found) = rows.next()? {
            let is_known =
                found.id().is_some_and(|key| key.fold().is_none_or(|fold| named.contains(&fold)));
            if !is_known {
                orphans.push(found.key);
            }
        }
        for key in orphans {
            self.report(
                Table::SearchFolds,
                &key,
                "belongs to a fold that does not exist",
                RowFix::Delete,
            )?;
        }
        for merge in &folds.merges {
            if merge.sources.iter().any(|source| !folds.live.iter().any(|fold| fold.id == *source))
            {
                let what = format!("{:?} is made of folds that do not exist", merge.into.id);
                let list = FoldKey::list(self.account).encode();
                self.report(Table::SearchFolds, &list, what, RowFix::Delete)?;
            }
        }
        Ok(())
    }
}

/// The reader of a check, for a `Snapshot`, which must own its reader.
struct BorrowedReader<'a>(&'a dyn RowReader);

impl RowReader for BorrowedReader<'_> {
    fn segments(&self) -> Option<&Segments> {
        self.0.segments()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.0.scan(table, from, to, reverse, each)
    }
}

/// Returns the live emails whose tokens in the index differ from those that `make_tokens` makes of
/// their message, by a digest. Emails whose message cannot be read are left out, and tokens that
/// were made by the rules of an earlier version, unless `check_earlier_tokens`.
fn emails_with_other_tokens(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    check_earlier_tokens: bool,
    mut make_tokens: impl FnMut(&[u8]) -> Tokens,
) -> Result<Vec<EmailId>, Error> {
    let (read, mut different) = (snapshot.reader(), Vec::new());
    // `found` is the digest of the email's tokens in the index.
    let mut one = |id: EmailId, found: u64| -> Result<(), Error> {
        let key = EmailKey { account, email: id };
        let Some(email) = read.row::<table::EmailMetadata>(&key)? else { return Ok(()) };
        let content = read.bytes::<EmailContent>(&key)?.unwrap_or_default();
        if !check_earlier_tokens && are_tokens_outdated(&content) {
            return Ok(());
        }
        // The check of the email reports a message that is missing or damaged.
        let raw = match snapshot.raw_message(&email.blob) {
            Ok(Some(raw)) if *blake3::hash(&raw).as_bytes() == email.blob.0 => raw,
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // The index also has the address to which this email was delivered.
        let own = DeliveredTo::parse(&content_prefix(&content).unwrap_or_default()).search_text();
        let own =
            own.map_or(0, |text| token_digest(&Token::Text(text), field::DELIVERED_HERE, &[]));
        if digest(&make_tokens(&raw)).wrapping_add(own) != found {
            different.push(id);
        }
        Ok(())
    };
    let unfolded = KeyRange::under(&(account,));
    read.rows_with::<EmailTokens, _>(&unfolded, decode_tokens, |key, tokens| {
        one(key.email, digest(&tokens)).map(|()| true)
    })?;
    for fold in snapshot.folds(account)?.live {
        let ids = snapshot.fold_emails(account, fold.id)?;
        let mut sums = vec![0u64; ids.len()];
        let blocks = KeyRange::<SearchFolds>::from(
            &(account, fold.id),
            &(account, fold.id, FoldRows::Words),
        );
        read.raw_rows(&blocks, |key, value| {
            read_block(
                key,
                value,
                |_, _| Some(true),
                |posting| {
                    let sum = usize::try_from(posting.ordinal).ok().and_then(|at| sums.get_mut(at));
                    if let Some(sum) = sum {
                        *sum = sum.wrapping_add(token_digest(
                            &posting.token,
                            posting.fields,
                            &posting.positions,
                        ));
                    }
                },
            )?;
            Ok(true)
        })?;
        for (id, sum) in ids.into_iter().zip(sums) {
            if snapshot.is_current_in_fold(account, fold.created_upto, id)? {
                one(id, sum)?;
            }
        }
    }
    Ok(different)
}

/// A sum of the digests of tokens, which does not depend on their order or on how their positions
/// are divided.
fn digest(tokens: &Tokens) -> u64 {
    let words = tokens
        .words
        .iter()
        .map(|word| token_digest(&Token::Word(word.hash), word.fields(), word.positions));
    let texts = tokens
        .texts
        .iter()
        .map(|(text, fields)| token_digest(&Token::Text(text.clone()), *fields, &[]));
    words.chain(texts).fold(0, u64::wrapping_add)
}

/// The sum of the digests of a token at each of its positions; of one without positions, the digest
/// of token and fields.
fn token_digest(token: &Token, fields: u16, positions: &[u32]) -> u64 {
    let mut start = SipHasher13::new();
    match token {
        Token::Word(hash) => start.write_u32(*hash),
        Token::Text(text) => start.write(text.as_bytes()),
    }
    start.write_u16(fields);
    if positions.is_empty() {
        return start.finish();
    }
    let at = |position: &u32| {
        let mut one = start;
        one.write_u32(*position);
        one.finish()
    };
    positions.iter().map(at).fold(0, u64::wrapping_add)
}
