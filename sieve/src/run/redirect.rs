//! `redirect` (RFC 5228 §4.2) with its parameters (RFC 6009) and lists (RFC 6134).
//!
//! - A message with more `Received` fields than [`RunLimits::received`](crate::RunLimits) has
//!   probably gone round in a loop: it is not sent but kept, with a warning.
//! - A message is sent to an address or a list once. A second redirect to it adds no action, but a
//!   warning.
//! - The message is sent without what `enclose` made of it (RFC 5703 §6).

use jiff::{SignedDuration, Timestamp};

use super::decisions::Kind;
use super::lists::list_uri;
use super::{Frame, Result, Run};
use crate::address::AddressSpec;
use crate::ir::{Deadline, DeliverBy, DeliverByMode, DsnNotify, DsnReturn, Redirect, RedirectTo};
use crate::message::PartId;
use crate::outcome::{RuntimeErrorKind, WarningKind};
use crate::plan::{Action, DeliverByIntent, RedirectIntent, RedirectTarget};

impl Run<'_> {
    /// Runs `redirect`.
    ///
    /// # Errors
    /// - [`RuntimeErrorKind::BadAddress`] if the text is no address, or if the host cannot send to
    ///   it.
    /// - [`RuntimeErrorKind::UnknownWord`] if the host has no such list, or if a parameter has no
    ///   meaning.
    /// - [`RuntimeErrorKind::Host`] if the host cannot answer.
    /// - The errors of [`Self::take`] and of limits.
    pub(super) fn redirect(&mut self, frame: &Frame<'_>, redirect: &Redirect) -> Result<()> {
        let to = self.redirect_target(frame, &redirect.to)?;
        let notify = redirect.notify.as_ref();
        let notify = notify.map(|word| self.keyword(frame, word, DsnNotify::parse, "NOTIFY value"));
        let notify = notify.transpose()?;
        let ret = redirect.ret.as_ref();
        let ret = ret.map(|word| self.keyword(frame, word, DsnReturn::parse, "RET value"));
        let ret = ret.transpose()?;
        let deliver_by = redirect.deliver_by.as_ref();
        let deliver_by = deliver_by.map(|deliver_by| self.deliver_by(frame, deliver_by));
        let deliver_by = deliver_by.transpose()?;
        self.take(Kind::Delivery, "redirect")?;
        if self.is_looping()? {
            self.decisions.require_store();
            self.warn(WarningKind::RedirectLoop);
            return Ok(());
        }
        if !redirect.copy {
            self.decisions.cancel_keep();
        }
        let is_same = |action: &Action| match action {
            Action::Redirect(known) => is_same(&known.to, &to),
            _ => false,
        };
        if self.decisions.actions.iter().any(is_same) {
            let text = match to {
                RedirectTarget::Address(address) => address.to_string(),
                RedirectTarget::List(list) => list,
            };
            self.warn(WarningKind::RedirectRepeated(text));
            return Ok(());
        }
        let message = self.version(false)?;
        let copy = redirect.copy;
        self.push_action(Action::Redirect(RedirectIntent {
            to,
            copy,
            notify,
            ret,
            deliver_by,
            message,
        }))?;
        self.count_sent()
    }

    fn redirect_target(&mut self, frame: &Frame<'_>, to: &RedirectTo) -> Result<RedirectTarget> {
        match to {
            RedirectTo::Address(text) => {
                let text = self.expand(frame, text)?;
                let address = AddressSpec::parse_mailbox(&text);
                match address.filter(|address| self.world.can_redirect(address)) {
                    Some(address) => Ok(RedirectTarget::Address(address)),
                    None => Err(RuntimeErrorKind::BadAddress(text.into_owned())),
                }
            }
            RedirectTo::List(text) => {
                let list = list_uri(&self.expand(frame, text)?).into_owned();
                self.fuel.step()?;
                match self.world.has_list(&list)? {
                    true => Ok(RedirectTarget::List(list)),
                    false => Err(RuntimeErrorKind::UnknownWord { word: list, expected: "list" }),
                }
            }
        }
    }

    fn deliver_by(&mut self, frame: &Frame<'_>, deliver_by: &DeliverBy) -> Result<DeliverByIntent> {
        let deadline = match &deliver_by.deadline {
            Deadline::After(seconds) => after(self.world.now(), *seconds),
            Deadline::At(text) => {
                let word = self.expand(frame, text)?;
                let time: std::result::Result<Timestamp, _> = word.parse();
                let word = word.into_owned();
                time.map_err(|_| RuntimeErrorKind::UnknownWord { word, expected: "time" })?
            }
        };
        let mode = &deliver_by.mode;
        let mode = self.keyword(frame, mode, DeliverByMode::parse, "mode of Deliver By")?;
        Ok(DeliverByIntent { deadline, mode, trace: deliver_by.trace })
    }

    /// Returns whether the message as received has more `Received` fields than the limit.
    fn is_looping(&mut self) -> Result<bool> {
        let view = self.message.view();
        let fields = view.fields(PartId::ROOT);
        self.fuel.bytes(fields.len())?;
        let is_received = |name: &[u8]| name.eq_ignore_ascii_case(b"Received");
        let names = fields.iter().filter_map(|field| view.raw().get(field.name.clone()));
        let count = names.filter(|name| is_received(name)).count();
        Ok(count > usize::from(self.limits.received))
    }
}

/// Returns the time a number of seconds after another, or the latest time that there is.
pub(super) fn after(time: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Returns whether two redirects go to the same address, without regard to the case of the domain,
/// or to the same list.
fn is_same(a: &RedirectTarget, b: &RedirectTarget) -> bool {
    match (a, b) {
        (RedirectTarget::Address(a), RedirectTarget::Address(b)) => a.matches(b),
        _ => a == b,
    }
}
