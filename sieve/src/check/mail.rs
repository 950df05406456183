//! Commands that send something: `redirect`, `vacation`, `notify`.

use super::bind::Bound;
use super::commands::ActionClass;
use super::strings::{Text, expr, exprs};
use super::values::is_uri;
use super::{Checker, excerpt};
use crate::address::AddressSpec;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{
    CommandKind, Deadline, DeliverBy, DeliverByMode, DsnNotify, DsnReturn, Importance, Keyword,
    Notify, Redirect, RedirectTo, Vacation, notify_option,
};
use crate::vacation::{Period, VacationHandle};
use crate::vocabulary::Tag;

impl Checker<'_> {
    /// Checks `redirect` and its parameters.
    pub(super) fn redirect(&mut self, bound: &Bound<'_>) -> CommandKind {
        self.note_action(ActionClass::Store, bound.node.name);
        self.has_redirect |= self.muted == 0;
        self.count_redirect(bound);
        let target = self.argument(bound.positional(0));
        let is_list = bound.has(Tag::List);
        if let Some(text) = &target {
            match is_list {
                true => self.check_list_name(text),
                false => self.check_address(text),
            }
        }
        let to = match is_list {
            true => RedirectTo::List(expr(target)),
            false => RedirectTo::Address(expr(target)),
        };
        let notify = self.argument(bound.value(Tag::Notify)).map(|text| {
            let names = ["NEVER", "SUCCESS", "FAILURE", "DELAY"];
            self.keyword(text, DsnNotify::parse, Code::BadDsnValue, "value of `:notify`", &names)
        });
        let ret = self.argument(bound.value(Tag::Ret)).map(|text| {
            let names = ["FULL", "HDRS"];
            self.keyword(text, DsnReturn::parse, Code::BadDsnValue, "value of `:ret`", &names)
        });
        CommandKind::Redirect(Box::new(Redirect {
            to,
            copy: bound.has(Tag::Copy),
            notify,
            ret,
            deliver_by: self.deliver_by(bound),
        }))
    }

    /// Reports a redirect if as many redirects as the limit allows have certainly run before it.
    /// Redirects that certainly run after a reported one are not reported.
    fn count_redirect(&mut self, bound: &Bound<'_>) {
        self.flow.redirects = self.flow.redirects.saturating_add(1);
        let limit = u32::from(self.options.limits.redirects);
        if self.flow.redirects == limit.saturating_add(1) {
            let message = format!("a script may redirect a message only {limit} times");
            self.complain(Code::TooManyActions, bound.node.name, message);
        }
    }

    /// Checks the parameters of Deliver By (RFC 6009 §7). `None` without a deadline.
    fn deliver_by(&mut self, bound: &Bound<'_>) -> Option<DeliverBy> {
        let absolute = self.argument(bound.value(Tag::ByTimeAbsolute));
        if let Some(text) = &absolute {
            self.check_text(
                text,
                Code::BadDeliverBy,
                "time like `2026-12-24T18:00:00Z`",
                |value| value.parse::<jiff::Timestamp>().is_ok(),
            );
        }
        let mode = self.argument(bound.value(Tag::ByMode)).map(|text| {
            let names = ["notify", "return"];
            self.keyword(
                text,
                DeliverByMode::parse,
                Code::BadDeliverBy,
                "value of `:bymode`",
                &names,
            )
        });
        let deadline = match (absolute, bound.number(Tag::ByTimeRelative)) {
            (Some(text), _) => Deadline::At(text.expr),
            (None, Some((seconds, _))) => Deadline::After(seconds),
            (None, None) => return None,
        };
        let mode = mode.unwrap_or(Keyword::Known(DeliverByMode::default()));
        Some(DeliverBy { deadline, mode, trace: bound.has(Tag::ByTrace) })
    }

    /// Checks `vacation` (RFC 5230).
    pub(super) fn vacation(&mut self, bound: &Bound<'_>) -> CommandKind {
        self.note_action(ActionClass::Response, bound.node.name);
        let period = match (bound.number(Tag::Days), bound.number(Tag::Seconds)) {
            (_, Some((seconds, _))) => Period::Seconds(seconds),
            (Some((days, _)), None) => Period::Days(days),
            (None, None) => Period::Unset,
        };
        let subject = self.argument(bound.value(Tag::Subject));
        if let Some(subject) = &subject {
            self.check_line(subject, "the subject");
        }
        let from = self.argument(bound.value(Tag::From));
        if let Some(from) = &from {
            self.check_address(from);
        }
        let tokens = bound.value(Tag::Addresses).map_or(&[][..], |value| value.strings());
        let addresses = self.texts(tokens);
        for text in &addresses {
            if let Some(value) = text.constant()
                && AddressSpec::parse_mailbox(value).is_none()
            {
                let message = format!("`{}` is no email address", excerpt(value));
                self.complain(Code::AddressIgnored, text.span(), message);
            }
        }
        let mime = bound.has(Tag::Mime);
        let reason = bound
            .strings(0)
            .first()
            .map(|&token| self.text_within(token, self.options.limits.vacation_reason));
        if let Some(reason) = reason.as_ref().filter(|_| mime) {
            self.check_mime_entity(reason);
        }
        let (handle, handle_name) = self.handle(bound, mime);
        CommandKind::Vacation(Box::new(Vacation {
            handle,
            handle_name,
            period,
            subject: subject.map(|text| text.expr),
            from: from.map(|text| text.expr),
            addresses: exprs(addresses),
            mime,
            reason: expr(reason),
            fcc: self.fcc(bound),
        }))
    }

    /// Returns the handle, which is made of the strings as written (RFC 5230 §4.2), and the text of
    /// `:handle` if it is given.
    fn handle(&mut self, bound: &Bound<'_>, mime: bool) -> (VacationHandle, Option<String>) {
        let raw = |checker: &Self, tag| {
            let token = bound.value(tag)?.strings().first()?;
            Some(checker.raw(*token))
        };
        if let Some(name) = raw(self, Tag::Handle) {
            if name.contains("${")
                && let Some(argument) = bound.value(Tag::Handle)
            {
                let message = "variables in a handle are not expanded";
                self.complain(Code::VariableInHandle, argument.span, message);
            }
            return (VacationHandle::named(&name), Some(name));
        }
        let subject = raw(self, Tag::Subject);
        let from = raw(self, Tag::From);
        let reason = bound.strings(0).first().map(|&token| self.raw(token)).unwrap_or_default();
        let handle =
            VacationHandle::of_arguments(subject.as_deref(), from.as_deref(), mime, &reason);
        (handle, None)
    }

    /// Checks `notify` (RFC 5435 §3).
    pub(super) fn notify(&mut self, bound: &Bound<'_>) -> CommandKind {
        let method = self.argument(bound.positional(0));
        let mut is_mail = false;
        if let Some(method) = &method {
            is_mail = self.check_notify_method(method);
            self.note_method(method);
        }
        let from = self.argument(bound.value(Tag::From));
        if let Some(from) = from.as_ref().filter(|_| is_mail) {
            self.check_address(from);
        }
        let importance = self.argument(bound.value(Tag::Importance)).map(|text| {
            let names = ["1", "2", "3"];
            self.keyword(text, Importance::parse, Code::BadImportance, "importance", &names)
        });
        let tokens = bound.value(Tag::Options).map_or(&[][..], |value| value.strings());
        let options = self.texts(tokens);
        for text in &options {
            if text.constant().is_some_and(|value| notify_option(value).is_none()) {
                let message = "an option has the form `name=value`";
                self.complain(Code::NoEffect, text.span(), message);
            }
        }
        let message = self.argument(bound.value(Tag::Message));
        CommandKind::Notify(Box::new(Notify {
            method: expr(method),
            from: from.map(|text| text.expr),
            importance,
            options: exprs(options),
            message: message.map(|text| text.expr),
            fcc: self.fcc(bound),
        }))
    }

    /// Checks the URI of a method. Returns whether it is a constant `mailto:` URI and the site
    /// offers this scheme. A method that the site does not have gets only a warning, since the
    /// script may test for it before; a run that comes to it fails (RFC 5435 §3.2).
    fn check_notify_method(&mut self, method: &Text) -> bool {
        let Some(uri) = method.constant() else { return false };
        let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let schemes = self.options.notify_schemes.join(", ");
        let help = format!("write a URI of: {schemes}");
        let Some(scheme) = scheme.filter(|_| is_uri(uri)) else {
            let message = format!("`{}` is no URI", excerpt(uri));
            let diagnostic = Diagnostic::new(Code::BadNotifyMethod, method.span(), message);
            self.report(diagnostic.with_help(help));
            return false;
        };
        if !self.options.notify_schemes.contains(&scheme) {
            let message = format!("this site cannot notify by `{}`", excerpt(uri));
            let diagnostic = Diagnostic::new(Code::UnsupportedNotifyMethod, method.span(), message);
            self.report(diagnostic.with_help(help));
            return false;
        }
        if scheme == "mailto" && !is_mailto(uri) {
            let message = format!("`{}` is no `mailto:` with addresses", excerpt(uri));
            self.complain(Code::BadNotifyMethod, method.span(), message);
        }
        scheme == "mailto"
    }
}

/// Returns whether a `mailto` URI has addresses, in its path or in its fields `to`, `cc` and `bcc`,
/// and all of them are valid (RFC 6068 §2).
fn is_mailto(uri: &str) -> bool {
    let rest = uri.split_once(':').map_or("", |(_, rest)| rest);
    if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return false;
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    let receivers = fields.filter(|(name, _)| {
        ["to", "cc", "bcc"].iter().any(|field| name.eq_ignore_ascii_case(field))
    });
    let lists = std::iter::once(path).chain(receivers.map(|(_, list)| list));
    let mut addresses =
        lists.flat_map(|list| list.split(',')).filter(|address| !address.is_empty()).peekable();
    addresses.peek().is_some()
        && addresses.all(|address| {
            percent_decode(address)
                .is_some_and(|address| AddressSpec::parse_mailbox(&address).is_some())
        })
}

/// Decodes percent-encoding. `None` if a `%` is not followed by two hexadecimal digits, or if the
/// result is not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
        out.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailto_has_addresses() {
        for uri in [
            "mailto:a@example.org",
            "mailto:a@example.org,b@example.org?subject=x%20y",
            "mailto:?to=a@example.org",
            "MAILTO:a%2Bb@example.org",
        ] {
            assert!(is_mailto(uri), "{uri}");
        }
        for uri in ["mailto:", "mailto:a", "mailto:a@b c", "mailto:%zz@b", "mailto:?subject=x"] {
            assert!(!is_mailto(uri), "{uri}");
        }
    }
}
