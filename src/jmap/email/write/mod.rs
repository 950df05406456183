//! The methods that write emails: Email/set, Email/import and Email/copy (RFC 8621 §4.6 to §4.8).

mod commits;
mod copy;
mod create;
mod filing;
mod import;
mod set;

pub(in crate::jmap) use copy::EmailCopy;
pub(in crate::jmap) use create::new_message_id;
pub(in crate::jmap) use import::EmailImport;
pub(in crate::jmap) use set::EmailSet;

#[cfg(test)]
mod tests;
