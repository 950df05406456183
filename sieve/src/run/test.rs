//! Evaluates the tests of a script.

use std::borrow::Cow;

use super::fuel::FLAG_COST;
use super::lists::list_uri;
use super::{Frame, Result, Run};
use crate::flag::FlagSet;
use crate::host::MailboxSelector;
use crate::ir::{Comparison, MatchType, SizeLimit, StringExpr, Test, TestKind, VariableId};

impl Run<'_> {
    /// Evaluates a test. Tests inside it run from left to right, until the result is certain.
    pub(super) fn test(&mut self, frame: &mut Frame<'_>, test: &Test) -> Result<bool> {
        let outer = std::mem::replace(&mut self.span, test.span);
        self.fuel.step()?;
        let result = match &test.kind {
            TestKind::True => true,
            TestKind::False => false,
            TestKind::Not(inner) => !self.nested(|run| run.test(frame, inner))?,
            TestKind::AllOf(tests) => self.nested(|run| run.all_are(frame, tests, true))?,
            // One is true unless all are false.
            TestKind::AnyOf(tests) => !self.nested(|run| run.all_are(frame, tests, false))?,
            kind => self.simple_test(frame, kind)?,
        };
        let place = self.trace.is_some().then(|| self.place());
        if let (Some(trace), Some(place)) = (&mut self.trace, place) {
            trace.test(&place, test, result);
        }
        self.span = outer;
        Ok(result)
    }

    /// Returns whether every test has the result `result`. Stops at the first test with another
    /// result.
    fn all_are(&mut self, frame: &mut Frame<'_>, tests: &[Test], result: bool) -> Result<bool> {
        for test in tests {
            if self.test(frame, test)? != result {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates a test that contains no other test.
    fn simple_test(&mut self, frame: &mut Frame<'_>, kind: &TestKind) -> Result<bool> {
        match kind {
            TestKind::Address(test) => self.address_test(frame, test),
            TestKind::Header(test) => self.header_test(frame, test),
            TestKind::Exists { fields, mime } => self.exists(frame, fields, *mime),
            TestKind::Envelope(test) => self.envelope_test(frame, test),
            TestKind::Size(limit) => Ok(self.size(frame, *limit)),
            TestKind::String { sources, comparison } => self.string(frame, sources, comparison),
            TestKind::HasFlag { variables, comparison } => {
                self.has_flag(frame, variables, comparison)
            }
            TestKind::Body { transform, comparison } => self.body(frame, transform, comparison),
            TestKind::Date(test) => self.date(frame, test),
            TestKind::CurrentDate { zone, part, comparison } => {
                self.current_date(frame, zone.as_ref(), part, comparison)
            }
            TestKind::Environment { item, comparison } => {
                let item = self.expand(frame, item)?.to_ascii_lowercase();
                self.fuel.step()?;
                let value = self.world.environment(&item);
                self.matches_known(frame, comparison, value)
            }
            TestKind::Duplicate(test) => self.duplicate(frame, test),
            TestKind::SpamTest { percent, comparison } => {
                self.spam_test(frame, *percent, comparison)
            }
            TestKind::VirusTest { comparison } => self.virus_test(frame, comparison),
            TestKind::MailboxExists { mailboxes } => {
                self.mailboxes_exist(frame, mailboxes, |name| MailboxSelector::Name(name))
            }
            TestKind::MailboxIdExists { ids } => {
                self.mailboxes_exist(frame, ids, |id| MailboxSelector::Id(id))
            }
            TestKind::SpecialUseExists { mailbox, attributes } => {
                self.special_uses_exist(frame, mailbox.as_ref(), attributes)
            }
            TestKind::Metadata { mailbox, entry, comparison } => {
                self.metadata(frame, Some(mailbox), entry, comparison)
            }
            TestKind::ServerMetadata { entry, comparison } => {
                self.metadata(frame, None, entry, comparison)
            }
            TestKind::MetadataExists { mailbox, entries } => {
                self.metadata_exist(frame, Some(mailbox), entries)
            }
            TestKind::ServerMetadataExists { entries } => self.metadata_exist(frame, None, entries),
            TestKind::ValidNotifyMethod { uris } => self.can_notify(frame, uris),
            TestKind::NotifyMethodCapability { uri, capability, comparison } => {
                self.notify_capability(frame, uri, capability, comparison)
            }
            TestKind::ValidExtList { lists } => {
                for list in lists {
                    let list = self.expand(frame, list)?;
                    self.fuel.step()?;
                    if !self.world.has_list(&list_uri(&list))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            TestKind::IHave { available, .. } => Ok(*available),
            // `test` evaluates these.
            TestKind::True
            | TestKind::False
            | TestKind::Not(_)
            | TestKind::AllOf(_)
            | TestKind::AnyOf(_) => Ok(false),
        }
    }

    /// Compares the size of the message (RFC 5228 §5.9), or of the part that takes the place of the
    /// message for an included script (RFC 6609 §3.5), in each case as received. A part that
    /// `enclose` made was not received: then the size of the message is compared.
    fn size(&self, frame: &Frame<'_>, limit: SizeLimit) -> bool {
        let part = frame.message.and_then(|node| self.message.before_edits(node));
        let size = match part {
            Some(part) => part.body.end.saturating_sub(part.header.start),
            None => self.message.view().raw().len(),
        } as u64;
        match limit {
            SizeLimit::Over(limit) => size > limit,
            SizeLimit::Under(limit) => size < limit,
        }
    }

    /// Evaluates `string` (RFC 5229 §5). With `:count`, empty sources do not count.
    fn string(
        &mut self,
        frame: &mut Frame<'_>,
        sources: &[StringExpr],
        comparison: &Comparison,
    ) -> Result<bool> {
        let sources = self.expand_all(frame, sources)?;
        let counts = matches!(comparison.match_type, MatchType::Count(_));
        let sources = sources.into_iter().filter(|source| !counts || !source.is_empty());
        self.matches_any(frame, comparison, &sources.collect::<Vec<_>>())
    }

    /// Evaluates `hasflag` (RFC 5232 §4). Values and keys, but not those of `:regex`, are split
    /// into words. Words of a variable that are no flags, or repeat one of the same variable, are
    /// left out. Without variables the internal variable is compared.
    fn has_flag(
        &mut self,
        frame: &mut Frame<'_>,
        variables: &[VariableId],
        comparison: &Comparison,
    ) -> Result<bool> {
        let mut flags = Vec::new();
        if variables.is_empty() {
            flags.extend(self.flags.iter().map(|flag| Cow::Owned(flag.to_owned())));
        }
        for variable in variables {
            let text = self.variable(frame, *variable);
            self.fuel.bytes(text.len())?;
            let mut own = FlagSet::new();
            for word in text.split_ascii_whitespace() {
                self.fuel.bytes(own.len().saturating_mul(FLAG_COST))?;
                own.insert(word);
            }
            flags.extend(own.iter().map(|flag| Cow::Owned(flag.to_owned())));
        }
        let mut keys = Vec::new();
        for text in self.expand_all(frame, &comparison.keys)? {
            match comparison.match_type {
                // The blanks of a regular expression separate nothing.
                MatchType::Regex if !text.trim_ascii().is_empty() => keys.push(text),
                _ => {
                    let words = text.split_ascii_whitespace();
                    keys.extend(words.map(|word| Cow::Owned(word.to_owned())));
                }
            }
        }
        let matcher = self.matcher_of(comparison.comparator, comparison.match_type, keys)?;
        self.matches_any_of(frame, &matcher, &flags)
    }
}
