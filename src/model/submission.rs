//! Submissions: messages that the owner sends, as JMAP shows them (RFC 8621 §7).
//!
//! - An action of the outbox does the sending, and writes the outcome to the submission.
//! - Reports that come back later change the status too. Strangers can send them, so a report
//!   counts only if it names both the message and a recipient.

use std::collections::{BTreeMap, BTreeSet};

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId, ObjectId, ThreadId};
use super::limits;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailSubmission {
    pub identity: ObjectId,
    /// May be destroyed since.
    pub email: EmailId,
    pub thread: ThreadId,
    /// Without angle brackets; empty if there is none.
    pub message_id: String,
    pub mail_from: EnvelopeAddress,
    pub rcpt_to: Vec<SubmissionRecipient>,
    pub send_at: UtcMillis,
    pub undo: UndoStatus,
    /// When the message had been sent to the last recipient, or given up for it, or when the
    /// submission was canceled; `None` before that.
    pub ended: Option<UtcMillis>,
    /// The action that sends the message, which may be gone since. `None` before it is queued.
    pub action: Option<ActionId>,
    /// Delivery status notifications that came back.
    pub dsn: Vec<EmailId>,
    /// Disposition notifications that came back.
    pub mdn: Vec<EmailId>,
}

/// A path of the envelope, with its ESMTP parameters (RFC 8621 §7, Address).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvelopeAddress {
    /// As the client gave it. Only a sender's may be empty: the null path `<>`.
    pub email: String,
    /// Values are not in xtext; a parameter without a value has `None`. The whole is `None` if the
    /// client gave no `parameters`.
    pub parameters: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionRecipient {
    pub path: EnvelopeAddress,
    pub status: DeliveryStatus,
}

/// RFC 8621 §7, `DeliveryStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryStatus {
    /// In one line: the reply of the relay or of a report, or else one that this server makes up.
    /// Cut by `bounded_reply`.
    pub smtp_reply: String,
    pub delivered: DeliveryState,
    /// `false` means unknown.
    pub displayed: bool,
}

/// RFC 8621 §7, `undoStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UndoStatus {
    /// Waits. Can be canceled, unless it is being sent, or failed for a recipient.
    #[default]
    Pending,
    /// Relayed to at least one recipient, or failed.
    Final,
    Canceled,
}

/// RFC 8621 §7, `delivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeliveryState {
    /// In the queue of this server.
    #[default]
    Queued,
    Yes,
    No,
    /// Accepted by the next hop; nothing more is known.
    Unknown,
}

/// What a received report says about the message that it names (RFC 8621 §7). Strangers can write
/// it, and the message need not be a submission (`EmailSubmission::matches_report`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedReport {
    pub kind: ReturnedKind,
    /// Without angle brackets.
    pub message_id: Option<String>,
    /// RFC 3464 §2.2.1.
    pub envid: Option<String>,
    pub recipients: Vec<ReturnedRecipient>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedKind {
    /// RFC 3464, delivery status.
    Delivery,
    /// RFC 8098, disposition.
    Disposition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedRecipient {
    /// The original and the final address.
    pub addresses: Vec<Address>,
    /// With the SMTP reply; `None` if the report does not say.
    pub delivered: Option<(DeliveryState, String)>,
    pub displayed: bool,
}

/// Returns an SMTP reply cut to the length of a reply line, `limits::MAX_REPLY_LINE_BYTES`. So the
/// outcomes of a submission have a bound, whatever relays and reports say.
#[must_use]
pub fn bounded_reply(reply: &str) -> String {
    let end = reply.floor_char_boundary(limits::MAX_REPLY_LINE_BYTES);
    reply.get(..end).unwrap_or_default().to_owned()
}

impl EmailSubmission {
    /// Whether a report is about this submission: it names a recipient, and either the Message-ID
    /// or the ENVID. If the client gave no ENVID, the Message-ID was sent in its place
    /// (`outbox::submission`).
    #[must_use]
    pub fn matches_report(&self, report: &ReturnedReport) -> bool {
        let own_id = Some(self.message_id.as_str()).filter(|id| !id.is_empty());
        let parameters = self.mail_from.parameters.iter().flatten();
        let given_envid = parameters
            .filter(|(name, _)| name.eq_ignore_ascii_case("ENVID"))
            .find_map(|(_, id)| id.as_deref());
        let sent_envid = given_envid.or(own_id);
        let is_equal = |reported: &Option<String>, sent: Option<&str>| {
            sent.is_some() && reported.as_deref() == sent
        };
        let names_recipient = || {
            let named = report.by_address();
            self.rcpt_to.iter().any(|to| to.sent_to().any(|one| named.contains_key(&one)))
        };
        (is_equal(&report.message_id, own_id) || is_equal(&report.envid, sent_envid))
            && names_recipient()
    }

    /// Updates the delivery status from a report that arrived as `email` (RFC 8621 §7). The caller
    /// has checked the report with `matches_report`. A recipient to whom this server still has to
    /// send keeps `delivered` and `smtp_reply`. `email` is listed in `dsn` or `mdn`, up to
    /// `limits::MAX_SUBMISSION_REPORTS` in each. A canceled submission is not changed.
    pub fn apply_report(&mut self, report: &ReturnedReport, email: Option<EmailId>) {
        if self.undo == UndoStatus::Canceled {
            return;
        }
        let named = report.by_address();
        for to in &mut self.rcpt_to {
            let matching: BTreeSet<usize> =
                to.sent_to().filter_map(|one| named.get(&one)).flatten().copied().collect();
            let status = &mut to.status;
            for reported in matching.into_iter().filter_map(|at| report.recipients.get(at)) {
                if status.delivered != DeliveryState::Queued
                    && let Some((delivered, reply)) = &reported.delivered
                {
                    (status.delivered, status.smtp_reply) = (*delivered, bounded_reply(reply));
                }
                status.displayed |= reported.displayed;
            }
        }
        let reports = match report.kind {
            ReturnedKind::Delivery => &mut self.dsn,
            ReturnedKind::Disposition => &mut self.mdn,
        };
        let is_new = |email: &EmailId| {
            reports.len() < limits::MAX_SUBMISSION_REPORTS && !reports.contains(email)
        };
        let new = email.filter(is_new);
        reports.extend(new);
    }
}

impl ReturnedReport {
    /// Returns the indexes of the recipients with each folded address.
    fn by_address(&self) -> BTreeMap<Address, Vec<usize>> {
        let mut named: BTreeMap<Address, Vec<usize>> = BTreeMap::new();
        for (at, recipient) in self.recipients.iter().enumerate() {
            for address in &recipient.addresses {
                named.entry(address.folded()).or_default().push(at);
            }
        }
        named
    }
}

impl SubmissionRecipient {
    /// The folded addresses by which a report may name this recipient: ORCPT (RFC 3461 §4.2) and
    /// the path.
    fn sent_to(&self) -> impl Iterator<Item = Address> {
        let parameters = self.path.parameters.iter().flatten();
        let original = parameters.filter(|(name, _)| name.eq_ignore_ascii_case("ORCPT"));
        let original = original
            .filter_map(|(_, value)| value.as_deref()?.split_once(';').map(|(_type, text)| text));
        let texts = original.chain([self.path.email.as_str()]);
        texts.filter_map(|text| Address::parse(text).ok()).map(|address| address.folded())
    }
}

impl UndoStatus {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Final, Self::Canceled];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Final => "final",
            Self::Canceled => "canceled",
        }
    }
}

impl DeliveryState {
    pub const ALL: [Self; 4] = [Self::Queued, Self::Yes, Self::No, Self::Unknown];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(email: &str, parameters: &[(&str, &str)]) -> EnvelopeAddress {
        let parameters =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        EnvelopeAddress { email: email.into(), parameters: Some(parameters.collect()) }
    }

    fn submission(envid: Option<&str>) -> EmailSubmission {
        let rcpt_to = [
            path("Bob@example.net", &[]),
            path("cy@example.net", &[("orcpt", "rfc822;team@example.net")]),
        ];
        let status =
            DeliveryStatus { delivered: DeliveryState::Unknown, ..DeliveryStatus::default() };
        let envid: Vec<_> = envid.map(|id| ("Envid", id)).into_iter().collect();
        EmailSubmission {
            message_id: "1@example.org".into(),
            mail_from: path("ann@example.org", &envid),
            rcpt_to: rcpt_to
                .map(|path| SubmissionRecipient { path, status: status.clone() })
                .into(),
            undo: UndoStatus::Final,
            ..EmailSubmission::default()
        }
    }

    fn report(id: Option<&str>, envid: Option<&str>, to: &str) -> ReturnedReport {
        ReturnedReport {
            kind: ReturnedKind::Delivery,
            message_id: id.map(str::to_owned),
            envid: envid.map(str::to_owned),
            recipients: vec![ReturnedRecipient {
                addresses: vec![Address::parse(to).unwrap()],
                delivered: Some((DeliveryState::Yes, "250 2.0.0 delivered".into())),
                displayed: false,
            }],
        }
    }

    #[test]
    fn report_counts_only_with_message_and_recipient() {
        let (id, bob) = (Some("1@example.org"), "bob@EXAMPLE.net");
        for (envid, report, must_match) in [
            (None, report(id, None, bob), true),
            (None, report(id, None, "team@example.net"), true),
            (None, report(id, None, "eve@example.net"), false),
            (None, report(Some("2@example.org"), None, bob), false),
            (None, report(None, None, bob), false),
            (None, report(None, id, bob), true),
            (Some("q1"), report(None, id, bob), false),
            (Some("q1"), report(None, Some("q1"), bob), true),
            (Some("q1"), report(id, Some("q2"), bob), true),
        ] {
            assert_eq!(
                submission(envid).matches_report(&report),
                must_match,
                "{envid:?} {report:?}"
            );
        }
        let nameless = EmailSubmission { message_id: String::new(), ..submission(None) };
        assert!(
            !nameless.matches_report(&report(None, None, bob))
                && !nameless.matches_report(&report(Some(""), Some(""), bob))
        );
    }

    /// Regression test: the paths were parsed again for each recipient of the report. That would
    /// take minutes here.
    #[test]
    fn report_with_many_recipients_takes_linear_time() {
        let mut one = submission(None);
        let (recipient, mut said) =
            (one.rcpt_to[0].clone(), report(Some("1@example.org"), None, "a@x"));
        let email = |n: usize| format!("{n}@b\u{fc}cher{n}.example");
        let to = |n| SubmissionRecipient { path: path(&email(n), &[]), ..recipient.clone() };
        one.rcpt_to = (0..limits::MAX_RECIPIENTS).map(to).collect();
        let reported = |n| ReturnedRecipient {
            addresses: vec![Address::parse(&email(n)).unwrap()],
            ..said.recipients[0].clone()
        };
        // Only the last recipient of the report is one of the submission.
        let last = limits::MAX_RECIPIENTS - 1;
        said.recipients = (last..2 * limits::MAX_RECIPIENTS).rev().map(reported).collect();
        assert!(one.matches_report(&said));
        one.apply_report(&said, None);
        let is_delivered = |to: &&SubmissionRecipient| to.status.delivered == DeliveryState::Yes;
        assert!(is_delivered(&&one.rcpt_to[last]));
        assert_eq!(one.rcpt_to.iter().filter(is_delivered).count(), 1);
    }

    /// Of several that name one recipient, the last one counts.
    #[test]
    fn recipients_of_a_report_are_applied_in_their_order() {
        let mut one = submission(None);
        let mut said = report(Some("1@example.org"), None, "team@example.net");
        let mut second = said.recipients[0].clone();
        second.addresses = vec![Address::parse("cy@example.net").unwrap()];
        second.delivered = Some((DeliveryState::No, "550 5.1.1 no".into()));
        said.recipients.push(second);
        one.apply_report(&said, None);
        assert_eq!(one.rcpt_to[1].status.delivered, DeliveryState::No);
        said.recipients.reverse();
        one.apply_report(&said, None);
        assert_eq!(one.rcpt_to[1].status.delivered, DeliveryState::Yes);
    }

    #[test]
    fn report_updates_the_recipient_that_it_names_unless_queued_or_canceled() {
        let said = report(Some("1@example.org"), None, "bob@example.net");
        let mut one = submission(None);
        one.apply_report(&said, Some(EmailId(1)));
        assert_eq!(
            (one.rcpt_to[0].status.delivered, one.rcpt_to[1].status.delivered),
            (DeliveryState::Yes, DeliveryState::Unknown)
        );
        assert_eq!(one.rcpt_to[0].status.smtp_reply, "250 2.0.0 delivered");
        for id in 0..2 * limits::MAX_SUBMISSION_REPORTS as u64 {
            one.apply_report(&said, Some(EmailId(id)));
        }
        assert_eq!(
            (one.dsn.len(), one.dsn[0], one.mdn.len()),
            (limits::MAX_SUBMISSION_REPORTS, EmailId(1), 0)
        );
        let mut read = said.clone();
        read.kind = ReturnedKind::Disposition;
        (read.recipients[0].delivered, read.recipients[0].displayed) = (None, true);
        one.apply_report(&read, Some(EmailId(7)));
        assert_eq!(
            (one.rcpt_to[0].status.displayed, one.rcpt_to[1].status.displayed),
            (true, false)
        );
        assert_eq!(
            (one.rcpt_to[0].status.delivered, one.mdn.as_slice()),
            (DeliveryState::Yes, [EmailId(7)].as_slice())
        );
        // A recipient that still waits in the queue keeps `delivered`. Nothing of a canceled
        // submission changes.
        let mut queued = submission(None);
        queued.rcpt_to[0].status.delivered = DeliveryState::Queued;
        queued.apply_report(&said, Some(EmailId(1)));
        assert_eq!(
            (queued.rcpt_to[0].status.delivered, queued.dsn.len()),
            (DeliveryState::Queued, 1)
        );
        let mut canceled = EmailSubmission { undo: UndoStatus::Canceled, ..submission(None) };
        let before = canceled.clone();
        canceled.apply_report(&said, Some(EmailId(1)));
        assert_eq!(canceled, before);
    }
}
