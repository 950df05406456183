//! The message as the script has edited it (RFC 5293, RFC 5703).
//!
//! - Nodes are the parts of the message. The first ids are those of the host's parts. Each
//!   `enclose` adds three nodes: the new message, its text, and the `message/rfc822` around the old
//!   message.
//! - A level is a message with a header that can be edited. Level 0 is the message as received;
//!   each `enclose` makes one more around it. Edits go to the last level.
//! - The message is not copied. Edits are recorded, and become [`MessageEdits`] when an action uses
//!   the message.

use std::borrow::Cow;

use super::Result;
use crate::message::{Field, MessageView, Part, PartId};
use crate::plan::{Enclosure, HeaderEdits, HeaderField, MessageEdits, PartReplacement};

/// An index into [`MessageState::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(usize);

/// The message with its edits.
pub(super) struct MessageState<'a> {
    view: &'a dyn MessageView,
    nodes: Vec<Node>,
    /// The nodes that are part of the message now, depth first. The first is the message itself.
    order: Vec<NodeId>,
    /// Never empty. The last one is the outermost message.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    content: NodeContent,
}

#[derive(Debug, Clone)]
pub(super) enum NodeContent {
    /// The content as received.
    Received(PartId),
    /// A text, of `enclose` or `replace`.
    Text(String),
    /// A MIME entity of `replace :mime`.
    Entity(String),
    /// The `multipart/mixed` that `enclose` makes.
    Multipart,
    /// The `message/rfc822` that `enclose` makes.
    Message,
}

/// A header that can be edited, and what else was done to its message.
#[derive(Debug)]
struct Level {
    /// The node of its message.
    root: NodeId,
    /// The fields of its header, in their order.
    lines: Vec<Line>,
    replacements: Vec<PartReplacement>,
    /// The text of `enclose`. Level 0 has none.
    enclosure: Option<String>,
    is_edited: bool,
}

/// A field of a header.
#[derive(Debug, Clone)]
pub(super) enum Line {
    /// A position among the fields as received, from 0.
    Received(u32),
    /// A field that the plan adds.
    Added(AddedField),
    /// A field that the host will write, such as Content-Type. Tests see it; the plan does not have
    /// it.
    Made(HeaderField),
}

/// The name and the value of a field. The value may have folds.
pub(super) struct FieldBytes<'a> {
    pub name: Cow<'a, [u8]>,
    pub value: Cow<'a, [u8]>,
}

#[derive(Debug, Clone)]
pub(super) struct AddedField {
    pub field: HeaderField,
    /// Whether it stands before the fields as received.
    pub is_first: bool,
    /// Whether the script must not remove it (RFC 5703 §5).
    pub is_locked: bool,
}

impl<'a> MessageState<'a> {
    /// Makes the state of a message without edits. If the host names a parent that does not come
    /// before its part, the part has no parent here, so that walks from part to parent end.
    pub(super) fn new(view: &'a dyn MessageView) -> Self {
        let count = view.parts().len().max(1);
        let nodes = (0..count).map(|index| {
            let id = PartId(u32::try_from(index).unwrap_or(u32::MAX));
            let parent = view.parts().get(index).and_then(|part| part.parent);
            let parent = parent.filter(|parent| (parent.0 as usize) < index);
            Node {
                parent: parent.map(|parent| NodeId(parent.0 as usize)),
                content: NodeContent::Received(id),
            }
        });
        let fields = u32::try_from(view.fields(PartId::ROOT).len()).unwrap_or(u32::MAX);
        let level = Level {
            root: NodeId(0),
            lines: (0..fields).map(Line::Received).collect(),
            replacements: Vec::new(),
            enclosure: None,
            is_edited: false,
        };
        Self {
            view,
            nodes: nodes.collect(),
            order: (0..count).map(NodeId).collect(),
            levels: vec![level],
        }
    }

    pub(super) const fn view(&self) -> &'a dyn MessageView {
        self.view
    }

    /// Returns the message itself.
    pub(super) fn root(&self) -> NodeId {
        self.order.first().copied().unwrap_or(NodeId(0))
    }

    /// Returns whether the node is still part of the message: no `replace` has removed it.
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.order.contains(&node)
    }

    /// Returns every part of the message, depth first, the message itself first.
    pub(super) fn all(&self) -> &[NodeId] {
        &self.order
    }

    /// Returns the parts inside a part, depth first.
    pub(super) fn inside(&self, node: NodeId) -> Vec<NodeId> {
        let start = self.order.iter().position(|&one| one == node);
        let rest = start.and_then(|start| self.order.get(start + 1..)).unwrap_or_default();
        rest.iter().copied().take_while(|&one| self.is_inside(one, node)).collect()
    }

    /// Returns a part and the parts inside it, depth first.
    pub(super) fn with_inside(&self, node: NodeId) -> Vec<NodeId> {
        std::iter::once(node).chain(self.inside(node)).collect()
    }

    /// Returns whether a part is inside another one, at any depth.
    fn is_inside(&self, node: NodeId, outer: NodeId) -> bool {
        let mut parent = self.parent(node);
        // This ends, because the parents of a node form no circle.
        while let Some(id) = parent {
            if id == outer {
                return true;
            }
            parent = self.parent(id);
        }
        false
    }

    fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes.get(node.0).and_then(|node| node.parent)
    }

    /// Returns a copy of the content of a part, the empty text if there is no such part.
    pub(super) fn content(&self, node: NodeId) -> NodeContent {
        let content = self.nodes.get(node.0).map(|node| node.content.clone());
        content.unwrap_or(NodeContent::Text(String::new()))
    }

    /// Returns a part as received. `None` if a script has made or replaced it.
    pub(super) fn received(&self, node: NodeId) -> Option<(PartId, &'a Part)> {
        match self.nodes.get(node.0)?.content {
            NodeContent::Received(id) => Some((id, self.view.parts().get(id.0 as usize)?)),
            _ => None,
        }
    }

    /// Returns a part as it was received, also if a script has replaced it since. `None` if
    /// `enclose` has made it.
    pub(super) fn before_edits(&self, node: NodeId) -> Option<&'a Part> {
        // The first nodes are the parts of the host, in the same order.
        self.view.parts().get(node.0)
    }

    /// Returns the first part right inside a part: in a `message/rfc822`, the message in it.
    pub(super) fn first_child(&self, node: NodeId) -> Option<NodeId> {
        self.order.iter().copied().find(|&one| self.parent(one) == Some(node))
    }

    /// Calls a function with each field of a part that has one of these names, in the order of the
    /// fields, until it fails: with the index of the name, and the value as in a message, with
    /// folds.
    pub(super) fn each_field_named(
        &self,
        node: NodeId,
        names: &[Cow<'_, str>],
        mut each: impl FnMut(usize, Cow<'a, [u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut offer = |FieldBytes { name, value }: FieldBytes<'a>| {
            let named = names.iter().enumerate();
            let mut named = named.filter(|(_, one)| name.eq_ignore_ascii_case(one.as_bytes()));
            named.try_for_each(|(number, _)| each(number, value.clone()))
        };
        let raw = self.view.raw();
        // Most fields have names of other lengths, and need not be looked at.
        let received = |field: &Field| {
            let length = field.name.end.saturating_sub(field.name.start);
            names.iter().any(|name| name.len() == length).then(|| field_bytes(raw, field))?
        };
        if let Some(level) = self.levels.iter().find(|level| level.root == node) {
            let fields = self.view.fields(PartId::ROOT);
            let mut lines = level.lines.iter().filter_map(|line| match line {
                Line::Received(index) => fields.get(*index as usize).and_then(received),
                Line::Added(_) | Line::Made(_) => self.line(line),
            });
            return lines.try_for_each(offer);
        }
        let made = |name: &str, value: &str| {
            let [name, value] = [name, value].map(|text| Cow::Owned(text.as_bytes().to_vec()));
            FieldBytes { name, value }
        };
        match self.content(node) {
            NodeContent::Received(id) => {
                self.view.fields(id).iter().filter_map(received).try_for_each(offer)
            }
            NodeContent::Text(_) => offer(made("Content-Type", "text/plain; charset=utf-8")),
            NodeContent::Entity(text) => {
                let (fields, _) = split_entity(&text);
                fields.into_iter().map(|(name, value)| made(name, value)).try_for_each(offer)
            }
            NodeContent::Multipart => offer(made("Content-Type", "multipart/mixed")),
            NodeContent::Message => offer(made("Content-Type", "message/rfc822")),
        }
    }

    /// Returns how many fields [`Self::each_field_named`] looks at, to charge for them: a guess of
    /// 4 for a part that the script has made or replaced.
    pub(super) fn field_count(&self, node: NodeId) -> usize {
        if let Some(level) = self.levels.iter().find(|level| level.root == node) {
            return level.lines.len();
        }
        self.received(node).map_or(4, |(id, _)| self.view.fields(id).len())
    }

    /// Returns the lines of the header that edits change: that of the last level.
    pub(super) fn lines(&self) -> &[Line] {
        self.levels.last().map(|level| level.lines.as_slice()).unwrap_or_default()
    }

    /// Returns the name and the value of a line. `None` for the position of a field that the host
    /// does not have.
    pub(super) fn line(&self, line: &Line) -> Option<FieldBytes<'a>> {
        let of = |field: &HeaderField| {
            let HeaderField { name, value } = field.clone();
            let [name, value] = [name, value].map(|text| Cow::Owned(text.into_bytes()));
            FieldBytes { name, value }
        };
        match line {
            // Level 0 alone has such lines.
            Line::Received(index) => {
                let field = self.view.fields(PartId::ROOT).get(*index as usize)?;
                field_bytes(self.view.raw(), field)
            }
            Line::Added(added) => Some(of(&added.field)),
            Line::Made(field) => Some(of(field)),
        }
    }

    /// Adds a field to the header, as its first or its last one.
    pub(super) fn add_field(&mut self, added: AddedField) {
        let Some(level) = self.levels.last_mut() else { return };
        level.is_edited = true;
        match added.is_first {
            true => level.lines.insert(0, Line::Added(added)),
            false => level.lines.push(Line::Added(added)),
        }
    }

    /// Removes the lines of the header for which a function returns true. The function is called
    /// with the index of each line, in order.
    pub(super) fn remove_lines(&mut self, mut is_removed: impl FnMut(usize) -> bool) {
        let Some(level) = self.levels.last_mut() else { return };
        let before = level.lines.len();
        let mut index = 0;
        level.lines.retain(|_| {
            index += 1;
            !is_removed(index - 1)
        });
        level.is_edited |= level.lines.len() != before;
    }

    /// Returns whether a part can be replaced: nothing was enclosed yet, or it is the outermost
    /// message.
    pub(super) fn is_editable(&self, node: NodeId) -> bool {
        self.levels.len() == 1 || node == self.root()
    }

    /// Gives a part new content. The parts inside it are gone. If the part is the message itself,
    /// the caller removes the old MIME fields of the header before.
    pub(super) fn replace(&mut self, node: NodeId, mime: bool, text: String) {
        let inside = self.inside(node);
        self.order.retain(|one| !inside.contains(one));
        // In the plan part 0 is the message itself, also one that `enclose` has made.
        let part = if node == self.root() { 0 } else { node.0 };
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        // The MIME fields that the host will write into the header of the message.
        let made = match (node == self.root(), mime) {
            (false, _) => Vec::new(),
            (true, false) => vec![("Content-Type", "text/plain; charset=utf-8")],
            (true, true) => split_entity(&text).0,
        };
        let made = made.into_iter().map(|(name, value)| {
            Line::Made(HeaderField { name: name.to_owned(), value: value.trim().to_owned() })
        });
        if let Some(level) = self.levels.last_mut() {
            level.lines.extend(made);
            level.is_edited = true;
            let gone = |one: u32| inside.contains(&NodeId(one as usize)) || one == part;
            level.replacements.retain(|one| !gone(one.part));
            level.replacements.push(PartReplacement { part, mime, content: text.clone() });
        }
        if let Some(node) = self.nodes.get_mut(node.0) {
            node.content = if mime { NodeContent::Entity(text) } else { NodeContent::Text(text) };
        }
    }

    /// Makes the message an attachment of a new message. `text` is the text of the new message,
    /// `lines` are the fields of its header.
    pub(super) fn enclose(&mut self, text: String, lines: Vec<Line>) {
        let old_root = self.root();
        let first = self.nodes.len();
        let [root, note, message] = [first, first + 1, first + 2].map(NodeId);
        self.nodes.push(Node { parent: None, content: NodeContent::Multipart });
        self.nodes.push(Node { parent: Some(root), content: NodeContent::Text(text.clone()) });
        self.nodes.push(Node { parent: Some(root), content: NodeContent::Message });
        if let Some(node) = self.nodes.get_mut(old_root.0) {
            node.parent = Some(message);
        }
        self.order.splice(0..0, [root, note, message]);
        self.levels.push(Level {
            root,
            lines,
            replacements: Vec::new(),
            enclosure: Some(text),
            is_edited: true,
        });
    }

    /// Returns whether anything was done to the message.
    pub(super) fn is_edited(&self) -> bool {
        self.levels.iter().any(|level| level.is_edited)
    }

    /// Returns what was done to the message, `None` if it is as received. Without enclosures, as
    /// `redirect` needs it (RFC 5703 §6), these are the edits of level 0.
    pub(super) fn edits(&self, with_enclosures: bool) -> Option<MessageEdits> {
        let levels = match with_enclosures {
            true => self.levels.as_slice(),
            false => self.levels.get(..1).unwrap_or_default(),
        };
        if !levels.iter().any(|level| level.is_edited) {
            return None;
        }
        // The text and the edits of the level around the current one. The outermost comes first.
        let mut edits: Option<(String, MessageEdits)> = None;
        for level in levels.iter().rev() {
            let enclosure = edits.take().map(|(text, then)| Box::new(Enclosure { text, then }));
            let current = MessageEdits {
                parts: level.replacements.clone(),
                header: self.header_edits(level),
                enclosure,
            };
            edits = Some((level.enclosure.clone().unwrap_or_default(), current));
        }
        edits.map(|(_, edits)| edits).filter(|edits| *edits != MessageEdits::default())
    }

    /// Returns the edits of the header of a level. Deleted are the fields as received that no line
    /// refers to any more; only level 0 has such fields.
    fn header_edits(&self, level: &Level) -> HeaderEdits {
        let mut edits = HeaderEdits::default();
        let received = match level.enclosure {
            Some(_) => 0,
            None => self.view.fields(PartId::ROOT).len(),
        };
        // The position of the next field as received that is not looked at yet.
        let mut next = 0;
        for line in &level.lines {
            match line {
                Line::Received(index) => {
                    edits.deleted.extend(next..*index);
                    next = index.saturating_add(1);
                }
                Line::Added(AddedField { field, is_first: true, .. }) => {
                    edits.prepended.push(field.clone());
                }
                Line::Added(AddedField { field, .. }) => edits.appended.push(field.clone()),
                Line::Made(_) => {}
            }
        }
        edits.deleted.extend(next..u32::try_from(received).unwrap_or(u32::MAX));
        edits
    }
}

/// Returns the name and the value of a field as received, `None` if its places are not in the
/// message.
fn field_bytes<'a>(raw: &'a [u8], field: &Field) -> Option<FieldBytes<'a>> {
    let bytes = |range: &std::ops::Range<usize>| Some(Cow::Borrowed(raw.get(range.clone())?));
    Some(FieldBytes { name: bytes(&field.name)?, value: bytes(&field.value)? })
}

/// Splits a MIME entity at its first empty line into fields and content. The values of fields may
/// have folds. Lines before the empty line that are no fields are left out. Without an empty line
/// there is no content.
pub(super) fn split_entity(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = split_field(rest);
        let line = field.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return (fields, after);
        }
        rest = after;
        if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim_end_matches([' ', '\t']), value));
        }
    }
}

/// Splits a text after its first line and the lines that continue it. An empty first line is not
/// continued.
fn split_field(text: &str) -> (&str, &str) {
    let mut end = 0;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let line = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let is_empty = rest.get(..line).is_some_and(|line| line.trim_end().is_empty());
        end += line;
        let next = text.get(end..).unwrap_or_default();
        let is_first_line = end == line;
        if (is_empty && is_first_line) || !next.starts_with([' ', '\t']) {
            return text.split_at_checked(end).unwrap_or((text, ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_split_into_fields_and_content() {
        let text = "Content-Type: text/plain;\r\n charset=utf-8\r\nX : y\n\n Hello\n";
        let (fields, content) = split_entity(text);
        assert_eq!(fields, [("Content-Type", " text/plain;\r\n charset=utf-8"), ("X", " y")]);
        assert_eq!(content, " Hello\n");
        assert_eq!(split_entity("\r\nHello"), (vec![], "Hello"));
        assert_eq!(split_entity(""), (vec![], ""));
        assert_eq!(split_entity("A: b"), (vec![("A", " b")], ""));
    }
}
