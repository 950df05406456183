//! Tests of the interpreter, most of them on trees that [`build`] makes without a source.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "test code; trees are made where they are used"
)]

#[path = "../support/mod.rs"]
mod support;

mod actions;
mod base;
mod bounds;
mod build;
mod edits;
mod extensions;
mod laws;
mod messages;
mod scripts;
mod variables;
