//! Limits that the connections of several listeners share: their number, and over LMTP the bytes of
//! the messages that they are receiving.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Clones share the counts.
#[derive(Debug, Clone)]
pub struct Ceiling(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: AtomicUsize,
    max_connections: AtomicUsize,
    bytes: AtomicU64,
    max_bytes: AtomicU64,
}

impl Ceiling {
    #[must_use]
    pub fn new(max_connections: usize, max_bytes: u64) -> Self {
        let (connections, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (max_connections, max_bytes) = (max_connections.into(), max_bytes.into());
        Self(Arc::new(Inner { connections, max_connections, bytes, max_bytes }))
    }

    /// Changes the limits. Permits beyond the new limits stay valid.
    pub fn set(&self, max_connections: usize, max_bytes: u64) {
        self.0.max_connections.store(max_connections, Ordering::Release);
        self.0.max_bytes.store(max_bytes, Ordering::Release);
    }

    /// Returns `None` if there are as many connections as are allowed.
    #[must_use]
    pub fn connection_permit(&self) -> Option<ConnectionPermit> {
        let max = self.0.max_connections.load(Ordering::Acquire);
        let add_one = |open: usize| (open < max).then(|| open + 1);
        let added = self.0.connections.fetch_update(Ordering::AcqRel, Ordering::Acquire, add_one);
        added.is_ok().then(|| ConnectionPermit(Arc::clone(&self.0)))
    }

    #[must_use]
    pub fn max_connections(&self) -> usize {
        self.0.max_connections.load(Ordering::Acquire)
    }

    /// Returns a permit for no bytes yet.
    #[must_use]
    pub fn memory_permit(&self) -> MemoryPermit {
        MemoryPermit { limits: Arc::clone(&self.0), bytes: 0 }
    }
}

/// Permits one connection until dropped.
#[derive(Debug)]
pub struct ConnectionPermit(Arc<Inner>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Permits the memory of one message until dropped.
#[derive(Debug)]
pub struct MemoryPermit {
    limits: Arc<Inner>,
    bytes: u64,
}

impl MemoryPermit {
    /// Adds `by` bytes, if the limit allows. Returns whether it did; if not, nothing has changed.
    #[must_use]
    pub fn grow(&mut self, by: usize) -> bool {
        let by = by as u64;
        let max = self.limits.max_bytes.load(Ordering::Acquire);
        let add = |total: u64| total.checked_add(by).filter(|sum| *sum <= max);
        let added =
            self.limits.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok();
        if added {
            self.bytes += by;
        }
        added
    }

    /// Gives all bytes back.
    pub fn clear(&mut self) {
        self.limits.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.bytes = 0;
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_room_for(ceiling: &Ceiling, bytes: usize) -> bool {
        ceiling.memory_permit().grow(bytes)
    }

    #[test]
    fn dropped_permits_can_be_taken_again() {
        let ceiling = Ceiling::new(1, 10);
        let permit = ceiling.connection_permit();
        assert!(permit.is_some() && ceiling.connection_permit().is_none());
        drop(permit);
        assert!(ceiling.connection_permit().is_some());
        let (mut one, mut other) = (ceiling.memory_permit(), ceiling.memory_permit());
        assert!(one.grow(7) && !other.grow(4) && other.grow(3));
        drop(one);
        assert!(other.grow(7) && !other.grow(1));
        other.clear();
        assert!(other.grow(10));
        ceiling.set(2, 5);
        assert!(ceiling.connection_permit().is_some() && !has_room_for(&ceiling, 1));
        other.clear();
        assert!(has_room_for(&ceiling, 5) && !has_room_for(&ceiling, 6));
    }
}
