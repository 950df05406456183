//! Bounds on all connections together: their number, and the bytes of the messages that they are
//! receiving.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The ceilings of one service.
#[derive(Debug, Clone)]
pub struct Ceiling(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: AtomicUsize,
    most_connections: AtomicUsize,
    octets: AtomicU64,
    most_octets: AtomicU64,
}

impl Ceiling {
    /// Creates ceilings for connections and bytes.
    #[must_use]
    pub fn new(most_connections: usize, most_octets: u64) -> Self {
        let (connections, octets) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (most_connections, most_octets) = (most_connections.into(), most_octets.into());
        Self(Arc::new(Inner { connections, most_connections, octets, most_octets }))
    }

    /// Sets other ceilings. What is above them already stays; nothing more comes in until there is
    /// room.
    pub fn set(&self, most_connections: usize, most_octets: u64) {
        self.0.most_connections.store(most_connections, Ordering::Release);
        self.0.most_octets.store(most_octets, Ordering::Release);
    }

    /// A place for one connection, until it is dropped.
    #[must_use]
    pub fn connection(&self) -> Option<ConnectionPermit> {
        let most = self.0.most_connections.load(Ordering::Acquire);
        let below = |open: usize| (open < most).then(|| open + 1);
        let taken = self.0.connections.fetch_update(Ordering::AcqRel, Ordering::Acquire, below);
        taken.is_ok().then(|| ConnectionPermit(Arc::clone(&self.0)))
    }

    /// How many connections there may be.
    #[must_use]
    pub fn most_connections(&self) -> usize {
        self.0.most_connections.load(Ordering::Acquire)
    }

    /// An empty share of the octets.
    #[must_use]
    pub fn share(&self) -> MemoryPermit {
        MemoryPermit { of: Arc::clone(&self.0), octets: 0 }
    }
}

/// One connection's place.
#[derive(Debug)]
pub struct ConnectionPermit(Arc<Inner>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The octets that one message holds.
#[derive(Debug)]
pub struct MemoryPermit {
    of: Arc<Inner>,
    octets: u64,
}

impl MemoryPermit {
    /// Takes `by` more bytes, if as many are left.
    #[must_use]
    pub fn grow(&mut self, by: usize) -> bool {
        let by = by as u64;
        let most = self.of.most_octets.load(Ordering::Acquire);
        let below = |held: u64| held.checked_add(by).filter(|all| *all <= most);
        let taken = self.of.octets.fetch_update(Ordering::AcqRel, Ordering::Acquire, below).is_ok();
        if taken {
            self.octets += by;
        }
        taken
    }

    /// Gives all back.
    pub fn clear(&mut self) {
        self.of.octets.fetch_sub(self.octets, Ordering::AcqRel);
        self.octets = 0;
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

    fn one_more(ceiling: &Ceiling, octets: usize) -> bool {
        ceiling.share().grow(octets)
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let ceiling = Ceiling::new(1, 10);
        let place = ceiling.connection();
        assert!(place.is_some() && ceiling.connection().is_none());
        drop(place);
        assert!(ceiling.connection().is_some());
        let (mut one, mut other) = (ceiling.share(), ceiling.share());
        assert!(one.grow(7) && !other.grow(4) && other.grow(3));
        drop(one);
        assert!(other.grow(7) && !other.grow(1));
        other.clear();
        assert!(other.grow(10));
        ceiling.set(2, 5);
        assert!(ceiling.connection().is_some() && !one_more(&ceiling, 1));
        other.clear();
        assert!(one_more(&ceiling, 5) && !one_more(&ceiling, 6));
    }
}
