//! The rows of queued actions, with their wake-ups, their own bytes and the digests of their lanes.

use super::account::{read_address, write_address};
use super::{FieldReader, FieldWriter, Row, RowError, decode_with};
use crate::model::{
    AccountId, Action, ActionId, ActionKind, ActionState, Address, BlobHash, DsnNotify, DsnReturn,
    EmailId, ObjectId, OriginalRecipient, RecipientState, Target, ToldKey, UtcMillis,
};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::table::keys::WakeCondition;

/// A digest that tells destinations apart.
pub type Digest = [u8; 8];

impl Row for Action {
    const TABLE: Table = Table::Outbox;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.id.0);
        out.num(variant_number(&ActionKind::ALL, self.kind));
        out.num(variant_number(&ActionState::ALL, self.state));
        out.bool(self.urgent);
        for at in [self.created, self.due, self.expires] {
            out.signed(at.0);
        }
        out.num(self.attempts);
        out.maybe_text(self.last_error.as_ref());
        out.option(self.sender.as_ref(), write_address);
        out.num(match self.ret {
            None => 0u8,
            Some(DsnReturn::Full) => 1,
            Some(DsnReturn::Headers) => 2,
        });
        out.maybe_text(self.envid.as_ref());
        out.list(self.recipients.iter(), write_target);
        out.option(self.email.as_ref(), |out, email| out.num(email.0));
        out.option(self.told.as_ref(), |out, key| out.fixed(&key.0));
        out.option(self.after.as_ref(), |out, id| out.num(id.0));
        out.option(self.duplicate_key.as_ref(), |out, hash| out.fixed(hash));
        out.bool(self.seven_bit);
        out.text(&self.message_id);
        out.num(self.own_bytes);
        out.option(self.blob.as_ref(), |out, hash| out.fixed(&hash.0));
        out.option(self.submission.as_ref(), |out, id| out.num(id.0));
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        let at = |input: &mut FieldReader<'_>| Ok(UtcMillis(input.signed()?));
        Ok(Self {
            id: ActionId(input.num()?),
            kind: read_variant_number(&ActionKind::ALL, input, "unknown kind of action")?,
            state: read_variant_number(&ActionState::ALL, input, "unknown state of an action")?,
            urgent: input.bool()?,
            created: at(input)?,
            due: at(input)?,
            expires: at(input)?,
            attempts: input.num32()?,
            last_error: input.option(FieldReader::text)?,
            sender: input.option(read_address)?,
            ret: match input.num()? {
                0 => None,
                1 => Some(DsnReturn::Full),
                2 => Some(DsnReturn::Headers),
                _ => return Err(RowError("unknown RET")),
            },
            envid: input.option(FieldReader::text)?,
            recipients: input.list(read_target)?,
            email: input.option(|input| Ok(EmailId(input.num()?)))?,
            told: input.option(|input| Ok(ToldKey(input.fixed()?)))?,
            after: input.option(|input| Ok(ActionId(input.num()?)))?,
            duplicate_key: input.option(FieldReader::fixed)?,
            seven_bit: input.bool()?,
            message_id: input.text()?,
            own_bytes: input.num()?,
            blob: input.option(|input| Ok(BlobHash(input.fixed()?)))?,
            submission: input.option(|input| Ok(ObjectId(input.num()?)))?,
        })
    }
}

/// Decodes the kind and the state, which are at the beginning of an action's row.
///
/// # Errors
/// `Corrupt`.
pub fn decode_kind_and_state(key: &[u8], row: &[u8]) -> Result<(ActionKind, ActionState), Error> {
    decode_with(Table::Outbox, key, row, Action::VERSION, |input, _| {
        input.num()?;
        let kind = read_variant_number(&ActionKind::ALL, input, "unknown kind of action")?;
        let state = read_variant_number(&ActionState::ALL, input, "unknown state of an action")?;
        // The other fields are not read, and `decode_with` refuses bytes that are left.
        input.0 = &[];
        Ok((kind, state))
    })
}

fn write_target(out: &mut FieldWriter, target: &Target) {
    write_address(out, &target.address);
    out.option(target.notify.as_ref(), |out, notify| {
        let bits = [notify.never, notify.success, notify.failure, notify.delay];
        out.num(bits.iter().zip(0u32..).fold(0u64, |sum, (bit, at)| sum | u64::from(*bit) << at));
    });
    out.option(target.original.as_ref(), |out, original| {
        out.text(&original.kind);
        out.text(&original.address);
    });
    match &target.state {
        RecipientState::Waiting => out.num(0u8),
        RecipientState::Sent(text) => {
            out.num(1u8);
            out.text(text);
        }
        RecipientState::Failed { status, text } => {
            out.num(2u8);
            out.fixed(status);
            out.text(text);
        }
    }
}

fn read_target(input: &mut FieldReader<'_>) -> Result<Target, RowError> {
    Ok(Target {
        address: read_address(input)?,
        notify: input.option(|input| {
            let bits = input.num()?;
            let has = |at: u32| bits >> at & 1 == 1;
            if bits > 15 {
                return Err(RowError("unknown NOTIFY"));
            }
            Ok(DsnNotify { never: has(0), success: has(1), failure: has(2), delay: has(3) })
        })?,
        original: input.option(|input| {
            Ok(OriginalRecipient { kind: input.text()?, address: input.text()? })
        })?,
        state: match input.num()? {
            0 => RecipientState::Waiting,
            1 => RecipientState::Sent(input.text()?),
            2 => RecipientState::Failed { status: input.fixed()?, text: input.text()? },
            _ => return Err(RowError("unknown fate of a recipient")),
        },
    })
}

/// The number that stands for a variant in rows: its position in `all`. So `all` must keep its
/// order, and new variants come last.
pub(super) fn variant_number<T: PartialEq + Copy>(all: &[T], variant: T) -> u64 {
    all.iter().position(|other| *other == variant).unwrap_or_default() as u64
}

/// Reads the number of a variant, and returns the variant. Fails with `bad` if there is none.
pub(super) fn read_variant_number<T: Copy>(
    all: &[T],
    input: &mut FieldReader<'_>,
    bad: &'static str,
) -> Result<T, RowError> {
    usize::try_from(input.num()?).ok().and_then(|at| all.get(at)).copied().ok_or(RowError(bad))
}

/// Returns a row of `outbox_messages`: the version, then an action's own bytes.
#[must_use]
pub fn encode_outbox_message(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes.len().saturating_add(1));
    value.push(1);
    value.extend_from_slice(bytes);
    value
}

/// Returns the bytes in a row of `outbox_messages`.
///
/// # Errors
/// `Corrupt`.
pub fn decode_outbox_message<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Error> {
    match value.split_first() {
        Some((1, bytes)) => Ok(bytes),
        _ => Err(Error::Corrupt {
            table: Table::OutboxMessages.name(),
            key: crate::store::error::hex(key),
            what: "not the bytes of an action".into(),
        }),
    }
}

/// Returns what wakes an action; `None` if nothing does.
#[must_use]
pub fn wake_condition(action: &Action) -> Option<WakeCondition> {
    match action.state {
        ActionState::Attempting => Some(WakeCondition::Attempting(action.due)),
        ActionState::Waiting if action.urgent => Some(WakeCondition::Urgent(action.due)),
        ActionState::Waiting => Some(WakeCondition::Due(action.due)),
        ActionState::Blocked => action.after.map(WakeCondition::After),
        ActionState::Sent => Some(WakeCondition::Forget(action.due)),
        ActionState::Held | ActionState::Failed => None,
    }
}

/// A row of `outbox_due`. If two digests collide, their actions only wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Destination {
    /// Digest of the account and the recipient (`lane_digest`): the actions of a lane are sent in
    /// order.
    pub(crate) lane: Digest,
    /// Digest of the recipient's domain (`domain_digest`).
    pub(crate) domain: Digest,
}

impl Destination {
    /// The destination of an action's first recipient that still waits, or of the first of all if
    /// none waits. Zeros for an action without recipients, which `queue_action` refuses.
    pub(crate) fn of(account: AccountId, action: &Action) -> Self {
        let to = action.next_recipient().map(|target| target.address.folded());
        match &to {
            Some(to) => Self { lane: lane_digest(account, to), domain: domain_digest(to) },
            None => Self { lane: [0; 8], domain: [0; 8] },
        }
    }
}

impl Row for Destination {
    const TABLE: Table = Table::OutboxDue;

    fn write(&self, out: &mut FieldWriter) {
        out.fixed(&self.lane);
        out.fixed(&self.domain);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self { lane: input.fixed()?, domain: input.fixed()? })
    }
}

/// A row of `outbox_same`: the open action with the `duplicate_key` that is in the row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SameAction(pub(crate) ActionId);

impl Row for SameAction {
    const TABLE: Table = Table::OutboxSame;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.0.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self(ActionId(input.num()?)))
    }
}

/// The digest of an account and of a recipient's address in its folded form.
#[must_use]
pub fn lane_digest(account: AccountId, to: &Address) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&account.0.to_be_bytes());
    hasher.update(&(to.local().len() as u64).to_be_bytes());
    hasher.update(to.local().as_bytes());
    hasher.update(to.domain().as_bytes());
    digest(&hasher)
}

/// The digest of the domain of an address in its folded form.
#[must_use]
pub fn domain_digest(to: &Address) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(to.domain().as_bytes());
    digest(&hasher)
}

fn digest(hasher: &blake3::Hasher) -> Digest {
    let mut out = Digest::default();
    hasher.finalize_xof().fill(&mut out);
    out
}
