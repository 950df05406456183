//! Creation ids (RFC 8620 §3.3, §5.3): `#name` stands for the id of the object that was created
//! under this name.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The creation ids of one request. All its calls share them.
#[derive(Debug, Default)]
pub(super) struct CreationIds(RefCell<BTreeMap<String, String>>);

impl CreationIds {
    /// Starts with the ids that the client passed on from earlier requests (`createdIds`). Leaves
    /// out those that are no texts.
    pub(super) fn new(given: Option<&Map<String, Value>>) -> Self {
        let given = given.into_iter().flatten();
        let ids = given.filter_map(|(name, id)| Some((name.clone(), id.as_str()?.to_owned())));
        Self(RefCell::new(ids.collect()))
    }

    /// Records the id of a new object. If a name is used again, it stands for the last object.
    pub(super) fn note(&self, name: &str, id: &str) {
        self.0.borrow_mut().insert(name.to_owned(), id.to_owned());
    }

    /// Returns the id that `#name` stands for, or `None` if the name is unknown. Returns an id
    /// without `#` as it is.
    pub(super) fn resolve(&self, id: &str) -> Option<String> {
        match id.strip_prefix('#') {
            Some(name) => self.0.borrow().get(name).cloned(),
            None => Some(id.to_owned()),
        }
    }

    pub(super) fn checkpoint(&self) -> BTreeMap<String, String> {
        self.0.borrow().clone()
    }

    /// Forgets the ids since `checkpoint`. A commit begins with this, because it may be run again.
    pub(super) fn restore(&self, checkpoint: &BTreeMap<String, String>) {
        self.0.borrow_mut().clone_from(checkpoint);
    }

    pub(super) fn all(&self) -> Map<String, Value> {
        self.0.borrow().iter().map(|(name, id)| (name.clone(), id.clone().into())).collect()
    }
}
