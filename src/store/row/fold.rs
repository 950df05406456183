//! The folds of an account: which there are, what is being merged, and which emails each has.
//!
//! One row says all of it, so that a fold or a merge takes effect by the writing of that row and by
//! nothing else: blocks that it does not name are none, and it names also those that are being made
//! and those that are to go.

use super::{FieldReader, FieldWriter, Row, RowError, decode_with};
use crate::model::{EmailId, ModSeq, Token};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::table::folds::FoldId;

/// Which folds there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folds {
    /// The newest number.
    pub last: u64,
    /// What is searched.
    pub live: Vec<Fold>,
    /// What is being merged; at most one of a level. Its sources are live until it is done.
    pub merges: Vec<FoldMerge>,
    /// Merged away; their rows are to go.
    pub dropped: Vec<FoldId>,
}

/// A fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    /// Its id.
    pub id: FoldId,
    /// No email of it is younger: one of the same id that was made later is another.
    pub made: ModSeq,
    /// How many emails it has.
    pub emails: u32,
    /// The newest of them.
    pub newest: EmailId,
    /// The oldest.
    pub oldest: EmailId,
    /// Whether its tokens say of every email where it was delivered (`model::delivered_to`): of a
    /// fold that an earlier version began they do not.
    pub knows_delivery: bool,
}

/// A fold that is being made of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldMerge {
    /// Of which.
    pub sources: Vec<FoldId>,
    /// What is there of it so far.
    pub into: Fold,
    /// What is to be written next.
    pub next: MergePosition,
}

/// Where a merge goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergePosition {
    /// With the emails from this one.
    Email(EmailId),
    /// With the postings from this one: token, ordinal, first position.
    Posting(Token, u32, u32),
}

impl Folds {
    /// The live folds that no merge has yet, of a level, oldest first.
    #[must_use]
    pub fn free(&self, level: u8) -> Vec<Fold> {
        let taken = |id: &FoldId| self.merges.iter().any(|merge| merge.sources.contains(id));
        let mut free: Vec<Fold> =
            self.live.iter().filter(|fold| fold.id.level == level).copied().collect();
        free.retain(|fold| !taken(&fold.id));
        free.sort_by_key(|fold| fold.id.number);
        free
    }
}

impl Row for Folds {
    const TABLE: Table = Table::SearchFolds;
    /// 2 has `knows_delivery`.
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
    out.num(fold.made.0);
    out.num(fold.emails);
    out.num(fold.newest.0);
    out.num(fold.oldest.0);
    out.bool(fold.knows_delivery);
}

fn read_fold(input: &mut FieldReader<'_>, version: u8) -> Result<Fold, RowError> {
    Ok(Fold {
        id: read_id(input)?,
        made: ModSeq(input.num()?),
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

/// The row of some emails of a fold: ids in ascending order.
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

/// The emails of such a row.
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
        fn any_octets_are_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
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
    fn what_is_there_round_trips() {
        let fold = |level, number| Fold {
            id: FoldId { level, number },
            made: ModSeq(9),
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
        let free: Vec<u64> = folds.free(0).iter().map(|fold| fold.id.number).collect();
        assert_eq!(free, [2, 3]);
    }
}
