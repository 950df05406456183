//! Remembers the fields that tests have looked at, decoded as text and as addresses, so that a
//! script with many rules decodes a field once.
//!
//! A field is found again by the place of its value in memory. So only borrowed values, which are
//! those of the message, are remembered. Values of fields that the script has made are owned, and
//! are decoded each time.

use std::borrow::Cow;
use std::rc::Rc;

use crate::address::AddressSpec;
use crate::address_list::{AddressEntry, parse_address_list};
use crate::message::MessageView;

/// Fields that are remembered as text, and as many as addresses. Scripts ask for a handful. Further
/// ones are decoded each time.
const MAX_FIELDS: usize = 32;

/// The address in memory at which a value of the message begins, and the length of the value.
type ValuePlace = (*const u8, usize);

#[derive(Default)]
pub(super) struct KnownFields<'a> {
    texts: Vec<(ValuePlace, Cow<'a, str>)>,
    addresses: Vec<(ValuePlace, Rc<[AddressSpec]>)>,
}

impl<'a> KnownFields<'a> {
    /// Returns a value as text.
    pub(super) fn decoded(
        &mut self,
        view: &'a dyn MessageView,
        value: Cow<'a, [u8]>,
    ) -> Cow<'a, str> {
        let value = match value {
            Cow::Borrowed(value) => value,
            Cow::Owned(value) => return Cow::Owned(view.decode_text(&value).into_owned()),
        };
        find_or_insert(&mut self.texts, value, || view.decode_text(value))
    }

    /// Returns the addresses of a value, with those in groups. What is no address is left out.
    pub(super) fn addresses(&mut self, value: Cow<'a, [u8]>) -> Rc<[AddressSpec]> {
        let parse = |value: &[u8]| {
            let mut addresses = Vec::new();
            for entry in parse_address_list(value) {
                match entry {
                    AddressEntry::Mailbox(mailbox) => addresses.push(mailbox),
                    AddressEntry::Group(members) => addresses.extend(members),
                }
            }
            Rc::from(addresses)
        };
        match value {
            Cow::Borrowed(value) => find_or_insert(&mut self.addresses, value, || parse(value)),
            Cow::Owned(value) => parse(&value),
        }
    }
}

/// Returns what is remembered for a value, or else makes it, and remembers it if there is room.
fn find_or_insert<T: Clone>(
    known: &mut Vec<(ValuePlace, T)>,
    value: &[u8],
    make: impl FnOnce() -> T,
) -> T {
    let place = (value.as_ptr(), value.len());
    if let Some((_, found)) = known.iter().find(|(one, _)| *one == place) {
        return found.clone();
    }
    let made = make();
    if known.len() < MAX_FIELDS {
        known.push((place, made.clone()));
    }
    made
}
