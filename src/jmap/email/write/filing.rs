//! The mailboxes, keywords and time of receipt that a client sets on a new email (RFC 8621 §4.1.1,
//! §4.6 to §4.8).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::jmap::context::Account;
use crate::jmap::creation_ids::CreationIds;
use crate::jmap::failure::TxnResult;
use crate::jmap::rights::Rights;
use crate::jmap::standard::InvalidProperties;
use crate::jmap::standard::value::utc_date;
use crate::model::{MailboxUid, UtcMillis, keyword, limits};
use crate::store::Snapshot;
use crate::wire::jmap::SetError;

pub(in crate::jmap::email) const PROPERTIES: [&str; 3] = ["mailboxIds", "keywords", "receivedAt"];

/// How a client wants a new email to be filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap::email) struct Filing {
    /// There is at least one.
    pub(in crate::jmap::email) mailboxes: BTreeSet<MailboxUid>,
    /// In normal form; `None` if the client sent none.
    pub(in crate::jmap::email) keywords: Option<BTreeSet<String>>,
    /// `None` if the client sent none.
    pub(in crate::jmap::email) received_at: Option<UtcMillis>,
}

impl Filing {
    /// Reads an object that creates an email from a stored object: the id in the property `source`,
    /// and the filing. Any other property is invalid, with the error text `unknown`.
    ///
    /// # Errors
    /// `invalidProperties`, `tooManyKeywords`.
    pub(in crate::jmap::email) fn with_source<'o>(
        ids: &CreationIds,
        object: &'o Map<String, Value>,
        source: &str,
        unknown: &str,
    ) -> Result<(&'o str, Self), SetError> {
        let mut problems = InvalidProperties::default();
        for name in
            object.keys().filter(|name| *name != source && !PROPERTIES.contains(&name.as_str()))
        {
            problems.add(name, unknown);
        }
        let id = object.get(source).and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() {
            problems.add(source, "an id is expected");
        }
        let filing = Self::read(ids, object, &mut problems)?;
        problems.finish()?;
        Ok((id, filing))
    }

    /// Reads the filing of an object that may have other properties. The result holds only if no
    /// problem was added.
    ///
    /// # Errors
    /// `tooManyKeywords`.
    pub(in crate::jmap::email) fn read(
        ids: &CreationIds,
        object: &Map<String, Value>,
        problems: &mut InvalidProperties,
    ) -> Result<Self, SetError> {
        let property = |name: &str| object.get(name).filter(|value| !value.is_null());
        let mailboxes = mailboxes(ids, property("mailboxIds").unwrap_or(&Value::Null));
        let received_at =
            property("receivedAt").map(|value| utc_date("receivedAt", value)).transpose();
        if received_at.is_err() {
            problems.add("receivedAt", "a UTCDate such as 2026-12-24T09:00:00Z is expected");
        }
        Ok(Self {
            mailboxes: problems.note(mailboxes)?.unwrap_or_default(),
            keywords: problems.note(property("keywords").map(keywords).transpose())?.flatten(),
            received_at: received_at.ok().flatten(),
        })
    }
}

/// Reads a set, which is written as `{name: true}`.
fn set_members<'v>(property: &str, value: &'v Value) -> Result<Vec<&'v String>, SetError> {
    let invalid = || SetError::property(property, "an object is expected whose values are true");
    let members = value.as_object().ok_or_else(invalid)?;
    if members.values().all(|value| *value == Value::Bool(true)) {
        Ok(members.keys().collect())
    } else {
        Err(invalid())
    }
}

/// Reads `mailboxIds`, and resolves creation ids. Whether the mailboxes exist is checked by
/// `require_mailboxes`.
pub(in crate::jmap::email) fn mailboxes(
    ids: &CreationIds,
    value: &Value,
) -> Result<BTreeSet<MailboxUid>, SetError> {
    let invalid = |what: &str| SetError::property("mailboxIds", what);
    let parse = |id: &String| {
        let uid = ids.resolve(id).and_then(|id| id.parse().ok());
        uid.filter(|uid| *uid != MailboxUid::ALL)
            .ok_or_else(|| invalid(&format!("{id}: no such mailbox")))
    };
    let found = set_members("mailboxIds", value)?
        .into_iter()
        .map(parse)
        .collect::<Result<BTreeSet<_>, SetError>>()?;
    if found.is_empty() {
        Err(invalid("an email must be in at least one mailbox"))
    } else {
        Ok(found)
    }
}

/// Reads `keywords`. Returns them in normal form.
///
/// # Errors
/// `invalidProperties`, `tooManyKeywords`.
pub(in crate::jmap::email) fn keywords(value: &Value) -> Result<BTreeSet<String>, SetError> {
    let invalid = |word: &String| {
        SetError::property(
            "keywords",
            format!("\"{word}\" is not a valid keyword (RFC 8621 §4.1.1)"),
        )
    };
    let parse = |word: &String| keyword::normalize(word).ok_or_else(|| invalid(word));
    let found = set_members("keywords", value)?
        .into_iter()
        .map(parse)
        .collect::<Result<BTreeSet<_>, SetError>>()?;
    if found.len() > limits::MAX_KEYWORDS {
        return Err(SetError::other(
            "tooManyKeywords",
            &format!("more than {}", limits::MAX_KEYWORDS),
        ));
    }
    Ok(found)
}

/// Checks that mailboxes exist and that the caller has any right in each.
///
/// # Errors
/// `invalidProperties`; errors of the store.
pub(in crate::jmap::email) fn require_mailboxes(
    snapshot: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
    mailboxes: &BTreeSet<MailboxUid>,
) -> TxnResult<()> {
    for uid in mailboxes {
        if !rights.has_any_right(*uid) || snapshot.mailbox(account.id, *uid)?.is_none() {
            let missing = format!("{uid}: no such mailbox");
            return Err(SetError::property("mailboxIds", missing).into());
        }
    }
    Ok(())
}
