//! `body` (RFC 5173).
//!
//! - `:raw` is what follows the header, `:content` the decoded parts of some types, `:text` the
//!   readable text of every text part.
//! - Each part is a value of its own; with `:content` a multipart has two, what stands before its
//!   parts and after them. Parts that a script has replaced have their new content; but `:raw`
//!   shows new content only if the message as a whole was replaced.
//! - A message that ends with its header, without an empty line, has no body: every test is false.
//! - The test sets no match variables.

use std::borrow::Cow;

use super::fuel::FIELD_COST;
use super::matching::Captures;
use super::message::{NodeContent, NodeId, split_entity};
use super::{Frame, Result, Run};
use crate::ir::{BodyTransform, Comparison};
use crate::message::Part;

impl<'a> Run<'a> {
    /// Evaluates `body`. Values are made one by one, until one matches.
    pub(super) fn body(
        &mut self,
        frame: &mut Frame<'_>,
        transform: &BodyTransform,
        comparison: &Comparison,
    ) -> Result<bool> {
        let matcher = self.matcher(frame, comparison)?;
        if !self.has_body(self.seen_message(frame)) {
            return Ok(false);
        }
        let types = match transform {
            BodyTransform::Content(types) => self.expand_all(frame, types)?,
            BodyTransform::Raw | BodyTransform::Text => Vec::new(),
        };
        let nodes = match transform {
            BodyTransform::Raw => vec![self.seen_message(frame)],
            BodyTransform::Content(_) | BodyTransform::Text => {
                self.fuel.bytes(self.message.all().len().saturating_mul(FIELD_COST))?;
                self.message.with_inside(self.seen_message(frame))
            }
        };
        let mut count = 0_usize;
        for node in nodes {
            let values = match transform {
                BodyTransform::Raw => vec![self.raw_body(node)?],
                BodyTransform::Content(_) => self.part_content(node, &types)?,
                BodyTransform::Text => {
                    let text = self.part_text(node)?;
                    text.or_else(|| self.undecoded_text(node)).into_iter().collect()
                }
            };
            for value in values {
                count += 1;
                if !matcher.counts()
                    && self.matches_value(frame, &matcher, &value, Captures::Ignore)?
                {
                    return Ok(true);
                }
            }
        }
        match matcher.counts() {
            true => self.matches_count(&matcher, count),
            false => Ok(false),
        }
    }

    /// Returns whether anything follows the header, even if only an empty line. If not, every
    /// test of the body is false (RFC 5173 §4). What a script has made always has a body.
    fn has_body(&self, node: NodeId) -> bool {
        let part = self.message.received(node).map(|(_, part)| part);
        part.is_none_or(|part| part.header.end < part.body.start || !part.body.is_empty())
    }

    /// Returns what `:raw` compares: the new content if the script has replaced the message, or
    /// else the body as received. For a message that `enclose` has made, this is the body as
    /// received of the message inside it.
    fn raw_body(&mut self, node: NodeId) -> Result<Cow<'a, str>> {
        let view = self.message.view();
        let part = self.message.received(node).map(|(_, part)| part);
        let range = part.or(view.parts().first()).map(|part| part.body.clone());
        let body = range.and_then(|range| view.raw().get(range)).unwrap_or_default();
        let text = match self.message.content(node) {
            NodeContent::Text(text) => Cow::Owned(text),
            NodeContent::Entity(text) => Cow::Owned(split_entity(&text).1.to_owned()),
            NodeContent::Received(_) | NodeContent::Multipart | NodeContent::Message => {
                self.fuel.scanned(body.len())?;
                String::from_utf8_lossy(body)
            }
        };
        Ok(text)
    }

    /// Returns what `:content` compares of a part (RFC 5173 §5.2): nothing if its type is none of
    /// `types`. A multipart has two values, its prologue and its epilogue; a `message/rfc822` has
    /// one, the header of the message in it; another part has its decoded content.
    fn part_content(&mut self, node: NodeId, types: &[Cow<'_, str>]) -> Result<Vec<Cow<'a, str>>> {
        let is_one =
            |main: &str, subtype: &str| types.iter().any(|one| is_type(one, main, subtype));
        let Some((id, part)) = self.message.received(node) else {
            return self.made_content(node, is_one);
        };
        if !is_one(&part.main_type, &part.subtype) {
            return Ok(Vec::new());
        }
        let view = self.message.view();
        if part.is_multipart() {
            let (prologue, epilogue) = self.around_parts(node, part);
            self.fuel.scanned(prologue.len().saturating_add(epilogue.len()))?;
            return Ok(vec![String::from_utf8_lossy(prologue), String::from_utf8_lossy(epilogue)]);
        }
        if part.is_message() {
            let child = self.message.first_child(node);
            let header = child.and_then(|child| self.message.received(child));
            let header = header.map(|(_, part)| part.header.clone());
            let header = header.and_then(|range| view.raw().get(range)).unwrap_or_default();
            self.fuel.scanned(header.len())?;
            return Ok(vec![String::from_utf8_lossy(header)]);
        }
        self.fuel.decoded(part.body.len())?;
        let text = match view.text(id) {
            Some(text) => text,
            None => match view.content(id) {
                Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| {
                    String::from_utf8_lossy(error.as_bytes()).into_owned()
                })),
            },
        };
        Ok(vec![text])
    }

    /// Returns what `:content` compares of a part that the script has made or replaced: its text,
    /// or the content of its MIME entity. A multipart and a `message/rfc822` that `enclose` made
    /// have no value.
    fn made_content(
        &mut self,
        node: NodeId,
        is_one: impl Fn(&str, &str) -> bool,
    ) -> Result<Vec<Cow<'a, str>>> {
        let text = match self.message.content(node) {
            NodeContent::Text(text) if is_one("text", "plain") => text,
            NodeContent::Entity(text) => {
                let (main, subtype) = self.entity_type(&text);
                match is_one(&main, &subtype) {
                    true => split_entity(&text).1.to_owned(),
                    false => return Ok(Vec::new()),
                }
            }
            _ => return Ok(Vec::new()),
        };
        self.fuel.scanned(text.len())?;
        Ok(vec![Cow::Owned(text)])
    }

    /// Returns the main type and the subtype of a MIME entity in lower case, `text` and `plain` if
    /// it names none.
    fn entity_type(&self, text: &str) -> (String, String) {
        let (fields, _) = split_entity(text);
        let is_type = |name: &str| name.eq_ignore_ascii_case("Content-Type");
        let value = fields.iter().find(|(name, _)| is_type(name)).map(|(_, value)| value);
        let view = self.message.view();
        let parsed = value.and_then(|value| view.parse_parameters(value.as_bytes()));
        let parsed = parsed.map(|parsed| parsed.value.to_ascii_lowercase());
        match parsed.as_deref().and_then(|value| value.split_once('/')) {
            Some((main, subtype)) => (main.to_owned(), subtype.to_owned()),
            None => ("text".to_owned(), "plain".to_owned()),
        }
    }

    /// Returns the text of a part whose charset or transfer encoding is not known, as far as it can
    /// be read. `None` if it is no text part as received.
    fn undecoded_text(&self, node: NodeId) -> Option<Cow<'a, str>> {
        let (id, _) = self.message.received(node)?;
        self.message.view().text(id)
    }

    /// Returns the readable text of a part. `None` if it is no text, or if its charset or transfer
    /// encoding is not known.
    pub(super) fn part_text(&mut self, node: NodeId) -> Result<Option<Cow<'a, str>>> {
        if let Some((id, part)) = self.message.received(node) {
            if part.main_type != "text" {
                return Ok(None);
            }
            self.fuel.decoded(part.body.len())?;
            return Ok(self.message.view().plain_text(id));
        }
        let is_text = |main: &str, _: &str| main == "text";
        Ok(self.made_content(node, is_text)?.into_iter().next())
    }

    /// Returns what stands before the first part of a multipart and after its last one, without the
    /// delimiter lines. If the multipart has no parts, its whole body stands before.
    fn around_parts(&self, node: NodeId, part: &Part) -> (&'a [u8], &'a [u8]) {
        let raw = self.message.view().raw();
        let parts = self.message.view().parts();
        let own = self.message.received(node).map(|(id, _)| id);
        let children = parts.iter().filter(|one| one.parent.is_some() && one.parent == own);
        let starts = children.clone().map(|child| child.header.start);
        let ends = children.map(|child| child.body.end);
        let (Some(start), Some(end)) = (starts.min(), ends.max()) else {
            return (raw.get(part.body.clone()).unwrap_or_default(), &[]);
        };
        let before = raw.get(part.body.start..start).unwrap_or_default();
        let before = before.get(..last_delimiter(before)).unwrap_or_default();
        let after = raw.get(end..part.body.end).unwrap_or_default();
        (before, after_delimiter(after))
    }
}

/// Returns where the last line begins that could be a delimiter, since it begins with `--`. The
/// length of the text if there is none.
fn last_delimiter(text: &[u8]) -> usize {
    let mut end = text.len();
    loop {
        let before = text.get(..end).unwrap_or_default();
        let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        if before.get(line..).is_some_and(|line| line.starts_with(b"--")) {
            return line;
        }
        if line == 0 {
            return text.len();
        }
        end = line - 1;
    }
}

/// Returns what follows the first line that begins with `--`, nothing if there is no such line.
fn after_delimiter(text: &[u8]) -> &[u8] {
    let mut rest = text;
    loop {
        let is_delimiter = rest.starts_with(b"--");
        let Some(end) = memchr::memchr(b'\n', rest) else { return &[] };
        rest = rest.get(end + 1..).unwrap_or_default();
        if is_delimiter {
            return rest;
        }
    }
}

/// Returns whether a part has the type that `:content` names: a main type, a whole type, or the
/// empty string, which stands for all (RFC 5173 §5.2).
fn is_type(wanted: &str, main: &str, subtype: &str) -> bool {
    match wanted.split_once('/') {
        None => wanted.is_empty() || wanted.eq_ignore_ascii_case(main),
        Some((wanted_main, wanted_subtype)) => {
            !wanted_main.is_empty()
                && !wanted_subtype.is_empty()
                && wanted_main.eq_ignore_ascii_case(main)
                && wanted_subtype.eq_ignore_ascii_case(subtype)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_whole_or_by_their_first_word() {
        let is_type = |wanted| is_type(wanted, "text", "plain");
        assert!(is_type("") && is_type("Text") && is_type("text/PLAIN"));
        for wanted in ["text/", "/plain", "text/plain/", "text/html", "plain", "te"] {
            assert!(!is_type(wanted), "{wanted}");
        }
    }

    #[test]
    fn delimiters_are_no_part_of_prologue_and_epilogue() {
        let text = b"hello\r\n--b\r\n";
        assert_eq!(&text[..last_delimiter(text)], b"hello\r\n");
        assert_eq!(last_delimiter(b"hello"), 5);
        assert_eq!(last_delimiter(b""), 0);
        assert_eq!(after_delimiter(b"\r\n--b--\r\nbye"), b"bye");
        assert_eq!(after_delimiter(b"\r\n--b--"), b"");
        assert_eq!(after_delimiter(b"bye"), b"");
    }
}
