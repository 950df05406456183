//! The row that lists the folds of an account, and the rows with the emails of a fold.
//!
//! A fold or a merge takes effect only by the write of the list. Only rows of live folds count.

use super::{FieldReader, FieldWriter, Row, RowError, decode_with};
use crate::model::{EmailId, ModSeq, Token};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::table::folds::FoldId;

/// The list of an account's folds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folds {
    /// No fold of the account was ever given a higher number; 0 if there was none. Some numbers
    /// were given to none.
    pub last: u64,
    /// The folds that are searched, in no particular order.
    pub live: Vec<Fold>,
    /// The unfinished merges, at most one on a level. Their sources are live.
    pub merges: Vec<FoldMerge>,
    /// Merged folds, and new ones that are not finished, whose rows are still to be deleted.
    pub dropped: Vec<FoldId>,
}

/// A fold, without its emails and postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    pub id: FoldId,
    /// All emails in the fold were created by this change or an earlier one. An email that has the
    /// id of one of them and was created later is another email.
    pub created_upto: ModSeq,
    pub emails: u32,
    /// The newest email. This and `oldest` are 0 while a merge has written no email yet.
    pub newest: EmailId,
    pub oldest: EmailId,
    /// Whether the tokens say of every email where it was delivered (`model::delivered_to`). Not so
    /// in a fold that an earlier version began.
    pub knows_delivery: bool,
}

/// An unfinished merge of folds into a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldMerge {
    pub sources: Vec<FoldId>,
    /// The new fold, as far as it is written.
    pub into: Fold,
    pub next: MergePosition,
}

/// What a merge writes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergePosition {
    /// The emails of the new fold, from this one on. The postings come after the last email.
    Email(EmailId),
    /// The postings, from the first that does not sort before this token, ordinal and position.
    Posting(Token, u32, u32),
}

impl Folds {
    /// The live folds of a level that are in no merge, oldest first.
    #[must_use]
    pub fn free(&self, level: u8) -> Vec<Fold> {
        let is_source = |id: &FoldId| self.merges.iter().any(|merge| merge.sources.contains(id));
        let mut free: Vec<Fold> =
            self.live.iter().filter(|fold| fold.id.level == level).copied().collect();
        free.retain(|fold| !is_source(&fold.id));
        free.sort_by_key(|fold| fold.id.number);
        free
    }
}

impl Row for Folds {
    const TABLE: Table = Table::SearchFolds;
    /// Version 2 has `knows_delivery`.
    const VERSION: u8 = 2;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.last);
        out.list(self.live.iter(), write_fold);
        out.list(self.merges.iter(), |out, merge| {
            write_ids(out, &merge.sources);
            write_fold(out, &merge.into);
            match &merge.next {
                MergePosition::Email(id) => {
                    out.num(0u8);
                    out.num(id.0);
                }
                MergePosition::Posting(token, ordinal, position) => {
                    match token {
                        Token::Word(hash) => {
                            out.num(1u8);
                            out.num(*hash);
                        }
                        Token::Text(text) => {
                            out.num(2u8);
                            out.text(text);
                        }
                    }
                    out.num(*ordinal);
                    out.num(*position);
                }
            }
        });
        write_ids(out, &self.dropped);
    }

    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError> {
        let read_fold = |input: &mut FieldReader<'_>| read_fold(input, version);
        Ok(Self {
            last: input.num()?,
            live: input.list(read_fold)?,
            merges: input.list(|input| {
                Ok(FoldMerge {
                    sources: input.list(read_id)?,
                    into: read_fold(input)?,
                    next: match input.num()? {
                        0 => MergePosition::Email(EmailId(input.num()?)),
                        1 => MergePosition::Posting(
                            Token::Word(input.num32()?),
                            input.num32()?,
                            input.num32()?,
                        ),
                        2 => MergePosition::Posting(
                            Token::Text(input.text()?),
                            input.num32()?,
                            input.num32()?,
                        ),
                        _ => return Err(RowError("unknown step of a merge")),
                    },
                })
            })?,
            dropped: input.list(read_id)?,
        })
    }
}

fn write_fold(out: &mut FieldWriter, fold: &Fold) {
    write_id(out, fold.id);
    out.num(fold.created_upto.0);
    out.num(fold.emails);
    out.num(fold.newest.0);
    out.num(fold.oldest.0);
    out.bool(fold.knows_delivery);
}

fn read_fold(input: &mut FieldReader<'_>, version: u8) -> Result<Fold, RowError> {
    Ok(Fold {
        id: read_id(input)?,
        created_upto: ModSeq(input.num()?),
        emails: input.num32()?,
        newest: EmailId(input.num()?),
        oldest: EmailId(input.num()?),
        knows_delivery: version >= 2 && input.bool()?,
    })
}

fn write_id(out: &mut FieldWriter, id: FoldId) {
    out.num(id.level);
    out.num(id.number);
}

fn read_id(input: &mut FieldReader<'_>) -> Result<FoldId, RowError> {
    let level = u8::try_from(input.num()?).map_err(|_| RowError("level too large"))?;
    Ok(FoldId { level, number: input.num()? })
}

fn write_ids(out: &mut FieldWriter, ids: &[FoldId]) {
    out.list(ids.iter(), |out, id| write_id(out, *id));
}

/// Encodes a row with emails of a fold. The ids must ascend.
#[must_use]
pub fn fold_emails(ids: &[EmailId]) -> Vec<u8> {
    let mut out = FieldWriter::new(1);
    let mut last = 0;
    for id in ids {
        out.num(id.0.saturating_sub(last));
        last = id.0;
    }
    out.0
}

/// Decodes a row with emails of a fold, which ascend.
///
/// # Errors
/// `Corrupt`.
pub fn read_fold_emails(key: &[u8], bytes: &[u8]) -> Result<Vec<EmailId>, Error> {
    decode_with(Table::SearchFolds, key, bytes, 1, |input, _| {
        let (mut ids, mut last) = (Vec::new(), 0u64);
        while !input.0.is_empty() {
            let step = input.num()?;
            if step == 0 && !ids.is_empty() {
                return Err(RowError("an email twice"));
            }
            last = last.checked_add(step).ok_or(RowError("email id too large"))?;
            ids.push(EmailId(last));
        }
        Ok(ids)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn emails_round_trip(ids in proptest::collection::btree_set(any::<u64>(), 0..50)) {
            let ids: Vec<EmailId> = ids.into_iter().map(EmailId).collect();
            prop_assert_eq!(read_fold_emails(b"key", &fold_emails(&ids)), Ok(ids));
        }

        #[test]
        fn any_bytes_are_a_row_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            for version in 1..=Folds::VERSION {
                let bytes = [&[version], bytes.as_slice()].concat();
                if let Ok(folds) = Folds::decode(b"key", &bytes) {
                    prop_assert_eq!(Folds::decode(b"key", &folds.encode()), Ok(folds));
                }
            }
            let bytes = [&[1], bytes.as_slice()].concat();
            if let Ok(ids) = read_fold_emails(b"key", &bytes) {
                prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }

    #[test]
    fn list_of_folds_round_trips() {
        let fold = |level, number| Fold {
            id: FoldId { level, number },
            created_upto: ModSeq(9),
            emails: 3,
            newest: EmailId(1),
            oldest: EmailId(u64::MAX),
            knows_delivery: number != 2,
        };
        let merge = |number, next| FoldMerge {
            sources: vec![fold(0, number).id],
            into: fold(1, number + 50),
            next,
        };
        let folds = Folds {
            last: 99,
            live: vec![fold(0, 3), fold(0, 1), fold(0, 2), fold(1, 7)],
            merges: vec![
                merge(1, MergePosition::Email(EmailId(5))),
                merge(7, MergePosition::Posting(Token::Word(5), 6, 7)),
                merge(8, MergePosition::Posting(Token::Text("é\0".into()), 0, 0)),
            ],
            dropped: vec![fold(2, 4).id],
        };
        assert_eq!(Folds::decode(b"key", &folds.encode()), Ok(folds.clone()));
        // Fold 1 of level 0 is the source of a merge.
        let free: Vec<u64> = folds.free(0).iter().map(|fold| fold.id.number).collect();
        assert_eq!(free, [2, 3]);
    }
}
