//! What [`run`](crate::run()) is given, and the questions that it asks of the host.
//!
//! The host answers all questions of one run from one state of its store.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::address::AddressSpec;
use crate::ir::{DeliverByMode, Location, Script};
use crate::message::MessageView;
use crate::pattern::PatternCache;
use crate::plan::DupKey;

/// A message and for whom it is filtered.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub message: &'a dyn MessageView,
    pub envelope: &'a Envelope<'a>,
    pub identity: &'a Identity<'a>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { message, envelope, identity } = self;
        f.debug_struct("Input")
            .field("size", &message.raw().len())
            .field("envelope", envelope)
            .field("identity", identity)
            .finish()
    }
}

/// The envelope of the message. Texts are without angle brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// The sender, empty for `<>`.
    pub from: &'a str,
    /// The one recipient for which the script runs, as the client gave it.
    pub to: &'a str,
    /// The AUTH parameter, decoded (RFC 4954 §5): empty for `<>`, `None` if the client gave none.
    pub auth: Option<&'a str>,
    pub dsn: DsnParameters<'a>,
    pub deliver_by: Option<DeliverByParameter>,
}

/// DSN parameters of the client (RFC 3461 §4), `None` where it gave none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DsnParameters<'a> {
    /// NOTIFY as given: `NEVER`, or words separated by commas.
    pub notify: Option<&'a str>,
    /// ORCPT with its type, decoded: `rfc822;me@example.org`.
    pub original_recipient: Option<&'a str>,
    /// RET as given.
    pub ret: Option<&'a str>,
    /// The ENVID parameter, decoded.
    pub envelope_id: Option<&'a str>,
}

/// The BY parameter of the client (RFC 2852 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliverByParameter {
    /// The seconds that are left at [`World::now`], negative if the time is over.
    pub seconds: i64,
    pub mode: DeliverByMode,
    /// Whether the client asked servers on the way to report the message.
    pub trace: bool,
}

/// The owner of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The owner's addresses, the principal one first.
    pub addresses: &'a [AddressSpec],
    /// `None` if the owner has none. The engine does not use it yet.
    pub display_name: Option<&'a str>,
    /// The characters that separate user and detail in a local part (RFC 5233 §4), such as `+`. A
    /// local part is split at the first of its characters that is one of these.
    pub separators: &'a str,
}

/// Read-only questions about the account. Every method but `now`, `zone` and `mailbox` has a
/// default that fits a host without the feature.
///
/// ```
/// use jiff::{Timestamp, tz::TimeZone};
/// use restante_sieve::{HostError, MailboxRef, MailboxSelector, World};
///
/// /// The account of a user who has only an Inbox.
/// struct OnlyInbox {
///     now: Timestamp,
/// }
///
/// impl World for OnlyInbox {
///     fn now(&self) -> Timestamp {
///         self.now
///     }
///
///     fn zone(&self) -> TimeZone {
///         TimeZone::UTC
///     }
///
///     fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
///         let is_inbox = match selector {
///             MailboxSelector::Name(name) => name.eq_ignore_ascii_case("INBOX"),
///             MailboxSelector::Id(id) => id == "inbox",
///             MailboxSelector::SpecialUse(_) => false,
///         };
///         Ok(is_inbox.then(|| MailboxRef {
///             id: "inbox".to_owned(),
///             name: "INBOX".to_owned(),
///             is_inbox: true,
///             accepts_mail: true,
///             special_uses: Vec::new(),
///         }))
///     }
/// }
/// ```
pub trait World {
    /// Returns the time of the run, the same on every call of one run.
    fn now(&self) -> Timestamp;

    /// Returns the zone in which dates are expressed if the script names none (RFC 5260 §4.1).
    fn zone(&self) -> TimeZone;

    /// Finds a mailbox of the owner.
    ///
    /// # Errors
    /// The store cannot be read.
    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError>;

    /// Returns the value of an entry of the metadata of a mailbox (RFC 5490), or of the server if
    /// `mailbox` is `None`. `Ok(None)` if there is no such entry.
    ///
    /// # Errors
    /// The store cannot be read.
    fn metadata(
        &self,
        _mailbox: Option<&MailboxRef>,
        _entry: &str,
    ) -> Result<Option<String>, HostError> {
        Ok(None)
    }

    /// Returns whether the site forbids scripts to add or delete fields of a name, beside
    /// [`PROTECTED_FIELDS`](crate::PROTECTED_FIELDS).
    fn is_protected_field(&self, _name: &str) -> bool {
        false
    }

    /// Returns whether an external list exists (RFC 6134 §2.7). The list is named by a URI. The URI
    /// of an address book is `urn:ietf:params:sieve:addrbook:` in lower case and a name, also where
    /// the script has the short form `:addrbook:` and a name. The default address book has the name
    /// `default`, in lower case whatever the script writes (RFC 6134 §2.5).
    ///
    /// # Errors
    /// The list cannot be read.
    fn has_list(&self, _list: &str) -> Result<bool, HostError> {
        Ok(false)
    }

    /// Returns whether a value is in an external list, which is named as in [`Self::has_list`]. A
    /// list that does not exist contains nothing.
    ///
    /// # Errors
    /// The list cannot be read.
    fn in_list(&self, _list: &str, _value: &str) -> Result<bool, HostError> {
        Ok(false)
    }

    /// Returns whether a record of the `duplicate` test exists and is not expired (RFC 7352).
    ///
    /// # Errors
    /// The store cannot be read.
    fn duplicate_seen(&self, _key: &DupKey) -> Result<bool, HostError> {
        Ok(false)
    }

    /// Returns how long a record of the `duplicate` test is kept, in seconds: `requested` within
    /// the bounds of the site, or its default (RFC 7352 §3.3). Unless the host says otherwise, the
    /// default is a week, and the bound 13 weeks.
    fn duplicate_seconds(&self, requested: Option<u64>) -> u64 {
        const WEEK: u64 = 7 * 24 * 3600;
        requested.unwrap_or(WEEK).min(13 * WEEK)
    }

    /// Returns the script to include (RFC 6609 §3.2), `Ok(None)` if there is none of this name.
    ///
    /// # Errors
    /// The script has errors, or the store cannot be read.
    fn script(&self, _location: Location, _name: &str) -> Result<Option<Arc<Script>>, HostError> {
        Ok(None)
    }

    /// Returns the compiled patterns that runs share. With `None` each run compiles its own.
    fn patterns(&self) -> Option<&PatternCache> {
        None
    }

    /// Returns the value of an item of the environment, by its name in lower case (RFC 5183 §4).
    /// `None` if it is not known. The engine knows no item of its own, not even `name`.
    fn environment(&self, _item: &str) -> Option<String> {
        None
    }

    /// Returns what a scanner said of the message (RFC 5235).
    fn scan(&self) -> Scan {
        Scan::default()
    }

    /// Returns whether mail can be sent to an address, which is well formed. If not, a redirect to
    /// the address fails the run, so that the message is kept (RFC 5228 §4.2).
    fn can_redirect(&self, _to: &AddressSpec) -> bool {
        true
    }

    /// Returns whether the host can notify by a URI (RFC 5435 §4).
    fn can_notify(&self, _uri: &str) -> bool {
        false
    }

    /// Returns whether the host can notify by URIs of a scheme, which is in lower case and without
    /// the colon.
    fn has_notify_scheme(&self, _scheme: &str) -> bool {
        false
    }

    /// Returns the value of a capability of a notification method, such as `online`, by its name in
    /// lower case (RFC 5435 §5). `None` if it is not known.
    fn notify_capability(&self, _uri: &str, _capability: &str) -> Option<String> {
        None
    }
}

/// Names a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailboxSelector<'a> {
    /// The full name in UTF-8. INBOX in any case is the Inbox.
    Name(&'a str),
    /// A mailbox id (RFC 9042).
    Id(&'a str),
    /// The mailbox for new messages of a special use, such as `\Junk` (RFC 8579). Attributes are
    /// compared without regard to case.
    SpecialUse(&'a str),
}

/// A mailbox that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxRef {
    /// Unique in the account, and never used again.
    pub id: String,
    pub name: String,
    pub is_inbox: bool,
    /// Whether the owner may store messages in it.
    pub accepts_mail: bool,
    /// Attributes such as `\Junk`.
    pub special_uses: Vec<String>,
}

/// Results of scanners, `None` where the message was not tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// From 0, certainly no spam, to 100, certainly spam; more counts as 100. For `spamtest`
    /// without `:percent` the engine turns it into a number from 1 to 10 (RFC 5235 §3.2.1).
    pub spam_percent: Option<u8>,
    /// From 1, no virus, to 5, a virus that could not be removed (RFC 5235 §3.3). Other numbers
    /// count as the nearer end.
    pub virus: Option<u8>,
}

/// The host could not answer. The run fails; a later run may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::PartId;
    use crate::outcome::Trace;
    use crate::plain::{PlainMessage, PlainWorld};

    #[test]
    fn a_host_and_a_message_are_trait_objects() {
        struct Silent;
        impl Trace for Silent {}

        let message = PlainMessage::new("To: me\r\n\r\nHi");
        let envelope = Envelope { to: "me@example.org", ..Envelope::default() };
        let identity = Identity { addresses: &[], display_name: None, separators: "+" };
        let input = Input { message: &message, envelope: &envelope, identity: &identity };
        let world: &dyn World = &PlainWorld { now: Timestamp::UNIX_EPOCH, mailboxes: Vec::new() };
        let trace: Option<&mut dyn Trace> = Some(&mut Silent);
        assert!(trace.is_some());
        let field = &input.message.fields(PartId::ROOT)[0];
        assert_eq!(input.message.decode_text(&input.message.raw()[field.value.clone()]), "me");
        assert_eq!(input.message.text(PartId::ROOT).as_deref(), Some("Hi"));
        assert_eq!(world.duplicate_seconds(Some(u64::MAX)), 13 * 7 * 24 * 3600);
        assert_eq!((world.now(), world.zone()), (Timestamp::UNIX_EPOCH, TimeZone::UTC));
        assert_eq!(world.in_list("tag:a", "b"), Ok(false));
        assert_eq!(world.has_list("tag:a"), Ok(false));
        assert_eq!(world.metadata(None, "/shared/x"), Ok(None));
        assert_eq!(world.duplicate_seen(&DupKey::new(None, "x")), Ok(false));
        assert_eq!(world.script(Location::Global, "x"), Ok(None));
        assert_eq!(world.environment("name"), None);
        assert_eq!(world.scan(), Scan::default());
        assert_eq!(world.notify_capability("mailto:a@b", "online"), None);
        assert!(!world.is_protected_field("X-A"));
        assert!(format!("{input:?}").contains("size: 12"));
    }
}
