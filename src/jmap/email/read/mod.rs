//! The methods that read emails: Email/get, Email/changes and Email/parse (RFC 8621 §4.2, §4.3,
//! §4.9).

pub(in crate::jmap::email) mod body;
pub(in crate::jmap::email) mod get;
mod parse;
pub(in crate::jmap::email) mod property;

pub(in crate::jmap) use get::{EmailGet, message_head, newest_emails};
pub(in crate::jmap) use parse::EmailParse;

#[cfg(test)]
pub(in crate::jmap) mod tests;
