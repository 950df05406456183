//! What is left of emails and mailboxes that are gone, and messages and uploads with who holds
//! them.

use std::collections::HashSet;

use crate::model::{AccountId, BlobHash, ModSeq};
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::{Found, RowCursor};
use crate::store::repair::check::{CheckObserver, Checker, FaultFn, RowFault, RowFix};
use crate::store::repair::references;
use crate::store::row::{
    BlobBytes, BlobRow, FRAME_BYTES, HistoryRow, RowFormat as _, decode_frame,
};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobKey, BlobRefKey, SubscriptionKey};
use crate::store::table::{
    BlobFrames, BlobPurge, BlobRefs, Blobs, History, OutboxBlobs, Present, Subscriptions, Sweeps,
    UploadBlobs,
};

impl Checker<'_> {
    /// Every subscription is to a mailbox that there is, and not its owner's. Of a destroyed one
    /// they go by and by; those of accounts that are gone say nothing, for no account has their ids
    /// again.
    pub(in crate::store) fn check_subscriptions(&self) -> Result<(), Error> {
        let mut rows = self.rows::<Subscriptions>();
        while let Some(found) = rows.next()? {
            let holds = |key: &SubscriptionKey| {
                let is_other = key.subscriber != self.account && key.subscriber != AccountId::SITE;
                is_other && self.census.mailboxes.contains_key(&key.mailbox)
            };
            if found.id().filter(holds).is_none() {
                self.report_fault(
                    Table::Subscriptions,
                    &found.key,
                    "to no mailbox, or of nobody",
                    RowFix::Delete,
                    true,
                )?;
            } else {
                self.expect(
                    Table::Subscriptions,
                    &found.key,
                    Some(&found.value),
                    Present.to_bytes(),
                )?;
            }
        }
        Ok(())
    }

    /// No note is of the future, and what upkeep remembers can be read.
    pub(in crate::store) fn check_upkeep_rows(&self) -> Result<(), Error> {
        let newest = self.found_state.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        let mut last = ModSeq(0);
        let mut notes = self.rows::<History>();
        while let Some(found) = notes.next()? {
            match found.row() {
                Ok(HistoryRow(modseq))
                    if found.id().is_some() && modseq >= last && modseq <= newest =>
                {
                    last = modseq
                }
                Ok(_) => {
                    self.report(
                        Table::History,
                        &found.key,
                        "changes went back, or are of the future",
                        RowFix::Delete,
                    )?;
                }
                Err(error) => {
                    self.report(Table::History, &found.key, error.to_string(), RowFix::Delete)?
                }
            }
        }
        let mut sweeps = self.rows::<Sweeps>();
        while let Some(found) = sweeps.next()? {
            if let Err(error) = found.row() {
                self.report(Table::Sweeps, &found.key, error.to_string(), RowFix::Delete)?;
            }
        }
        Ok(())
    }
}

/// Every reference to a message is of an email that holds it; every message is held by somebody, or
/// will be looked at by and by; every message that is held is there.
pub(in crate::store) fn check_messages(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    deep: bool,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut candidates: HashSet<BlobHash> = HashSet::new();
    let mut rows = RowCursor::<BlobPurge>::of_table(read, run);
    while let Some(found) = rows.next()? {
        match found.id() {
            Some(key) => drop(candidates.insert(key.blob)),
            None => {
                report(
                    on_fault,
                    AccountId::SITE,
                    Table::BlobPurge,
                    &found.key,
                    "no key of this table",
                    RowFix::Delete,
                )?;
            }
        }
    }
    let mut blobs = RowCursor::<Blobs>::of_table(read, run);
    let mut refs = RowCursor::<BlobRefs>::of_table(read, run);
    let mut sent = RowCursor::<OutboxBlobs>::of_table(read, run);
    let mut uploads = RowCursor::<UploadBlobs>::of_table(read, run);
    let mut frames = RowCursor::<BlobFrames>::of_table(read, run);
    while let Some(found) = blobs.next()? {
        let (key, row) = (found.key.as_slice(), &found.value);
        check_held_messages(read, &mut refs, Some(key), deep, on_fault)?;
        // What an action sends that is not there is said with the action.
        while sent.below(key)?.is_some() {}
        while uploads.below(key)?.is_some() {}
        let (mut held, mut of_email) = (false, false);
        while let Some(hold) = sent.within(key)? {
            held |= references::is_action_blob(read, &hold.key)?;
        }
        while let Some(hold) = uploads.within(key)? {
            held |= references::is_upload_blob(read, &hold.key)?;
        }
        while let Some(reference) = refs.within(key)? {
            of_email |= is_held(read, &reference, on_fault)?.is_some();
        }
        let Some(BlobKey { blob }) = found.id() else {
            report(
                on_fault,
                AccountId::SITE,
                Table::Blobs,
                key,
                "no key of this table",
                RowFix::Nothing,
            )?;
            continue;
        };
        // The hashes of those that emails hold are proved with these.
        if let Some(wrong) = check_bytes(blob, row, &mut frames, deep && !of_email, on_fault)? {
            report(on_fault, AccountId::SITE, Table::Blobs, key, &wrong, RowFix::Nothing)?;
        }
        if !held && !of_email && !candidates.contains(&blob) {
            let what = "nobody holds this message, and nobody will look at it";
            report(on_fault, AccountId::SITE, Table::Blobs, key, what, RowFix::Nothing)?;
        }
    }
    while let Some(frame) = frames.next()? {
        report(
            on_fault,
            AccountId::SITE,
            Table::BlobFrames,
            &frame.key,
            "a frame of no message",
            RowFix::Nothing,
        )?;
    }
    check_held_messages(read, &mut refs, None, deep, on_fault)
}

/// Reads the frames of a message; says what is wrong with it. Its hash is proved where that is
/// asked for.
fn check_bytes(
    blob: BlobHash,
    row: &[u8],
    frames: &mut RowCursor<'_, BlobFrames>,
    hashed: bool,
    on_fault: &mut FaultFn<'_>,
) -> Result<Option<String>, Error> {
    let key = BlobKey { blob }.encode();
    while let Some(frame) = frames.below(&key)? {
        report(
            on_fault,
            AccountId::SITE,
            Table::BlobFrames,
            &frame.key,
            "a frame of no message",
            RowFix::Nothing,
        )?;
    }
    let octets = match BlobRow::decode(&key, row) {
        Ok(blob) => blob.bytes,
        Err(error) => {
            while frames.within(&key)?.is_some() {}
            return Ok(Some(error.to_string()));
        }
    };
    let (mut hasher, mut left, mut wrong) = (blake3::Hasher::new(), octets.len(), None);
    if let BlobBytes::Inline(raw) = octets {
        hasher.update(raw);
        left = 0;
    }
    let mut numbers = 0u32..;
    while let Some(frame) = frames.within(&key)? {
        let (wanted, number) = (left.min(FRAME_BYTES as u64), numbers.next());
        let is_next = frame.id().is_some_and(|key| Some(key.number) == number);
        match decode_frame(&frame.key, &frame.value) {
            Ok(part) if wanted > 0 && part.len() as u64 == wanted && is_next => {
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
        (is_whole && hashed && *hasher.finalize().as_bytes() != blob.0)
            .then(|| "it does not have this hash".to_owned())
    }))
}

/// Every reference to a message is of an email that holds it.
pub(in crate::store) fn check_blob_refs(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut refs = RowCursor::<BlobRefs>::of_table(read, run);
    while let Some(reference) = refs.next()? {
        is_held(read, &reference, on_fault)?;
    }
    Ok(())
}

/// References to messages that are not there, up to a message that is.
fn check_held_messages(
    read: &dyn RowReader,
    refs: &mut RowCursor<'_, BlobRefs>,
    upto: Option<&[u8]>,
    deep: bool,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    while let Some(reference) = match upto {
        Some(key) => refs.below(key)?,
        None => refs.next()?,
    } {
        // A deep look has met it with its email.
        if let Some(BlobRefKey { blob, account, email }) =
            is_held(read, &reference, on_fault)?.filter(|_| !deep)
        {
            let what = format!("the message of {email} is missing");
            report(
                on_fault,
                account,
                Table::Blobs,
                &BlobKey { blob }.encode(),
                &what,
                RowFix::Nothing,
            )?;
        }
    }
    Ok(())
}

/// The key of a reference, if its email holds the message.
fn is_held(
    read: &dyn RowReader,
    found: &Found<BlobRefs>,
    on_fault: &mut FaultFn<'_>,
) -> Result<Option<BlobRefKey>, Error> {
    let mut account = AccountId::SITE;
    if let Some(key) = found.id() {
        if references::is_email_blob(read, key.account, key.email, &key.blob)? {
            return Ok(Some(key));
        }
        account = key.account;
    }
    let what = "refers to a message for an email that does not hold it";
    report(on_fault, account, Table::BlobRefs, &found.key, what, RowFix::Delete)?;
    Ok(None)
}

fn report(
    on_fault: &mut FaultFn<'_>,
    account: AccountId,
    table: Table,
    key: &[u8],
    what: &str,
    fix: RowFix,
) -> Result<(), Error> {
    on_fault(RowFault {
        account,
        table,
        key: key.to_vec(),
        what: what.into(),
        fix,
        seen_by_clients: false,
    })
}
