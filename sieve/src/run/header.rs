//! `header` and `exists`, with `:index` (RFC 5260 §6) and `:mime` (RFC 5703 §4).
//!
//! Tests see the header as the script has edited it. Without `:mime` they look at the header of the
//! message, also in `foreverypart`.

use std::borrow::Cow;

use super::fuel::FIELD_COST;
use super::message::NodeId;
use super::{Frame, Result, Run};
use crate::ir::{FieldIndex, HeaderTest, MimeOption, MimeScope, StringExpr};
use crate::message::ParameterisedValue;

impl<'a> Run<'a> {
    /// Returns the values of the fields with these names, each with the index of its name in
    /// `names`. Those of the first name come first, from all parts, then those of the second name,
    /// and so on. With `index` only the value at this place in that order is returned, if there is
    /// one.
    pub(super) fn field_values(
        &mut self,
        frame: &Frame<'_>,
        names: &[Cow<'_, str>],
        index: Option<FieldIndex>,
        scope: Option<MimeScope>,
    ) -> Result<Vec<(usize, Cow<'a, [u8]>)>> {
        let mut values = Vec::new();
        let (node, inside) = self.scope(frame, scope)?;
        for node in std::iter::once(node).chain(inside) {
            let count = self.message.field_count(node);
            self.fuel.bytes(count.saturating_mul(FIELD_COST).saturating_mul(names.len()))?;
            let fuel = &mut self.fuel;
            self.message.each_field_named(node, names, |number, value| {
                fuel.bytes(value.len())?;
                values.push((number, value));
                Ok(())
            })?;
        }
        values.sort_by_key(|(number, _)| *number);
        let Some(FieldIndex { number, from_end }) = index else { return Ok(values) };
        let position = (number as usize).checked_sub(1).and_then(|offset| match from_end {
            true => values.len().checked_sub(1)?.checked_sub(offset),
            false => (offset < values.len()).then_some(offset),
        });
        Ok(position.map(|position| values.swap_remove(position)).into_iter().collect())
    }

    /// Returns the part whose header a test looks at, and the parts in it that the test looks at,
    /// too.
    fn scope(
        &mut self,
        frame: &Frame<'_>,
        scope: Option<MimeScope>,
    ) -> Result<(NodeId, Vec<NodeId>)> {
        let current = self.current_part(frame);
        Ok(match scope {
            None => (self.seen_message(frame), Vec::new()),
            Some(MimeScope::Part) => (current, Vec::new()),
            Some(MimeScope::AnyChild) => {
                let all = self.message.all();
                self.fuel.bytes(all.len().saturating_mul(FIELD_COST))?;
                (current, self.message.inside(current))
            }
        })
    }

    /// Compares the values of fields, or the parts of them that `:type` and its like choose. A
    /// value that is no word with parameters has no such parts.
    pub(super) fn header_test(&mut self, frame: &mut Frame<'_>, test: &HeaderTest) -> Result<bool> {
        let names = self.expand_all(frame, &test.fields)?;
        let parameters = match &test.option {
            MimeOption::Param(parameters) => self.expand_all(frame, parameters)?,
            _ => Vec::new(),
        };
        let view = self.message.view();
        let mut values: Vec<Cow<'a, str>> = Vec::new();
        for (number, value) in self.field_values(frame, &names, test.index, test.mime)? {
            if test.option == MimeOption::Value {
                values.push(self.known.decoded(view, value));
                continue;
            }
            let Some(parsed) = view.parse_parameters(&value) else { continue };
            let name = names.get(number).map(Cow::as_ref).unwrap_or_default();
            if matches!(test.option, MimeOption::Param(_)) {
                let is_named = |name: &str| {
                    parameters.iter().any(|parameter| parameter.eq_ignore_ascii_case(name))
                };
                let named = parsed.parameters.into_iter().filter(|(name, _)| is_named(name));
                values.extend(named.map(|(_, value)| Cow::Owned(value)));
            } else {
                values.push(Cow::Owned(mime_word(&test.option, name, parsed)));
            }
        }
        self.matches_any(frame, &test.comparison, &values)
    }

    /// Returns whether every field exists (RFC 5228 §5.5).
    pub(super) fn exists(
        &mut self,
        frame: &Frame<'_>,
        fields: &[StringExpr],
        mime: Option<MimeScope>,
    ) -> Result<bool> {
        let names = self.expand_all(frame, fields)?;
        let values = self.field_values(frame, &names, None, mime)?;
        let mut found = vec![false; names.len()];
        for (number, _) in values {
            if let Some(found) = found.get_mut(number) {
                *found = true;
            }
        }
        Ok(found.into_iter().all(|found| found))
    }

    /// Returns the value of the first field of a name as text, `None` if there is no such field.
    pub(super) fn first_field(
        &mut self,
        frame: &Frame<'_>,
        name: Cow<'_, str>,
    ) -> Result<Option<Cow<'a, str>>> {
        let first = Some(FieldIndex { number: 1, from_end: false });
        let values = self.field_values(frame, &[name], first, None)?;
        let view = self.message.view();
        Ok(values.into_iter().next().map(|(_, value)| self.known.decoded(view, value)))
    }
}

/// Returns what `:type`, `:subtype` and `:contenttype` compare (RFC 5703 §4.1): the empty string
/// for `:subtype` of Content-Disposition, and for fields other than Content-Type and
/// Content-Disposition.
fn mime_word(option: &MimeOption, name: &str, parsed: ParameterisedValue) -> String {
    let value = parsed.value;
    let is_type = name.eq_ignore_ascii_case("Content-Type");
    let is_disposition = name.eq_ignore_ascii_case("Content-Disposition");
    let (main, subtype) = value.split_once('/').unwrap_or((&value, ""));
    match option {
        MimeOption::Type if is_type => main.trim().to_owned(),
        MimeOption::Subtype if is_type => subtype.trim().to_owned(),
        MimeOption::ContentType if is_type => value,
        MimeOption::Type | MimeOption::ContentType if is_disposition => value,
        _ => String::new(),
    }
}
