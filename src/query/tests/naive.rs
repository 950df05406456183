//! The naive account: implements RFC 8620 and RFC 8621 with vectors and full scans. Tests compare
//! the store and its queries with it.
//!
//! Messages are made from a few people, subjects, words, ids and times, which therefore coincide
//! often. Their properties come from the choices in `NaiveDraft`, not from parsing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{EmailId, MailboxCounts, MailboxUid, ModSeq, ThreadId, UtcMillis};
use crate::query::{
    Collation, Comparator, Condition, Filter, Query, QueryChangesAnswer, QuerySpec, SortProperty,
    Start,
};

/// Names, which may be empty, and addresses.
pub(super) const PEOPLE: [(&str, &str); 4] = [
    ("Ann Lee", "ann@a.example"),
    ("", "bob@b.example"),
    ("lee cook", "zoe@a.example"),
    ("Bob", "b.ann@c.example"),
];
/// Subject, base subject, and the folded subject that threads use.
pub(super) const SUBJECTS: [(&str, &str, &str); 6] = [
    ("Lunch big", "Lunch big", "lunchbig"),
    ("Re: lunch BIG", "lunch BIG", "lunchbig"),
    ("[x] Fwd: Lunch big (fwd)", "Lunch big", "lunchbig(fwd)"),
    ("Alpha plan", "Alpha plan", "alphaplan"),
    ("Re: alpha", "alpha", "alpha"),
    ("Re:", "", ""),
];
/// The words of bodies.
pub(super) const BODY: [&str; 5] = ["alpha", "Beta", "big", "LUNCH", "ann"];
/// Attachments: file name and media type.
pub(super) const FILES: [(&str, &str); 2] =
    [("plan.txt", "application/octet-stream"), ("big lunch.pdf", "application/pdf")];
/// Values of the field X-Mark.
pub(super) const MARKS: [&str; 3] = ["one", "ONE  two", "5.1"];
/// Addresses that emails are delivered to. The index has no text for the last.
pub(super) const ALIASES: [&str; 4] =
    ["me@a.example", "Shop@a.example", "me+list@b.example", "jürgen@a.example"];
/// Addresses to which earlier hops delivered a message.
pub(super) const HOPS: [&str; 2] = ["shop@a.example", "Old@c.example"];
pub(super) const KEYWORDS: [&str; 4] = ["$seen", "$flagged", "$draft", "work"];
/// The mailbox with role trash. The accounts of these tests have 1 Inbox, 2 Trash, 3 Archive.
pub(super) const TRASH: MailboxUid = MailboxUid(2);

/// The choices that make a message: indexes into the arrays above, and numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NaiveDraft {
    pub(super) from: Option<usize>,
    pub(super) to: Vec<usize>,
    pub(super) cc: Option<usize>,
    pub(super) bcc: Option<usize>,
    pub(super) subject: Option<usize>,
    pub(super) body: Vec<usize>,
    /// The minute in the Date field; `None` without the field.
    pub(super) sent: Option<u8>,
    pub(super) file: Option<usize>,
    pub(super) mark: Option<usize>,
    /// The number in the id, as in `references`.
    pub(super) message_id: Option<u8>,
    pub(super) references: Vec<u8>,
    /// The alias to which the message was delivered, with a trace prefix; `None` if it was
    /// appended.
    pub(super) alias: Option<usize>,
    pub(super) hop: Option<usize>,
}

impl NaiveDraft {
    pub(super) fn prefix(&self) -> String {
        self.alias.map_or_else(String::new, |at| {
            format!("Return-Path: <>\r\nDelivered-To: {}\r\n", ALIASES[at])
        })
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let person = |at: usize| match PEOPLE[at] {
            ("", email) => email.to_owned(),
            (name, email) => format!("{name} <{email}>"),
        };
        let ids =
            |ids: &[u8]| ids.iter().map(|id| format!("<r{id}@x>")).collect::<Vec<_>>().join(" ");
        let mut fields: Vec<(&'static str, String)> = Vec::new();
        fields.extend(self.from.map(|at| ("From", person(at))));
        if !self.to.is_empty() {
            fields
                .push(("To", self.to.iter().map(|at| person(*at)).collect::<Vec<_>>().join(", ")));
        }
        fields.extend(self.cc.map(|at| ("Cc", person(at))));
        fields.extend(self.bcc.map(|at| ("Bcc", person(at))));
        fields.extend(self.subject.map(|at| ("Subject", SUBJECTS[at].0.to_owned())));
        fields.extend(
            self.sent.map(|minute| ("Date", format!("Sat, 21 Nov 2026 09:{minute:02}:00 +0000"))),
        );
        fields.extend(self.message_id.map(|id| ("Message-ID", ids(&[id]))));
        if !self.references.is_empty() {
            fields.push(("References", ids(&self.references)));
        }
        fields.extend(self.hop.map(|at| ("Delivered-To", HOPS[at].to_owned())));
        fields.extend(self.mark.map(|at| ("X-Mark", MARKS[at].to_owned())));
        if self.file.is_some() {
            fields.push(("Content-Type", "multipart/mixed; boundary=cut".to_owned()));
        }
        fields
    }

    fn text(&self) -> String {
        self.body.iter().map(|at| BODY[*at]).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn raw(&self) -> String {
        let header: String =
            self.fields().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = self.text();
        match self.file {
            None => format!("{header}\r\n{text}\r\n"),
            Some(at) => format!(
                "{header}\r\n--cut\r\n\r\n{text}\r\n--cut\r\nContent-Type: {}\r\n\
                 Content-Disposition: attachment; filename=\"{}\"\r\n\r\nxyz\r\n--cut--\r\n",
                FILES[at].1, FILES[at].0
            ),
        }
    }

    fn topic(&self) -> &'static str {
        self.subject.map_or("", |at| SUBJECTS[at].2)
    }

    /// Returns the texts of a kind: a field, "file" for names of attachments, or "body". A phrase
    /// must be within one of them.
    fn texts(&self, kind: &str) -> Vec<String> {
        let people = |of: &mut dyn Iterator<Item = usize>| {
            of.flat_map(|at| [PEOPLE[at].0.to_owned(), PEOPLE[at].1.to_owned()]).collect::<Vec<_>>()
        };
        match kind {
            "from" => people(&mut self.from.into_iter()),
            "to" => people(&mut self.to.iter().copied()),
            "cc" => people(&mut self.cc.into_iter()),
            "bcc" => people(&mut self.bcc.into_iter()),
            "subject" => self.subject.map(|at| SUBJECTS[at].0.to_owned()).into_iter().collect(),
            "file" => self.file.map(|at| FILES[at].0.to_owned()).into_iter().collect(),
            _ => vec![self.text()],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NaiveMail {
    pub(super) id: EmailId,
    pub(super) thread: ThreadId,
    pub(super) mailboxes: BTreeSet<MailboxUid>,
    pub(super) keywords: BTreeSet<String>,
    pub(super) received_at: UtcMillis,
    pub(super) draft: NaiveDraft,
}

impl NaiveMail {
    pub(super) fn size(&self) -> u64 {
        (self.draft.prefix().len() + self.draft.raw().len()) as u64
    }

    fn is_unread(&self) -> bool {
        !self.keywords.contains("$seen") && !self.keywords.contains("$draft")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NaiveAccount {
    pub(super) mails: Vec<NaiveMail>,
    /// The last change of each email that is not purged.
    pub(super) changed: BTreeMap<EmailId, ModSeq>,
    /// The thread of each pair of a message id and a folded subject.
    refs: BTreeMap<(u8, &'static str), ThreadId>,
    pub(super) last_thread: u64,
}

impl NaiveAccount {
    /// Returns the thread of a new message: the oldest one that has emails, and that has an id and
    /// the subject in common with the message. If there is none, the thread is new.
    pub(super) fn thread_for(&mut self, draft: &NaiveDraft) -> ThreadId {
        let keys: Vec<_> = draft
            .message_id
            .iter()
            .chain(&draft.references)
            .map(|id| (*id, draft.topic()))
            .collect();
        let has_emails = |thread: &ThreadId| self.mails.iter().any(|mail| mail.thread == *thread);
        let named: Vec<_> =
            keys.iter().map(|key| self.refs.get(key).copied().filter(has_emails)).collect();
        let thread = named.iter().flatten().min().copied().unwrap_or_else(|| {
            self.last_thread += 1;
            ThreadId(self.last_thread)
        });
        for (key, named) in keys.into_iter().zip(named) {
            self.refs.insert(key, named.unwrap_or(thread));
        }
        thread
    }

    fn matches(&self, filter: &Filter, mail: &NaiveMail) -> bool {
        match filter {
            Filter::And(parts) => parts.iter().all(|part| self.matches(part, mail)),
            Filter::Or(parts) => parts.iter().any(|part| self.matches(part, mail)),
            Filter::Not(parts) => !parts.iter().any(|part| self.matches(part, mail)),
            Filter::Is(condition) => self.is(condition, mail),
        }
    }

    fn is(&self, condition: &Condition, mail: &NaiveMail) -> bool {
        let mut thread = self.mails.iter().filter(|other| other.thread == mail.thread);
        let text = |text: &str, kinds: &[&str]| {
            let texts: Vec<String> = kinds.iter().flat_map(|kind| mail.draft.texts(kind)).collect();
            let has_no_word = |phrase: &str| !phrase.contains(char::is_alphanumeric);
            phrases(text).iter().all(|phrase| {
                has_no_word(phrase) || texts.iter().any(|text| contains(text, phrase))
            })
        };
        match condition {
            Condition::InMailbox(uid) => mail.mailboxes.contains(uid),
            Condition::InMailboxOtherThan(uids) => {
                mail.mailboxes.iter().any(|uid| !uids.contains(uid))
            }
            Condition::Before(at) => mail.received_at < *at,
            Condition::After(at) => mail.received_at >= *at,
            Condition::MinSize(bytes) => mail.size() >= *bytes,
            Condition::MaxSize(bytes) => mail.size() < *bytes,
            Condition::AllInThreadHaveKeyword(word) => {
                thread.all(|other| other.keywords.contains(word))
            }
            Condition::SomeInThreadHaveKeyword(word) => {
                thread.any(|other| other.keywords.contains(word))
            }
            Condition::NoneInThreadHaveKeyword(word) => {
                !thread.any(|other| other.keywords.contains(word))
            }
            Condition::HasKeyword(word) => mail.keywords.contains(word),
            Condition::NotKeyword(word) => !mail.keywords.contains(word),
            Condition::HasAttachment(expected) => mail.draft.file.is_some() == *expected,
            Condition::Text(value) => {
                text(value, &["from", "to", "cc", "bcc", "subject", "body", "file"])
            }
            Condition::From(value) => text(value, &["from"]),
            Condition::To(value) => text(value, &["to"]),
            Condition::Cc(value) => text(value, &["cc"]),
            Condition::Bcc(value) => text(value, &["bcc"]),
            Condition::Subject(value) => text(value, &["subject"]),
            Condition::Body(value) => text(value, &["body"]),
            Condition::AttachmentName(value) => text(value, &["file"]),
            Condition::AttachmentType(value) => mail.draft.file.is_some_and(|at| {
                let has_subtype = value.split_once('/').is_some_and(|(_, kind)| !kind.is_empty());
                if has_subtype {
                    FILES[at].1 == value
                } else {
                    FILES[at].1.split('/').next() == value.split('/').next()
                }
            }),
            Condition::Header { name, text } => {
                let mut fields = mail.draft.fields();
                fields.extend(mail.draft.alias.map(|at| ("Delivered-To", ALIASES[at].to_owned())));
                fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name)).any(
                    |(_, value)| {
                        let value =
                            value.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
                        phrases(text.as_deref().unwrap_or_default())
                            .iter()
                            .all(|part| value.contains(&part.to_lowercase()))
                    },
                )
            }
        }
    }

    pub(super) fn list(&self, spec: &QuerySpec) -> Vec<EmailId> {
        let mut found: Vec<&NaiveMail> =
            self.mails.iter().filter(|mail| self.matches(&spec.filter, mail)).collect();
        found.sort_by_key(|mail| mail.id);
        if spec.sort.iter().any(|comparator| {
            comparator.property == SortProperty::ReceivedAt && comparator.ascending
        }) {
            found.reverse();
        }
        for comparator in spec.sort.iter().rev() {
            found.sort_by(|one, other| {
                let order = self.key(comparator, one).cmp(&self.key(comparator, other));
                if comparator.ascending { order } else { order.reverse() }
            });
        }
        let mut threads = BTreeSet::new();
        found.retain(|mail| !spec.collapse || threads.insert(mail.thread));
        found.iter().map(|mail| mail.id).collect()
    }

    pub(super) fn keys(&self, sort: &[Comparator], id: EmailId) -> Option<Vec<(i64, String)>> {
        let mail = self.mails.iter().find(|mail| mail.id == id)?;
        Some(sort.iter().map(|comparator| self.key(comparator, mail)).collect())
    }

    fn key(&self, comparator: &Comparator, mail: &NaiveMail) -> (i64, String) {
        let mut thread = self.mails.iter().filter(|other| other.thread == mail.thread);
        // The texts are ASCII, for which the two collations that ignore case are the same.
        let text = |text: &str| {
            (
                0,
                if comparator.collation == Collation::Octet {
                    text.to_owned()
                } else {
                    text.to_ascii_uppercase()
                },
            )
        };
        let person = |at: Option<usize>| match at.map(|at| PEOPLE[at]) {
            None => text(""),
            Some(("", email)) => text(email),
            Some((name, _)) => text(name),
        };
        let number = |number: i64| (number, String::new());
        match &comparator.property {
            SortProperty::ReceivedAt => number(mail.received_at.0),
            SortProperty::SentAt => number(mail.draft.sent.map_or(-1, i64::from)),
            SortProperty::Size => number(i64::try_from(mail.size()).unwrap()),
            SortProperty::From => person(mail.draft.from),
            SortProperty::To => person(mail.draft.to.first().copied()),
            SortProperty::Subject => text(mail.draft.subject.map_or("", |at| SUBJECTS[at].1)),
            SortProperty::HasKeyword(word) => number(i64::from(mail.keywords.contains(word))),
            SortProperty::AllInThreadHaveKeyword(word) => {
                number(i64::from(thread.all(|other| other.keywords.contains(word))))
            }
            SortProperty::SomeInThreadHaveKeyword(word) => {
                number(i64::from(thread.any(|other| other.keywords.contains(word))))
            }
        }
    }

    /// Returns the results in the window and the index of the first of them, or `None` for
    /// `anchorNotFound` (RFC 8620 §5.5).
    pub(super) fn page(&self, query: &Query) -> Option<(Vec<EmailId>, usize)> {
        let list = self.list(&query.spec);
        let signed = |number: usize| i64::try_from(number).unwrap();
        let start = match query.window.start {
            Start::Anchor { id, offset } => {
                signed(list.iter().position(|result| *result == id)?) + offset
            }
            Start::Position(position) if position < 0 => position + signed(list.len()),
            Start::Position(position) => position,
        };
        let start = usize::try_from(start.max(0)).unwrap();
        let window = list.into_iter().skip(start).take(query.window.limit.unwrap_or(usize::MAX));
        Some((window.collect(), start))
    }

    /// Returns the counts of a mailbox (RFC 8621 §2). In the Trash only emails in the Trash make a
    /// thread unread, elsewhere only those that are also outside the Trash.
    pub(super) fn counts(&self, uid: MailboxUid) -> MailboxCounts {
        let in_mailbox: Vec<&NaiveMail> =
            self.mails.iter().filter(|mail| mail.mailboxes.contains(&uid)).collect();
        let threads: BTreeSet<ThreadId> = in_mailbox.iter().map(|mail| mail.thread).collect();
        let can_be_unread = |mail: &&NaiveMail| {
            if uid == TRASH {
                mail.mailboxes.contains(&TRASH)
            } else {
                mail.mailboxes != BTreeSet::from([TRASH])
            }
        };
        let is_unread = |thread: &&ThreadId| {
            let mut mails =
                self.mails.iter().filter(|mail| mail.thread == **thread).filter(can_be_unread);
            mails.any(NaiveMail::is_unread)
        };
        MailboxCounts {
            total_emails: in_mailbox.len() as u64,
            unread_emails: in_mailbox.iter().filter(|mail| mail.is_unread()).count() as u64,
            total_threads: threads.len() as u64,
            unread_threads: threads.iter().filter(is_unread).count() as u64,
        }
    }
}

/// Applies changes to cached results as a client does by RFC 8620 §5.6; `None` is a result that is
/// not cached. By erratum 6604, results after the first gap are dropped if a removed email was not
/// cached.
pub(super) fn apply_changes(
    cached: &[Option<EmailId>],
    changes: &QueryChangesAnswer,
    total: usize,
) -> Vec<Option<EmailId>> {
    let mut list = cached.to_vec();
    let mut was_uncached = false;
    for removed in &changes.removed {
        match list.iter().position(|cached| *cached == Some(*removed)) {
            Some(at) => {
                list.remove(at);
            }
            None => was_uncached = true,
        }
    }
    if was_uncached && let Some(gap) = list.iter().position(Option::is_none) {
        list[gap..].fill(None);
    }
    for (index, id) in &changes.added {
        if list.len() < *index {
            list.resize(*index, None);
        }
        list.insert(*index, Some(*id));
    }
    list.resize(total, None);
    list
}

/// Returns the minimum of changes from the old results to the new ones: the removed emails, and the
/// added ones with their index. A `moved` email is in both. Changes after `up_to` are omitted.
pub(super) fn minimal_changes(
    old: &[EmailId],
    new: &[EmailId],
    up_to: Option<EmailId>,
    moved: impl Fn(EmailId) -> bool,
) -> (BTreeSet<EmailId>, Vec<(usize, EmailId)>) {
    let end =
        |list: &[EmailId]| list.iter().position(|id| Some(*id) == up_to).unwrap_or(list.len());
    let removed =
        old.iter().take(end(old).saturating_add(1)).filter(|id| !new.contains(id) || moved(**id));
    let added = new.iter().copied().enumerate().take(end(new).saturating_add(1));
    (removed.copied().collect(), added.filter(|(_, id)| !old.contains(id) || moved(*id)).collect())
}

/// Splits a search text into quoted phrases and, at white space, into words (RFC 8621 §4.4.1).
fn phrases(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|c| *c == '"' || *c == '\'');
        let (piece, after) = match quote.and_then(|quote| rest[1..].split_once(quote)) {
            Some(found) => found,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        out.push(piece.to_owned());
        rest = after.trim();
    }
    out
}

fn contains(text: &str, phrase: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (text, phrase) = (words(text), words(phrase));
    text.windows(phrase.len()).any(|words| words == phrase)
}
