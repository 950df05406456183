//! What is left of emails and mailboxes that are gone, and messages and uploads with who holds them.

use std::collections::HashSet;

use super::rows::Rows;
use super::{Checker, Fault, Hear, Mend, Pace, emails};
use crate::model::{AccountId, BlobHash, EmailId, MailboxUid, ModSeq};
use crate::store::engine::{Read, Table};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Blob, FRAME, Noted, Octets, Row, Sweep, decode_frame};

impl Checker<'_> {
    /// Every subscription is to a mailbox that there is, and not its owner's. Of a destroyed one they go by and by; those of
    /// accounts that are gone say nothing, for no account has their ids again.
    pub(super) fn subscriptions(&self) -> Result<(), Error> {
        let mut rows = self.rows(Table::Subscriptions, &key::account(self.account));
        while let Some((key, value)) = rows.next()? {
            let mut parts = Parts::of(Table::Subscriptions, &key);
            let whose = parts.u32().and_then(|subscriber| Ok((AccountId(subscriber), MailboxUid(parts.u32()?))));
            let holds = |(subscriber, uid): &(AccountId, MailboxUid)| {
                let is_other = *subscriber != self.account && *subscriber != AccountId::SITE;
                key.len() == 12 && is_other && self.census.mailboxes.contains_key(uid)
            };
            if whose.ok().filter(holds).is_none() {
                self.tell(Table::Subscriptions, &key, "to no mailbox, or of nobody", Mend::Delete, true)?;
            } else if value != [1] {
                self.expect(Table::Subscriptions, &key, Some(&value), vec![1])?;
            }
        }
        Ok(())
    }

    /// No note is of the future, and what upkeep remembers can be read.
    pub(super) fn remains(&self) -> Result<(), Error> {
        let own = key::account(self.account);
        let newest = self.found.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        let mut last = ModSeq(0);
        let mut notes = self.rows(Table::History, &own);
        while let Some((key, value)) = notes.next()? {
            match Noted::decode(&key, &value) {
                Ok(Noted(modseq)) if key.len() == 12 && modseq >= last && modseq <= newest => last = modseq,
                Ok(_) => self.say(Table::History, &key, "changes went back, or are of the future", Mend::Delete)?,
                Err(error) => self.say(Table::History, &key, error.to_string(), Mend::Delete)?,
            }
        }
        let mut sweeps = self.rows(Table::Sweeps, &own);
        while let Some((key, value)) = sweeps.next()? {
            if let Err(error) = Sweep::decode(&key, &value) {
                self.say(Table::Sweeps, &key, error.to_string(), Mend::Delete)?;
            }
        }
        Ok(())
    }
}

/// Every reference to a message is of an email that holds it; every message is held by somebody, or will be looked at by
/// and by; every message that is held is there.
pub(super) fn messages(read: &dyn Read, run: &dyn Pace, deep: bool, hear: &mut Hear<'_>) -> Result<(), Error> {
    let mut candidates: HashSet<BlobHash> = HashSet::new();
    let mut rows = Rows::new(read, run, Table::BlobPurge, &[]);
    while let Some((key, _)) = rows.next()? {
        match Parts::of(Table::BlobPurge, &key).take() {
            Ok(hash) if key.len() == 40 => drop(candidates.insert(BlobHash(hash))),
            _ => say(hear, AccountId::SITE, Table::BlobPurge, &key, "no key of this table", Mend::Delete)?,
        }
    }
    let mut blobs = Rows::new(read, run, Table::Blobs, &[]);
    let mut refs = Rows::new(read, run, Table::BlobRefs, &[]);
    let mut sent = Rows::new(read, run, Table::OutboxBlobs, &[]);
    let mut uploads = Rows::new(read, run, Table::UploadBlobs, &[]);
    let mut frames = Rows::new(read, run, Table::BlobFrames, &[]);
    while let Some((key, row)) = blobs.next()? {
        missing(read, &mut refs, Some(&key), deep, hear)?;
        // What an action sends that is not there is said with the action.
        while sent.below(&key)?.is_some() {}
        while uploads.below(&key)?.is_some() {}
        let (mut held, mut of_email) = (false, false);
        while let Some((hold, _)) = sent.within(&key)? {
            held |= super::sends(read, &hold)?;
        }
        while let Some((hold, _)) = uploads.within(&key)? {
            held |= super::is_upload(read, &hold)?;
        }
        while let Some((reference, _)) = refs.within(&key)? {
            of_email |= is_held(read, &reference, hear)?.is_some();
        }
        let Ok(hash) = <[u8; 32]>::try_from(key.as_slice()) else {
            say(hear, AccountId::SITE, Table::Blobs, &key, "no key of this table", Mend::Nothing)?;
            continue;
        };
        // The hashes of those that emails hold are proved with these.
        if let Some(wrong) = octets(&key, &row, &mut frames, deep && !of_email, hear)? {
            say(hear, AccountId::SITE, Table::Blobs, &key, &wrong, Mend::Nothing)?;
        }
        if !held && !of_email && !candidates.contains(&BlobHash(hash)) {
            let what = "nobody holds this message, and nobody will look at it";
            say(hear, AccountId::SITE, Table::Blobs, &key, what, Mend::Nothing)?;
        }
    }
    while let Some((frame, _)) = frames.next()? {
        say(hear, AccountId::SITE, Table::BlobFrames, &frame, "a frame of no message", Mend::Nothing)?;
    }
    missing(read, &mut refs, None, deep, hear)
}

/// Reads the frames of a message; says what is wrong with it. Its hash is proved where that is asked for.
fn octets(
    key: &[u8],
    row: &[u8],
    frames: &mut Rows<'_>,
    hashed: bool,
    hear: &mut Hear<'_>,
) -> Result<Option<String>, Error> {
    while let Some((frame, _)) = frames.below(key)? {
        say(hear, AccountId::SITE, Table::BlobFrames, &frame, "a frame of no message", Mend::Nothing)?;
    }
    let octets = match Blob::decode(key, row) {
        Ok(blob) => blob.octets,
        Err(error) => {
            while frames.within(key)?.is_some() {}
            return Ok(Some(error.to_string()));
        }
    };
    let (mut hasher, mut left, mut wrong) = (blake3::Hasher::new(), octets.len(), None);
    if let Octets::Here(raw) = octets {
        hasher.update(raw);
        left = 0;
    }
    let mut numbers = 0u32..;
    while let Some((frame, value)) = frames.within(key)? {
        let wanted = left.min(FRAME as u64);
        let number = numbers.next().unwrap_or(u32::MAX).to_be_bytes();
        match decode_frame(&frame, &value) {
            Ok(part) if wanted > 0 && part.len() as u64 == wanted && frame.get(32..) == Some(&number) => {
                if hashed {
                    hasher.update(part);
                }
                left = left.saturating_sub(wanted);
            }
            Ok(_) => wrong = Some("a frame of it is missing, or is not its own".to_owned()),
            Err(error) => wrong = Some(error.to_string()),
        }
    }
    if left > 0 {
        wrong = Some("a frame of it is missing".to_owned());
    }
    let is_whole = wrong.is_none();
    Ok(wrong.or_else(|| {
        (is_whole && hashed && hasher.finalize().as_bytes() != key).then(|| "it does not have this hash".to_owned())
    }))
}

/// Every reference to a message is of an email that holds it.
pub(super) fn references(read: &dyn Read, run: &dyn Pace, hear: &mut Hear<'_>) -> Result<(), Error> {
    let mut refs = Rows::new(read, run, Table::BlobRefs, &[]);
    while let Some((reference, _)) = refs.next()? {
        is_held(read, &reference, hear)?;
    }
    Ok(())
}

/// References to messages that are not there, up to a message that is.
fn missing(
    read: &dyn Read,
    refs: &mut Rows<'_>,
    upto: Option<&[u8]>,
    deep: bool,
    hear: &mut Hear<'_>,
) -> Result<(), Error> {
    while let Some((reference, _)) = match upto {
        Some(key) => refs.below(key)?,
        None => refs.next()?,
    } {
        // A deep look has met it with its email.
        if let Some((account, email)) = is_held(read, &reference, hear)?.filter(|_| !deep) {
            let blob = reference.get(..32).unwrap_or_default();
            let what = format!("the message of {email} is missing");
            say(hear, account, Table::Blobs, blob, &what, Mend::Nothing)?;
        }
    }
    Ok(())
}

/// Whose reference it is, if that email holds the message.
fn is_held(read: &dyn Read, key: &[u8], hear: &mut Hear<'_>) -> Result<Option<(AccountId, EmailId)>, Error> {
    let mut parts = Parts::of(Table::BlobRefs, key);
    let whose = match (parts.u64(), parts.u32(), parts.take()) {
        (Ok(email), Ok(account), Ok(hash)) if key.len() == 44 => Some((AccountId(account), EmailId(email), hash)),
        _ => None,
    };
    if let Some((account, email, hash)) = whose
        && emails::holds(read, account, email, &BlobHash(hash))?
    {
        return Ok(Some((account, email)));
    }
    let account = whose.map_or(AccountId::SITE, |(account, ..)| account);
    let what = "refers to a message for an email that does not hold it";
    say(hear, account, Table::BlobRefs, key, what, Mend::Delete)?;
    Ok(None)
}

fn say(hear: &mut Hear<'_>, account: AccountId, table: Table, key: &[u8], what: &str, mend: Mend) -> Result<(), Error> {
    hear(Fault { account, table, key: key.to_vec(), what: what.into(), mend, history: false })
}
