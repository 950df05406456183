//! What emails are read by: Email/get and Email/parse, the properties and the body parts (RFC 8621
//! §4.1, §4.2, §4.9).

pub(in crate::jmap::email) mod body;
pub(in crate::jmap::email) mod get;
mod parse;
pub(in crate::jmap::email) mod property;

pub(in crate::jmap) use get::{EmailGet, head, newest_emails};
pub(in crate::jmap) use parse::EmailParse;

#[cfg(test)]
pub(in crate::jmap) mod tests;
