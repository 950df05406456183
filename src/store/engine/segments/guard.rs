//! Guards: segments are deleted only when nobody is left who may know an extent in them.
//!
//! `earlier_guards` returns the guards that were taken before the call. Once they are dropped,
//! nobody is left who knows extents from rows as they were before the call. `blob::reclaim` waits
//! for this after it has retired segments, and again after it has moved their values.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Segments;

/// Says that its holder may know extents: no segment in which they are is deleted before the guard
/// is dropped.
#[derive(Debug, Clone)]
pub struct SegmentGuard {
    _group: Arc<GuardGroup>,
}

/// Stands for the guards that were taken between two calls of `earlier_guards`: each has a
/// reference to it.
#[derive(Debug, Default)]
struct GuardGroup;

/// The guards that were taken before a call of `earlier_guards`.
#[derive(Debug, Default)]
pub struct EarlierGuards(Vec<Weak<GuardGroup>>);

impl EarlierGuards {
    /// Whether all these guards are dropped.
    #[must_use]
    pub fn are_dropped(&self) -> bool {
        let are_dropped = self.0.iter().all(|group| group.strong_count() == 0);
        // What the holders did before they dropped their guards is seen after this.
        fence(Ordering::Acquire);
        are_dropped
    }
}

/// The current group, and earlier ones of which guards may be left.
#[derive(Debug, Default)]
pub(super) struct GuardGroups(Mutex<(Arc<GuardGroup>, Vec<Weak<GuardGroup>>)>);

impl Segments {
    /// Returns a guard. A reader takes it before it reads the first row that may name an extent,
    /// and holds it as long as it uses extents.
    pub(in crate::store) fn guard(&self) -> SegmentGuard {
        SegmentGuard { _group: Arc::clone(&self.guard_groups.0.lock().0) }
    }

    /// Returns the guards that were taken before this call.
    pub(in crate::store) fn earlier_guards(&self) -> EarlierGuards {
        let mut groups = self.guard_groups.0.lock();
        let (current, earlier) = &mut *groups;
        earlier.retain(|group| group.strong_count() > 0);
        earlier.push(Arc::downgrade(current));
        *current = Arc::default();
        EarlierGuards(earlier.clone())
    }
}
