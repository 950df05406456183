//! The rows of accounts and addresses, and the state row of an account.

use super::mailbox::{read_listings, write_listings};
use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    AccessToken, AccountId, AccountRow, Address, AddressRow, DataType, ListingFilter, MailboxUid,
    MaintainedListing, ModSeq, ScramKeys, ScramPasswords, UtcMillis,
};
use crate::store::engine::Table;

pub(super) fn write_address(out: &mut FieldWriter, address: &Address) {
    out.text(address.local());
    out.text(address.domain());
}

pub(super) fn read_address(input: &mut FieldReader<'_>) -> Result<Address, RowError> {
    Ok(Address::from_parts(input.text()?, input.text()?))
}

impl Row for AccountRow {
    const TABLE: Table = Table::Accounts;
    /// Version 2 has the addresses of the account, version 3 the keys for SCRAM.
    const VERSION: u8 = 3;

    fn write(&self, out: &mut FieldWriter) {
        out.text(&self.name);
        write_address(out, &self.primary);
        out.maybe_text(self.display_name.as_ref());
        out.bool(self.active);
        out.option(self.quota_bytes.as_ref(), |out, n| out.num(*n));
        out.option(self.quota_emails.as_ref(), |out, n| out.num(*n));
        out.maybe_text(self.zone.as_ref());
        out.bool(self.detail_files);
        out.maybe_text(self.unix_user.as_ref());
        out.signed(self.created.0);
        out.list(self.passwords.iter(), |out, (name, phc)| {
            out.text(name);
            out.text(phc);
        });
        out.list(self.tokens.iter(), |out, token| {
            out.text(&token.name);
            out.fixed(&token.hash);
            out.signed(token.created.0);
            out.option(token.expires.as_ref(), |out, at| out.signed(at.0));
        });
        out.option(self.addresses.as_ref(), |out, all| {
            out.list(all.iter(), |out, address| out.text(address));
        });
        out.option(self.scram.as_ref(), |out, passwords| {
            out.fixed(&passwords.salt);
            out.num(passwords.iterations);
            out.list(passwords.keys.iter(), |out, (name, keys)| {
                out.text(name);
                out.fixed(&keys.stored_key);
                out.fixed(&keys.server_key);
            });
        });
    }

    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError> {
        Ok(Self {
            name: input.text()?,
            primary: read_address(input)?,
            display_name: input.option(FieldReader::text)?,
            active: input.bool()?,
            quota_bytes: input.option(FieldReader::num)?,
            quota_emails: input.option(FieldReader::num)?,
            zone: input.option(FieldReader::text)?,
            detail_files: input.bool()?,
            unix_user: input.option(FieldReader::text)?,
            created: UtcMillis(input.signed()?),
            passwords: input.list(|input| Ok((input.text()?, input.text()?)))?,
            tokens: input.list(|input| {
                Ok(AccessToken {
                    name: input.text()?,
                    hash: input.fixed()?,
                    created: UtcMillis(input.signed()?),
                    expires: input.option(|input| Ok(UtcMillis(input.signed()?)))?,
                })
            })?,
            addresses: if version < 2 {
                None
            } else {
                input.option(|input| input.list(FieldReader::text))?
            },
            scram: if version < 3 { None } else { input.option(read_scram)? },
        })
    }
}

fn read_scram(input: &mut FieldReader<'_>) -> Result<ScramPasswords, RowError> {
    let (salt, iterations) = (input.fixed()?, input.num32()?);
    let keys = input.list(|input| {
        let name = input.text()?;
        Ok((name, ScramKeys { stored_key: input.fixed()?, server_key: input.fixed()? }))
    })?;
    Ok(ScramPasswords { salt, iterations, keys })
}

impl Row for AddressRow {
    const TABLE: Table = Table::Addresses;

    fn write(&self, out: &mut FieldWriter) {
        let (kind, account) = match self {
            Self::Primary(account) => (0u8, account.0),
            Self::Alias(account) => (1, account.0),
            Self::CatchAll(account) => (2, account.0),
            Self::AliasDomain(target) => {
                out.num(3u8);
                return out.text(target);
            }
        };
        out.num(kind);
        out.num(account);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(match input.num()? {
            0 => Self::Primary(AccountId(input.num32()?)),
            1 => Self::Alias(AccountId(input.num32()?)),
            2 => Self::CatchAll(AccountId(input.num32()?)),
            3 => Self::AliasDomain(input.text()?),
            _ => return Err(RowError("unknown kind of address")),
        })
    }
}

/// A row of `account_state`: the newest ids, the marks and the totals of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountStateRow {
    /// The number of the newest change, of any data type.
    pub modseq: ModSeq,
    /// The number of the newest thread. This and the next three are 0 if there was none, and no
    /// number is used again.
    pub last_thread: u64,
    pub last_mailbox: u32,
    pub last_action: u64,
    /// Only used in the row of the site.
    pub last_account: u32,
    /// The high mark of each data type, by `DataType as usize`.
    pub high: [ModSeq; DataType::ALL.len()],
    /// The low mark of each data type. To a client whose state is this mark or a later one, all
    /// changes since can be reported.
    pub low: [ModSeq; DataType::ALL.len()],
    /// Bytes of the emails that are not destroyed, trace prefixes included.
    pub bytes: u64,
    /// The number of emails that are not destroyed.
    pub emails: u64,
    /// The number of emails that are in no fold yet.
    pub unfolded: u64,
    /// The number of told rows.
    pub told: u64,
    /// The number of actions in `outbox`, in any state.
    pub queued: u64,
    /// 0 if there is none.
    pub inbox: MailboxUid,
    /// 0 if there is none.
    pub trash: MailboxUid,
    /// The maintained listings of all mail.
    pub listings: Vec<MaintainedListing>,
}

impl AccountStateRow {
    /// The state of an account in which nothing has changed yet.
    #[must_use]
    pub fn fresh() -> Self {
        Self {
            listings: vec![MaintainedListing::empty(ListingFilter::Flagged, ModSeq(0))],
            ..Self::default()
        }
    }
}

impl AccountStateRow {
    #[must_use]
    pub fn high_mark(&self, data: DataType) -> ModSeq {
        self.high.get(data as usize).copied().unwrap_or_default()
    }

    #[must_use]
    pub fn low_mark(&self, data: DataType) -> ModSeq {
        self.low.get(data as usize).copied().unwrap_or_default()
    }
}

impl Row for AccountStateRow {
    const TABLE: Table = Table::AccountState;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.modseq.0);
        out.num(self.last_thread);
        out.num(self.last_mailbox);
        out.num(self.last_action);
        out.num(self.last_account);
        for marks in [&self.high, &self.low] {
            out.list(marks.iter(), |out, mark| out.num(mark.0));
        }
        for total in [self.bytes, self.emails, self.unfolded, self.told, self.queued] {
            out.num(total);
        }
        out.num(self.inbox.0);
        out.num(self.trash.0);
        write_listings(out, &self.listings);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        let marks =
            |input: &mut FieldReader<'_>| -> Result<[ModSeq; DataType::ALL.len()], RowError> {
                let stored: Vec<ModSeq> = input.list(|input| Ok(ModSeq(input.num()?)))?;
                // A row of an earlier version may not have the newest data types.
                let mut marks = [ModSeq(0); DataType::ALL.len()];
                if stored.len() > marks.len() {
                    return Err(RowError("marks of unknown data types"));
                }
                marks.iter_mut().zip(stored).for_each(|(mark, stored)| *mark = stored);
                Ok(marks)
            };
        Ok(Self {
            modseq: ModSeq(input.num()?),
            last_thread: input.num()?,
            last_mailbox: input.num32()?,
            last_action: input.num()?,
            last_account: input.num32()?,
            high: marks(input)?,
            low: marks(input)?,
            bytes: input.num()?,
            emails: input.num()?,
            unfolded: input.num()?,
            told: input.num()?,
            queued: input.num()?,
            inbox: MailboxUid(input.num32()?),
            trash: MailboxUid(input.num32()?),
            listings: read_listings(input)?,
        })
    }
}
