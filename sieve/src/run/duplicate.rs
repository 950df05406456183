//! `duplicate` (RFC 7352).
//!
//! Only the records of earlier runs count, not those of this one. New records are part of the plan,
//! so that a run that fails leaves none.

use super::redirect::after;
use super::{Frame, Result, Run};
use std::borrow::Cow;

use crate::ir::{DuplicateId, DuplicateTest};
use crate::plan::DupKey;

impl Run<'_> {
    /// Evaluates `duplicate`. It is false, and nothing is recorded, if the field does not exist or
    /// is empty, and with `:seconds 0` (RFC 7352 §3.3). A duplicate is recorded anew only with
    /// `:last`.
    pub(super) fn duplicate(&mut self, frame: &Frame<'_>, test: &DuplicateTest) -> Result<bool> {
        let handle = self.expand_option(frame, test.handle.as_ref())?;
        let value = match &test.id {
            DuplicateId::Value(value) => self.expand(frame, value)?,
            DuplicateId::Field(name) => {
                let name = self.expand(frame, name)?;
                let value = self.first_field(frame, name)?.unwrap_or_default();
                if value.trim().is_empty() {
                    return Ok(false);
                }
                Cow::Owned(value.trim().to_owned())
            }
        };
        if test.seconds == Some(0) {
            return Ok(false);
        }
        self.fuel.bytes(value.len())?;
        let key = DupKey::new(handle.as_deref(), &value);
        self.fuel.step()?;
        let is_seen = self.world.duplicate_seen(&key)?;
        if !is_seen || test.last {
            let seconds = self.world.duplicate_seconds(test.seconds);
            self.mark_duplicate(key, after(self.world.now(), seconds))?;
        }
        Ok(is_seen)
    }
}
