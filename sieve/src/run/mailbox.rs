//! Mailboxes: targets of `fileinto` and `:fcc`, and tests of their existence and metadata (RFC 5228
//! §4.1, RFC 5490, RFC 8579, RFC 9042).
//!
//! A message is never lost for want of a mailbox: the Inbox takes its place, with a warning.

use super::{Frame, Result, Run};
use crate::host::{MailboxRef, MailboxSelector};
use crate::ir::{Comparison, Fcc, MailboxArgument, StringExpr};
use crate::outcome::{RuntimeErrorKind, WarningKind};
use crate::plan::{FccIntent, Target};

/// The most bytes of a name of a mailbox.
const MAX_NAME_BYTES: usize = 1024;

impl Run<'_> {
    /// Finds the mailbox that a command names: by id, then by special use, then by name.
    ///
    /// - An id of no mailbox, or of one that accepts no mail, is passed over.
    /// - If the mailbox with the special use or with the name accepts no mail, the Inbox takes its
    ///   place, with a warning.
    /// - If there is none at all, the mailbox is created with `:create`. Without it the Inbox takes
    ///   its place, with a warning.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::BadMailboxName`] if the name cannot be that of a mailbox, even if an id
    /// is given; [`RuntimeErrorKind::Host`] if the host cannot answer; the errors of limits.
    pub(super) fn mailbox_target(
        &mut self,
        frame: &Frame<'_>,
        argument: &MailboxArgument,
    ) -> Result<Target> {
        let name = self.expand(frame, &argument.name)?;
        let id = self.expand_option(frame, argument.id.as_ref())?;
        let special_use = self.expand_option(frame, argument.special_use.as_ref())?;
        if !is_mailbox_name(&name) {
            return Err(RuntimeErrorKind::BadMailboxName(name.into_owned()));
        }
        if let Some(id) = &id {
            let mailbox = self.find_mailbox(MailboxSelector::Id(id))?;
            if let Some(mailbox) = mailbox.filter(|one| one.accepts_mail) {
                return Ok(target_of(mailbox));
            }
        }
        if let Some(mailbox) = self.mailbox_of_use(special_use.as_deref(), &name)? {
            if mailbox.accepts_mail {
                return Ok(target_of(mailbox));
            }
            self.warn(WarningKind::MailboxRefused { name: mailbox.name });
            return Ok(Target::Inbox);
        }
        if name.eq_ignore_ascii_case("INBOX") {
            return Ok(Target::Inbox);
        }
        let found = self.find_mailbox(MailboxSelector::Name(&name))?;
        let name = name.into_owned();
        let warning = match found {
            Some(mailbox) if mailbox.accepts_mail => return Ok(target_of(mailbox)),
            Some(_) => WarningKind::MailboxRefused { name },
            None if argument.create => {
                return Ok(Target::Create { name, special_use: special_use.map(Into::into) });
            }
            None => WarningKind::MailboxNotFound { name },
        };
        self.warn(warning);
        Ok(Target::Inbox)
    }

    /// Finds the mailbox with a special use: the one with the name if it has this use, or else the
    /// one that the host chooses. It is returned even if it accepts no mail: then the mailbox with
    /// the name is no substitute (RFC 8579 §4).
    fn mailbox_of_use(
        &mut self,
        special_use: Option<&str>,
        name: &str,
    ) -> Result<Option<MailboxRef>> {
        let Some(special_use) = special_use else { return Ok(None) };
        let named = self.find_mailbox(MailboxSelector::Name(name))?;
        match named.filter(|mailbox| has_use(mailbox, special_use)) {
            Some(mailbox) => Ok(Some(mailbox)),
            None => self.find_mailbox(MailboxSelector::SpecialUse(special_use)),
        }
    }

    /// Returns where a copy of a sent message goes (RFC 8580), `None` without `:fcc`. Without
    /// `:flags` the copy has no flags: those of the internal variable are not for it (RFC 5232 §6).
    pub(super) fn fcc(
        &mut self,
        frame: &Frame<'_>,
        fcc: Option<&Fcc>,
    ) -> Result<Option<FccIntent>> {
        let Some(fcc) = fcc else { return Ok(None) };
        let to = self.mailbox_target(frame, &fcc.to)?;
        let flags = self.flag_set(frame, fcc.flags.as_deref().unwrap_or_default())?;
        Ok(Some(FccIntent { to, flags }))
    }

    fn find_mailbox(&mut self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>> {
        self.fuel.step()?;
        Ok(self.world.mailbox(selector)?)
    }

    /// Evaluates `mailboxexists` and `mailboxidexists`: whether every mailbox exists and accepts
    /// mail. `selector` says what the texts are, names or ids.
    pub(super) fn mailboxes_exist(
        &mut self,
        frame: &Frame<'_>,
        texts: &[StringExpr],
        selector: fn(&str) -> MailboxSelector<'_>,
    ) -> Result<bool> {
        for text in texts {
            let text = self.expand(frame, text)?;
            if !self.find_mailbox(selector(&text))?.is_some_and(|mailbox| mailbox.accepts_mail) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates `specialuse_exists` (RFC 8579 §3): with a mailbox, whether it accepts mail and has
    /// every attribute; without one, whether for each attribute a mailbox has it and accepts mail.
    pub(super) fn special_uses_exist(
        &mut self,
        frame: &Frame<'_>,
        mailbox: Option<&StringExpr>,
        attributes: &[StringExpr],
    ) -> Result<bool> {
        let attributes = self.expand_all(frame, attributes)?;
        let Some(name) = self.expand_option(frame, mailbox)? else {
            for attribute in &attributes {
                let found = self.find_mailbox(MailboxSelector::SpecialUse(attribute))?;
                if !found.is_some_and(|mailbox| mailbox.accepts_mail) {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        let Some(mailbox) = self.find_mailbox(MailboxSelector::Name(&name))? else {
            return Ok(false);
        };
        Ok(mailbox.accepts_mail && attributes.iter().all(|one| has_use(&mailbox, one)))
    }

    /// Evaluates `metadata` and `servermetadata`. Without a mailbox the entry is the server's.
    pub(super) fn metadata(
        &mut self,
        frame: &mut Frame<'_>,
        mailbox: Option<&StringExpr>,
        entry: &StringExpr,
        comparison: &Comparison,
    ) -> Result<bool> {
        let entry = self.expand(frame, entry)?;
        let value = match self.metadata_owner(frame, mailbox)? {
            Some(owner) => self.metadata_entry(owner.as_ref(), &entry)?,
            None => None,
        };
        self.matches_known(frame, comparison, value)
    }

    /// Evaluates `metadataexists` and `servermetadataexists`: whether every entry exists.
    pub(super) fn metadata_exist(
        &mut self,
        frame: &Frame<'_>,
        mailbox: Option<&StringExpr>,
        entries: &[StringExpr],
    ) -> Result<bool> {
        let Some(owner) = self.metadata_owner(frame, mailbox)? else { return Ok(false) };
        for entry in entries {
            let entry = self.expand(frame, entry)?;
            if self.metadata_entry(owner.as_ref(), &entry)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whose metadata a test is about: `Some(Some(_))` is the mailbox that it names,
    /// `Some(None)` the server, if it names no mailbox. `None` if the mailbox does not exist.
    fn metadata_owner(
        &mut self,
        frame: &Frame<'_>,
        mailbox: Option<&StringExpr>,
    ) -> Result<Option<Option<MailboxRef>>> {
        match self.expand_option(frame, mailbox)? {
            Some(name) => Ok(self.find_mailbox(MailboxSelector::Name(&name))?.map(Some)),
            None => Ok(Some(None)),
        }
    }

    fn metadata_entry(
        &mut self,
        owner: Option<&MailboxRef>,
        entry: &str,
    ) -> Result<Option<String>> {
        self.fuel.step()?;
        Ok(self.world.metadata(owner, entry)?)
    }
}

fn has_use(mailbox: &MailboxRef, attribute: &str) -> bool {
    mailbox.special_uses.iter().any(|own| own.eq_ignore_ascii_case(attribute))
}

fn target_of(mailbox: MailboxRef) -> Target {
    match mailbox.is_inbox {
        true => Target::Inbox,
        false => Target::Mailbox { id: mailbox.id, name: mailbox.name },
    }
}

fn is_mailbox_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control)
}
