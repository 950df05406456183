//! JMAP identities: the names and addresses under which the owner sends (RFC 8621 §6).
//!
//! - The server gives an account one identity for each of its first
//!   `limits::MAX_ADDRESS_IDENTITIES` addresses. These identities are stored like those that the
//!   owner creates, so that states report their changes too.
//! - `identity_changes` computes what brings them up to date with the account.
//!
//! `model::Identity`, all names and addresses of an account, is another type.

use super::address::{Address, fold_domain};
use super::email::EmailAddress;
use super::id::ObjectId;
use super::limits;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SenderIdentity {
    pub name: String,
    /// `*@domain` allows any address in the domain.
    pub email: String,
    /// The fields Reply-To and Bcc that clients give new messages; `None` for no such field.
    pub reply_to: Option<Vec<EmailAddress>>,
    pub bcc: Option<Vec<EmailAddress>>,
    pub text_signature: String,
    pub html_signature: String,
    /// The name that the server gave the identity for an address of the account; `None` if the
    /// identity is the owner's.
    pub default_name: Option<String>,
}

/// A change that brings an identity up to date with the addresses of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityChange {
    Make(SenderIdentity),
    /// Gives an unedited identity the new name of the account, also as `default_name`.
    Rename(ObjectId, String),
    /// Makes an edited identity whose address is gone the owner's: `default_name` becomes `None`.
    Release(ObjectId),
    /// Destroys an unedited identity whose address is gone.
    Drop(ObjectId),
}

impl SenderIdentity {
    /// Returns the identity that the server makes for an address of the account.
    #[must_use]
    pub fn of(address: &Address, name: &str) -> Self {
        Self {
            name: name.into(),
            email: address.to_string(),
            default_name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Whether the owner may delete the identity (RFC 8621 §6 mayDelete).
    #[must_use]
    pub fn may_delete(&self) -> bool {
        self.default_name.is_none()
    }

    /// Whether the owner edited nothing of an identity that the server made.
    fn is_untouched(&self) -> bool {
        let Self { name, email: _, reply_to, bcc, text_signature, html_signature, default_name } =
            self;
        default_name.as_ref() == Some(name)
            && reply_to.is_none()
            && bcc.is_none()
            && text_signature.is_empty()
            && html_signature.is_empty()
    }

    /// Whether the identity has this address. Letter case counts in local parts, because an address
    /// in another case may belong to another account.
    fn stands_for(&self, address: &Address) -> bool {
        let is_same = |own: Address| {
            own.local() == address.local()
                && fold_domain(own.domain()) == fold_domain(address.domain())
        };
        Address::parse(&self.email).is_ok_and(is_same)
    }
}

/// Returns the changes after which the account has one identity of the server for each of the first
/// `limits::MAX_ADDRESS_IDENTITIES` of `addresses`, with the name `name` unless the owner edited
/// the identity. Identities that the owner created do not count.
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
                changes.push(IdentityChange::Rename(*id, name.to_owned()));
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
    fn identities_follow_the_addresses_and_keep_edits_of_the_owner() {
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
        // Identities that the owner did not edit get the new name.
        known[1].1.text_signature = "-- \r\nAnn".into();
        assert_eq!(
            identity_changes(&known, &both, "Ann Lee"),
            [IdentityChange::Rename(ObjectId(1), "Ann Lee".into())]
        );
        // Without their addresses, the edited identity stays, and the other is destroyed.
        assert_eq!(
            identity_changes(&known, &[], "Ann"),
            [IdentityChange::Drop(ObjectId(1)), IdentityChange::Release(ObjectId(2))]
        );
        // An address in another letter case gets an identity of its own.
        let other = [ann.clone(), address("A.Lee@example.org"), address("a.lee@example.org")];
        assert_eq!(
            identity_changes(&known, &other, "Ann"),
            [IdentityChange::Make(SenderIdentity::of(&other[2], "Ann"))]
        );
        // An identity that the owner created does not count.
        known[0].1.default_name = None;
        assert!(known[0].1.may_delete());
        assert_eq!(
            identity_changes(&known, &both, "Ann"),
            [IdentityChange::Make(SenderIdentity::of(&ann, "Ann"))]
        );
    }
}
