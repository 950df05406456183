//! The random changes of an account.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{ListingFilter, MailboxUid, UtcMillis};
use crate::query::tests::driver::{EPOCH, TIMES};
use crate::query::tests::naive::{
    ALIASES, BODY, FILES, HOPS, KEYWORDS, MARKS, NaiveDraft, PEOPLE, SUBJECTS,
};

/// One change. `which` counts the live emails round.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Create {
        draft: NaiveDraft,
        mailboxes: BTreeSet<MailboxUid>,
        keywords: BTreeSet<String>,
        at: UtcMillis,
    },
    Update {
        which: usize,
        mailboxes: BTreeSet<MailboxUid>,
        keywords: BTreeSet<String>,
    },
    Destroy {
        which: usize,
    },
    /// Several such changes, where nothing is wished the end: in one commit, or in as many that are
    /// queued behind each other. Each takes a change number of its own, and is a state that a
    /// client may hold.
    Several {
        acts: Vec<(usize, Option<EmailPlacement>)>,
        queued: bool,
    },
    /// Files a second email of the same message in another place.
    Copy {
        which: usize,
        mailboxes: BTreeSet<MailboxUid>,
        keywords: BTreeSet<String>,
        at: UtcMillis,
    },
    /// `which` counts what was destroyed and has its tombstone.
    Restore {
        which: usize,
    },
    /// Days go by.
    Wait {
        days: u32,
    },
    /// A step of making a view, of so many emails.
    Make {
        uid: MailboxUid,
        filter: ListingFilter,
        most: usize,
    },
    /// A step of dropping one, of so many rows.
    Drop {
        uid: MailboxUid,
        filter: ListingFilter,
        most: usize,
    },
    /// Upkeep, of what the bits say: emails, history, threads, messages; in steps of so many rows.
    Keep {
        what: u8,
        most: usize,
    },
    /// Steps of folding the search index: no answer changes.
    Fold {
        steps: usize,
        rows: usize,
    },
    /// The process ends and another one opens what is there; on a disk, as the power that went left
    /// it.
    Reopen,
}

/// In which mailboxes an email is to be, and with which keywords.
pub(super) type EmailPlacement = (BTreeSet<MailboxUid>, BTreeSet<String>);

/// Up to `most` changes.
pub(super) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (draft(), mailboxes(), keywords(), 0..TIMES)
            .prop_map(|(draft, mailboxes, keywords, at)| {
                Op::Create { draft, mailboxes, keywords, at: UtcMillis(EPOCH + at) }
            }),
        4 => (0usize..12, mailboxes(), keywords())
            .prop_map(|(which, mailboxes, keywords)| Op::Update { which, mailboxes, keywords }),
        2 => (0usize..12).prop_map(|which| Op::Destroy { which }),
        2 => (several(), any::<bool>()).prop_map(|(acts, queued)| Op::Several { acts, queued }),
        1 => (0usize..12, mailboxes(), keywords(), 0..TIMES)
            .prop_map(|(which, mailboxes, keywords, at)| {
                Op::Copy { which, mailboxes, keywords, at: UtcMillis(EPOCH + at) }
            }),
        1 => (0usize..6).prop_map(|which| Op::Restore { which }),
        1 => (1u32..6).prop_map(|days| Op::Wait { days }),
        1 => (1u8..16, 1usize..4).prop_map(|(what, most)| Op::Keep { what, most }),
        3 => (views(), proptest::sample::select(vec![1, 2, 100]))
            .prop_map(|((uid, filter), most)| Op::Make { uid, filter, most }),
        1 => (views(), 1usize..20).prop_map(|((uid, filter), most)| Op::Drop { uid, filter, most }),
        2 => (1usize..6, 1usize..4).prop_map(|(steps, rows)| Op::Fold { steps, rows }),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..most)
}

fn several() -> impl Strategy<Value = Vec<(usize, Option<EmailPlacement>)>> {
    let filed = proptest::option::weighted(0.8, (mailboxes(), keywords()));
    proptest::collection::vec((0usize..4, filed), 2..6)
}

fn views() -> impl Strategy<Value = (MailboxUid, ListingFilter)> {
    ((0u32..4).prop_map(MailboxUid), proptest::sample::select(ListingFilter::ALL.to_vec()))
}

fn mailboxes() -> impl Strategy<Value = BTreeSet<MailboxUid>> {
    proptest::collection::btree_set((1u32..4).prop_map(MailboxUid), 1..3)
}

fn keywords() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set(
        proptest::sample::select(&KEYWORDS[..]).prop_map(str::to_owned),
        0..3,
    )
}

fn draft() -> impl Strategy<Value = NaiveDraft> {
    use proptest::option;
    let person = || 0..PEOPLE.len();
    let people = (
        option::weighted(0.9, person()),
        proptest::collection::vec(person(), 0..3),
        option::of(person()),
    );
    let texts = (
        option::weighted(0.9, 0..SUBJECTS.len()),
        proptest::collection::vec(0..BODY.len(), 0..4),
        option::weighted(0.3, 0..FILES.len()),
        option::weighted(0.3, 0..MARKS.len()),
    );
    let rest = (
        option::weighted(0.2, person()),
        option::weighted(0.8, 0u8..4),
        option::weighted(0.9, 0u8..4),
        proptest::collection::vec(0u8..4, 0..3),
        (option::of(0..ALIASES.len()), option::weighted(0.2, 0..HOPS.len())),
    );
    (people, texts, rest).prop_map(|((from, to, cc), (subject, body, file, mark), rest)| {
        let (bcc, sent, message_id, references, (alias, hop)) = rest;
        NaiveDraft {
            from,
            to,
            cc,
            bcc,
            subject,
            body,
            sent,
            file,
            mark,
            message_id,
            references,
            alias,
            hop,
        }
    })
}
