//! Checks messages with their references; and subscriptions, and the rows of upkeep (`history`,
//! `sweeps`).
//!
//! - Subscriptions and rows of upkeep are checked with their account, and a repair deletes what is
//!   wrong.
//! - Messages and references are of no single account, so one pass over each table checks them for
//!   all. The candidates for collection are read first. The other tables sort by the hash, and
//!   cursors advance through them together.
//! - Missing or damaged bytes are only reported: only a backup has them. A reference that belongs
//!   to no email is deleted by `Txn::drop_strays`.
//! - A deep check (`check --blobs`) also compares the bytes of each message with its hash. Where an
//!   email has the message, the check of the email does that.

use std::collections::HashSet;

use super::pack::read_packed;
use crate::model::{AccountId, BlobHash, ModSeq};
use crate::store::engine::segments::{Extent, Segments};
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
    /// Checks that every subscription names a mailbox that exists or is a tombstone, and a user
    /// other than the owner. (The subscriptions to a destroyed mailbox are deleted step by step, so
    /// some may be left.) The subscriber may be an erased account, whose id no other account gets.
    pub(in crate::store) fn check_subscriptions(&self) -> Result<(), Error> {
        let mut rows = self.rows::<Subscriptions>();
        while let Some(found) = rows.next()? {
            let is_valid = |key: &SubscriptionKey| {
                let is_other = key.subscriber != self.account && key.subscriber != AccountId::SITE;
                is_other && self.census.mailboxes.contains_key(&key.mailbox)
            };
            if found.id().filter(is_valid).is_none() {
                self.report_fault(
                    Table::Subscriptions,
                    &found.key,
                    "names no mailbox, or no other user",
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

    /// Checks that the modseqs in the notes of history ascend and are not above the account's, and
    /// that the rows of sweeps can be read.
    pub(in crate::store) fn check_upkeep_rows(&self) -> Result<(), Error> {
        let newest = self.found_state.as_ref().map_or(ModSeq(u64::MAX), |state| state.modseq);
        let mut last = ModSeq(0);
        let mut notes = self.rows::<History>();
        while let Some(found) = notes.next()? {
            match found.row() {
                Ok(HistoryRow(modseq))
                    if found.id().is_some() && modseq >= last && modseq <= newest =>
                {
                    last = modseq;
                }
                Ok(_) => {
                    self.report(
                        Table::History,
                        &found.key,
                        "the key is damaged, or the changes go backwards or are of the future",
                        RowFix::Delete,
                    )?;
                }
                Err(error) => {
                    self.report(Table::History, &found.key, error.to_string(), RowFix::Delete)?;
                }
            }
        }
        let mut sweeps = self.rows::<Sweeps>();
        while let Some(found) = sweeps.next()? {
            if found.id().is_none() {
                self.report_extra(Table::Sweeps, &found.key)?;
            } else if let Err(error) = found.row() {
                self.report(Table::Sweeps, &found.key, error.to_string(), RowFix::Delete)?;
            }
        }
        Ok(())
    }
}

/// Checks that every reference of an email belongs to an email or tombstone with that message, and
/// that the message exists. Checks that every message has a reference or is a candidate for
/// collection, and that its bytes are there. With `deep`, also verifies the hash of each message
/// that no email holds: the check of emails then has found what is wrong with the others.
pub(in crate::store) fn check_messages(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    deep: bool,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut candidates: HashSet<BlobHash> = HashSet::new();
    check_candidates(read, run, on_fault, &mut |blob| {
        candidates.insert(blob);
    })?;
    let mut blobs = RowCursor::<Blobs>::of_table(read, run);
    let mut refs = RowCursor::<BlobRefs>::of_table(read, run);
    let mut actions = RowCursor::<OutboxBlobs>::of_table(read, run);
    let mut uploads = RowCursor::<UploadBlobs>::of_table(read, run);
    let mut frames = RowCursor::<BlobFrames>::of_table(read, run);
    while let Some(found) = blobs.next()? {
        let (key, row) = (found.key.as_slice(), &found.value);
        check_held_messages(read, &mut refs, Some(key), deep, on_fault)?;
        // References of actions and uploads to missing messages are reported with the actions and
        // the uploads.
        while actions.below(key)?.is_some() {}
        while uploads.below(key)?.is_some() {}
        let (mut has_other_holder, mut is_held_by_email) = (false, false);
        while let Some(reference) = actions.within(key)? {
            has_other_holder |= references::is_action_blob(read, &reference.key)?;
        }
        while let Some(reference) = uploads.within(key)? {
            has_other_holder |= references::is_upload_blob(read, &reference.key)?;
        }
        while let Some(reference) = refs.within(key)? {
            is_held_by_email |= held_by_email(read, &reference, on_fault)?.is_some();
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
        // If an email holds the message, its hash is verified with the email.
        let verify_hash = deep && !is_held_by_email;
        if let Some(problem) = check_bytes(read, blob, row, &mut frames, verify_hash, on_fault)? {
            report(on_fault, AccountId::SITE, Table::Blobs, key, &problem, RowFix::Nothing)?;
        }
        if !has_other_holder && !is_held_by_email && !candidates.contains(&blob) {
            let what = "nobody holds this message, and it is no candidate for collection";
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

/// Reads the frames of a message, and returns what is wrong with it; `None` if it is whole. With
/// `verify_hash`, also verifies its hash. Reports the frames before the message, which belong to no
/// message, and leaves `frames` behind those of the message.
fn check_bytes(
    read: &dyn RowReader,
    blob: BlobHash,
    row: &[u8],
    frames: &mut RowCursor<'_, BlobFrames>,
    verify_hash: bool,
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
    let bytes = match BlobRow::decode(&key, row) {
        Ok(blob) => blob.bytes,
        Err(error) => {
            while frames.within(&key)?.is_some() {}
            return Ok(Some(error.to_string()));
        }
    };
    let (mut hasher, mut left, mut problem) = (blake3::Hasher::new(), bytes.len(), None);
    match bytes {
        BlobBytes::Inline(raw) => {
            hasher.update(raw);
            left = 0;
        }
        BlobBytes::Located(extent) => {
            problem = check_extent(read, &extent, verify_hash, &mut hasher);
            left = 0;
        }
        BlobBytes::Packed { extent, length } => {
            problem = check_packed(read, &extent, length, verify_hash, &mut hasher);
            left = 0;
        }
        BlobBytes::Framed(_) => {}
    }
    let mut numbers = 0u32..;
    while let Some(frame) = frames.within(&key)? {
        let (wanted, number) = (left.min(FRAME_BYTES as u64), numbers.next());
        let is_next = frame.id().is_some_and(|key| Some(key.number) == number);
        match decode_frame(&frame.key, &frame.value) {
            Ok(part) if wanted > 0 && part.len() as u64 == wanted && is_next => {
                if verify_hash {
                    hasher.update(part);
                }
                left = left.saturating_sub(wanted);
            }
            Ok(_) => problem = Some("a frame is missing, or belongs to another message".to_owned()),
            Err(error) => problem = Some(error.to_string()),
        }
    }
    if left > 0 {
        problem = Some("a frame is missing".to_owned());
    }
    let is_whole = problem.is_none();
    Ok(problem.or_else(|| {
        (is_whole && verify_hash && *hasher.finalize().as_bytes() != blob.0)
            .then(|| "it does not have this hash".to_owned())
    }))
}

/// Checks that a value is in its segment, and returns what is wrong; `None` if nothing is. Reads
/// the value only with `verify_hash`, and gives it to the hasher.
fn check_extent(
    read: &dyn RowReader,
    extent: &Extent,
    verify_hash: bool,
    hasher: &mut blake3::Hasher,
) -> Option<String> {
    let segments = match segments_with(read, extent) {
        Ok(segments) => segments,
        Err(problem) => return Some(problem),
    };
    let mut at = if verify_hash { 0 } else { extent.length };
    while at < extent.length {
        let mut bytes = Vec::new();
        let end = at.saturating_add(FRAME_BYTES as u64);
        if let Err(error) = segments.read(extent, &(at..end), &mut bytes) {
            return Some(error);
        }
        hasher.update(&bytes);
        at = end;
    }
    None
}

/// Does what `check_extent` does, for a compressed message of `length` bytes.
fn check_packed(
    read: &dyn RowReader,
    extent: &Extent,
    length: u64,
    verify_hash: bool,
    hasher: &mut blake3::Hasher,
) -> Option<String> {
    let read = segments_with(read, extent).and_then(|segments| match verify_hash {
        true => read_packed(segments, extent, length),
        false => Ok(Vec::new()),
    });
    read.map(|raw| hasher.update(&raw)).err()
}

/// Returns the segments, if one of them has this place.
///
/// # Errors
/// What is wrong, if none has.
fn segments_with<'a>(read: &'a dyn RowReader, extent: &Extent) -> Result<&'a Segments, String> {
    let segments = read.segments().filter(|segments| segments.contains(extent));
    segments.ok_or_else(|| format!("segment {:08x} is missing or too short", extent.segment))
}

/// Checks that the key of every candidate for collection can be read, and calls `each` with the
/// message that it names.
fn check_candidates(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
    each: &mut dyn FnMut(BlobHash),
) -> Result<(), Error> {
    let mut rows = RowCursor::<BlobPurge>::of_table(read, run);
    while let Some(found) = rows.next()? {
        match found.id() {
            Some(key) => each(key.blob),
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
    Ok(())
}

/// Checks only that every candidate for collection has a right key, and that every reference of an
/// email belongs to an email with that message. For a repair, which deletes the rows that fail.
pub(in crate::store) fn check_candidates_and_refs(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    check_candidates(read, run, on_fault, &mut |_| {})?;
    let mut refs = RowCursor::<BlobRefs>::of_table(read, run);
    while let Some(reference) = refs.next()? {
        held_by_email(read, &reference, on_fault)?;
    }
    Ok(())
}

/// Reads the references before `upto`, the key of the next message that exists (`None`: all that
/// are left), from where the last call stopped. Their messages are missing: reports this for each
/// email that refers to one, unless the check is `deep`.
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
        // In a deep check, the check of the email reports it.
        if let Some(BlobRefKey { blob, account, email }) =
            held_by_email(read, &reference, on_fault)?.filter(|_| !deep)
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

/// Returns the key of a reference if its email, or tombstone, has the message or cannot be read.
/// Otherwise reports the reference and returns `None`.
fn held_by_email(
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

/// Reports a fault that clients cannot have seen.
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
