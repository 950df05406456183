//! Commands that edit the message: `editheader` (RFC 5293), `replace` and `enclose` (RFC 5703).

use super::Checker;
use super::bind::Bound;
use super::strings::{Text, expr, exprs};
use super::values::is_address_list;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{CommandKind, DeleteHeader, Enclose, Replace};
use crate::options::PROTECTED_FIELDS;
use crate::vocabulary::{Group, Tag};

/// Fields that senders sign as a rule (RFC 6376 §5.4.1), and the field of the signature itself.
const SIGNED_FIELDS: [&str; 12] = [
    "from",
    "reply-to",
    "subject",
    "date",
    "to",
    "cc",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "dkim-signature",
];

impl Checker<'_> {
    /// Checks `addheader` (RFC 5293 §4).
    pub(super) fn add_header(&mut self, bound: &Bound<'_>) -> CommandKind {
        let name = self.argument(bound.positional(0));
        let value = self.argument(bound.positional(1));
        if let Some(name) = &name {
            self.check_edited_field(name);
        }
        if let Some(value) = &value {
            self.check_line(value, "the value of a header field");
        }
        CommandKind::AddHeader { last: bound.has(Tag::Last), name: expr(name), value: expr(value) }
    }

    /// Checks `deleteheader` (RFC 5293 §5). It has a comparison only if values are given.
    pub(super) fn delete_header(&mut self, bound: &Bound<'_>) -> CommandKind {
        let name = self.argument(bound.positional(0));
        if let Some(name) = &name {
            self.check_edited_field(name);
        }
        let index = self.field_index(bound);
        let has_values = bound.positional(1).is_some();
        let comparison = self.comparison_with(bound, 1);
        // A damaged command may have lost its values.
        if let Some(tag) = bound.of_group(Group::MatchType).or_else(|| bound.tag(Tag::Comparator))
            && !has_values
            && !bound.node.is_damaged
        {
            let message = format!("`{}` has no effect without values", tag.tag.name());
            self.complain(Code::NoEffect, tag.span, message);
        }
        CommandKind::DeleteHeader(Box::new(DeleteHeader {
            name: expr(name),
            index,
            comparison: has_values.then_some(comparison),
        }))
    }

    /// Checks the name of a field that a command adds or deletes.
    fn check_edited_field(&mut self, name: &Text) {
        self.check_field_name(name);
        let Some(value) = name.constant() else { return };
        let site = self.options.protected_fields.iter().map(String::as_str);
        let is_protected =
            PROTECTED_FIELDS.into_iter().chain(site).any(|field| field.eq_ignore_ascii_case(value));
        if is_protected {
            let message = format!("the field `{value}` must not be edited: this has no effect");
            self.complain(Code::ProtectedHeader, name.span(), message);
        } else if SIGNED_FIELDS.iter().any(|field| field.eq_ignore_ascii_case(value)) {
            self.note_edit(name, format!("an edit of `{value}` breaks the sender's signature"));
        }
    }

    /// Notes an edit that breaks a signature. The warning is given at the end of the check, if the
    /// script redirects.
    fn note_edit(&mut self, text: &Text, message: String) {
        if self.muted == 0 {
            self.edits.push((text.span(), message));
        }
    }

    /// Checks `replace` (RFC 5703 §5).
    pub(super) fn replace(&mut self, bound: &Bound<'_>) -> CommandKind {
        let mime = bound.has(Tag::Mime);
        let (subject, from) = (bound.tag(Tag::Subject), bound.tag(Tag::From));
        for tag in [subject, from].into_iter().flatten() {
            let name = tag.tag.name();
            if mime {
                let message = format!("`:mime` and `{name}` exclude each other");
                self.complain(Code::ConflictingTags, tag.span, message);
            } else if self.loops.len() > 1 {
                // Only the outermost loop comes to the message itself, as its first part.
                let message = format!("`{name}` has no effect where a part is replaced");
                self.complain(Code::NoEffect, tag.span, message);
            }
        }
        let subject = self.argument(bound.value(Tag::Subject));
        if let Some(subject) = &subject {
            self.check_line(subject, "the subject");
        }
        let from = self.argument(bound.value(Tag::From));
        if let Some(from) = &from {
            self.check_text(from, Code::BadAddress, "list of email addresses", is_address_list);
        }
        let replacement = self.argument(bound.positional(0));
        if let Some(replacement) = &replacement {
            if mime {
                self.check_mime_entity(replacement);
            }
            let message = "replaced text breaks the sender's signature".to_owned();
            self.note_edit(replacement, message);
        }
        CommandKind::Replace(Box::new(Replace {
            mime,
            subject: subject.map(|text| text.expr),
            from: from.map(|text| text.expr),
            replacement: expr(replacement),
        }))
    }

    /// Checks `enclose` (RFC 5703 §6).
    pub(super) fn enclose(&mut self, bound: &Bound<'_>) -> CommandKind {
        let subject = self.argument(bound.value(Tag::Subject));
        if let Some(subject) = &subject {
            self.check_line(subject, "the subject");
        }
        let tokens = bound.value(Tag::Headers).map_or(&[][..], |value| value.strings());
        let headers = self.texts(tokens);
        for text in &headers {
            self.check_enclosed_field(text);
        }
        let text = self.argument(bound.positional(0));
        CommandKind::Enclose(Box::new(Enclose {
            subject: subject.map(|text| text.expr),
            headers: exprs(headers),
            text: expr(text),
        }))
    }

    /// Checks a name of `:headers`.
    fn check_enclosed_field(&mut self, text: &Text) {
        let Some(value) = text.constant() else { return };
        if let Some((name, _)) = value.split_once(':') {
            let name = super::excerpt(name);
            let message = "`:headers` takes names of fields, and here is a value too";
            let diagnostic = Diagnostic::new(Code::BadHeaderName, text.span(), message);
            self.report(diagnostic.with_help(format!("write `{name}`")));
            return;
        }
        self.check_field_name(text);
    }
}
