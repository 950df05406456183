//! The commands: the arguments of each, the calls that it makes, and what it prints.

pub(super) mod account;
pub(super) mod backup;
pub(super) mod check;
pub(super) mod config;
pub(super) mod deliver;
pub(super) mod demo;
pub(super) mod dkim;
pub(super) mod mail;
pub(super) mod mail_change;
pub(super) mod mail_query;
pub(super) mod mailbox;
pub(super) mod queue;
pub(super) mod repair;
pub(super) mod sieve;
pub(super) mod token;
pub(super) mod transfer;
pub(super) mod vacation;
