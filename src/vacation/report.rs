//! The absence report: what came while the owner was away. `account::arrivals` makes it, for
//! `deliver::reports`, which files it as a message, and for the method Vacation/report.
//!
//! Pure: the caller supplies what arrived. Names and subjects are strangers' data: `text` and
//! `html` bound their number, cut each to one short line, and `html` escapes them; the fields of
//! `AbsenceReport` have them as they are.

use std::collections::{BTreeMap, HashMap};

use super::reason::NoReplyReason;
use super::reply::escape_html;
use crate::message::compose::{Draft, build};
use crate::message::line::one_line;
use crate::model::{Address, EmailAddress, EmailId, Identity, ThreadId, UtcMillis};

/// A message that was delivered in the period of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The email, which may be destroyed by now.
    pub email: EmailId,
    /// `None` if the email is destroyed.
    pub thread: Option<ThreadId>,
    /// When the message was delivered.
    pub at: UtcMillis,
    /// The From field, or else the envelope sender, which may be `<>`.
    pub from: EmailAddress,
    /// Empty if it is missing or not known any more.
    pub subject: String,
    /// False if the email is destroyed.
    pub unread: bool,
    /// A code of `NoReplyReason`, or of a failure to send the reply; `None` if the message was
    /// answered.
    pub no_reply_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbsenceReport {
    /// `None`: as far back as the log of decisions goes.
    pub began: Option<UtcMillis>,
    /// The first instant after the period of the report; `None` if the period has no end.
    pub ended: Option<UtcMillis>,
    /// How many messages there are, without those that `cut` stands for.
    pub messages: usize,
    /// How many of them were answered.
    pub answered: usize,
    /// How many messages were not answered, by the code of the reason.
    pub unanswered: BTreeMap<String, usize>,
    /// People first, then machines; in each group, the one who wrote last first.
    pub correspondents: Vec<Correspondent>,
    /// Whether older messages were left out.
    pub cut: bool,
}

/// The messages from one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondent {
    pub person: EmailAddress,
    /// Whether every message from this address got no reply for one of `AUTOMATIC_REASONS`.
    pub machine: bool,
    /// Whether any message from this address was answered.
    pub answered: bool,
    /// The newest first.
    pub threads: Vec<Topic>,
}

/// The emails of one correspondent in one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// `None` for all messages of the correspondent that are destroyed: their threads are unknown.
    pub thread: Option<ThreadId>,
    /// The subject of the newest email.
    pub subject: String,
    /// The newest first.
    pub emails: Vec<EmailId>,
    /// How many of the emails are unread.
    pub unread: usize,
    /// When the oldest and the newest of the emails were delivered.
    pub first: UtcMillis,
    pub last: UtcMillis,
}

/// The most people in the text and the HTML, and the most machines. The others are only counted.
const MAX_CORRESPONDENTS: usize = 500;
/// The most threads of one correspondent that are shown.
const MAX_THREADS_EACH: usize = 50;
/// The most threads of all correspondents together that are shown.
const MAX_THREADS: usize = 2000;
/// The most characters of a subject, a name or an address that are shown.
const MAX_LINE_CHARS: usize = 120;

/// A message that got no reply for one of these reasons counts as automatic mail.
const AUTOMATIC_REASONS: [NoReplyReason; 9] = [
    NoReplyReason::NullSender,
    NoReplyReason::SystemSender,
    NoReplyReason::AutoSubmitted,
    NoReplyReason::List,
    NoReplyReason::Precedence,
    NoReplyReason::SuppressAsked,
    NoReplyReason::Report,
    NoReplyReason::OurOwnReply,
    NoReplyReason::Spam,
];

impl AbsenceReport {
    /// Makes the report of `arrivals`, which must be sorted newest first. `cut` tells whether older
    /// ones were left out.
    #[must_use]
    pub fn of(
        arrivals: &[Arrival],
        (began, ended): (Option<UtcMillis>, Option<UtcMillis>),
        cut: bool,
    ) -> Self {
        let mut report = Self { began, ended, cut, messages: arrivals.len(), ..Self::default() };
        let mut index_by_address: HashMap<String, usize> = HashMap::new();
        let mut topics: HashMap<(usize, Option<ThreadId>), usize> = HashMap::new();
        for arrival in arrivals {
            match &arrival.no_reply_reason {
                None => report.answered += 1,
                Some(reason) => *report.unanswered.entry(reason.clone()).or_default() += 1,
            }
            let is_automatic = arrival
                .no_reply_reason
                .as_ref()
                .is_some_and(|code| AUTOMATIC_REASONS.iter().any(|reason| reason.code() == code));
            let key = Address::parse(&arrival.from.email).map_or_else(
                |_| arrival.from.email.to_lowercase(),
                |address| address.folded().to_string(),
            );
            let index = *index_by_address.entry(key).or_insert_with(|| {
                let (person, threads) = (arrival.from.clone(), Vec::new());
                report.correspondents.push(Correspondent {
                    person,
                    machine: true,
                    answered: false,
                    threads,
                });
                report.correspondents.len() - 1
            });
            let Some(correspondent) = report.correspondents.get_mut(index) else { continue };
            correspondent.machine &= is_automatic;
            correspondent.answered |= arrival.no_reply_reason.is_none();
            let person = &mut correspondent.person;
            person.name = person.name.take().or_else(|| arrival.from.name.clone());
            let topic = *topics.entry((index, arrival.thread)).or_insert_with(|| {
                correspondent.threads.push(Topic {
                    thread: arrival.thread,
                    subject: arrival.subject.clone(),
                    emails: Vec::new(),
                    unread: 0,
                    first: arrival.at,
                    last: arrival.at,
                });
                correspondent.threads.len() - 1
            });
            let Some(topic) = correspondent.threads.get_mut(topic) else { continue };
            topic.emails.push(arrival.email);
            topic.unread += usize::from(arrival.unread);
            topic.first = topic.first.min(arrival.at);
            topic.last = topic.last.max(arrival.at);
        }
        // The sort is stable: in each group, the one who wrote last stays first.
        report.correspondents.sort_by_key(|correspondent| correspondent.machine);
        report
    }

    #[must_use]
    pub fn title(&self) -> String {
        let people = self.correspondents.iter().filter(|one| !one.machine).count();
        let counted = |count: usize, singular: &str, plural: &str| {
            format!("{count} {}", if count == 1 { singular } else { plural })
        };
        let messages = counted(self.messages, "message", "messages");
        format!("While you were away: {messages}, {} wrote", counted(people, "person", "people"))
    }

    /// Returns the report as text. Times are in the zone with this IANA name, or else in the
    /// machine's.
    #[must_use]
    pub fn text(&self, zone: Option<&str>) -> String {
        let mut out = format!("{}\n{}\n", self.title(), self.summary(zone));
        let mut threads_left = MAX_THREADS;
        for (heading, machine) in HEADINGS {
            let group: Vec<&Correspondent> =
                self.correspondents.iter().filter(|one| one.machine == machine).collect();
            if group.is_empty() {
                continue;
            }
            push_line(&mut out, &format!("\n{heading}"));
            for one in group.iter().take(MAX_CORRESPONDENTS) {
                let answered = if one.answered { " (told that you are away)" } else { "" };
                push_line(&mut out, &format!("\n  {}{answered}", person_text(&one.person)));
                let shown = one.take_shown_threads(&mut threads_left);
                for topic in shown {
                    push_line(&mut out, &format!("    {}", topic.to_line(zone)));
                }
                push_more(&mut out, "    ", one.threads.len(), shown.len(), "threads");
            }
            push_more(&mut out, "\n  ", group.len(), MAX_CORRESPONDENTS, "senders");
        }
        out
    }

    /// Returns the report as HTML, with the same bounds and times as `text`.
    #[must_use]
    pub fn html(&self, zone: Option<&str>) -> String {
        let title = escape_html(&self.title());
        let mut out = format!(
            "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\
             <body>\n<h1>{title}</h1>\n"
        );
        let mut threads_left = MAX_THREADS;
        for line in self.summary(zone).lines() {
            push_line(&mut out, &format!("<p>{}</p>", escape_html(line)));
        }
        for (heading, machine) in HEADINGS {
            let group: Vec<&Correspondent> =
                self.correspondents.iter().filter(|one| one.machine == machine).collect();
            if group.is_empty() {
                continue;
            }
            push_line(&mut out, &format!("<h2>{heading}</h2>"));
            for one in group.iter().take(MAX_CORRESPONDENTS) {
                let answered = if one.answered { " <em>(told that you are away)</em>" } else { "" };
                push_line(
                    &mut out,
                    &format!("<h3>{}{answered}</h3>\n<ul>", escape_html(&person_text(&one.person))),
                );
                let shown = one.take_shown_threads(&mut threads_left);
                for topic in shown {
                    push_line(&mut out, &format!("<li>{}</li>", escape_html(&topic.to_line(zone))));
                }
                push_more(&mut out, "<li>", one.threads.len(), shown.len(), "threads");
                out.push_str("</ul>\n");
            }
            push_more(&mut out, "<p>", group.len(), MAX_CORRESPONDENTS, "senders");
        }
        out.push_str("</body></html>\n");
        out
    }

    /// Composes the report as a message from the owner to the owner. `id` must differ between the
    /// absences of an owner.
    #[must_use]
    pub fn message(&self, identity: &Identity, now: UtcMillis, id: &str) -> Vec<u8> {
        let owner =
            EmailAddress { name: identity.name.clone(), email: identity.primary.to_string() };
        let zone = identity.zone.as_deref();
        build(&Draft {
            from: owner.clone(),
            to: owner,
            subject: self.title(),
            date: now,
            message_id: format!(
                "away.{id}@{}",
                crate::model::address::fold_domain(identity.primary.domain())
            ),
            fields: vec![
                ("Auto-Submitted", "auto-generated".into()),
                ("X-Auto-Response-Suppress", "All".into()),
            ],
            text: self.text(zone),
            html: Some(self.html(zone)),
            ..Draft::default()
        })
    }

    fn summary(&self, zone: Option<&str>) -> String {
        let local_time = |at: Option<UtcMillis>| at.map(|at| at.local_in(zone));
        let span = match (local_time(self.began), local_time(self.ended)) {
            (Some(began), Some(ended)) => format!("From {began} until {ended}. "),
            (Some(began), None) => format!("Since {began}. "),
            (None, Some(ended)) => format!("Until {ended}. "),
            (None, None) => String::new(),
        };
        let reasons: Vec<String> =
            self.unanswered.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let not_answered = if reasons.is_empty() {
            String::new()
        } else {
            format!(" Not answered: {}.", reasons.join(", "))
        };
        let cut = if self.cut { "\nThere was more: only the newest is counted here." } else { "" };
        format!("{span}Answered: {}.{not_answered}{cut}", self.answered)
    }
}

const HEADINGS: [(&str, bool); 2] = [("People", false), ("Lists and automatic mail", true)];

impl Correspondent {
    /// Returns the newest threads that are shown, and subtracts their number from `threads_left`.
    fn take_shown_threads(&self, threads_left: &mut usize) -> &[Topic] {
        let shown = self.threads.len().min(MAX_THREADS_EACH).min(*threads_left);
        *threads_left = threads_left.saturating_sub(shown);
        self.threads.get(..shown).unwrap_or_default()
    }
}

impl Topic {
    fn to_line(&self, zone: Option<&str>) -> String {
        let subject = if self.subject.is_empty() {
            "(no subject)".to_owned()
        } else {
            shorten(&self.subject)
        };
        let count = match self.emails.len() {
            1 => String::new(),
            count => format!(", {count} messages"),
        };
        let unread = if self.unread > 0 { ", unread" } else { "" };
        let destroyed = if self.thread.is_none() { ", destroyed" } else { "" };
        format!("{} ({}{count}{unread}{destroyed})", subject, self.last.local_in(zone))
    }
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn push_more(out: &mut String, prefix: &str, total: usize, shown: usize, noun: &str) {
    let hidden = total.saturating_sub(shown);
    if hidden > 0 {
        push_line(out, &format!("{prefix}and {hidden} more {noun}"));
    }
}

fn person_text(person: &EmailAddress) -> String {
    match person.name.as_deref().map(shorten).filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} <{}>", shorten(&person.email)),
        None => shorten(&person.email),
    }
}

fn shorten(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(
        n: u64,
        from: &str,
        subject: &str,
        thread: Option<u64>,
        no_reply_reason: Option<&str>,
    ) -> Arrival {
        let (name, email) = from.split_once('|').unwrap_or(("", from));
        Arrival {
            email: EmailId(n),
            thread: thread.map(ThreadId),
            at: UtcMillis(1_795_251_600_000 - i64::try_from(n).unwrap() * 60_000),
            from: EmailAddress {
                name: Some(name.into()).filter(|name: &String| !name.is_empty()),
                email: email.into(),
            },
            subject: subject.into(),
            unread: n.is_multiple_of(2),
            no_reply_reason: no_reply_reason.map(str::to_owned),
        }
    }

    fn sample_report() -> AbsenceReport {
        let arrivals = [
            arrival(0, "news@lists.example", "Weekly", Some(9), Some("list")),
            arrival(1, "bob@example.net", "Re: Lunch", Some(1), Some("already-told")),
            arrival(2, "Eve <b>|eve@example.net", "<script>\r\nBcc: x", None, Some("spam")),
            arrival(3, "Bob|BOB@example.net", "Lunch", Some(1), None),
            arrival(4, "bob@example.net", "Dinner", Some(2), Some("already-told")),
            arrival(5, "zoe@example.net", "", Some(3), Some("not-addressed")),
        ];
        AbsenceReport::of(
            &arrivals,
            (Some(UtcMillis(1_795_000_000_000)), Some(UtcMillis(1_795_300_000_000))),
            false,
        )
    }

    #[test]
    fn report_is_by_correspondent_and_thread_with_people_first() {
        let report = sample_report();
        assert_eq!(report.title(), "While you were away: 6 messages, 2 people wrote");
        assert_eq!(
            (report.messages, report.answered, report.unanswered["already-told"]),
            (6, 1, 2)
        );
        let addresses: Vec<&str> =
            report.correspondents.iter().map(|one| one.person.email.as_str()).collect();
        assert_eq!(
            addresses,
            ["bob@example.net", "zoe@example.net", "news@lists.example", "eve@example.net"]
        );
        let bob = &report.correspondents[0];
        assert!(bob.answered && !bob.machine && bob.person.name.as_deref() == Some("Bob"));
        assert_eq!(bob.threads.len(), 2);
        assert_eq!(
            (bob.threads[0].subject.as_str(), bob.threads[0].emails.len()),
            ("Re: Lunch", 2)
        );
        assert_eq!(
            AbsenceReport::of(&[], (None, None), false).title(),
            "While you were away: 0 messages, 0 people wrote"
        );
    }

    #[test]
    fn names_and_subjects_of_strangers_are_escaped_and_kept_on_one_line() {
        let report = sample_report();
        let text = report.text(Some("Europe/Berlin"));
        for wanted in [
            "From 2026-11-18 12:06 until 2026-11-21 23:26. Answered: 1.",
            "Not answered: already-told 2, list 1, not-addressed 1, spam 1.",
            concat!(
                "\nPeople\n\n  Bob <bob@example.net> (told that you are away)\n",
                "    Re: Lunch (2026-11-21 09:59, 2 messages)\n",
            ),
            "    (no subject) (2026-11-21 09:55)\n",
            concat!(
                "\nLists and automatic mail\n\n  news@lists.example\n",
                "    Weekly (2026-11-21 10:00, unread)\n",
            ),
            "    <script> Bcc: x (2026-11-21 09:58, unread, destroyed)\n",
        ] {
            assert!(text.contains(wanted), "{wanted}\n---\n{text}");
        }
        let html = report.html(None);
        assert!(html.contains("&lt;script&gt; Bcc: x") && html.contains("Eve &lt;b&gt;"), "{html}");
        assert!(!html.contains("<script>") && html.ends_with("</html>\n"));
    }

    #[test]
    fn report_is_bounded_and_becomes_a_valid_message() {
        let many: Vec<Arrival> = (0..3000)
            .map(|n| {
                let from = if n < 1000 {
                    "bob@example.net".to_owned()
                } else {
                    format!("p{n}@example.net")
                };
                arrival(n, &from, &"x".repeat(10_000), Some(n), None)
            })
            .collect();
        let report = AbsenceReport::of(&many, (None, None), true);
        let text = report.text(None);
        // The subjects alone have 30 MB.
        assert!(text.len() < 400_000, "{}", text.len());
        // Of 1000 threads of Bob 50 are shown, and of 2001 senders 500.
        assert!(
            text.contains("and 950 more threads") && text.contains("and 1501 more senders"),
            "{text:.500}"
        );
        assert!(text.contains("There was more"));
        let topics: Vec<Arrival> = (0..9000)
            .map(|n| {
                arrival(
                    n,
                    &format!("p{}@example.net", n % 300),
                    &"\u{fc}".repeat(500),
                    Some(n),
                    None,
                )
            })
            .collect();
        let report = AbsenceReport::of(&topics, (None, None), false);
        // Each of 300 people has 30 threads: after 2000, all threads of the others are left out.
        for shown in [report.text(None), report.html(None)] {
            assert_eq!(shown.matches("\u{fc}\u{2026}").count(), 2000);
            assert!(shown.contains("and 30 more threads") && shown.len() < 1 << 20);
        }
        let identity = Identity {
            primary: Address::from_parts("ann", "example.org"),
            name: Some("Ann".into()),
            addresses: Vec::new(),
            alias_domains: Vec::new(),
            delimiter: None,
            zone: None,
        };
        let message = sample_report().message(&identity, UtcMillis(0), "7");
        let facts = crate::message::auto::AutoReplyFacts::of(&message);
        assert!(facts.auto_submitted.is_some() && message.is_ascii());
        assert_eq!(
            facts.subject.as_deref(),
            Some("While you were away: 6 messages, 2 people wrote")
        );
        assert_eq!(facts.message_id.as_deref(), Some("away.7@example.org"));
        assert!(message.split(|byte| *byte == b'\n').all(|line| line.len() <= 998));
    }
}
