//! Thread/get and Thread/changes (RFC 8621 §3).
//!
//! A guest sees a thread if the guest may read one of its emails, and sees only these emails in it.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Account, Context};
use super::email::newest_emails;
use super::guest::{self, newest_visible_state};
use super::method::Call;
use super::rights::Rights;
use super::standard::{ChangedObjects, GetObjects, ObjectChanges, ObjectType, parse_state};
use crate::model::{AccountId, DataType, EmailId, ThreadId, limits};
use crate::store::{Error, Snapshot};
use crate::wire::jmap::admin::mail::ThreadSummary;
use crate::wire::jmap::json::members;
use crate::wire::jmap::{ADMIN, JsonObject, MethodError, Property as _, properties};

properties! {
    /// The last three are a vendor extension.
    pub(super) enum ThreadProperty {
        Id = "id",
        EmailIds = "emailIds",
        UnreadEmails = "unreadEmails",
        LatestEmailId = "latestEmailId",
        LatestReceivedAt = "latestReceivedAt",
    }
}

impl ThreadProperty {
    fn is_extension(self) -> bool {
        match self {
            Self::Id | Self::EmailIds => false,
            Self::UnreadEmails | Self::LatestEmailId | Self::LatestReceivedAt => true,
        }
    }
}

/// Returns the number of unread emails and the newest email of a thread. `emails` are its emails,
/// newest first. Without emails, or if the newest one cannot be found, there is no newest email.
pub(super) fn summary(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    emails: &[EmailId],
) -> Result<ThreadSummary, Error> {
    let all = snapshot.emails_at(account, emails)?;
    let unread = all.iter().flatten().filter(|email| email.is_unread()).count();
    let latest = emails.first().zip(all.first().and_then(Option::as_ref));
    Ok(ThreadSummary {
        unread_emails: unread as u64,
        latest_email_id: latest.map(|(id, _)| id.to_string()),
        latest_received_at: latest.map(|(_, email)| email.received_at.rfc3339()),
    })
}

/// The object type Thread (RFC 8621 §3). No type of `model` stands for a thread.
pub(super) struct ThreadObjects;

pub(super) struct ThreadReader<'a> {
    context: &'a Context,
    account: &'a Account,
    snapshot: Snapshot<'a>,
    rights: Rights,
    /// The emails of the threads that the client named, if they were read ahead.
    emails: BTreeMap<ThreadId, Vec<EmailId>>,
}

impl ObjectType for ThreadObjects {
    type Id = ThreadId;
    type Property = ThreadProperty;
    type Reader<'a> = ThreadReader<'a>;

    const GUESTS: bool = true;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<ThreadReader<'a>, MethodError> {
        let snapshot = call.context.store.snapshot();
        let rights = Rights::in_account(&snapshot, account)?;
        let emails = BTreeMap::new();
        Ok(ThreadReader { context: call.context, account, snapshot, rights, emails })
    }

    fn state(reader: &ThreadReader<'_>) -> Result<String, MethodError> {
        newest_visible_state(reader.context, &reader.snapshot, reader.account, DataType::Thread)
    }
}

impl GetObjects for ThreadObjects {
    fn properties(call: &Call<'_>) -> Vec<ThreadProperty> {
        let is_available = |property: &ThreadProperty| !property.is_extension() || call.uses(ADMIN);
        ThreadProperty::ALL.iter().copied().filter(is_available).collect()
    }

    /// Reads the emails of all named threads.
    fn prepare(
        reader: &mut ThreadReader<'_>,
        ids: Option<&[String]>,
        _: &[ThreadProperty],
    ) -> Result<(), MethodError> {
        let ids: BTreeSet<ThreadId> =
            ids.unwrap_or_default().iter().filter_map(|id| id.parse().ok()).collect();
        reader.emails = reader.snapshot.emails_of_threads(reader.account.id, &ids)?;
        Ok(())
    }

    /// Returns at most one thread more than a /get may return, which is enough to refuse the call.
    fn ids(reader: &ThreadReader<'_>) -> Result<Vec<ThreadId>, MethodError> {
        match reader.rights {
            Rights::Owner => {
                Ok(reader.snapshot.threads(reader.account.id, limits::MAX_OBJECTS_IN_GET + 1)?)
            }
            Rights::Guest(_) => reader.visible_to_guest(),
        }
    }

    fn object(
        reader: &ThreadReader<'_>,
        id: &ThreadId,
        properties: &[ThreadProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let emails = reader.emails(*id)?;
        if emails.is_empty() {
            return Ok(None);
        }
        let mut object = JsonObject::new();
        if properties.iter().any(|property| property.is_extension()) {
            object = members(serde_json::to_value(summary(
                &reader.snapshot,
                reader.account.id,
                &emails,
            )?)?);
            object.retain(|name, _| properties.iter().any(|property| property.name() == name));
        }
        object.insert("id".into(), id.to_string().into());
        if properties.contains(&ThreadProperty::EmailIds) {
            // Oldest first (RFC 8621 §3).
            object.insert("emailIds".into(), emails.iter().rev().map(EmailId::to_string).collect());
        }
        Ok(Some(object))
    }
}

impl ObjectChanges for ThreadObjects {
    fn changes(
        reader: &ThreadReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<ThreadId>>, MethodError> {
        let ThreadReader { context, account, snapshot, .. } = reader;
        let since = parse_state(&context.store, since)?;
        let changes = match account.guest {
            None => snapshot.thread_changes(account.id, since, max_changes)?,
            Some(_) => guest::thread_changes(snapshot, account, since, max_changes)?,
        };
        Ok(changes.map(|changes| ChangedObjects::from_store(&context.store, changes)))
    }
}

impl ThreadReader<'_> {
    /// Returns the threads that a guest sees, in the order of their creation; at most one more than
    /// a /get may return.
    fn visible_to_guest(&self) -> Result<Vec<ThreadId>, MethodError> {
        let collapse = true;
        let newest =
            newest_emails(self.context, &self.snapshot, (self.account, &self.rights), collapse)?;
        let emails = self.snapshot.emails_at(self.account.id, &newest)?;
        let mut threads: Vec<ThreadId> =
            emails.into_iter().flatten().map(|email| email.thread).collect();
        threads.sort_unstable();
        Ok(threads)
    }

    /// Returns those emails of a thread that the caller may read, newest first.
    fn emails(&self, thread: ThreadId) -> Result<Vec<EmailId>, Error> {
        let mut emails = match self.emails.get(&thread) {
            Some(emails) => emails.clone(),
            None => self.snapshot.thread_emails(self.account.id, thread)?,
        };
        if self.rights != Rights::Owner {
            let found: Result<Vec<_>, _> =
                emails.iter().map(|id| self.snapshot.email(self.account.id, *id)).collect();
            let mut found = found?.into_iter();
            emails.retain(|_| {
                found.next().flatten().is_some_and(|email| self.rights.may_read_email(&email))
            });
        }
        Ok(emails)
    }
}
