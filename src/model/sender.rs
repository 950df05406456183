//! Identities as a client sees them: as whom the owner sends (RFC 8621 §6). `identity` is who an
//! account *is*.
//!
//! An account has one for each of its addresses without anyone's doing. Those are rows like the
//! owner's own, so that states tell of them alike; `steps` says what brings them up to date with
//! the account, which every reader of identities does first.

use super::address::{Address, fold_domain};
use super::email::EmailAddress;
use super::id::ObjectId;
use super::limits;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SenderIdentity {
    /// The From name.
    pub name: String,
    /// The From address; `*@domain` stands for any in a domain.
    pub email: String,
    /// Reply-To of what is written as it.
    pub reply_to: Option<Vec<EmailAddress>>,
    /// Bcc of what is written as it.
    pub bcc: Option<Vec<EmailAddress>>,
    /// Signature of text.
    pub text_signature: String,
    /// Signature of HTML.
    pub html_signature: String,
    /// Of one that stands for an address of the account: the name that it was given. Such a one
    /// cannot be deleted.
    pub default_name: Option<String>,
}

/// What brings the identities of an account up to date with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityChange {
    /// This one is new.
    Make(SenderIdentity),
    /// This one has another name now.
    Rename(ObjectId, String),
    /// Its address is gone, but the owner wrote something: the identity belongs to the owner now.
    Release(ObjectId),
    /// Its address is gone.
    Drop(ObjectId),
}

impl SenderIdentity {
    /// That of an address of the account.
    #[must_use]
    pub fn of(address: &Address, name: &str) -> Self {
        Self {
            name: name.into(),
            email: address.to_string(),
            default_name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Whether the owner may delete it (RFC 8621 §6 mayDelete).
    #[must_use]
    pub fn may_delete(&self) -> bool {
        self.default_name.is_none()
    }

    /// Whether it is still as it was given.
    fn is_untouched(&self) -> bool {
        let Self { name, email: _, reply_to, bcc, text_signature, html_signature, default_name } =
            self;
        default_name.as_ref() == Some(name)
            && reply_to.is_none()
            && bcc.is_none()
            && text_signature.is_empty()
            && html_signature.is_empty()
    }

    /// Whether it is that of an address of the account. The case of local parts counts: where they
    /// differ by it, an address in another case may be somebody else's.
    fn stands_for(&self, address: &Address) -> bool {
        let is_same = |own: Address| {
            own.local() == address.local()
                && fold_domain(own.domain()) == fold_domain(address.domain())
        };
        Address::parse(&self.email).is_ok_and(is_same)
    }
}

/// What is to be done so that an account with these addresses, the first first, and this name has
/// its identities.
#[must_use]
pub fn identity_changes(
    known: &[(ObjectId, SenderIdentity)],
    addresses: &[Address],
    name: &str,
) -> Vec<IdentityChange> {
    let addresses =
        addresses.get(..limits::MAX_ADDRESS_IDENTITIES.min(addresses.len())).unwrap_or_default();
    let given_identities = || known.iter().filter(|(_, identity)| identity.default_name.is_some());
    let mut changes = Vec::new();
    for (id, identity) in given_identities() {
        let stands = addresses.iter().any(|address| identity.stands_for(address));
        match (stands, identity.is_untouched()) {
            (true, true) if identity.name != name => {
                changes.push(IdentityChange::Rename(*id, name.to_owned()))
            }
            (true, _) => {}
            (false, true) => changes.push(IdentityChange::Drop(*id)),
            (false, false) => changes.push(IdentityChange::Release(*id)),
        }
    }
    let missing = addresses
        .iter()
        .filter(|address| !given_identities().any(|(_, identity)| identity.stands_for(address)));
    changes.extend(missing.map(|address| IdentityChange::Make(SenderIdentity::of(address, name))));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_follow_the_addresses_and_keep_what_the_owner_wrote() {
        let address = |text: &str| Address::parse(text).unwrap();
        let (ann, lee) = (address("ann@example.org"), address("A.Lee@example.org"));
        let made = identity_changes(&[], &[ann.clone(), lee.clone()], "Ann");
        let identities = made.iter().map(|change| match change {
            IdentityChange::Make(identity) => identity.clone(),
            other => panic!("{other:?}"),
        });
        let mut known: Vec<(ObjectId, SenderIdentity)> =
            (1..).map(ObjectId).zip(identities).collect();
        assert_eq!(known[1].1.email, "A.Lee@example.org");
        assert!(!known[0].1.may_delete());
        let both = [ann.clone(), address("A.Lee@EXAMPLE.org")];
        assert_eq!(identity_changes(&known, &both, "Ann"), []);
        // The account's name changes: what nobody touched follows.
        known[1].1.text_signature = "-- \r\nAnn".into();
        assert_eq!(
            identity_changes(&known, &both, "Ann Lee"),
            [IdentityChange::Rename(ObjectId(1), "Ann Lee".into())]
        );
        // Addresses go: what the owner wrote stays.
        assert_eq!(
            identity_changes(&known, &[], "Ann"),
            [IdentityChange::Drop(ObjectId(1)), IdentityChange::Release(ObjectId(2))]
        );
        // One in another case is another address.
        let other = [ann.clone(), address("A.Lee@example.org"), address("a.lee@example.org")];
        assert_eq!(
            identity_changes(&known, &other, "Ann"),
            [IdentityChange::Make(SenderIdentity::of(&other[2], "Ann"))]
        );
        // An identity of the owner's own with the same address is another one.
        known[0].1.default_name = None;
        assert!(known[0].1.may_delete());
        assert_eq!(
            identity_changes(&known, &both, "Ann"),
            [IdentityChange::Make(SenderIdentity::of(&ann, "Ann"))]
        );
    }
}
