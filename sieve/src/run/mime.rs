//! `foreverypart`, `extracttext`, `replace` and `enclose` (RFC 5703).

use super::fuel::FIELD_COST;
use super::message::{AddedField, Line};
use super::strings::single_line;
use super::vacation::is_entity;
use super::{Flow, Frame, Result, Run};
use crate::address_list::{AddressEntry, parse_address_list};
use crate::ir::{Command, DatePart, Enclose, ExtractText, Replace};
use crate::outcome::RuntimeErrorKind;
use crate::plan::HeaderField;

impl Run<'_> {
    /// Runs a block for the message and each part in it, or inside another loop for each part in
    /// the current one (RFC 5703 §3). These are the parts at the beginning of the loop; those that
    /// the block removes are passed over.
    pub(super) fn for_every_part(
        &mut self,
        frame: &mut Frame<'_>,
        block: &[Command],
    ) -> Result<Flow> {
        let outer = frame.part;
        self.fuel.bytes(self.message.all().len().saturating_mul(FIELD_COST))?;
        let nodes = match outer {
            Some(node) => self.message.inside(node),
            None => self.message.with_inside(self.seen_message(frame)),
        };
        let mut flow = Flow::Next;
        for node in nodes {
            self.fuel.step()?;
            self.fuel.bytes(self.message.all().len())?;
            if !self.message.contains(node) {
                continue;
            }
            self.parts = self.parts.saturating_add(1);
            self.within("parts", self.parts, u64::from(self.limits.parts))?;
            frame.part = Some(node);
            flow = self.block(frame, block)?;
            if flow != Flow::Next {
                break;
            }
        }
        frame.part = outer;
        Ok(match flow {
            Flow::Break(loops) if loops <= 1 => Flow::Next,
            Flow::Break(loops) => Flow::Break(loops - 1),
            other => other,
        })
    }

    /// Stores the text of the current part in a variable: the empty string if it has none, or
    /// outside of a loop.
    pub(super) fn extract_text(
        &mut self,
        frame: &mut Frame<'_>,
        extract: &ExtractText,
    ) -> Result<()> {
        let text = match frame.part {
            Some(node) => self.part_text(node)?.unwrap_or_default(),
            None => "".into(),
        };
        self.fuel.bytes(text.len())?;
        let text = match extract.first.and_then(|first| usize::try_from(first).ok()) {
            Some(first) => text.chars().take(first).collect(),
            None => text.into_owned(),
        };
        let text = self.modify(text, &extract.modifiers)?;
        self.set_variable(frame, extract.variable, text)
    }

    /// Gives the current part, or outside of a loop the message, new content (RFC 5703 §5). Does
    /// nothing to a part that is no longer in the message.
    ///
    /// # Errors
    /// - [`RuntimeErrorKind::EditOfEnclosure`] for a part of a message that was enclosed.
    /// - [`RuntimeErrorKind::BadMimeEntity`] if the content of `:mime` is none.
    /// - [`RuntimeErrorKind::BadAddress`] if `:from` is no list of mailboxes.
    /// - The errors of limits.
    pub(super) fn replace(&mut self, frame: &Frame<'_>, replace: &Replace) -> Result<()> {
        let text = self.expand(frame, &replace.replacement)?.into_owned();
        let subject = self.expand_option(frame, replace.subject.as_ref())?;
        let from = self.expand_option(frame, replace.from.as_ref())?;
        let node = self.current_part(frame);
        if !self.message.is_editable(node) {
            return Err(RuntimeErrorKind::EditOfEnclosure);
        }
        if replace.mime && !is_entity(&text) {
            return Err(RuntimeErrorKind::BadMimeEntity);
        }
        self.count_replaced(text.len())?;
        self.fuel.bytes(self.message.all().len().saturating_mul(FIELD_COST))?;
        if !self.message.contains(node) {
            return Ok(());
        }
        if node != self.message.root() {
            self.message.replace(node, replace.mime, text);
            return Ok(());
        }
        let old = self.lines_where(is_mime_field)?;
        self.remove_lines(old);
        self.message.replace(node, replace.mime, text);
        if replace.mime {
            return Ok(());
        }
        if let Some(subject) = subject {
            self.rename_field("Subject", "Original-Subject", &subject)?;
        }
        if let Some(from) = from {
            let entries = parse_address_list(from.as_bytes());
            let is_mailbox = |entry: &AddressEntry| matches!(entry, AddressEntry::Mailbox(_));
            if entries.is_empty() || !entries.iter().all(is_mailbox) {
                return Err(RuntimeErrorKind::BadAddress(from.into_owned()));
            }
            self.rename_field("From", "Original-From", &from)?;
        }
        Ok(())
    }

    /// Replaces the fields of a name by one with a new value, and keeps the old values in fields of
    /// another name, which the script cannot remove.
    fn rename_field(&mut self, name: &str, original: &str, value: &str) -> Result<()> {
        let old = self.lines_named(name)?;
        for value in self.unfolded(&old)? {
            let field = HeaderField { name: original.to_owned(), value };
            self.add_line(AddedField { field, is_first: false, is_locked: true })?;
        }
        self.remove_lines(old);
        let field = HeaderField { name: name.to_owned(), value: single_line(value) };
        self.add_line(AddedField { field, is_first: false, is_locked: false })
    }

    /// Returns the values of lines of the header, each on one line and not decoded.
    fn unfolded(&mut self, lines: &[usize]) -> Result<Vec<String>> {
        let mut values = Vec::new();
        for index in lines {
            let line = self.message.lines().get(*index);
            let Some(field) = line.and_then(|line| self.message.line(line)) else { continue };
            let value = field.value;
            self.fuel.bytes(value.len())?;
            let text: String =
                String::from_utf8_lossy(&value).chars().filter(|c| !"\r\n".contains(*c)).collect();
            values.push(single_line(&text));
        }
        Ok(values)
    }

    /// Makes the message an attachment of a new one (RFC 5703 §6). The new header has the Subject
    /// of `:subject`, or else that of the message, and copies of the fields that `:headers` names,
    /// but for MIME fields. The host writes the MIME fields, and Date and From unless they were
    /// copied; tests see also what the host will write.
    pub(super) fn enclose(&mut self, frame: &Frame<'_>, enclose: &Enclose) -> Result<()> {
        let subject = self.expand_option(frame, enclose.subject.as_ref())?;
        let names = self.expand_all(frame, &enclose.headers)?;
        let text = self.expand(frame, &enclose.text)?.into_owned();
        self.count_replaced(text.len())?;
        self.enclosures = self.enclosures.saturating_add(1);
        self.within("enclosures", self.enclosures, u64::from(self.limits.versions))?;
        let mut lines = Vec::new();
        let has_subject = subject.is_some();
        let subject = match subject {
            Some(subject) => Some(single_line(&subject)),
            None => {
                let old = self.lines_named("Subject")?;
                self.unfolded(&old)?.into_iter().next()
            }
        };
        lines.extend(subject.map(|value| ("Subject".to_owned(), value)));
        for name in names {
            let is_given = has_subject && name.eq_ignore_ascii_case("Subject");
            if is_given || is_mime_field(name.as_bytes()) {
                continue;
            }
            lines.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
            let old = self.lines_named(&name)?;
            let values = self.unfolded(&old)?;
            lines.extend(values.into_iter().map(|value| (name.to_string(), value)));
        }
        let is_copied =
            |name: &str| lines.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut made = vec![("MIME-Version", "1.0".to_owned())];
        made.push(("Content-Type", "multipart/mixed".to_owned()));
        if !is_copied("Date") {
            made.push(("Date", self.local(self.world.now()).part(DatePart::Std11)));
        }
        if let Some(owner) = self.input.identity.addresses.first().filter(|_| !is_copied("From")) {
            made.push(("From", owner.to_string()));
        }
        let mut header: Vec<Line> = Vec::new();
        for (name, value) in lines {
            let field = HeaderField { name, value };
            let added = AddedField { field, is_first: false, is_locked: false };
            self.count_header(&added)?;
            header.push(Line::Added(added));
        }
        let made = made.into_iter().map(|(name, value)| (name.to_owned(), value));
        header.extend(made.map(|(name, value)| Line::Made(HeaderField { name, value })));
        self.message.enclose(text, header);
        Ok(())
    }

    /// Counts the bytes of a text that is put into the message. Fails if all such texts together
    /// exceed the limit.
    fn count_replaced(&mut self, len: usize) -> Result<()> {
        self.replaced_body = self.replaced_body.saturating_add(len);
        let limit = u64::from(self.limits.replaced_body);
        self.within("bytes of replaced text", self.replaced_body, limit)
    }
}

/// Returns whether a name is that of a MIME field: `MIME-Version`, or one that begins with
/// `Content-`.
fn is_mime_field(name: &[u8]) -> bool {
    let is_content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"Content-"));
    is_content || name.eq_ignore_ascii_case(b"MIME-Version")
}
