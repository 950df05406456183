//! `addheader` and `deleteheader` (RFC 5293).
//!
//! - Later tests and actions see the header as edited.
//! - A command that names a protected field is ignored, with a warning.
//! - `deleteheader` leaves the fields that `replace` has kept as Original-Subject or Original-From,
//!   and those that the host makes, with a warning. It deletes other fields of the same name.

use super::fuel::FIELD_COST;
use super::matching::Captures;
use super::message::{AddedField, Line};
use super::strings::single_line;
use super::{Frame, Result, Run};
use crate::ir::{DeleteHeader, FieldIndex, StringExpr};
use crate::options::PROTECTED_FIELDS;
use crate::outcome::{RuntimeErrorKind, WarningKind};
use crate::plan::HeaderField;

impl Run<'_> {
    /// Runs `addheader`, as the last field of the header if `last`, or else as the first.
    pub(super) fn add_header(
        &mut self,
        frame: &Frame<'_>,
        last: bool,
        name: &StringExpr,
        value: &StringExpr,
    ) -> Result<()> {
        let Some(name) = self.editable_name(frame, name)? else { return Ok(()) };
        let value = single_line(&self.expand(frame, value)?);
        self.add_line(AddedField {
            field: HeaderField { name, value },
            is_first: !last,
            is_locked: false,
        })
    }

    /// Adds a field. Fails if the fields that were added so far exceed the limit of bytes.
    pub(super) fn add_line(&mut self, added: AddedField) -> Result<()> {
        self.count_header(&added)?;
        self.message.add_field(added);
        Ok(())
    }

    /// Counts the bytes of a field that is added, without adding it. Fails as [`Self::add_line`]
    /// does.
    pub(super) fn count_header(&mut self, added: &AddedField) -> Result<()> {
        let HeaderField { name, value } = &added.field;
        // The colon, the blank after it, and the line end.
        let len = name.len().saturating_add(value.len()).saturating_add(4);
        self.added_header = self.added_header.saturating_add(len);
        let limit = u64::from(self.limits.added_header);
        self.within("bytes of added header fields", self.added_header, limit)?;
        self.fuel.bytes(len.saturating_add(self.message.lines().len()))
    }

    /// Runs `deleteheader`. With `:index` only the field at the index is compared and deleted.
    pub(super) fn delete_header(
        &mut self,
        frame: &mut Frame<'_>,
        delete: &DeleteHeader,
    ) -> Result<()> {
        let Some(name) = self.editable_name(frame, &delete.name)? else { return Ok(()) };
        let named = self.lines_named(&name)?;
        let chosen = match delete.index {
            None => named,
            Some(FieldIndex { number, from_end }) => {
                let offset = (number as usize).checked_sub(1);
                let line = offset.and_then(|offset| match from_end {
                    true => named.iter().nth_back(offset).copied(),
                    false => named.get(offset).copied(),
                });
                line.into_iter().collect()
            }
        };
        let mut removed = Vec::new();
        match &delete.comparison {
            None => removed = chosen,
            Some(comparison) => {
                let matcher = self.matcher(frame, comparison)?;
                if matcher.counts() {
                    if self.matches_count(&matcher, chosen.len())? {
                        removed = chosen;
                    }
                } else {
                    let view = self.message.view();
                    for index in chosen {
                        let line = self.message.lines().get(index);
                        let line = line.and_then(|line| self.message.line(line));
                        let Some(field) = line else { continue };
                        self.fuel.bytes(field.value.len())?;
                        let value = self.known.decoded(view, field.value);
                        if self.matches_value(frame, &matcher, &value, Captures::Ignore)? {
                            removed.push(index);
                        }
                    }
                }
            }
        }
        let count = removed.len();
        let is_fixed = |index: &usize| match self.message.lines().get(*index) {
            Some(Line::Added(added)) => added.is_locked,
            Some(Line::Made(_)) => true,
            Some(Line::Received(_)) | None => false,
        };
        removed.retain(|index| !is_fixed(index));
        if removed.len() < count {
            self.warn(WarningKind::FieldProtected { name });
        }
        self.remove_lines(removed);
        Ok(())
    }

    /// Removes the lines of the header with these indices, which must ascend.
    pub(super) fn remove_lines(&mut self, indices: Vec<usize>) {
        let mut removed = indices.into_iter().peekable();
        self.message.remove_lines(|index| removed.next_if_eq(&index).is_some());
    }

    /// Returns the indices of the lines of the header that are fields of a name.
    pub(super) fn lines_named(&mut self, name: &str) -> Result<Vec<usize>> {
        self.lines_where(|other| other.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Returns the indices of the lines whose names satisfy a condition, ascending.
    pub(super) fn lines_where(&mut self, is_one: impl Fn(&[u8]) -> bool) -> Result<Vec<usize>> {
        self.fuel.bytes(self.message.lines().len().saturating_mul(FIELD_COST))?;
        let named =
            self.message.lines().iter().enumerate().filter(|(_, line)| {
                self.message.line(line).is_some_and(|field| is_one(&field.name))
            });
        Ok(named.map(|(index, _)| index).collect())
    }

    /// Expands the name of a field that a command edits. `None` if the field is protected, with a
    /// warning.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::BadFieldName`] if it is no name of a field; the errors of limits.
    fn editable_name(&mut self, frame: &Frame<'_>, name: &StringExpr) -> Result<Option<String>> {
        let name = self.expand(frame, name)?.into_owned();
        if !is_field_name(&name) {
            return Err(RuntimeErrorKind::BadFieldName { name });
        }
        let is_protected = PROTECTED_FIELDS.iter().any(|one| one.eq_ignore_ascii_case(&name));
        if is_protected || self.world.is_protected_field(&name) {
            self.warn(WarningKind::FieldProtected { name });
            return Ok(None);
        }
        Ok(Some(name))
    }
}

/// Returns whether a text can be the name of a field (RFC 5322 §2.2).
fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}
