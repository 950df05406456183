//! How emails are made and changed: Email/set, Email/import and Email/copy (RFC 8621 §4.6 to §4.8).

mod copy;
mod create;
mod filing;
mod import;
mod keep;
mod set;

pub(in crate::jmap) use copy::EmailCopy;
pub(in crate::jmap) use create::message_id;
pub(in crate::jmap) use import::EmailImport;
pub(in crate::jmap) use set::EmailSet;

#[cfg(test)]
mod tests;
