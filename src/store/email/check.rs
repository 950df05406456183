//! Checks emails with their contents, messages, modseqs and references to messages.

use std::collections::BTreeSet;

use crate::model::{EmailId, EmailMetadata, MailboxUid, MessageRows, ModSeq, Role};
use crate::store::blob::read as blob;
use crate::store::email::lost::LostEmails;
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::census::CensusEmail;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{
    EncodedMessage, RowFormat as _, content_prefix, decode_content, decode_tokens, encode_content,
    encode_tokens, is_content_outdated,
};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{
    BlobKey, BlobRefKey, EmailKey, ModSeqKey, PurgeKey, ThreadEmailKey,
};
use crate::store::table::{self, BlobRefs, EmailByModseq, EmailByThread, EmailPurge, Present};

impl Checker<'_> {
    /// Reads all emails and tombstones into the census, as they should be, and checks each by
    /// itself. A lost one is recovered, if other rows tell enough (`recover_email`).
    pub(in crate::store) fn check_emails(&mut self) -> Result<(), Error> {
        let (mut tables, mut lost) = (self.email_tables()?, LostEmails::default());
        while let Some(rows) = tables.next()? {
            let (key, content, tokens) =
                (&rows.key, rows.content.as_deref(), rows.tokens.as_deref());
            let read = rows.metadata.as_deref().map(|row| rows.email(row));
            let id = rows.id();
            let found = match (id, &read) {
                (None, _) => None,
                (Some(_), Some(Ok(email))) => Some(email.clone()),
                (Some(id), Some(Err(error))) => {
                    self.recover_email(id, &error.to_string(), &mut lost)?
                }
                (Some(id), None) => self.recover_email(id, "the row is missing", &mut lost)?,
            };
            if let (Some(id), Some(email)) = (id, found) {
                let wanted = self.check_email(id, key, &email, content, tokens)?;
                self.census.add(id, &wanted);
            } else if let (Some(_), Some(Err(error))) = (id, read) {
                let what = format!("{error}: only a backup has the row");
                self.report(Table::EmailMetadata, key, what, RowFix::Nothing)?;
            } else {
                // The key is damaged, or it is not known which message the email held.
                let stored = [
                    (Table::EmailMetadata, rows.metadata.is_some()),
                    (Table::EmailContent, content.is_some()),
                    (Table::EmailTokens, tokens.is_some()),
                ];
                for (table, _) in stored.into_iter().filter(|(_, is_stored)| *is_stored) {
                    self.report_extra(table, key)?;
                }
            }
        }
        Ok(())
    }

    /// Checks an email or a tombstone, whose metadata is `email`, with its content row and its
    /// token row. Returns the metadata that it should have.
    fn check_email(
        &mut self,
        id: EmailId,
        key: &[u8],
        email: &EmailMetadata,
        content: Option<&[u8]>,
        tokens: Option<&[u8]>,
    ) -> Result<EmailMetadata, Error> {
        let mut wanted = email.clone();
        let mut problems: Vec<&str> = Vec::new();
        if email.destroyed.is_none() {
            wanted.mailboxes = self.existing_mailboxes(&email.mailboxes);
            if wanted.mailboxes != email.mailboxes {
                problems.push("is in no mailbox, or in one that never existed");
            }
            if let Some(size) = self.check_message(id, key, email, content, tokens)?
                && size != email.size
            {
                wanted.size = size;
                problems.push("the size is not that of prefix and message");
            }
        } else {
            if tokens.is_some() {
                self.report_extra(Table::EmailTokens, key)?;
            }
            self.check_tombstone(id, key, email, content)?;
        }
        if email.received_at != id.received_at() {
            wanted.received_at = id.received_at();
            problems.push("the id's time is not receivedAt");
        }
        if email.created > email.updated {
            wanted.created = email.updated;
            problems.push("its last change is before its creation");
        }
        if self.found_state.as_ref().is_some_and(|state| email.updated > state.modseq) {
            let what = "a change number above the account's";
            // `check_state` raises the account's modseq, so the email keeps its own.
            self.report(Table::EmailMetadata, key, what, RowFix::Put(wanted.to_bytes()))?;
        }
        if !problems.is_empty() {
            self.report(
                Table::EmailMetadata,
                key,
                problems.join("; "),
                RowFix::Put(wanted.to_bytes()),
            )?;
        }
        Ok(wanted)
    }

    /// Returns those of the mailboxes `named` that may have existed: their uids are not above the
    /// last one in the account's state (all may, if the state cannot be read). Recovers those of
    /// them that are lost or destroyed. If none may have existed, returns the Inbox, or else
    /// another live mailbox, or else a new Inbox.
    pub(in crate::store) fn existing_mailboxes(
        &mut self,
        named: &BTreeSet<MailboxUid>,
    ) -> BTreeSet<MailboxUid> {
        let last = self.found_state.as_ref().map_or(u32::MAX, |state| state.last_mailbox);
        let mut existing = BTreeSet::new();
        for uid in named.iter().filter(|uid| uid.0 != 0 && uid.0 <= last) {
            if self.census.mailboxes.get(uid).is_none_or(|row| row.destroyed) {
                self.recover_mailbox(*uid, None);
            }
            existing.insert(*uid);
        }
        if existing.is_empty() {
            let live =
                self.census.mailboxes.iter().find(|(_, row)| !row.destroyed).map(|(uid, _)| *uid);
            let fallback = Some(self.census.inbox).filter(|uid| uid.0 != 0).or(live);
            existing.insert(fallback.unwrap_or_else(|| self.new_inbox()));
        }
        existing
    }

    /// Puts a new Inbox into the census.
    fn new_inbox(&mut self) -> MailboxUid {
        let last = self.census.mailboxes.keys().next_back().map_or(0, |uid| uid.0);
        let uid = MailboxUid(self.state_or_fresh().last_mailbox.max(last).saturating_add(1));
        self.recover_mailbox(uid, Some(Role::Inbox));
        self.census.inbox = uid;
        uid
    }

    /// Checks the message of a live email and the rows that are made of it. Returns the size that
    /// the email should have; `None` if the check is not deep, or the message cannot be read. A
    /// trace prefix that is lost counts as empty.
    fn check_message(
        &mut self,
        id: EmailId,
        key: &[u8],
        email: &EmailMetadata,
        content: Option<&[u8]>,
        tokens: Option<&[u8]>,
    ) -> Result<Option<u64>, Error> {
        let reference = BlobRefKey { blob: email.blob, account: self.account, email: id };
        self.expect_row::<BlobRefs>(&reference, &Present)?;
        let readable = content.map(|row| decode_content(key, row));
        let prefix = match (&readable, content) {
            (Some(Ok((prefix, _))), _) => prefix.clone(),
            (_, row) => row.and_then(content_prefix).unwrap_or_default(),
        };
        let raw = self.whole_message(id, email)?;
        let made = self
            .options
            .make_rows
            .zip(raw.as_deref())
            .map(|(make_rows, raw)| EncodedMessage::new(&make_rows(raw)));
        // Rows that an earlier version made of the message stay until a rebuild, which is the check
        // with `restart_history`.
        let is_earlier =
            matches!(readable, Some(Ok(_))) && content.is_some_and(is_content_outdated);
        let is_compared = !is_earlier || self.options.restart_history;
        if let Some(made) = made.as_ref().filter(|_| is_compared) {
            self.check_references(email, &made.thread_keys)?;
        }
        let fix = |row: Option<Vec<u8>>| row.map_or(RowFix::Nothing, RowFix::Put);
        let wanted = made.as_ref().map(|made| encode_content(&prefix, &made.content));
        // The version byte also says by which rules the tokens were made. Only a rebuild compares
        // it.
        let from = usize::from(!self.options.restart_history);
        let differs = |wanted: &[u8], row: &[u8]| wanted.get(from..) != row.get(from..);
        match (&readable, content) {
            (None, _) => {
                let what = "the row is missing, and with it the trace prefix of the delivery";
                self.report(Table::EmailContent, key, what, fix(wanted))?;
            }
            (Some(Err(error)), _) => {
                self.report(Table::EmailContent, key, error.to_string(), fix(wanted))?;
            }
            (Some(Ok(_)), Some(row))
                if is_compared && wanted.as_deref().is_some_and(|wanted| differs(wanted, row)) =>
            {
                self.report(
                    Table::EmailContent,
                    key,
                    "differs from what is made of the message",
                    fix(wanted),
                )?;
            }
            (Some(Ok(_)), _) => {}
        }
        // Without `refold`, the tokens may be in a fold, and `check_search_index` compares them.
        if self.options.refold {
            let wanted = match (&made, tokens) {
                (Some(made), _) => encode_tokens(&prefix, &made.tokens),
                // Without the message, the tokens stay as they are; those in a fold are lost.
                (None, Some(row)) if decode_tokens(key, row).is_ok() => row.to_vec(),
                (None, _) => {
                    encode_tokens(&prefix, &EncodedMessage::new(&MessageRows::default()).tokens)
                }
            };
            self.expect(Table::EmailTokens, key, tokens, wanted)?;
        }
        Ok(raw.map(|raw| (raw.len() as u64).saturating_add(prefix.len() as u64)))
    }

    /// Returns an email's message as received. `None` if the check is not deep, or if the message
    /// is missing or damaged, which is reported.
    pub(in crate::store) fn whole_message(
        &self,
        id: EmailId,
        email: &EmailMetadata,
    ) -> Result<Option<Vec<u8>>, Error> {
        if self.options.make_rows.is_none() {
            return Ok(None);
        }
        let (key, mut raw) = (BlobKey { blob: email.blob }.encode(), Vec::new());
        let problem = match blob::append(self.read, &email.blob, 0..u64::MAX, &mut raw) {
            Ok(false) => format!("the message of {id} is missing"),
            Ok(true) if *blake3::hash(&raw).as_bytes() != email.blob.0 => {
                format!("the message of {id} does not have this hash")
            }
            Ok(true) => return Ok(Some(raw)),
            Err(error @ Error::Corrupt { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.report(Table::Blobs, &key, problem, RowFix::Nothing)?;
        Ok(None)
    }

    /// Checks that a tombstone has its content row and its reference to the message, and in a deep
    /// check that the message is whole. One whose email was restored has neither of the two rows.
    fn check_tombstone(
        &self,
        id: EmailId,
        key: &[u8],
        email: &EmailMetadata,
        content: Option<&[u8]>,
    ) -> Result<(), Error> {
        let reference = BlobRefKey { blob: email.blob, account: self.account, email: id };
        match (self.read.bytes::<BlobRefs>(&reference)?, content) {
            (None, None) => Ok(()),
            // Restoring deletes both rows together, so the email was not restored.
            (None, Some(_)) => self.expect_row::<BlobRefs>(&reference, &Present),
            (Some(_), content) => {
                self.expect_row::<BlobRefs>(&reference, &Present)?;
                let raw = self.whole_message(id, email)?;
                let made = self
                    .options
                    .make_rows
                    .zip(raw)
                    .map(|(make_rows, raw)| EncodedMessage::new(&make_rows(&raw)));
                let prefix = content.and_then(content_prefix).unwrap_or_default();
                let wanted = made.map(|made| encode_content(&prefix, &made.content));
                let what = match content.map(|row| decode_content(key, row)) {
                    None => "the row is missing".to_owned(),
                    Some(Err(error)) => error.to_string(),
                    Some(Ok(_)) => return Ok(()),
                };
                self.report_fault(
                    Table::EmailContent,
                    key,
                    what,
                    wanted.map_or(RowFix::Nothing, RowFix::Put),
                    false,
                )
            }
        }
    }

    /// Checks that no two emails have the same modseq, and then `email_by_modseq`,
    /// `email_by_thread` and `email_purge`. Fills `Census::by_thread`. Called once the census has
    /// all emails.
    pub(in crate::store) fn check_email_indexes(&mut self) -> Result<(), Error> {
        let account = self.account;
        // A new `created` is above the stored `updated`, so both are set.
        self.expect_one_email_each(
            |mail| mail.created,
            |email, number| (email.created, email.updated) = (number, number),
        )?;
        self.expect_one_email_each(|mail| mail.updated, |email, number| email.updated = number)?;
        let mut numbers: Vec<(u64, u64)> =
            self.census.mails.iter().map(|mail| (mail.updated, mail.id.0)).collect();
        numbers.sort_unstable();
        let rows = numbers
            .into_iter()
            .map(|(number, id)| (ModSeqKey { account, modseq: ModSeq(number) }, EmailId(id)));
        self.expect_rows::<EmailByModseq>(rows)?;

        let census = &mut self.census;
        let mut order: Vec<u32> =
            (0..u32::try_from(census.mails.len()).unwrap_or(u32::MAX)).collect();
        order.sort_unstable_by_key(|at| census.mail(*at).map(|mail| (mail.thread, mail.id)));
        census.by_thread = order;
        let census = &self.census;
        let live =
            census.by_thread.iter().filter_map(|at| census.mail(*at)).filter(|mail| mail.is_live());
        let keys = live.map(|mail| ThreadEmailKey { account, thread: mail.thread, email: mail.id });
        self.expect_rows::<EmailByThread>(keys.map(|key| (key, Present)))?;

        let dead =
            census.dead.iter().map(|(at, id)| PurgeKey { account, at: (*at).into(), email: *id });
        let mut keys: Vec<PurgeKey> = dead.collect();
        keys.sort_unstable();
        self.expect_rows::<EmailPurge>(keys.into_iter().map(|key| (key, Present)))
    }

    /// Checks that no two emails have the same modseq in the field that `number` reads. Of two that
    /// have, the older one gets a new modseq, which `set` writes.
    fn expect_one_email_each(
        &mut self,
        number: impl Fn(&CensusEmail) -> u64,
        set: impl Fn(&mut EmailMetadata, ModSeq),
    ) -> Result<(), Error> {
        let mut all: Vec<(u64, usize)> = self.census.mails.iter().map(number).zip(0..).collect();
        all.sort_unstable();
        let duplicates: Vec<usize> =
            all.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1).collect();
        for at in duplicates {
            let fresh = self.fresh_modseq();
            let Some(mail) = self.census.mails.get_mut(at) else { continue };
            let key = EmailKey { account: self.account, email: mail.id };
            let found = self.read.row_if_any::<table::EmailMetadata>(&key)?;
            let Some(Ok(mut email)) = found else { continue };
            set(&mut email, fresh);
            (mail.created, mail.updated) = (email.created.0, email.updated.0);
            let what = "another email has the same change number";
            self.report(Table::EmailMetadata, &key.encode(), what, RowFix::Put(email.to_bytes()))?;
        }
        Ok(())
    }

    /// Returns a modseq above all that are in use, and notes it as used.
    pub(in crate::store) fn fresh_modseq(&mut self) -> ModSeq {
        let last =
            self.found_state.as_ref().map_or(0, |state| state.modseq.0).max(self.census.high);
        self.census.high = last.saturating_add(1);
        ModSeq(self.census.high)
    }
}
