//! `notify` and its tests (RFC 5435).

use super::{Frame, Result, Run};
use crate::ir::{Comparison, Importance, Notify, StringExpr, notify_option};
use crate::outcome::RuntimeErrorKind;
use crate::plan::{Action, NotifyIntent};

impl Run<'_> {
    /// Adds a notification, which is compatible with every other action (RFC 5435 §7). One that is
    /// equal to an earlier one is not added. A `:from` that is no mailbox and options without the
    /// form `name=value` are left out.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::BadNotifyMethod`] if the host cannot notify by the URI; those of the
    /// importance, of [`Self::fcc`] and of limits.
    pub(super) fn notify(&mut self, frame: &Frame<'_>, notify: &Notify) -> Result<()> {
        let method = self.expand(frame, &notify.method)?.into_owned();
        self.fuel.step()?;
        if !self.world.can_notify(&method) {
            return Err(RuntimeErrorKind::BadNotifyMethod(method));
        }
        let from = match self.expand_option(frame, notify.from.as_ref())? {
            Some(from) => self.valid_mailbox(&from)?,
            None => None,
        };
        let importance = match &notify.importance {
            Some(word) => self.keyword(frame, word, Importance::parse, "importance")?,
            None => Importance::default(),
        };
        let options = self.expand_all(frame, &notify.options)?;
        let options = options.iter().filter_map(|option| notify_option(option));
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let message = self.expand_option(frame, notify.message.as_ref())?;
        let fcc = self.fcc(frame, notify.fcc.as_ref())?;
        let with_enclosures = false;
        let version = self.uncounted_version(with_enclosures)?;
        let intent = NotifyIntent {
            method,
            from,
            importance,
            options,
            message: message.map(Into::into),
            fcc,
            version,
        };
        let action = Action::Notify(Box::new(intent));
        if self.decisions.actions.contains(&action) {
            return Ok(());
        }
        self.push_action(action)?;
        self.count_sent()
    }

    /// Evaluates `valid_notify_method` (RFC 5435 §4): whether the host can notify by every URI.
    pub(super) fn can_notify(&mut self, frame: &Frame<'_>, uris: &[StringExpr]) -> Result<bool> {
        for uri in uris {
            let uri = self.expand(frame, uri)?;
            self.fuel.step()?;
            if !self.world.can_notify(&uri) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates `notify_method_capability` (RFC 5435 §5): false if the host cannot notify by the
    /// URI, or does not know the capability. For `fcc` a scheme with its colon is enough (RFC 8580
    /// §6.1).
    pub(super) fn notify_capability(
        &mut self,
        frame: &mut Frame<'_>,
        uri: &StringExpr,
        capability: &StringExpr,
        comparison: &Comparison,
    ) -> Result<bool> {
        let uri = self.expand(frame, uri)?;
        let capability = self.expand(frame, capability)?.to_ascii_lowercase();
        self.fuel.step()?;
        let is_known = match uri.strip_suffix(':').filter(|_| capability == "fcc") {
            Some(scheme) => self.world.has_notify_scheme(&scheme.to_ascii_lowercase()),
            None => self.world.can_notify(&uri),
        };
        if !is_known {
            return Ok(false);
        }
        let value = match capability.as_str() {
            // The engine answers itself: every notification can be copied (RFC 8580 §6.1).
            "fcc" => Some("yes".to_owned()),
            _ => self.world.notify_capability(&uri, &capability),
        };
        self.matches_known(frame, comparison, value)
    }
}
