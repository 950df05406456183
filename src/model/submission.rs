//! What the owner sends, as the owner sees it: the envelope, whether it can still be undone, and
//! what became of it for each recipient (RFC 8621 §7). The sending itself is an action of the
//! outbox, which writes here what it meets.

use std::collections::BTreeMap;

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId, ObjectId, ThreadId};
use super::limits;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailSubmission {
    /// As whom it was sent.
    pub identity: ObjectId,
    /// What was sent; it may be gone by now.
    pub email: EmailId,
    pub thread: ThreadId,
    /// The Message-ID of what was sent, without angle brackets; empty where it has none.
    pub message_id: String,
    /// MAIL FROM.
    pub mail_from: EnvelopeAddress,
    /// RCPT TO, in order, with what became of each.
    pub rcpt_to: Vec<SubmissionRecipient>,
    /// When it is or was let go.
    pub send_at: UtcMillis,
    /// Whether it can be undone.
    pub undo: UndoStatus,
    /// Since when that is settled.
    pub ended: Option<UtcMillis>,
    /// The action that carries it, or did.
    pub action: Option<ActionId>,
    /// Delivery status notifications that came for it.
    pub dsn: Vec<EmailId>,
    /// Message disposition notifications that came for it.
    pub mdn: Vec<EmailId>,
}

/// A path of the envelope, with its ESMTP parameters (RFC 8621 §7, Address).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvelopeAddress {
    /// As it was given; of the sender it may be empty, for `<>`.
    pub email: String,
    /// Parameters with their values, these without xtext encoding; `None` where it was not said at
    /// all.
    pub parameters: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionRecipient {
    /// The forward path.
    pub path: EnvelopeAddress,
    /// What became of it.
    pub status: DeliveryStatus,
}

/// What became of it for one recipient (RFC 8621 §7, `DeliveryStatus`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryStatus {
    /// What the next hop said, or what stands for it, as one line.
    pub smtp_reply: String,
    /// Whether it got there.
    pub delivered: DeliveryState,
    /// Whether it was shown there; else unknown.
    pub displayed: bool,
}

/// Whether it can be undone (RFC 8621 §7, `undoStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UndoStatus {
    /// It waits for its time.
    #[default]
    Pending,
    /// It was relayed, to some at least, or has failed, and cannot be taken back.
    Final,
    /// It was taken back.
    Canceled,
}

/// Whether it got there (RFC 8621 §7 delivered).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeliveryState {
    /// It is on its way with us.
    #[default]
    Queued,
    /// It is known to have been delivered.
    Yes,
    /// It will not get there.
    No,
    /// It was handed on, and nothing more is known.
    Unknown,
}

/// What a report that came back says of a submission (RFC 8621 §7). Strangers write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedReport {
    /// Which kind of report it is.
    pub kind: ReturnedKind,
    /// The Message-ID of what was sent, without angle brackets.
    pub message_id: Option<String>,
    /// Its ENVID (RFC 3464 §2.2.1).
    pub envid: Option<String>,
    /// The recipients that it speaks of.
    pub recipients: Vec<ReturnedRecipient>,
}

/// The kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedKind {
    /// A delivery status notification (RFC 3464).
    Delivery,
    /// A message disposition notification (RFC 8098).
    Disposition,
}

/// What a report says of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedRecipient {
    /// The first and the last address by which the recipient is known.
    pub addresses: Vec<Address>,
    /// That it got there, or will not, and the reply that says so.
    pub delivered: Option<(DeliveryState, String)>,
    /// Whether it was displayed there.
    pub displayed: bool,
}

impl EmailSubmission {
    /// Whether a report is about this: it names the message, or the envelope, and one of the
    /// recipients. An envelope that the client gave no ENVID has that of the message
    /// (`outbox::submission`).
    #[must_use]
    pub fn matches_report(&self, report: &ReturnedReport) -> bool {
        let own = Some(self.message_id.as_str()).filter(|id| !id.is_empty());
        let parameters = self.mail_from.parameters.iter().flatten();
        let given = parameters
            .filter(|(name, _)| name.eq_ignore_ascii_case("ENVID"))
            .find_map(|(_, id)| id.as_deref());
        let envid = given.or(own);
        let names = |said: &Option<String>, known: Option<&str>| {
            known.is_some() && said.as_deref() == known
        };
        (names(&report.message_id, own) || names(&report.envid, envid))
            && report
                .recipients
                .iter()
                .any(|said| self.rcpt_to.iter().any(|to| to.is_named_in(said)))
    }

    /// Takes what a report says that came as this email (RFC 8621 §7). What is still on its way
    /// with us it says nothing of, nor of what was taken back.
    pub fn apply_report(&mut self, report: &ReturnedReport, email: EmailId) {
        if self.undo == UndoStatus::Canceled {
            return;
        }
        for to in &mut self.rcpt_to {
            let meant: Vec<&ReturnedRecipient> =
                report.recipients.iter().filter(|said| to.is_named_in(said)).collect();
            let status = &mut to.status;
            for said in meant {
                if let (Some((delivered, reply)), false) =
                    (&said.delivered, status.delivered == DeliveryState::Queued)
                {
                    (status.delivered, status.smtp_reply) = (*delivered, reply.clone());
                }
                status.displayed |= said.displayed;
            }
        }
        let known = match report.kind {
            ReturnedKind::Delivery => &mut self.dsn,
            ReturnedKind::Disposition => &mut self.mdn,
        };
        if known.len() < limits::MAX_SUBMISSION_REPORTS && !known.contains(&email) {
            known.push(email);
        }
    }
}

impl SubmissionRecipient {
    /// Whether a report is about this recipient: by the path, or by the original recipient that the
    /// client gave (ORCPT, RFC 3461 §4.2).
    fn is_named_in(&self, said: &ReturnedRecipient) -> bool {
        let parameters = self.path.parameters.iter().flatten();
        let original = parameters.filter(|(name, _)| name.eq_ignore_ascii_case("ORCPT"));
        let original = original
            .filter_map(|(_, typed)| typed.as_deref()?.split_once(';').map(|(_, address)| address));
        let own =
            original.chain([self.path.email.as_str()]).filter_map(|text| Address::parse(text).ok());
        let own: Vec<Address> = own.map(|address| address.folded()).collect();
        said.addresses.iter().any(|address| own.contains(&address.folded()))
    }
}

impl UndoStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Final, Self::Canceled];

    /// Its name on the wire.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Yes, Self::No, Self::Unknown];

    /// Its name on the wire.
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

    /// A stranger must know the message and whom it went to.
    #[test]
    fn a_report_names_message_and_recipient() {
        let (id, bob) = (Some("1@example.org"), "bob@EXAMPLE.net");
        for (envid, report, is_meant) in [
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
            assert_eq!(submission(envid).matches_report(&report), is_meant, "{envid:?} {report:?}");
        }
        let nameless = EmailSubmission { message_id: String::new(), ..submission(None) };
        assert!(
            !nameless.matches_report(&report(None, None, bob))
                && !nameless.matches_report(&report(Some(""), Some(""), bob))
        );
    }

    #[test]
    fn what_a_report_says_is_taken_within_bounds() {
        let said = report(Some("1@example.org"), None, "bob@example.net");
        let mut one = submission(None);
        one.apply_report(&said, EmailId(1));
        assert_eq!(
            (one.rcpt_to[0].status.delivered, one.rcpt_to[1].status.delivered),
            (DeliveryState::Yes, DeliveryState::Unknown)
        );
        assert_eq!(one.rcpt_to[0].status.smtp_reply, "250 2.0.0 delivered");
        for id in 0..2 * limits::MAX_SUBMISSION_REPORTS as u64 {
            one.apply_report(&said, EmailId(id));
        }
        assert_eq!(
            (one.dsn.len(), one.dsn[0], one.mdn.len()),
            (limits::MAX_SUBMISSION_REPORTS, EmailId(1), 0)
        );
        let mut read = said.clone();
        read.kind = ReturnedKind::Disposition;
        (read.recipients[0].delivered, read.recipients[0].displayed) = (None, true);
        one.apply_report(&read, EmailId(7));
        assert_eq!(
            (one.rcpt_to[0].status.displayed, one.rcpt_to[1].status.displayed),
            (true, false)
        );
        assert_eq!(
            (one.rcpt_to[0].status.delivered, one.mdn.as_slice()),
            (DeliveryState::Yes, [EmailId(7)].as_slice())
        );
        // On its way with us; and taken back.
        let mut queued = submission(None);
        queued.rcpt_to[0].status.delivered = DeliveryState::Queued;
        queued.apply_report(&said, EmailId(1));
        assert_eq!(
            (queued.rcpt_to[0].status.delivered, queued.dsn.len()),
            (DeliveryState::Queued, 1)
        );
        let mut canceled = EmailSubmission { undo: UndoStatus::Canceled, ..submission(None) };
        let before = canceled.clone();
        canceled.apply_report(&said, EmailId(1));
        assert_eq!(canceled, before);
    }
}
