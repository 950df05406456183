//! Reads, checks and runs the conformance cases, for `tests/cases.rs`.

pub mod case;
pub mod laws;
pub mod plan;
pub mod run;
pub mod version;
pub mod words;
pub mod world;
