//! Fuzz bodies of what is stored: rows, blocks of the search index, and keys.

use std::cmp::Reverse;
use std::fmt::Debug;

use super::{Choices, bounded};
use crate::model::{
    AccountId, AccountRow, Action, ActionId, AddressRow, BlobHash, Decision, EmailId,
    EmailMetadata, EmailSubmission, Listing, ListingFilter, Mailbox, MailboxUid, MessageRows,
    ModSeq, ObjectId, ObjectKind, PushSubscription, RuleHits, SenderIdentity, Shape,
    ShareNotification, SieveScript, ThreadId, ThreadKey, Token, ToldKey, UtcMillis,
    VacationResponse, WantedTokens,
};
use crate::store::row::block::{BlockReader, BlockWriter, Posting, read_block};
use crate::store::row::fold::{fold_emails, read_fold_emails};
use crate::store::row::{
    self, BlobBytes, BlobRow, Row, decode_content, decode_frame, decode_tokens,
    decode_wanted_tokens, encode_content, encode_tokens,
};
use crate::store::table::codec::{KeyTime, Prefix};
use crate::store::table::folds::{FoldId, FoldKey};
use crate::store::table::keys::*;
use crate::store::table::{self, Table, decode_key};
use crate::store::{AccountStateRow, DeliveryRow, EncodedMessage, Error, Folds, Thread, ToldRow};

/// Decodes any bytes as a row of almost every type. A row of most types must be the same after it
/// is encoded and decoded again. An error must name the key of the damaged row.
pub fn row(data: &[u8]) {
    let data = bounded(data);
    check_row::<AccountRow>(data);
    check_row::<AddressRow>(data);
    check_row::<AccountStateRow>(data);
    check_row::<EmailMetadata>(data);
    check_row::<Thread>(data);
    check_row::<Mailbox>(data);
    check_row::<VacationResponse>(data);
    check_row::<ToldRow>(data);
    check_row::<DeliveryRow>(data);
    check_row::<Decision>(data);
    check_row::<Action>(data);
    check_row::<row::HistoryRow>(data);
    check_row::<row::SweepRow>(data);
    check_row::<row::UploadRow>(data);
    check_row::<row::ObjectRow<SenderIdentity>>(data);
    check_row::<row::ObjectRow<ShareNotification>>(data);
    check_row::<row::ObjectRow<EmailSubmission>>(data);
    check_row::<row::ObjectRow<PushSubscription>>(data);
    check_row::<row::ObjectRow<SieveScript>>(data);
    check_row::<row::ScriptSource>(data);
    check_row::<row::ScriptErrorsRow>(data);
    check_row::<row::DuplicateRow>(data);
    check_row::<RuleHits>(data);
    check_row::<Folds>(data);
    let _read = (
        decoded(row::decode_outbox_message(b"key", data)),
        decoded(row::Destination::decode(b"key", data)),
    );
    if let Some(same) = decoded(row::SameAction::decode(b"key", data)) {
        assert_eq!(row::SameAction::decode(b"key", &same.encode()), Ok(same));
    }
    let tokens = decoded(decode_tokens(b"key", data));
    let mut words: Vec<u32> = tokens
        .iter()
        .flat_map(|tokens| tokens.words.iter().step_by(3))
        .map(|word| word.hash)
        .collect();
    words.dedup();
    let wanted = WantedTokens { words, texts: false };
    let found = decoded(decode_wanted_tokens(b"key", data, &wanted));
    if let Some(tokens) = &tokens {
        let all = tokens.words.iter().filter(|word| wanted.words.contains(&word.hash));
        assert!(found.as_ref().is_some_and(|found| found.words.iter().eq(all)));
    }
    if let Some((prefix, content)) = decoded(decode_content(b"key", data)) {
        let rows = MessageRows { content: content.clone(), ..MessageRows::default() };
        let encoded = encode_content(&prefix, &EncodedMessage::new(&rows).content);
        assert_eq!(decode_content(b"key", &encoded), Ok((prefix, content)));
    }
    if let Some(tokens) = tokens {
        let ascending = tokens.words.iter().is_sorted_by_key(|word| word.hash);
        assert!(ascending && tokens.words.iter().all(|word| word.positions.is_sorted()));
        let rows = MessageRows { tokens: tokens.clone(), ..MessageRows::default() };
        let encoded = encode_tokens(b"", &EncodedMessage::new(&rows).tokens);
        assert_eq!(decode_tokens(b"key", &encoded), Ok(tokens));
    }
    if let Some(blob) = decoded(BlobRow::decode(b"key", data)) {
        let again = blob.encode();
        assert_eq!(BlobRow::decode(b"key", &again), Ok(blob));
    }
    let blob = BlobRow { at: UtcMillis(-1), bytes: BlobBytes::Inline(data) };
    let row = blob.encode();
    assert_eq!(BlobRow::decode(b"key", &row), Ok(blob));
    assert!(decoded(decode_frame(b"key", data)).is_none_or(|frame| frame.len() < data.len()));
}

/// Checks that a row, if the bytes are one, is the same after it is encoded and decoded again.
fn check_row<R: Row + PartialEq + Debug>(data: &[u8]) {
    if let Some(row) = decoded(R::decode(b"key", data)) {
        assert_eq!(R::decode(b"key", &row.encode()), Ok(row));
    }
}

/// Returns what was decoded; `None` if the row is damaged. Any other error fails.
fn decoded<T>(read: Result<T, Error>) -> Option<T> {
    match read {
        Ok(row) => Some(row),
        Err(Error::Corrupt { key, what, .. }) => {
            // The key is `key`, in hex.
            assert!(key == "6b6579" && !what.is_empty());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Decodes any bytes as a list of folded emails, and then as a block of postings: the two forms of
/// the rows of `search_folds`. Each gives an error or a result of which this holds:
///
/// - It is in order, and has no more entries than there are bytes.
/// - It is the same after it is encoded and decoded again. Postings may come back in more pieces,
///   because one that does not fit into a block is split (`entries_of`).
/// - A block that is read for a single token gives the postings of that token, and no others.
pub fn fold(data: &[u8]) {
    let data = bounded(data);
    if let Some(ids) = decoded(read_fold_emails(b"key", data)) {
        assert!(ids.is_sorted() && ids.len() <= data.len());
        assert_eq!(read_fold_emails(b"key", &fold_emails(&ids)), Ok(ids));
    }
    let Some(postings) = decoded(postings(data)) else { return };
    let positions: usize = postings.iter().map(|posting| posting.positions.len()).sum();
    assert!(postings.len() + positions <= data.len());
    let in_order =
        |one: &Posting, next: &Posting| (&one.token, one.ordinal) <= (&next.token, next.ordinal);
    assert!(postings.windows(2).all(|pair| in_order(&pair[0], &pair[1])));
    let mut blocks = BlockWriter::new(data.len() * 4);
    for one in &postings {
        blocks.push(&one.token, one.ordinal, one.fields, &one.positions);
    }
    // A merge copies postings without reading their positions.
    let mut copied = BlockWriter::new(data.len() * 4);
    let mut reader = BlockReader::new(b"key", data).unwrap();
    while let Some(one) = reader.next_encoded(b"key", |_, _| Some(true)).unwrap() {
        copied.push_encoded(&one);
    }
    for blocks in [blocks.finish(), copied.finish()] {
        let again: Vec<Posting> =
            blocks.iter().flat_map(|block| postings_of(&block.value)).collect();
        assert_eq!(entries_of(&again), entries_of(&postings));
    }
    // Reading a single token, and nothing after it, finds the same postings.
    if let Some(middle) = postings.get(postings.len() / 2).map(|posting| posting.token.clone()) {
        let mut found = Vec::new();
        let wanted = |token: &Token, _: u32| (*token <= middle).then_some(*token == middle);
        let read = read_block(b"key", data, wanted, |posting| found.push(posting));
        let all: Vec<Posting> =
            postings.into_iter().filter(|posting| posting.token == middle).collect();
        assert_eq!((read, found), (Ok(()), all));
    }
}

/// Token, ordinal and fields of a posting, with one of its positions, or none.
type PostingEntry = (Token, u32, u16, Option<u32>);

/// Returns what postings say, however they are split: one entry for each position, and one for each
/// posting that has no positions because its token is a text.
pub(super) fn entries_of(all: &[Posting]) -> Vec<PostingEntry> {
    let mut entries = Vec::new();
    for one in all {
        let entry = |at| (one.token.clone(), one.ordinal, one.fields, at);
        entries.extend(one.positions.iter().map(|at| entry(Some(*at))));
        if one.positions.is_empty() {
            entries.push(entry(None));
        }
    }
    entries
}

fn postings(data: &[u8]) -> Result<Vec<Posting>, Error> {
    let mut out = Vec::new();
    read_block(b"key", data, |_, _| Some(true), |posting| out.push(posting)).map(|()| out)
}

fn postings_of(data: &[u8]) -> Vec<Posting> {
    postings(data).unwrap()
}

/// Encodes two keys of most tables. Keys sort as their bytes do and decode to themselves. Reads the
/// input as an id of four kinds, too: each id has exactly one spelling.
pub fn key(data: &[u8]) {
    let mut choices = Choices(data);
    let (one, other) = (KeyFields::of(&mut choices), KeyFields::of(&mut choices));
    one.check_keys(&other);
    let text = String::from_utf8_lossy(data);
    let check_spelling = |spelling: Option<String>| {
        assert!(spelling.is_none_or(|spelling| spelling == text), "{text} has two spellings");
    };
    check_spelling(text.parse::<AccountId>().ok().map(|id| id.to_string()));
    check_spelling(text.parse::<EmailId>().ok().map(|id| id.to_string()));
    check_spelling(text.parse::<MailboxUid>().ok().map(|id| id.to_string()));
    check_spelling(text.parse::<BlobHash>().ok().map(|id| id.to_string()));
    let (email, blob) = (one.email, BlobHash(one.hash));
    assert_eq!((email.to_string().parse(), blob.to_string().parse()), (Ok(email), Ok(blob)));
}

/// Values of which keys are made. A number that a key needs and that has no field of its own is
/// taken from another field.
struct KeyFields {
    account: AccountId,
    uid: MailboxUid,
    filter: ListingFilter,
    shape: Shape,
    email: EmailId,
    number: u64,
    at: KeyTime,
    hash: [u8; 32],
}

const FILTERS: [ListingFilter; 6] = [
    ListingFilter::Every,
    ListingFilter::Unseen,
    ListingFilter::Flagged,
    ListingFilter::ThreadUnseen,
    ListingFilter::ThreadFlagged,
    ListingFilter::ThreadUntouched,
];

/// Checks that two keys of a table sort as their bytes do, that the first decodes to itself, and
/// that it does not decode without its last byte.
fn agree<T: Table<Key: Ord + Debug>>(keys: [T::Key; 2]) {
    let bytes = keys.each_ref().map(Prefix::encode);
    let ([one, other], [one_bytes, other_bytes]) = (keys, bytes);
    assert_eq!(one.cmp(&other), one_bytes.cmp(&other_bytes), "{one:?} and {other:?}");
    assert_eq!(decode_key::<T>(&one_bytes).as_ref(), Ok(&one));
    let short = one_bytes.split_last().map(|(_, short)| short).unwrap_or_default();
    assert!(decode_key::<T>(short).is_err(), "{one:?} reads without its last byte");
}

impl KeyFields {
    fn of(choices: &mut Choices<'_>) -> Self {
        Self {
            account: AccountId(choices.u32()),
            uid: MailboxUid(choices.u32()),
            filter: FILTERS.get(choices.below(6)).copied().unwrap_or(ListingFilter::Every),
            shape: if choices.byte() & 1 == 0 { Shape::Emails } else { Shape::Threads },
            email: EmailId(choices.u64()),
            number: choices.u64(),
            at: UtcMillis((choices.u64() >> 1).cast_signed()).into(),
            hash: choices.fixed(),
        }
    }

    fn listing(&self) -> Listing {
        Listing { uid: self.uid, filter: self.filter, shape: self.shape }
    }

    fn user(&self) -> AccountId {
        AccountId(self.uid.0)
    }

    fn blob(&self) -> BlobHash {
        BlobHash(self.hash)
    }

    /// Checks the keys of most tables.
    fn check_keys(&self, other: &Self) {
        let all = [self, other];
        agree::<table::Accounts>(all.map(|of| AccountKey { account: of.account }));
        agree::<table::EmailMetadata>(
            all.map(|of| EmailKey { account: of.account, email: of.email }),
        );
        agree::<table::EmailByModseq>(
            all.map(|of| ModSeqKey { account: of.account, modseq: ModSeq(of.number) }),
        );
        agree::<table::Threads>(
            all.map(|of| ThreadIdKey { account: of.account, thread: ThreadId(of.number) }),
        );
        agree::<table::EmailByThread>(all.map(|of| {
            let (account, thread, email) = (of.account, ThreadId(of.number), of.email);
            ThreadEmailKey { account, thread, email }
        }));
        agree::<table::MailboxEmailList>(all.map(|of| {
            let (removed, added) = (ModSeq(of.number), ModSeq(of.email.0));
            ListingHistoryKey { account: of.account, listing: of.listing(), removed, added }
        }));
        agree::<table::MailboxEmailIndex>(all.map(|of| {
            let (account, listing, email) = (of.account, of.listing(), of.email);
            ListingEmailKey { account, listing, email }
        }));
        agree::<table::MailboxRank>(all.map(|of| {
            let (account, listing, level, boundary) =
                (of.account, of.listing(), of.filter as u8, of.email);
            RankKey { account, listing, level, boundary }
        }));
        agree::<table::MailboxThreadIndex>(all.map(|of| {
            let (mailbox, filter, thread) = (of.uid, of.filter, ThreadId(of.number));
            ThreadIndexKey { account: of.account, mailbox, filter, thread, email: of.email }
        }));
        agree::<table::Mailboxes>(
            all.map(|of| MailboxKey { account: of.account, mailbox: of.uid }),
        );
        agree::<table::Subscriptions>(all.map(|of| {
            let (account, mailbox, subscriber) = (of.account, of.uid, of.user());
            SubscriptionKey { account, mailbox, subscriber }
        }));
        agree::<table::ThreadRefs>(
            all.map(|of| ThreadRefKey { account: of.account, key: ThreadKey(of.hash) }),
        );
        agree::<table::Deliveries>(
            all.map(|of| DeliveryKey { account: of.account, hash: of.hash }),
        );
        agree::<table::DeliveryByTime>(all.map(|of| {
            let (account, at, hash) = (of.account, of.at, of.hash);
            DeliveryTimeKey { account, at, hash }
        }));
        agree::<table::ScriptSources>(
            all.map(|of| ScriptKey { account: of.account, script: ObjectId(of.number) }),
        );
        agree::<table::ScriptHits>(all.map(|of| ScriptHitsKey {
            account: of.account,
            script: ObjectId(of.number),
            rule: of.uid.0,
        }));
        agree::<table::Duplicates>(
            all.map(|of| DuplicateKey { account: of.account, hash: of.hash }),
        );
        agree::<table::DuplicateByTime>(all.map(|of| {
            let (account, until, hash) = (of.account, of.at, of.hash);
            DuplicateTimeKey { account, until, hash }
        }));
        agree::<table::VacationTold>(
            all.map(|of| VacationToldKey { account: of.account, told: ToldKey(of.hash) }),
        );
        agree::<table::ToldByTime>(all.map(|of| {
            let (account, at, told) = (of.account, of.at, ToldKey(of.hash));
            ToldTimeKey { account, at, told }
        }));
        agree::<table::Decisions>(all.map(|of| {
            let (account, at, email) = (of.account, Reverse(of.at), of.email);
            DecisionKey { account, at, email }
        }));
        agree::<table::EmailPurge>(all.map(|of| PurgeKey {
            account: of.account,
            at: of.at,
            email: of.email,
        }));
        agree::<table::History>(all.map(|of| HistoryKey { account: of.account, at: of.at }));
        agree::<table::Sweeps>(
            all.map(|of| SweepKey { account: of.account, number: of.filter as u8 }),
        );
        agree::<table::Shared>(all.map(|of| SharedKey { user: of.user(), account: of.account }));
        agree::<table::SearchFolds>(all.map(|of| {
            let fold = FoldId { level: of.filter as u8, number: of.number };
            FoldKey::emails(of.account, fold, of.uid.0)
        }));
        Self::check_message_keys(all);
        Self::check_object_keys(all);
    }

    fn check_message_keys(all: [&Self; 2]) {
        let action = |of: &Self| ActionId(of.number);
        agree::<table::Blobs>(all.map(|of| BlobKey { blob: of.blob() }));
        agree::<table::BlobFrames>(
            all.map(|of| BlobFrameKey { blob: of.blob(), number: of.uid.0 }),
        );
        agree::<table::BlobRefs>(all.map(|of| {
            let (blob, account, email) = (of.blob(), of.account, of.email);
            BlobRefKey { blob, account, email }
        }));
        agree::<table::BlobPurge>(all.map(|of| BlobPurgeKey { at: of.at, blob: of.blob() }));
        agree::<table::Outbox>(all.map(|of| ActionKey { account: of.account, action: action(of) }));
        agree::<table::OutboxDue>(all.map(|of| {
            let wake = WakeCondition::Due(of.at.into());
            DueKey { wake, account: of.account, action: action(of) }
        }));
        agree::<table::OutboxBlobs>(all.map(|of| {
            let (blob, account) = (of.blob(), of.account);
            ActionBlobKey { blob, account, action: action(of) }
        }));
        agree::<table::Uploads>(all.map(|of| {
            let (account, user, blob) = (of.account, of.user(), of.blob());
            UploadKey { account, user, blob }
        }));
        agree::<table::UploadBlobs>(all.map(|of| {
            let (blob, account, user) = (of.blob(), of.account, of.user());
            UploadBlobKey { blob, account, user }
        }));
    }

    fn check_object_keys(all: [&Self; 2]) {
        agree::<table::Objects>(all.map(|of| {
            let (kind, object) = (ObjectKind::Identity, ObjectId(of.number));
            ObjectKey { account: of.account, kind, object }
        }));
        agree::<table::ObjectByModseq>(all.map(|of| {
            let (kind, modseq) = (ObjectKind::EmailSubmission, ModSeq(of.number));
            ObjectModSeqKey { account: of.account, kind, modseq }
        }));
    }
}
