//! Runs the conformance cases.

pub mod case;
pub mod words;
