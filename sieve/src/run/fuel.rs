//! The work that a run may do.
//!
//! - A command, a test, a part in a loop, a regular expression, or a look into the host's store
//!   costs one unit; examining 32 bytes costs one more. Two kinds of work are much faster for a
//!   byte than others, and cost less: decoding a part or running an automaton over a text (64 bytes
//!   a unit), and copying, folding or searching a text (256 bytes a unit). So the default fuel
//!   suffices for one test of a body of 50 MiB, or for several tests of a body of 20 MiB.
//! - Work on things other than bytes is charged as a number of bytes: looking at a field or a part,
//!   or comparing a flag.
//! - Work is charged before it is done, so that nothing large is begun without fuel. Only the
//!   states of a regular expression are charged after they were built (`regex`).
//! - No clock is read: the same run costs the same everywhere.

use super::Result;
use crate::outcome::RuntimeErrorKind;

/// Bytes that can be examined for one unit.
const BYTES_PER_UNIT: u64 = 32;

/// How many bytes are decoded at the cost of examining one.
const DECODED_PER_BYTE: usize = 2;

/// How many bytes are copied, folded or searched at the cost of examining one.
const SCANNED_PER_BYTE: usize = 8;

/// What looking at a field or a part of the message costs, in bytes.
pub(super) const FIELD_COST: usize = 16;

/// What comparing a flag with another costs, in bytes.
pub(super) const FLAG_COST: usize = 8;

/// The fuel of a run, counted in bytes.
#[derive(Debug)]
pub(super) struct Fuel {
    limit: u64,
    used: u64,
}

impl Fuel {
    /// Makes the fuel of a run that may use this number of units.
    pub(super) const fn new(units: u64) -> Self {
        Self { limit: units.saturating_mul(BYTES_PER_UNIT), used: 0 }
    }

    /// Charges one unit: for a command, a test, a part in a loop, a regular expression, or a look
    /// into the host's store.
    #[inline]
    pub(super) fn step(&mut self) -> Result<()> {
        self.charge(BYTES_PER_UNIT)
    }

    /// Charges bytes that are about to be examined one by one, or the same number for other work.
    #[inline]
    pub(super) fn bytes(&mut self, count: usize) -> Result<()> {
        self.charge(count as u64)
    }

    /// Charges bytes that are about to be decoded, or that an automaton is about to read.
    #[inline]
    pub(super) fn decoded(&mut self, count: usize) -> Result<()> {
        self.bytes(count.div_ceil(DECODED_PER_BYTE))
    }

    /// Charges bytes that are about to be passed over at once: copied, folded or searched for a
    /// fixed text.
    #[inline]
    pub(super) fn scanned(&mut self, count: usize) -> Result<()> {
        self.bytes(count.div_ceil(SCANNED_PER_BYTE))
    }

    /// Fails with `OutOfFuel` if too little is left. Then everything counts as used.
    #[inline]
    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit {
            self.used = self.limit;
            return Err(RuntimeErrorKind::OutOfFuel);
        }
        Ok(())
    }

    /// Returns the units used, rounded up.
    pub(super) const fn used(&self) -> u64 {
        self.used.div_ceil(BYTES_PER_UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_units_are_rounded_up_and_the_limit_is_never_exceeded() {
        let mut fuel = Fuel::new(2);
        fuel.bytes(1).unwrap();
        assert_eq!(fuel.used(), 1);
        fuel.step().unwrap();
        assert_eq!(fuel.used(), 2);
        assert_eq!(fuel.bytes(32), Err(RuntimeErrorKind::OutOfFuel));
        assert_eq!(fuel.used(), 2);
        assert!(Fuel::new(u64::MAX).bytes(usize::MAX).is_ok());
    }
}
