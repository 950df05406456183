//! Generates the random changes that `TestDriver` applies to an account.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{ListingFilter, MailboxUid, UtcMillis};
use crate::query::tests::driver::{EPOCH, TIMES};
use crate::query::tests::naive::{
    ALIASES, BODY, FILES, HOPS, KEYWORDS, MARKS, NaiveDraft, PEOPLE, SUBJECTS,
};

/// One change. `which` selects an email by its index, modulo the number of emails.
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
    /// Several updates, or destructions for `None`. They are made in one commit; if `queued`, in
    /// one commit each, all of them queued before the first is awaited. Each change leads to a
    /// state that a client may have.
    Several {
        changes: Vec<(usize, Option<EmailPlacement>)>,
        queued: bool,
    },
    /// Files the message of an email once more.
    Copy {
        which: usize,
        mailboxes: BTreeSet<MailboxUid>,
        keywords: BTreeSet<String>,
        at: UtcMillis,
    },
    /// `which` selects one of the destroyed emails that are not purged.
    Restore {
        which: usize,
    },
    Wait {
        days: u32,
    },
    ExtendListing {
        uid: MailboxUid,
        filter: ListingFilter,
        limit: usize,
    },
    DropListing {
        uid: MailboxUid,
        filter: ListingFilter,
        limit: usize,
    },
    /// Runs upkeep in steps of `limit` rows. The bits of `kinds` are: 1 emails, 2 history, 4
    /// references to threads, 8 blobs.
    Upkeep {
        kinds: u8,
        limit: usize,
    },
    /// Folds the search index by this number of steps, with so many rows in a fold. This must
    /// change no answer.
    Fold {
        steps: usize,
        rows: usize,
    },
    /// Opens the store again; over RocksDB from the files that a power failure would leave.
    Reopen,
}

/// The mailboxes and the keywords of an email.
pub(super) type EmailPlacement = (BTreeSet<MailboxUid>, BTreeSet<String>);

/// Returns at least one change, and fewer than `limit`.
pub(super) fn ops(limit: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (draft(), mailboxes(), keywords(), 0..TIMES)
            .prop_map(|(draft, mailboxes, keywords, at)| {
                Op::Create { draft, mailboxes, keywords, at: UtcMillis(EPOCH + at) }
            }),
        4 => (0usize..12, mailboxes(), keywords())
            .prop_map(|(which, mailboxes, keywords)| Op::Update { which, mailboxes, keywords }),
        2 => (0usize..12).prop_map(|which| Op::Destroy { which }),
        2 => (several(), any::<bool>())
            .prop_map(|(changes, queued)| Op::Several { changes, queued }),
        1 => (0usize..12, mailboxes(), keywords(), 0..TIMES)
            .prop_map(|(which, mailboxes, keywords, at)| {
                Op::Copy { which, mailboxes, keywords, at: UtcMillis(EPOCH + at) }
            }),
        1 => (0usize..6).prop_map(|which| Op::Restore { which }),
        1 => (1u32..6).prop_map(|days| Op::Wait { days }),
        1 => (1u8..16, 1usize..4).prop_map(|(kinds, limit)| Op::Upkeep { kinds, limit }),
        3 => (listings(), proptest::sample::select(vec![1, 2, 100]))
            .prop_map(|((uid, filter), limit)| Op::ExtendListing { uid, filter, limit }),
        1 => (listings(), 1usize..20)
            .prop_map(|((uid, filter), limit)| Op::DropListing { uid, filter, limit }),
        2 => (1usize..6, 1usize..4).prop_map(|(steps, rows)| Op::Fold { steps, rows }),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..limit)
}

fn several() -> impl Strategy<Value = Vec<(usize, Option<EmailPlacement>)>> {
    let placement = proptest::option::weighted(0.8, (mailboxes(), keywords()));
    proptest::collection::vec((0usize..4, placement), 2..6)
}

fn listings() -> impl Strategy<Value = (MailboxUid, ListingFilter)> {
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
