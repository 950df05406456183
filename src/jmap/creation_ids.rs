//! Creation ids (RFC 8620 §3.3, §5.3): `#name` stands for the id of what an earlier call, or the
//! same one, created.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What creation ids stand for, over the calls of one request.
#[derive(Debug, Default)]
pub(super) struct CreationIds(RefCell<BTreeMap<String, String>>);

impl CreationIds {
    /// Begins with what the client says of earlier requests.
    pub(super) fn new(given: Option<&Map<String, Value>>) -> Self {
        let known = given.into_iter().flatten();
        let known = known.filter_map(|(name, id)| Some((name.clone(), id.as_str()?.to_owned())));
        Self(RefCell::new(known.collect()))
    }

    /// Notes what was created under a name. A name that is used again stands for the last.
    pub(super) fn note(&self, name: &str, id: &str) {
        self.0.borrow_mut().insert(name.to_owned(), id.to_owned());
    }

    /// An id as it is; of `#name` what that stands for, or nothing where that is not known.
    pub(super) fn resolve(&self, id: &str) -> Option<String> {
        match id.strip_prefix('#') {
            Some(name) => self.0.borrow().get(name).cloned(),
            None => Some(id.to_owned()),
        }
    }

    /// All that is noted so far, for [`Self::restore`].
    pub(super) fn checkpoint(&self) -> BTreeMap<String, String> {
        self.0.borrow().clone()
    }

    /// Forgets what was noted since `known`: a commit begins with this, for it may be run again.
    pub(super) fn restore(&self, known: &BTreeMap<String, String>) {
        self.0.borrow_mut().clone_from(known);
    }

    /// All of them, for the response.
    pub(super) fn all(&self) -> Map<String, Value> {
        self.0.borrow().iter().map(|(name, id)| (name.clone(), id.clone().into())).collect()
    }
}
