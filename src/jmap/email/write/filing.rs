//! Where an email is filed, with which keywords, and when it came: what a client may say of every
//! email that it makes, imports or copies (RFC 8621 §4.1.1, §4.6 to §4.8), and change of it.

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

/// The names of these properties.
pub(in crate::jmap::email) const NAMES: [&str; 3] = ["mailboxIds", "keywords", "receivedAt"];

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jmap::email) struct Filing {
    /// One at least.
    pub(in crate::jmap::email) mailboxes: BTreeSet<MailboxUid>,
    /// Normal form; `None` where nothing is said.
    pub(in crate::jmap::email) keywords: Option<BTreeSet<String>>,
    /// Likewise.
    pub(in crate::jmap::email) received_at: Option<UtcMillis>,
}

impl Filing {
    /// Reads an object that makes an email of something stored already: the id under `source`, and
    /// the filing. Of any other property `unknown` says why it is wrong.
    ///
    /// # Errors
    /// `invalidProperties`, `tooManyKeywords`.
    pub(in crate::jmap::email) fn with_source<'o>(
        ids: &CreationIds,
        object: &'o Map<String, Value>,
        source: &str,
        unknown: &str,
    ) -> Result<(&'o str, Self), SetError> {
        let mut wrong = InvalidProperties::default();
        for name in object.keys().filter(|name| *name != source && !NAMES.contains(&name.as_str()))
        {
            wrong.add(name, unknown);
        }
        let id = object.get(source).and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() {
            wrong.add(source, "an id is wanted");
        }
        let filing = Self::read(ids, object, &mut wrong)?;
        wrong.finish()?;
        Ok((id, filing))
    }

    /// Reads the properties of an object that has others, too. What is read is of use where nothing
    /// is wrong.
    ///
    /// # Errors
    /// `tooManyKeywords`.
    pub(in crate::jmap::email) fn read(
        ids: &CreationIds,
        object: &Map<String, Value>,
        wrong: &mut InvalidProperties,
    ) -> Result<Self, SetError> {
        let given = |name: &str| object.get(name).filter(|value| !value.is_null());
        let mailboxes = mailboxes(ids, given("mailboxIds").unwrap_or(&Value::Null));
        let received_at =
            given("receivedAt").map(|value| utc_date("receivedAt", value)).transpose();
        if received_at.is_err() {
            wrong.add("receivedAt", "a UTCDate such as 2026-12-24T09:00:00Z is wanted");
        }
        Ok(Self {
            mailboxes: wrong.note(mailboxes)?.unwrap_or_default(),
            keywords: wrong.note(given("keywords").map(keywords).transpose())?.flatten(),
            received_at: received_at.ok().flatten(),
        })
    }
}

/// The names in a set as JSON has it: `{name: true}`.
fn names<'v>(property: &str, value: &'v Value) -> Result<Vec<&'v String>, SetError> {
    let wanted = || SetError::property(property, "an object is wanted whose values are true");
    let members = value.as_object().ok_or_else(wanted)?;
    if members.values().all(|value| *value == Value::Bool(true)) {
        Ok(members.keys().collect())
    } else {
        Err(wanted())
    }
}

/// `mailboxIds`, creation ids replaced: one at least. Whether they are there is asked by `prove`.
pub(in crate::jmap::email) fn mailboxes(
    ids: &CreationIds,
    value: &Value,
) -> Result<BTreeSet<MailboxUid>, SetError> {
    let wanted = |what: &str| SetError::property("mailboxIds", what);
    let one = |id: &String| {
        let uid = ids.resolve(id).and_then(|id| id.parse().ok());
        uid.filter(|uid| *uid != MailboxUid::ALL)
            .ok_or_else(|| wanted(&format!("{id}: no such mailbox")))
    };
    let found = names("mailboxIds", value)?
        .into_iter()
        .map(one)
        .collect::<Result<BTreeSet<_>, SetError>>()?;
    if found.is_empty() { Err(wanted("an email is in one mailbox at least")) } else { Ok(found) }
}

/// `keywords`, in normal form.
pub(in crate::jmap::email) fn keywords(value: &Value) -> Result<BTreeSet<String>, SetError> {
    let wanted = |word: &String| {
        SetError::property("keywords", format!("\"{word}\" is no keyword (RFC 8621 §4.1.1)"))
    };
    let one = |word: &String| keyword::normalize(word).ok_or_else(|| wanted(word));
    let found = names("keywords", value)?
        .into_iter()
        .map(one)
        .collect::<Result<BTreeSet<_>, SetError>>()?;
    if found.len() > limits::MAX_KEYWORDS {
        return Err(SetError::of(
            "tooManyKeywords",
            &format!("more than {}", limits::MAX_KEYWORDS),
        ));
    }
    Ok(found)
}

/// Whether mailboxes are there for the caller.
///
/// # Errors
/// Those of reading; `invalidProperties`.
pub(in crate::jmap::email) fn prove(
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
