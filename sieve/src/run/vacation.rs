//! `vacation` (RFC 5230) and `:seconds` (RFC 6131).
//!
//! The run decides what the answer would be. The host decides whether it is sent, and remembers who
//! was answered.

use super::decisions::Kind;
use super::message::split_entity;
use super::strings::single_line;
use super::{Frame, Result, Run};
use crate::address::AddressSpec;
use crate::ir::Vacation;
use crate::outcome::{RuntimeErrorKind, WarningKind};
use crate::plan::{Action, VacationBody, VacationIntent};

impl Run<'_> {
    /// Runs `vacation`. Texts of `:from` and `:addresses` that are no mailbox are left out, with a
    /// warning.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::BadMimeEntity`] if the reason of `:mime` is no entity, and the errors of
    /// [`Self::take`], of [`Self::fcc`] and of limits.
    pub(super) fn vacation(&mut self, frame: &Frame<'_>, vacation: &Vacation) -> Result<()> {
        self.take(Kind::Response, "vacation")?;
        let subject = self.expand_option(frame, vacation.subject.as_ref())?;
        let from = self.expand_option(frame, vacation.from.as_ref())?;
        let from = match from {
            Some(from) => self.valid_mailbox(&from)?,
            None => None,
        };
        let mut addresses = Vec::new();
        for address in self.expand_all(frame, &vacation.addresses)? {
            addresses.extend(self.valid_mailbox(&address)?);
        }
        let reason = self.expand(frame, &vacation.reason)?.into_owned();
        let body = match vacation.mime {
            true if is_entity(&reason) => VacationBody::Mime(reason),
            true => return Err(RuntimeErrorKind::BadMimeEntity),
            false => VacationBody::Text(reason),
        };
        let fcc = self.fcc(frame, vacation.fcc.as_ref())?;
        let with_enclosures = false;
        let message = self.uncounted_version(with_enclosures)?;
        self.push_action(Action::Vacation(Box::new(VacationIntent {
            handle: vacation.handle,
            handle_name: vacation.handle_name.clone(),
            period: vacation.period,
            subject: subject.map(|subject| single_line(&subject)),
            from,
            addresses,
            body,
            fcc,
            message,
        })))?;
        self.count_sent()
    }

    /// Returns the text if it is one mailbox, with or without a display name. Otherwise it warns
    /// and returns `None`.
    pub(super) fn valid_mailbox(&mut self, text: &str) -> Result<Option<String>> {
        self.fuel.bytes(text.len())?;
        if AddressSpec::parse_mailbox(text).is_some() {
            return Ok(Some(text.to_owned()));
        }
        self.warn(WarningKind::AddressIgnored(text.to_owned()));
        Ok(None)
    }
}

/// Returns whether a text begins with header fields or with an empty line (RFC 2045 §2.4). Every
/// line up to the first empty one must be a field or continue one, and be ASCII (RFC 5230 §5). The
/// header must end with a line end; the empty line after it, and content, may be missing.
pub(super) fn is_entity(text: &str) -> bool {
    let (fields, content) = split_entity(text);
    let header = text.get(..text.len().saturating_sub(content.len())).unwrap_or_default();
    let is_continued = |line: &str| line.starts_with([' ', '\t']);
    let is_end = |line: &str| line.trim_end_matches('\r').is_empty();
    let lines = header.split('\n').filter(|line| !is_continued(line) && !is_end(line));
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    header.is_ascii()
        && lines.count() == fields.len()
        && header.ends_with('\n')
        && !is_continued(header)
        && fields.iter().all(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::is_entity;

    #[test]
    fn an_entity_begins_with_fields_or_an_empty_line() {
        for text in [
            "Content-Type: text/plain;\r\n charset=utf-8\r\n\r\nHello",
            "Content-Type: text/html\n\n<p>",
            "\nHello",
            "Content-Type: text/html\n",
        ] {
            assert!(is_entity(text), "{text}");
        }
        for text in [
            "Hello",
            "Hello\n",
            "",
            " A: b\n\nHello",
            "A: b\nHello\n\n",
            "A: b",
            "A b: c\n\n",
            "A: \u{fc}\n\n",
        ] {
            assert!(!is_entity(text), "{text}");
        }
    }
}
