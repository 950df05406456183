//! Emails with their messages, change numbers, and the references to blobs.

use std::collections::BTreeSet;

use crate::model::{EmailId, EmailMetadata, MailboxUid, ModSeq, Role};
use crate::store::blob::read as blob;
use crate::store::email::lost::LostEmails;
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::census::CensusEmail;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{
    EncodedMessage, RowFormat as _, content_prefix, decode_content, encode_content, encode_tokens,
    is_content_outdated,
};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{
    BlobKey, BlobRefKey, EmailKey, ModSeqKey, PurgeKey, ThreadEmailKey,
};
use crate::store::table::{self, BlobRefs, EmailByModseq, EmailByThread, EmailPurge, Present};

impl Checker<'_> {
    /// Reads the emails, and proves what hangs on single ones.
    pub(in crate::store) fn check_emails(&mut self) -> Result<(), Error> {
        let (mut beside, mut lost) = (self.email_tables()?, LostEmails::default());
        while let Some(stands) = beside.next()? {
            let (key, content, tokens) =
                (&stands.key, stands.content.as_deref(), stands.tokens.as_deref());
            let read = stands.metadata.as_deref().map(|row| stands.email(row));
            let id = stands.id();
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
                let what = format!("{error}: what it said is in a backup alone");
                self.report(Table::EmailMetadata, key, what, RowFix::Nothing)?;
            } else {
                let rows = [
                    (Table::EmailMetadata, stands.metadata.is_some()),
                    (Table::EmailContent, content.is_some()),
                    (Table::EmailTokens, tokens.is_some()),
                ];
                for (table, _) in rows.into_iter().filter(|(_, stands)| *stands) {
                    self.report_extra(table, key)?;
                }
            }
        }
        Ok(())
    }

    /// One email; gives what its row should be.
    fn check_email(
        &mut self,
        id: EmailId,
        key: &[u8],
        email: &EmailMetadata,
        content: Option<&[u8]>,
        tokens: Option<&[u8]>,
    ) -> Result<EmailMetadata, Error> {
        let mut wanted = email.clone();
        let mut wrong: Vec<&str> = Vec::new();
        if email.deleted.is_none() {
            wanted.mailboxes = self.existing_mailboxes(&email.mailboxes);
            if wanted.mailboxes != email.mailboxes {
                wrong.push("in no mailbox, or in one that there never was");
            }
            if let Some(size) = self.check_message(id, key, email, content, tokens)?
                && size != email.size
            {
                wanted.size = size;
                wrong.push("the size is not that of prefix and message");
            }
        } else {
            if tokens.is_some() {
                self.report_extra(Table::EmailTokens, key)?;
            }
            self.check_tombstone(id, key, email, content)?;
        }
        if email.received_at != id.received_at() {
            wanted.received_at = id.received_at();
            wrong.push("the id's time is not receivedAt");
        }
        if email.created > email.updated {
            wanted.created = email.updated;
            wrong.push("it changed before it was made");
        }
        if self.found.as_ref().is_some_and(|state| email.updated > state.modseq) {
            let what = "a change number above the account's";
            // The account's row is what is put right.
            self.report(Table::EmailMetadata, key, what, RowFix::Put(wanted.to_bytes()))?;
        }
        if !wrong.is_empty() {
            self.report(
                Table::EmailMetadata,
                key,
                wrong.join("; "),
                RowFix::Put(wanted.to_bytes()),
            )?;
        }
        Ok(wanted)
    }

    /// The mailboxes of an email that there are; one whose row is lost comes back.
    pub(in crate::store) fn existing_mailboxes(
        &mut self,
        named: &BTreeSet<MailboxUid>,
    ) -> BTreeSet<MailboxUid> {
        let last = self.found.as_ref().map_or(u32::MAX, |state| state.last_mailbox);
        let mut places = BTreeSet::new();
        for uid in named.iter().filter(|uid| uid.0 != 0 && uid.0 <= last) {
            if self.census.mailboxes.get(uid).is_none_or(|row| row.deleted) {
                self.recover_mailbox(*uid, None);
            }
            places.insert(*uid);
        }
        if places.is_empty() {
            let live =
                self.census.mailboxes.iter().find(|(_, row)| !row.deleted).map(|(uid, _)| *uid);
            let home = Some(self.census.inbox).filter(|uid| uid.0 != 0).or(live);
            places.insert(home.unwrap_or_else(|| self.new_inbox()));
        }
        places
    }

    /// Where no mailbox is left at all.
    fn new_inbox(&mut self) -> MailboxUid {
        let known = self.census.mailboxes.keys().next_back().map_or(0, |uid| uid.0);
        let uid = MailboxUid(self.state_or_fresh().last_mailbox.max(known).saturating_add(1));
        self.recover_mailbox(uid, Some(Role::Inbox));
        self.census.inbox = uid;
        uid
    }

    /// The message of a live email and the rows that are made of it; gives the email's size where
    /// that can be known.
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
            .depth
            .remake
            .zip(raw.as_deref())
            .map(|(remake, raw)| EncodedMessage::new(&remake(raw)));
        // What was made of the message by earlier rules stays until a rebuild.
        let is_earlier =
            matches!(readable, Some(Ok(_))) && content.is_some_and(is_content_outdated);
        let is_compared = !is_earlier || self.depth.anew;
        if let Some(made) = made.as_ref().filter(|_| is_compared) {
            self.references(email, &made.thread_keys)?;
        }
        let mend = |row: Option<Vec<u8>>| row.map_or(RowFix::Nothing, RowFix::Put);
        let wanted = made.as_ref().map(|made| encode_content(&prefix, &made.content));
        // The version also says by which rules the tokens were made: it alone makes no row wrong.
        let from = usize::from(!self.depth.anew);
        let differs = |wanted: &[u8], row: &[u8]| wanted.get(from..) != row.get(from..);
        match (&readable, content) {
            (None, _) => {
                let what = "the row is missing, and with it the trace fields that stood before the message";
                self.report(Table::EmailContent, key, what, mend(wanted))?;
            }
            (Some(Err(error)), _) => {
                self.report(Table::EmailContent, key, error.to_string(), mend(wanted))?
            }
            (Some(Ok(_)), Some(row))
                if is_compared && wanted.as_deref().is_some_and(|wanted| differs(wanted, row)) =>
            {
                self.report(
                    Table::EmailContent,
                    key,
                    "not what is made of the message",
                    mend(wanted),
                )?;
            }
            (Some(Ok(_)), _) => {}
        }
        // Else they may be in a fold: `search` sees to that.
        if self.depth.refold
            && let Some(made) = made
        {
            self.expect(Table::EmailTokens, key, tokens, encode_tokens(&prefix, &made.tokens))?;
        }
        let is_known = matches!(readable, Some(Ok(_))) || self.depth.remake.is_some();
        Ok(raw
            .filter(|_| is_known)
            .map(|raw| (raw.len() as u64).saturating_add(prefix.len() as u64)))
    }

    /// An email's message as received, where messages are looked at and this one is whole.
    pub(in crate::store) fn whole_message(
        &self,
        id: EmailId,
        email: &EmailMetadata,
    ) -> Result<Option<Vec<u8>>, Error> {
        if self.depth.remake.is_none() {
            return Ok(None);
        }
        let (key, mut raw) = (BlobKey { blob: email.blob }.encode(), Vec::new());
        let wrong = match blob::append(self.read, &email.blob, 0..u64::MAX, &mut raw) {
            Ok(false) => format!("the message of {id} is missing"),
            Ok(true) if *blake3::hash(&raw).as_bytes() != email.blob.0 => {
                format!("the message of {id} does not have this hash")
            }
            Ok(true) => return Ok(Some(raw)),
            Err(error @ Error::Corrupt { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.report(Table::Blobs, &key, wrong, RowFix::Nothing)?;
        Ok(None)
    }

    /// A tombstone holds what restoring it needs, or (once restored) nothing.
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
            // Restoring takes both away together: so it was not restored.
            (None, Some(_)) => self.expect_row::<BlobRefs>(&reference, &Present),
            (Some(_), content) => {
                self.expect_row::<BlobRefs>(&reference, &Present)?;
                let raw = self.whole_message(id, email)?;
                let made = self
                    .depth
                    .remake
                    .zip(raw)
                    .map(|(remake, raw)| EncodedMessage::new(&remake(&raw)));
                let prefix = content.and_then(content_prefix).unwrap_or_default();
                let wanted = made.map(|made| encode_content(&prefix, &made.content));
                let what = match content.map(|row| decode_content(key, row)) {
                    None => "the row is missing".to_owned(),
                    Some(Err(error)) => error.to_string(),
                    Some(Ok(_)) => return Ok(()),
                };
                self.report_with_history(
                    Table::EmailContent,
                    key,
                    what,
                    wanted.map_or(RowFix::Nothing, RowFix::Put),
                    false,
                )
            }
        }
    }

    /// The tables that order the emails: by change, by thread, by the time of their end.
    pub(in crate::store) fn check_email_indexes(&mut self) -> Result<(), Error> {
        let account = self.account;
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

    /// A change number stands for one change of one email: of two that share one, the older email
    /// gets another.
    fn expect_one_email_each(
        &mut self,
        number: impl Fn(&CensusEmail) -> u64,
        set: impl Fn(&mut EmailMetadata, ModSeq),
    ) -> Result<(), Error> {
        let mut all: Vec<(u64, usize)> = self.census.mails.iter().map(number).zip(0..).collect();
        all.sort_unstable();
        let twice: Vec<usize> =
            all.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1).collect();
        for at in twice {
            let fresh = self.fresh_modseq();
            let Some(mail) = self.census.mails.get_mut(at) else { continue };
            let key = EmailKey { account: self.account, email: mail.id };
            let found = self.read.row_if_any::<table::EmailMetadata>(&key)?;
            let Some(Ok(mut email)) = found else { continue };
            set(&mut email, fresh);
            (mail.created, mail.updated) = (email.created.0, email.updated.0);
            let what = "its change number is another email's, too";
            self.report(Table::EmailMetadata, &key.encode(), what, RowFix::Put(email.to_bytes()))?;
        }
        Ok(())
    }

    /// A change number that none has.
    pub(in crate::store) fn fresh_modseq(&mut self) -> ModSeq {
        let used = self.found.as_ref().map_or(0, |state| state.modseq.0).max(self.census.high);
        self.census.high = used.saturating_add(1);
        ModSeq(self.census.high)
    }
}
