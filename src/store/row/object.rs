//! The rows of small objects. The row of a destroyed object has only its marks: the changes that
//! created and destroyed it.

use std::collections::BTreeMap;

use super::action::{read_variant_number, variant_number};
use super::content::{read_people, write_people};
use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{
    AccountId, ActionId, BlobHash, ChangedBy, DeliveryState, DeliveryStatus, EmailId,
    EmailSubmission, EnvelopeAddress, MailboxUid, ModSeq, ObjectId, ObjectKind, PushKeys,
    PushSubscription, SenderIdentity, ShareNotification, SieveScript, SubmissionRecipient,
    ThreadId, UndoStatus, UtcMillis, limits,
};
use crate::store::engine::Table;
use crate::store::error::Error;

/// A kind of small objects, stored in `ObjectRow`.
pub trait Object: Clone + PartialEq {
    const KIND: ObjectKind;
    /// The most objects of the kind that an account may have, without destroyed ones.
    const MAX_OBJECTS: usize;

    fn write(&self, out: &mut FieldWriter);

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError>;
}

/// A row of `objects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRow<T> {
    /// The change that created the object.
    pub created: ModSeq,
    /// The last change of the object, which may be its destruction.
    pub updated: ModSeq,
    /// `None` if the object is destroyed.
    pub object: Option<T>,
}

impl<T: Object> Row for ObjectRow<T> {
    const TABLE: Table = Table::Objects;

    fn write(&self, out: &mut FieldWriter) {
        out.bool(self.object.is_some());
        out.num(self.created.0);
        out.num(self.updated.0);
        if let Some(object) = &self.object {
            object.write(out);
        }
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        let is_live = input.bool()?;
        let (created, updated) = (ModSeq(input.num()?), ModSeq(input.num()?));
        let object = if is_live { Some(T::read(input)?) } else { None };
        Ok(Self { created, updated, object })
    }
}

/// Whether a row is of an object that is not destroyed. Reads only the byte behind the version
/// (`ObjectRow::write`). A row that is too short counts as that of a destroyed object.
#[must_use]
pub fn is_live_object(row: &[u8]) -> bool {
    row.get(1) == Some(&1)
}

/// Decodes a row of this kind, and returns its marks. `object` is `Some(())` if the object is not
/// destroyed.
///
/// # Errors
/// `Corrupt`.
pub fn object_marks(kind: ObjectKind, key: &[u8], row: &[u8]) -> Result<ObjectRow<()>, Error> {
    fn marks_of<T: Object>(key: &[u8], row: &[u8]) -> Result<ObjectRow<()>, Error> {
        let ObjectRow { created, updated, object } = ObjectRow::<T>::decode(key, row)?;
        Ok(ObjectRow { created, updated, object: object.map(drop) })
    }
    match kind {
        ObjectKind::Identity => marks_of::<SenderIdentity>(key, row),
        ObjectKind::EmailSubmission => marks_of::<EmailSubmission>(key, row),
        ObjectKind::PushSubscription => marks_of::<PushSubscription>(key, row),
        ObjectKind::ShareNotification => marks_of::<ShareNotification>(key, row),
        ObjectKind::SieveScript => marks_of::<SieveScript>(key, row),
    }
}

impl Object for SenderIdentity {
    const KIND: ObjectKind = ObjectKind::Identity;
    const MAX_OBJECTS: usize = limits::MAX_IDENTITIES;

    fn write(&self, out: &mut FieldWriter) {
        out.text(&self.name);
        out.text(&self.email);
        for people in [&self.reply_to, &self.bcc] {
            out.option(people.as_ref(), |out, people| write_people(out, people));
        }
        out.text(&self.text_signature);
        out.text(&self.html_signature);
        out.maybe_text(self.default_name.as_ref());
    }

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            name: input.text()?,
            email: input.text()?,
            reply_to: input.option(read_people)?,
            bcc: input.option(read_people)?,
            text_signature: input.text()?,
            html_signature: input.text()?,
            default_name: input.option(FieldReader::text)?,
        })
    }
}

fn write_path(out: &mut FieldWriter, path: &EnvelopeAddress) {
    out.text(&path.email);
    out.option(path.parameters.as_ref(), |out, parameters| {
        out.list(parameters.iter(), |out, (name, value)| {
            out.text(name);
            out.maybe_text(value.as_ref());
        });
    });
}

fn read_path(input: &mut FieldReader<'_>) -> Result<EnvelopeAddress, RowError> {
    let email = input.text()?;
    let parameters = input.option(|input| {
        input.list::<_, BTreeMap<String, Option<String>>>(|input| {
            Ok((input.text()?, input.option(FieldReader::text)?))
        })
    })?;
    Ok(EnvelopeAddress { email, parameters })
}

impl Object for EmailSubmission {
    const KIND: ObjectKind = ObjectKind::EmailSubmission;
    const MAX_OBJECTS: usize = limits::MAX_SUBMISSIONS;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.identity.0);
        out.num(self.email.0);
        out.num(self.thread.0);
        out.text(&self.message_id);
        write_path(out, &self.mail_from);
        out.list(self.rcpt_to.iter(), |out, to| {
            write_path(out, &to.path);
            out.text(&to.status.smtp_reply);
            out.num(variant_number(&DeliveryState::ALL, to.status.delivered));
            out.bool(to.status.displayed);
        });
        out.signed(self.send_at.0);
        out.num(variant_number(&UndoStatus::ALL, self.undo));
        out.option(self.ended.as_ref(), |out, at| out.signed(at.0));
        out.option(self.action.as_ref(), |out, id| out.num(id.0));
        for ids in [&self.dsn, &self.mdn] {
            out.list(ids.iter(), |out, id| out.num(id.0));
        }
    }

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError> {
        let ids = |input: &mut FieldReader<'_>| input.list(|input| Ok(EmailId(input.num()?)));
        Ok(Self {
            identity: ObjectId(input.num()?),
            email: EmailId(input.num()?),
            thread: ThreadId(input.num()?),
            message_id: input.text()?,
            mail_from: read_path(input)?,
            rcpt_to: input.list(|input| {
                let path = read_path(input)?;
                let smtp_reply = input.text()?;
                let delivered =
                    read_variant_number(&DeliveryState::ALL, input, "unknown state of a delivery")?;
                Ok(SubmissionRecipient {
                    path,
                    status: DeliveryStatus { smtp_reply, delivered, displayed: input.bool()? },
                })
            })?,
            send_at: UtcMillis(input.signed()?),
            undo: read_variant_number(&UndoStatus::ALL, input, "unknown undo status")?,
            ended: input.option(|input| Ok(UtcMillis(input.signed()?)))?,
            action: input.option(|input| Ok(ActionId(input.num()?)))?,
            dsn: ids(input)?,
            mdn: ids(input)?,
        })
    }
}

impl Object for PushSubscription {
    const KIND: ObjectKind = ObjectKind::PushSubscription;
    const MAX_OBJECTS: usize = limits::MAX_PUSH_SUBSCRIPTIONS;

    fn write(&self, out: &mut FieldWriter) {
        out.text(&self.device_client_id);
        out.text(&self.url);
        out.option(self.keys.as_ref(), |out, keys| {
            out.bytes(&keys.p256dh);
            out.bytes(&keys.auth);
        });
        out.text(&self.code);
        out.bool(self.is_verified);
        out.signed(self.expires.0);
        out.option(self.types.as_ref(), |out, types| {
            out.list(types.iter(), |out, name| out.text(name));
        });
        out.maybe_text(self.credential.as_ref());
    }

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            device_client_id: input.text()?,
            url: input.text()?,
            keys: input.option(|input| {
                Ok(PushKeys { p256dh: input.bytes()?.to_vec(), auth: input.bytes()?.to_vec() })
            })?,
            code: input.text()?,
            is_verified: input.bool()?,
            expires: UtcMillis(input.signed()?),
            types: input.option(|input| input.list(FieldReader::text))?,
            credential: input.option(FieldReader::text)?,
        })
    }
}

impl Object for ShareNotification {
    const KIND: ObjectKind = ObjectKind::ShareNotification;
    const MAX_OBJECTS: usize = limits::MAX_SHARE_NOTIFICATIONS;

    fn write(&self, out: &mut FieldWriter) {
        out.signed(self.created.0);
        out.text(&self.by.name);
        out.maybe_text(self.by.email.as_ref());
        out.option(self.by.account.as_ref(), |out, id| out.num(id.0));
        out.num(self.account.0);
        out.num(self.mailbox.0);
        out.text(&self.name);
        out.num(self.old);
        out.num(self.new);
    }

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError> {
        let rights = |input: &mut FieldReader<'_>| {
            u16::try_from(input.num()?).map_err(|_| RowError("unknown rights"))
        };
        Ok(Self {
            created: UtcMillis(input.signed()?),
            by: ChangedBy {
                name: input.text()?,
                email: input.option(FieldReader::text)?,
                account: input.option(|input| Ok(AccountId(input.num32()?)))?,
            },
            account: AccountId(input.num32()?),
            mailbox: MailboxUid(input.num32()?),
            name: input.text()?,
            old: rights(input)?,
            new: rights(input)?,
        })
    }
}

impl Object for SieveScript {
    const KIND: ObjectKind = ObjectKind::SieveScript;
    const MAX_OBJECTS: usize = limits::MAX_SCRIPTS;

    fn write(&self, out: &mut FieldWriter) {
        out.text(&self.name);
        out.num(self.size);
        out.fixed(&self.hash.0);
        out.signed(self.created.0);
        out.signed(self.stored.0);
    }

    fn read(input: &mut FieldReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            name: input.text()?,
            size: input.num()?,
            hash: BlobHash(input.fixed()?),
            created: UtcMillis(input.signed()?),
            stored: UtcMillis(input.signed()?),
        })
    }
}
